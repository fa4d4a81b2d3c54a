"""Waits that whoever wrote the code knows of: a comment or a docstring says that the host waits there, or callers can spare it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devlint.regexes import regex
from devlint.signatures.answers.waits import Stall
from devlint.source.modules import FunctionModel, SourceModule

# So many lines of comments above a statement speak of it.
_LINES_ABOVE = 3
# How people name a wait of the host.
_OF_WAITS = regex(
    r"(?i)\b(?:d2h|(?:re)?sync(?:s|ed|hroni[sz]\w{1,10}|hronous)?|(?:device|gpu|cuda)[- ]?(?:to|->|=>|→)[- ]?(?:host|cpu))\b"
)
# What says that there is none, that there should be none, or that there is another.
_OF_NONE = regex(
    r"(?i)\b(?:avoid\w{0,5}|without|no|not|never|prevent\w{0,5}|skip\w{0,5}|free|eliminat\w{1,5}|remov\w{1,5}|instead|todo|fixme|xxx|hack|slow\w{0,4}|expensive|costly|ranks?|barrier|workers?|reduce\w?|gradients?|weights?|buffers?)\b|-free\b|n't\b"
)


def is_known(stall: Stall) -> bool:
    """Whether a wait is one that its author tells of, and leaves where it is, or that callers may spare themselves."""
    source = stall.function.source
    return any(map(_tells, _said_of(source, source.statement_of(stall.node), stall.function))) or _is_spared(stall)


def _tells(text: str) -> bool:
    """Whether a sentence says that the host waits, rather than that it doesn't or shouldn't."""
    return _OF_WAITS.search(text) is not None and _OF_NONE.search(text) is None


def _said_of(source: SourceModule, statement: ast.AST, function: FunctionModel) -> Iterator[str]:
    """What comments beside or above a statement say, and the sentences of its function's docstring."""
    if isinstance(statement, ast.stmt):
        own = source.text_of(statement) if not hasattr(statement, "body") else _line(source, statement.lineno)
        yield from re.findall(r"#(.{0,400})", own)
        above = []
        for line in range(statement.lineno - 1, max(statement.lineno - 1 - _LINES_ABOVE, 0), -1):
            text = _line(source, line).strip()
            if not text.startswith("#"):
                break
            above.append(text.lstrip("# "))
        yield " ".join(reversed(above))
    yield from re.split(r"[.;][ \t\n]|\n[ \t]{0,40}\n", ast.get_docstring(function.node, clean=False) or "")


def _line(source: SourceModule, line: int) -> str:
    starts = source.line_starts
    return source.text[starts[line - 1] : starts[line] if line < len(starts) else len(source.text)]


def _is_spared(stall: Stall) -> bool:
    """`if (index := kwargs.pop("index", None)) is not None: return index`: callers may bring what is waited for."""
    for parent in stall.function.source.ancestors(stall.node):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            break
    else:
        return False
    return any(isinstance(s, ast.If) and s.lineno < stall.node.lineno and _hands_back(s) for s in parent.body)


def _hands_back(statement: ast.If) -> bool:
    """Whether a statement returns what an option holds that somebody gave."""
    match statement.body:
        case [ast.Return(value=ast.Name(id=name))]:
            return any(
                isinstance(n, ast.NamedExpr) and n.target.id == name and _is_option(n.value)
                for n in ast.walk(statement.test)
            )
    return False


def _is_option(node: ast.expr) -> bool:
    """`kwargs.pop("index", None)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="kwargs" | "options"), attr="pop" | "get")):
            return True
    return False
