"""DEV504: letting a tensor's value decide at each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, Value, walk
from devlint.knowledge.ecosystem import KEEP_ALL, SIZED_BY_VALUES, WITHOUT_LOOKING
from devlint.lazy import cst, m, regex
from devlint.rule import Effect, Report, Rule
from devlint_rules.hot_loops import by_role, stalls
from devlint_rules.hot_loops.needed import is_needed
from devlint_rules.hot_loops.sized import may_be_sized, sized_by_values

if TYPE_CHECKING:
    from devlint.facts import Facts, HotStall, PlacementModel, Unit

# Builtins that ask their argument, or each part of it, for a truth value.
DECIDING = {f"builtins.{name}" for name in ("bool", "any", "all", "min", "max", "sorted")}
# Functions and methods that read the answer back by themselves.
READING = ("equal", "allclose", "is_nonzero", "isfinite", "isnan", "isinf")
# Of these, what reads the answer back when it is called in this module; torch's own answer with a tensor.
_READING_NAMES = {"torch.equal", "torch.allclose", "torch.is_nonzero", "math.isfinite", "math.isnan", "math.isinf"}
_CHECKS = ("isnan", "isinf", "isfinite")


class BranchOnTensorInHotLoop(Rule):
    """A branch or a size that depends on a tensor's value at each step.

    ## What it does
    Flags `if`, `while`, `assert`, `and`, `or`, `not`, `in`, `bool()`, `min()`, `max()`, `any()`, `all()` and `sorted()`
    over accelerator tensors, and `torch.equal` and `torch.allclose`, at each pass of a hot loop; and what is as large as
    a tensor's values make it: `x[mask]`, `torch.nonzero`, `torch.where` of a condition alone, `masked_select`, `unique`,
    `bincount`, and `one_hot` and `repeat_interleave` that aren't told the size. Left alone: tests of shapes, types and
    `None`, `x[mask] = 0`, which fills on the device, and what stands under a step guard.

    Told where the rule is selected by its code, as in `--select DEV504`, since there is no fix for it: a step that goes by a
    value has to know it, and whoever wrote it mostly meant that.

    In code that is hot by its role (in preview) it tells of what each step comes by, and of the functions of `torch.linalg` that look whether
    they came to an end, and have a form that doesn't (`inv`, `solve`, `cholesky`, `lu_factor`, `ldl_factor`); of what stands where an option leads,
    runs once a request, follows right on another wait, or is only as large as values tell, where it is selected by its code
    as well.

    ## Why is this bad
    The host has to know the value before it can go on, or before it can make room for the result. It waits until all
    work that was queued so far is done, and the accelerator then waits for the host: one stall at each step, for one
    bit or one number.

    ## Example
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 1).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    with torch.no_grad():
        for batch in loader:
            output = model(batch.to(device))
            if torch.isnan(output).any():
                raise ValueError("the model broke")
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 1).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    broken = torch.zeros((), dtype=torch.bool, device=device)
    with torch.no_grad():
        for batch in loader:
            output = model(batch.to(device))
            broken |= torch.isnan(output).any()
    if broken:
        raise ValueError("the model broke")
    ```

    ## References
    - [Performance Tuning Guide: avoid unnecessary CPU-GPU synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    - [torch.where](https://docs.pytorch.org/docs/stable/generated/torch.where.html)
    """

    code = "DEV504"
    name = "branch-on-tensor-in-hot-loop"
    severity = "warning"
    # What begins a word is asked for once, where one begins.
    trigger = (
        r"\b(?:(?:if|elif|while|assert|and|or|not|in)\b|(?:bool|any|all|min|max|sorted|equal|allclose|is_nonzero"
        r"|nonzero|argwhere|where|masked_select|unique|unique_consecutive|bincount|one_hot|repeat_interleave"
        r"|inv|inverse|solve|cholesky|lu_factor|ldl_factor)\s*\()"
        r"|\w\[[^\]\n]{0,300}?(?:~|[<>]|[!=]=|mask|valid|finite)"
    )
    # Masks that have names of their own.
    alias = r"(?m)^[ \t]*(\w+)[ \t]*=[ \t]*(?:~|[^=\s\"'][^\n\"']{0,300}?(?: [<>] | [!=<>]= |\bis\w+\())"
    needs = stalls.NEEDS
    only_hot = True
    only_training = True
    only_amid_step = True
    effect = Effect(syncs=4, words="bool")
    seen_as = ("sync",)

    def concerns(self, unit: Unit) -> bool:
        if isinstance(unit.node, ast.expr) and _may_be_tensor(unit.node):
            return True
        return any(
            may_be_sized(part) or any(_may_be_tensor(tested) for tested in _asked_by(part)) for part in walk(unit.node)
        )

    senses = frozenset({"decide", "size", "solved"})

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return stalls.reads_accelerator(unit, model)

    def judge_stall(self, node: cst.CSTNode, stall: HotStall, facts: Facts) -> Iterator[Report]:
        text = facts.shown(stall.node)
        if stall.sense == "decide":
            message = f"`{text}` is decided on the host, which waits for the accelerator {stall.often}"
            yield by_role.report(node, stall, facts, message, _instead_by_text(text))
            return
        if stall.sense == "solved":
            message = f"`{text}` looks on the host whether it could be computed, which waits for the accelerator {stall.often}"
            yield by_role.report(node, stall, facts, message, _without_looking(stall))
            return
        asked = facts.shown(stall.asked)
        message = (
            f"how large `{text}` is depends on the values of `{asked}`: the host waits for the accelerator to learn it, "
            f"{stall.often}"
        )
        yield by_role.report(node, stall, facts, message, _instead_of_size(stall))

    def shape(self) -> m.BaseMatcherNode:
        return m.OneOf(
            m.Expr(),
            m.Assert(),
            m.IfExp(),
            m.CompIf(),
            m.BooleanOperation(),
            m.UnaryOperation(operator=m.Not()),
            m.Comparison(comparisons=[m.ComparisonTarget(operator=m.OneOf(m.In(), m.NotIn()))]),
            m.Call(func=m.Name()),
            m.Call(func=m.Attribute(attr=m.OneOf(*(m.Name(name) for name in (*READING, *SIZED_BY_VALUES))))),
            m.Subscript(),
        )

    def judge(self, node: cst.CSTNode, facts: Facts) -> Iterator[Report]:
        yield from _waits_for_size(node, facts)
        for tested in _tested(node, facts):
            known = _decides(tested, facts)
            hot = facts.hot_loop(tested) if known is not None else None
            found = facts.node(tested)
            if known is None or hot is None or (isinstance(found, ast.expr) and is_needed(found, hot, facts)):
                continue
            value, likely = known
            yield Report(
                tested,
                f"`{facts.name_of(tested)}` is decided on the host at each step, which waits for "
                f"{stalls.place_of(value)} each time",
                "likely" if likely or hot.likely else "certain",
                notes=stalls.loop_notes(hot, value, facts),
                hint=_instead(node, tested, facts),
            )


def _instead_by_text(text: str) -> str:
    if any(check in text for check in _CHECKS):
        return "check every few steps, or collect the answers on the device and look once"
    return "decide on the device (`torch.where`, masks), or by what the host knows"


def _without_looking(stall: HotStall) -> str:
    return f"`torch.linalg.{WITHOUT_LOOKING[stall.name]}` doesn't look: it gives the result, and beside it what tells whether that holds"


def _instead_of_size(stall: HotStall) -> str:
    sizing = SIZED_BY_VALUES.get(stall.name)
    if stall.name == "[]=":
        return "`torch.where(mask, values, x)` chooses on the device"
    # Nobody can guess the size: a wrong one is an error in the kernel.
    return sizing.instead if sizing is not None else KEEP_ALL


def _waits_for_size(node: cst.CSTNode, facts: Facts) -> Iterator[Report]:
    found = facts.node(node) if isinstance(node, (cst.Call, cst.Subscript)) else None
    sized = sized_by_values(found, facts) if found is not None else None
    hot = facts.hot_loop(node) if sized is not None else None
    if found is not None and sized is not None and hot is not None:
        yield Report(
            node,
            f"how large `{facts.name_of(node)}` is depends on the values of `{facts.code_of(sized.asked)}`: the host waits "
            f"for {stalls.place_of(sized.value)} to learn it, at each step",
            "likely",
            notes=stalls.loop_notes(hot, sized.value, facts),
            hint=sized.instead,
        )


def _tested(node: cst.CSTNode, facts: Facts) -> Iterator[cst.BaseExpression]:
    """The expressions whose truth, or answer, a node asks for by itself."""
    match node:
        case cst.Expr(value=value):
            # The header of an `if` or a `while` is looked at by itself.
            found, statement = facts.node(value), facts.statement
            if isinstance(statement, (ast.If, ast.While)) and found is statement.test:
                yield from _last_asked(value, facts)
        case cst.Assert(test=test) | cst.IfExp(test=test) | cst.CompIf(test=test):
            yield from _last_asked(test, facts)
        case cst.BooleanOperation(left=left):
            yield from _last_asked(left, facts)
        case cst.UnaryOperation(expression=operand):
            yield from _last_asked(operand, facts)
        case cst.Comparison() | cst.Call() if _asks(node, facts):
            yield node


def _last_asked(test: cst.BaseExpression, facts: Facts) -> Iterator[cst.BaseExpression]:
    """What decides a test in the end; what asks by itself on the way there is met by itself."""
    match test:
        case cst.BooleanOperation(right=right):
            yield from _last_asked(right, facts)
        case cst.NamedExpr(value=value):
            yield from _last_asked(value, facts)
        case cst.UnaryOperation(operator=cst.Not()):
            return
        case _ if not _asks(test, facts):
            yield test


def _asks(node: cst.BaseExpression, facts: Facts) -> bool:
    """Whether an expression reads an answer back wherever it stands: `any(...)`, `a in b`, `torch.equal(a, b)`."""
    match node:
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.In() | cst.NotIn())]):
            return True
        case cst.Call(func=cst.Name() as func):
            return facts.qualified(func) in DECIDING
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name)) as func) if name in READING:
            qualified = facts.qualified(func)
            return qualified in _READING_NAMES if qualified else name in ("equal", "allclose", "is_nonzero")
    return False


def _decides(tested: cst.BaseExpression, facts: Facts) -> tuple[Value, bool] | None:
    """(the tensor on an accelerator that is asked, likely), or None."""
    match tested:
        case cst.Call(func=cst.Attribute(value=receiver), args=args) if _asks(tested, facts):
            return _first_known(_tensor(e, facts) for e in [receiver, *(a.value for a in args)])
        case cst.Call(func=cst.Name(value="bool" | "any" | "all" | "min" | "max" | "sorted"), args=args):
            return _first_known(_tensor_or_part(a.value, facts) for a in args if a.keyword is None)
        case cst.Comparison(
            left=left, comparisons=[cst.ComparisonTarget(operator=cst.In() | cst.NotIn(), comparator=right)]
        ):
            if any(v.kind in (Kind.MAPPING, Kind.UNKNOWN) for _, v in facts.value(right).alternatives()):
                # Keys are told apart by identity and hash.
                return None
            return _tensor(left, facts) if facts.value(right).kind is Kind.SEQUENCE else _tensor(right, facts)
        case cst.Comparison(left=left, comparisons=targets):
            if any(isinstance(t.operator, (cst.Is, cst.IsNot)) for t in targets):
                return None
            return _first_known(_tensor(side, facts) for side in (left, *(t.comparator for t in targets)))
        case cst.Name() | cst.Attribute() | cst.Subscript():
            # What is asked for its truth by itself may as well be a list, or None: only what surely is a tensor counts.
            known = _tensor(tested, facts)
            return known if known is not None and facts.value(tested).kind is Kind.TENSOR and not known[1] else None
    return _tensor(tested, facts)


def _first_known(found: Iterator[tuple[Value, bool] | None]) -> tuple[Value, bool] | None:
    return next((known for known in found if known is not None), None)


def _tensor(node: cst.BaseExpression, facts: Facts) -> tuple[Value, bool] | None:
    known = facts.on_accelerator(node)
    return known if known is not None and known[0].is_tensor else None


def _tensor_or_part(node: cst.BaseExpression, facts: Facts) -> tuple[Value, bool] | None:
    """The same, also where the elements of a list or a generator are such tensors."""
    known = _tensor(node, facts)
    if known is not None:
        return known
    for _, option in facts.value(node).alternatives():
        parts = (option.each,) if option.each is not None else option.elements or ()
        for part in parts if option.kind is Kind.SEQUENCE else ():
            if part is not None and part.is_tensor and part.place.off_host:
                return part, part.likely
    return None


def _instead(node: cst.CSTNode, tested: cst.BaseExpression, facts: Facts) -> str:
    text = facts.name_of(tested)
    if isinstance(node, cst.Assert) or any(check in text for check in _CHECKS):
        return "check every few steps, or collect the answers on the device and look once after the loop"
    if text.startswith(("min(", "max(")):
        return (
            f"`torch.{text[:3]}imum` stays on the device"
            if len(getattr(tested, "args", ())) == 2
            else "`torch.stack(...)` and its own `min` or `max` stay on the device"
        )
    return "decide on the device (`torch.where`, masks), or ask every few steps only"


# -- told from the ast alone ---------------------------------------------------------------------------------------------

# Attributes and calls that give something of the host's, and names that people give to such things.
_HOST_ATTRIBUTES = frozenset(
    {"shape", "ndim", "dtype", "device", "type", "training", "__name__", "__class__", "is_cuda"}
)
_HOST_CALLS = frozenset(
    {"len", "isinstance", "hasattr", "getattr", "type", "int", "float", "str", "id", "range", "size", "dim", "numel", "item",
     "get", "keys", "startswith", "endswith", "lower", "is_available", "callable", "issubclass", "time"}
)  # fmt: skip
_NUMBER = regex(
    r"(?:.*_)?(?:[ijkn]|idx|index|indices|size|sizes|stride|dim|dims|depth|key|keys|name|names|steps?|epochs?|count|num|ratio"
    r"|prefix|mode|type|path|level|stage|channels|chans|shape|len|length)"
)
_FLAG = regex(
    r"_*(?:is|use|do|has|with|no|return|should|need|enable|output|apply|add|callback|verbose|args|self|training|prompt)"
)
_ANSWERS = frozenset(
    {"any", "all", "isnan", "isinf", "isfinite", "equal", "allclose", "is_nonzero", "bool", "eq", "ne", "gt", "ge", "lt", "le",
     "max", "min", "logical_and", "logical_or", "logical_not"}
)  # fmt: skip


def _asked_by(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assert(test=test) | ast.IfExp(test=test):
            return [test]
        case ast.BoolOp(values=values):
            return values
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [operand]
        case ast.comprehension(ifs=ifs):
            return ifs
        case ast.Compare(ops=[ast.In() | ast.NotIn()]) | ast.Call(func=ast.Name(id="min" | "max" | "sorted")):
            return [node]
        case ast.Call(
            func=ast.Name(id="bool" | "any" | "all") | ast.Attribute(attr="equal" | "allclose" | "is_nonzero")
        ):
            return [node]
    return []


def _may_be_tensor(tested: ast.expr) -> bool:
    match tested:
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            return not any(isinstance(op, (ast.Is, ast.IsNot)) for op in ops) and not any(
                _is_of_host(side) for side in (left, *comparators)
            )
        case ast.Name(id=name):
            return not _FLAG.match(name)
        case ast.Call(func=ast.Name(id="min" | "max" | "sorted" | "any" | "all"), args=args):
            return any(_may_be_tensor(a.elt) if isinstance(a, ast.GeneratorExp) else not _is_of_host(a) for a in args)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _ANSWERS
        case ast.BinOp(left=left, right=right):
            return not _is_of_host(left) and not _is_of_host(right)
        case ast.Subscript(value=value):
            return not _is_of_host(value)
    return False


def _is_of_host(side: ast.expr) -> bool:
    match side:
        case ast.Constant(value=value):
            return not isinstance(value, (int, float)) or isinstance(value, bool)
        case ast.Name(id=name):
            return _NUMBER.fullmatch(name) is not None
        case ast.Attribute(attr=attr):
            return attr in _HOST_ATTRIBUTES or _NUMBER.fullmatch(attr) is not None
        case ast.Subscript(value=value):
            return _is_of_host(value)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _HOST_CALLS
        case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Set(elts=elts):
            return any(_is_of_host(e) for e in elts)
        case ast.BinOp(left=left, op=op, right=right):
            return _is_of_host(left) or (isinstance(op, ast.Mod) and isinstance(left, ast.Name)) or _is_of_host(right)
    return isinstance(side, (ast.Dict, ast.JoinedStr))
