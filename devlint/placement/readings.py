"""The values of one file's expressions, as the signatures tell them, and what happens to objects along its scopes."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from typing import Literal, NamedTuple

from devlint.knowledge import canonical
from devlint.placement.classes import ClassModel
from devlint.placement.parts import Missing, has_state, wrapper_has
from devlint.placement.translated import Translator, wrapper_under
from devlint.placement.values import UNKNOWN, Happening, Step, Value, join, leaves, site_at
from devlint.signatures.reading import inputs
from devlint.signatures.reading.reader import Reader
from devlint.signatures.reading.recorded import Given, Recorder
from devlint.signatures.state import containers
from devlint.signatures.state.classes import ClassInfo
from devlint.signatures.state.frame import CONTENTS, Frame, Key
from devlint.signatures.state.objects import class_of
from devlint.signatures.values import values as signed
from devlint.source.kinds import Kind
from devlint.source.modules import FunctionModel, SourceModule

# Parts of modules are looked into this deep for parameters.
MAX_DEPTH = 6


_NO_CALL = ast.Call(ast.Name("supposed"), [], [])
# So many modules are looked at in one that is wrapped.
MAX_MODULES = 40
# Calls are looked into this deep for what happens to an object.
MAX_CALLS = 3


class Wrapping(NamedTuple):
    """A call that gives a wrapper: its value, that of the signatures, and what things that change in place hold then."""

    node: ast.Call
    wrapper: Value
    signed: signed.Value
    things: dict[Key, signed.Value]


class Readings:
    """What the scopes of one file that were read once more tell of its expressions."""

    def __init__(self, reader: Reader, source: SourceModule, loader_names: tuple[str, ...], *, hears: bool) -> None:
        """`hears`: whatever is read of the file is heard, not only what is asked for."""
        self.reader = reader
        self.source = source
        self.translator = Translator(self.class_model, loader_names)
        self._recorder: Recorder[Value] = Recorder(reader, self.translator.told, join, self._heard, self._called)
        # Calls that hand on what something happens to: they are looked into.
        self._inside: Recorder[Value] = Recorder(reader, self.translator.told, join, self._passing, self._called)
        self._handed: dict[tuple[ast.Call, FunctionModel], tuple[Given, int]] = {}
        self._looked_into: dict[ast.Call, set[FunctionModel]] = {}
        # How many calls lead to what is looked into.
        self._depth = 0
        # Whatever is read of the file from now on is heard.
        if hears:
            reader.recordings[source] = self._recorder
        self.callees = self._recorder.callees
        self.missing: dict[ast.Attribute, Missing] = {}
        self.happenings: dict[Happening, None] = {}
        self.wrappings: list[Wrapping] = []
        # Where wrappers were made that are given attributes under names that only the run knows.
        self._filled: set[str] = set()
        self._classes: dict[ast.ClassDef, ClassModel] = {}

    # -- reading ---------------------------------------------------------------------------------------------------

    def module(self) -> Frame:
        """Reads the top level of the file."""
        return self._recorder.module(self.source)

    def function(self, function: FunctionModel, outer: Frame | None, calls: list[Given]) -> Frame:
        """Reads a function, its parameters being what the calls give."""
        return self._recorder.function(function, outer, calls)

    def calls_of(self, function: FunctionModel) -> Iterator[Given]:
        """The calls of a function in the scopes that were read, by the name that it has here."""
        place = (function.source.path, function.node.lineno)
        for called, calls in list(self._recorder.calls.items()):
            if (called.source.path, called.node.lineno) == place:
                yield from calls

    def close(self) -> None:
        """Hears no more, and forgets."""
        self._recorder.forget()
        self.reader.recordings.pop(self.source, None)
        # It and its parts refer to each other.
        vars(self).clear()

    # -- what happens ----------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """What an expression is."""
        return self._recorder.value(node) or UNKNOWN

    def _heard(self, frame: Frame, node: ast.expr, value: signed.Value) -> None:
        """Hears of an expression of a scope of the file."""
        match node:
            case ast.Attribute(ctx=ast.Load()):
                self._look_for_attribute(frame, node)
            case ast.Call():
                self._look_at_call(frame, node, self._recorder)
                self._look_at_wrapping(frame, node, value)

    def _passing(self, frame: Frame, node: ast.expr, value: signed.Value) -> None:
        """Hears of an expression of a function that is looked into, for one call of it."""
        if isinstance(node, ast.Call):
            self._look_at_call(frame, node, self._inside)

    def _called(self, frame: Frame, node: ast.Call, function: FunctionModel, call: Given) -> None:
        """Looks into a function that is given a state dict or a wrapper, for what happens to that."""
        if self._depth < MAX_CALLS and any(
            self._may_happen(call, option) for v in call.values.values() for _, option in v.options()
        ):
            self._handed[node, function] = call, self._depth

    def _may_happen(self, call: Given, value: signed.Value) -> bool:
        """Whether something may be done to a value of which somebody asks: a wrapper, or what holds a state dict."""
        if value.kind is signed.WRAPPER or (
            isinstance(value.data, signed.Made) and value.data.name == signed.STATE_DICT
        ):
            return True
        held = (
            call.things.get((value.cell, CONTENTS), signed.NOTHING)
            if value.kind in (signed.DICT, signed.LIST)
            else value
        )
        parts = held.parts if held.kind in (containers.ITEMS, signed.TUPLE) else ()
        return any(self._may_happen(call, option) for part in parts for _, option in part.options())

    def _look_into_calls(self) -> None:
        """Reads the functions that things were handed to, for what they do to them."""
        while self._handed:
            (_, function), (call, depth) = self._handed.popitem()
            if function not in self._looked_into.setdefault(call.node, set()) and self.reader.follows(
                call.source, function
            ):
                self._looked_into[call.node].add(function)
                self._depth = depth + 1
                self._inside.function(function, None, [call])
        self._depth = 0

    def _look_for_attribute(self, frame: Frame, node: ast.Attribute) -> None:
        """Remembers a read of an attribute that a wrapper hasn't got."""
        if frame.unreached:
            # A test has asked what it is.
            return
        untold = self._recorder.untold(node.value)
        if not self._recorder.may_change(node.value) or (untold is not None and not _may_wrap(untold)):
            self.missing.pop(node, None)
            return
        options = [v for _, v in self.value(node.value).alternatives()]
        for option in options:
            if option.kind is not Kind.WRAPPER or option.site in self._filled:
                continue
            if wrapper_has(option, node.attr) is False and not self._was_set(frame, option, node.attr):
                self.missing[node] = Missing(option, len(options) > 1)
                return
        self.missing.pop(node, None)

    def _was_set(self, frame: Frame, wrapper: Value, name: str) -> bool:
        """Whether an attribute of a wrapper was set before it is read."""
        return any(
            isinstance(key, tuple)
            and len(key) == 2
            and key[1] == f".{name}"
            and isinstance(key[0], signed.Cell)
            and self.translator.site_of(key[0]) == wrapper.site
            for key in frame.env
        )

    def _look_at_call(self, frame: Frame, node: ast.Call, recorder: Recorder[Value]) -> None:
        """Remembers what a call does to an object."""
        if not recorder.may_change(node.func) and not _is_called(node, "save", "setattr"):
            return
        untold = recorder.untold(node.func)
        if untold is not None and not (_may_wrap(untold) or _may_refer(untold)):
            return
        callee = [v for _, v in (recorder.value(node.func) or UNKNOWN).alternatives()]
        if callee[0].kind is Kind.WRAPPER and len({v.place for v in callee}) == 1:
            for option in callee:
                self._happened("called", option, "called here", frame, node)
        elif callee[0].kind is Kind.REFERENCE:
            name = canonical(callee[0].name)
            given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "obj")]
            if name == "torch.save":
                told = (recorder.value(given[0]) or UNKNOWN) if given else UNKNOWN
                before = _put_in(frame, given[0]) if told.kind is Kind.MAPPING and told.keys is None else ()
                for value in (told, *(recorder.value(part) or UNKNOWN for part in before)):
                    for leaf in leaves(value):
                        if leaf.kind is Kind.STATE_DICT:
                            self._happened("saved", leaf, "saved here", frame, node)
            elif name == "builtins.setattr" and len(node.args) > 1 and not isinstance(node.args[1], ast.Constant):
                self._filled |= {v.site for _, v in (recorder.value(node.args[0]) or UNKNOWN).alternatives()}

    def _look_at_wrapping(self, frame: Frame, node: ast.Call, value: signed.Value) -> None:
        if any(v.kind is signed.WRAPPER for _, v in value.options()):
            things: dict[Key, signed.Value] = {k: v for k, v in frame.env.items() if isinstance(k, tuple)}
            self.wrappings += [
                Wrapping(node, told, option, things)
                for _, option in value.options()
                for _, told in self.translator.value(frame, option).alternatives()
            ]

    def _happened(
        self, what: Literal["saved", "called"], to: Value, message: str, frame: Frame, node: ast.Call
    ) -> None:
        step = Step(message, frame.source.path, node.lineno, node.col_offset)
        self.happenings[Happening(what, to.site, to.place, step)] = None

    def happened(self, what: str, node: ast.Call) -> list[Happening]:
        """What was done to the object that a call makes."""
        self._look_into_calls()
        site = site_at(self.source.path, node)
        return [h for h in self.happenings if h.what == what and h.site == site]

    def modules_in(self, wrapping: Wrapping) -> Iterator[signed.Value]:
        """What a wrapper wraps, and the parts of it that are known, those of the project's own classes."""
        held_by: dict[Hashable, list[tuple[Hashable, signed.Value]]] = {}
        for key, held in wrapping.things.items():
            if isinstance(key, tuple) and len(key) == 2:
                held_by.setdefault(key[0], []).append((key[1], held))
        waiting = list(wrapping.signed.parts)
        seen: list[signed.Value] = []
        while waiting and len(seen) < MAX_MODULES:
            for _, module in waiting.pop(0).options():
                if module.kind is not signed.MODULE or module in seen:
                    continue
                seen.append(module)
                if class_of(module) is not None:
                    yield module
                for slot, held in held_by.get(module.identity, ()):
                    if str(slot).startswith("."):
                        waiting.append(held)
                    elif slot == CONTENTS:
                        waiting += [part for _, option in held.options() for part in option.parts]

    def supposing(self, function: FunctionModel, me: signed.Value, things: dict[Key, signed.Value]) -> Recorder[Value]:
        """What the expressions of a method are for one object."""
        inside = Recorder(self.reader, self.translator.told, join)
        inside.function(function, None, [Given(_NO_CALL, function.source, {}, things)], me)
        return inside

    # -- names and classes -----------------------------------------------------------------------------------------

    def global_value(self, name: str) -> Value:
        """What a top-level name of the file stands for."""
        frame = self.reader.module(self.source) or Frame(self.reader, self.source)
        return self.translator.value(frame, self.reader.names.global_value(self.source, name))

    def class_model(self, cls: ClassInfo) -> ClassModel:
        """The class of a definition, as rules know it."""
        known = self._classes.get(cls.node)
        if known is None:
            known = self._classes[cls.node] = ClassModel(cls.node, cls.source)
            bases = [
                self.class_model(b.data) if b.kind == "class" else canonical(b.data) if b.kind == "reference" else ""
                for b in cls.bases
            ]
            known.bases = tuple(b for b in bases if b is not known)
        return known

    def known_classes(self) -> list[ClassModel]:
        """The classes of the file that were met by now."""
        return [
            self.class_model(self.reader.class_info(self.source, node))
            for node in ast.walk(self.source.tree)
            if isinstance(node, ast.ClassDef)
        ]

    def held(self, cls: ClassModel, attribute: str) -> Value:
        """What the methods of a class put into an attribute of its objects."""
        info = self.reader.class_info(cls.source, cls.node)
        inside = self._method_of(info)
        if inside is None:
            return UNKNOWN
        frame, me = inside
        return self.translator.value(frame, self.reader.views.attribute(info, attribute, me))

    def _method_of(self, cls: ClassInfo) -> tuple[Frame, signed.Path] | None:
        """The beginning of a method of a class, and its object there."""
        method = next((m for m in cls.methods() if m.parameters and not m.is_static), None)
        if method is None:
            return None
        frame = Frame(self.reader, method.source, method)
        inputs.enter(frame, method, self.reader.annotations)
        me = frame.env[method.parameters[0].arg]
        return (frame, me.path) if me.path is not None else None

    def holds_state(self, module: Value, depth: int = 0) -> bool:
        """Whether a module surely has parameters or buffers, of its own or in its parts."""
        if depth > MAX_DEPTH:
            return False
        parts = [*(module.elements or ()), *(v for v in (module.each, module.inner) if v is not None)]
        if module.cls is not None:
            if any(has_state(base) for base in module.cls.outside_bases):
                return True
            names = {name for c in module.cls.project_lineage() for name in c.assigned_in}
            parts += [self.held(module.cls, name) for name in sorted(names)]
        elif has_state(module.name):
            return True
        options = [option for part in parts for _, option in part.alternatives()]
        return any(v.kind is Kind.PARAMETER or (v.is_module and self.holds_state(v, depth + 1)) for v in options)

    def gives_batches(self, value: Value) -> bool:
        """Whether iterating an object of the project gives a loader's batches: a prefetcher, a loader of its own."""
        if value.cls is None:
            return False
        info = self.reader.class_info(value.cls.source, value.cls.node)
        frame = Frame(self.reader, self.source)
        each = containers.element(frame, signed.Value(signed.OBJECT, data=info, cell=signed.Cell(("iterated",))))
        return any(option.kind is signed.BATCH for _, option in signed.leaves(each, frame.atoms))


def _may_wrap(value: signed.Value) -> bool:
    """Whether rules will know a value as a wrapper; told before it is put into their words."""
    return any(map(_is_wrapper, (option for _, option in value.options())))


def _is_wrapper(option: signed.Value) -> bool:
    if option.kind in (signed.MODULE, signed.OBJECT):
        cls = class_of(option)
        return cls is not None and wrapper_under(cls) is not None
    return option.kind == signed.WRAPPER


def _may_refer(value: signed.Value) -> bool:
    return any(option.kind == signed.REFERENCE for _, option in value.options())


def _put_in(frame: Frame, saved: ast.expr) -> Iterator[ast.expr]:
    """What the dict has that a name is bound to, where something was put in since of which nothing is known.

    What is put under the same keys takes its place.
    """
    function = frame.function
    bound = function.assigned.get(saved.id, ()) if function is not None and isinstance(saved, ast.Name) else ()
    if function is None or len(bound) != 1 or not isinstance(bound[0], ast.Dict):
        return
    name = ast.unparse(saved)
    put = [n.slice for n in function.nodes if isinstance(n, ast.Subscript) and ast.unparse(n.value) == name]
    if all(isinstance(key, ast.Constant) for key in put):
        later = {key.value for key in put if isinstance(key, ast.Constant)}
        table = bound[0]
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and key.value not in later:
                yield value


def _is_called(node: ast.Call, *names: str) -> bool:
    """Whether a call is one of something of these names, or of an alias."""
    func = node.func
    return (func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else "") in names
