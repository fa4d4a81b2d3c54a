"""DEV104: modules in a plain list or dict of a module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, Value, last_name, walk
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.moves import attributes, gathered
from devlint_rules.moves.replicated import beside_registration

if TYPE_CHECKING:
    from devlint.facts import Facts, FunctionModel, PlacementModel, Unit

# What lists and dicts have and nn.ModuleList and nn.ModuleDict haven't.
LIST_ONLY = frozenset({"clear", "copy", "count", "index", "remove", "reverse", "sort"})
DICT_ONLY = frozenset({"copy", "fromkeys", "get", "popitem", "setdefault"})
# Names that nn.ModuleDict has itself, and so doesn't take as keys, beside those of nn.Module.
OWN_KEYS = frozenset({"clear", "items", "keys", "pop", "update", "values", "forward", "train", "eval", "to", "type", "half",
                      "float", "double", "cpu", "cuda", "apply", "children", "modules", "parameters", "buffers", "training"})  # fmt: skip


class UnregisteredModule(Rule):
    """Submodules in a plain list, tuple or dict, where their module doesn't register them.

    ## What it does
    Flags a list, tuple or dict of modules that a module's constructor, or a method that it alone calls, makes and keeps in a plain attribute. Modules
    without parameters and buffers (activations, pooling) are left alone, and so are those that are registered
    elsewhere too, that come from outside (a teacher may be hidden from `parameters()` on purpose), or that the class
    looks after by itself. If the project uses `nn.DataParallel` and you select the rule by its code, lists of modules that are
    also registered elsewhere are reported too: replicas get copies of the registered modules, but share the list.

    ## Why is this bad
    A module registers the modules that are assigned to its attributes, and `nn.ModuleList` and `nn.ModuleDict` those
    in them. It doesn't look into a plain list: `parameters()` and `state_dict()` lack its modules, the optimizer never
    trains them, and `.to(device)` leaves them on the host.

    ## Example
    ```python
    import torch
    from torch import nn


    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(2, 2) for _ in range(3)]

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x


    stack = Stack()
    print(len(list(stack.parameters())), "parameters to train")
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn


    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x


    stack = Stack()
    print(len(list(stack.parameters())), "parameters to train")
    ```

    ## Fix safety
    A suggestion, which `--fix` leaves to you: older checkpoints lack the keys that were missing, and no longer
    load. The list or dict is wrapped in an `nn.ModuleList` or `nn.ModuleDict`. No fix is offered if later uses wouldn't work with that
    (`remove`, `sort`, `get`, lists in lists, keys that aren't plain strings), or if the attribute is set before
    `super().__init__()`.

    ## References
    - [torch.nn.ModuleList](https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html)
    - [torch.nn.ModuleDict](https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleDict.html)
    """

    code = "DEV104"
    name = "unregistered-module"
    trigger = attributes.TRIGGER
    effect = Effect(holds="not list(stack.parameters())")
    fix = "D"

    def concerns(self, unit: Unit) -> bool:
        found = attributes.kept(unit.statement)
        if found is None or unit.scope is None or not attributes.in_making(unit):
            return False
        return gathered.may_gather(found.value, unit.scope) and gathered.is_filled(found, unit.scope)

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        found = attributes.kept(unit.statement)
        if found is None or unit.scope is None:
            return False
        if gathered.gathering(found, unit.scope, model) is not None:
            return True
        return beside_registration(found, unit.scope, model) is not None

    def shape(self) -> m.BaseMatcherNode:
        return m.OneOf(m.Assign(targets=[m.AssignTarget(target=m.Attribute())]), m.AnnAssign(target=m.Attribute()))

    def judge(self, node: cst.Assign | cst.AnnAssign, facts: Facts) -> Iterator[Report]:
        found = attributes.kept(facts.statement)
        constructor = facts.scope
        if found is None or constructor is None:
            return
        cls = attributes.module_class(found, facts)
        if cls is None or not _stays_plain(facts.model.held(cls, found.name)):
            return
        registered = beside_registration(found, constructor, facts.model)
        if registered is not None:
            yield Report(
                node.targets[0].target if isinstance(node, cst.Assign) else node.target,
                f"`self.{found.name}` is a plain list beside the registration of its modules: a replica of `DataParallel` has "
                "copies of the modules, and this list of the first ones",
                "likely",
                notes=(facts.note("registered here", registered),),
                hint="keep them in an `nn.ModuleList` alone",
                # Many libraries do so, and most of what they hold is never replicated.
                minor=True,
            )
            return
        gathering = gathered.gathering(found, constructor, facts.model)
        if gathering is None or gathered.registered_elsewhere(found, gathering, cls, constructor, facts):
            return
        stateful = [e for e in gathering.elements if facts.model.holds_state(facts.model.value(e))]
        if not stateful:
            return
        kind = gathered.kind_of(found.value)
        change = _wrapped(found, gathering, constructor, facts)
        yield Report(
            node.targets[0].target if isinstance(node, cst.Assign) else node.target,
            f"`self.{found.name}` is a plain {kind}: the modules in it aren't registered, so `{cls.name}.parameters()` and `.to(device)` pass them over",
            "likely" if any(v.likely for e in stateful for _, v in facts.model.value(e).alternatives()) else "certain",
            notes=(facts.note("made here, and registered nowhere", stateful[0]),),
            hint=None if change else f"keep them in an `nn.{'ModuleDict' if kind == 'dict' else 'ModuleList'}`",
            change=change,
        )


def _stays_plain(value: Value) -> bool:
    """Whether an attribute holds a list or dict once the constructor is through with it."""
    return all(v.kind in (Kind.SEQUENCE, Kind.MAPPING) for _, v in value.alternatives())


def _wrapped(
    found: attributes.Kept, gathering: gathered.Gathering, constructor: FunctionModel, facts: Facts
) -> Change | None:
    """The list or dict as one that registers what it holds."""
    kind = gathered.kind_of(found.value)
    if (
        isinstance(found.statement, ast.AnnAssign)
        or gathering.nested
        or kind == "set"
        or (constructor.name == "__init__" and not attributes.after_super(found.statement, constructor))
        or _needs_plain(found.name, kind, facts)
        or (_registers_beside(constructor) and not _is_read(found.name, constructor, facts))
        or (kind == "dict" and not all(_is_key(key) for key in gathering.keys))
        or any(line > found.statement.lineno for line in gathering.added_to_alias)
    ):
        return None
    container = "ModuleDict" if kind == "dict" else "ModuleList"
    prefix, imports = _torch_nn(facts)
    edit = facts.replaced(found.value, f"{prefix}{container}({_inside(found.value, facts)})")
    return Change(f"keep them in an `nn.{container}`", "display", edits=(edit,), imports=imports)


def _inside(value: ast.expr, facts: Facts) -> str:
    match value:
        case ast.List(elts=[]) | ast.Dict(keys=[]) | ast.Tuple(elts=[]):
            return ""
        case ast.Call(args=[], keywords=[]):
            return ""
    code = facts.code_of(value)
    if isinstance(value, ast.Tuple) and (value.elts[0].lineno, value.elts[0].col_offset) == (
        value.lineno,
        value.col_offset,
    ):
        # Without parentheses of its own.
        return f"({code})"
    return code


def _needs_plain(attribute: str, kind: str, facts: Facts) -> bool:
    """Whether the file does something with such an attribute that only a plain list or dict can do."""
    lacking = DICT_ONLY if kind == "dict" else LIST_ONLY
    for node in walk(facts.model.source.tree):
        match node:
            case ast.Attribute(value=ast.Attribute(attr=attr), attr=name) if attr == attribute and name in lacking:
                return True
            case ast.BinOp(left=left, right=right) if any(
                isinstance(side, ast.Attribute) and side.attr == attribute for side in (left, right)
            ):
                return True
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Attribute(attr=attr), _]) if attr == attribute:
                return True
    return False


def _registers_beside(constructor: FunctionModel) -> bool:
    """Whether a constructor keeps something in an `nn.ModuleList` as well."""
    return any(
        isinstance(n, ast.Call) and last_name(n.func) in ("ModuleList", "ModuleDict", "Sequential")
        for n in constructor.nodes
    )


def _is_read(attribute: str, constructor: FunctionModel, facts: Facts) -> bool:
    """Whether the file reads such an attribute outside of the constructor: what nothing reads may be there to show what isn't registered."""
    inside = {id(n) for n in constructor.nodes}
    return any(
        isinstance(n, ast.Attribute) and n.attr == attribute and isinstance(n.ctx, ast.Load) and id(n) not in inside
        for n in walk(facts.model.source.tree)
    )


def _is_key(key: ast.expr | None) -> bool:
    """A key that nn.ModuleDict surely takes: a string without a dot that isn't a name of its own."""
    match key:
        case ast.Constant(value=str() as text):
            return bool(re.fullmatch(r"\w+", text)) and text not in OWN_KEYS and not text.startswith("_")
        case ast.JoinedStr(values=values):
            return all(not isinstance(v, ast.Constant) or "." not in str(v.value) for v in values)
        case ast.Call(func=ast.Name(id="str")):
            return True
    return False


def _torch_nn(facts: Facts) -> tuple[str, tuple[str, ...]]:
    """(how this file writes `torch.nn.`, the imports that it takes)."""
    whole = ""
    for name in facts.model.source.bindings:
        qualified = facts.model.global_value(name).name
        if qualified == "torch.nn":
            return f"{name}.", ()
        if qualified == "torch":
            whole = f"{name}.nn."
    return (whole, ()) if whole else ("nn.", ("from torch import nn",))
