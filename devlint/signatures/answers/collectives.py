"""Collectives of one function whose tensors are at different places: the backend takes one kind."""

from __future__ import annotations

import ast
from typing import NamedTuple

from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.frame import Frame
from devlint.signatures.state.outcome import Wait
from devlint.signatures.state.waits import COLLECTIVE
from devlint.signatures.values.values import HOST, TENSOR, Step, Value, leaves, steps_to
from devlint.source.modules import SourceModule


class Apart(NamedTuple):
    """A collective that is asked for a tensor on the host, where another one of the function is asked for an input's."""

    call: ast.Call
    asked: ast.expr
    # What the other one is asked for.
    other: ast.expr
    trail: tuple[Step, ...]


def collectives_apart(reader: Reader, source: SourceModule) -> dict[ast.Call, Apart]:
    """Those of a file whose scopes were read."""
    found: dict[ast.Call, Apart] = {}
    for frame in reader.frames_in(source):
        asked = [w for w in frame.waits if w.sense == COLLECTIVE and not w.supposed]
        for wait in asked:
            host = _on_host(frame, wait)
            other = next((w for w in asked if w.asked is not wait.asked and _goes_by_input(frame, w)), None)
            if host is not None and other is not None and isinstance(wait.node, ast.Call):
                found[wait.node] = Apart(wait.node, wait.asked, other.asked, steps_to(host.step))
    return found


def _on_host(frame: Frame, wait: Wait) -> Value | None:
    """What is on the host of a tensor, on some path at least."""
    for condition, option in leaves(wait.value, frame.atoms):
        joint = frame.atoms.both(wait.path, condition)
        if option.kind is TENSOR and option.place == HOST and joint and not frame.atoms.with_host(joint):
            return option
    return None


def _goes_by_input(frame: Frame, wait: Wait) -> bool:
    """Whether a tensor is on an accelerator, or where an input is, on all paths."""
    options = [option for _, option in leaves(wait.value, frame.atoms)]
    return bool(options) and all(o.kind is TENSOR and (o.place.off_host or o.place.is_open) for o in options)
