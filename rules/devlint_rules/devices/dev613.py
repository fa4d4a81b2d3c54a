"""DEV613: a device that an object keeps from the time when it was made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import FunctionModel, dotted, walk
from devlint.findings import Edit
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.made import holds_nothing, is_moved_to_the_same

if TYPE_CHECKING:
    from devlint.facts import ClassInfo, Facts, PlacementModel, Unit


class StaleDevice(Rule):
    """A device that an object remembers from when it was made, and that may be out of date.

    ## What it does
    Flags `self.device = device` in a module's constructor, if methods put new tensors or their inputs on `self.device`; the
    same in a module's own `to`, `cuda` or `cpu`; and a class with a device and its own `to` that moves its tensors
    but doesn't update the device. Left alone are modules that keep it up to date in `_apply`, modules that move themselves there
    when they are made, and a `device` that is a property.

    This rule is new, and opt-in: select it by its code.

    ## Why is this bad
    `module.to(...)` moves parameters and buffers, but changes no other attribute. When a parent module is moved, the `to` of its submodules
    isn't even called, only `_apply`. What is made on the old device then meets the parameters on the new one: `RuntimeError: Expected all tensors
    to be on the same device`.

    ## Example
    ```python
    import torch
    from torch import nn


    class Positions(nn.Module):
        def __init__(self, device="cpu"):
            super().__init__()
            self.device = device
            self.table = nn.Embedding(8, 4, device=device)

        def forward(self, n):
            return self.table(torch.arange(n, device=self.device))


    Positions().to("cuda")(3)
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn


    class Positions(nn.Module):
        def __init__(self, device="cpu"):
            super().__init__()
            self.table = nn.Embedding(8, 4, device=device)

        def forward(self, n):
            return self.table(torch.arange(n, device=self.table.weight.device))


    Positions().to("cuda")(3)
    ```

    ## Fix safety
    Unsafe: the methods use the device of the first parameter. The attribute itself stays, for code that reads it from outside.

    ## References
    - [torch.nn.Module.to](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to)
    - [Lightning-AI/torchmetrics 2068](https://github.com/Lightning-AI/torchmetrics/issues/2068)
    """

    code = "DEV613"
    name = "stale-device"
    trigger = r"\bself\._?device\s*(?::[^=\n]{1,60})?=[^=]|\.to\("
    needs = (r"\bself\._?device\s*(?::[^=\n]{1,60})?=[^=]",)
    default = False
    effect = Effect(raises="RuntimeError", words="Expected all tensors to be on the same device")
    fix = "U"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return any(_kept(n, unit.scope, model) is not None or _moving(n, unit.scope, model) for n in walk(unit.node))

    def shape(self) -> m.BaseMatcherNode:
        return m.Attribute(attr=m.Name("device") | m.Name("_device")) | m.Call(func=m.Attribute(attr=m.Name("to")))

    def judge(self, node: cst.Attribute | cst.Call, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        if found is None:
            return
        kept = _kept(found, facts.scope, facts.model)
        if kept is not None:
            name = ast.unparse(found)
            scope = facts.scope
            assert scope is not None
            why = (
                "is where the module was made"
                if scope.name == "__init__"
                else "follows this method alone, and a parent's move calls `_apply`"
            )
            yield Report(
                node,
                f"`{name}` {why}: what is placed by it stays behind when the module moves",
                "likely",
                notes=tuple(facts.note(f"`{name}` places this", use) for use in kept[:4]),
                change=_by_parameters(kept, scope, facts),
                minor=_is_minor(found, scope, facts.model),
            )
            return
        attribute = _moving(found, facts.scope, facts.model)
        if attribute:
            yield Report(node, f"`to` moves the tensors and leaves `{attribute}` as it was", "likely")


def _is_minor(found: ast.expr, scope: FunctionModel, model: PlacementModel) -> bool:
    """Whether nobody makes such a module, or whoever does moves it to that device alone, or there is nothing in it to be moved."""
    return model.is_unused(found) or is_moved_to_the_same(scope, model) or holds_nothing(_class_of(scope, model))


def _class_of(scope: FunctionModel | None, model: PlacementModel) -> ClassInfo | None:
    return model.class_info(scope.cls) if scope is not None and scope.cls is not None else None


def _kept(node: ast.AST, scope: FunctionModel | None, model: PlacementModel) -> list[ast.expr] | None:
    """Where the methods of a module place something by the attribute that is set here; None where nothing is amiss."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=("device" | "_device") as name, ctx=ast.Store()):
            pass
        case _:
            return None
    cls = _class_of(scope, model)
    if cls is None or scope is None or scope.name not in ("__init__", "to", "cuda", "cpu") or not _moves_parts(cls):
        return None
    if scope.name == "__init__" and any(cls.method(n) and _sets(cls.method(n), name) for n in ("to", "cuda")):
        # Told where it is set then.
        return None
    if _is_up_to_date(cls, name):
        return None
    attributes = {name, *_properties(cls, name)}
    found = list(_uses(cls, attributes))
    # What a property hands out is used by others.
    return found if found or (scope.name != "__init__" and len(attributes) > 1) else None


def _moves_parts(cls: ClassInfo) -> bool:
    """A module that leaves moving to torch.nn.Module, as far as can be seen."""
    plain = ("torch.nn.", "abc.", "typing.", "builtins.", "object")
    return cls.is_module and all(base.startswith(plain) for base in cls.outside_bases)


def _is_up_to_date(cls: ClassInfo, name: str) -> bool:
    """Whether a move of the module changes the attribute, or the module is placed once and for all."""
    apply = cls.method("_apply")
    if apply is not None and name in apply.text:
        return True
    own = cls.method(name)
    if own is not None and not (own.is_property and name != "_device"):
        return True
    if any(m.is_property and m.name == name for m in cls.methods()):
        return True
    if any(_sets(m, name) and m.name not in ("__init__", "to", "cuda", "cpu") for m in cls.methods()):
        # Whoever moves the module can tell it.
        return True
    constructor = cls.method("__init__")
    return constructor is not None and any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in ("to", "cuda")
        and _is_part(n.func.value)
        for n in constructor.nodes
    )


def _is_part(node: ast.expr) -> bool:
    """What a constructor moves: the object or a part of it, by whatever name."""
    return not isinstance(node, ast.Call)


def _properties(cls: ClassInfo, name: str) -> Iterator[str]:
    """Properties that hand an attribute out."""
    for method in cls.methods():
        if method.is_property and f"return self.{name}\n" in f"{method.text}\n":
            yield method.name


def _sets(method: FunctionModel | None, name: str) -> bool:
    return method is not None and any(
        isinstance(n, ast.Attribute) and n.attr == name and isinstance(n.ctx, ast.Store) for n in method.nodes
    )


def _uses(cls: ClassInfo, attributes: set[str]) -> Iterator[ast.expr]:
    """The calls that place something by an attribute, in methods that run after the module was made."""
    for method in cls.methods():
        if method.source is not cls.source or method.name in _MAKING or method.name.startswith(_MAKING_PREFIXES):
            continue
        for node in method.nodes:
            if (
                isinstance(node, ast.Call)
                and any(_is_of(d, attributes) for d in _devices(node))
                and not _is_own_part(node)
            ):
                yield node


_MAKING = frozenset(
    {"__init__", "to", "cuda", "cpu", "_apply", "reset_parameters", "reset", "__setstate__", "from_pretrained"}
)
_MAKING_PREFIXES = (
    "init",
    "_init",
    "build",
    "_build",
    "make_",
    "_make",
    "load",
    "_load",
    "setup",
    "create",
    "_create",
    "save",
)


def _is_of(node: ast.expr, attributes: set[str]) -> bool:
    return isinstance(node, ast.Attribute) and dotted(node) in {f"self.{a}" for a in attributes}


def _devices(call: ast.Call) -> Iterator[ast.expr]:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "to" and call.args:
        yield call.args[0]
    yield from (k.value for k in call.keywords if k.arg == "device")


def _is_own_part(call: ast.Call) -> bool:
    """`self.net.to(self.device)`: a part that is moved there itself."""
    text = dotted(call.func) or ""
    return text.startswith("self.") and text.endswith(".to")


def _moving(node: ast.AST, scope: FunctionModel | None, model: PlacementModel) -> str:
    """The attribute that a class's own `to` leaves as it was, at its first move of a tensor; "" elsewhere."""
    if (
        not isinstance(node, ast.Call)
        or scope is None
        or scope.name != "to"
        or not isinstance(node.func, ast.Attribute)
    ):
        return ""
    cls = _class_of(scope, model)
    if (
        cls is None
        or cls.is_module
        or (
            cls.outside_bases
            and not all(b.startswith(("abc.", "typing.", "builtins.", "object")) for b in cls.outside_bases)
        )
    ):
        return ""
    moves = [
        n for n in scope.nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "to"
    ]
    if not moves or node is not min(moves, key=lambda n: (n.lineno, n.col_offset)):
        return ""
    text = scope.text
    if (
        not ("setattr(self," in text or _stores_parts(scope))
        or "__dict__" in text
        or "device" not in {a.arg for a in scope.parameters}
    ):
        return ""
    for name in ("device", "_device"):
        family = [cls, *(c for c in model.classes() if cls in c.lineage())]
        constructors = [m for c in family for m in c.methods() if m is not scope and _sets(m, name)]
        if constructors and not _sets(scope, name) and cls.method(name) is None and f'"{name}"' not in text:
            return f"self.{name}"
    return ""


def _stores_parts(scope: FunctionModel) -> bool:
    """`self.x = self.x.to(...)`."""
    return any(
        isinstance(n, ast.Attribute)
        and isinstance(n.ctx, ast.Store)
        and isinstance(n.value, ast.Name)
        and n.value.id == "self"
        for n in scope.nodes
    )


def _by_parameters(kept: list[ast.expr], scope: FunctionModel, facts: Facts) -> Change | None:
    """The methods ask the first parameter, where the module surely has one."""
    if scope.name != "__init__" or not any(
        w in scope.text for w in ("nn.Linear(", "nn.Conv", "nn.Embedding(", "nn.Parameter(")
    ):
        return None
    edits: list[Edit] = []
    for call in kept:
        assert isinstance(call, ast.Call)
        edits += (
            facts.replaced(d, "next(self.parameters()).device")
            for d in _devices(call)
            if isinstance(d, ast.Attribute) and (dotted(d) or "").startswith("self.")
        )
    return Change("ask the parameters", "unsafe", edits=tuple(edits))
