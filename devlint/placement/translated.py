"""What the signatures know of a value, in the words that rules are answered in."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from fnmatch import fnmatchcase

from devlint.knowledge import ecosystem, torch_knowledge
from devlint.knowledge.metrics import is_metric
from devlint.placement.classes import ClassModel
from devlint.placement.values import (
    BUFFER,
    DEVICE_CLASS,
    GATHERED,
    HOST,
    ITEM,
    NONE,
    NOWHERE,
    OVER_LOADER,
    SCALAR,
    UNKNOWN,
    Guard,
    Guards,
    Place,
    Sort,
    Step,
    Value,
    accelerator,
    constant,
    either,
    mapping,
    mapping_of,
    reference,
    replace,
    same_as,
    sequence,
    sequence_of,
    with_parts,
)
from devlint.regexes import regex
from devlint.signatures.answers.operands import spelt
from devlint.signatures.libraries.frameworks import PREPARED
from devlint.signatures.libraries.metrics import OPTIONS
from devlint.signatures.state import containers
from devlint.signatures.state.classes import ClassInfo
from devlint.signatures.state.frame import PLACE, Frame
from devlint.signatures.state.objects import COMPUTED, FRAMEWORK, PARAMETER, REGISTERED, class_of, place_of
from devlint.signatures.values import values as signed
from devlint.signatures.values.conditions import Condition
from devlint.source.kinds import Kind

# Containers are looked into this deep.
MAX_DEPTH = 3


class Translator:
    """Tells the values of one file's expressions."""

    def __init__(self, class_model: Callable[[ClassInfo], ClassModel], loader_names: tuple[str, ...]) -> None:
        self._class_model = class_model
        self._loader_names = loader_names

    def told(self, frame: Frame, node: ast.expr, value: signed.Value) -> Value:
        """What an expression is, at the point that a scope has come to."""
        found = self.value(frame, value)
        if isinstance(node, ast.Name):
            return either((guards, self._by_evidence(frame, node.id, v)) for guards, v in found.alternatives())
        return found

    @staticmethod
    def site_of(cell: signed.Cell) -> str:
        """Where something that changes in place was made."""
        return site_text(cell.site)

    def _by_evidence(self, frame: Frame, name: str, value: Value) -> Value:
        """A value, one of unknown kind taken for what its use or its name makes it."""
        if value.kind is not Kind.UNKNOWN:
            return value
        kind = (frame.function or frame.source).evidence.get(name)
        if kind is not None:
            return replace(value, kind=kind, likely=True)
        if value.place.sort is Sort.UNKNOWN and any(fnmatchcase(name, p) for p in self._loader_names):
            return Value(Kind.LOADER, likely=True, name=name)
        return value

    def value(self, frame: Frame, value: signed.Value, depth: int = MAX_DEPTH) -> Value:
        """A value of the signatures."""
        if value.kind is signed.EITHER:
            met = [(c, v) for c, v in value.parts if frame.atoms.may_meet(c, frame.path)]
            return either((_guards(frame, c), self.value(frame, v, depth)) for c, v in met or value.parts)
        tell = _TELLING.get(value.kind)
        return tell(self, frame, value, depth) if tell is not None else UNKNOWN

    # -- kinds -----------------------------------------------------------------------------------------------------

    def _tensor(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        registered = REGISTERED in value.tags
        kind = Kind.PARAMETER if registered or PARAMETER in value.tags else Kind.TENSOR
        return Value(
            kind,
            _place(frame, value),
            BUFFER if signed.BUFFER in value.tags else GATHERED if signed.GATHERED in value.tags else "",
            likely=value.likely,
            ranked=value.rank == signed.RANKED,
            trail=_trail(value.step),
        )

    def _batch(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        return Value(
            Kind.BATCH,
            _place(frame, value),
            ITEM if value.data == "item" else "",
            likely=True,
            ranked=value.rank == signed.RANKED,
            trail=_trail(value.step),
            pinned=_pinned(value),
        )

    def _module(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        cls = class_of(value)
        if cls is not None and (wrapping := wrapper_under(cls)):
            return Value(
                Kind.WRAPPER,
                name=wrapping,
                cls=self._class_model(cls),
                inner=Value(Kind.MODULE, likely=True),
                site=_site(frame, value),
            )
        at = place_of(frame, value)
        found = either((_guards(frame, c), self._module_at(frame, value, cls, p)) for c, p in at.options())
        if isinstance(value.data, str) and is_metric(value.data) and (options := _options(frame, value)) is not None:
            given = [self.value(frame, option, 1) for option in options.parts]
            return with_parts(found, lambda v: replace(v, keys=options.data, elements=tuple(given)))
        contents = containers.contents_of(frame, value) if depth and value.identity is not None else None
        if contents is None or found.kind is Kind.EITHER:
            return found
        held = self._contents(frame, contents, depth - 1)
        return replace(found, elements=held.elements, each=held.each, depth=held.depth)

    def _module_at(self, frame: Frame, value: signed.Value, cls: ClassInfo | None, at: signed.Value) -> Value:
        return Value(
            Kind.MODULE,
            _place(frame, at),
            value.data if isinstance(value.data, str) and value.data != "torch.nn.Module" else "",
            likely=value.likely or at.likely,
            cls=self._class_model(cls) if cls is not None else None,
            site=_site(frame, value),
            trail=_trail(at.step or value.step),
        )

    def _wrapper(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        inner = self.value(frame, value.parts[0], depth) if value.parts else UNKNOWN
        if inner.kind is Kind.UNKNOWN:
            inner = replace(inner, kind=Kind.MODULE, likely=True)
        ids = frame.slot(value, ".device_ids")
        told = self.value(frame, ids, 2) if ids is not None else UNKNOWN
        step = _trail(value.step)[-1:]
        options = [
            (
                guards,
                Value(
                    Kind.WRAPPER, one.place, value.data if isinstance(value.data, str) else "", likely=value.likely, inner=one,
                    site=_site(frame, value), keys=("device_ids",), elements=(told,), depth=told.depth + 1, trail=(*one.trail, *step),
                ),
            )
            for guards, one in inner.alternatives()
        ]  # fmt: skip
        return either(options)

    def _object(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        cls = class_of(value)
        if cls is None:
            return UNKNOWN
        knowledge = torch_knowledge()
        model = self._class_model(cls)
        if wrapper_under(cls):
            return self._module(frame, value, depth)
        for base in cls.outside_bases:
            for kind, names in (
                (Kind.OPTIMIZER, knowledge.optimizers),
                (Kind.SCHEDULER, knowledge.schedulers),
                (Kind.LOADER, knowledge.loaders),
            ):
                if base in names:
                    return Value(kind, cls=model)
        unknown_bases = [b for b in cls.outside_bases if b not in ecosystem.PLAIN_BASES]
        if unknown_bases and cls.method("forward") is not None:
            return Value(Kind.MODULE, cls=model, site=_site(frame, value))
        return Value(Kind.OBJECT, cls=model, site=_site(frame, value))

    def _loader(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        return Value(
            Kind.LOADER,
            _place(frame, value),
            "torch.utils.data.DataLoader" if value.step is not None else "",
            likely=value.likely and not value.tags >= signed.DECLARED,
            trail=_trail(value.step),
            pinned=_pinned(value),
        )

    def _device(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        name = DEVICE_CLASS if value.tags >= signed.DEVICE_OBJECT else ""
        return Value(Kind.DEVICE, _place(frame, value), name, likely=value.likely, trail=_trail(value.step))

    def _device_type(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        return Value(Kind.DEVICE, _place(frame, value), "", likely=value.likely, trail=_trail(value.step))

    def _generator(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        return Value(
            Kind.OBJECT, _place(frame, value), "torch.Generator", likely=value.likely, trail=_trail(value.step)
        )

    def _framework(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        return Value(Kind.OBJECT, _place(frame, value), str(value.data), likely=True)

    def _array(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        return Value(Kind.NDARRAY, HOST)

    def _scalar(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        return SCALAR

    def _constant(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        return NONE if value.data is None else constant(value.data)

    def _reference(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        return reference(str(value.data))

    def _class(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        cls = value.data
        return Value(Kind.CLASS, cls=self._class_model(cls), name=cls.name) if cls is not None else UNKNOWN

    def _function(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        return Value(Kind.FUNCTION, function=value.data[0]) if value.data is not None else Value(Kind.FUNCTION)

    def _method(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        if isinstance(value.data, str) or not depth:
            return UNKNOWN
        return Value(Kind.FUNCTION, function=value.data, inner=self.value(frame, value.parts[0], 0))

    def _tuple(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        return sequence((self.value(frame, part, depth - 1) for part in value.parts), "tuple") if depth else UNKNOWN

    def _list(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        contents = containers.contents_of(frame, value) if depth else None
        if contents is None:
            return sequence_of(UNKNOWN)
        found = self._contents(frame, contents, depth - 1)
        return found if found.kind is Kind.SEQUENCE else sequence_of(UNKNOWN)

    def _dict(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        contents = containers.contents_of(frame, value) if depth else None
        if contents is None:
            return mapping_of(UNKNOWN)
        found = self._contents(frame, contents, depth - 1)
        if found.kind is Kind.MAPPING:
            return found
        return mapping_of(found.each or UNKNOWN) if found.kind is Kind.SEQUENCE else mapping_of(UNKNOWN)

    def _contents(self, frame: Frame, contents: signed.Value, depth: int) -> Value:
        """What a list or a dict holds, as a sequence or a mapping."""
        if contents.kind is signed.TUPLE:
            return sequence(self.value(frame, part, depth) for part in contents.parts)
        if contents.kind is containers.ITEMS:
            parts = [self.value(frame, part, depth) for part in contents.parts]
            if all(isinstance(key, str) for key in contents.data):
                return mapping(contents.data, parts)
            return mapping_of(either((frozenset(), part) for part in parts))
        if contents.kind is containers.EACH:
            each = contents.parts[0]
            made = sequence_of(self.value(frame, each, depth) if each is not signed.NEVER else UNKNOWN)
            items = [o for _, o in signed.leaves(each, frame.atoms) if o.kind is signed.BATCH and o.data == "item"]
            if items:
                return replace(made, name=OVER_LOADER, likely=all(o.step is None for o in items))
            return made
        return sequence_of(UNKNOWN)

    def _unknown(self, frame: Frame, value: signed.Value, depth: int) -> Value:
        if isinstance(value.data, signed.Made):
            return self._made(frame, value.data, depth)
        kind = Kind.UNKNOWN
        path = value.path or (value.data if isinstance(value.data, tuple) else None)
        if value.tags >= COMPUTED:
            # What a method that only tensors have gives is one.
            kind = Kind.BATCH if value.path is not None else Kind.TENSOR
        elif path is not None and path in frame.tensors:
            kind = Kind.TENSOR
        name = GATHERED if signed.GATHERED in value.tags else ""
        place = _place(frame, value)
        is_guess = kind is not Kind.UNKNOWN or place != NOWHERE
        return Value(kind, place, name, likely=is_guess, trail=_trail(value.step))

    def _made(self, frame: Frame, made: signed.Made, depth: int) -> Value:
        if made.name == signed.STATE_DICT and made.of is not None:
            inner = self.value(frame, made.of, depth - 1 if depth else 0)
            options = inner.alternatives()
            return either(
                (g, Value(Kind.STATE_DICT, v.place, inner=v, site=site_text(made.site), trail=v.trail))
                for g, v in options
            )
        knowledge = torch_knowledge()
        if made.name in knowledge.optimizers:
            return Value(Kind.OPTIMIZER, name=made.name)
        if made.name in knowledge.schedulers:
            return Value(Kind.SCHEDULER, name=made.name)
        if made.name in knowledge.loaders:
            return Value(Kind.LOADER, name=made.name)
        return Value(Kind.OBJECT, name=_OBJECTS.get(made.name, made.name))


_OBJECTS = {"wandb.init": ecosystem.WANDB_RUN, "tempfile.TemporaryFile": "io.BytesIO"}

_TELLING: dict[str, Callable[[Translator, Frame, signed.Value, int], Value]] = {
    signed.TENSOR: Translator._tensor,
    signed.BATCH: Translator._batch,
    signed.MODULE: Translator._module,
    signed.WRAPPER: Translator._wrapper,
    signed.OBJECT: Translator._object,
    signed.LOADER: Translator._loader,
    signed.DEVICE: Translator._device,
    "device type": Translator._device_type,
    signed.GENERATOR: Translator._generator,
    FRAMEWORK: Translator._framework,
    signed.ARRAY: Translator._array,
    **dict.fromkeys((signed.NUMBER, signed.OUTCOME, "count", "type name"), Translator._scalar),
    "range": lambda self, frame, value, depth: sequence_of(SCALAR),
    signed.CONSTANT: Translator._constant,
    signed.REFERENCE: Translator._reference,
    signed.CLASS: Translator._class,
    signed.FUNCTION: Translator._function,
    signed.METHOD: Translator._method,
    signed.TUPLE: Translator._tuple,
    signed.LIST: Translator._list,
    signed.DICT: Translator._dict,
    signed.UNKNOWN: Translator._unknown,
}


def wrapper_under(cls: ClassInfo) -> str | None:
    """The wrapper that a class is derived from."""
    return next((base for base in cls.outside_bases if base in torch_knowledge().wrappers), None)


def _place(frame: Frame, value: signed.Value) -> Place:
    place = value.place
    match place.sort:
        case "host":
            return HOST
        case "accelerator":
            return accelerator(str(place.name))
        case "told":
            return _same_as(spelt(frame, place.name))
        case "input":
            around = (frame.get((place.name[:n], PLACE)) for n in range(len(place.name), 0, -1))
            moved = next((at for at in around if at is not None and at.kind is not signed.EITHER), None)
            if moved is not None and moved.place != place:
                return _place(frame, moved)
            is_asked = value.kind is signed.DEVICE or (
                frame.function is not None and frame.function.cls is not None and frame.function.name == "forward"
            )
            return _same_as(place.name) if is_asked else NOWHERE
    return NOWHERE


def _same_as(path: signed.Path) -> Place:
    """Where an input of the function is, as code spells it."""
    text = signed.text_of(path)
    return same_as(text) if _PATH.fullmatch(text) else NOWHERE


_PATH = regex(r"""[^\W\d]\w*(?:\.[^\W\d]\w*|\[(?:-?\d+|'[^'\\]*'|"[^"\\]*")\])*""")


def _trail(step: signed.Step | None) -> tuple[Step, ...]:
    return tuple(Step(s.message, s.path, s.line, s.column, s.of_module) for s in signed.steps_to(step))


def _pinned(value: signed.Value) -> bool | None:
    if value.tags >= signed.PINNED:
        return True
    return False if value.tags >= signed.UNPINNED else None


def _options(frame: Frame, metric: signed.Value) -> signed.Value | None:
    """The options that a metric was made with."""
    found = frame.slot(metric, OPTIONS)
    me = frame.reader.self_of(frame) if found is None and metric.path is not None else None
    cls = class_of(me) if me is not None else None
    if cls is not None and metric.path is not None:
        found = frame.reader.made_at(cls, metric.path)[1].get(OPTIONS)
    # Made in one branch only, it may have others.
    return found if found is not None and found.kind is containers.ITEMS else None


def _site(frame: Frame, value: signed.Value) -> str:
    """The identity of something that changes in place: where it was made."""
    if value.identity is not None and (value.identity, PREPARED) in frame.env:
        # What a framework gave back may be another one.
        return ""
    if value.cell is not None:
        return site_text(value.cell.site)
    me = frame.reader.self_of(frame) if value.path is not None else None
    if me is None or value.path is None or me.path != value.path[:1]:
        return ""
    if len(value.path) == 1:
        return "self"
    cls = class_of(me)
    made = frame.reader.made_at(cls, value.path)[0] if cls is not None else None
    return site_text(made.site) if made is not None else ""


def site_text(site: Hashable) -> str:
    while isinstance(site, tuple) and len(site) == 2:
        # Another call's copy of it.
        site = site[0]
    return ":".join(map(str, site)) if isinstance(site, tuple) else ""


def _guards(frame: Frame, condition: Condition) -> Guards:
    """A condition, as far as it is one way through some tests."""
    if len(condition) != 1:
        return frozenset()
    (clause,) = condition
    return frozenset(Guard(f"{_text(frame, frame.atoms.atom(x).key)}@{abs(x)}", x > 0) for x in clause)


def _text(frame: Frame, key: Hashable) -> str:
    """A test, as the reader wrote it, where that can be told; else ""."""
    match key:
        case ("true", asked):
            return _written(frame, asked)
        case ("none", asked):
            return f"{asked} is None" if (asked := _written(frame, asked)) else ""
        case ("isinstance", asked, tuple() as types):
            parts = [_written(frame, asked), *(_written(frame, t) for t in types)]
            return f"isinstance({', '.join(parts)})" if all(parts) else ""
        case ("has", asked, str() as name):
            return f'hasattr({asked}, "{name}")' if (asked := _written(frame, asked)) else ""
        case (str() as sign, left, right) if sign in _SIGNS:
            parts = [_written(frame, left), _written(frame, right)]
            return f" {_SIGNS[sign]} ".join(parts) if all(parts) else ""
    return ""


_SIGNS = {"==": "==", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "In": "in"}


def _written(frame: Frame, asked: Hashable) -> str:
    """What a test asks about, as it is written; "" where that isn't known."""
    if isinstance(asked, tuple):
        return signed.text_of(spelt(frame, asked))
    if not isinstance(asked, signed.Value):
        return ""
    match asked.kind, asked.data:
        case signed.CONSTANT, constant:
            return repr(constant)
        case "count", _:
            return "torch.cuda.device_count()"
        case signed.REFERENCE, str() as name:
            return name.rsplit(".", 1)[-1]
        case signed.NUMBER, str() as name:
            return name
    return ""
