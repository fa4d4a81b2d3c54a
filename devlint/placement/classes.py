"""Classes of the project: bases, methods, and what their objects hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from devlint.knowledge.ecosystem import CONSTRUCTORS
from devlint.records import record
from devlint.source.modules import FunctionModel, SourceModule, flat_statements


@record(eq=False)
class ClassModel:
    """A class definition; identity is the definition. Bases are resolved by the analysis that made it."""

    node: ast.ClassDef
    source: SourceModule
    bases: tuple[ClassModel | str, ...] = ()

    @property
    def name(self) -> str:
        return self.node.name

    @cached_property
    def methods(self) -> dict[str, FunctionModel]:
        """The methods that the class itself defines; the last definition of a name counts."""
        found = (s for s in flat_statements(self.node.body) if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)))
        return {f.name: self.source.function_at(f) for f in found}

    @property
    def lineage(self) -> list[ClassModel | str]:
        """The class and its ancestors, nearest first; outside classes as qualified names."""
        return [self, *self._ancestors]

    @cached_property
    def _ancestors(self) -> list[ClassModel | str]:
        """Without the class itself, which would keep itself alive."""
        found: dict[ClassModel | str, None] = {}
        for base in self.bases:
            found.update(dict.fromkeys(base.lineage if isinstance(base, ClassModel) else [base]))
        found.pop(self, None)
        return list(found)

    @property
    def outside_bases(self) -> list[str]:
        """Qualified names of ancestors that aren't in the project; "" for one that couldn't be told."""
        return [b for b in self.lineage if isinstance(b, str)]

    def method(self, name: str) -> FunctionModel | None:
        """A method by name, inherited ones too."""
        for cls in self.lineage:
            if isinstance(cls, ClassModel) and name in cls.methods:
                return cls.methods[name]
        return None

    def project_lineage(self) -> Iterator[ClassModel]:
        return (c for c in self.lineage if isinstance(c, ClassModel))

    @cached_property
    def class_level(self) -> dict[str, ast.stmt]:
        """Names assigned or annotated in the class body."""
        found: dict[str, ast.stmt] = {}
        for statement in flat_statements(self.node.body):
            match statement:
                case ast.Assign(targets=targets):
                    found.update({t.id: statement for t in targets if isinstance(t, ast.Name)})
                case ast.AnnAssign(target=ast.Name(id=name)):
                    found[name] = statement
        return found

    @cached_property
    def assigned_in(self) -> dict[str, list[FunctionModel]]:
        """Attribute -> the methods of this class that assign `self.<attribute>`."""
        found: dict[str, list[FunctionModel]] = {}
        for function in self.methods.values():
            for name in dict.fromkeys(function.outline.sets):
                found.setdefault(name, []).append(function)
        return found

    def writers(self, attribute: str) -> list[FunctionModel]:
        """The methods along the lineage that assign an attribute, constructors first."""
        found = [f for c in self.project_lineage() for f in c.assigned_in.get(attribute, ())]
        return sorted(found, key=lambda f: CONSTRUCTORS.index(f.name) if f.name in CONSTRUCTORS else len(CONSTRUCTORS))

    def defines(self, name: str) -> bool:
        """Whether the class or an ancestor in the project has a member of that name."""
        return any(name in c.methods or name in c.class_level or name in c.assigned_in for c in self.project_lineage())

    @cached_property
    def text(self) -> str:
        """The class's source."""
        return self.source.text_of(self.node)

    @property
    def is_frozen(self) -> bool:
        """A named tuple, or a frozen dataclass: attributes can't be assigned."""
        if any(b.endswith("NamedTuple") for b in self.outside_bases):
            return True
        return any(
            isinstance(d, ast.Call)
            and any(k.arg == "frozen" and isinstance(k.value, ast.Constant) and k.value.value for k in d.keywords)
            for d in self.node.decorator_list
        )
