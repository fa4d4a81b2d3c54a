"""What the text of a file says, and that of its project: no scope is read for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property

from devlint.placement.conditions import is_for_the_host
from devlint.source.modules import FunctionModel, FunctionNode, SourceModule, assigned_in
from devlint.source.names import is_unbound
from devlint.source.project import Project
from devlint.source.trees import first_stores
from devlint.source.units import Unit, units_at

# A function called from more places than this has no one story.
MAX_CALL_SITES = 40


class FileText:
    """One file of a project, and what can be told of its nodes without knowing any value."""

    def __init__(self, source: SourceModule, project: Project) -> None:
        self.source = source
        self._project = project
        self._assigned: dict[ast.AST, dict[str, list[ast.expr]]] = {}
        self._matching: dict[str, bool] = {}

    def imported_values(self, name: str) -> list[ast.expr]:
        """The expressions that the module of the project which a name is imported from assigns to it at its top level."""
        found: list[ast.expr] = []
        for binding in self.source.bindings.get(name, ()):
            for alias in binding.names if isinstance(binding, ast.ImportFrom) else ():
                if isinstance(binding, ast.ImportFrom) and (alias.asname or alias.name) == name:
                    package = self.source.absolute(binding)
                    module = self._project.find(package, self.source.file)
                    found += module.top_level_values(alias.name) if module is not None else []
        return found

    def texts_match(self, pattern: str, *, elsewhere: bool = False) -> bool:
        """Whether the text of a file of the project matches, or the project is too large to tell.

        `elsewhere` leaves this file out.
        """
        if not elsewhere and self._matches(pattern):
            return True
        return self._project.texts_match(pattern, self.source.file)

    def _matches(self, pattern: str) -> bool:
        """Whether the text of this file matches: each thing of one kind asks the same."""
        if pattern not in self._matching:
            self._matching[pattern] = re.search(pattern, self.source.text) is not None
        return self._matching[pattern]

    def papers_match(self, pattern: str) -> bool:
        """Whether what the project says of itself matches: what it needs, and for whom it is."""
        return any(re.search(pattern, paper) is not None for paper in self._project.papers(self.source.file))

    def project_gives(self, name: str) -> bool:
        """Whether something in the project gives a parameter or an attribute of that name, one that is off by default."""
        return self._project.is_given(self.source.file, name)

    def kept_as(self, cls: str) -> frozenset[str] | None:
        """The names under which the project keeps the objects of a class of this file; None where they may be anywhere else too."""
        return self._project.kept_as(self.source.file, cls)

    def project_uses(self, pattern: str) -> bool:
        """Whether the text of a file of the project that is no test matches; False where the project is too large to tell."""
        path = self.source.file
        return re.search(pattern, self.source.text) is not None or self._project.uses(pattern, path)

    def is_for_the_host(self, node: ast.AST) -> bool:
        """Whether a node runs only where the program has no accelerator: under `if device.type == "cpu":`."""
        child = node
        for parent in self.ancestors(node):
            if is_for_the_host(parent, child):
                return True
            child = parent
        return False

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, innermost first."""
        return self.source.ancestors(node)

    def calling_units(self, scope: FunctionModel) -> list[Unit]:
        """The units of this file that may call a function, going by its name (a constructor: its class's)."""
        name = called_as(scope)
        return [u for u in self.units_calling(name, scope.node.lineno) if u.scope is not scope] if name else []

    def units_calling(self, name: str, defined_on: int = 0) -> list[Unit]:
        """The units of this file that may call something of a name."""
        lines = self.source.called_on(name)
        # One of them may be the definition's own.
        if len(lines) > MAX_CALL_SITES + 1:
            return []
        lines = [line for line in lines if line != defined_on]
        return list(units_at(self.source, lines)) if len(lines) <= MAX_CALL_SITES else []

    def enclosing_scope(self, node: ast.AST) -> FunctionNode | ast.Module:
        """The function that a node runs in, or the module."""
        for parent in self.ancestors(node):
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return parent
        return self.source.tree

    def assigned_values(self, name: ast.Name) -> list[ast.expr]:
        """The expressions that the scope around a name assigns to it."""
        scope = self.enclosing_scope(name)
        if scope not in self._assigned:
            self._assigned[scope] = assigned_in(scope)
        return self._assigned[scope].get(name.id, [])

    def is_unbound(self, name: ast.Name) -> bool:
        """Whether nothing that can be seen binds a name where it is read: reading it is a NameError."""
        return is_unbound(name, self.source, self._project)

    def is_bound_before(self, name: str, node: ast.expr) -> bool:
        """Whether a parameter or an assignment before an expression binds a name, in its scope or at the top level."""
        scope = self.enclosing_scope(node)
        given = self.source.function_at(scope).parameters if not isinstance(scope, ast.Module) else []
        if any(a.arg == name for a in given):
            return True
        return any(first_stores(s).get(name, node.lineno) < node.lineno for s in {scope, self.source.tree})

    def imported_modules(self, node: ast.Import | ast.ImportFrom) -> list[SourceModule]:
        """The modules of the project that an import runs, those that are named after `import` among them."""
        package = self.source.absolute(node) if isinstance(node, ast.ImportFrom) else ""
        names = [package] if package else []
        names += [f"{package}.{alias.name}" if package else alias.name for alias in node.names]
        found = (self._project.find(name, self.source.file) for name in names)
        return [module for module in found if module is not None]

    @cached_property
    def imports_in_vain(self) -> bool:
        """Whether the file fails as it begins: `from model import Net`, of a `model.py` beside it that says `from .op import f`.

        What is imported under a name of its own is in no package. Or it imports a class that a package of the project hasn't got (any more).
        """
        if self._project.is_broken(self.source.file):
            return True
        folder = self.source.file.parent
        beside = (
            module
            for node in self.source.tree.body
            if isinstance(node, ast.ImportFrom) and not node.level and node.module and "." not in node.module
            for module in [self._project.find(node.module, self.source.file)]
            if module is not None and module.file.parent == folder
        )
        return any(isinstance(n, ast.ImportFrom) and n.level > 0 for module in beside for n in module.tree.body)

    def imports_from(self, pattern: re.Pattern[bytes], *, through_packages: bool = False) -> set[str]:
        """The names that the file imports from project modules whose text matches a pattern, directly or through a package."""
        path, project = self.source.file, self._project
        return project.names_from(path, self.source.text, pattern, through_packages=through_packages)

    @property
    def packages(self) -> frozenset[str]:
        """The packages that the file imports, by their first name."""
        return self.source.imported_packages


def called_as(scope: FunctionModel) -> str:
    """The name that calls of a function bear; "" for those that Python calls by itself."""
    if scope.name == "__init__":
        return scope.cls.name if scope.cls is not None else ""
    return "" if scope.name.startswith("__") else scope.name
