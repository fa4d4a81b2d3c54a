"""What calls of Python's own functions give: they hand on, gather or count what they are given."""

from __future__ import annotations

import ast
from collections.abc import Callable

from devlint.placement.expressions import attribute
from devlint.placement.parts import wrapper_has
from devlint.placement.request import Call, site_of, unknown_call
from devlint.placement.values import (
    NONE,
    OVER_LOADER,
    SCALAR,
    UNKNOWN,
    Value,
    either,
    element_of,
    mapping,
    mapping_of,
    replace,
    sequence,
    sequence_of,
)
from devlint.source.kinds import Kind
from devlint.source.paths import access_path


def _enumerate(request: Call) -> Value:
    each = request.frame.analysis.iterate(request.positional[0]) if request.positional else UNKNOWN
    return _like(request.positional[:1], sequence([SCALAR, each]))


def _zip(request: Call) -> Value:
    return _like(request.positional, sequence(request.frame.analysis.iterate(p) for p in request.positional))


def _like(iterated: list[Value], each: Value) -> Value:
    """A sequence of `each`; its name says that a loader stands behind it."""
    behind = [v for v in iterated if v.kind is Kind.LOADER or v.name == OVER_LOADER]
    if not behind:
        return sequence_of(each)
    return replace(sequence_of(each), name=OVER_LOADER, likely=all(v.likely for v in behind))


def _listed(request: Call) -> Value:
    if not request.positional:
        return sequence([]) if not request.keywords else UNKNOWN
    first = request.positional[0]
    if first.kind is Kind.SEQUENCE:
        return first
    return sequence_of(request.frame.analysis.iterate(first))


def _dict_call(request: Call) -> Value:
    if request.positional or request.open_ended:
        return (
            request.positional[0]
            if request.positional and request.positional[0].kind is Kind.MAPPING
            else mapping_of(UNKNOWN)
        )
    return mapping(request.keywords, request.keywords.values())


def _next(request: Call) -> Value:
    return request.frame.analysis.iterate(request.positional[0]) if request.positional else UNKNOWN


def first_argument(request: Call) -> Value:
    """A function that hands its first argument back."""
    return request.positional[0] if request.positional else UNKNOWN


def deep_copied(request: Call) -> Value:
    """`copy.deepcopy`: the same, and moved by itself from here on."""
    return either((g, resited(v, site_of(request))) for g, v in first_argument(request).alternatives())


def resited(value: Value, site: str) -> Value:
    """A copy of a module, which is another object."""
    inner = resited(value.inner, site) if value.inner is not None and value.kind is Kind.WRAPPER else value.inner
    return replace(value, site=site, inner=inner) if value.is_module else value


def _getattr(request: Call) -> Value:
    subject, name = request.argument(0), request.argument(1)
    if subject is None or name is None or not isinstance(name.constant, str):
        return UNKNOWN
    node = ast.copy_location(ast.Attribute(request.node.args[0], name.constant, ast.Load()), request.node)
    results = []
    for guards, option in subject.alternatives():
        if option.kind is Kind.WRAPPER and not wrapper_has(option, name.constant):
            continue
        if name.constant == "module" and option.kind is Kind.MODULE:
            # `getattr(model, "module", model)` on a bare model gives the default.
            default = request.argument(2)
            results.append((guards, default if default is not None and default.kind is not Kind.EITHER else option))
            continue
        results.append((guards, attribute(request.frame, option, node)))
    return either(results)


def _setattr(request: Call) -> Value:
    """`setattr(x, "name", v)` is `x.name = v`."""
    name, value = request.argument(1), request.argument(2)
    base = access_path(request.node.args[0]) if request.node.args else None
    if base is not None and name is not None and isinstance(name.constant, str) and value is not None:
        request.frame.env.bind(f"{base}.{name.constant}", value, request.node.lineno)
    elif name is not None and name.constant is None:
        given = request.argument(0) or UNKNOWN
        wrapped = [v.trail[-1] for _, v in given.alternatives() if v.kind is Kind.WRAPPER and v.trail]
        request.frame.analysis.filled.update(wrapped)
    return NONE


def _buffer(request: Call) -> Value:
    """An empty buffer holds what this program puts into it."""
    return UNKNOWN if request.node.args else Value(Kind.OBJECT, name="io.BytesIO")


def gives_scalar(request: Call) -> Value:
    return SCALAR


def _super(request: Call) -> Value:
    frame = request.frame
    own = frame.lookup("self") if "self" in frame.env.values else UNKNOWN
    if frame.function is not None and frame.function.cls is not None and own.cls is not None:
        here = frame.analysis.objects.class_model(frame.function.source, frame.function.cls)
        parents = [c for c in here.lineage[1:] if not isinstance(c, str)]
        if parents:
            return replace(own, cls=parents[0], name="")
        return replace(own, cls=None, name=here.lineage[-1] if isinstance(here.lineage[-1], str) else "")
    return UNKNOWN


# Qualified name -> what a call of it gives.
STANDARD: dict[str, Callable[[Call], Value]] = {
    "copy.deepcopy": deep_copied,
    "copy.copy": first_argument,
    "typing.cast": lambda r: r.argument(1) or UNKNOWN,
    "builtins.enumerate": _enumerate,
    "builtins.zip": _zip,
    "builtins.list": _listed,
    "builtins.tuple": _listed,
    "builtins.set": _listed,
    "builtins.dict": _dict_call,
    "collections.OrderedDict": _dict_call,
    "builtins.next": _next,
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.super": _super,
    "io.BytesIO": _buffer,
    "tempfile.TemporaryFile": _buffer,
    "builtins.sum": lambda r: (
        element_of(r.positional[0]) if r.positional and r.positional[0].kind is Kind.SEQUENCE else unknown_call(r)
    ),
    "builtins.range": lambda r: sequence_of(SCALAR),
    **{
        f"builtins.{n}": gives_scalar
        for n in (
            "len",
            "int",
            "float",
            "str",
            "bool",
            "isinstance",
            "hasattr",
            "print",
            "round",
            "repr",
            "id",
            "type",
            "format",
            "any",
            "all",
            "callable",
            "open",
            "input",
        )
    },
}
