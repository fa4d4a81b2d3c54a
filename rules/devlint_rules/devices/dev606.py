"""DEV606: a device compared with something that it never equals."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from devlint.lazy import cst, m
from devlint.placement.trees import walk
from devlint.placement.values import DEVICE_CLASS, UNKNOWN, Kind, Value
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.spelling import INDEXED, definitions, spellings

if TYPE_CHECKING:
    from devlint.facts import Facts
    from devlint.placement.units import Unit


class DeviceComparison(Rule):
    """A device compared with something that it never equals.

    ## What it does
    Flags `==`, `!=` and `in` between a `torch.device` and strings (`t.device == "cuda"`), between a tensor's device
    and an accelerator without an index (`t.device == torch.device("cuda")`), and `is` between devices. Comparisons of
    `.type`, of `str(device)`, with an index, and with `torch.device("cpu")` or `torch.device("meta")` are left alone,
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
    Safe: the comparison gets the meaning that it was written with. Against a string with an index, such as `"cuda:1"`,
    `str(device)` is compared; where the other side is a device without an index, the two `.type`s are.

    ## References
    - [torch.device](https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device)
    """

    code = "DEV606"
    name = "device-comparison"
    trigger = (
        r"device\s*(?:[!=]=|\bis\s+(?:not\s+)?(?!None\b|not\b)|\b(?:not\s+)?in\s*[(\[{])"
        r"|(?:[!=]=|\bis(?:\s+not)?)\s+(?:[\w.\[\]()]*\.)?\w*device\b(?!\s*\.)"
    )
    effect = Effect(holds="on_gpu is False and x.is_cuda")
    fix = "S"

    @classmethod
    def may_concern(cls, unit: Unit) -> bool:
        """Comparisons with something that may be a string, or a device spelt out; `is` between any two."""
        return any(_is_suspect(n) for n in walk(unit.node) if isinstance(n, ast.Compare))

    def shape(self) -> m.BaseMatcherNode:
        return m.Comparison(comparisons=[m.ComparisonTarget()])

    def judge(self, node: cst.Comparison, facts: Facts) -> Iterator[Report]:
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
                    change=Change(found.title, "safe", ((node, _repaired(node, device, found)),)),
                )
                return


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
    return all(v.kind is Kind.DEVICE and v.name == DEVICE_CLASS for _, v in facts.value(node).alternatives())


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
            case ast.Call(func=func, args=[given], keywords=[]) if facts.model.resolved(func).name == DEVICE_CLASS:
                found |= {str(n.value) for n in spellings(given, facts) or [ast.Constant("?:?")]}
            case _:
                return None
    # With one of them on the host, it is the accelerator's that never comes out.
    return next(iter(found & INDEXED), None) if found <= INDEXED | {"cpu"} else None


def _is_fresh(device: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether either side makes an object: two names may hold the same one."""
    return any(m.matches(side, m.Attribute(attr=m.Name("device")) | m.Call()) for side in (device, other))
