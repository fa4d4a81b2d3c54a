"""DEV406: `.module` on a model that is never wrapped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, Value, last_name, walk
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.guards import expects_missing
from devlint_rules.wrappers.bare import bare_model

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel, Unit


class ModuleOfBareModel(Rule):
    """`.module` of a model that isn't wrapped.

    ## What it does
    Flags `.module` on a model that the code was seen to make and that isn't wrapped in `DataParallel`,
    `DistributedDataParallel` or anything else on any path to it. Classes that have such an attribute themselves (averaged
    models do), code under a guard (`hasattr`, `isinstance`, a flag), parameters that other files may give something to,
    and attributes that are set from outside are left alone.

    ## Why is this bad
    `module` is what the wrappers call the model inside. A bare model has none: `AttributeError: 'Net' object has no
    attribute 'module'`. It is what remains when the wrap is taken out, or when a script for one device is made from one
    for several.

    ## Example
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(x)


    model = Net()
    torch.save(model.module.state_dict(), "net.pt")
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(x)


    model = Net()
    torch.save(model.state_dict(), "net.pt")
    ```

    ## Fix safety
    Safe: the model itself is what `.module` was meant to give. Not offered where `model = model` would be left.

    ## References
    - [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
    """

    code = "DEV406"
    name = "module-of-bare-model"
    trigger = r"\.module\b(?!\s*=[^=])"
    effect = Effect(raises="AttributeError", words="'Net' object has no attribute 'module'")
    fix = "S"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return any(isinstance(part, ast.Attribute) and part.attr == "module" for part in walk(unit.node))

    def shape(self) -> m.BaseMatcherNode:
        return m.Attribute(attr=m.Name("module"))

    def judge(self, node: cst.Attribute, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        if not isinstance(found, ast.Attribute) or not isinstance(found.ctx, ast.Load):
            return
        bare = bare_model(found.value, facts)
        if bare is None or _is_given_one(bare[0], found, facts):
            return
        if expects_missing(found, "module", facts) or _is_under_a_flag(found, facts):
            return
        model, unsure = bare
        subject = facts.name_of(node.value)
        kind = model.cls.name if model.cls is not None else model.name.rsplit(".", 1)[-1]
        yield Report(
            node,
            f"`{subject}` is a bare {kind} that nothing wraps, and has no attribute `module`: AttributeError when it is reached",
            "likely" if unsure else "certain",
            notes=facts.notes(model.trail[:1]),
            hint="the model is bare: leave this out" if (is_own := _is_of_itself(found, facts)) else None,
            change=None if is_own else Change("drop `.module`: the model is bare", "safe", ((node, node.value),)),
        )


def _is_of_itself(found: ast.Attribute, facts: Facts) -> bool:
    """`model = model.module`, of which `model = model` would be left."""
    match facts.model.source.statement_of(found):
        case ast.Assign(targets=[target], value=value) if value is found:
            return ast.unparse(target) == ast.unparse(found.value)
    return False


def _is_given_one(model: Value, found: ast.Attribute, facts: Facts) -> bool:
    """The class, or other code, gives the model an attribute `module`."""
    if model.cls is not None and model.cls.defines("module"):
        return True
    if facts.model.value(found).kind is not Kind.UNKNOWN:
        return True
    # A container takes its parts' names from a dict.
    named = model.name in ("torch.nn.Sequential", "torch.nn.ModuleDict") and re.search(
        r"\bmodule=|['\"]module['\"]", facts.text.text
    )
    if named or _is_average(found.value, facts):
        return True
    return facts.model.texts_match(r"\.module\s*=(?!=)|(?:setattr|_module)\([^\n]{0,80}['\"]module['\"]")


def _is_average(model: ast.expr, facts: Facts) -> bool:
    """Whether it is kept under the name of an average, whose `module` is the copy: `self.mean = AveragedModel(net)`."""
    name = re.escape(last_name(model))
    return bool(name) and facts.model.texts_match(rf"\b{name}[ \t]*=[ \t]*[\w.]{{0,60}}AveragedModel\(")


# What a condition speaks of when it may stand for "the model is wrapped".
_ABOUT_WRAPPING = regex(
    r"paralle|distrib|\bd?dp\b|ddp|gpu|multi|world|rank|wrap|device|module|isinstance|hasattr|cuda", re.IGNORECASE
)


def _is_under_a_flag(found: ast.expr, facts: Facts) -> bool:
    """A condition around it may say that the model is wrapped: one about devices, or a bare flag."""
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        tests: list[ast.expr] = []
        match parent:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if child is not test:
                tests = [test]
            case ast.BoolOp(values=values):
                tests = [v for v in values if v is not child]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return False
        if any(_is_flag(t) or _ABOUT_WRAPPING.search(ast.unparse(t)) for t in tests):
            return True
        child = parent
    return False


def _is_flag(test: ast.expr) -> bool:
    """A name or an attribute, negated or not: it may stand for anything."""
    return isinstance(test.operand if isinstance(test, ast.UnaryOp) else test, (ast.Name, ast.Attribute))
