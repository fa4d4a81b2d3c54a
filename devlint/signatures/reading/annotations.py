"""Annotations, defaults and names: what they say of an input, or of what a function gives."""

from __future__ import annotations

import ast

from devlint.knowledge import canonical, ecosystem, torch_knowledge
from devlint.signatures.libraries.devices import CUDA, parse_place
from devlint.signatures.libraries.frameworks import FRAMEWORKS
from devlint.signatures.state.frame import Frame, Reading
from devlint.signatures.state.objects import FRAMEWORK
from devlint.signatures.values.values import (
    ARRAY,
    CLASS,
    DECLARED,
    DEVICE,
    HOST,
    LOADER,
    MODULE,
    NUMBER,
    OBJECT,
    REFERENCE,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    WRAPPER,
    Made,
    Parts,
    Path,
    Place,
    Value,
)
from devlint.source.devices import MOVES, is_device_name
from devlint.source.modules import FunctionModel, SourceModule, last_name

_NUMBERS = frozenset(f"builtins.{n}" for n in ("int", "float", "bool", "str", "bytes", "complex"))
# What tells how tensors are made, and is none.
_TELLING = frozenset({"torch.dtype", "torch.Size", "torch.layout", "torch.memory_format"})


class Annotations:
    """Reads annotations with one reader's knowledge of names."""

    def __init__(self, reader: Reading) -> None:
        self._reader = reader

    def input(self, frame: Frame, argument: ast.arg, path: Path) -> Value:
        """A parameter, by its annotation, its default and its name."""
        place = Place("input", path)
        told = self.typed(frame, argument.annotation)
        name = argument.arg
        default = frame.function.defaults.get(name) if frame.function is not None else None
        if told is not None and told.kind is ARRAY and _takes_for_tensor(frame.function, name):
            told = None
        if told is not None and told.kind is TENSOR and _is_number(default):
            # `temperature: Tensor = 1.0`: who leaves it out gives a number.
            return Value(UNKNOWN, place, path=path)
        if told is not None and told.kind is not UNKNOWN:
            if told.kind is DEVICE:
                return told.but(place=Place("told", path), path=path)
            if told.kind is NUMBER and _names_device(name, default):
                return Value(DEVICE, Place("told", path), path=path)
            if told.kind is LOADER:
                return told.but(likely=True, path=path)
            if told.kind is FRAMEWORK:
                return told.but(likely=True)
            if told.kind in (ARRAY,):
                return told.but(path=path)
            if told.kind is TUPLE:
                return Value(UNKNOWN, place, path=path)
            return told.but(place=place, path=path)
        if told is None and _is_tensor_or_array(argument.annotation):
            frame.either_array.add(path)
        if told is not None and isinstance(told.data, (Parts, Made)):
            return told.but(place=place, path=path)
        if _names_device(name, default):
            return Value(DEVICE, Place("told", path), path=path)
        if name == "dtype":
            return Value(NUMBER, path=path)
        if isinstance(default, ast.Constant) and isinstance(default.value, (bool, int, float, str)):
            return Value(NUMBER, path=path)
        return Value(UNKNOWN, place, path=path)

    def refined(self, frame: Frame, value: Value, annotation: ast.expr | None) -> Value:
        """A value of unknown kind, with the kind that an annotation tells."""
        if annotation is None or value.kind is not UNKNOWN:
            return value
        told = self.typed(frame, annotation)
        if told is None or told.kind not in (TENSOR, NUMBER, ARRAY, MODULE, OBJECT):
            return value
        if told.kind is TENSOR:
            return Value(TENSOR, value.place, path=value.path, likely=True, step=value.step)
        return told.but(path=value.path) if value.path is not None else told

    def typed(self, frame: Frame, annotation: ast.expr | None) -> Value | None:
        """A value of the kind that an annotation names; None where it says nothing."""
        match annotation:
            case None:
                return None
            case ast.Constant(value=str() as text):
                try:
                    return self.typed(frame, ast.parse(text, mode="eval").body)
                except SyntaxError:
                    return None
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._union(frame, [left, right])
            case ast.Subscript(value=generic, slice=arguments):
                return self._generic(frame, generic, arguments)
            case ast.Name() | ast.Attribute():
                return self._named(frame, self._reader.static_value(frame.source, annotation))
        return None

    def _union(self, frame: Frame, parts: list[ast.expr]) -> Value | None:
        real = [p for p in parts if not (isinstance(p, ast.Constant) and p.value is None)]
        told = [self.typed(frame, p) for p in real]
        if len(real) == 1:
            return told[0]
        kinds = {t.kind for t in told if t is not None}
        if None not in told and kinds == {NUMBER}:
            return Value(NUMBER)
        return Value(DEVICE) if DEVICE in kinds else None

    def _generic(self, frame: Frame, generic: ast.expr, arguments: ast.expr) -> Value | None:
        name = ast.unparse(generic).rsplit(".", 1)[-1]
        parts = arguments.elts if isinstance(arguments, ast.Tuple) else [arguments]
        match name:
            case "Optional" | "Final" | "ClassVar" | "Annotated":
                return self.typed(frame, parts[0])
            case "Union":
                return self._union(frame, parts)
            case "Float" | "Int" | "Bool" | "Shaped" | "Num" | "Integer" | "Real":
                first = self.typed(frame, parts[0])
                return first if first is not None and first.kind is TENSOR else None
            case "DataLoader":
                return loader_of(frame.source)
            case "List" | "list" | "Tuple" | "tuple" | "Sequence" | "Iterable":
                told = [self.typed(frame, p) for p in parts if not (isinstance(p, ast.Constant) and p.value is ...)]
                if told and all(t is not None and t.kind is NUMBER for t in told):
                    # Numbers, however many.
                    return Value(NUMBER)
                if name.lower() == "tuple" and len(told) == len(parts):
                    return Value(UNKNOWN, data=Parts(positions=tuple(told)))
                return Value(UNKNOWN, data=Parts(told[0])) if told and told[0] is not None else None
            case "Dict" | "dict" | "Mapping" | "MutableMapping" | "OrderedDict" | "defaultdict" if len(parts) == 2:
                held = self.typed(frame, parts[1])
                return Value(UNKNOWN, data=Parts(held)) if held is not None and held.kind is not NUMBER else None
        return None

    def _named(self, frame: Frame, type_value: Value) -> Value | None:
        if type_value.kind is CLASS:
            cls = type_value.data
            if any(name in ecosystem.TENSOR_TYPES for name in cls.outside_bases):
                # One with moves of its own may do anything there.
                return Value(TENSOR) if not any(cls.method(move) for move in MOVES) else None
            return Value(MODULE if cls.is_module else OBJECT, data=cls)
        if type_value.kind is not REFERENCE:
            return None
        name = canonical(type_value.data)
        if name in ecosystem.TENSOR_TYPES or name == "torch.nn.Parameter":
            return Value(TENSOR)
        if name == "torch.device":
            return Value(DEVICE)
        if name == "numpy.ndarray":
            return Value(ARRAY, HOST)
        if name in _NUMBERS or name in _TELLING:
            return Value(NUMBER)
        if name in torch_knowledge().modules:
            return Value(MODULE, data=name)
        if name in torch_knowledge().loaders:
            return loader_of(frame.source)
        if name in torch_knowledge().wrappers:
            return Value(WRAPPER, data=name)
        if name in torch_knowledge().optimizers or name in torch_knowledge().schedulers:
            return Value(UNKNOWN, data=Made(name, name))
        if name in FRAMEWORKS:
            return Value(FRAMEWORK, CUDA, data=name, likely=True)
        return None


def loader_of(source: SourceModule) -> Value:
    """A loader that a function is given: its batches are on the host, unless a framework may move them."""
    moves = not source.imported_packages.isdisjoint(ecosystem.MOVING_FRAMEWORKS)
    return Value(LOADER, UNKNOWN_PLACE if moves else HOST, likely=True, tags=DECLARED)


def _is_tensor_or_array(annotation: ast.expr | None) -> bool:
    """`Union[torch.Tensor, np.ndarray]`."""
    match annotation:
        case ast.Subscript(value=generic, slice=ast.Tuple(elts=parts)) if ast.unparse(generic).endswith("Union"):
            pass
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            parts = [left, right]
        case _:
            return False
    names = {ast.unparse(p).rsplit(".", 1)[-1] for p in parts}
    return "ndarray" in names and all(n == "ndarray" or n.endswith("Tensor") for n in names) and len(names) > 1


def _is_number(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)


def _names_device(name: str, default: ast.expr | None) -> bool:
    """Whether a parameter is a device, by its name or its default: `device`, `where="cuda:0"`."""
    if is_device_name(ast.Name(name)):
        return True
    return (
        isinstance(default, ast.Constant) and isinstance(default.value, str) and parse_place(default.value) is not None
    )


def _takes_for_tensor(function: FunctionModel | None, name: str) -> bool:
    """Whether a function takes for a tensor what it says is an array: `points: np.ndarray`, and then `isinstance(points, torch.Tensor)`, `points.device`."""

    def is_it(node: ast.expr | None) -> bool:
        return isinstance(node, ast.Name) and node.id == name

    return function is not None and any(
        (isinstance(n, ast.Attribute) and n.attr in _OF_TENSORS and is_it(n.value))
        or (isinstance(n, ast.Call) and last_name(n.func) == "isinstance" and is_it(next(iter(n.args), None)))
        for n in function.nodes
    )


# What tensors have, and arrays don't, or hardly anybody asks of one.
_OF_TENSORS = frozenset({"device", "is_cuda", "cuda", "cpu", "detach", "requires_grad", "unsqueeze", "numel"})
