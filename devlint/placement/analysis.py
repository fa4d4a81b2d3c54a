"""What the interpreter asks about things outside its frame: names, functions, classes, annotations, evidence."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from devlint.knowledge import canonical, ecosystem, torch_knowledge
from devlint.placement.classes import CONSTRUCTORS, ClassModel
from devlint.placement.devices import is_device_name, parse_device
from devlint.placement.environment import access_path
from devlint.placement.interpreter import Frame
from devlint.placement.memory import Result, Workings
from devlint.placement.project import Project
from devlint.placement.sources import FunctionModel, SourceModule
from devlint.placement.values import (
    EMPTY,
    HOST,
    NONE,
    NOWHERE,
    SCALAR,
    UNKNOWN,
    Kind,
    Place,
    Sort,
    Step,
    Value,
    constant,
    either,
    element_of,
    join_all,
    mapping_of,
    reference,
    same_as,
    sequence,
    sequence_of,
)

if TYPE_CHECKING:
    from devlint.placement.calls import Call

# Calls are followed this deep, less deep into other modules, and into long functions only where they are called
# directly: what they do rarely comes down to one story.
MAX_DEPTH = 4
MAX_DEPTH_OUTSIDE = 2
MAX_SIZE = 60
# A file's analysis walks at most this many statements.
BUDGET = 40_000


class OutOfBudgetError(Exception):
    """The file asks for more work than it is worth; what isn't known by then stays unknown."""


class Missing(NamedTuple):
    """An attribute read from a wrapper that hasn't got it."""

    wrapper: Value
    # It is the wrapper on some paths only.
    sometimes: bool


class Effects(NamedTuple):
    """What a call does besides returning."""

    moves: tuple[tuple[str, Place, Step | None, bool], ...]
    attributes: tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Hints:
    """Names that the user's settings add to the built-in ones."""

    loader_names: tuple[str, ...] = ()
    hot_functions: tuple[str, ...] = ()


class Analysis:
    """The state of one file's analysis; what it learns of other files stays with it."""

    def __init__(self, source: SourceModule, project: Project, hints: Hints) -> None:
        self.source = source
        self.project = project
        self.knowledge = torch_knowledge()
        self.closures: dict[FunctionModel, Frame] = {}
        self.missing: dict[ast.Attribute, Missing] = {}
        self.call_log: dict[FunctionModel, list[dict[str, Value]]] = defaultdict(list)
        self.call_nodes: dict[FunctionModel, dict[ast.Call, None]] = defaultdict(dict)
        self._loader_names = (*ecosystem.LOADER_NAMES, *hints.loader_names)
        self._steps = 0
        self._workings = Workings(project.memory)

    def spend(self) -> None:
        """Counts one statement. Raises OutOfBudgetError."""
        self._steps += 1
        if self._steps > BUDGET:
            raise OutOfBudgetError

    def close(self) -> None:
        """Lets go of what refers to itself in circles; the collector doesn't run while files are linted."""
        self.closures.clear()
        self.call_log.clear()
        self.call_nodes.clear()
        self._workings.close()
        self.source.close()

    def _once(self, key: Hashable, source: SourceModule, work: Callable[[], Result], cut: Result, **how: Any) -> Result:
        return self._workings.once(key, work, cut, shared=source is not self.source, **how)

    # -- names of other modules ------------------------------------------------------------------------------------

    def resolve(self, value: Value, asking: SourceModule) -> Value:
        """A reference, followed into the project where it leads there."""
        if value.kind is not Kind.REFERENCE:
            return value
        return self._once(
            ("resolved", value.name, asking.path), asking, lambda: self._follow(value, asking), value, keep_cut=False
        )

    def _follow(self, value: Value, asking: SourceModule) -> Value:
        parts = value.name.split(".")
        if parts[0] in ("builtins", "torch", "numpy") or self._is_outside(parts[0], asking):
            return value
        for count in range(len(parts), 0, -1):
            module = self.project.find(".".join(parts[:count]), Path(asking.path))
            if module is None:
                continue
            rest = parts[count:]
            if not rest:
                return value
            found = self.global_value(module, rest[0])
            if found.kind is Kind.UNKNOWN and not found.place.name:
                return value if not module.bindings.get(rest[0]) else found
            for name in rest[1:]:
                found = self._member(found, name)
            return found
        return value

    def _is_outside(self, first: str, asking: SourceModule) -> bool:
        def look() -> bool:
            path = Path(asking.path)
            root, _ = self.project.name_of(path)
            bases = {root, path.parent, *self.project.roots}
            return not any((b / first).is_dir() or (b / f"{first}.py").is_file() for b in bases)

        return self._workings.once(("outside", first, str(Path(asking.path).parent)), look, True, shared=True)

    def _member(self, value: Value, name: str) -> Value:
        match value.kind:
            case Kind.CLASS:
                return self.class_attribute(value, name)
            case Kind.REFERENCE:
                return reference(f"{value.name}.{name}")
        return UNKNOWN

    def global_value(self, source: SourceModule, name: str) -> Value:
        """The value of a module's top-level name, as it is once the module has run."""
        return self._once(("global", source, name), source, lambda: self._global(source, name), UNKNOWN, keep_cut=False)

    def _global(self, source: SourceModule, name: str) -> Value:
        bindings = source.bindings.get(name)
        if not bindings:
            for star in source.star_imports:
                module = self.project.find(source.absolute(star), Path(source.path))
                if module is not None and module is not source:
                    found = self.global_value(module, name)
                    if found.kind is not Kind.UNKNOWN and found.name != f"builtins.{name}":
                        return found
            return reference(f"builtins.{name}") if name in _BUILTIN_NAMES else UNKNOWN
        last = bindings[-1]
        # `try: from x import f` / `except ImportError: f = None`: the import tells more.
        if isinstance(last, ast.Assign) and isinstance(last.value, ast.Constant):
            last = next(
                (b for b in bindings if isinstance(b, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef))),
                last,
            )
        match last:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return Value(Kind.FUNCTION, function=source.function(last))
            case ast.ClassDef():
                return self.class_value(source, last)
            case ast.Import(names=aliases):
                alias = next(a for a in aliases if (a.asname or a.name).split(".")[0] == name)
                return reference(alias.name if alias.asname else name)
            case ast.ImportFrom(names=aliases):
                alias = next(a for a in aliases if (a.asname or a.name) == name)
                return self.resolve(reference(f"{source.absolute(last)}.{alias.name}"), source)
        frame = self.module_frame(source)
        if frame is None:
            return UNKNOWN
        return (frame.final or frame.env).get(name) or UNKNOWN

    def module_frame(self, source: SourceModule, record: dict[ast.expr, Value] | None = None) -> Frame | None:
        """The run over a module's top level; None while it is under way or when it got too long."""

        def run() -> Frame | None:
            frame = Frame(self, source, record=record)
            try:
                frame.run(source.tree.body)
            except OutOfBudgetError:
                return None
            if source is not self.source:
                # Kept for other files' analyses: it mustn't keep this one alive.
                frame.analysis = None  # type: ignore[assignment]
            return frame

        return self._once(("module", source), source, run, None)

    # -- evidence and annotations --------------------------------------------------------------------------------

    def by_evidence(self, frame: Frame, name: str, value: Value) -> Value:
        """A value of unknown kind, taken for what its use or its name makes it."""
        if value.kind is not Kind.UNKNOWN or value is EMPTY:
            return value
        kind = (frame.function or frame.source).evidence.get(name)
        if kind is not None:
            return replace(value, kind=kind, likely=True)
        if value.place.sort is Sort.UNKNOWN and any(fnmatchcase(name, p) for p in self._loader_names):
            return Value(Kind.LOADER, likely=True, name=name)
        return value

    def annotated(self, frame: Frame, annotation: ast.expr | None, owner: str = "") -> Value:
        """What an annotation says of a value."""
        match annotation:
            case ast.Constant(value=str() as text):
                try:
                    return self.annotated(frame, ast.parse(text, mode="eval").body, owner)
                except SyntaxError:
                    return UNKNOWN
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._union(frame, [left, right], owner)
            case ast.Subscript(value=generic, slice=arguments):
                return self._generic(frame, generic, arguments, owner)
            case ast.Name(id=name):
                return self._typed(frame.lookup(name), owner, frame.source)
            case ast.Attribute():
                text = ast.unparse(annotation)
                first, _, rest = text.partition(".")
                base = frame.lookup(first)
                return self._typed(
                    reference(f"{base.name}.{rest}") if base.kind is Kind.REFERENCE else UNKNOWN, owner, frame.source
                )
        return UNKNOWN

    def _union(self, frame: Frame, parts: Iterable[ast.expr], owner: str) -> Value:
        """The one thing beside None that a union names; unknown for more."""
        real = [p for p in parts if not (isinstance(p, ast.Constant) and p.value is None)]
        return self.annotated(frame, real[0], owner) if len(real) == 1 else UNKNOWN

    def _generic(self, frame: Frame, generic: ast.expr, arguments: ast.expr, owner: str) -> Value:
        name = ast.unparse(generic).rsplit(".", 1)[-1]
        parts = arguments.elts if isinstance(arguments, ast.Tuple) else [arguments]
        match name:
            case "Optional" | "Final" | "ClassVar" | "Annotated":
                return self.annotated(frame, parts[0], owner)
            case "Union":
                return self._union(frame, parts, owner)
            case "list" | "List" | "Sequence" | "Iterable" | "Iterator" | "set" | "Set" | "Generator" | "Collection":
                return sequence_of(self.annotated(frame, parts[0]))
            case "tuple" | "Tuple":
                if len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is ...:
                    return sequence_of(self.annotated(frame, parts[0]))
                return sequence(self.annotated(frame, p) for p in parts)
            case "dict" | "Dict" | "Mapping" | "MutableMapping" | "OrderedDict" | "defaultdict" if len(parts) == 2:
                return mapping_of(self.annotated(frame, parts[1]))
            case "DataLoader":
                return Value(Kind.LOADER)
            case "Float" | "Int" | "Bool" | "Shaped" | "Num" | "Integer" | "Real" if self.annotated(
                frame, parts[0]
            ).is_tensor:
                # jaxtyping
                return Value(Kind.TENSOR)
        return UNKNOWN

    def _typed(self, type_value: Value, owner: str, asking: SourceModule) -> Value:
        """An object of a type."""
        type_value = self.resolve(type_value, asking)
        if type_value.kind is Kind.CLASS and type_value.cls is not None:
            return self.instance_of(type_value.cls)
        name = canonical(type_value.name)
        if name in ecosystem.TENSOR_TYPES:
            return Value(Kind.TENSOR)
        if name == "torch.nn.Parameter":
            return Value(Kind.PARAMETER)
        if name in self.knowledge.modules:
            return Value(Kind.MODULE, name="" if name == "torch.nn.Module" else name)
        if name in self.knowledge.wrappers:
            return Value(Kind.WRAPPER, name=name, inner=Value(Kind.MODULE))
        if name == "torch.device":
            return Value(Kind.DEVICE, place=same_as(owner) if owner else NOWHERE, likely=True)
        if name in self.knowledge.optimizers:
            return Value(Kind.OPTIMIZER, name=name)
        if name in self.knowledge.loaders or name == "torch.utils.data.DataLoader":
            return Value(Kind.LOADER)
        if name == "numpy.ndarray":
            return Value(Kind.NDARRAY, HOST)
        if name in ("builtins.int", "builtins.float", "builtins.bool"):
            return SCALAR
        return UNKNOWN

    # -- iteration and contexts ----------------------------------------------------------------------------------

    def iterate(self, value: Value) -> Value:
        """What one turn of a `for` over the value gives."""
        match value.kind:
            case Kind.EITHER:
                return either((g, self.iterate(v)) for g, v in value.options)
            case Kind.LOADER:
                place = NOWHERE if value.place.sort is Sort.UNKNOWN else HOST
                return Value(Kind.BATCH, place, likely=True, trail=value.trail)
            case Kind.SEQUENCE:
                each = element_of(value)
                return UNKNOWN if each is EMPTY else each
            case Kind.MAPPING:
                return SCALAR
            case Kind.TENSOR | Kind.PARAMETER:
                return replace(value, kind=Kind.TENSOR)
            case Kind.BATCH | Kind.NDARRAY:
                return value
            case Kind.MODULE if value.each is not None or value.elements is not None:
                each = value.each or join_all(value.elements or ())
                return each.at(value.place) if value.place.off_host and each.is_module else each
            case Kind.OBJECT if value.cls is not None and (method := value.cls.method("__iter__")) is not None:
                produced = self.run_function(method, {method.parameters[0].arg: value} if method.parameters else {}, 1)
                return element_of(produced) if produced.kind is Kind.SEQUENCE else UNKNOWN
            case Kind.UNKNOWN if value.place.sort is not Sort.UNKNOWN:
                return value
        return UNKNOWN

    def entered(self, value: Value) -> Value:
        """What `with value as x` binds."""
        if value.kind is Kind.SEQUENCE:
            # A generator under contextlib.contextmanager.
            each = element_of(value)
            return UNKNOWN if each is EMPTY else each
        return UNKNOWN if value.kind is Kind.OBJECT else value

    # -- classes ---------------------------------------------------------------------------------------------------

    def class_model(self, source: SourceModule, node: ast.ClassDef) -> ClassModel:
        """The model of a class definition, bases resolved."""
        model = source.classes.get(node)
        if model is None:
            model = source.classes[node] = ClassModel(node, source)
            frame = Frame(self, source)
            bases: list[ClassModel | str] = []
            for base in node.bases:
                bases.append(self._base(frame, base))
            model.bases = tuple(b for b in bases if b is not model)
        return model

    def _base(self, frame: Frame, base: ast.expr) -> ClassModel | str:
        text = access_path(base.value if isinstance(base, ast.Subscript) else base)
        if text is None:
            return ""
        first, _, rest = text.partition(".")
        value = self.global_value(frame.source, first)
        for part in rest.split(".") if rest else ():
            value = self._member(self.resolve(value, frame.source), part)
        value = self.resolve(value, frame.source)
        if value.kind is Kind.CLASS and value.cls is not None:
            return value.cls
        return canonical(value.name) if value.kind is Kind.REFERENCE else ""

    def class_value(self, source: SourceModule, node: ast.ClassDef) -> Value:
        return Value(Kind.CLASS, cls=self.class_model(source, node), name=node.name)

    def is_module_class(self, cls: ClassModel) -> bool:
        """Whether objects of the class are nn.Modules, as far as it can be told."""
        for base in cls.outside_bases:
            if base in self.knowledge.modules or base.startswith(ecosystem.MODULE_FACTORIES):
                return True
        unknown_bases = [
            b
            for b in cls.outside_bases
            if b not in ("builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "object")
        ]
        return bool(unknown_bases) and cls.method("forward") is not None

    def instance_of(self, cls: ClassModel, site: str = "", place: Place = NOWHERE) -> Value:
        """An object of a project class of which nothing else is known."""
        if self.is_module_class(cls):
            return Value(Kind.MODULE, place, cls=cls, site=site)
        for base in cls.outside_bases:
            if base in self.knowledge.optimizers:
                return Value(Kind.OPTIMIZER, cls=cls)
            if base in self.knowledge.loaders:
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
            frame = Frame(self, owner.source, depth=MAX_DEPTH)
            value = UNKNOWN
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
                value = constant(statement.value.value)
            elif isinstance(statement, ast.AnnAssign):
                value = self.annotated(Frame(self, owner.source), statement.annotation, f"self.{name}")
            elif isinstance(statement, ast.Assign):
                from devlint.placement.expressions import evaluate

                outer = self.module_frame(owner.source)
                frame.closure = outer
                value = evaluate(frame, statement.value)
            return value
        return None

    def attribute_of(self, base: Value, name: str, node: ast.Attribute) -> Value:
        """`base.name` for a module or an object."""
        value = self._own_attribute(base, name)
        if value.is_module or value.kind is Kind.PARAMETER:
            if base.place.off_host:
                return replace(value, place=base.place, trail=base.trail, likely=value.likely or base.likely)
            if base.is_module and base.place.sort is Sort.UNKNOWN and value.place == HOST:
                # Created on the host, but whoever holds the module may have moved it since.
                return replace(value, place=NOWHERE)
        return value

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
                return self.run_function(method, {method.parameters[0].arg: base} if method.parameters else {}, 2)
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
        return join_all(real)

    def _attributes_after(self, function: FunctionModel, cls: ClassModel) -> dict[str, Value]:
        def work() -> dict[str, Value]:
            frame = Frame(self, function.source, function, cls, depth=1)
            frame.env.values.update(self.parameters(function, cls, frame))
            frame.run(function.node.body)
            prefix = f"{function.parameters[0].arg}." if function.parameters else "self."
            final = (frame.final or frame.env).values
            own = ((path.removeprefix(prefix), value) for path, value in final.items() if path.startswith(prefix))
            return {name: value for name, value in own if "[" not in name and "." not in name}

        return self._once(("written", function), function.source, work, {}, guard=function)

    # -- functions -------------------------------------------------------------------------------------------------

    def parameters(self, function: FunctionModel, cls: ClassModel | None, frame: Frame) -> dict[str, Value]:
        """The parameters' values where a function is looked at by itself: call sites, annotations, defaults, names."""
        values = {}
        sites = self.call_log.get(function, [])
        defaults = default_nodes(function)
        for position, argument in enumerate(function.parameters):
            name = argument.arg
            if position == 0 and function.cls is not None and not function.is_static:
                model = cls or self.class_model(function.source, function.cls)
                values[name] = (
                    Value(Kind.CLASS, cls=model)
                    if "classmethod" in function.decorators
                    else self.instance_of(model, "self")
                )
                continue
            seen = [site[name] for site in sites if name in site]
            value = join_all(seen) if seen and all(v.kind is not Kind.UNKNOWN for v in seen) else UNKNOWN
            if value.kind is Kind.UNKNOWN:
                value = self.declared(frame, argument, defaults.get(name))
            values[name] = self.by_evidence(frame, name, value)
        for extra in (function.node.args.vararg, function.node.args.kwarg):
            if extra is not None:
                values[extra.arg] = UNKNOWN
        return values

    def declared(self, frame: Frame, argument: ast.arg, default: ast.expr | None) -> Value:
        """A parameter by its annotation, its default and its name."""
        value = self.annotated(frame, argument.annotation, argument.arg)
        if value.kind is not Kind.UNKNOWN:
            return value
        if is_device_name(ast.Name(argument.arg)):
            return Value(Kind.DEVICE, place=same_as(argument.arg), likely=True)
        if isinstance(default, ast.Constant) and isinstance(default.value, (bool, int, float)):
            return SCALAR
        return UNKNOWN

    def call_function(self, request: Call, function: FunctionModel, receiver: Value | None) -> Value:
        """A call of a project function: its result, with its side effects done to the caller."""
        bound = self._bind(request, function, receiver)
        if request.frame.record is not None:
            self.call_log[function].append(bound)
            self.call_nodes[function][request.node] = None
        value, effects = self._run(function, bound, request.frame.depth + 1)
        env = request.frame.env
        for site, place, step, likely in effects.moves:
            env.move_site(site, place, step, likely=likely)
        base = access_path(request.node.func.value) if isinstance(request.node.func, ast.Attribute) else None
        if base is None and effects.attributes and _is_super(request.node):
            base = "self"
        if base is not None:
            for name, attribute in effects.attributes:
                env.bind(f"{base}.{name}", attribute, request.node.lineno)
        return value

    def run_function(self, function: FunctionModel, bound: dict[str, Value], depth: int) -> Value:
        """A function's result for given arguments."""
        return self._run(function, bound, depth)[0]

    def _bind(self, request: Call, function: FunctionModel, receiver: Value | None) -> dict[str, Value]:
        parameters = [a.arg for a in function.parameters]
        bound: dict[str, Value] = {}
        positional = list(request.positional)
        if function.cls is not None and not function.is_static and receiver is not None:
            positional.insert(0, receiver)
        # `*args` may fill any of them.
        if not any(isinstance(a, ast.Starred) for a in request.node.args):
            bound.update(zip(parameters, positional, strict=False))
        elif receiver is not None and parameters and function.cls is not None and not function.is_static:
            bound[parameters[0]] = receiver
        bound.update({k: v for k, v in request.keywords.items() if k in parameters})
        return bound

    def _run(self, function: FunctionModel, bound: dict[str, Value], depth: int) -> tuple[Value, Effects]:
        trails = {name: _first_trail(value) for name, value in bound.items()}
        bound = {
            name: _plain(value).retraced(partial(_marked, name=name)) if trails[name] else _plain(value)
            for name, value in bound.items()
        }
        value, effects = self._run_plain(function, bound, depth)
        if not any(trails.values()):
            return value, effects
        back = partial(_expanded, trails=trails)
        return value.retraced(back), Effects(
            effects.moves, tuple((name, attribute.retraced(back)) for name, attribute in effects.attributes)
        )

    def _run_plain(self, function: FunctionModel, bound: dict[str, Value], depth: int) -> tuple[Value, Effects]:
        """The same for arguments whose trails are marks; a caller puts its own in their place."""
        nothing = (UNKNOWN, Effects((), ()))
        if depth > (MAX_DEPTH if function.source is self.source else MAX_DEPTH_OUTSIDE) or (
            depth > 1 and function.size > MAX_SIZE
        ):
            self._workings.cut_by_depth()
            return nothing
        key = ("call", function, tuple(sorted(bound.items(), key=_name_of_item)))
        return self._once(
            key, function.source, lambda: self._interpret(function, bound, depth), nothing, guard=function, depth=depth
        )

    def _interpret(self, function: FunctionModel, bound: dict[str, Value], depth: int) -> tuple[Value, Effects]:
        frame = Frame(self, function.source, function, closure=self.closures.get(function), depth=depth)
        defaults = default_nodes(function)
        for argument in function.parameters:
            value = bound.get(argument.arg)
            if value is None:
                default = defaults.get(argument.arg)
                value = (
                    constant(default.value)
                    if isinstance(default, ast.Constant)
                    else self.declared(frame, argument, default)
                )
            elif value.kind is Kind.UNKNOWN:
                declared = self.declared(frame, argument, None)
                value = (
                    replace(declared, place=value.place)
                    if declared.kind is Kind.TENSOR
                    else declared
                    if declared.kind is not Kind.UNKNOWN
                    else value
                )
            frame.env.values[argument.arg] = self.by_evidence(frame, argument.arg, value)
        for extra in (function.node.args.vararg, function.node.args.kwarg):
            if extra is not None:
                frame.env.values[extra.arg] = UNKNOWN
        entry = dict(frame.env.values)
        frame.run(function.node.body)
        if function.is_generator:
            value = sequence_of(join_all(frame.yields))
        elif frame.returns:
            value = either(frame.returns)
        else:
            value = NONE
        return value, self._effects(function, entry, frame)

    def _effects(self, function: FunctionModel, entry: dict[str, Value], frame: Frame) -> Effects:
        final = (frame.final or frame.env).values
        moves = []
        for name, before in entry.items():
            after = final.get(name)
            if after is not None and before.site and after.site == before.site and after.place != before.place:
                step = after.trail[-1] if after.trail and after.trail[-1].path != ARGUMENT else None
                moves.append((before.site, after.place, step, after.likely))
        attributes: list[tuple[str, Value]] = []
        if function.cls is not None and function.parameters and not function.is_static:
            prefix = f"{function.parameters[0].arg}."
            attributes = [(p.removeprefix(prefix), v) for p, v in final.items() if p.startswith(prefix)]
        return Effects(tuple(moves), tuple(attributes))

    def instantiate(self, request: Call, class_value: Value) -> Value:
        """`Cls(...)`: runs the constructor and keeps what it set."""
        from devlint.placement.calls import site_of

        cls = class_value.cls
        if cls is None:
            return UNKNOWN
        step = request.step(f"created on cpu by `{request.text}`")
        made = self.instance_of(cls, site_of(request), HOST)
        if made.is_module:
            made = made.stepped(step)
        if made.kind not in (Kind.MODULE, Kind.OBJECT):
            return made
        constructor = cls.method("__init__")
        if constructor is None:
            return (
                replace(made, keys=tuple(request.keywords), elements=tuple(request.keywords.values()))
                if request.keywords
                else made
            )
        # One identity for all constructor runs, so that calls from several places are looked at once.
        bound = self._bind(request, constructor, replace(made, site="self" if made.is_module else "", trail=()))
        if request.frame.record is not None:
            self.call_log[constructor].append(bound)
        _, effects = self._run(constructor, bound, request.frame.depth + 1)
        own = [(name, value) for name, value in effects.attributes if "." not in name and "[" not in name]
        for site, place, moved, likely in effects.moves:
            if site == "self":
                made = made.at(place, moved, likely=likely)
        if not own or len(own) > 64 or any(v.depth > 3 for _, v in own):
            return made
        return replace(
            made,
            keys=tuple(n for n, _ in own),
            elements=tuple(v for _, v in own),
            depth=1 + max(v.depth for _, v in own),
        )

    # -- events ----------------------------------------------------------------------------------------------------

    def note_attribute(self, frame: Frame, base: Value, node: ast.Attribute) -> None:
        """Remembers a read of an attribute that a wrapper hasn't got."""
        if frame.record is None or not isinstance(node.ctx, ast.Load):
            return
        options = [v for _, v in base.alternatives()]
        for option in options:
            if option.kind is Kind.WRAPPER and node.attr not in self.knowledge.wrappers.get(
                option.name, frozenset({node.attr})
            ):
                self.missing[node] = Missing(option, len(options) > 1)
                return
        self.missing.pop(node, None)


# The path of a step that stands for an argument's own trail.
ARGUMENT = "<argument>"


def _marked(trail: tuple[Step, ...], name: str) -> tuple[Step, ...]:
    return (Step(name, ARGUMENT, 0, 0),) if trail else ()


def _first_trail(value: Value) -> tuple[Step, ...]:
    """The trail of a value, or of the first of its parts that has one."""
    if value.trail:
        return value.trail
    parts = [
        *(value.elements or ()),
        *((value.each,) if value.each is not None else ()),
        *(option for _, option in value.options),
        *((value.inner,) if value.inner is not None else ()),
    ]
    return next((trail for part in parts if (trail := _first_trail(part))), ())


def _expanded(trail: tuple[Step, ...], trails: dict[str, tuple[Step, ...]]) -> tuple[Step, ...]:
    """A trail with its marks replaced by the trails of the arguments."""
    if not any(step.path == ARGUMENT for step in trail):
        return trail
    return tuple(
        real for step in trail for real in (trails.get(step.message, ()) if step.path == ARGUMENT else (step,))
    )


def _name_of_item(item: tuple[str, Value]) -> str:
    return item[0]


def _plain(value: Value) -> Value:
    """An argument with what can't matter left out, so that calls that differ in it alone are looked at once."""
    if value.kind is Kind.CONSTANT:
        literal = value.constant
        if (isinstance(literal, str) and parse_device(literal) is None) or (
            isinstance(literal, (int, float, bytes, complex))
            and not isinstance(literal, bool)
            and literal not in range(16)
        ):
            return SCALAR
    return value


def default_nodes(function: FunctionModel) -> dict[str, ast.expr]:
    """Parameter name -> its default."""
    arguments = function.node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    found = {a.arg: d for a, d in zip(reversed(positional), reversed(arguments.defaults), strict=False)}
    found |= {a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None}
    return found


def _is_super(node: ast.Call) -> bool:
    func = node.func
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Call)
        and isinstance(func.value.func, ast.Name)
        and func.value.func.id == "super"
    )


_BUILTIN_NAMES = frozenset(dir(__import__("builtins")))
