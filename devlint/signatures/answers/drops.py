"""Moves of tensors whose result is dropped."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from devlint.knowledge import torch_knowledge
from devlint.regexes import regex
from devlint.signatures.libraries.factories import MADE_OF_DATA
from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.frame import Frame
from devlint.signatures.values.values import BATCH, CONSTANT, METHOD, TENSOR, UNKNOWN, Path, Step, Value, steps_to
from devlint.source.modules import SourceModule
from devlint.source.paths import access_path


@dataclass(frozen=True)
class Drop:
    """A move of what is a tensor, as a statement of its own; `likely` says that only its use tells so."""

    call: ast.Call
    likely: bool
    trail: tuple[Step, ...]


def drops(reader: Reader, source: SourceModule) -> dict[ast.Call, Drop]:
    """The dropped moves of a file whose scopes were read."""
    found: dict[ast.Call, Drop] = {}
    for frame in reader.frames_in(source):
        for call, method in frame.drops.items():
            told = _judged(frame, call, method)
            if told is not None:
                found[call] = told
    return found


def _judged(frame: Frame, call: ast.Call, method: Value) -> Drop | None:
    owners = []
    for condition, option in method.options():
        owner = option.parts[0] if option.kind is METHOD and isinstance(option.data, str) else None
        if owner is None:
            return None
        # Nothing is moved where it is None.
        absent = frame.atoms.literal(("none", owner.path))
        if owner.kind is not CONSTANT and not (condition and frame.atoms.implies(condition, absent)):
            owners.append(owner)
    told = [owner for owner in owners if _is_tensor(frame, call, owner)]
    # What is a part of a batch on one path is so on the others of which nothing is known.
    of_batch = any(owner.kind is BATCH and owner.data != "item" for owner in told)
    if not told or not all(owner in told or (of_batch and owner.kind is UNKNOWN) for owner in owners):
        return None
    likely = any(owner.likely or owner.kind is not TENSOR for owner in owners)
    return Drop(call, likely, steps_to(next((o.step for o in owners if o.step is not None), None)))


def _is_tensor(frame: Frame, call: ast.Call, owner: Value) -> bool:
    """Whether what is moved is no module, and no object with a way of its own to move."""
    if owner.kind is TENSOR:
        return True
    if owner.kind is BATCH and _is_asked_as_object(frame, call):
        return False
    if owner.kind is BATCH:
        # The batch itself may be such an object; a part of it hardly is.
        return owner.data != "item" or (
            isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Subscript)
        )
    path = owner.path or (owner.data if isinstance(owner.data, tuple) else None)
    if owner.kind is UNKNOWN and owner.path is not None and _is_part_of_batch(owner.path):
        return True
    if owner.kind is UNKNOWN and MADE_OF_DATA in owner.tags:
        return True
    if owner.kind is not UNKNOWN or path is None or _is_asked_as_module(frame, path):
        return False
    return path in frame.tensors or path in frame.supposed


def _is_part_of_batch(path: Path) -> bool:
    """Whether an input is a part of what is called a batch, by a key: `batch["image"]`."""
    return len(path) == 2 and str(path[1]).startswith("['") and _BATCH.fullmatch(str(path[0])) is not None


_BATCH = regex(r"(?:.*_)?(?:batch|sample|inputs|encodings?|features)")


def _is_asked_as_object(frame: Frame, call: ast.Call) -> bool:
    """Whether the function asks what it moves for what no tensor has: `graph.batch_size`. Such objects may move in place."""
    moved = access_path(call.func.value) if isinstance(call.func, ast.Attribute) else None
    if moved is None or frame.function is None:
        return False
    known = torch_knowledge()
    asked = re.findall(rf"(?<![\w.]){re.escape(moved)}\.([A-Za-z]\w*)", frame.function.text)
    return any(name not in known.tensor_methods and name not in known.tensor_attributes for name in asked)


def _is_asked_as_module(frame: Frame, path: Path) -> bool:
    """Whether the function, or the class that keeps it, asks an input for what only modules have: `net.eval()`, though `net.norm(x)` may be a tensor's."""
    spelt = "".join(map(str, path))
    if frame.function is None or "[" in spelt:
        return False
    asked = rf"(?<![\w.]){re.escape(spelt)}\.(?:eval|train|forward|parameters|state_dict|load_state_dict|modules|children|zero_grad)\("
    cls = frame.function.cls if len(path) > 1 else None
    text = frame.function.text if cls is None else frame.source.text_of(cls)
    return re.search(asked, text) is not None
