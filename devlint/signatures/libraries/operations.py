"""Functions and methods of torch, as the facts about operators tell: what they ask of their tensors, and what they give."""

from __future__ import annotations

import ast

from devlint.knowledge.operators import Called, Operator
from devlint.signatures.state import containers
from devlint.signatures.state.frame import Call, Frame
from devlint.signatures.values.values import (
    A_NUMBER,
    BATCH,
    CONSTANT,
    DEVICE,
    DISTRIBUTION,
    EITHER,
    HOST,
    LIST,
    NOTHING,
    NUMBER,
    OF_HOST,
    OUTCOME,
    RANKED,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    ZERO_DIM,
    Value,
    broadcast,
    mapped,
    rank_of,
)
from devlint.source.modules import last_name

Named = tuple[str, ast.expr, Value]
# What computes with one tensor for each of its parameters; but for the states of recurrent modules, called `hx`.
_OF_SINGLE_TENSORS = "torch.nn."
_OF_SEVERAL = "torch.nn.utils."
_NO_TENSORS = (CONSTANT, NUMBER, OUTCOME, DEVICE, "count", "range")


def operands_of(call: Call, facts: Called) -> list[Named]:
    """The arguments of a call that may be tensors, or lists of them, each under its parameter's name."""
    found: list[Named] = []
    for position, (node, value) in enumerate(call.given):
        for name, part_node, part in _spread(call, facts.params.at(position), node, value, facts):
            found.append((name, part_node, part))
    for name, (node, value) in call.keywords.items():
        found += _spread(call, (name,), node, value, facts)
    return found


def _spread(call: Call, names: tuple[str, ...], node: ast.expr, value: Value, facts: Called) -> list[Named]:
    if facts.name.startswith(_OF_SINGLE_TENSORS) and not facts.name.startswith(_OF_SEVERAL) and "hx" not in names:
        # Another thing than a tensor isn't what comes here.
        value = mapped(value, lambda v: NOTHING if v.kind in (TUPLE, LIST) else v, call.frame.atoms)
    if value.kind in _NO_TENSORS or not names:
        return []
    # Overloads give a position several names: what the facts speak of is the tensor.
    telling = facts.together | facts.host_ok | facts.host_only
    name = next((n for n in names if n in telling), names[0])
    if value.kind is EITHER:
        # A list of things that are alike stands for each of them, where it may be one thing as well.
        value = mapped(value, lambda v: _each_of(call, v), call.frame.atoms)
    if value.kind in (LIST, TUPLE):
        held = _held(call, value)
        if held is None:
            return []
        parts = held.parts
        spelt = node.elts if isinstance(node, (ast.List, ast.Tuple)) else None
        if spelt is not None and len(spelt) == len(parts):
            return [(name, n, p) for n, p in zip(spelt, parts, strict=True)]
        return [(name, node, held)]
    return [(name, node, value)]


def _each_of(call: Call, value: Value) -> Value:
    held = _held(call, value)
    return value if held is None or len(held.parts) != 1 else held.parts[0]


def _held(call: Call, value: Value) -> Value | None:
    """What a list holds, as a tuple of it."""
    if value.kind not in (LIST, TUPLE):
        return None
    contents = _filled(containers.contents_of(call.frame, value))
    if contents is None:
        return None
    is_told = contents.kind in (TUPLE, containers.EACH)
    return Value(TUPLE, parts=tuple(p for p in contents.parts if isinstance(p, Value)) if is_told else ())


def _filled(contents: Value | None) -> Value | None:
    """What a list holds that a loop may have filled: an operator that is given nothing fails."""
    if contents is None or contents.kind is not EITHER:
        return contents
    filled = [c for _, c in contents.options() if c.kind is not TUPLE or c.parts]
    return filled[0] if len(filled) == 1 else contents


def apply(call: Call, facts: Operator, operands: list[Named]) -> Value:
    """What an operator gives for some operands; what it asks of them is noted."""
    note(call, facts, operands, _short(facts.name))
    frame = call.frame
    # What is refused apart is computed from together; of others it is the first that decides.
    joined = [v for name, _, v in operands if name in facts.together]
    if facts.result in ("first", "data", "to") or not joined:
        joined = [v for _, _, v in operands[:1]]
    rank = _rank(call, facts, operands)
    if facts.result == "host":
        return Value(
            TENSOR, HOST, rank=RANKED if facts.at_least_1 else "", step=call.step(f"given on cpu by `{call.text}`")
        )
    parts = [p for v in joined[:4] for p in _tensors(v)]
    whole = frame.reader.together(frame, call.node, *parts[:4]) if parts else Value(TENSOR, UNKNOWN_PLACE)
    if parts and all(_may_be_number(frame, p) or _is_host_array(p) for p in parts):
        # Beside a tensor on the host that has dimensions there is room for others there alone, and for numbers.
        whole = next(filter(_is_host_array, parts), whole)
    made = mapped(whole, lambda v: _computed(v, rank), frame.atoms)
    return _shaped(call, facts, made)


def _may_be_number(frame: Frame, value: Value) -> bool:
    """Whether nothing says that a value is a tensor which a caller has put somewhere: beside one on the host, that is told by itself."""
    return value.kind is UNKNOWN and not (value.place.is_open and value.path in frame.tensors)


def _is_host_array(value: Value) -> bool:
    """Whether a value is a tensor on the host that has dimensions, or one of a batch that is there."""
    return value.kind in (TENSOR, BATCH) and value.place == HOST and rank_of(value) == RANKED


def note(call: Call, facts: Called, operands: list[Named], shown: str) -> None:
    """Notes what an operator asks of its operands."""
    frame = call.frame
    together = [(node, value) for name, node, value in operands if name in facts.together]
    for _, value in together[:1]:
        for _, option in value.options():
            frame.is_tensor(option)
    if together:
        any_rank = not facts.zero_dim_ok and not _takes_numbers(call)
        if len(together) > 1 or together[0][1].kind is TUPLE:
            frame.need("operation", call.node, shown, *together, any_rank=any_rank)
        for name, node, value in operands:
            if name in facts.host_ok:
                # It may stay on the host; on an accelerator it wants the others there.
                frame.need("index", call.node, shown, together[0], (node, value))
    for name, node, value in operands:
        if name in facts.host_only:
            frame.need("host", call.node, shown, (node, value))


def _takes_numbers(call: Call) -> bool:
    """Whether a bound of `x.clamp(0, top)` is a number: then a tensor without dimensions is read as one too."""
    return last_name(call.node.func).rstrip("_") in _BOUNDED and any(
        value.kind in (NUMBER, CONSTANT) and value != NOTHING for _, value in call.everything()
    )


_BOUNDED = frozenset({"clamp", "clip"})


def _short(name: str) -> str:
    return f".{name.removeprefix('torch.Tensor.')}" if name.startswith("torch.Tensor.") else name


def _tensors(value: Value) -> list[Value]:
    if value.kind is TUPLE:
        return [p for p in value.parts[:4] if isinstance(p, Value) and p.kind in (TENSOR, UNKNOWN, BATCH, EITHER)]
    return [value] if value.kind in (TENSOR, UNKNOWN, BATCH, EITHER, "array") else []


def _computed(value: Value, rank: object) -> Value:
    if "mixed" in value.tags:
        # On the host, or where an input is: that depends on whether the input is a tensor.
        return Value(TENSOR, UNKNOWN_PLACE, rank=rank)
    if value.kind in (TENSOR, UNKNOWN, BATCH):
        likely = value.likely or value.kind is not TENSOR
        return Value(TENSOR, value.place, rank=rank, likely=likely, step=value.step, tags=value.tags & {OF_HOST})
    return Value(TENSOR, UNKNOWN_PLACE, rank=rank)


def _rank(call: Call, facts: Operator, operands: list[Named]) -> object:
    """The rank of a result: surely some dimension, none, or as many as the first operand has."""
    if facts.at_least_1 or _names_second_dimension(call, facts):
        return RANKED
    if facts.rank == "zero":
        told = facts.rank_unless.intersection(call.keywords)
        placed = any(facts.params.at(i) and set(facts.params.at(i)) & facts.rank_unless for i in range(len(call.given)))
        return "" if told or placed or call.open_ended else ZERO_DIM
    if not operands:
        # `torch.div(3, 2)`
        of_numbers = (
            facts.rank == "keeps" and call.given and all(v.kind is NUMBER or _is_number(v) for _, v in call.given)
        )
        return ZERO_DIM if of_numbers else ""
    if facts.rank == "keeps":
        return broadcast(rank_of(v) for name, _, v in operands if name in facts.together or name == operands[0][0])
    return ""


def _is_number(value: Value) -> bool:
    return value.kind is CONSTANT and isinstance(value.data, (int, float))


_DIMENSION = frozenset({"dim", "axis"})


def _names_second_dimension(call: Call, facts: Operator) -> bool:
    """Whether an operator that drops one dimension at most is told a second one: `x.argmax(1)` leaves the first."""
    if facts.rank not in ("zero", "keeps") and not facts.tuple_with & _DIMENSION:
        return False
    named = [value for name, (_, value) in call.keywords.items() if name in _DIMENSION]
    placed = [value for i, (_, value) in enumerate(call.given) if _DIMENSION & set(facts.params.at(i))]
    dimension = next(iter((*named, *placed)), None)
    number = dimension.data if dimension is not None and dimension.kind is CONSTANT else None
    return isinstance(number, int) and not isinstance(number, bool) and not -1 <= number <= 0


def _shaped(call: Call, facts: Operator, made: Value) -> Value:
    """A tensor as the operator gives it: alone, several of them, or with something else."""
    kind = facts.kind
    told = any(name in facts.tuple_with and not _is_off(value) for name, (_, value) in call.keywords.items())
    placed = any(
        set(facts.params.at(i)) & facts.tuple_with and value.kind in (CONSTANT, NUMBER) and not _is_off(value)
        for i, (_, value) in enumerate(call.given)
    )
    if facts.tuple_with and (told or placed):
        return Value(TUPLE, parts=(made, made))
    if facts.parts:
        return Value(
            TUPLE,
            parts=tuple(
                made if p in ("tensor", "batch") else A_NUMBER if p != "tensors" else Value(TUPLE, parts=(made, made))
                for p in facts.parts
            ),
        )
    if kind == "tensors":
        count = len(facts.part_dtypes)
        if count > 1:
            on_host = Value(TENSOR, HOST, rank=RANKED, step=call.step(f"given on cpu by `{call.text}`"))
            places = [*facts.part_places, *("together",) * count][:count]
            return Value(TUPLE, parts=tuple(on_host if place == "host" else made for place in places))
        return containers.made(call.frame, LIST, Value(containers.EACH, parts=(made,)), call.node)
    if kind == "batch":
        if facts.name == "torch.where" and len(call.given) == 1:
            return containers.made(call.frame, LIST, Value(containers.EACH, parts=(made,)), call.node)
        return made
    if kind == "other" and facts.result == "together":
        # A distribution is where its parameters are.
        return mapped(made, lambda v: call.fresh(v.place).but(tags=DISTRIBUTION), call.frame.atoms)
    return made if kind == "tensor" else A_NUMBER


def _is_off(value: Value) -> bool:
    """Whether an option is left as if it weren't given: `as_tuple=False`, `dim=None`."""
    return value.kind is CONSTANT and (value.data is None or value.data is False)
