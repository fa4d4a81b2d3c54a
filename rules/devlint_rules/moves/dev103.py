"""DEV103: a module's tensor that is neither parameter nor buffer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.facts import Mixing, calls_in, is_test_file, kept_on_node
from devlint.findings import Edit
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.moves import attributes

if TYPE_CHECKING:
    from devlint.facts import ClassModel, Facts, FunctionModel, PlacementModel, Unit

# A class that defines one of these moves its tensors itself.
MOVERS = ("_apply", "to", "cuda", "cpu")


class UnregisteredTensor(Rule):
    """A module's tensor that is neither parameter nor buffer, and stays behind when the module moves.

    ## What it does
    Flags a tensor that a module's constructor, or the first use of a property or method, makes on the host and keeps
    in a plain attribute, where `forward`, a step function of Lightning, or a method that they call brings it together
    with an input, a parameter or a layer's output. Left alone are attributes that are moved where they are used, set again elsewhere, used on
    the host only, or without dimensions (PyTorch takes those from the host in arithmetic), and classes with their own `to`, `cuda` or
    `_apply`.

    ## Why is this bad
    `module.to(device)` moves parameters, buffers and submodules. A plain attribute isn't among them: it stays on the
    host, and the first batch on an accelerator fails with `RuntimeError: Expected all tensors to be on the same
    device`. A test without an accelerator doesn't see it.

    ## Example
    ```python
    import torch
    from torch import nn


    class Normalize(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean = torch.tensor([0.4, 0.5, 0.6])

        def forward(self, x):
            return x - self.mean


    normalize = Normalize().to("cuda")
    print(normalize(torch.ones(2, 3, device="cuda")))
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn


    class Normalize(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6]), persistent=False)

        def forward(self, x):
            return x - self.mean


    normalize = Normalize().to("cuda")
    print(normalize(torch.ones(2, 3, device="cuda")))
    ```

    ## Fix safety
    A suggestion, which `--fix` leaves to you: the tensor becomes a buffer, which `.half()` and `.to(dtype)` also cast, and which
    DistributedDataParallel synchronises. Like the attribute, it isn't saved in the state dict. Not offered for a tensor that requires a
    gradient (it should be a parameter), one that is set more than once, or one that is set before `super().__init__()`.

    ## References
    - [torch.nn.Module.register_buffer](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer)
    - [pytorch/pytorch 122757](https://github.com/pytorch/pytorch/issues/122757)
    """

    code = "DEV103"
    name = "unregistered-tensor"
    trigger = attributes.TRIGGER
    effect = Effect(raises="RuntimeError", words="same device")
    seen_as = ("mismatch",)
    meets_elsewhere = True
    fix = "D"

    def concerns(self, unit: Unit) -> bool:
        found = attributes.kept(unit.statement)
        made = attributes.in_constructor(unit) or attributes.at_first_use(unit)
        if found is None or not made or not _may_be_tensor(found.value, unit.scope):
            return False
        cls = unit.scope.cls if unit.scope is not None else None
        return cls is not None and found.name in attributes.read_by_methods(cls)

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        found = attributes.kept(unit.statement)
        return found is not None and (found.target.lineno, found.target.col_offset) in model.kept

    def shape(self) -> m.BaseMatcherNode:
        return m.OneOf(m.Assign(targets=[m.AssignTarget(target=m.Attribute())]), m.AnnAssign(target=m.Attribute()))

    def judge(self, node: cst.Assign | cst.AnnAssign, facts: Facts) -> Iterator[Report]:
        found = attributes.kept(facts.statement)
        constructor = facts.scope
        if found is None or constructor is None:
            return
        cls = attributes.module_class(found, facts)
        met = facts.model.kept.get((found.target.lineno, found.target.col_offset))
        if cls is None or met is None:
            return
        if _is_registered(found.name, cls):
            return
        if attributes.overrides(cls, MOVERS) or attributes.set_elsewhere(
            found.name, constructor, facts, from_outside=True
        ):
            return
        function = facts.model.enclosing_scope(met.node)
        where = function.name if not isinstance(function, ast.Module) else cls.name
        set_elsewhere = attributes.set_elsewhere(found.name, constructor, facts)
        cached = constructor.name != "__init__"
        change = None if set_elsewhere or cached else _registered(found, constructor, facts)
        yield Report(
            node.targets[0].target if isinstance(node, cst.Assign) else node.target,
            f"`self.{found.name}` is a plain tensor, which `{cls.name}.to(device)` leaves on cpu; it meets moved ones in `{where}`",
            "likely" if is_guess(met) else "certain",
            notes=(
                *facts.notes(met.host.value.trail[:-1]),
                facts.note(f"meets moved tensors here, in `{where}`", met.node),
            ),
            hint=None if change else _AT_USE if cached else _REGISTERED,
            change=change,
            # What is made to be exported runs on the host.
            minor=is_test_file(Path(facts.path)) or _EXPORTED.search(facts.path) is not None,
        )


_EXPORTED = regex(r"(?i)onnx|(?:^|/)export")
_REGISTERED = "make it a buffer (`register_buffer`), or a parameter where it is trained"
_AT_USE = (
    "make it on the device of what it meets, anew where that has changed, or register it as a buffer in the constructor"
)


def _is_registered(name: str, cls: ClassModel) -> bool:
    """Whether a class registers that name first, empty maybe: a tensor that is assigned to it is a buffer then."""
    return name in _registered_names(cls.node)


@kept_on_node
def _registered_names(cls: ast.ClassDef) -> frozenset[object]:
    return frozenset(
        n.args[0].value
        for n in calls_in(cls)
        if isinstance(n.func, ast.Attribute)
        and n.func.attr in ("register_buffer", "register_parameter")
        and n.args
        and isinstance(n.args[0], ast.Constant)
    )


def _may_be_tensor(value: ast.expr, constructor: FunctionModel | None) -> bool:
    """An operation, a call of something that isn't a class of modules, or a name that isn't a plain parameter."""
    match value:
        case ast.Name(id=name):
            return not attributes.is_parameter(name, constructor)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return not name[:1].isupper() or name.endswith(("Tensor", "Variable"))
    return isinstance(value, (ast.Call, ast.BinOp, ast.UnaryOp, ast.Subscript, ast.IfExp, ast.Attribute, ast.Compare))


def is_guess(met: Mixing) -> bool:
    """Whether the tensor that it meets is one by its name or use alone."""
    return met.host.value.likely or met.other.value.likely


def _reworks(value: ast.expr, name: str) -> bool:
    """Whether an attribute's new value is made of its old one."""
    return any(isinstance(n, ast.Attribute) and n.attr == name for n in ast.walk(value))


def _registered(found: attributes.Kept, constructor: FunctionModel, facts: Facts) -> Change | None:
    """The tensor kept as a buffer instead."""
    # A buffer takes a tensor that is made of it; setting its name anew on another path, it wouldn't be one.
    written = [
        n
        for n in constructor.nodes
        if isinstance(n, ast.stmt)
        and (other := attributes.kept(n)) is not None
        and other.name == found.name
        and not _reworks(other.value, found.name)
    ]
    wants_grad = any(
        (isinstance(n, ast.keyword) and n.arg == "requires_grad")
        or (isinstance(n, ast.Attribute) and n.attr == "requires_grad_")
        for n in ast.walk(found.value)
    )
    if len(written) != 1 or wants_grad or not attributes.after_super(found.statement, constructor):
        return None
    code = _buffer(found, facts)
    if code is None:
        return None
    edit: Edit = facts.replaced(found.statement, code)
    return Change("register it as a buffer, which moves with the module", "display", edits=(edit,))


def _buffer(found: attributes.Kept, facts: Facts) -> str | None:
    """`self.register_buffer(...)`, one argument a line where the value takes several; None where texts would be moved along."""
    value = facts.code_of(found.value)
    if "\n" not in value:
        return f'self.register_buffer("{found.name}", {value}, persistent=False)'
    if '"""' in value or "'''" in value or "\\\n" in value:
        return None
    newline, margin = facts.text.newline, " " * found.statement.col_offset
    lines = [value.splitlines()[0], *(f"    {line}" if line.strip() else line for line in value.splitlines()[1:])]
    moved = newline.join(lines)
    return newline.join(
        [
            "self.register_buffer(",
            f'{margin}    "{found.name}",',
            f"{margin}    {moved},",
            f"{margin}    persistent=False,",
            f"{margin})",
        ]
    )
