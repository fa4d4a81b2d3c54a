"""Attributes that a class makes on the host and leaves there, whichever of its methods does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from devlint.knowledge import torch_knowledge
from devlint.regexes import regex
from devlint.signatures.state.classes import ClassInfo
from devlint.signatures.state.frame import Frame
from devlint.signatures.values.values import Path
from devlint.source.devices import TARGETS
from devlint.source.modules import assigned_in as assigned_names
from devlint.source.modules import dotted


class Written(NamedTuple):
    """What is assigned to an attribute, and the method in which."""

    attribute: str
    value: ast.expr
    method: ast.AST | None
    # Whether the method always comes there.
    always: bool


def is_made_on_host(frame: Frame, owner: str, attribute: str = "") -> bool:
    """Whether all that a class assigns to an attribute (`.sigmas` of `self`) is made on the host, and left there."""
    cls = _class_of(frame, owner, attribute)
    return cls is not None and _are_on_host(cls, attribute[1:], frozenset()) is True


def is_host_expression(node: ast.expr, method: ast.AST, cls: ClassInfo) -> bool:
    """Whether an expression in a method of a class is a tensor that is made on the host."""
    return _is_on_host(node, method, cls, frozenset()) is True


def may_be_made_on_host(frame: Frame, path: Path) -> bool:
    """Whether a class sets an attribute of its own to what is made on the host, in one of its methods at least."""
    owner, attribute = [*map(str, path[:2]), ""][:2]
    cls, name = _class_of(frame, owner, attribute), attribute[1:]
    return cls is not None and any(
        _is_on_host(w.value, w.method, cls, frozenset({name})) is True for w in _written(cls, name)
    )


def _class_of(frame: Frame, owner: str, attribute: str) -> ClassInfo | None:
    """The class around, where something is an attribute of an object of its own."""
    return frame.reader.class_around(frame) if owner.startswith("self") and attribute.startswith(".") else None


def may_be_host_device(cls: ClassInfo | None, node: ast.expr) -> bool:
    """Whether a device is an attribute that the class itself sets to the host on one of its ways."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if cls is not None:
            return any(is_cpu(written.value) for written in _written(cls, name))
    return False


def _are_on_host(cls: ClassInfo, attribute: str, asked: frozenset[str]) -> bool | None:
    """Whether tensors that an attribute is left with are all on the host; None where it never gets one."""
    left = [w for level in _levels(cls) for w in _left(_written_by(level), attribute)]
    told = {_is_on_host(w.value, w.method, cls, asked | {attribute}) for w in left}
    return False if False in told or not left else True if True in told else None


def _levels(cls: ClassInfo) -> Iterator[ast.ClassDef]:
    """The class statements of a class and of those of the project that it is derived from."""
    yield from (level.node for level in cls.lineage())


def _left(written: tuple[Written, ...], attribute: str) -> Iterator[Written]:
    """What is assigned to an attribute, without what the same method always puts something else in the place of."""
    own = [w for w in written if w.attribute == attribute]
    for at, one in enumerate(own):
        if not any(later.always and later.method is one.method for later in own[at + 1 :]):
            yield one


def _written(cls: ClassInfo, attribute: str) -> list[Written]:
    return [w for level in _levels(cls) for w in _written_by(level) if w.attribute == attribute]


@lru_cache(maxsize=64)
def _written_by(cls: ast.ClassDef) -> tuple[Written, ...]:
    return tuple(_assignments(cls.body, None, always=False))


def _assignments(block: list[ast.stmt], method: ast.AST | None, *, always: bool) -> Iterator[Written]:
    for statement in block:
        match statement:
            case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
                yield from _assignments(body, statement, always=True)
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                yield Written(name, value, method, always)
            case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), value=ast.expr() as value):
                yield Written(name, value, method, always)
            case ast.Assign(targets=targets):
                for part in (n for t in targets for n in ast.walk(t)):
                    if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                        # One of several: what it gets isn't told.
                        yield Written(part.attr, ast.Constant(value=...), method, always)
            case ast.ClassDef():
                pass
            case _:
                for inner in _blocks(statement):
                    yield from _assignments(inner, method, always=always and isinstance(statement, ast.With))


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of statements in a statement."""
    for _, value in ast.iter_fields(statement):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value
        elif isinstance(value, list):
            yield from (body for part in value if isinstance(body := getattr(part, "body", None), list))


# The older constructors make what they make on the host.
_LEGACY = regex(r"torch\.(?:Float|Double|Half|BFloat16|Char|Byte|Short|Int|Long|Bool)?Tensor")
# Methods that put a tensor elsewhere, or where another one is.
_MOVING = frozenset({"cuda", "npu", "xpu", "hpu", "mps", "type_as", "to_empty", "register_buffer"})


def _is_on_host(node: ast.expr, method: ast.AST | None, cls: ClassInfo, asked: frozenset[str]) -> bool | None:
    """Whether an expression in a method gives what is on the host (`torch.zeros(4)`, `x.cpu()`); None for what is no tensor."""

    def told(part: ast.expr) -> bool | None:
        return _is_on_host(part, method, cls, asked)

    match node:
        case ast.Constant(value=value):
            return False if value is ... else None
        case ast.Call(func=func, keywords=keywords) if dotted(func) in torch_knowledge().factories:
            devices = [k.value for k in keywords if k.arg == "device"]
            unpacked = any(k.arg is None for k in keywords)
            return not unpacked and all(is_cpu(d) or may_be_host_device(cls, d) for d in devices)
        case ast.Call(func=func) if _LEGACY.fullmatch(dotted(func) or ""):
            return True
        case ast.Call(func=ast.Attribute(attr="cpu"), args=[]):
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr="to"), args=args, keywords=keywords):
            targets = [*args, *(k.value for k in keywords if k.arg is None or k.arg in TARGETS)]
            if any(is_cpu(target) for target in targets):
                return True
            return all(_is_dtype(target) for target in targets) and told(inner)
        case ast.Call(func=func, args=args) if (dotted(func) or "").startswith("torch.") and "nn" not in ast.unparse(
            func
        ):
            return any(told(a) is True for a in args)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)):
            return name not in _MOVING and told(inner) is True
        case ast.BinOp(left=left, right=right):
            sides = {told(left), told(right)}
            return True if True in sides else False if False in sides else None
        case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner):
            return told(inner)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return True if name in asked else _are_on_host(cls, name, asked)
        case ast.Name(id=name) if method is not None and len(asked) < _MAX_ASKED:
            given = assigned_names(method).get(name, [])
            answers = (
                {_is_on_host(v, method, cls, asked | {f" {name}"}) for v in given}
                if f" {name}" not in asked
                else {True}
            )
            return False if not given or False in answers else True if True in answers else None
    return False


# Names and attributes are followed no further than this.
_MAX_ASKED = 8


def _is_dtype(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="torch")) | ast.Attribute(attr="dtype"):
            return True
        case ast.Name(id=name):
            return name == "dtype"
    return False


def is_cpu(node: ast.expr) -> bool:
    """Whether an expression is the host, spelled out."""
    match node:
        case ast.Constant(value="cpu"):
            return True
        case ast.Call(func=func, args=[ast.Constant(value="cpu")]):
            return dotted(func) == "torch.device"
    return False
