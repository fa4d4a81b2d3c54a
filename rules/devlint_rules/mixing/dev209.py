"""DEV209: a mover of containers that leaves some of their parts behind."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import FunctionModel, calls_in, dotted, last_name, walk
from devlint.lazy import cst, m
from devlint.rule import Effect, Report, Rule

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel, Unit


class PartialContainerMove(Rule):
    """A function that moves nested containers and leaves some of their parts behind.

    ## What it does
    Looks at functions that call themselves for the parts of lists, tuples or dicts, and move tensors to a `device`. Flags a recursive
    call without that device; a `.cuda()` in one branch beside a `.to(device)` in another; and a function that goes
    into dicts and lists, and returns tuples as they came (or the other way round).

    This rule is new, and opt-in: select it by its code.

    ## Why is this bad
    The part that no branch handles stays on the host, or goes to another GPU, and the error comes far from here.

    ## Example
    ```python
    import torch


    def moved(batch, device):
        if isinstance(batch, torch.Tensor):
            return batch.to(device)
        if isinstance(batch, dict):
            return {name: moved(part, device) for name, part in batch.items()}
        if isinstance(batch, list):
            return [moved(part, device) for part in batch]
        return batch


    pair = moved({"boxes": (torch.ones(2), torch.ones(2))}, "cuda")["boxes"]
    ```

    ## Use instead
    ```python
    import torch


    def moved(batch, device):
        if isinstance(batch, torch.Tensor):
            return batch.to(device)
        if isinstance(batch, dict):
            return {name: moved(part, device) for name, part in batch.items()}
        if isinstance(batch, (list, tuple)):
            return type(batch)(moved(part, device) for part in batch)
        return batch


    pair = moved({"boxes": (torch.ones(2), torch.ones(2))}, "cuda")["boxes"]
    ```

    ## References
    - [torch.utils.data.default_collate](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_collate)
    """

    code = "DEV209"
    name = "partial-container-move"
    trigger = r"\bisinstance\s*\(|\.cuda\(|\b\w+\("
    needs = (r"\bisinstance\s*\(", r"\.to\(|\.cuda\(")
    default = False
    effect = Effect(holds="not pair[0].is_cuda")

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        scope = unit.scope
        return scope is not None and any(_left(n, scope) for n in calls_in(unit.node))

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        call = facts.node(node)
        message = _left(call, facts.scope) if isinstance(call, ast.Call) and facts.scope is not None else ""
        if message:
            yield Report(node, message, "likely")


def _left(call: ast.Call, scope: FunctionModel) -> str:
    """What a mover leaves behind at a call; "" where it is none, or nothing is amiss."""
    device = _device(scope)
    if not device or not _calls_itself(scope) or not _moves(scope, device):
        return ""
    if _is_itself(call, scope) and not _mentions(call, device):
        # A default may be its own way to say where.
        return f"`{scope.name}` calls itself here without `{device}`: what is inside goes elsewhere"
    match call:
        case ast.Call(func=ast.Attribute(attr="cuda"), args=[], keywords=[]):
            return f"this goes to the current GPU, and the other kinds of parts to `{device}`"
        case ast.Call(func=ast.Name(id="isinstance")):
            return _forgotten(call, scope)
    return ""


def _device(scope: FunctionModel) -> str:
    names = [a.arg for a in scope.parameters]
    return next((n for n in names if n in ("device", "dev", "target_device", "torch_device")), "")


def _calls_itself(scope: FunctionModel) -> bool:
    return any(isinstance(n, ast.Call) and _is_itself(n, scope) for n in walk(scope.node))


def _is_itself(call: ast.Call, scope: FunctionModel) -> bool:
    """`moved(...)` of a function, `self.moved(...)` of a method."""
    if scope.cls is None:
        return dotted(call.func) == scope.name
    return dotted(call.func) in {f"{owner}.{scope.name}" for owner in ("self", "cls", scope.cls.name)}


def _moves(scope: FunctionModel, device: str) -> bool:
    """Whether it moves a tensor to that device itself."""
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "to" and _mentions(n, device)
        for n in scope.nodes
    )


def _mentions(call: ast.Call, name: str) -> bool:
    given = [*call.args, *(k.value for k in call.keywords)]
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return True
    return any(isinstance(n, ast.Name) and n.id == name for a in given for n in walk(a))


_SEQUENCES = frozenset({"list", "tuple"})
_DICTS = frozenset({"dict", "Mapping", "MutableMapping", "OrderedDict"})
# Kinds that take in lists and tuples.
_BROAD = frozenset({"Sequence", "Iterable", "Collection", "abc"})


def _forgotten(call: ast.Call, scope: FunctionModel) -> str:
    """Tuples or lists that no branch is for, told at the test for the other of the two."""
    if (
        len(call.args) != 2
        or not isinstance(call.args[0], ast.Name)
        or call.args[0].id not in {a.arg for a in scope.parameters}
    ):
        return ""
    subject = call.args[0].id
    tests = [n for n in scope.nodes if isinstance(n, ast.Call) and last_name(n.func) in ("isinstance", "type") and n.args and ast.unparse(n.args[0]) == subject]  # fmt: skip
    kinds = {last_name(n) for t in tests for n in walk(t) if isinstance(n, (ast.Name, ast.Attribute))}
    here = {last_name(n) for n in walk(call.args[1])} & _SEQUENCES
    missing = _SEQUENCES - kinds
    if not here or len(missing) != 1 or kinds & _BROAD or not kinds & _DICTS:
        return ""
    text = scope.text
    if (
        "__iter__" in text
        or "_asdict" in text
        or "_fields" in text
        or any(k in text for k in ("tree_map", "map_structure", "raise "))
    ):
        return ""
    if _moves_the_rest(scope, subject):
        return ""
    forgotten = next(iter(missing))
    return f"`{scope.name}` looks into {next(iter(here))}s and dicts, and a {forgotten} stays as it came"


def _moves_the_rest(scope: FunctionModel, subject: str) -> bool:
    """Whether what no branch is for is moved as it is: `return batch.to(device)` at the end, which raises for a tuple."""
    last = scope.node.body[-1]
    match last:
        case ast.Return(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="to" | "cuda"))):
            return name == subject
        case ast.If():
            while last.orelse and len(last.orelse) == 1 and isinstance(last.orelse[0], ast.If):
                last = last.orelse[0]
            return any(
                isinstance(n, ast.Attribute) and n.attr in ("to", "cuda") and dotted(n.value) == subject
                for s in last.orelse
                for n in walk(s)
            )
    return False
