"""DEV607: the device of a module, which has none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, Value, access_path, calls_in, last_name, walk
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.arguments import has_no_parameters
from devlint_rules.guards import expects_missing

if TYPE_CHECKING:
    from devlint.facts import ClassModel, Facts, FunctionModel, Unit


class ModuleHasNoDevice(Rule):
    """`.device` of a module, which has no such attribute.

    ## What it does
    Flags `.device` on a module of `torch.nn`, of `torchvision.models`, or of a class of your own that neither has
    such an attribute or property nor inherits one. Classes with a base that can't be seen are left alone, such as those
    of Lightning and transformers, which have a `device`; so are those with a `__getattr__`, those that are given the
    attribute from outside, and code under a guard (`hasattr`, `getattr`, `except AttributeError`).

    ## Why is this bad
    A tensor has a device; a module's parameters may be at several, so `nn.Module` has none:
    `AttributeError: 'Net' object has no attribute 'device'`.

    ## Example
    ```python
    import torch
    from torch import nn

    model = nn.Linear(2, 2).to("cuda")
    x = torch.ones(2, device=model.device)
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    model = nn.Linear(2, 2).to("cuda")
    x = torch.ones(2, device=next(model.parameters()).device)
    ```

    ## Fix safety
    A suggestion, which `--fix` leaves to you: the device of the first parameter is used. You may rather want to give the class a device
    of its own. Not offered for modules that have no parameters.

    ## References
    - [torch.nn.Module](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    - [pytorch/pytorch 7460](https://github.com/pytorch/pytorch/issues/7460)
    """

    code = "DEV607"
    name = "module-has-no-device"
    # By the names that modules go by, and `self`: asking everything that has a device would cost too much.
    trigger = (
        r"(?:self|model|net|module|coder|generator|discriminator|critic|actor|policy|head|backbone|layer|linear|fc|conv|norm"
        r"|student|teacher|classifier|embedding)s?(?:_?\d+)?(?:\[[^\]\n]{0,200}\])?\.device\b(?!\s*=[^=])"
    )
    needs = (r"\.device\b",)
    effect = Effect(raises="AttributeError", words="object has no attribute 'device'")
    fix = "D"

    def concerns(self, unit: Unit) -> bool:
        """Of `self.device`, those in plain modules that don't set it."""
        owners = {
            n.value.id if isinstance(n.value, ast.Name) else ""
            for n in walk(unit.node)
            if isinstance(n, ast.Attribute) and n.attr == "device" and isinstance(n.ctx, ast.Load)
        }
        return bool(owners - {"self"}) or ("self" in owners and _in_plain_module(unit.scope))

    def shape(self) -> m.BaseMatcherNode:
        return m.Attribute(attr=m.Name("device"))

    def judge(self, node: cst.Attribute, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        if not isinstance(found, ast.Attribute) or not isinstance(found.ctx, ast.Load):
            return
        options = [v for _, v in facts.value(node.value).alternatives()]
        if not all(has_no_device(v, facts) for v in options) or expects_missing(found, "device", facts):
            return
        if _is_given(facts.model.source.tree) or _is_of_engine(found.value, facts):
            return
        if not any(v.trail for v in options) and facts.model.texts_match(_ENGINES):
            # Said to be a module by an annotation alone, it may be the engine around one.
            return
        of_self = isinstance(found.value, ast.Name) and found.value.id == "self"
        called = last_name(found.value)
        given = (
            _GIVEN
            if of_self
            else rf"(?<![\w.])(?:self\.)?{re.escape(called)}\.device[ \t]{{0,9}}=(?!=)"
            if called
            else ""
        )
        if given and facts.model.texts_match(given, elsewhere=True):
            # Something else of the project gives one to what is called so.
            return
        yield Report(
            node,
            f"`{facts.name_of(node.value)}` is a module, and modules have no `device`: AttributeError when it is reached",
            "likely" if of_self or any(v.likely for v in options) else "certain",
            notes=facts.notes(options[0].trail),
            change=of_first_parameter(node, options),
            minor=of_self and _is_handed_on(facts),
        )


def _is_handed_on(facts: Facts) -> bool:
    """Whether the class around is given to something, `FederatedModel(build_model=UNet)`, which may call its methods of another object."""
    cls = facts.model.source.class_of(facts.statement)
    calls = (n for n in walk(facts.model.source.tree) if isinstance(n, ast.Call)) if cls is not None else ()
    return cls is not None and any(
        isinstance(given, ast.Name) and given.id == cls.name
        for call in calls
        if last_name(call.func) not in _ASKING
        for given in (*call.args, *(k.value for k in call.keywords))
    )


# What is told a class, and makes nothing of it.
_ASKING = frozenset(
    {"super", "isinstance", "issubclass", "cast", "print", "type", "getattr", "hasattr", "signature", "help", "patch"}
)


# `policy.device = device`, or `self.policy.device = device`, in another file.
_GIVEN = r"(?<![\w.])(?:\w{1,60}\.){0,4}(?!(?:self|cls|args|opts?|cfg|config|params|hparams)\b)\w{1,60}\.device[ \t]{0,9}=(?!=)"


_ENGINES = r"(?i)deepspeed"


def _is_of_engine(owner: ast.expr, facts: Facts) -> bool:
    """Whether DeepSpeed made it: its engine, unlike the module within, has a `device`."""
    values = facts.model.assigned_values(owner) if isinstance(owner, ast.Name) else []
    parts = {n for value in values for n in calls_in(value)}
    return any((access_path(call.func) or "").startswith("deepspeed.") for call in parts)


def _in_plain_module(function: FunctionModel | None) -> bool:
    """Whether a method's class looks like a module that has no device of its own."""
    while function is not None and function.cls is None:
        function = function.parent
    if function is None or function.cls is None:
        return False
    bases = [ast.unparse(b) for b in function.cls.bases]
    return any(b.split(".")[-1] in _MODULES or b.startswith("nn.") for b in bases) and not any(
        isinstance(n, ast.Attribute) and n.attr == "device" and isinstance(n.ctx, ast.Store) for n in walk(function.cls)
    )


_MODULES = ("Module", "Sequential", "ModuleList", "ModuleDict", "ScriptModule")


def has_no_device(value: Value, facts: Facts) -> bool:
    """Whether a value is a module of which it is known that it has no `device`."""
    if value.kind is not Kind.MODULE:
        return False
    if value.cls is None:
        return _is_known(value.name)
    cls = value.cls
    if any(_has(c) for c in cls.project_lineage()) or any(_is_given(c.source.tree) for c in cls.project_lineage()):
        return False
    return all(_is_known(base) or base in _PLAIN for base in cls.outside_bases) and not _is_completed(cls, facts)


_PLAIN = frozenset({"builtins.object", "object", "abc.ABC", "typing.Generic", "typing.Protocol"})


def _is_known(name: str) -> bool:
    """Modules of which it is known that they have no `device`: that was read off torch.nn and torchvision."""
    return name.startswith(("torch.nn.", "torchvision.models."))


def _has(cls: ClassModel) -> bool:
    """Whether a class has a `device`, or may find one by itself."""
    names = ("device", "__getattr__", "__getattribute__", "__slots__")
    if cls.node.decorator_list or any(n in cls.methods or n in cls.class_level or n in cls.assigned_in for n in names):
        return True
    return any(
        (isinstance(n, ast.Attribute) and n.attr == "__dict__")
        or (isinstance(n, ast.Name) and n.id in ("setattr", "vars"))
        or (isinstance(n, ast.Attribute) and n.attr == "device" and isinstance(n.ctx, ast.Store))
        for n in walk(cls.node)
    )


def _is_completed(cls: ClassModel, facts: Facts) -> bool:
    """A class that is meant to be completed by others: abstract, or with a subclass that has a device."""
    if any(b in ("abc.ABC", "typing.Protocol") for b in cls.outside_bases):
        return True
    if any("abstractmethod" in d for f in cls.methods.values() for d in f.decorators):
        return True
    subclasses = [c for c in facts.model.known_classes() if c is not cls and cls in c.lineage]
    return any(_has(c) for c in subclasses) or any(_is_completed_elsewhere(c, facts) for c in (cls, *subclasses))


def _is_completed_elsewhere(cls: ClassModel, facts: Facts) -> bool:
    """Whether a class of another file that is derived from it sets a device."""
    home = facts.model.file_of(cls.source) or facts.model
    # The files that name a class may be many more than those that derive others from it.
    deriving = home.files_matching(rf"\bclass\s+\w+\([^)\n]{{0,200}}\b{cls.node.name}\b", _MAX_FILES)
    return any(
        isinstance(n, ast.ClassDef)
        and any(last_name(base) == cls.node.name for base in n.bases)
        and any(isinstance(a, ast.Attribute) and a.attr == "device" and isinstance(a.ctx, ast.Store) for a in walk(n))
        for file in deriving
        for n in file.source.tree.body
    )


# So many files are read for what is derived from a class.
_MAX_FILES = 40


def _is_given(tree: ast.Module) -> bool:
    """Whether a file sets the `device` of something that isn't called `self`: `model.device = device`."""
    known = getattr(tree, "devlint_gives_device", None)
    if known is None:
        known = any(_gives(n) for n in walk(tree))
        setattr(tree, "devlint_gives_device", known)  # noqa: B010
    return bool(known)


def _gives(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=owner, attr="device", ctx=ast.Store()):
            return not (isinstance(owner, ast.Name) and owner.id in ("self", "args", "opt", "cfg", "config"))
        case ast.Call(func=ast.Name(id="setattr"), args=[_, name, *_]):
            return not isinstance(name, ast.Constant) or name.value == "device"
    return False


def of_first_parameter(node: cst.Attribute, options: list[Value]) -> Change | None:
    """`next(model.parameters()).device`, where all that it may be have parameters."""
    if any(has_no_parameters(v) for v in options):
        return None
    parameters = cst.Call(cst.Attribute(node.value, cst.Name("parameters")))
    first = cst.Call(cst.Name("next"), [cst.Arg(parameters)])
    return Change("ask its first parameter", "display", ((node, node.with_changes(value=first)),))
