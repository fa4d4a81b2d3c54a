"""What a call calls, told by names alone: nothing is read for it but the definitions that the names lead to."""

from __future__ import annotations

import ast
from typing import NamedTuple

from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.classes import ClassInfo
from devlint.signatures.values.values import CLASS, FUNCTION
from devlint.source.modules import FunctionModel, SourceModule, dotted


class Callee(NamedTuple):
    """A function of the project, and whether its first parameter is the object that it is called on."""

    function: FunctionModel
    bound: bool
    # The class whose object is made, where the function is its constructor.
    makes: ClassInfo | None = None

    def is_given(self, call: ast.Call, parameter: str) -> bool:
        """Whether a call gives something for a parameter, or may do so."""
        if any(k.arg in (None, parameter) for k in call.keywords):
            return True
        if any(isinstance(a, ast.Starred) for a in call.args):
            return True
        arguments = self.function.node.args
        positional = [a.arg for a in [*arguments.posonlyargs, *arguments.args]][1 if self.bound else 0 :]
        return parameter in positional[: len(call.args)]

    def has_all(self, call: ast.Call) -> bool:
        """Whether a call gives all that the function asks for, or may do so: else it is a TypeError."""
        if any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
            return True
        asked = [a.arg for a in self.function.parameters][1 if self.bound else 0 :]
        return self.given(call).keys() | self.function.defaults.keys() >= set(asked)

    def given(self, call: ast.Call) -> dict[str, ast.expr]:
        """What a call gives for each parameter, stars left out."""
        arguments = self.function.node.args
        positional = [a.arg for a in [*arguments.posonlyargs, *arguments.args]][1 if self.bound else 0 :]
        found = dict(zip(positional, call.args, strict=False))
        return found | {k.arg: k.value for k in call.keywords if k.arg is not None}


def callee(reader: Reader, source: SourceModule, cls: ast.ClassDef | None, call: ast.Call) -> Callee | None:
    """The function, method or constructor that a call calls, `self` being an object of `cls`; None where that isn't plain."""
    text = dotted(call.func)
    if text is None:
        return None
    owner, _, rest = text.partition(".")
    if owner in ("self", "cls") and cls is not None:
        if not rest or "." in rest:
            return None
        method = reader.class_info(source, cls).method(rest)
        return Callee(method, not method.is_static) if method is not None and not method.is_property else None
    found = reader.static_value(source, call.func)
    if found.kind is FUNCTION:
        return Callee(found.data[0], False)
    if found.kind is CLASS:
        constructor = found.data.method("__init__")
        return Callee(constructor, True, found.data) if constructor is not None else None
    return None
