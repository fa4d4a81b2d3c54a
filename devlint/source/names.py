"""Whether a name is bound at all: by its scopes, by Python, by a star import, or by code that binds names at run time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from devlint.regexes import regex
from devlint.source.modules import SourceModule
from devlint.source.project import Project
from devlint.source.trees import kept_on_node, own_nodes, walk

_BUILTINS = frozenset({*dir(__import__("builtins")), "__file__"})
# Code that may bind any name, and IPython's commands that do.
_BINDS_AT_RUN_TIME = regex(
    r"(?<![.\w])(?:globals|vars|exec|setattr\s*\(\s*builtins)\b|^[ \t]*(?:#[ \t]*)?%(?:run|pylab|load|store)",
    re.MULTILINE,
)
# Star imports are followed this far.
_MAX_STARS = 8


def is_unbound(name: ast.Name, source: SourceModule, project: Project) -> bool:
    """Whether nothing that can be seen binds a name where it is read. False wherever something unseen may do it."""
    if name.id in _BUILTINS or _binds_at_run_time(source.text):
        return False
    # A package's own namespace holds its submodules, whoever imports them.
    if source.is_package:
        return False
    scopes = [p for p in source.ancestors(name) if not isinstance(p, ast.Module)]
    if any(name.id in _bound_by(scope) for scope in scopes):
        return False
    return not _binds(source, name.id, project, _MAX_STARS, source)


# Each name that a file reads asks the same few texts.
@lru_cache(maxsize=16)
def _binds_at_run_time(text: str) -> bool:
    return _BINDS_AT_RUN_TIME.search(text) is not None


@kept_on_node
def _bound_by(node: ast.AST) -> frozenset[str]:
    """The names that a node around another makes readable there, if it is a scope."""
    match node:
        case ast.FunctionDef(args=arguments) | ast.AsyncFunctionDef(args=arguments):
            return frozenset((*_arguments(arguments), *_stored(node)))
        case ast.Lambda(args=arguments):
            return frozenset(_arguments(arguments))
        case ast.ClassDef() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return frozenset(_stored(node))
    return frozenset()


@kept_on_node
def _bound_at_top(tree: ast.Module) -> frozenset[str]:
    """The names that a module's top level binds, and those that its functions bind there."""
    by_functions = (name for n in walk(tree) if isinstance(n, ast.Global) for name in n.names)
    return frozenset((*_stored(tree), *by_functions))


def _binds(source: SourceModule, name: str, project: Project, stars: int, user: SourceModule) -> bool:
    """Whether a module's top level binds a name, or may; `user` is the file that uses it."""
    if name in _bound_at_top(source.tree):
        return True
    for star in source.star_imports:
        module = project.find(source.absolute(star), source.file, user.file) if stars else None
        if module is None or module.is_package or _binds_at_run_time(module.text):
            return True
        if module is not source and _binds(module, name, project, stars - 1, user):
            return True
    return False


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    return (node.arg for node in ast.walk(arguments) if isinstance(node, ast.arg))


def _stored(scope: ast.AST) -> Iterator[str]:
    """The names that a scope's own code binds."""
    for node in own_nodes(scope):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from ((a.asname or a.name).split(".")[0] for a in aliases)
            case (
                ast.ExceptHandler(name=str() as name)
                | ast.MatchAs(name=str() as name)
                | ast.MatchStar(name=str() as name)
                | ast.MatchMapping(rest=str() as name)
            ):
                yield name
