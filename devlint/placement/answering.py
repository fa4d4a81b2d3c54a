"""Answers: waits for what somebody on the host asked for, or that end the loop which makes it."""

from __future__ import annotations

import ast

from devlint.placement.cold import File
from devlint.regexes import regex
from devlint.signatures.answers.hot import Hot
from devlint.signatures.answers.waits import Stall
from devlint.signatures.state.waits import COPY, DECIDE, READ
from devlint.source.modules import FunctionModel, last_name
from devlint.source.trees import calls_in

# Functions that answer a request: what they return is what somebody on the host asked for.
_ANSWERING = regex(
    r"__call__|generat|decode|sample|predict|infer|detect|transcribe|synthesi[sz]e|translate|extract|postprocess|post_process"
)


def is_handed_out(model: File, stall: Stall, hot: Hot) -> bool:
    """Whether a copy to the host is what a request gets for an answer: made at its end, and returned."""
    function = stall.function
    call = next((p for p in model.ancestors(stall.node) if isinstance(p, ast.Call)), None)
    if call is not None and last_name(call.func) == "pack_padded_sequence":
        # PyTorch wants the lengths there.
        return True
    if stall.sense == READ and stall.name == "tolist" and call is not None and _TELLING.fullmatch(last_name(call.func)):
        # A tokenizer makes words of lists.
        return True
    if stall.sense == COPY and _is_streamed(model, stall):
        return True
    if ends_answer(model, stall) or _fills_what_was_given(model, stall):
        return True
    if stall.sense not in (COPY, READ, DECIDE) or not _ANSWERING.search(function.name):
        return False
    if (hot.calls and not _FINISHING.search(function.name)) or stall.sense == DECIDE:
        return False
    names: set[str] = set()
    for parent in model.ancestors(stall.node):
        match parent:
            case ast.Return() | ast.Yield():
                return True
            case ast.For() | ast.While() | ast.AsyncFor():
                return False
            case ast.Assign(targets=[ast.Name(id=name)]):
                names.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                break
    returned = [n.value for n in function.nodes if isinstance(n, ast.Return) and n.value is not None]
    return any(isinstance(n, ast.Name) and n.id in names for value in returned for n in ast.walk(value))


# Functions that make an answer of what was computed, whoever calls them.
_FINISHING = regex(r"post_?process")
# What makes text, or sound, of a list of tokens.
_TELLING = regex(r"(?:batch_|_)?decode|detokenize|convert_ids_to_\w{1,30}|ids_to_\w{1,30}|(?:ids|tokens?)2\w{1,30}")


def _is_streamed(model: File, stall: Stall) -> bool:
    """`streamer.put(token.cpu())`: whoever reads along does so on the host."""
    return any(
        isinstance(p, ast.Call) and isinstance(p.func, ast.Attribute) and "streamer" in last_name(p.func.value)
        for p in model.ancestors(stall.node)
        if isinstance(p, ast.expr)
    )


def ends_answer(model: File, stall: Stall) -> bool:
    """Whether what is asked ends the loop that makes an answer, token by token: whoever generates has to know when it is through.

    A loop that trains makes none.
    """
    if stall.sense not in (COPY, READ, DECIDE):
        return False
    child: ast.AST = stall.node
    ends = False
    for parent in model.ancestors(stall.node):
        match parent:
            case ast.If(test=test, body=body) if not ends:
                if child is not test or not isinstance(body[-1], ast.Break):
                    return False
                ends = True
            case ast.For() | ast.While() | ast.AsyncFor():
                return ends and not _learns(parent) and _makes_tokens(stall.function, parent)
            case ast.stmt() if not ends:
                return False
        child = parent
    return False


# What the loops of an answer go over, or add to, one each pass.
_TOKENS = regex(r"(?i)token|eos|finished|unfinished|max_(?:new|len|length|steps|gen)|stop|input_ids|generated")


def _makes_tokens(function: FunctionModel, loop: ast.For | ast.While | ast.AsyncFor) -> bool:
    """Whether a loop makes an answer bit by bit, going by the names of its function and of what it handles."""
    return _ANSWERING.search(function.name) is not None or _TOKENS.search(ast.unparse(loop)) is not None


def _learns(loop: ast.AST) -> bool:
    """Whether a loop goes backward: what ends it then is no answer."""
    return any(isinstance(n, ast.Call) and "backward" in last_name(n.func) for n in ast.walk(loop))


def _fills_what_was_given(model: File, stall: Stall) -> bool:
    """`out[:] = x.cpu().numpy()`, `out` being a parameter: who gave an array to fill wants it on the host."""
    if stall.sense != COPY:
        return False
    handed = {p.arg for p in stall.function.parameters}
    for parent in model.ancestors(stall.node):
        match parent:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))], value=value):
                return name in handed and "numpy" in {last_name(n.func) for n in calls_in(value)}
            case ast.stmt():
                return False
    return False
