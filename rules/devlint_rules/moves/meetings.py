"""Where a tensor attribute that stays on the host would meet moved tensors, were its module on an accelerator."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from devlint.knowledge import canonical, torch_knowledge
from devlint.placement.dimensions import dimensions
from devlint.placement.loops import STEP_FUNCTIONS
from devlint.placement.values import HOST, Kind, Sort, Step, Value, accelerator

if TYPE_CHECKING:
    from devlint.facts import Facts
    from devlint.placement.classes import ClassModel
    from devlint.placement.sources import FunctionModel

# What a framework or the user calls with the inputs of a module that was moved.
ENTRIES = ("forward", *STEP_FUNCTIONS)
# Methods that lead on from there are followed up to this many.
MAX_METHODS = 16

CUDA = accelerator("cuda")
# Takes operands from different places, or looks at their shape and type alone.
AGNOSTIC = frozenset(
    {"to", "type_as", "copy_", "set_", "expand_as", "view_as", "reshape_as", "is_same_size", "can_cast", "result_type",
     "promote_types", "broadcast_tensors", "meshgrid", "ctc_loss", "tensor_split", "index_put", "index_put_", "split",
     "split_with_sizes", "record_stream", "backward", "register_hook", "resize_as_", "unflatten"}
)  # fmt: skip


class Meeting(NamedTuple):
    """An operation whose operands would be at different places."""

    node: ast.expr
    function: FunctionModel
    # The other operand, or what calls for one there, is a tensor by its name or use alone.
    likely: bool


class _Run(NamedTuple):
    """One method, run as if its module and its inputs were on an accelerator."""

    function: FunctionModel
    record: dict[ast.expr, Value]
    # Parameters that are taken for tensors for want of anything better.
    guessed: frozenset[str]


def meeting(cls: ClassModel, attribute: str, host: Value, least: int, facts: Facts) -> Meeting | None:
    """The first place where a tensor attribute of a class meets what `module.to` and the caller have moved.

    `host` is its value, and `least` the dimensions that it has at least.
    """
    step = Step(f"self.{attribute}", "<attribute>", 0, 0)
    marked = replace(host, trail=(step,))
    me = Value(Kind.MODULE, CUDA, cls=cls, keys=(attribute,), elements=(marked,), depth=1, site="self")
    for run in _runs(cls, me, facts):
        if run.function.source is not facts.model.source:
            continue
        for node in run.function.nodes:
            if isinstance(node, ast.expr | ast.AugAssign):
                found = _Operation(run, node, step, {f"self.{attribute}": least}, facts).meets()
                if found is not None:
                    return found
    return None


def _runs(cls: ClassModel, me: Value, facts: Facts) -> Iterator[_Run]:
    """`forward` and the methods that it calls."""
    entries = [f for name in ENTRIES if (f := cls.method(name)) is not None]
    waiting = [(f, *_inputs(f, me, facts)) for f in entries]
    seen = set(entries)
    while waiting and len(seen) <= MAX_METHODS:
        function, given, guessed = waiting.pop(0)
        record = facts.model.supposing(function, given)
        yield _Run(function, record, guessed)
        for node in function.nodes:
            if isinstance(node, ast.Call) and (called := _own_method(node, cls)) is not None and called not in seen:
                seen.add(called)
                waiting.append((called, _arguments(node, called, me, record), frozenset()))


def _inputs(function: FunctionModel, me: Value, facts: Facts) -> tuple[dict[str, Value], frozenset[str]]:
    """The parameters of a method that is called from outside: tensors come moved, and the first one is a tensor."""
    given = {name: _moved(value) for name, value in facts.model.declared(function).items()}
    if not function.parameters:
        return given, frozenset()
    given[function.parameters[0].arg] = me
    guessed = frozenset(
        a.arg
        for a in function.parameters[1:2]
        if given[a.arg].kind is Kind.UNKNOWN and a.annotation is None and not function.node.args.defaults
    )
    given |= {name: Value(Kind.TENSOR, CUDA, likely=True) for name in guessed}
    return given, guessed


def _moved(value: Value) -> Value:
    """An input as it comes to a module that was moved."""
    match value.kind:
        case Kind.TENSOR | Kind.BATCH if value.place.sort is Sort.UNKNOWN:
            return replace(value, place=CUDA)
        case Kind.SEQUENCE | Kind.MAPPING:
            elements = tuple(_moved(e) for e in value.elements) if value.elements is not None else None
            return replace(value, elements=elements, each=_moved(value.each) if value.each is not None else None)
    return value


def _own_method(call: ast.Call, cls: ClassModel) -> FunctionModel | None:
    match call.func:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return cls.method(name)
    return None


def _arguments(call: ast.Call, function: FunctionModel, me: Value, record: dict[ast.expr, Value]) -> dict[str, Value]:
    """What a call of a method of the same object gives it."""
    names = [a.arg for a in function.parameters]
    given: dict[str, Value] = {}
    if not function.is_static and names:
        given[names.pop(0)] = me
    if not any(isinstance(a, ast.Starred) for a in call.args):
        given |= {name: record[a] for name, a in zip(names, call.args, strict=False) if a in record}
    given |= {k.arg: record[k.value] for k in call.keywords if k.arg in names and k.value in record}
    # What isn't known of an argument may be known of the parameter.
    return {name: value for name, value in given.items() if value.kind is not Kind.UNKNOWN}


class _Operation:
    """One expression or `x += y` of a run, judged for the attribute that the step marks."""

    def __init__(
        self, run: _Run, node: ast.expr | ast.AugAssign, step: Step, known: dict[str, int], facts: Facts
    ) -> None:
        self._run = run
        self._node = node
        self._step = step
        self._known = known
        self._facts = facts

    def meets(self) -> Meeting | None:
        """The meeting of this operation's operands; None where they go together."""
        match self._node:
            case ast.BinOp(left=left, right=right):
                return self._mixed([left, right])
            case ast.Compare(left=left, comparators=[right], ops=[op]) if not isinstance(
                op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)
            ):
                return self._mixed([left, right])
            case ast.AugAssign(target=target, value=value):
                # The target's own record is that of the result: off the host, where one side of it is.
                return self._met(target, value) if self._stays(value) and self._has_dimensions(value) else None
            case ast.Subscript(value=value, slice=index) if self._stays(value):
                return self._indexed(index)
            case ast.Call():
                return self._called(self._node)
        return None

    def _value(self, node: ast.expr) -> Value:
        return self._run.record.get(node, Value(Kind.UNKNOWN))

    def _stays(self, node: ast.expr) -> bool:
        """Whether an operand is the attribute, or made of it, and still on the host."""
        value = self._value(node)
        return value.is_tensor and value.place == HOST and self._step in value.trail

    def _has_dimensions(self, node: ast.expr) -> bool:
        self._facts.model.ensure(self._run.function)
        return dimensions(node, self._facts.model, self._known) > 0

    def _met(self, other: ast.expr, at: ast.expr) -> Meeting | None:
        """The meeting with another operand that was moved."""
        value = self._value(other)
        if not (value.is_tensor or value.kind is Kind.BATCH) or not value.place.off_host:
            return None
        node = self._node if isinstance(self._node, ast.expr) else at
        return Meeting(node, self._run.function, value.likely)

    def _mixed(self, operands: list[ast.expr]) -> Meeting | None:
        staying = [o for o in operands if self._stays(o) and self._has_dimensions(o)]
        if not staying:
            return None
        return next((found for o in operands if (found := self._met(o, staying[0])) is not None), None)

    def _indexed(self, index: ast.expr) -> Meeting | None:
        """A host tensor doesn't take an index on an accelerator; the reverse it does."""
        for part in index.elts if isinstance(index, ast.Tuple) else [index]:
            guessed = isinstance(part, ast.Name) and part.id in self._run.guessed
            if self._value(part).is_tensor and not guessed and (found := self._met(part, part)) is not None:
                return found
        return None

    def _called(self, call: ast.Call) -> Meeting | None:
        operands = [*call.args, *(k.value for k in call.keywords)]
        callee = self._value(call.func)
        if isinstance(call.func, ast.Attribute):
            receiver = self._value(call.func.value)
            if receiver.is_tensor:
                known = call.func.attr in torch_knowledge().tensor_methods and not _is_agnostic(call.func.attr)
                return self._mixed(_flat([call.func.value, *operands])) if known else None
        if callee.kind is Kind.MODULE:
            return self._into_module(call, callee)
        name = canonical(callee.name) if callee.kind is Kind.REFERENCE else ""
        mixes = name in torch_knowledge().functions and name not in torch_knowledge().factories
        if mixes and not name.startswith("torch.nn.init.") and not _is_agnostic(name.rsplit(".", 1)[1]):
            return self._mixed(_flat(operands))
        return None

    def _into_module(self, call: ast.Call, module: Value) -> Meeting | None:
        """The attribute as the input of a layer whose parameters were moved."""
        stateful = module.name.startswith("torch.nn.") and module.name not in torch_knowledge().stateless
        if not stateful or not module.place.off_host or not call.args or not self._stays(call.args[0]):
            return None
        return Meeting(call, self._run.function, module.likely)


def _flat(operands: list[ast.expr]) -> list[ast.expr]:
    """Operands, those in a list one by one: `torch.cat([x, self.token])`."""
    return [e for o in operands for e in (o.elts if isinstance(o, (ast.List, ast.Tuple)) else [o])]


def _is_agnostic(name: str) -> bool:
    return name in AGNOSTIC or name.endswith("_like") or name.startswith("new_")
