"""Annotations: what they say of a value."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from devlint.knowledge import canonical, ecosystem
from devlint.placement.interpreter import Frame
from devlint.placement.scope import Analysing
from devlint.placement.values import (
    HOST,
    NOWHERE,
    SCALAR,
    UNKNOWN,
    Value,
    mapping_of,
    reference,
    same_as,
    sequence,
    sequence_of,
)
from devlint.source.kinds import Kind
from devlint.source.modules import SourceModule
from devlint.source.paths import unparsed


class Annotations:
    """Reads annotations with one analysis's knowledge of names."""

    def __init__(self, analysis: Analysing) -> None:
        self._analysis = analysis

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
                text = unparsed(annotation)
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
        name = unparsed(generic).rsplit(".", 1)[-1]
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
        type_value = self._analysis.resolve(type_value, asking)
        if type_value.kind is Kind.CLASS and type_value.cls is not None:
            return self._analysis.objects.instance_of(type_value.cls)
        name = canonical(type_value.name)
        if name in ecosystem.TENSOR_TYPES:
            return Value(Kind.TENSOR)
        if name == "torch.nn.Parameter":
            return Value(Kind.PARAMETER)
        if name in self._analysis.knowledge.modules:
            return Value(Kind.MODULE, name="" if name == "torch.nn.Module" else name)
        if name in self._analysis.knowledge.wrappers:
            return Value(Kind.WRAPPER, name=name, inner=Value(Kind.MODULE))
        if name == "torch.device":
            return Value(Kind.DEVICE, place=same_as(owner) if owner else NOWHERE, likely=True)
        if name in self._analysis.knowledge.optimizers:
            return Value(Kind.OPTIMIZER, name=name)
        if name in self._analysis.knowledge.loaders or name == "torch.utils.data.DataLoader":
            return Value(Kind.LOADER)
        if name == "numpy.ndarray":
            return Value(Kind.NDARRAY, HOST)
        if name in ("builtins.int", "builtins.float", "builtins.bool"):
            return SCALAR
        return UNKNOWN
