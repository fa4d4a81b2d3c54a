"""Frameworks that place things by themselves: what their objects do with what they are given.

Source: accelerate.Accelerator (https://huggingface.co/docs/accelerate/package_reference/accelerator). `prepare` moves
modules to the accelerator, in place, and makes loaders that put their batches there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from devlint.placement.values import NONE, PREFERRED, Kind, Value, either, replace, sequence

if TYPE_CHECKING:
    from devlint.placement.request import Call

ACCELERATOR = "accelerate.Accelerator"

# Methods that hand back what they are given, made whole across processes.
_PASSING = frozenset({"gather", "gather_for_metrics", "reduce", "pad_across_processes", "skip_first_batches"})
_PREPARING = frozenset({"prepare", "prepare_model", "prepare_data_loader"})


def accelerator_method(request: Call, name: str) -> Value | None:
    """`accelerator.name(...)`; None for what isn't told of."""
    given = request.positional
    if name in _PREPARING and given and not request.open_ended:
        prepared = [_prepared(request, value) for value in given]
        return prepared[0] if len(prepared) == 1 else sequence(prepared)
    if name in _PASSING and given:
        return given[0]
    if name == "unwrap_model" and given:
        return either((g, v.inner if v.kind is Kind.WRAPPER and v.inner else v) for g, v in given[0].alternatives())
    return NONE if name == "backward" else None


def _prepared(request: Call, value: Value) -> Value:
    step = request.step(f"prepared for the accelerator by `{request.text}`")
    options = []
    for guards, option in value.alternatives():
        if option.is_module:
            for site in filter(None, (option.site, option.inner.site if option.inner is not None else "")):
                request.frame.env.move_site(site, PREFERRED, step, likely=True)
        if option.is_module or option.kind is Kind.LOADER:
            # Settings of the launcher may have it otherwise. What comes back may be a wrapper: it is no longer known by
            # where it was made.
            option = replace(option.at(PREFERRED, step, likely=True), site="")
        options.append((guards, option))
    return either(options)
