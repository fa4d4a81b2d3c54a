"""Objects as their methods see them: what the constructor left in each attribute, and where that is then."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from devlint.signatures.reading.instances import Instance
from devlint.signatures.reading.knots import Knot, Knots
from devlint.signatures.state.classes import ClassInfo
from devlint.signatures.state.frame import CONTENTS, EVERY, PLACE, Frame, Reading
from devlint.signatures.state.objects import KEPT, class_of, is_registered
from devlint.signatures.state.outcome import Signature
from devlint.signatures.values.conditions import Condition, tests_of
from devlint.signatures.values.values import (
    ARRAY,
    CONSTANT,
    DEVICE,
    DICT,
    EITHER,
    EMPTY,
    FUNCTION,
    HOST,
    LIST,
    MODULE,
    MODULES,
    NOTHING,
    NUMBER,
    OBJECT,
    OR_ARRAY,
    OUTCOME,
    TENSOR,
    TUPLE,
    UNKNOWN,
    WRAPPER,
    Cell,
    Made,
    Path,
    Place,
    Value,
    either,
    mapped,
    rank_of,
)
from devlint.source.modules import FunctionModel, SourceModule
from devlint.source.plain import is_number_name


def _mentions(key: Hashable, names: frozenset[str]) -> bool:
    """Whether a test is about one of some inputs."""
    if not isinstance(key, tuple) or not key:
        return False
    return key[0] in names or any(_mentions(part, names) for part in key)


class Settling(Reading, Protocol):
    """What is asked of the reader here."""

    @property
    def knots(self) -> Knots: ...
    def settle(self, knot: Knot, /) -> bool: ...
    def read_asides(self) -> None: ...


class View:
    """What methods find in the attributes of their object."""

    def __init__(self, reader: Settling) -> None:
        self._reader = reader
        self._attributes: dict[tuple[ClassInfo, str], Value] = {}
        # What a container of modules is in the constructor that made it.
        self._made: dict[tuple[ClassInfo, str], Cell] = {}

    def forget(self, gone: frozenset[SourceModule]) -> None:
        """Lets go of the classes of some files."""
        self._attributes = {key: v for key, v in self._attributes.items() if key[0].source not in gone}
        self._made = {key: c for key, c in self._made.items() if key[0].source not in gone}

    def close(self) -> None:
        """Lets go of everything."""
        self._attributes.clear()
        self._made.clear()

    def forget_attribute(self, cls: ClassInfo, name: str) -> None:
        """Lets go of one attribute."""
        self._attributes.pop((cls, name), None)
        self._made.pop((cls, name), None)

    def original(self, frame: Frame, path: Path, slot: str) -> Value:
        """What a slot of an input held to begin with."""
        if slot == EVERY:
            return Value(UNKNOWN, Place("input", (*path, slot)), path=(*path, slot))
        me = self._reader.self_of(frame)
        if me is None or me.path != path[:1] or class_of(me) is None:
            if slot == PLACE:
                return Value(TENSOR, Place("input", path))
            if slot.startswith("."):
                return Value(UNKNOWN, Place("input", (*path, slot)), path=(*path, slot))
            return NOTHING
        cls = class_of(me)
        assert cls is not None
        assert me.path is not None
        if slot == PLACE:
            return Value(TENSOR, Place("input", me.path)) if len(path) == 1 else NOTHING
        if slot.startswith(".") and len(path) == 1:
            return self.attribute(cls, slot[1:], me.path)
        if slot == CONTENTS and len(path) == 2:
            return self._contents(cls, str(path[1])[1:], path)
        if slot.startswith(".") and len(path) == 2:
            return self._switch(cls, str(path[1])[1:], slot, me.path)
        return NOTHING

    def attribute(self, cls: ClassInfo, name: str, me: Path) -> Value:
        """An attribute of `self`, in a method."""
        key, item = (cls, name), ("attribute", cls, name)
        if key in self._attributes:
            self._reader.knots.used(item)
            return self._attributes[key]
        constructor = cls.method("__init__")
        if self._reader.knots.is_under_way(item) or (constructor is not None and self._reader.is_reading(constructor)):
            # It is being found out, or isn't set yet on this way through the constructor.
            own = (*me, f".{name}")
            return Value(UNKNOWN, Place("input", own), path=own)
        self._reader.knots.begin(item)
        try:
            found = self._found(cls, name, me)
            still_to_come = any(self._reader.is_reading(setter) for setter in cls.setters.get(name, ()))
        finally:
            knot = self._reader.knots.end(item)
        if still_to_come:
            # What a method that is under way sets.
            return found
        self._attributes[key] = found
        if knot is not None and self._reader.settle(knot):
            return self.attribute(cls, name, me)
        self._reader.read_asides()
        return self._attributes[key]

    def _found(self, cls: ClassInfo, name: str, me: Path) -> Value:
        path = (*me, f".{name}")
        unknown = Value(UNKNOWN, Place("input", path), path=path)
        constructor = cls.method("__init__")
        options: list[Value] = []
        if constructor is not None:
            signature = self._reader.signature(constructor, None)
            if signature is None or cls.applies(name):
                return unknown
            held = _held(signature, constructor, f".{name}")
            if held is not None and name in cls.handed_on:
                return unknown
            if held is not None:
                options.append(self._seen(held, path, me, cls, signature))
        elif name in cls.annotated:
            # What a dataclass is given.
            options.append(unknown)
        for setter in cls.setters.get(name, ()):
            if _is_helper_of(constructor, setter):
                continue
            if options and self._reader.is_reading(setter):
                if _is_some_device(options[0]):
                    # What it is on the way there, others that are called there are handed: theirs is any.
                    return Value(DEVICE, Place("told", path), path=path, likely=True)
                continue
            told = self._set_by(setter, name, path, me, cls)
            options.append(told)
        if not options:
            return NOTHING
        options = [o for o in options if not (o.kind is CONSTANT and o.data is None)] or [unknown]
        distinct = list(dict.fromkeys(_as_one(o) for o in options))
        registered = [o for o in distinct if o.kind is TENSOR and is_registered(o)]
        if registered:
            # What is put in the place of a parameter is one as well.
            return registered[0]
        if len(distinct) == 1:
            return distinct[0]
        first = distinct[0]
        if all(o.kind is TENSOR and o.place == first.place for o in distinct):
            return first
        return unknown

    def _set_by(self, setter: FunctionModel, name: str, path: Path, me: Path, cls: ClassInfo) -> Value:
        """What another method than the constructor leaves in an attribute."""
        unknown = Value(UNKNOWN, Place("input", path), path=path)
        if not setter.parameters:
            return unknown
        signature = self._reader.signature(setter, None)
        if signature is None:
            return unknown
        held = _held(signature, setter, f".{name}")
        if held is None:
            return unknown
        held = _tensor_if_array(held)
        if held.kind is EITHER:
            return unknown
        if held.kind is TENSOR and held.place.sort == "input":
            return (
                unknown.but(kind=TENSOR, likely=True)
                if held.place.name[0] != setter.parameters[0].arg
                else held.but(path=None)
            )
        return self._seen(held, path, me, cls, signature)

    def _seen(self, value: Value, path: Path, me: Path, cls: ClassInfo, signature: Signature) -> Value:
        """What the constructor left, as a method sees it."""
        value = _tensor_if_array(value)
        if value.kind is EITHER:
            # Where it isn't set, nobody reads it.
            parts = [(c, v) for c, v in value.parts if v.path != path]
            seen = [(c, self._seen(v, path, me, cls, signature)) for c, v in parts]
            kept = [KEPT in v.tags and v.path is None for _, v in seen]
            if any(kept) and not all(kept):
                return Value(UNKNOWN, Place("input", path), path=path)
            if len(seen) < 2:
                return seen[0][1] if seen else NOTHING
            settings = self._settings_of(me, signature)
            told = [(settings.condition(c), v) for c, v in seen]
            if all(v.kind is DEVICE for _, v in told) and any(self._hangs_on_given(c, signature) for c, _ in told):
                # What decided isn't kept: the device tells it, of an object that is made in sight.
                return Value(DEVICE, Place("told", path), path=path, likely=True)
            return either(told, self._reader.atoms)
        own = Place("input", path)
        whole = self._whole(signature, me, cls)
        match value.kind:
            case "tensor":
                if is_registered(value):
                    at = value.place if value.place.off_host else whole
                    return Value(TENSOR, at, path=path, rank=value.rank, tags=value.tags, step=value.step)
                if value.rank == EMPTY:
                    # It holds the place of what somebody will put there.
                    return Value(UNKNOWN, own, path=path)
                if value.place.is_open or value.place.sort == "unknown":
                    return Value(TENSOR, own, path=path, rank=value.rank, likely=True)
                return value.but(path=None, tags=value.tags | {KEPT}, likely=value.likely)
            case "module" | "wrapper":
                held = signature.cells.get(value.cell, {}).get(PLACE) if value.cell is not None else None
                at = whole
                if held is not None and held.place.off_host:
                    at = held.place
                elif held is not None and (held.kind is EITHER or held.place.sort == "told"):
                    # It was moved by itself, to a device that only those know who make the object.
                    at = own
                if not cls.is_module and not at.off_host:
                    # Whoever has the object may move its parts.
                    at = own
                if value.cell is not None:
                    self._made[cls, _name_of(path)] = value.cell
                if value.kind is WRAPPER:
                    return Value(WRAPPER, at, data=value.data, path=path, step=value.step, parts=tuple(
                        self._seen(p, (*path, ".module"), me, cls, signature) for p in value.parts))  # fmt: skip
                step = held.step if held is not None else None
                return Value(MODULE, at, data=value.data, path=path, step=step)
            case "device":
                at = value.place if not value.place.is_open else Place("told", path)
                return Value(DEVICE, at, path=path, likely=True)
            case "list" | "dict":
                return Value(value.kind, own, path=path, data=value.cell)
            case "object":
                return Value(OBJECT, own, data=value.data, path=path)
            case "constant" if value.data is None:
                return value
            case "constant" | "number" | "outcome":
                return Value(NUMBER, path=path) if isinstance(value.data, (int, float, str)) and not isinstance(
                    value.data, bool) else Value(UNKNOWN, own, path=path)  # fmt: skip
            case "function" | "class" | "reference":
                # One of many functions, or one that sees the constructor's names.
                hidden = value.kind is FUNCTION and (value.data is None or value.data[1] is not None)
                return Value(UNKNOWN, own, path=path) if hidden else value
            case "loader":
                return value.but(likely=True, path=None)
            case "tuple":
                return Value(TUPLE, parts=tuple(
                    self._seen(p, (*path, f"[{i}]"), me, cls, signature) for i, p in enumerate(value.parts)))  # fmt: skip
            case "unknown":
                is_number = is_number_name(str(path[-1]).removeprefix("."))
                # What was copied to the host stays there, unless it may be a module that somebody moves.
                at = HOST if value.place == HOST and not cls.is_module else own
                made = value.data if isinstance(value.data, Made) else None
                return Value(NUMBER, path=path) if is_number else Value(UNKNOWN, at, path=path, data=made)
        return NOTHING

    def _hangs_on_given(self, condition: Condition, signature: Signature) -> bool:
        """Whether a condition asks for what a constructor was given."""
        prefix = self._reader.root_prefix(signature.function)
        names = frozenset(f"{a.arg}{prefix}" for a in signature.function.parameters[1:])
        return any(_mentions(self._reader.atoms.atom(test).key, names) for test in tests_of(condition))

    def _settings_of(self, me: Path, signature: Signature) -> Instance:
        """The constructor, what it was given being what the object keeps of that: `self.use_gpu = use_gpu`."""
        constructor = signature.function
        prefix = self._reader.root_prefix(constructor)
        inputs = {(f"{a.arg}{prefix}",) for a in constructor.parameters}
        given = {
            str(effect.value.path[0]): Value(UNKNOWN, path=(*me, effect.slot))
            for effect in signature.effects
            if effect.path == me and effect.slot.startswith(".") and effect.value.path in inputs
        }
        frame = Frame(self._reader, constructor.source, constructor)
        settings = Instance(frame, signature, given, constructor.node)
        for effect in signature.effects:
            if effect.path == me and effect.slot.startswith(".") and effect.value.kind is OUTCOME:
                # `self.parallel = device_count() > 1`: what it decided, the attribute tells.
                settings.suppose(effect.value.data, self._reader.truth(frame, Value(UNKNOWN, path=(*me, effect.slot))))
        return settings

    def _whole(self, signature: Signature, me: Path, cls: ClassInfo) -> Place:
        """Where the object is: where its constructor moved it, else wherever its owner puts it."""
        for effect in signature.effects:
            if effect.path == me and effect.slot == PLACE and effect.value.kind is not EITHER:
                place: Place = effect.value.place
                if place.off_host:
                    return place
        return Place("input", me)

    def _switch(self, cls: ClassInfo, name: str, slot: str, me: Path) -> Value:
        """What is on or off for good in an object that the constructor made and kept: `Adder(use_gpu=False)`, or a module in it."""
        constructor = cls.method("__init__")
        signature = self._reader.signature(constructor, None) if constructor is not None else None
        held = _held(signature, constructor, f".{name}") if signature is not None and constructor is not None else None
        if held is None or signature is None or cls.setters.get(name):
            return NOTHING
        made = [v for _, v in held.options() if v.kind is OBJECT]
        part = class_of(made[0]) if len(made) == 1 else None
        if part is None or made[0].cell is None or part.setters.get(slot[1:]):
            return NOTHING
        left = signature.cells.get(made[0].cell, {}).get(slot, NOTHING)
        if left.kind in MODULES:
            return self._seen(left, (*me, f".{name}", slot), me, cls, signature)
        switches = [v for _, v in left.options() if v != NOTHING]
        return switches[0] if len(switches) == 1 and isinstance(switches[0].data, bool) else NOTHING

    def made_at(self, cls: ClassInfo, path: Path) -> tuple[Cell | None, dict[str, Value]]:
        """What a module in an attribute is in the constructor that made it, and what it holds at its end."""
        cell = self._made.get((cls, _name_of(path)))
        constructor = cls.method("__init__")
        signature = self._reader.signature(constructor, None) if constructor is not None else None
        return cell, signature.cells.get(cell, {}) if signature is not None and cell is not None else {}

    def _contents(self, cls: ClassInfo, name: str, path: Path) -> Value:
        """What a list or a dict that the constructor made holds."""
        me = path[:1]
        held = self.attribute(cls, name, me)
        constructor = cls.method("__init__")
        signature = self._reader.signature(constructor, None) if constructor is not None else None
        cell = held.data if held.kind in (LIST, DICT) else self._made.get((cls, name))
        if signature is None or not isinstance(cell, Cell):
            return NOTHING
        contents = signature.cells.get(cell, {}).get(CONTENTS)
        if contents is None or cls.setters.get(name):
            return NOTHING

        def seen(found: Value) -> Value:
            parts = tuple(
                (self._plain_part if held.kind in (LIST, DICT) else self._seen)(
                    p, (*path, f"[{i}]"), me, cls, signature
                )
                for i, p in enumerate(found.parts)
                if isinstance(p, Value)
            )
            return found.but(parts=parts)

        return mapped(contents, seen, self._reader.atoms)

    def _plain_part(self, value: Value, path: Path, me: Path, cls: ClassInfo, signature: Signature) -> Value:
        """A part of a plain list: what stands in there doesn't move with the object."""
        seen = self._seen(value, path, me, cls, signature)
        if value.kind in MODULES and cls.may_register:
            # They may be registered beside the list.
            return NOTHING
        if value.kind in MODULES:
            held = signature.cells.get(value.cell, {}).get(PLACE) if value.cell is not None else None
            return mapped(held, lambda p: seen.but(place=p.place, step=p.step), self._reader.atoms) if held else NOTHING
        return seen


def _name_of(path: Path) -> str:
    """An attribute of `self`, or a part of one: `net`, `nets[0]`."""
    return "".join(map(str, path[1:]))[1:]


def _tensor_if_array(value: Value) -> Value:
    """What is an array or, by an option, a tensor made of it: on the host either way."""
    options = [option for _, option in value.options()]
    tensors = [o for o in options if o.kind is TENSOR and o.place == HOST]
    if len(tensors) == 1 and len(options) > 1 and all(o.kind is ARRAY for o in options if o is not tensors[0]):
        return tensors[0].but(likely=True, tags=tensors[0].tags | {OR_ARRAY})
    return value


def _is_some_device(value: Value) -> bool:
    return all(option.kind is DEVICE for _, option in value.options())


def _as_one(value: Value) -> Value:
    """A parameter that is made in one of several ways, as the one that it is in any case."""
    found = [leaf for _, leaf in value.options()]
    alike = all(o.kind is TENSOR and is_registered(o) and o.place == found[0].place for o in found)
    return found[0].but(rank=rank_of(value)) if len(found) > 1 and alike else value


def _held(signature: Signature, function: FunctionModel, slot: str) -> Value | None:
    if not function.parameters:
        return None
    me = (function.parameters[0].arg,)
    for effect in signature.effects:
        if effect.path == me and effect.slot == slot:
            return effect.value
    return None


def _is_helper_of(constructor: FunctionModel | None, method: FunctionModel) -> bool:
    """Whether a method seems to be called from the constructor: what it sets is there then."""
    return constructor is not None and f"self.{method.name}(" in constructor.text
