"""What a function leaves open by itself: whether its calls, and what else it does, say that it is on the host or elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Hashable

from devlint.signatures.answers.silence import (
    brings_others_itself,
    is_data_module,
    is_given_copies,
    is_handed_over_with_a_device,
    is_host_code,
    is_host_data,
    is_host_file,
    is_host_program,
    is_moved_after_calls,
    is_moved_afterwards,
    is_never_named,
    is_of_host_project,
    is_of_shapes,
    is_stand_in,
    speaks_of_devices,
)
from devlint.signatures.reading.callers import Brought, is_within
from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.frame import PLACE, Frame
from devlint.signatures.state.outcome import Need
from devlint.signatures.values.conditions import Condition
from devlint.signatures.values.values import (
    GENERATOR,
    HOST,
    MODULE,
    TENSOR,
    Cell,
    Place,
    Value,
    leaves,
    steps_to,
)
from devlint.source.modules import FunctionModel


def is_nobodys(reader: Reader, frame: Frame, need: Need, node: ast.expr, host: Value, other: Value) -> bool:
    """Whether a function that is told for itself alone is meant for the host, or isn't known well enough."""
    if is_host_file(frame.source.path) or is_host_program(reader.project, frame.source):
        return True
    if frame.function is None:
        return False
    name = other.place.name
    cls = frame.reader.class_around(frame)
    if is_of_host_project(reader.project, frame.source) or (cls is None and is_data_module(frame.source)):
        return True
    # Modules are made on the host and moved as wholes; an object that is made of tensors is where they are.
    of_tensors = cls is not None and not cls.is_module and not cls.outside_bases and other.kind is TENSOR
    if is_host_code(frame.function, may_construct=of_tensors) or is_stand_in(node):
        return True
    if cls is not None and cls.is_module and _makes_modules(frame):
        return True
    if is_host_data(other.place) or is_of_shapes(other.place):
        return True
    if any(step.of_module for step in steps_to(host.step)):
        # The function computes with a module of the program's own that nobody moves.
        return True
    if any(v.kind is GENERATOR and v.place == HOST and v.path is None for v in frame.env.values()):
        # It draws with a generator of the host, which gives nothing for elsewhere.
        return True
    if any(
        need_.sense == "host"
        and any(o.place == other.place for _, v in need_.operands for _, o in leaves(v, reader.atoms))
        for need_ in frame.needs
    ):
        # What it meets is handed to NumPy as it is.
        return True
    if other.place.sort == "input" and len(name) > 1 and cls is not None:
        known = other.kind in (TENSOR, MODULE) and cls.is_module
        if is_own(frame, other) and "computed" not in other.tags and not known:
            # A part of an object of which nothing is known.
            return True
    inside = need.function or frame.function
    return (
        _is_sent_by_calls(reader, frame.function, other.place)
        or is_given_copies(frame.function, other.place)
        or any(map(is_moved_after_calls, {frame.function, inside}))
        or is_moved_afterwards(inside, need.node)
        or brings_others_itself(frame.function, other.place)
        or is_never_named(frame.function)
        or _is_called_with_host_alone(reader, frame.function, need)
    )


def _makes_modules(frame: Frame) -> bool:
    """Whether a method of a module sets modules that it makes on the host: it builds, and runs before anything is moved."""
    me = frame.reader.self_of(frame)
    slots = {me.path, me.identity} - {None} if me is not None else set()
    return any(
        isinstance(key, tuple)
        and len(key) == 2
        and key[0] in slots
        and any(o.kind is MODULE and _is_made_in(frame, o) for _, o in value.options())
        for key, value in frame.env.items()
    )


def _is_made_in(frame: Frame, module: Value) -> bool:
    """Whether a call in the function at hand makes a module."""
    match frame.function, module.cell:
        case FunctionModel(node=node), Cell(site=(str() as path, int() as line, *_)):
            return path == frame.source.path and node.lineno <= line <= (node.end_lineno or node.lineno)
    return False


def _is_sent_by_calls(reader: Reader, function: FunctionModel, place: Place) -> bool:
    """Whether all calls of a function in its file bring what somebody moved to the host."""
    if place.sort != "input":
        return False
    given = [call.given.get(str(place.name[0])) for call in reader.given_to(function)]
    return bool(given) and all(value is not None and _was_sent_to_host(value) for value in given)


def _was_sent_to_host(value: Value) -> bool:
    return all(o.place == HOST and any(s.told for s in steps_to(o.step)) for _, o in value.options())


def is_own(frame: Frame, value: Value) -> bool:
    """Whether something is where the object is that the method at hand is called on."""
    me = frame.reader.self_of(frame)
    return me is not None and me.path is not None and me.path == value.place.name[:1]


def _is_called_with_host_alone(reader: Reader, function: FunctionModel, need: Need) -> bool:
    """Whether all calls of a function that can be seen bring from the host what meets what is made there, or stand in
    code that is meant for the host.

    Of a private function, which nobody else calls, it is enough that all calls bring what it meets from there; of others,
    that nothing else that they bring is somewhere unknown.
    """
    brought = reader.callers.brought_to(function, need)
    if function.parent is not None and reader.given_to(function):
        # All that calls it is in sight.
        return not any(_may_be_elsewhere(call, function) for call in brought)
    if not brought:
        return False
    if all(call.caller is not None and is_host_code(call.caller) for call in brought):
        return True
    if function.name.startswith("_"):
        return all(_is_from_host(reader, call) for call in brought)
    return all(_is_from_host(reader, call) and all(p.sort != "unknown" for p in call.given) for call in brought)


def _is_from_host(reader: Reader, call: Brought, depth: int = 3) -> bool:
    """Whether a call brings what is on the host, or what all calls of the function that it stands in bring from there."""
    if _are_host(call.places):
        return True
    if call.caller is None or not depth or any(p != HOST and not p.is_open for p in call.places):
        return False
    before = reader.callers.brought_along(call.caller, call.places)
    return bool(before) and all(_is_from_host(reader, other, depth - 1) for other in before)


def _may_be_elsewhere(call: Brought, function: FunctionModel) -> bool:
    """Whether a call from outside brings what is on an accelerator, or what its own caller has."""
    return not is_within(call.caller, function) and any(p.off_host or p.is_open for p in call.places)


def _are_host(places: frozenset[Place]) -> bool:
    """Whether what a call brings is all on the host."""
    return bool(places) and all(p == HOST or is_host_data(p) for p in places)


def is_given_host(reader: Reader, function: FunctionModel, need: Need) -> bool:
    """Whether all calls of a function that can be seen bring on the host what it wants there."""
    brought = reader.callers.brought_to(function, need)
    return bool(brought) and all(_are_host(call.places) for call in brought)


def is_for_arrays(reader: Reader, path: Condition, *, or_no_tensors: bool = False) -> bool:
    """Whether a path is for inputs that are arrays, as all others are then: what is computed with them is on the host.

    `or_no_tensors`: what isn't a tensor is taken for one.
    """
    return _says(reader, path, ("numpy.", "scipy.sparse."), "torch.Tensor" if or_no_tensors else "")


def is_for_mappings(reader: Reader, path: Condition) -> bool:
    """Whether a path is for an input that is a mapping: a model that takes a whole one may move what it holds."""
    return _says(reader, path, _MAPPINGS)


_MAPPINGS = (
    *("dict", "builtins.dict", "collections.abc.", "collections.UserDict", "collections.OrderedDict"),
    *("typing.Mapping", "typing.MutableMapping", "transformers."),
)


def _says(reader: Reader, path: Condition, types: str | tuple[str, ...], others: str = "") -> bool:
    """Whether a path's tests say that something is of types with such names, or none of those with others."""
    atom = reader.atoms.atom
    return bool(path) and all(any(_says_type(atom(x).key, x > 0, types, others) for x in clause) for clause in path)


def _says_type(key: Hashable, outcome: bool, types: str | tuple[str, ...], others: str) -> bool:
    """Whether a test that comes out so, here or in what is called, says that."""
    match key:
        case ("at call", _, inner):
            return _says_type(inner, outcome, types, others)
        case ("isinstance", _, tuple() as tested) if tested and (outcome or others):
            names = [str(t.data) for t in tested if isinstance(t, Value)]
            if others and all(name.startswith("scipy.sparse.") for name in names):
                # What isn't a sparse matrix of one format is one of another.
                return True
            return len(names) == len(tested) and all(name.startswith(types if outcome else others) for name in names)
        case ("==", asked, Value(kind="reference") as dtype) if others and not outcome:
            # `x.dtype is torch.float32`: what isn't so is taken for an array.
            return ".dtype" in str(asked) and str(dtype.data).startswith("torch.")
    return False


def may_be_off_host(frame: Frame, value: Value) -> bool:
    """Whether the code around gives evidence that an input comes from an accelerator."""
    if frame.function is None or is_host_code(frame.function) or is_host_file(frame.source.path):
        return False
    if (
        "computed" in value.tags
        or _is_with_a_module(frame, value)
        or (value.place.sort == "input" and value.kind is TENSOR and "of module" in value.tags)
    ):
        return True
    me = frame.reader.self_of(frame)
    if value.path is not None and value.path[0] in frame.moved and (me is None or me.path != value.path[:1]):
        # The function moves another part of it, or a copy, from where it is.
        return False
    cls = frame.reader.class_around(frame)
    if cls is not None and cls.is_module and value.place == Place("input", (frame.function.parameters[0].arg,)):
        return True
    return speaks_of_devices(frame.function) or is_handed_over_with_a_device(frame.function)


def hangs_on_a_flag(reader: Reader, frame: Frame, when: Condition) -> bool:
    """Whether something is so only where a parameter is on that is off by default, and that nobody in the project gives
    (`pytest=False`), or where one is off that is on by default."""
    if frame.function is None or not when:
        return False
    defaults = frame.function.defaults
    off = {name for name, d in defaults.items() if isinstance(d, ast.Constant) and d.value is False}
    on = {name for name, d in defaults.items() if isinstance(d, ast.Constant) and d.value is True}

    def is_on(literal: int) -> bool:
        match reader.atoms.atom(literal).key:
            case ("true", (str() as name,)) if literal > 0 and name in off:
                return not reader.project.is_given(frame.source.file, name)
            case ("true", (str() as name,)) if literal < 0 and name in on:
                # `to_cpu=True`: whoever turns that off asks for what it brings.
                return True
        return False

    return all(any(is_on(literal) for literal in clause) for clause in when)


def hangs_on_words(frame: Frame, value: Value) -> bool:
    """Whether it is only what a function says of devices that speaks for an input that comes from an accelerator."""
    if frame.function is None or not speaks_of_devices(frame.function):
        return False
    cls = frame.reader.class_around(frame)
    if cls is not None and cls.is_module and is_own(frame, value):
        return False
    computed = "computed" in value.tags or _is_with_a_module(frame, value)
    return not computed and not is_handed_over_with_a_device(frame.function)


def _is_with_a_module(frame: Frame, value: Value) -> bool:
    """Whether a value is on the device that a module was moved to here."""
    moved = (v.place for k, v in frame.env.items() if isinstance(k, tuple) and len(k) == 2 and k[1] == PLACE)
    return value.place.sort == "told" and value.place in moved


def meets_own_parts(frame: Frame, value: Value) -> bool:
    """Whether a module's method also computes with a value and what the module itself holds or gives."""
    me, cls = frame.reader.self_of(frame), frame.reader.class_around(frame)
    if me is None or cls is None or not cls.is_module or me.path is None:
        return False
    own = Place("input", me.path)
    for need in frame.needs:
        if need.sense in ("operation", "index"):
            places = [{o.place for _, o in operand.options()} for _, operand in need.operands]
            if {own} in places and {value.place} in places and value.place != own:
                return True
    return False
