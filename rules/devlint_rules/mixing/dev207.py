"""DEV207: a tensor that comes back to the current GPU, and not to the one that it was on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import HOST, FunctionModel, dotted, walk
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel, Unit, Value


class IndexLost(Rule):
    """A tensor moved to the current GPU instead of the GPU that another tensor is on.

    ## What it does
    Flags, in functions that are given their tensors: `.cuda()` on what was computed from `x.cpu()`; `y.cuda()` under a test of
    `x.is_cuda`; and `y.type(x.type())` of what was made on the host: the string has no index. Left alone are programs that select a GPU
    (`torch.cuda.set_device`, `with torch.cuda.device(...)`), and what is known to be on the GPU that `.cuda()` means. Where nothing
    in the project names a second GPU, it is told only where the rule is selected by its code.

    This rule is new, and opt-in: select it by its code.

    ## Why is this bad
    `.cuda()` means the current GPU, which is the first one unless someone selected another. A tensor of `cuda:1` comes back on
    `cuda:0`, and the next operation raises `RuntimeError: Expected all tensors to be on the same device`. (`type_as` keeps
    the index, and so does `type` of what is on a GPU already.)

    ## Example
    ```python
    import torch


    def running(x):
        return x.cpu().cumsum(0).cuda()


    x = torch.ones(3, device="cuda:1")
    y = running(x)
    ```

    ## Use instead
    ```python
    import torch


    def running(x):
        return x.cpu().cumsum(0).to(x.device)


    x = torch.ones(3, device="cuda:1")
    y = running(x)
    ```

    ## Fix safety
    Safe: the device, and the type where it was asked for, of the tensor that is meant.

    ## References
    - [torch.Tensor.cuda](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.cuda.html)
    - [torch.Tensor.type](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.type.html)
    """

    code = "DEV207"
    name = "index-lost"
    trigger = r"\.cuda\(\s*\)|\.type\("
    needs = (r"\.cpu\(|\.is_cuda\b|\.type\(\s*\)",)
    default = False
    effect = Effect(holds="y.device != x.device", devices=2)
    meets_elsewhere = True
    fix = "S"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return any(_lost(n, unit.scope, model) is not None for n in walk(unit.node))

    def shape(self) -> m.BaseMatcherNode:
        return m.Call(func=m.Attribute(attr=m.Name("cuda") | m.Name("type")))

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        call = facts.node(node)
        lost = _lost(call, facts.scope, facts.model) if isinstance(call, ast.Call) else None
        if lost is None or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return
        place = facts.model.value(lost.tensor).place
        if place.off_host and ":" not in place.name:
            # A program that says `.cuda()` everywhere.
            return
        if lost.typed and not _is_on_host(facts.model.value(call.func.value)):
            return
        name = facts.code_of(lost.tensor)
        to = f"{name}.device, {name}.dtype" if lost.typed else f"{name}.device"
        code = f"{facts.code_of(call.func.value)}.to({to})"
        yield Report(
            node,
            f"this is on the current GPU then, and `{name}` may be on another",
            "likely",
            change=Change(f"move it to where `{name}` is", "safe", edits=(facts.replaced(call, code),)),
            minor=not facts.model.texts_match(_SECOND_GPU),
        )


# What speaks of more GPUs than one. `device_ids=[0]` doesn't, and neither does what takes its index from a tensor that is there.
_SECOND_GPU = (
    r"cuda:(?:[1-9{%]|[\"'] ?(?:\+|%|\.format))|\.cuda\((?! ?(?:\)|0\b|None\b|\w{1,40} ?=))|\bset_device\("
    r"|\bdevice_ids ?=(?! ?(?:\[0\]|None\b))|\btorch\.device\([\"']cuda[\"'], ?(?!0\b)"
)


def _is_on_host(value: Value) -> bool:
    """Whether a tensor is on the host, and so where `type` may send it is the current GPU: one that is on a GPU keeps its index."""
    return any(option.is_tensor and option.place == HOST for _, option in value.alternatives())


class _Lost(NamedTuple):
    tensor: ast.expr
    typed: bool = False


def _lost(node: ast.AST, scope: FunctionModel | None, model: PlacementModel) -> _Lost | None:
    if scope is None or not isinstance(node, ast.Call) or "set_device(" in model.source.text:
        return None
    match node:
        case ast.Call(func=ast.Attribute(value=subject, attr="cuda"), args=[], keywords=[]):
            found = _came_from(subject) or _asked(node, subject, model)
            lost = _Lost(found) if found is not None else None
        case ast.Call(func=ast.Attribute(attr="type"), args=[given], keywords=[]):
            found = _type_of(given, scope)
            lost = _Lost(found, typed=True) if found is not None else None
        case _:
            return None
    if lost is None or not _is_given(lost.tensor, scope) or _is_selected(node, model):
        return None
    return lost


def _came_from(subject: ast.expr) -> ast.expr | None:
    """`x` of `x.cpu().cumsum(0)` and of `f(x.cpu())`."""
    while True:
        match subject:
            case ast.Call(func=ast.Attribute(value=owner, attr="cpu"), args=[]):
                return owner
            case ast.Call(func=func, args=args):
                for given in args:
                    match given:
                        case ast.Call(func=ast.Attribute(value=owner, attr="cpu"), args=[]):
                            return owner
                if not isinstance(func, ast.Attribute):
                    return None
                subject = func.value
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                subject = value
            case _:
                return None


def _asked(call: ast.Call, subject: ast.expr, model: PlacementModel) -> ast.expr | None:
    """`x` of `if x.is_cuda: y = y.cuda()`."""
    child: ast.AST = call
    for parent in model.ancestors(call):
        match parent:
            case ast.If(test=ast.Attribute(value=tensor, attr="is_cuda"), body=body) if child in body:
                return tensor if ast.unparse(tensor) != ast.unparse(subject) else None
            case ast.IfExp(test=ast.Attribute(value=tensor, attr="is_cuda"), body=body) if child is body:
                return tensor if ast.unparse(tensor) != ast.unparse(subject) else None
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return None
        child = parent
    return None


def _type_of(given: ast.expr, scope: FunctionModel) -> ast.expr | None:
    """`x` of `x.type()`, by a name of its own too."""
    match given:
        case ast.Call(func=ast.Attribute(value=tensor, attr="type"), args=[], keywords=[]):
            return tensor if dotted(tensor) else None
        case ast.Name(id=name):
            values = [n.value for n in scope.nodes if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in n.targets)]  # fmt: skip
            if len(values) == 1 and not isinstance(values[0], ast.Name):
                return _type_of(values[0], scope)
    return None


def _is_given(tensor: ast.expr, scope: FunctionModel) -> bool:
    """Whether it is an input of the function, which isn't rebound, or a part of one."""
    root = (dotted(tensor) or "").split(".")[0]
    if root not in {a.arg for a in scope.parameters}:
        return False
    # It has to be what it was, where its device is asked for.
    return not any(isinstance(n, ast.Name) and n.id == root and isinstance(n.ctx, ast.Store) for n in scope.nodes)


def _is_selected(call: ast.Call, model: PlacementModel) -> bool:
    """Whether a GPU is selected around it."""
    return any(
        "cuda.device(" in ast.unparse(item.context_expr)
        for parent in model.ancestors(call)
        if isinstance(parent, ast.With)
        for item in parent.items
    )
