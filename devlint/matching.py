"""Shapes of LibCST nodes: the part of `libcst.matchers` that nearly all rules need, without the time that its import takes.

`m.Call(func=m.Name("print"))` is the same here and there. What isn't here comes from there, and a shape that holds some of it
is made over into theirs.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any

# Names of `libcst.matchers` that begin as nodes do, and are none.
_NO_NODES = frozenset(
    {"BaseMatcherNode", "DoNotCareSentinel", "MatchDecoratorMismatch", "MatchMetadata", "MatchMetadataIfTrue",
     "MatcherDecoratableTransformer", "MatcherDecoratableVisitor", "AtMostN", "SaveMatchedNode", "TypeOf", "ZeroOrOne"}
)  # fmt: skip


class Shape:
    """What a node, or a part of one, is compared with."""

    def __or__(self, other: object) -> Shape:
        return OneOf(self, other)

    def __and__(self, other: object) -> Any:
        return _there("AllOf")(original(self), original(other))

    def __invert__(self) -> Any:
        return _there("DoesNotMatch")(original(self))

    def fits(self, node: object) -> bool:
        """Whether a node, or a part of one, is so."""
        raise NotImplementedError

    def original(self) -> Any:
        """The same of `libcst.matchers`."""
        raise NotImplementedError

    def parts(self) -> Iterator[object]:
        """The shapes in it."""
        return iter(())


class OneOf(Shape):
    """One of several shapes."""

    def __init__(self, *options: object) -> None:
        self._options: list[object] = [
            o for option in options for o in (option._options if type(option) is OneOf else [option])
        ]

    def fits(self, node: object) -> bool:
        return any(_fits(node, option) for option in self._options)

    def original(self) -> Any:
        return _there("OneOf")(*map(original, self._options))

    def parts(self) -> Iterator[object]:
        return iter(self._options)


class Node(Shape):
    """A node of one class, with parts that are so."""

    def __init__(self, kind: str, *positional: object, **named: object) -> None:
        self.kind = kind
        self._positional = positional
        self._named = named

    def fits(self, node: object) -> bool:
        if type(node).__name__ != self.kind:
            return False
        if self._positional:
            # The order of a class's parts is known once there is a node of it.
            names = [field.name for field in dataclasses.fields(node)]  # type: ignore[arg-type]
            self._named |= dict(zip(names, self._positional, strict=False))
            self._positional = ()
        return all(_fits(getattr(node, name), shape) for name, shape in self._named.items())

    def original(self) -> Any:
        named = {name: original(shape) for name, shape in self._named.items()}
        return _there(self.kind)(*map(original, self._positional), **named)

    def parts(self) -> Iterator[object]:
        yield from self._positional
        yield from self._named.values()


class _Kind(Shape):
    """A class of nodes, such as `m.Call`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *positional: object, **named: object) -> Node:
        return Node(self._name, *positional, **named)

    def original(self) -> Any:
        return _there(self._name)


class AtLeastN(Shape):
    """In a list: so many nodes or more that are so."""

    def __init__(self, shape: object = ..., *, n: int) -> None:
        self.shape = shape
        self.n = n

    def original(self) -> Any:
        return _there("AtLeastN")(n=self.n) if self.shape is ... else _there("AtLeastN")(original(self.shape), n=self.n)

    def parts(self) -> Iterator[object]:
        yield self.shape


def ZeroOrMore(shape: object = ...) -> AtLeastN:  # noqa: N802 - as there
    """In a list: any number of nodes that are so."""
    return AtLeastN(shape, n=0)


class MatchIfTrue(Shape):
    """Whatever a function says yes to."""

    def __init__(self, says: Callable[[Any], object]) -> None:
        self._says = says

    def fits(self, node: object) -> bool:
        return bool(self._says(node))

    def original(self) -> Any:
        return _there("MatchIfTrue")(self._says)


def MatchRegex(pattern: str) -> MatchIfTrue:  # noqa: N802
    """A text that a regular expression matches as a whole."""
    compiled = re.compile(pattern)
    return MatchIfTrue(lambda text: isinstance(text, str) and compiled.fullmatch(text) is not None)


class _Anything(Shape):
    def fits(self, node: object) -> bool:
        return True

    def original(self) -> Any:
        return _there("DoNotCare")()


def DoNotCare() -> Shape:  # noqa: N802
    """Anything."""
    return _Anything()


def _fits(node: object, shape: object) -> bool:
    if isinstance(shape, Shape):
        return shape.fits(node)
    if shape is ...:
        return True
    if isinstance(shape, (list, tuple)):
        return isinstance(node, (list, tuple)) and _in_turn(node, shape)
    return node is None if shape is None else node == shape


def _in_turn(nodes: Sequence[object], shapes: Sequence[object]) -> bool:
    """Whether a list of nodes is as a list of shapes says."""
    if not shapes:
        return not nodes
    first, rest = shapes[0], shapes[1:]
    if not isinstance(first, AtLeastN):
        return bool(nodes) and _fits(nodes[0], first) and _in_turn(nodes[1:], rest)
    for taken in range(len(nodes) + 1):
        if taken >= first.n and _in_turn(nodes[taken:], rest):
            return True
        if taken < len(nodes) and not _fits(nodes[taken], first.shape):
            return False
    return False


def original(shape: object) -> Any:
    """A shape as `libcst.matchers` has it."""
    if isinstance(shape, Shape):
        return shape.original()
    return [original(part) for part in shape] if isinstance(shape, (list, tuple)) else shape


def _is_ours(shape: object) -> bool:
    """Whether a shape holds nothing of `libcst.matchers`."""
    if isinstance(shape, (list, tuple)):
        return all(map(_is_ours, shape))
    if isinstance(shape, Shape):
        return all(map(_is_ours, shape.parts()))
    return not type(shape).__module__.startswith("libcst")


def _there(name: str) -> Any:
    return getattr(import_module("libcst.matchers"), name)


def among(nodes: Sequence[Any], shape: Any, tree: Any) -> Sequence[Any]:
    """The nodes that have a shape, of all nodes of a tree."""
    return [n for n in nodes if shape.fits(n)] if _is_whole(shape) else _there("findall")(tree, original(shape))


def _is_whole(shape: object) -> bool:
    return isinstance(shape, Shape) and _is_ours(shape)


def preorder(tree: Any) -> list[Any]:
    """All nodes of a tree, each before what is in it."""
    found: list[Any] = []
    tree.visit(_collector()(found))
    return found


@cache
def _collector() -> Any:
    """The visitor that puts each node into a list; LibCST takes long to load, and isn't before it is needed."""

    class Collector(import_module("libcst").CSTVisitor):  # type: ignore[misc]
        def __init__(self, found: list[Any]) -> None:
            super().__init__()
            self.found = found

        def on_visit(self, node: Any) -> bool:
            self.found.append(node)
            return True

        def on_leave(self, original_node: Any) -> None:
            pass

    return Collector


class Matchers:
    """Stands for the module `libcst.matchers`."""

    OneOf = OneOf
    AtLeastN = AtLeastN
    ZeroOrMore = staticmethod(ZeroOrMore)
    MatchIfTrue = MatchIfTrue
    MatchRegex = staticmethod(MatchRegex)
    DoNotCare = staticmethod(DoNotCare)

    def __getattr__(self, name: str) -> Any:
        if name[:1].isupper() and name not in _NO_NODES and name not in ("AllOf", "DoesNotMatch"):
            value: Any = _Kind(name)
        else:
            value = _there(name)
            if not isinstance(value, type) or name in _NO_NODES | {"AllOf"}:
                value = _taking_originals(value)
        setattr(self, name, value)
        return value

    @staticmethod
    def matches(node: Any, shape: Any, **more: Any) -> bool:
        """Whether a node has a shape."""
        if not more and _is_whole(shape):
            return bool(shape.fits(node))
        return bool(_there("matches")(node, original(shape), **more))

    @staticmethod
    def findall(tree: Any, shape: Any, **more: Any) -> Sequence[Any]:
        """The nodes of a tree that have a shape."""
        if more or not _is_whole(shape) or not hasattr(tree, "visit"):
            return list(_there("findall")(tree, original(shape), **more))
        return [node for node in preorder(tree) if shape.fits(node)]


def _taking_originals(function: Any) -> Any:
    """A function, or class, of `libcst.matchers` that is given what they take for what we have."""
    if isinstance(function, type) and function.__name__.startswith(("Base", "Matcher", "MatchDecorator")):
        return function

    def called(*positional: Any, **named: Any) -> Any:
        return function(*map(original, positional), **{name: original(value) for name, value in named.items()})

    return called
