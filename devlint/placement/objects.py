"""Objects of the project's classes: what kind they are, and what their attributes hold."""

from __future__ import annotations

import ast

from devlint.knowledge import canonical, ecosystem
from devlint.knowledge.ecosystem import CONSTRUCTORS
from devlint.placement.classes import ClassModel
from devlint.placement.interpreter import Frame
from devlint.placement.limits import MAX_DEPTH
from devlint.placement.parts import has_state
from devlint.placement.scope import Analysing
from devlint.placement.values import (
    NONE,
    NOWHERE,
    SCALAR,
    UNKNOWN,
    Place,
    Sort,
    Value,
    constant,
    displaced,
    either,
    join_all,
    replace,
)
from devlint.source.kinds import Kind
from devlint.source.modules import FunctionModel, SourceModule
from devlint.source.paths import access_path


class Objects:
    """Classes and their objects, as one analysis sees them."""

    def __init__(self, analysis: Analysing) -> None:
        self._analysis = analysis

    def class_model(self, source: SourceModule, node: ast.ClassDef) -> ClassModel:
        """The model of a class definition, bases resolved."""
        known = source.classes.get(node)
        if isinstance(known, ClassModel):
            return known
        model = source.classes[node] = ClassModel(node, source)
        frame = Frame(self._analysis, source)
        bases = [self._base(frame, base) for base in node.bases]
        model.bases = tuple(b for b in bases if b is not model)
        return model

    def known(self, source: SourceModule) -> list[ClassModel]:
        """The models of a file's classes that were asked for by now."""
        return [c for c in source.classes.values() if isinstance(c, ClassModel)]

    def _base(self, frame: Frame, base: ast.expr) -> ClassModel | str:
        text = access_path(base.value if isinstance(base, ast.Subscript) else base)
        if text is None:
            return ""
        first, _, rest = text.partition(".")
        value = self._analysis.global_value(frame.source, first)
        for part in rest.split(".") if rest else ():
            value = self._analysis.member(self._analysis.resolve(value, frame.source), part)
        value = self._analysis.resolve(value, frame.source)
        if value.kind is Kind.CLASS and value.cls is not None:
            return value.cls
        return canonical(value.name) if value.kind is Kind.REFERENCE else ""

    def class_value(self, source: SourceModule, node: ast.ClassDef) -> Value:
        return Value(Kind.CLASS, cls=self.class_model(source, node), name=node.name)

    def is_module_class(self, cls: ClassModel) -> bool:
        """Whether objects of the class are nn.Modules, as far as it can be told."""
        for base in cls.outside_bases:
            if base in self._analysis.knowledge.modules or base.startswith(ecosystem.MODULE_FACTORIES):
                return True
        unknown_bases = [b for b in cls.outside_bases if b not in ecosystem.PLAIN_BASES]
        return bool(unknown_bases) and cls.method("forward") is not None

    def instance_of(self, cls: ClassModel, site: str = "", place: Place = NOWHERE) -> Value:
        """An object of a project class of which nothing else is known."""
        for base in cls.outside_bases:
            if base in self._analysis.knowledge.wrappers:
                # What it wraps, and where that is, is its constructor's business.
                return Value(Kind.WRAPPER, name=base, cls=cls, inner=Value(Kind.MODULE, likely=True), site=site)
        if self.is_module_class(cls):
            return Value(Kind.MODULE, place, cls=cls, site=site)
        for base in cls.outside_bases:
            if base in self._analysis.knowledge.optimizers:
                return Value(Kind.OPTIMIZER, cls=cls)
            if base in self._analysis.knowledge.schedulers:
                return Value(Kind.SCHEDULER, cls=cls)
            if base in self._analysis.knowledge.loaders:
                return Value(Kind.LOADER, cls=cls)
            if base in ecosystem.TENSOR_TYPES or base == "torch.nn.Parameter":
                return UNKNOWN
        return Value(Kind.OBJECT, cls=cls, site=site)

    def type_name(self, value: Value) -> str:
        """The qualified name of a class or reference."""
        return f"{value.cls.source.name}.{value.cls.name}" if value.cls is not None else canonical(value.name)

    def class_attribute(self, value: Value, name: str) -> Value:
        """`Cls.name`."""
        cls = value.cls
        if cls is None:
            return UNKNOWN
        method = cls.method(name)
        if method is not None:
            return Value(Kind.FUNCTION, function=method, inner=value if "classmethod" in method.decorators else None)
        return self._class_level(cls, name) or UNKNOWN

    def _class_level(self, cls: ClassModel, name: str) -> Value | None:
        for owner in cls.project_lineage():
            statement = owner.class_level.get(name)
            if statement is None:
                continue
            frame = Frame(self._analysis, owner.source, depth=MAX_DEPTH)
            value = UNKNOWN
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
                value = constant(statement.value.value)
            elif isinstance(statement, ast.AnnAssign):
                value = self._analysis.annotations.annotated(
                    Frame(self._analysis, owner.source), statement.annotation, f"self.{name}"
                )
            elif isinstance(statement, ast.Assign):
                from devlint.placement.expressions import evaluate

                outer = self._analysis.module_frame(owner.source)
                frame.closure = outer
                value = evaluate(frame, statement.value)
            return value
        return None

    def attribute_of(self, base: Value, name: str, node: ast.Attribute) -> Value:
        """`base.name` for a module or an object."""
        value = self._own_attribute(base, name)
        return either((g, _held_by(base, v)) for g, v in value.alternatives())

    def _own_attribute(self, base: Value, name: str) -> Value:
        if base.keys is not None and base.elements is not None and name in base.keys:
            return base.elements[base.keys.index(name)]
        cls = base.cls
        if cls is None:
            if base.name.startswith("torch.nn.") and name in ("weight", "bias"):
                return Value(Kind.PARAMETER, base.place, trail=base.trail)
            return SCALAR if name == "training" else UNKNOWN
        method = cls.method(name)
        if method is not None:
            if method.is_property:
                return self._analysis.functions.run_function(
                    method, {method.parameters[0].arg: base} if method.parameters else {}, 2
                )
            return Value(Kind.FUNCTION, function=method, inner=base)
        written = self.written(cls, name)
        if written is not None:
            return written
        declared = self._class_level(cls, name)
        if declared is not None:
            return declared
        return SCALAR if name == "training" else UNKNOWN

    def written(self, cls: ClassModel, name: str) -> Value | None:
        """What the methods of a class put into `self.<name>`."""
        writers = cls.writers(name)
        if not writers:
            return None
        found = []
        for position, function in enumerate(writers):
            value = self._attributes_after(function, cls).get(name)
            if value is not None and function.name not in CONSTRUCTORS and value.kind is Kind.EITHER:
                # Wrapped or moved on some paths of some other method: whether that ran before is anybody's guess.
                value = either((g, UNKNOWN if v.kind is Kind.WRAPPER else v) for g, v in value.options)
            if value is not None:
                found.append(replace(value, likely=value.likely or position > 0))
        # A placeholder that another method fills says nothing.
        real = [v for v in found if v != NONE] or found
        if not real:
            return UNKNOWN
        return _settled(join_all(real), cls)

    def holds_state(self, module: Value, depth: int = 0) -> bool:
        """Whether a module surely has parameters or buffers, of its own or in its parts."""
        if depth > MAX_DEPTH:
            return False
        parts = [*(module.elements or ()), *(v for v in (module.each, module.inner) if v is not None)]
        if module.cls is not None:
            if any(map(has_state, module.cls.outside_bases)):
                return True
            names = {name for c in module.cls.project_lineage() for name in c.assigned_in}
            parts += [v for name in sorted(names) if (v := self.written(module.cls, name)) is not None]
        elif has_state(module.name):
            return True
        options = [option for part in parts for _, option in part.alternatives()]
        return any(v.kind is Kind.PARAMETER or (v.is_module and self.holds_state(v, depth + 1)) for v in options)

    def _attributes_after(self, function: FunctionModel, cls: ClassModel) -> dict[str, Value]:
        def work() -> dict[str, Value]:
            frame = Frame(self._analysis, function.source, function, cls, depth=1)
            frame.env.values.update(self._analysis.functions.parameters(function, cls, frame))
            frame.run(function.node.body)
            prefix = f"{function.parameters[0].arg}." if function.parameters else "self."
            final = (frame.final or frame.env).values
            own = ((path.removeprefix(prefix), value) for path, value in final.items() if path.startswith(prefix))
            return {name: value for name, value in own if "[" not in name and "." not in name}

        return self._analysis.once(("written", function), function.source, work, {}, guard=function)


def _settled(value: Value, cls: ClassModel) -> Value:
    """What the methods of a class leave in an attribute, in whatever order they run: on the host only where all say so."""
    places = {v.place for _, v in value.alternatives() if v.kind in (Kind.TENSOR, Kind.PARAMETER, Kind.BATCH)}
    if len(places) > 1 or any(owner.sets_by_name for owner in cls.project_lineage()):
        return displaced(value)
    return value


def _held_by(base: Value, value: Value) -> Value:
    """A part of a module or an object, where its holder is: the parts that move with it, that is."""
    if value.kind in (Kind.SEQUENCE, Kind.MAPPING):
        # Other methods may have put other things in.
        return displaced(value)
    if not value.is_module and value.kind is not Kind.PARAMETER:
        return value
    if base.is_module and (base.place.off_host or base.place.sort is Sort.SAME):
        return replace(value, place=base.place, trail=base.trail, likely=value.likely or base.likely)
    # Created on the host, but whoever holds the whole may have moved it since.
    return displaced(value) if not base.is_module or base.place.sort is Sort.UNKNOWN else value
