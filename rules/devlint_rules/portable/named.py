"""Where code names CUDA, and what a question for it decides: a counterpart of the question must not send others there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from devlint.facts import calls_in, dotted, own_nodes
from devlint.knowledge.counterparts import counterparts
from devlint.lazy import regex
from devlint_rules.portable.at_hand import outermost

if TYPE_CHECKING:
    from devlint.facts import Facts

# Strings that name CUDA to PyTorch: a device, a type of tensors.
_DEVICE = regex(r"cuda(?::\d*)?|torch\.cuda\.\w+")
# Strings for people that say so, and the collectives of its machines.
_WORD = regex(r"\bcuda\b|^nccl$", re.IGNORECASE)
# What does nothing, or goes on without it, where there is no CUDA. Right where that is decided, others do it instead.
_HARMLESS = regex(r"torch\.cuda\.(?:manual_seed(?:_all)?|seed(?:_all)?|is_initialized|amp\..*)")
# Variables that tell others where to go.
_FLAG = regex(r"cuda|gpu|(?:^|_)dev(?:ice)?$", re.IGNORECASE)


def is_decided_by(asked: ast.expr, facts: Facts) -> bool:
    """Whether CUDA is named where the answer to `torch.cuda.is_available()` or its like decides."""
    call = next(facts.model.ancestors(asked), None)
    if call is not None and _falls_back(call, facts):
        return True
    decided, is_near = _decided(call if isinstance(call, ast.Call) and call.func is asked else asked, facts)
    return any(_names(node, told=is_near) for node in decided)


def _falls_back(call: ast.AST, facts: Facts) -> bool:
    """`if not torch.cuda.is_available(): config.device = "cpu"`: what it is otherwise, somebody else says."""
    match [*islice(facts.model.ancestors(call), 2)]:
        case [ast.UnaryOp(op=ast.Not()), ast.If(body=body, orelse=[])]:
            return _keeps_a_flag(body)
    return False


def is_decided_elsewhere(call: ast.Call, facts: Facts) -> bool:
    """Whether another question of a file decides where CUDA is named: what is asked here must not answer otherwise."""
    others = (n for n in calls_in(facts.model.source.tree) if n is not call)
    return any(
        dotted(n.func) == "torch.cuda.is_available" and not _is_choice(n, facts) and is_decided_by(n.func, facts)
        for n in others
    )


def stays(found: ast.AST, facts: Facts) -> bool:
    """Whether something around stays with CUDA whatever is mended: then code is portable as a whole or not at all."""
    scope = outermost(found, facts)
    nodes = own_nodes(scope) if isinstance(scope, ast.Module) else ast.walk(scope)
    return any(_stays(node, at_top=isinstance(scope, ast.Module)) for node in nodes)


def _stays(node: ast.AST, *, at_top: bool) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda"), args=args, keywords=keywords):
            # Told an index; and a module's top level gets no variable for its device.
            return at_top or bool(args) or any(k.arg == "device" for k in keywords)
        case ast.BinOp(left=text) | ast.Call(func=ast.Attribute(value=text, attr="format")):
            # `"cuda:" + str(n)`, `"cuda:{}".format(n)`
            return isinstance(text, ast.Constant) and isinstance(text.value, str) and text.value.startswith("cuda:")
        case ast.Constant(value="nccl"):
            return True
        case ast.Attribute():
            name = dotted(node) or ""
            is_cudas = re.fullmatch(r"torch\.cuda\.\w+", name) is not None and name != "torch.cuda.amp"
            return is_cudas and name not in counterparts() and not _HARMLESS.fullmatch(name)
    return False


def is_commented_on(found: ast.expr, facts: Facts) -> bool:
    """Whether a comment on its line speaks of CUDA, and wouldn't be true any more."""
    _, mark, comment = facts.text.line(facts.text.span_of(found).end_line).rpartition("#")
    return bool(mark) and re.search(r"\bcuda\b", re.sub(r"devlint:.*", "", comment), re.IGNORECASE) is not None


def _is_choice(call: ast.Call, facts: Facts) -> bool:
    """`"cuda" if torch.cuda.is_available() else "cpu"`, which is mended as a whole."""
    parent = next(facts.model.ancestors(call), None)
    return (
        isinstance(parent, ast.IfExp)
        and re.fullmatch(r"(?:torch\.device\()?['\"]cuda(?::0)?['\"]\)?", ast.unparse(parent.body)) is not None
    )


def _decided(asked: ast.expr, facts: Facts) -> tuple[Iterable[ast.AST], bool]:
    """(what an answer decides, whether that stands right there); a whole file where the answer is kept or handed on."""
    everything = [facts.model.source.tree]
    child: ast.AST = asked
    for parent in facts.model.ancestors(asked):
        match parent:
            case ast.IfExp(test=test, body=body, orelse=orelse) if child is test:
                return [body, orelse], True
            case ast.If(test=test, body=body, orelse=orelse) if child is test:
                if _keeps_a_flag(body):
                    return ([*body, *orelse], True) if _tells((*body, *orelse)) else (everything, False)
                scope = [] if not _leaves(body) else [facts.model.enclosing_scope(asked)]
                return [*body, *orelse, *scope], True
            case ast.Assert(msg=message):
                return [facts.model.enclosing_scope(asked), *([message] if message is not None else [])], True
            case ast.Call(func=func) if (dotted(func) or "") in counterparts():
                # It is mended with what it is handed to.
                return [], True
            case ast.Call(func=ast.Name(id="str" | "print" | "repr" | "format")) | ast.FormattedValue():
                # It is only told.
                return [], True
            case ast.BoolOp() | ast.UnaryOp() | ast.Compare() | ast.BinOp():
                child = parent
            case _:
                return everything, False
    return everything, False


def _tells(nodes: Iterable[ast.AST]) -> bool:
    """Whether code tells people of CUDA."""
    inner = (n for node in nodes for n in _code(node))
    return any(isinstance(n, ast.Constant) and isinstance(n.value, str) and _WORD.search(n.value) for n in inner)


def _keeps_a_flag(body: list[ast.stmt]) -> bool:
    """Whether a block sets a variable that tells others of CUDA: `use_gpu = True`, `self.device = ...`."""
    targets = (t for s in body if isinstance(s, ast.Assign) for t in s.targets)
    return any(_FLAG.search((dotted(target) or "").rpartition(".")[2]) for target in targets)


def _leaves(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _names(node: ast.AST, *, told: bool) -> bool:
    """Whether code names CUDA; with `told`, also where it tells people of it."""
    known = counterparts()
    for inner in _code(node):
        match inner:
            case ast.Call(func=ast.Attribute(attr="cuda")):
                return True
            case ast.Constant(value=str() as text):
                if _DEVICE.fullmatch(text) or (told and _WORD.search(text)):
                    return True
            case ast.Attribute():
                name = dotted(inner) or ""
                exact = name in known and known[name].exact
                if name.startswith("torch.cuda.") and not exact and (told or not _HARMLESS.fullmatch(name)):
                    return True
    return False


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of code, without documentation and without the parts of dotted names."""
    todo = [node]
    while todo:
        current = todo.pop()
        yield current
        if isinstance(current, ast.Attribute) and dotted(current) is not None:
            continue
        if isinstance(current, ast.Expr) and isinstance(current.value, ast.Constant):
            continue
        todo += ast.iter_child_nodes(current)
