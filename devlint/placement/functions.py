"""Functions of the project: what a call returns and changes, found by walking the body once for like arguments."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from devlint.placement.classes import ClassModel
from devlint.placement.devices import parse_device
from devlint.placement.frameworks import given_by_trainer, step_methods
from devlint.placement.interpreter import Frame
from devlint.placement.limits import MAX_DEPTH, MAX_DEPTH_OUTSIDE, MAX_FIELDS, MAX_SIZE
from devlint.placement.request import is_super, unmoved_sites
from devlint.placement.scope import Analysing
from devlint.placement.values import (
    ARGUMENT,
    EMPTY,
    HOST,
    MAX_ELEMENTS,
    NONE,
    NOWHERE,
    SCALAR,
    UNKNOWN,
    Guard,
    Happening,
    Place,
    Sort,
    Step,
    Value,
    batches_of,
    constant,
    either,
    join_all,
    replace,
    same_as,
)
from devlint.source.devices import is_device_name
from devlint.source.kinds import Kind
from devlint.source.modules import FunctionModel
from devlint.source.paths import access_path

if TYPE_CHECKING:
    from devlint.placement.request import Call


class Effects(NamedTuple):
    """What a call does besides returning."""

    moves: tuple[tuple[str, Place, Step | None, bool], ...]
    # (parameter, attribute, what it was set to)
    attributes: tuple[tuple[str, str, Value], ...]
    happenings: tuple[Happening, ...] = ()


class Functions:
    """Calls of project functions, as one analysis sees them."""

    def __init__(self, analysis: Analysing) -> None:
        self._analysis = analysis
        # What was seen of each function's calls in the scopes that rules ask about.
        self.call_log: dict[FunctionModel, list[dict[str, Value]]] = defaultdict(list)
        # By file and line, since a file that was read again has other models of the same functions.
        self.call_nodes: dict[tuple[str, int], dict[FunctionModel, dict[ast.Call, None]]] = defaultdict(dict)
        # The other way round.
        self.called: dict[ast.Call, FunctionModel] = {}

    def parameters(self, function: FunctionModel, cls: ClassModel | None, frame: Frame) -> dict[str, Value]:
        """The parameters' values where a function is looked at by itself: call sites, annotations, defaults, names."""
        values = {}
        sites = self.call_log.get(function, [])
        defaults = function.defaults
        is_forward = function.name == "forward" and function.cls is not None
        model: ClassModel | None = None
        for position, argument in enumerate(function.parameters):
            name = argument.arg
            if position == 0 and function.cls is not None and not function.is_static:
                model = cls or self._analysis.objects.class_model(function.source, function.cls)
                values[name] = (
                    Value(Kind.CLASS, cls=model)
                    if "classmethod" in function.decorators
                    else self._analysis.objects.instance_of(model, "self")
                )
                continue
            seen = {i: site[name] for i, site in enumerate(sites) if name in site}
            value = _of_calls(seen, len(sites)) if seen and all(map(_is_known, seen.values())) else UNKNOWN
            if self._is_number(frame, argument, value):
                value = SCALAR
            if value.kind is Kind.UNKNOWN:
                declared = self.declared(frame, argument, defaults.get(name))
                keeps_place = declared.kind in (Kind.UNKNOWN, Kind.TENSOR) and _is_known(value)
                value = replace(value, kind=declared.kind) if keeps_place else declared
            value = self._analysis.by_evidence(frame, name, value)
            values[name] = _input_of(value, name) if is_forward else value
        known = step_methods(function, model) if model is not None else None
        if known is not None:
            values |= given_by_trainer(function, known, values)
        for extra in (function.node.args.vararg, function.node.args.kwarg):
            if extra is not None:
                values[extra.arg] = UNKNOWN
        return values

    def declared(self, frame: Frame, argument: ast.arg, default: ast.expr | None) -> Value:
        """A parameter by its annotation, its default and its name."""
        value = self._analysis.annotations.annotated(frame, argument.annotation, argument.arg)
        if value.kind is not Kind.UNKNOWN:
            return value
        if is_device_name(ast.Name(argument.arg)):
            return Value(Kind.DEVICE, place=same_as(argument.arg), likely=True)
        if isinstance(default, ast.Constant) and isinstance(default.value, (bool, int, float)):
            return SCALAR
        return UNKNOWN

    def _is_number(self, frame: Frame, argument: ast.arg, value: Value) -> bool:
        """Whether a parameter is annotated as a number, and nothing surer speaks against it."""
        unsure = any(v.kind is Kind.UNKNOWN or v.likely for _, v in value.alternatives())
        return unsure and self._analysis.annotations.annotated(frame, argument.annotation) is SCALAR

    def call_function(self, request: Call, function: FunctionModel, receiver: Value | None) -> Value:
        """A call of a project function: its result, with its side effects done to the caller."""
        bound = self._bind(request, function, receiver)
        if request.frame.tells:
            self.call_log[function].append(bound)
            defined = (function.source.path, function.node.lineno)
            self.call_nodes[defined].setdefault(function, {})[request.node] = None
            self.called[request.node] = function
        value, effects = self._run(function, bound, request.frame.depth + 1)
        env = request.frame.env
        request.frame.happenings.update(dict.fromkeys(effects.happenings))
        for site, place, step, likely in effects.moves:
            env.move_site(site, place, step, likely=likely)
        if effects.attributes:
            paths = self._paths(request, function, receiver)
            for parameter, name, attribute in effects.attributes:
                if parameter in paths:
                    env.bind(f"{paths[parameter]}.{name}", attribute, request.node.lineno)
        return value

    def _paths(self, request: Call, function: FunctionModel, receiver: Value | None) -> dict[str, str]:
        """Parameter -> the access path that was given for it."""
        parameters = [a.arg for a in function.parameters]
        given: list[ast.expr | None] = list(request.node.args)
        if function.cls is not None and not function.is_static and receiver is not None:
            func = request.node.func
            owner = func.value if isinstance(func, ast.Attribute) else None
            given.insert(0, ast.Name("self") if is_super(request.node) else owner)
        pairs = [*zip(parameters, given, strict=False), *((k.arg, k.value) for k in request.node.keywords if k.arg)]
        found = ((name, access_path(node)) for name, node in pairs if node is not None)
        return {name: path for name, path in found if path is not None}

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
        trails = {name: value.first_trail for name, value in bound.items()}
        bound = {name: _plain(value).marked(name) if trails[name] else _plain(value) for name, value in bound.items()}
        value, effects = self._run_plain(function, bound, depth)
        if not any(trails.values()):
            return value, effects
        back = partial(_expanded, trails=trails)
        return value.retraced(back), Effects(
            effects.moves,
            tuple((parameter, name, attribute.retraced(back)) for parameter, name, attribute in effects.attributes),
            effects.happenings,
        )

    def _run_plain(self, function: FunctionModel, bound: dict[str, Value], depth: int) -> tuple[Value, Effects]:
        """The same for arguments whose trails are marks; a caller puts its own in their place."""
        if depth > (MAX_DEPTH if function.source is self._analysis.source else MAX_DEPTH_OUTSIDE):
            self._analysis.workings.cut_by_depth()
            return UNKNOWN, _anything(bound)
        if depth > 1 and function.outline.size > MAX_SIZE:
            # All work that may be kept begins at depth 1 or below: none of it would see more.
            return UNKNOWN, _anything(bound)
        key = ("call", function, tuple(sorted(bound.items(), key=_name_of_item)))
        # A call that is under way already adds nothing to what it returns.
        cut = EMPTY, Effects((), ())
        return self._analysis.once(
            key, function.source, lambda: self._interpret(function, bound, depth), cut, guard=function, depth=depth
        )

    def _interpret(self, function: FunctionModel, bound: dict[str, Value], depth: int) -> tuple[Value, Effects]:
        frame = Frame(
            self._analysis, function.source, function, closure=self._analysis.closures.get(function), depth=depth
        )
        defaults = function.defaults
        for argument in function.parameters:
            value = bound.get(argument.arg)
            if value is None:
                default = defaults.get(argument.arg)
                value = (
                    constant(default.value)
                    if isinstance(default, ast.Constant)
                    else self.declared(frame, argument, default)
                )
            elif self._is_number(frame, argument, value):
                value = SCALAR
            elif value.kind is Kind.UNKNOWN:
                declared = self.declared(frame, argument, None)
                value = (
                    replace(declared, place=value.place)
                    if declared.kind is Kind.TENSOR
                    else declared
                    if declared.kind is not Kind.UNKNOWN
                    else value
                )
            frame.env.values[argument.arg] = self._analysis.by_evidence(frame, argument.arg, value)
        for extra in (function.node.args.vararg, function.node.args.kwarg):
            if extra is not None:
                frame.env.values[extra.arg] = UNKNOWN
        entry = dict(frame.env.values)
        frame.run(function.node.body)
        if function.is_generator:
            value = batches_of(either((guards, each) for guards, each in frame.yields if each is not EMPTY))
        elif frame.returns:
            # What a recursive call gives is what the others give.
            value = either((guards, returned) for guards, returned in frame.returns if returned is not EMPTY)
        else:
            value = NONE
        if not function.keeps_result:
            value = UNKNOWN
        elif value.kind is Kind.UNKNOWN and not value.place.off_host:
            declared = self._analysis.annotations.annotated(frame, function.node.returns)
            value = replace(declared, likely=True) if declared.kind is not Kind.UNKNOWN else value
        effects = self._effects(function, entry, frame)
        return either((guards, _changed(option, entry, effects)) for guards, option in value.alternatives()), effects

    def _effects(self, function: FunctionModel, entry: dict[str, Value], frame: Frame) -> Effects:
        final = (frame.final or frame.env).values
        moves = []
        for name, before in entry.items():
            after = final.get(name)
            if after is not None and before.site and after.site == before.site and after.place != before.place:
                step = after.trail[-1] if after.trail and after.trail[-1].path != ARGUMENT else None
                moves.append((before.site, after.place, step, after.likely))
        attributes: list[tuple[str, str, Value]] = []
        for path, value in final.items():
            name, dot, rest = path.partition(".")
            if dot and name in entry:
                attributes.append((name, rest, value))
        return Effects(tuple(moves), tuple(attributes), tuple(frame.happenings))

    def instantiate(self, request: Call, class_value: Value) -> Value:
        """`Cls(...)`: runs the constructor and keeps what it set."""
        from devlint.placement.request import site_of

        cls = class_value.cls
        if cls is None:
            return UNKNOWN
        step = request.step(f"created on cpu by `{request.text}`")
        made = self._analysis.objects.instance_of(cls, site_of(request), HOST)
        if made.is_module:
            made = made.stepped(step)
        if made.kind not in (Kind.MODULE, Kind.OBJECT):
            return made
        constructor = cls.method("__init__")
        if constructor is None:
            # A dataclass, a named tuple: the fields in their order.
            fields = [name for c in reversed(list(cls.project_lineage())) for name in c.class_level]
            given = {**dict(zip(fields, request.positional, strict=False)), **request.keywords}
            # Large ones are configurations: each would be a story of its own.
            return made if request.open_ended or len(fields) > MAX_FIELDS else _holding(made, given)
        # One identity for all constructor runs, so that calls from several places are looked at once.
        bound = self._bind(request, constructor, replace(made, site="self" if made.is_module else "", trail=()))
        if request.frame.tells:
            self.call_log[constructor].append(bound)
        _, effects = self._run(constructor, bound, request.frame.depth + 1)
        request.frame.happenings.update(dict.fromkeys(effects.happenings))
        me = constructor.parameters[0].arg if constructor.parameters else "self"
        own = [(name, value) for owner, name, value in effects.attributes if owner == me and name.isidentifier()]
        for site, place, moved, likely in effects.moves:
            if site == "self":
                made = made.at(place, moved, likely=likely)
        return _holding(made, dict(own))


def _anything(bound: dict[str, Value]) -> Effects:
    """The effects of a call that wasn't followed: modules that it was given may have been moved."""
    sites = dict.fromkeys(site for value in bound.values() for site in unmoved_sites(value))
    return Effects(tuple((site, NOWHERE, None, True) for site in sites), ())


def _of_calls(seen: dict[int, Value], calls: int) -> Value:
    """What calls, by their number, give for a parameter: all of one call's arguments go together, and none with another's."""
    values = list(seen.values())
    if len(set(values)) == 1 or any(v.kind is Kind.SEQUENCE for v in values):
        return join_all(values)
    return either(
        (frozenset(Guard(f"this is call {i + 1}", i == own) for i in range(calls)), value)
        for own, value in seen.items()
    )


def _is_known(value: Value) -> bool:
    return value.kind is not Kind.UNKNOWN or value.place.sort is not Sort.UNKNOWN


def _input_of(value: Value, name: str) -> Value:
    """An argument of `forward`: where it is, other tensors must be."""
    if value.place != NOWHERE or value.kind not in (Kind.TENSOR, Kind.BATCH, Kind.UNKNOWN):
        return value
    return replace(value, place=same_as(name))


def _changed(returned: Value, entry: dict[str, Value], effects: Effects) -> Value:
    """What a function returns, with what it changed of it: `return self` after `self.x = self.x.to(device)`."""
    if returned.kind not in (Kind.OBJECT, Kind.MODULE) or returned.elements is None or returned.keys is None:
        return returned
    given = next((name for name, value in entry.items() if value is returned), None)
    new = {name: value for owner, name, value in effects.attributes if owner == given and name.isidentifier()}
    return _holding(returned, dict(zip(returned.keys, returned.elements, strict=True)) | new) if new else returned


def _holding(made: Value, attributes: dict[str, Value]) -> Value:
    """An object with what it was given; one that holds too much, or too deep, is left to its class."""
    if not attributes or len(attributes) > MAX_ELEMENTS or any(v.depth > 3 for v in attributes.values()):
        return made
    depth = 1 + max(v.depth for v in attributes.values())
    return replace(made, keys=tuple(attributes), elements=tuple(attributes.values()), depth=depth)


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
