"""DEV301: torch.load without map_location."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from devlint.facts import Facts
from devlint.lazy import cst, m
from devlint.placement.sources import own_nodes
from devlint.rule import Change, Report, Rule


class LoadWithoutMapLocation(Rule):
    """A checkpoint that loads only on a machine like the one that wrote it.

    ## What it does
    Flags `torch.load` without `map_location`, under any name that it was imported or assigned to, and
    `functools.partial(torch.load, ...)`. A call with `*args` or `**kwargs` may hold it and is left alone, and so is
    one that reads back a buffer made in the same program.

    ## Why is this bad
    Tensors are restored to the device that they were saved from. On a machine without that GPU the load fails with
    `RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False`; on a
    machine with others, each process of a distributed program puts its copy on GPU 0.

    ## Example
    ```python
    import torch

    model = torch.nn.Linear(2, 2)
    model.load_state_dict(torch.load("checkpoint.pt"))
    ```

    ## Use instead
    ```python
    import torch

    model = torch.nn.Linear(2, 2)
    model.load_state_dict(torch.load("checkpoint.pt", map_location="cpu"))
    ```

    ## Fix safety
    Safe where the result goes straight into `load_state_dict`, which copies it to wherever the parameters are.
    Unsafe otherwise: what was loaded to a GPU before is then on the host.

    ## References
    - [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html)
    - [pytorch/pytorch 23138](https://github.com/pytorch/pytorch/issues/23138)
    """

    code = "DEV301"
    name = "load-without-map-location"
    trigger = r"\bload\b"
    alias = r"\bload\s+as\s+(\w+)|\b(\w+)\s*=\s*[\w.]*\bload\b(?!\s*\()"
    fix = "S/U"

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        first = _file_argument(node, facts)
        if first is None or _is_given(node.args[first:]) or _reads_own_buffer(node.args[first:], facts):
            return
        straight = _goes_into_load_state_dict(facts.node(node), facts) if not first else False
        device = _device_in_scope(node, facts)
        hints = [f"`map_location={device}` loads straight to it"] if device else []
        if "torch.distributed" in facts.text.text:
            hints.append("in a distributed program, each rank wants its own device")
        yield Report(
            node,
            f"`{facts.name_of(node.func)}` without `map_location` restores tensors to the device that they were saved from, and fails where that device is missing",
            hint="; ".join(hints) or None,
            change=Change(
                'add `map_location="cpu"`', "safe" if straight else "unsafe", ((node, _with_map_location(node)),)
            ),
        )


def _file_argument(node: cst.Call, facts: Facts) -> int | None:
    """Where torch.load's own arguments start in the call; None for other calls."""
    called = facts.qualified(node.func)
    if called == "torch.load":
        return 0
    if called == "functools.partial" and node.args and facts.qualified(node.args[0].value) == "torch.load":
        return None if _given_later(node, facts) else 1
    return None


def _given_later(node: cst.Call, facts: Facts) -> bool:
    """`load = partial(torch.load, ...)`, called with map_location somewhere."""
    found = facts.node(node)
    parent = next(facts.model.ancestors(found), None) if found is not None else None
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return False
    name = parent.targets[0].id
    calls = (
        n
        for n in ast.walk(facts.model.source.tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name
    )
    return any(k.arg in ("map_location", None) for call in calls for k in call.keywords)


def _is_given(args: Sequence[cst.Arg]) -> bool:
    positional = [a for a in args if a.keyword is None and not a.star]
    return len(positional) >= 2 or any(
        a.star or (a.keyword is not None and a.keyword.value == "map_location") for a in args
    )


def _reads_own_buffer(args: Sequence[cst.Arg], facts: Facts) -> bool:
    """`torch.load(buffer)` where this program filled the buffer: it comes back to where it was."""
    return bool(args) and any(v.name == "io.BytesIO" for _, v in facts.value(args[0].value).alternatives())


def _with_map_location(node: cst.Call) -> cst.Call:
    added = cst.Arg(
        keyword=cst.Name("map_location"),
        value=cst.SimpleString('"cpu"'),
        equal=cst.AssignEqual(whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")),
    )
    if not node.args:
        return node.with_changes(args=[added])
    *others, last = node.args
    if isinstance(last.comma, cst.Comma):
        # One argument a line: the new one keeps the layout and the trailing comma.
        between = (
            others[-1].comma
            if others and isinstance(others[-1].comma, cst.Comma)
            else cst.Comma(whitespace_after=_line_break(node, last))
        )
        return node.with_changes(args=[*others, last.with_changes(comma=between), added.with_changes(comma=last.comma)])
    return node.with_changes(
        args=[*others, last.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))), added]
    )


def _line_break(node: cst.Call, last: cst.Arg) -> cst.BaseParenthesizableWhitespace:
    before = node.whitespace_before_args
    return before if isinstance(before, cst.ParenthesizedWhitespace) else cst.SimpleWhitespace(" ")


def _goes_into_load_state_dict(call: ast.expr | None, facts: Facts) -> bool:
    if call is None:
        return False
    if _is_loaded(call, facts):
        return True
    parent = next(facts.model.ancestors(call), None)
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1 or not isinstance(parent.targets[0], ast.Name):
        return False
    name = parent.targets[0].id
    scope = facts.model.enclosing_scope(call)
    uses = [n for n in own_nodes(scope) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    return bool(uses) and all(_is_loaded(use, facts) for use in uses)


def _is_loaded(node: ast.expr, facts: Facts) -> bool:
    """Whether an expression, or a part of it by subscript, is the argument of `load_state_dict`."""
    child: ast.AST = node
    for parent in facts.model.ancestors(node):
        match parent:
            case ast.Subscript(value=value) if value is child:
                child = parent
            case ast.Call(func=ast.Attribute(attr="load_state_dict"), args=[argument, *_]):
                return argument is child
            case _:
                return False
    return False


def _device_in_scope(node: cst.Call, facts: Facts) -> str | None:
    """A variable called `device` that is bound before the call, here or at the top level."""
    found = facts.node(node)
    if found is None:
        return None
    scope = facts.model.enclosing_scope(found)
    if not isinstance(scope, ast.Module):
        function = facts.model.source.function(scope)
        if any(a.arg == "device" for a in function.parameters):
            return "device"
    stores = (
        n
        for s in {scope, facts.model.source.tree}
        for n in own_nodes(s)
        if isinstance(n, ast.Name) and n.id == "device" and isinstance(n.ctx, ast.Store)
    )
    if any(n.lineno < found.lineno for n in stores):
        return "device"
    return None
