"""DEV606: a device compared with something that it never equals."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import DEVICE_CLASS, UNKNOWN, Kind, Value, walk
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.spelling import INDEXED, definitions, may_be_text, spellings

if TYPE_CHECKING:
    from devlint.facts import Facts, FunctionModel, Unit

_A_DEVICE = r"(?:[\w.\[\]()]{0,60}\.)?\w{0,30}device\b(?!\s{0,9}\.)"


class DeviceComparison(Rule):
    """A device compared with something that it never equals, such as `x.device == "cuda"`.

    ## What it does
    Flags `==`, `!=` and `in` between a `torch.device` and strings (`t.device == "cuda"`), between a tensor's device
    and an accelerator without an index (`t.device == torch.device("cuda")`, `str(t.device) == "cuda"`, and
    `torch.device(device)` of a parameter that may be text), and `is` between devices. Comparisons of
    `.type`, of `str(device)` with an index, and with `torch.device("cpu")` or `torch.device("meta")` are left alone,
    and so is a device that may be a string, such as an argument.

    ## Why is this bad
    A `torch.device` equals no string, and a CUDA tensor's device is `cuda:0`, which isn't equal to `cuda`. Each access
    to `.device` makes a new object. The comparison always has the same outcome, and one of the branches is never taken.

    ## Example
    ```python
    import torch

    x = torch.ones(3, device="cuda")
    on_gpu = x.device == "cuda"
    ```

    ## Use instead
    ```python
    import torch

    x = torch.ones(3, device="cuda")
    on_gpu = x.device.type == "cuda"
    ```

    ## Fix safety
    Safe: the comparison then does what its author meant. With a string that has an index, such as `"cuda:1"`,
    `str(device)` is compared; with a device that has no index, the two `.type`s are.

    ## References
    - [torch.device](https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device)
    """

    code = "DEV606"
    name = "device-comparison"
    # Each beginning by itself: what begins with characters that are written down is looked for several times as fast.
    trigger = (
        r"device\s{0,9}\)?\s{0,9}(?:[!=]=|\bis\s{1,9}(?:not\s{1,9})?(?!None\b|not\b)|\b(?:not\s{1,9})?in\s{0,9}[(\[{])"
        rf"|[!=]=\s{{1,9}}{_A_DEVICE}|\bis(?:\s{{1,9}}not)?\s{{1,9}}{_A_DEVICE}"
    )
    effect = Effect(holds="on_gpu is False and x.is_cuda")
    fix = "S"

    @classmethod
    def may_concern(cls, unit: Unit) -> bool:
        """Comparisons with something that may be a string, or a device spelt out; `is` between any two."""
        return any(_is_suspect(n) for n in walk(unit.node) if isinstance(n, ast.Compare))

    def shape(self) -> m.BaseMatcherNode:
        return m.Comparison()

    def judge(self, node: cst.Comparison, facts: Facts) -> Iterator[Report]:
        if len(node.comparisons) > 1:
            yield from _chained(node, facts)
            return
        target = node.comparisons[0]
        outcome = _OUTCOMES.get(type(target.operator).__name__)
        if outcome is None:
            return
        for device, other in ((node.left, target.comparator), (target.comparator, node.left)):
            found = _judged(device, other, target.operator, facts) if _is_device(device, facts) else None
            if found is not None:
                yield Report(
                    node,
                    f"`{facts.name_of(node)}` is {outcome}: {found.why}",
                    "likely" if facts.value(device).likely or _base(device, facts).likely else "certain",
                    change=None
                    if _may_have_no_type(device, facts) or _is_left_to_reader(node, facts)
                    else Change(found.title, "safe", ((node, _repaired(node, device, found)),)),
                    minor=_only_moves(facts.node(node), facts, detached=True),
                )
                return
        yield from _as_text(node, outcome, facts)
        yield from _of_any_index(node, facts)


def _may_have_no_type(device: cst.BaseExpression, facts: Facts) -> bool:
    """Whether it is a parameter that may be given as a string as well, as its default is: a string has no `type`."""
    return (
        isinstance(device, cst.Name)
        and facts.scope is not None
        and any(a.arg == device.value for a in facts.scope.parameters)
        and _may_be_text(device.value, facts.scope)
    )


def _is_left_to_reader(node: cst.Comparison, facts: Facts) -> bool:
    """Whether nothing would come of a test that comes out, or the program has never run with what would come of it.

    `if x.device != "cpu": x = x.to("cpu")`, with other tests beside that one or not, does nothing to what is there; `array if device == "cpu" else tensor` has
    given the tensor until now. Beside another test of the same device (`d == torch.device("cuda") or d == "cuda"`), one would do for both.
    """
    found = facts.node(node)
    match next(facts.model.ancestors(found), None) if found is not None else None:
        case ast.BoolOp(op=ast.Or(), values=tests) if isinstance(found, ast.Compare):
            subject = ast.dump(found.left)
            if any(isinstance(t, ast.Compare) and t is not found and ast.dump(t.left) == subject for t in tests):
                return True
    if _only_moves(found, facts):
        return True
    match _beyond_tests(found, facts):
        case ast.IfExp(body=one, orelse=other):
            return len({frozenset(v.kind for _, v in facts.model.value(n).alternatives()) for n in (one, other)}) > 1
    return False


def _only_moves(found: ast.AST | None, facts: Facts, *, detached: bool = False) -> bool:
    """Whether all that is done where a test comes out, as it always does, is to move things, `detached` or not: what is there comes to no harm."""
    match _beyond_tests(found, facts):
        case ast.If(body=body, orelse=[]) if isinstance(found, ast.Compare):
            unequal = isinstance(found.ops[0], (ast.NotEq, ast.IsNot))
            return unequal and all(_goes_there(statement, detached=detached) for statement in body)
    return False


def _beyond_tests(found: ast.AST | None, facts: Facts) -> ast.AST | None:
    """What a test stands in, alone or with others that must all come out."""
    around = facts.model.ancestors(found) if found is not None else ()
    return next((p for p in around if not (isinstance(p, ast.BoolOp) and isinstance(p.op, ast.And))), None)


def _goes_there(statement: ast.stmt, *, detached: bool = False) -> bool:
    """Whether a statement moves what it names, under the same name: `x = x.cpu()`, `xs = [x.to(device) for x in xs]`.

    What is there already it leaves as it is, `detached` or not.
    """
    match statement:
        case ast.Assign(targets=[target], value=ast.ListComp(elt=moved, generators=[ast.comprehension(iter=of)])):
            return ast.unparse(of) == ast.unparse(target) and _is_move(moved)
        case ast.Assign(targets=[target], value=ast.Call(func=ast.Attribute(value=of)) as moved):
            same = ast.unparse(of).removesuffix(".detach()") if detached else ast.unparse(of)
            return same == ast.unparse(target) and _is_move(moved)
    return False


def _is_move(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("cpu", "cuda", "to")
    )


def _chained(node: cst.Comparison, facts: Facts) -> Iterator[Report]:
    """`a.device == b.device == "cuda"`: the pair that never comes out."""
    sides = [node.left, *(t.comparator for t in node.comparisons)]
    for target, left, right in zip(node.comparisons, sides, sides[1:], strict=False):
        outcome = _OUTCOMES.get(type(target.operator).__name__)
        for device, other in ((left, right), (right, left)):
            found = facts.node(other)
            if outcome is None or found is None or not _is_device(device, facts) or not spellings(found, facts):
                continue
            yield Report(
                node,
                f"`{facts.name_of(device)}` never equals `{facts.name_of(other)}`: a `torch.device` equals no string",
                "likely" if facts.value(device).likely or _base(device, facts).likely else "certain",
                hint="compare its `.type`",
            )
            return


def _as_text(node: cst.Comparison, outcome: str, facts: Facts) -> Iterator[Report]:
    """`str(x.device) == "cuda"`: the text has an index."""
    target = node.comparisons[0]
    if not isinstance(target.operator, (cst.Equal, cst.NotEqual)):
        return
    for text, other in ((node.left, target.comparator), (target.comparator, node.left)):
        if not m.matches(text, m.Call(func=m.Name("str"), args=[m.Arg(m.Attribute(attr=m.Name("device")))])):
            continue
        found = facts.node(other)
        literals = spellings(found, facts) if found is not None else None
        device = cst.ensure_type(text, cst.Call).args[0].value
        if not literals or not all(n.value in INDEXED for n in literals) or not _is_of_tensor(device, facts):
            continue
        name = str(literals[0].value)
        fixed = node.deep_replace(text, _typed(device))
        assert isinstance(fixed, cst.Comparison)
        yield Report(
            node,
            f"`{facts.name_of(node)}` is {outcome}: on `{name}`, a tensor is at `{name}:0`, and so says the text",
            "likely" if _base(device, facts).likely else "certain",
            change=Change("compare its `.type`", "safe", ((node, fixed),)),
        )
        return


def _of_any_index(node: cst.Comparison, facts: Facts) -> Iterator[Report]:
    """`torch.device(device) != x.device`, where a caller may say `"cuda"`."""
    target, scope = node.comparisons[0], facts.scope
    if not isinstance(target.operator, (cst.Equal, cst.NotEqual)) or scope is None:
        return
    for made, other in ((node.left, target.comparator), (target.comparator, node.left)):
        found = facts.node(made)
        match found:
            case ast.Call(func=func, args=[ast.Name(id=name)], keywords=[]):
                if facts.model.value(func).name != DEVICE_CLASS or not m.matches(
                    other, m.Attribute(attr=m.Name("device"))
                ):
                    continue
            case _:
                continue
        if not any(a.arg == name for a in scope.parameters) or not _may_be_text(name, scope):
            continue
        if m.matches(other, m.Attribute(value=m.Name("self"))) or _is_of_something_made(other, facts):
            # What the object keeps may be without an index as well, and so may what something else calls its device.
            continue
        yield Report(
            node,
            f'`{facts.name_of(made)}` has no index where `{name}` is "cuda", and a tensor\'s device has one: they differ on the same GPU',
            "likely",
            hint="compare the types, and the indices where both have one",
        )
        return


def _is_of_something_made(device: cst.BaseExpression, facts: Facts) -> bool:
    """Whether it is the device of what a call has given, which may be no tensor."""
    found = facts.node(device)
    match found:
        case ast.Attribute(value=ast.Name() as owner) if not _is_of_tensor(device, facts):
            return any(isinstance(value, ast.Call) for value in facts.model.assigned_values(owner))
    return False


def _may_be_text(name: str, scope: FunctionModel) -> bool:
    """Whether a parameter may be given as a string, going by its annotation or default."""
    argument = next(a for a in scope.parameters if a.arg == name)
    default = scope.defaults.get(name)
    if isinstance(default, ast.Constant) and isinstance(default.value, str):
        return True
    return argument.annotation is not None and "str" in ast.unparse(argument.annotation)


def _is_suspect(comparison: ast.Compare) -> bool:
    """Told without the model: `a.device == b.device` compares devices of tensors, and None is no device."""
    sides = [comparison.left, *comparison.comparators]
    if any(isinstance(s, ast.Constant) and not isinstance(s.value, str) for s in sides):
        return False
    return isinstance(comparison.ops[0], (ast.Is, ast.IsNot)) or not all(isinstance(s, ast.Attribute) for s in sides)


_OUTCOMES = {
    "Equal": "never true",
    "Is": "never true",
    "In": "never true",
    "NotEqual": "always true",
    "IsNot": "always true",
    "NotIn": "always true",
}


class _Judgement(NamedTuple):
    why: str
    title: str
    # What would have the outcome that was meant.
    left: cst.BaseExpression
    right: cst.BaseExpression


def _judged(
    device: cst.BaseExpression, other: cst.BaseExpression, operator: cst.BaseCompOp, facts: Facts
) -> _Judgement | None:
    """Why a device doesn't compare so, and what would."""
    if isinstance(operator, (cst.In, cst.NotIn)):
        return _with_strings(device, other, _elements(other))
    found = facts.node(other)
    if found is None:
        return None
    literals = spellings(found, facts)
    if literals:
        return _with_strings(device, other, [str(n.value) for n in literals])
    bare = _without_index(found, facts) if _is_of_tensor(device, facts) else None
    if bare is not None:
        # `torch.device("cuda")` spelt out here: its type is the string.
        of_other = cst.SimpleString(f'"{bare}"') if isinstance(found, ast.Call) else _typed(other)
        why = f'on `{bare}`, a tensor is at `{bare}:0`, and `torch.device("{bare}")` has no index'
        return _Judgement(why, "compare the type", _typed(device), of_other)
    if isinstance(operator, (cst.Is, cst.IsNot)) and _is_device(other, facts) and _is_fresh(device, other):
        return _Judgement("each `torch.device` is an object of its own", "compare with `==`", device, other)
    return None


def _with_strings(
    device: cst.BaseExpression, other: cst.BaseExpression, strings: Sequence[str] | None
) -> _Judgement | None:
    if not strings:
        return None
    why = "a `torch.device` equals no string"
    if any(":" in text for text in strings):
        return _Judgement(why, "compare its text", cst.Call(cst.Name("str"), [cst.Arg(device)]), other)
    return _Judgement(why, "compare its `.type`", _typed(device), other)


def _repaired(node: cst.Comparison, device: cst.BaseExpression, judged: _Judgement) -> cst.Comparison:
    """The comparison with both sides replaced, and `is` made `==`."""
    target = node.comparisons[0]
    left, right = (judged.left, judged.right) if device is node.left else (judged.right, judged.left)
    equality = {cst.Is: cst.Equal, cst.IsNot: cst.NotEqual}.get(type(target.operator))
    operator = equality() if equality is not None else target.operator
    return node.with_changes(left=left, comparisons=[target.with_changes(operator=operator, comparator=right)])


def _elements(other: cst.BaseExpression) -> list[str] | None:
    """The strings of a literal tuple, list or set; None where it holds something else."""
    if not isinstance(other, (cst.Tuple, cst.List, cst.Set)):
        return None
    texts = [e.value.evaluated_value if isinstance(e.value, cst.SimpleString) else None for e in other.elements]
    return [t for t in texts if isinstance(t, str)] if all(isinstance(t, str) for t in texts) else None


def _typed(device: cst.BaseExpression) -> cst.Attribute:
    return cst.Attribute(device, cst.Name("type"))


def _is_device(node: cst.BaseExpression, facts: Facts) -> bool:
    """Whether it is surely a `torch.device`, and neither its `.type` nor a name that may be a string."""
    if not all(v.kind is Kind.DEVICE and v.name == DEVICE_CLASS for _, v in facts.value(node).alternatives()):
        return False
    found = facts.node(node)
    return not isinstance(found, ast.expr) or not may_be_text(found, facts)


def _base(device: cst.BaseExpression, facts: Facts) -> Value:
    return facts.value(device.value) if isinstance(device, cst.Attribute) else UNKNOWN


def _is_of_tensor(device: cst.BaseExpression, facts: Facts) -> bool:
    return m.matches(device, m.Attribute(attr=m.Name("device"))) and all(
        v.is_tensor for _, v in _base(device, facts).alternatives()
    )


def _without_index(node: ast.expr, facts: Facts) -> str | None:
    """The accelerator that a `torch.device(...)` call, or a name that holds one, means without an index."""
    bound = definitions(node, facts) if isinstance(node, ast.Name) else [node]
    found: set[str] = set()
    for value in bound or ():
        match value:
            case ast.Call(func=func, args=[given], keywords=[]) if facts.model.value(func).name == DEVICE_CLASS:
                found |= {str(n.value) for n in spellings(given, facts) or [ast.Constant("?:?")]}
            case _:
                return None
    # With one of them on the host, it is the accelerator's that never comes out.
    return next(iter(found & INDEXED), None) if found <= INDEXED | {"cpu"} else None


def _is_fresh(device: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether either side makes an object: two names may hold the same one."""
    return any(m.matches(side, m.Attribute(attr=m.Name("device")) | m.Call()) for side in (device, other))
