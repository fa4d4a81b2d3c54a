"""Whose keys a checkpoint has: a model that is wrapped on one machine and bare on another, one that fills itself, or a wrapper that was pickled."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from devlint.facts import own_nodes
from devlint.lazy import regex

if TYPE_CHECKING:
    from devlint.facts import Facts


# What speaks of a choice of devices, or of several processes.
_OF_PLACES = regex(r"(?i)\bdevices?\b|is_available|no_?cuda|use_?cuda|gpus?\b|\brank\b|local_rank|distributed")


def fills_itself(call: ast.Call, facts: Facts) -> bool:
    """Whether a model's own method fills it, and says nothing of devices: its weights were made ready for everybody."""
    scope = facts.model.enclosing_scope(call)
    if isinstance(scope, ast.Module) or not any(map(_fills_itself, own_nodes(scope))):
        return False
    return _OF_PLACES.search(facts.model.source.text_of(scope)) is None


def _fills_itself(node: ast.AST) -> bool:
    """`self.load_state_dict(...)`, `self.state_dict()`"""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr="load_state_dict" | "state_dict")):
            return True
    return False


def is_of_wrapped(call: ast.Call, facts: Facts) -> bool:
    """Whether a model is wrapped where there is an accelerator, and bare where there is none, in a project that never looks at its keys.

    Then what was written with one can't be loaded without: every key begins with `module.`. Or it is loaded into what is in the
    wrapper (`model.module.load_state_dict(...)`), which a bare model hasn't got.
    """
    texts = facts.model.source.without_comments
    if _is_of_own_wrapped(call, facts) or _fills_inside_of_wrapper(call, facts):
        return True
    if re.search(_UNWRAPPED, texts) is not None or facts.model.texts_match(_UNWRAPPED, elsewhere=True):
        return False
    return re.search(_WRAPPED, texts) is not None or facts.model.texts_match(_WRAPPED, elsewhere=True)


def _is_of_own_wrapped(call: ast.Call, facts: Facts) -> bool:
    """Whether a script loads into what it has just wrapped so, and writes the keys of that itself: `{"net": net.state_dict()}`."""
    texts = facts.model.source.without_comments
    wrapped = re.search(_WRAPPED, texts)
    if wrapped is None or re.search(_UNWRAPPED, texts) is not None:
        return False
    name = re.escape(wrapped["name"])
    before = facts.text.text.count("\n", 0, facts.text.text.find(wrapped[0])) < call.lineno
    loaded = re.search(rf"\b{name}\.load_state_dict\(\w+\[", texts) is not None
    return before and loaded and re.search(rf"[:(] ?{name}\.state_dict\(\)", texts) is not None


def _fills_inside_of_wrapper(call: ast.Call, facts: Facts) -> bool:
    """Whether what is loaded into is inside of what an `if` about accelerators wraps, and nothing asks there whether it did."""
    wrapped = re.search(_WRAPPED, facts.model.source.without_comments)
    if wrapped is None:
        return False
    inside = f"{wrapped['name']}.module.load_state_dict"
    fills = [
        n
        for n in own_nodes(facts.model.enclosing_scope(call))
        if isinstance(n, ast.Call) and ast.unparse(n.func) == inside
    ]
    tests = (p.test for n in fills for p in facts.model.ancestors(n) if isinstance(p, (ast.If, ast.IfExp)))
    return bool(fills) and not any(_ASKS_FOR_WRAPPER.search(ast.unparse(test)) for test in tests)


_ASKS_FOR_WRAPPER = regex(r"(?i)cuda|gpu|devices?\b|module|attr|instance|parallel|distributed|ddp")


def is_of_pickled_wrapper(call: ast.Call, facts: Facts) -> bool:
    """Whether a file holds models themselves, in a project that wraps them: a DataParallel keeps the devices that it was made with."""
    scope = facts.model.enclosing_scope(call)
    statement = facts.model.source.statement_of(call)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            taken = any(_is_model_of(node, name) for node in own_nodes(scope))
            return taken and (
                _WRAPPING.search(facts.text.text) is not None
                or facts.model.texts_match(_WRAPPING.pattern, elsewhere=True)
            )
    return False


def _is_model_of(node: ast.AST, name: str) -> bool:
    """`model = checkpoint["model"]`, which isn't unwrapped."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id="model" | "net" | "network")],
            value=ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value="model" | "net" | "network")),
        ):
            return owner == name
    return False


_WRAPPING = regex(r"\bDataParallel\(")
# `if use_cuda:` and in its block `model = nn.DataParallel(model)`; how many accelerators there are is another question.
_WRAPPED = (
    r"(?m)^([ \t]*)if (?:torch\.cuda\.device_count\(\) ?(?:>= ?1|> ?0)"
    r"|(?![^\n]{0,200}(?:count|[<>]|num_|n_gpu|ngpu|len\())[^\n]{0,99}(?:cuda|gpu|device)[^\n]{0,99}):[ \t]*\n"
    r"(?:\1[ \t][^\n]{0,400}\n){0,6}?\1[ \t]+(?P<name>[\w.]+) ?= ?(?:torch\.)?(?:nn\.)?DataParallel\("
)
_UNWRAPPED = r"['\"]module\.|\.module\.(?:load_)?state_dict|(?:get|has)attr\([^()\n]*['\"]module|\[7:\]|\.module if |['\"]module['\"] in"
