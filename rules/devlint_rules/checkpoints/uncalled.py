"""Loads that nothing runs: of a file that no program names, of a method that nothing calls."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.facts import walk

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel


def is_of_no_program(call: ast.Call, facts: Facts) -> bool:
    """Whether nothing runs what loads: its file of code is no package's and only defines things, and no program beside it names it."""
    source = facts.model.source
    if not facts.model.is_loose or isinstance(facts.model.enclosing_scope(call), ast.Module):
        return False
    if not all(isinstance(s, _DEFINING) or _is_text(s) for s in source.tree.body):
        return False
    name, folder = re.escape(Path(source.path).stem), re.escape(Path(source.path).resolve().parent.name)
    imported = (
        rf"\bfrom\s+[\w.]*\b{name}\s+import\b|(?m:^[ \t]*import[ \t]+[\w., ]*\b{name}\b)"
        rf"|\bfrom\s+(?:[\w.]*\b{folder}|\.+)\s+import\b[^\n]{{0,200}}\b{name}\b"
    )
    named = rf"{imported}|['\"/]{name}\.py\b|import_module|__import__"
    return facts.model.texts_match(_PROGRAM, elsewhere=True) and not facts.model.texts_match(named, elsewhere=True)


_DEFINING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
_PROGRAM = r"__name__ == ['\"]__main__['\"]"


def is_of_no_call(call: ast.Call, facts: Facts) -> bool:
    """Whether it is a method of a program's own class that loads, and nothing calls a method of that name: only `torch.load` is called so.

    Or a function of a program, whose name stands nowhere but where it is defined; or of another file of a project that is only run, by
    whose name nothing calls or imports it.
    """
    scope = facts.model.enclosing_scope(call)
    if isinstance(scope, ast.FunctionDef) and scope in facts.model.source.tree.body:
        if _is_program(facts) and _is_named_once(scope, facts.model):
            return True
        return _is_of_programs_alone(facts.model) and _is_called_by_nobody(scope, facts.model)
    around = next(facts.model.ancestors(scope), None)
    if not isinstance(scope, ast.FunctionDef) or not isinstance(around, ast.ClassDef) or scope.name.startswith("__"):
        return False
    if not facts.model.is_loose and (facts.model.source.is_package or not _is_of_programs(facts)):
        return False
    called = rf"(?<!\btorch)(?<!\bth)(?<!\bnp)(?<!\bnumpy)(?<!\bpickle)(?<!\bjson)(?<!\byaml)(?<!\bjoblib)\.{re.escape(scope.name)}\b"
    return (
        re.search(called, facts.text.text) is None
        and facts.model.texts_match(_PROGRAM, elsewhere=True)
        and not facts.model.texts_match(called, elsewhere=True)
    )


def _is_program(facts: Facts) -> bool:
    """Whether a file is run rather than imported: it asks for its name, or its top level calls a function that it defines."""
    source = facts.model.source
    if not facts.model.is_loose:
        return False
    own = {s.name for s in source.tree.body if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef))}
    doing = (s for s in source.tree.body if isinstance(s, (ast.Expr, ast.With, ast.For, ast.If, ast.Try)))
    return re.search(_PROGRAM, facts.text.text) is not None or any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in own for s in doing for n in walk(s)
    )


def _is_of_programs(facts: Facts) -> bool:
    """Whether a file of a package is imported by its bare name: the programs in that folder are run there, and nobody imports the package."""
    name = re.escape(Path(facts.model.source.path).stem)
    return facts.model.texts_match(rf"(?m)^(?:from {name} import|import {name}\b)", elsewhere=True)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def is_nobodys(model: PlacementModel, call: ast.Call) -> bool:
    """Whether nothing leads to the function that a call stands in, or nothing says its name, also where files lie loose."""
    scope = model.enclosing_scope(call)
    if model.is_unused(call):
        return True
    if not isinstance(scope, ast.FunctionDef) or scope not in model.source.tree.body:
        return False
    return _is_named_once(scope, model)


def _is_named_once(function: ast.FunctionDef, model: PlacementModel) -> bool:
    """Whether nothing says the name of a function but its own definition."""
    named = rf"\b{re.escape(function.name)}\b"
    return len(re.findall(named, model.source.without_comments)) == 1 and not model.texts_match(named, elsewhere=True)


def _is_of_programs_alone(model: PlacementModel) -> bool:
    """Whether a project has programs, and can't be installed: then nobody else calls its functions."""
    return model.texts_match(_PROGRAM, elsewhere=True) and not model.texts_match(_SETUP, elsewhere=True)


_SETUP = r"\b(?:setuptools|distutils)\b"


def _is_called_by_nobody(function: ast.FunctionDef, model: PlacementModel) -> bool:
    """Whether nothing calls, imports or hands on a function by its name; a method of that name is another thing, as is what others define: `image.convert("RGB")`."""
    name, stem = re.escape(function.name), re.escape(Path(model.source.path).stem)
    called = (
        rf"(?<![.\w])(?<!\bdef ){name}\s*\(|(?m:\bimport\b[^\n]*\b{name}\b|^[ \t]+{name}\b[^\n(.=]*$)"
        rf"|\b{stem}\.{name}\b|['\"]{name}['\"]"
    )
    own = re.findall(rf"(?<![.\w]){name}\b", model.source.without_comments)
    return len(own) == 1 and not model.texts_match(called, elsewhere=True)
