"""DEV401: a method or attribute that a parallel wrapper hasn't got."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule

if TYPE_CHECKING:
    from devlint.facts import Facts
    from devlint.placement.analysis import Missing


class MissingModuleAttribute(Rule):
    """A method or attribute that a parallel wrapper hasn't got.

    ## What it does
    Flags methods and attributes of your own class that are asked of a `DataParallel` or `DistributedDataParallel`
    object, also where the model is wrapped on some paths only (`if torch.cuda.device_count() > 1:`), in another
    function, or in another file. What the wrapper has itself, `nn.Module`'s own interface, and code under a guard
    (`isinstance`, `hasattr`, `getattr(model, "module", model)`, `except AttributeError`) are left alone.

    ## Why is this bad
    A wrapper is an `nn.Module` around your model, and passes on `forward` alone. Anything else raises
    `AttributeError: 'DataParallel' object has no attribute ...`, and it does so only on the machine with two GPUs.

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

        def freeze(self):
            self.requires_grad_(False)


    model = nn.DataParallel(Net())
    model.freeze()
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

        def freeze(self):
            self.requires_grad_(False)


    model = nn.DataParallel(Net())
    model.module.freeze()
    ```

    ## Fix safety
    Safe. Where the model is always wrapped, `.module` is inserted; where it is wrapped on some paths only, the model
    is unwrapped by `getattr(model, "module", model)`, which leaves a bare model as it is.

    ## References
    - [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
    - [pytorch/pytorch 43329](https://github.com/pytorch/pytorch/issues/43329)
    """

    code = "DEV401"
    name = "missing-module-attribute"
    # In code, not in prose: called, imported, or named in an annotation or a check.
    trigger = r"DataParallel\s*[(),\]:|]|DataParallel\s+as\b|import\s[^\n]*DataParallel"
    event = "missing-attribute"
    effect = Effect(raises="AttributeError", words="'DataParallel' object has no attribute 'freeze'")
    fix = "S"

    def shape(self) -> m.BaseMatcherNode:
        return m.Attribute()

    def judge(self, node: cst.Attribute, facts: Facts) -> Iterator[Report]:
        missing = facts.missing(node)
        found = facts.node(node)
        if missing is None or found is None or _is_expected(found, node.attr.value, facts):
            return
        wrapper = missing.wrapper.name.rsplit(".", 1)[-1]
        subject = facts.name_of(node.value)
        when = (
            f"`{subject}` is a {wrapper} on some paths, and that"
            if missing.sometimes
            else f"`{subject}` is a {wrapper}, which"
        )
        yield Report(
            node,
            f"{when} has no attribute `{node.attr.value}`: AttributeError when it is reached",
            "likely" if missing.wrapper.likely else "certain",
            notes=facts.notes(missing.wrapper.trail),
            change=_unwrapped(node, found, missing, facts),
        )


def _is_expected(found: ast.expr, attribute: str, facts: Facts) -> bool:
    """The code is ready for the attribute to be missing."""
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.Try(body=body, handlers=handlers) if child in body:
                if any(
                    h.type is None or any(n in ast.unparse(h.type) for n in ("AttributeError", "Exception"))
                    for h in handlers
                ):
                    return True
            case ast.If(test=test) | ast.IfExp(test=test) if child is not test and _asks(test, attribute):
                return True
            case ast.BoolOp(values=values) if any(v is not child and _asks(v, attribute) for v in values):
                return True
        child = parent
    return False


def _asks(test: ast.expr, attribute: str) -> bool:
    """`hasattr(x, "<attribute>")` in a condition."""
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Name)
        and n.func.id in ("hasattr", "getattr")
        and len(n.args) > 1
        and isinstance(n.args[1], ast.Constant)
        and n.args[1].value == attribute
        for n in ast.walk(test)
    )


def _unwrapped(node: cst.Attribute, found: ast.expr, missing: Missing, facts: Facts) -> Change:
    owner = node.value
    if not missing.sometimes:
        return Change(
            "insert `.module`: the wrapped model is there",
            "safe",
            ((node, node.with_changes(value=cst.Attribute(owner, cst.Name("module")))),),
        )
    quote = _free_quote(found, facts)
    unwrapped = cst.Call(
        cst.Name("getattr"),
        [cst.Arg(owner), cst.Arg(cst.SimpleString(f"{quote}module{quote}")), cst.Arg(owner.deep_clone())],
    )
    return Change(
        "unwrap it first: the wrapped model is its `.module`", "safe", ((node, node.with_changes(value=unwrapped)),)
    )


def _free_quote(found: ast.expr, facts: Facts) -> str:
    """A quote that a string at this place may use: before Python 3.12, not that of the f-string around it."""
    texts = [facts.code_of(parent) for parent in facts.model.ancestors(found) if isinstance(parent, ast.JoinedStr)]
    return "'" if any('"' in text for text in texts) else '"'
