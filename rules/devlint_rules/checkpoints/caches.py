"""Files that a program fills by itself, and reads where they are there: caches."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devlint.facts import calls_in, last_name, own_nodes, walk
from devlint.lazy import regex
from devlint_rules.checkpoints.files import writes
from devlint_rules.checkpoints.values import values_of

if TYPE_CHECKING:
    from devlint.facts import Facts

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_cache(call: ast.Call, file: ast.expr, facts: Facts) -> bool:
    """A cache is read by the machine that filled it; what was downloaded was filled in elsewhere, whatever it is called."""
    if any(isinstance(v, ast.Call) and _DOWNLOADING.search(last_name(v.func)) for v in values_of(file, facts)):
        return False
    scope = facts.model.enclosing_scope(call)
    around = [p.name for p in facts.model.ancestors(call) if isinstance(p, (*_FUNCTIONS, ast.ClassDef))]
    around += [last_name(n.func) for v in values_of(file, facts) for n in calls_in(v)]
    return "cache" in f"{around} {ast.unparse(file)}".lower() or _is_made_where_missing(call, file, scope)


_DOWNLOADING = regex(r"(?i)download|url|fetch|cached_path|cached_file")


def _is_made_where_missing(call: ast.Call, file: ast.expr, scope: ast.AST) -> bool:
    """What is read where the file exists is otherwise made and saved there.

    A checkpoint is read and saved in one function too, but what is saved is then what came of it: so it has to be
    returned as it is read, or saved in the other branch or under the name that it is read into, or made by what is told the file.
    """
    path = ast.unparse(file)
    saves = [n for n in own_nodes(scope) if isinstance(n, ast.Call) and last_name(n.func) == "save" and writes(n, file)]
    if any(isinstance(n, ast.Try) and _is_made_in_handler(n, call, saves) for n in own_nodes(scope)):
        return True
    asked = (
        n
        for n in own_nodes(scope)
        if isinstance(n, ast.If) and _EXISTS.search(ast.unparse(n.test)) is not None and path in ast.unparse(n.test)
    )
    return any(
        _holds(there, call)
        and (
            (bool(saves) and isinstance(there[-1], ast.Return))
            or any(_holds(missing, save) for save in saves)
            or _is_read_into_what_is_made(
                there, missing, call, path, _of_what_is_made(saves, [*there, *missing], scope)
            )
        )
        for there, missing in map(_there_and_missing, asked)
    )


def _of_what_is_made(saves: list[ast.Call], branches: list[ast.stmt], scope: ast.AST) -> list[ast.Call]:
    """The saves of what no other statement of a scope gives a new value: `state = {...}` of each epoch is what came of it."""
    inside = {node for statement in branches for node in walk(statement)}
    bound = {
        ast.unparse(target)
        for n in own_nodes(scope)
        if isinstance(n, ast.Assign) and n not in inside
        for target in n.targets
    }
    return [save for save in saves if save in inside or not (save.args and ast.unparse(save.args[0]) in bound)]


def _there_and_missing(test: ast.If) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """What is done where a file is there, and where it isn't: `if exists(path):`, `if not exists(path):`."""
    is_denied = isinstance(test.test, ast.UnaryOp) and isinstance(test.test.op, ast.Not)
    return (test.orelse, test.body) if is_denied else (test.body, test.orelse)


def _is_made_in_handler(attempt: ast.Try, call: ast.Call, saves: list[ast.Call]) -> bool:
    """`try: load(path)`, `except FileNotFoundError:` and there it is made, and saved."""
    handlers = [h for h in attempt.handlers if h.type is not None and _MISSING.search(ast.unparse(h.type))]
    return _holds(attempt.body, call) and any(_holds(h.body, save) for h in handlers for save in saves)


_MISSING = regex(r"\b(?:FileNotFoundError|OSError|IOError)\b")


def _is_read_into_what_is_made(
    there: list[ast.stmt], missing: list[ast.stmt], call: ast.Call, path: str, saves: list[ast.Call]
) -> bool:
    """`ids = torch.load(file)`, and otherwise `ids = collect(..., file)`, or `torch.save(ids, file)`."""
    for statement in there:
        match statement:
            case ast.Assign(targets=[target], value=value) if value is call:
                into = ast.unparse(target)
                is_saved = any(save.args and ast.unparse(save.args[0]) == into for save in saves)
                return is_saved or any(_makes(s, into, path) for s in missing)
    return False


_EXISTS = regex(r"\b(?:exists|isfile|is_file)\b")


def _makes(statement: ast.stmt, target: str, path: str) -> bool:
    """`ids = collect(..., path)`: what makes it is told the file, to fill it."""
    match statement:
        case ast.Assign(targets=[into], value=ast.Call(args=args, keywords=keywords)):
            given = [*args, *(k.value for k in keywords)]
            return ast.unparse(into) == target and any(ast.unparse(a) == path for a in given)
    return False


def _holds(body: list[ast.stmt], node: ast.AST) -> bool:
    return any(node is inner for statement in body for inner in walk(statement))
