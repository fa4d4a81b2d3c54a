"""Writes devlint/knowledge/metrics.json: how often one update of a metric makes the host wait, and which metrics refuse
inputs that are elsewhere, found by trying.

    python tools/metric_waits.py            # needs torchmetrics, torcheval, pytorch-ignite and monai

Each metric of the libraries is made with each choice of the options that may matter, and its second update is
watched under virtual CUDA (the first one makes room). Options that turn out not to matter are left out. What needs
other inputs than those below is left out as well, and the linter is silent about it. Metrics that are modules are also
left on the host and given inputs on the accelerator, each in turn.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module, metadata
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from devlint.runtime import virtual_cuda, watch_devices

OUTPUT = Path(__file__).resolve().parent.parent / "devlint" / "knowledge" / "metrics.json"
SAMPLES, CLASSES = 8, 3

# What may matter, by the name of a constructor's parameter. Its own default is tried first.
CHOICES: dict[str, tuple[object, ...]] = {
    "task": ("binary", "multiclass", "multilabel"),
    "average": ("micro", "macro", "weighted", "none"),
    "top_k": (1, 2),
    "thresholds": (None, 5),
    "ignore_index": (None, 0),
    "multidim_average": ("global", "samplewise"),
    "validate_args": (True, False),
    "nan_strategy": ("warn", "error", "ignore", 0.0, "disable"),
    "device": (None, "cuda"),
    "normalize": (None, "true"),
    "squared": (True, False),
    "include_background": (True, False),
    "is_multilabel": (False, True),
}
# What a constructor can't do without, by the parameter's name.
REQUIRED: dict[str, object] = {
    "num_classes": CLASSES,
    "num_labels": CLASSES,
    "num_outputs": 1,
    "num_groups": 2,
    "beta": 0.5,
    "p": 2,
    "min_precision": 0.5,
    "min_recall": 0.5,
    "min_specificity": 0.5,
    "min_sensitivity": 0.5,
    "data_range": 1.0,
    "threshold": 0.5,
    "k": 2,
}
# What each library's update is called as; a metric that is a module, or can be called, may also just be called.
HOW = ("update", "call")


class Form(NamedTuple):
    """One form of the arguments: what the predictions are, and a maker of the arguments."""

    name: str
    make: Callable[[], tuple[torch.Tensor, ...]]


def _ids(*shape: int, classes: int = CLASSES) -> torch.Tensor:
    return (torch.arange(math.prod(shape)) % classes).reshape(shape)


def _scores(*shape: int) -> torch.Tensor:
    return torch.linspace(0.1, 0.9, math.prod(shape)).reshape(shape)


def _one_hot(*shape: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(_ids(*shape), CLASSES).movedim(-1, 1).contiguous()


FORMS: dict[str, tuple[Form, ...]] = {
    "binary": (
        Form("scores", lambda: (_scores(SAMPLES), _ids(SAMPLES, classes=2))),
        Form("labels", lambda: (_ids(SAMPLES, classes=2), _ids(SAMPLES, classes=2))),
    ),
    "multiclass": (
        Form("scores", lambda: (_scores(SAMPLES, CLASSES).softmax(-1), _ids(SAMPLES))),
        Form("labels", lambda: (_ids(SAMPLES), _ids(SAMPLES))),
    ),
    "multilabel": (
        Form("scores", lambda: (_scores(SAMPLES, CLASSES), _ids(SAMPLES, CLASSES, classes=2))),
        Form("labels", lambda: (_ids(SAMPLES, CLASSES, classes=2), _ids(SAMPLES, CLASSES, classes=2))),
    ),
    "one value": (Form("scores", lambda: (_scores(SAMPLES),)),),
    "two values": (Form("scores", lambda: (_scores(SAMPLES), _scores(SAMPLES) ** 2)),),
    "images": (Form("scores", lambda: (_scores(2, 3, 32, 32), _scores(2, 3, 32, 32) ** 2)),),
    "queries": (
        Form("scores", lambda: (_scores(SAMPLES), _ids(SAMPLES, classes=2), torch.arange(SAMPLES) // 4)),
    ),
    "segments": (Form("labels", lambda: (_one_hot(2, 16, 16), _one_hot(2, 16, 16))),),
    "tokens": (Form("scores", lambda: (_scores(2, 4, CLASSES).softmax(-1), _ids(2, 4))),),
    "two labels": (Form("labels", lambda: (_ids(SAMPLES), _ids(SAMPLES, classes=2))),),
}  # fmt: skip


class Library(NamedTuple):
    """A library, by the module of its distribution, and the inputs that the classes of its modules take."""

    distribution: str
    modules: dict[str, tuple[str, ...]]
    # Its `update` takes one tuple.
    packed: bool = False


ANY_CLASS = ("multiclass", "binary", "multilabel")
LIBRARIES = (
    Library(
        "torchmetrics",
        {
            "torchmetrics.classification": ANY_CLASS,
            "torchmetrics.regression": ("two values",),
            "torchmetrics.aggregation": ("one value",),
            "torchmetrics.image": ("images",),
            "torchmetrics.retrieval": ("queries",),
            "torchmetrics.segmentation": ("segments",),
            "torchmetrics.clustering": ("two labels",),
            "torchmetrics.text": ("tokens",),
            "torchmetrics.functional.classification": ANY_CLASS,
            "torchmetrics.functional.regression": ("two values",),
            "torchmetrics.functional.image": ("images",),
        },
    ),
    Library("torcheval", {"torcheval.metrics": (*ANY_CLASS, "one value", "two values", "tokens")}),
    Library("pytorch-ignite", {"ignite.metrics": (*ANY_CLASS, "two values", "images")}, packed=True),
    Library("monai", {"monai.metrics": ("segments", "images")}),
)


def metrics(module_name: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public metrics of a module: its classes, and the functions of a module of functions."""
    module = import_module(module_name)
    for name in sorted(getattr(module, "__all__", None) or dir(module)):
        found = getattr(module, name, None)
        is_class = inspect.isclass(found) and not inspect.isabstract(found)
        if (is_class and callable(getattr(found, "update", found))) or (
            inspect.isfunction(found) and ".functional." in module_name
        ):
            yield name, found


def suits(name: str, given: str) -> bool:
    """Whether a metric takes an input, as far as its name tells: `MulticlassAccuracy` takes that of classes."""
    told = next((task for task in ANY_CLASS if name.lower().startswith(task)), None)
    return told is None or told == given


def parameters(made: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """What a function takes, or a constructor, or the `__new__` of a class that stands for several."""
    source: Any = made
    if inspect.isclass(made):
        source = made.__new__ if "task" in inspect.signature(made.__new__).parameters else made.__init__
    return {n: p for n, p in inspect.signature(source).parameters.items() if n not in ("self", "cls")}


def choices_of(taken: dict[str, inspect.Parameter]) -> dict[str, list[object]]:
    """The options of a metric that may matter, each with its default first."""
    found = {}
    for name in CHOICES.keys() & taken.keys():
        default = taken[name].default
        has_default = default is not inspect.Parameter.empty
        if has_default and not isinstance(default, (str, int, float, type(None))):
            continue
        others = [v for v in CHOICES[name] if not has_default or (v, type(v)) != (default, type(default))]
        found[name] = [default, *others] if has_default else others
    return {name: found[name] for name in CHOICES if name in found}


def build(made: Callable[..., Any], taken: dict[str, inspect.Parameter], options: dict[str, object]) -> Any:
    """An object of a class, or a function that only waits for its tensors."""
    needed = {
        n: REQUIRED[n]
        for n, p in taken.items()
        if n in REQUIRED and n not in options and (p.default is p.empty or p.default is None)
    }
    return made(**needed, **options) if inspect.isclass(made) else partial(made, **needed, **options)


def waits(make: Callable[[], Any], how: str, given: tuple[torch.Tensor, ...], *, packed: bool) -> int | None:
    """How often the host waits in the second update; None where the class can't be made, or refuses the input."""
    try:
        with virtual_cuda(1):
            metric = make()
            if isinstance(metric, torch.nn.Module):
                metric = metric.to("cuda")
            call = metric if how == "call" else metric.update
            arguments = [tensor.cuda() for tensor in given]
            update = (lambda: call(tuple(arguments))) if packed else (lambda: call(*arguments))
            update()
            with watch_devices() as watched:
                update()
            return watched.report().sync_count
    except Exception:
        # Libraries refuse an option or a shape each in their own way.
        return None


def measured(name: str, made: Callable[..., Any], inputs: tuple[str, ...], *, packed: bool) -> dict[str, Any] | None:
    """The table of a metric: its options, and the waits for each choice of them in the order of `itertools.product`."""
    taken = parameters(made)
    options = choices_of(taken)
    # Called by itself where that is an update: a metric of ignite is attached to an engine instead.
    how = [h for h in HOW if h == "update" or (not packed and "__call__" in dir(made))]
    how = [h for h in how if h == "call" or hasattr(made, "update")]
    table: dict[str, list[object]] = {"how": list(how), "predictions": ["scores", "labels"], **options}
    rows: dict[tuple[object, ...], int | None] = {}
    for chosen in product(*table.values()):
        way, form, *values = chosen
        given = dict(zip(options, values, strict=True))
        found = [
            count
            for kind in inputs
            if suits(name, kind) and given.get("task", kind) == kind
            for f in FORMS[kind]
            if f.name == form
            for count in (waits(partial(build, made, taken, given), str(way), f.make(), packed=packed),)
            if count is not None
        ]
        rows[chosen] = min(found, default=None)
    if not any(rows.values()):
        # It never waits, or takes none of these inputs.
        return None
    return _compact(table, rows, taken)


def _compact(
    table: dict[str, list[object]],
    rows: dict[tuple[object, ...], int | None],
    taken: dict[str, inspect.Parameter],
) -> dict[str, Any]:
    """The table without the options that don't matter."""
    for name in [n for n in table if n != "how"]:
        at = list(table).index(name)
        known = {
            key[:at] + key[at + 1 :]: {rows[(*key[:at], value, *key[at + 1 :])] for value in table[name]} - {None}
            for key in rows
        }
        if all(len(counts) <= 1 for counts in known.values()):
            rows = {key: next(iter(counts), None) for key, counts in known.items()}
            table = {n: values for n, values in table.items() if n != name}
    names = list(taken)
    return {
        "options": {
            name: {
                "values": values,
                "position": names.index(name) if name in taken else None,
                "default": name in taken and taken[name].default is not inspect.Parameter.empty,
            }
            for name, values in table.items()
        },
        "waits": [rows[chosen] for chosen in product(*table.values())],
    }


def refuses(made: Callable[..., Any], inputs: tuple[str, ...], name: str) -> bool:
    """Whether a metric on the host refuses all inputs on the accelerator that it takes there."""
    taken = parameters(made)
    averages = [{"average": a} for a in CHOICES["average"]] if "average" in taken else [{}]
    tried = [
        (partial(build, made, taken, options | ({"task": kind} if "task" in taken else {})), form.make)
        for kind in inputs
        if suits(name, kind)
        for options in averages
        for form in FORMS[kind]
    ]
    with virtual_cuda(1):
        works = [(make, given) for make, given in tried if _takes(make, given())]
        return bool(works) and not any(_takes(make, [tensor.cuda() for tensor in given()]) for make, given in works)


def _takes(make: Callable[[], Any], given: Iterable[torch.Tensor]) -> bool:
    """Whether a metric can be made, and updated with an input."""
    try:
        make().update(*given)
    except Exception:
        # Libraries refuse an option, a shape or a device each in their own way.
        return False
    return True


def main() -> int:
    warnings.simplefilter("ignore")
    tables: list[dict[str, Any]] = []
    result: dict[str, Any] = {"versions": {}, "metrics": {}, "tables": tables, "one_device": []}
    for library in LIBRARIES:
        result["versions"][library.distribution] = metadata.version(library.distribution)
        for module, inputs in library.modules.items():
            for name, made in metrics(module):
                is_module = inspect.isclass(made) and issubclass(made, torch.nn.Module)
                if is_module and refuses(made, inputs, name):
                    result["one_device"].append(f"{module.partition('.')[0]}.{name}")
                table = measured(name, made, inputs, packed=library.packed)
                if table is not None:
                    # Many metrics have one in common.
                    tables += [table] if table not in tables else []
                    result["metrics"][f"{module.partition('.')[0]}.{name}"] = tables.index(table)
                    print(f"{module}.{name}: {sorted({w for w in table['waits'] if w is not None})}", file=sys.stderr)
    OUTPUT.write_text(json.dumps(result, separators=(",", ":"), sort_keys=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
