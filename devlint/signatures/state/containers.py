"""Lists, tuples, dicts and batches: what they hold, and what loops take from them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from devlint.signatures.state.frame import CONTENTS, STORED, Frame
from devlint.signatures.state.objects import extended, is_moved_batch, is_moved_item, place_of
from devlint.signatures.values.conditions import TRUE
from devlint.signatures.values.values import (
    A_NUMBER,
    BATCH,
    CONSTANT,
    DICT,
    EITHER,
    EMPTY,
    LIST,
    MAX_PARTS,
    MODULE,
    MODULES,
    NEVER,
    NOTHING,
    NUMBER,
    OBJECT,
    OR_ARRAY,
    RANKED,
    STATE_DICT,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    ZERO_DIM,
    Made,
    Value,
    constant,
    either,
    mapped,
    rank_of,
)
from devlint.source.trees import bound_once

EACH = "each"
ITEMS = "items"
# A loop over so few known things is read once for each.
MAX_UNROLLED = 4


def contents_of(frame: Frame, value: Value) -> Value | None:
    """What a container holds, as a value of kind TUPLE (part by part), ITEMS (by key) or EACH (all alike)."""
    if value.kind is TUPLE:
        return value
    if value.kind in (LIST, DICT, OBJECT) or value.kind in MODULES:
        found = frame.slot(value, CONTENTS)
        if found is None and value.cell is None and value.path is not None:
            found = frame.reader.original(frame, value.path, CONTENTS)
            if found is NOTHING:
                return None
        return found
    return None


def length_of(frame: Frame, value: Value) -> Value:
    """How many parts a container has; of an input, a number that whoever calls knows."""
    contents = contents_of(frame, value)
    if contents is not None and contents.kind in (TUPLE, ITEMS) and not frame.breaks:
        return constant(len(contents.parts))
    return Value(NUMBER, path=(*value.path, "#len") if value.path else None)


def made(frame: Frame, kind: str, contents: Value, node: ast.AST) -> Value:
    """A new list or dict."""
    cell = frame.new_cell(node)
    frame.env[cell, CONTENTS] = contents
    return Value(kind, cell=cell)


def sequence(parts: Iterable[Value], frame: Frame) -> Value:
    """The contents of a list whose parts are known."""
    known = tuple(parts)
    return Value(TUPLE, parts=known) if len(known) <= MAX_PARTS else each_of(known, frame)


def each_of(parts: Sequence[Value], frame: Frame) -> Value:
    """Contents of which no part is told from another."""
    return Value(EACH, parts=(any_of(parts, frame),))


def any_of(parts: Sequence[Value], frame: Frame) -> Value:
    """One of several values, each as likely as the others."""
    distinct = list(dict.fromkeys(parts))
    if not distinct:
        return NEVER
    if len(distinct) == 1:
        return distinct[0]
    if len(distinct) > 5:
        return _common(distinct)
    options = []
    rest = TRUE
    for part in distinct[:-1]:
        atom = frame.atoms.forgotten()
        options.append((frame.atoms.both(rest, atom), part))
        rest = frame.atoms.both(rest, frame.atoms.negated(atom))
    return either([*options, (rest, distinct[-1])], frame.atoms)


def _common(values: Sequence[Value]) -> Value:
    first = values[0]
    if any(v.parts for v in values):
        # Methods, wrappers, tuples: what they are made of is what tells.
        return NOTHING
    if all(v.kind is first.kind and v.place == first.place for v in values):
        return Value(first.kind, first.place, rank=first.rank if all(v.rank == first.rank for v in values) else "")
    return NOTHING


def all_parts(contents: Value | None, frame: Frame) -> Value:
    """Any part of some contents."""
    if contents is None:
        return NOTHING
    if contents.kind is EITHER:
        return mapped(contents, lambda c: all_parts(c, frame), frame.atoms)
    if contents.kind is EACH:
        found: Value = contents.parts[0]
        return found
    if contents.kind in (TUPLE, ITEMS):
        return any_of([p for p in contents.parts if isinstance(p, Value)], frame)
    return NOTHING


# -- reading -----------------------------------------------------------------------------------------------------------


def item(frame: Frame, value: Value, index: Value, node: ast.expr) -> Value:
    """`value[index]`."""
    if value.kind is EITHER:
        first = isinstance(node, ast.Constant) and node.value == 0
        if first and any(o.kind is CONSTANT and o.data == 0 for _, o in value.parts):
            # `total = 0`, `total += loss`, `total[0]`: a number up to PyTorch 0.3, and nothing that runs since.
            return A_NUMBER
        return mapped(value, lambda option: item(frame, option, index, node), frame.atoms)
    match value.kind:
        case "tensor" if OR_ARRAY in value.tags:
            return Value(TENSOR, UNKNOWN_PLACE, likely=True)
        case "tensor" if rank_of(value) == ZERO_DIM and isinstance(node, ast.Constant) and isinstance(node.value, int):
            # A number in releases before 0.4, and an IndexError since.
            return A_NUMBER
        case "tensor":
            return value.but(path=None, tags=frozenset(), rank=_rank_left(value, node), data=None)
        case "array":
            return value
        case "batch":
            return _batch_item(frame, value, index)
        case "number":
            return A_NUMBER
        case "unknown":
            return _unknown_item(frame, value, index, node)
        case "constant":
            return A_NUMBER
        case "loader":
            return NOTHING
    contents = contents_of(frame, value)
    if contents is None:
        if value.kind in MODULES:
            return mapped(
                place_of(frame, value), lambda p: extended(value, "[]").but(kind=MODULE, place=p.place), frame.atoms
            )
        return extended(value.but(kind=UNKNOWN), written(index)) if value.path is not None else NOTHING
    just_stored = _just_stored(frame, value, contents, node)
    return just_stored or mapped(contents, lambda c: _as_now(frame, _part(frame, value, c, index, node)), frame.atoms)


def _just_stored(frame: Frame, container: Value, contents: Value, index: ast.expr) -> Value | None:
    """What was stored under a name, where neither it nor the container was changed since."""
    known = frame.last_stores.get(container.identity)
    if known is None or not isinstance(index, ast.Name) or index.id != known.name or frame.function is None:
        return None
    same = known.passes == frame.passes and known.contents is contents
    return known.value if same and index.id in bound_once(frame.function.node) else None


def _as_now(frame: Frame, part: Value) -> Value:
    """A part of a list: of the parameters of a module, which may have moved since, and they with it."""
    if part.kind is not TENSOR or not isinstance(part.data, Value):
        return part
    return mapped(place_of(frame, part.data), lambda p: part.but(place=p.place, step=p.step), frame.atoms)


def _part(frame: Frame, owner: Value, contents: Value, index: Value, node: ast.expr) -> Value:
    if contents.kind is TUPLE:
        parts = contents.parts
        if index.kind is CONSTANT and isinstance(index.data, int) and -len(parts) <= index.data < len(parts):
            part: Value = parts[index.data]
            return part
        if isinstance(node, ast.Slice):
            bounds = [_literal(b) for b in (node.lower, node.upper, node.step)]
            if all(b is not Ellipsis for b in bounds):
                kept = Value(TUPLE, parts=parts[slice(*bounds)])  # type: ignore[arg-type]
                return kept if owner.kind is TUPLE else made(frame, LIST, kept, node)
            return made(frame, LIST, each_of(parts, frame), node)
        return any_of(parts, frame)
    if contents.kind is ITEMS:
        if index.kind is CONSTANT and index.data in contents.data:
            part = contents.parts[contents.data.index(index.data)]
            return part
        return NOTHING if index.kind is CONSTANT else any_of(contents.parts, frame)
    if contents.kind is EACH:
        if isinstance(node, ast.Slice):
            return owner
        part = contents.parts[0]
        # Of parts that aren't alike, nobody knows which one has that key.
        return NOTHING if part is NEVER or (_is_key(index) and part.kind is EITHER) else part
    return NOTHING


def _literal(node: ast.expr | None) -> object:
    """A slice's bound: its number, None, or Ellipsis where it isn't known."""
    match node:
        case None:
            return None
        case ast.Constant(value=int() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
            return -number
    return Ellipsis


def _rank_left(value: Value, node: ast.expr) -> str:
    """The rank of a part of a tensor: what surely keeps a dimension is a slice, None or a mask."""
    if value.rank == EMPTY:
        return EMPTY
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    if any(isinstance(p, (ast.Slice, ast.List, ast.Compare)) for p in parts):
        return RANKED
    if any(isinstance(p, ast.Constant) and p.value is None for p in parts):
        return RANKED
    return value.rank if isinstance(node, ast.Constant) and node.value is ... else ""


def written(index: Value) -> str:
    """How a path says an index: `["image"]`, or `[]` for one that isn't known."""
    return f"[{index.data!r}]" if index.kind is CONSTANT else "[]"


def _is_key(index: Value) -> bool:
    """Whether something is asked for by a name: `batch["image"]`."""
    return index.kind is CONSTANT and isinstance(index.data, str)


def _batch_item(frame: Frame, batch: Value, index: Value) -> Value:
    """A part of a batch: what was stored there, or what came with it."""
    known = frame.slot(batch, written(index)) if index.kind is CONSTANT else None
    if known is not None:
        return known
    if is_moved_batch(frame, batch, by_name=_is_key(index)):
        return Value(BATCH, UNKNOWN_PLACE, likely=True)
    return batch.but(data=None, path=(*batch.path, written(index)) if batch.path and len(batch.path) < 4 else None)


def _is_stored_into(frame: Frame, value: Value) -> bool:
    """Whether something was stored under a key that isn't known: any part may be another one."""
    return value.path is not None and frame.get((value.path, STORED)) is not None


_UNTOLD = Value(UNKNOWN, UNKNOWN_PLACE, likely=True)


def _unknown_item(frame: Frame, value: Value, index: Value, node: ast.expr) -> Value:
    known = frame.slot(value, written(index)) if index.kind is CONSTANT else None
    if known is not None:
        return known
    if (state := part_of_state(value)) is not None:
        return state
    if _is_stored_into(frame, value) or (_is_key(index) and is_moved_item(frame, value)):
        return _UNTOLD
    is_view = isinstance(node, ast.Tuple) and not any(_is_text(e) for e in node.elts)
    if is_view or isinstance(node, ast.Slice):
        # `x[:, 0]`: only tensors and arrays take that.
        return Value(
            UNKNOWN, value.place, data=value.path or value.data, likely=is_view or value.likely, step=value.step,
            rank=_rank_left(value, node), tags=value.tags & {"mixed"},
        )  # fmt: skip
    if index.kind is TENSOR and value.path is None and isinstance(value.data, tuple):
        # What was moved, or computed, and is indexed by a tensor is a tensor.
        return Value(TENSOR, value.place, likely=True, step=value.step)
    return extended(value, written(index))


def part_of_state(value: Value) -> Value | None:
    """A tensor of a state dict, where its module was when the dict was made; None of anything else."""
    made = value.data
    if not isinstance(made, Made) or made.name != STATE_DICT or made.of is None or value.place == UNKNOWN_PLACE:
        return None
    return parameter(made.of, value)


def parameter(module: Value, at: Value) -> Value:
    """A parameter of a module that is at a place; where nothing counts calls, each has dimensions."""
    name = module.data
    ranked = isinstance(name, str) and name.startswith("torch.nn.") and not name.endswith(_MAY_COUNT)
    rank = RANKED if ranked else ""
    return Value(TENSOR, at.place, rank=rank, step=at.step, likely=module.likely or at.likely)


# Modules of torch that may hold `num_batches_tracked`, which has no dimension, or other modules that do.
_MAY_COUNT = (".Module", "Norm", "Norm1d", "Norm2d", "Norm3d", ".Sequential", ".ModuleList", ".ModuleDict")


def _is_text(node: ast.expr) -> bool:
    """Whether an element of a tuple that indexes says that this is the key of a dict: `inputs["color", 0]`."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def unpacked(frame: Frame, value: Value, targets: Sequence[ast.expr]) -> list[Value]:
    """What each of the targets gets."""
    count = len(targets)
    starred = next((i for i, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
    found: list[list[tuple[frozenset[frozenset[int]], Value]]] = [[] for _ in targets]
    nested = any(isinstance(t, (ast.Tuple, ast.List)) for t in targets)
    for condition, option in value.options():
        # `x, (h, w) = ...` takes apart what holds more than one tensor, whatever is known of it.
        parts = (
            [NOTHING] * count if nested and option.kind is TENSOR else _unpacked_plain(frame, option, count, starred)
        )
        for place, part in zip(found, parts, strict=True):
            place.append((condition, part))
    return [either(options, frame.atoms) if options else NOTHING for options in found]


def _unpacked_plain(frame: Frame, value: Value, count: int, starred: int | None) -> list[Value]:
    contents = contents_of(frame, value)
    if contents is not None and contents.kind is TUPLE and value.kind is not DICT:
        parts = contents.parts
        if starred is None and len(parts) == count:
            return list(parts)
        if starred is not None and len(parts) >= count - 1:
            after = count - starred - 1
            end = len(parts) - after
            rest = made(frame, LIST, sequence(parts[starred:end], frame), ast.Pass())
            return [*parts[:starred], rest, *parts[end:]]
    if value.kind is UNKNOWN and value.path is None and "computed" in value.tags:
        # What a module gives that isn't known: their use tells which of them are tensors.
        turn = f"#{frame.reader.turn()}"
        return [Value(UNKNOWN, value.place, likely=True, step=value.step, data=(turn, f"[{i}]")) for i in range(count)]
    if value.kind is UNKNOWN and value.path is not None:
        return [
            extended(value, f"[{i}]") if i != starred else Value(UNKNOWN, value.place, likely=True, data=value.path)
            for i in range(count)
        ]
    if value.kind is BATCH:
        return [_batch_item(frame, value, Value(CONSTANT, data=i)) for i in range(count)]
    each = element(frame, value)
    return [NOTHING if each is NEVER else each] * count


# -- loops -------------------------------------------------------------------------------------------------------------


def element(frame: Frame, value: Value) -> Value:
    """What one turn of a `for` over a value gives."""
    if value.kind is EITHER:
        return mapped(value, lambda option: element(frame, option), frame.atoms)
    match value.kind:
        case "tensor":
            return value.but(path=None, tags=frozenset(), rank="", data=None)
        case "array" | "number":
            return value
        case "batch":
            return value.but(data=None)
        case "loader":
            return _batch_of(frame, value)
        case "dict" | "range":
            return A_NUMBER
        case "unknown":
            return _UNTOLD if _is_stored_into(frame, value) else extended(value, "[]")
        case "object":
            return frame.reader.iterated(frame, value)
    contents = contents_of(frame, value)
    if contents is None:
        if value.kind in MODULES:
            return mapped(
                place_of(frame, value), lambda p: extended(value, "[]").but(kind=MODULE, place=p.place), frame.atoms
            )
        return extended(value.but(kind=UNKNOWN), "[]") if value.path is not None else NOTHING
    return all_parts(contents, frame)


def _batch_of(frame: Frame, loader: Value) -> Value:
    """What a loader gives: batches on the host, unless something may have moved them."""
    if loader.data == "collated":
        each: Value = loader.parts[1]
        return each
    path = (f"#{frame.reader.turn()}",)
    return Value(
        BATCH, loader.place, likely=True, rank=RANKED, step=loader.step, data="item", path=path, tags=loader.tags
    )


def is_empty(frame: Frame, value: Value) -> bool:
    """Whether there is surely nothing to loop over."""
    contents = contents_of(frame, value)
    if contents is not None and contents.kind in (TUPLE, ITEMS):
        return not contents.parts
    return value.kind == "range" and value.data == 0


def is_filled(frame: Frame, value: Value) -> bool:
    """Whether there is surely something to loop over."""
    contents = contents_of(frame, value)
    if contents is not None and contents.kind in (TUPLE, ITEMS):
        return bool(contents.parts)
    if contents is not None and contents.kind is EACH:
        # A module without any is nowhere: it doesn't matter then what the loop does.
        each = contents.parts[0].options()
        return bool(each) and all(_are_parameters(option) for _, option in each)
    return value.kind == "range" and bool(value.data)


def _are_parameters(value: Value) -> bool:
    """Whether something is one of the parameters or buffers of a module, or that with its name."""
    part = value.parts[-1] if value.kind is TUPLE and value.parts else value
    return part.kind is TENSOR and isinstance(part.data, Value)


def parts_in_turn(frame: Frame, value: Value) -> Sequence[Value] | None:
    """The few things that a loop takes one after another, where they differ and are known one by one."""
    contents = contents_of(frame, value)
    if contents is None or contents.kind is not TUPLE or value.kind is DICT:
        return None
    if not 0 < len(contents.parts) <= MAX_UNROLLED or len(set(contents.parts)) == 1 < len(contents.parts):
        return None
    # Things that can be moved are worth it: numbers and strings all do the same.
    worth = (TENSOR, TUPLE, LIST, OBJECT, "wrapper", MODULE)
    if not any(
        option.kind in worth or (option.kind is CONSTANT and isinstance(option.data, str))
        for part in contents.parts
        for _, option in part.options()
    ):
        return None
    return contents.parts


def after_loop(frame: Frame, stored: dict[Value, Value]) -> None:
    """A loop is through: what each pass stored under its own key or index holds for all parts."""
    for container, value in stored.items():
        frame.env[container.identity, CONTENTS] = Value(EACH, parts=(value,))
