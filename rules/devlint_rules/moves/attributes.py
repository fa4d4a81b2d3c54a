"""What a module's constructor keeps in plain attributes: what the rules about unregistered things share."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import FunctionModel, Kind, kept_on_node, walk

if TYPE_CHECKING:
    from devlint.facts import ClassModel, Facts, Unit

# Some attribute of some object is set.
TRIGGER = r"\bself\s*\.\s*\w+\s*(?::[^=\n]{1,300})?=(?!=)"


class Kept(NamedTuple):
    """`self.name = value` in a constructor."""

    statement: ast.Assign | ast.AnnAssign
    target: ast.Attribute
    value: ast.expr

    @property
    def name(self) -> str:
        return self.target.attr


def kept(statement: ast.stmt) -> Kept | None:
    """What a statement keeps in an attribute of `self`; None for other statements."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self")) as target], value=value):
            return Kept(statement, target, value)
        case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self")) as target, value=ast.expr() as value):
            return Kept(statement, target, value)
    return None


def in_constructor(unit: Unit) -> bool:
    """Whether a unit stands in the constructor of a class that inherits from something."""
    scope = unit.scope
    return scope is not None and scope.name == "__init__" and scope.cls is not None and bool(scope.cls.bases)


def in_making(unit: Unit) -> bool:
    """The same, or in a method that the constructor calls and nothing else does."""
    scope = unit.scope
    if in_constructor(unit) or scope is None or scope.cls is None or not scope.cls.bases:
        return in_constructor(unit)
    return _callers(scope.cls).get(scope.name) == {"__init__"}


@kept_on_node
def _callers(cls: ast.ClassDef) -> dict[str, set[str]]:
    """The methods that call each method of a class by `self`."""
    found: dict[str, set[str]] = {}
    for method in cls.body:
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in walk(method):
                match node:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                        found.setdefault(name, set()).add(method.name)
    return found


def at_first_use(unit: Unit) -> bool:
    """Whether a unit stands in another method of such a class that keeps something where there was nothing."""
    scope, found = unit.scope, kept(unit.statement)
    if scope is None or scope.cls is None or not scope.cls.bases or scope.name == "__init__" or found is None:
        return False
    return any(
        isinstance(node, ast.If) and _asks_for(node.test, found.name) and unit.statement in node.body
        for node in scope.nodes
    )


def _asks_for(test: ast.expr, name: str) -> bool:
    """`self.name is None`."""
    match test:
        case ast.Compare(left=ast.Attribute(value=ast.Name(id="self"), attr=attr), ops=[ast.Is()]):
            return attr == name
    return False


@lru_cache(maxsize=4)
def read_by_methods(cls: ast.ClassDef) -> frozenset[str]:
    """The attributes of `self` that methods other than the constructor read, and do more with than call them."""
    called: set[ast.AST] = set()
    read: list[ast.Attribute] = []
    for method in cls.body:
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name != "__init__":
            for node in walk(method):
                if isinstance(node, ast.Call):
                    called.add(node.func)
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                    read.append(node)
    return frozenset(n.attr for n in read if n not in called)


def is_parameter(name: str, function: FunctionModel | None) -> bool:
    return function is not None and any(a.arg == name for a in function.parameters)


def module_class(found: Kept, facts: Facts) -> ClassModel | None:
    """The class of the object that the attribute is set on, where that surely is a module."""
    owner = facts.model.value(found.target.value)
    cls = owner.cls
    if owner.kind is not Kind.MODULE or cls is None:
        return None
    # A base that isn't known may register things in ways of its own.
    return cls if all(facts.model.is_module_base(base) for base in cls.outside_bases) else None


def overrides(cls: ClassModel, names: Iterable[str]) -> bool:
    """Whether a class or a project class that it inherits from defines one of these itself."""
    return any(cls.method(name) is not None for name in names)


def set_elsewhere(attribute: str, constructor: FunctionModel, facts: Facts, *, from_outside: bool = False) -> bool:
    """Whether code of this file outside the constructor sets such an attribute, or its data, on any object.

    `from_outside` leaves aside what the methods of the class itself set, which is understood with the class.
    """
    for node in _stores(facts.model.source.tree).get(attribute, ()):
        scope = facts.model.enclosing_scope(node)
        if scope is constructor.node or _is_of_another_class(node, scope, constructor, facts):
            continue
        if not from_outside or node.attr == "data" or not _is_own(node):
            return True
    return False


@kept_on_node
def _stores(tree: ast.Module) -> dict[str, list[ast.Attribute]]:
    """What sets attributes of each name, or their data, in a file."""
    found: dict[str, list[ast.Attribute]] = {}
    for node in walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.attr, []).append(node)
            if node.attr == "data" and isinstance(node.value, ast.Attribute):
                found.setdefault(node.value.attr, []).append(node)
    return found


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _is_of_another_class(node: ast.Attribute, scope: ast.AST, constructor: FunctionModel, facts: Facts) -> bool:
    """Whether a method of another class sets an attribute of its own."""
    if not _is_own(node) or not isinstance(scope, ast.FunctionDef):
        return False
    around = facts.model.source.function_at(scope).cls
    return around is not None and around is not constructor.cls


def after_super(statement: ast.stmt, constructor: FunctionModel) -> bool:
    """Whether the constructor of nn.Module has run before a statement, so that things can be registered."""
    calls = (
        n.lineno
        for n in constructor.nodes
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "__init__"
    )
    return any(line < statement.lineno for line in calls)
