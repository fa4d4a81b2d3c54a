"""Writes the text of a random program: scopes, names, and the expressions that fit them.

A program is written as somebody would who knows where everything should be, and forgets it now and then. Each name has a
*place*: `home` (the accelerator), `host`, `there` (a second accelerator), `@` (where a function's inputs are), or
`if NAME` (at home where the flag NAME is set, else on the host). Operands of an expression are drawn from the names at one
place; with the program's share of *slips* one is drawn from another place, or a move is left out. The intended places steer
the share of programs that crash and nothing else: what is true of a program is found by running it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import TypeVar

from tests.random_programs.expressions import COMPUTED, FRESH, KINDS, LEGACY, LIKE

T = TypeVar("T")

FLOATING = ("mat", "vec", "num")

_HOLE = re.compile(r"<(\w+)(?: (\w+))?>")

# How a program spells its accelerator.
DEVICES = ('"cuda"', '"cuda:0"', 'torch.device("cuda")', "DEVICE", "DEVICE", "device", "device", "dev")


@dataclass(frozen=True)
class Value:
    """A tensor that a name, an attribute or an item (`xs[0]`) stands for."""

    kind: str
    place: str
    # Neither stored to nor rebound: a parameter, a constant, what a tuple holds.
    fixed: bool = False


@dataclass(frozen=True)
class Callee:
    """Something that can be called: how, with tensors of which (kind, place), and what it returns.

    `{0}`, `{1}` in `text` stand for the arguments. The place `@` is the call's own.
    """

    text: str
    takes: tuple[tuple[str, str], ...]
    gives: tuple[str, str]


@dataclass
class Scope:
    """The names of a block. `device` is how it can spell the accelerator, beside the program's own ways."""

    values: dict[str, Value] = field(default_factory=dict)
    callees: list[Callee] = field(default_factory=list)


class Writer:
    """Appends lines to a program. `random` makes every choice, so that hypothesis can shrink what it made."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.indent = 0
        self.scopes = [Scope()]
        self.slips = random.choice((0.0, 0.03, 0.06, 0.1, 0.2))
        self.device = random.choice(DEVICES)
        self.flags: list[str] = []
        self.in_function = False
        # Classes that hold two tensors: name, whether `total` is a property, whether `to` changes the object itself.
        self.holders: list[tuple[str, bool, bool]] = []
        # Modules: name, and the attributes (name, kind, place) that move with one.
        self.networks: list[tuple[str, list[tuple[str, str, str]]]] = []
        self._names = 0

    # Choices

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def one_of(self, options: Sequence[T]) -> T:
        return options[self.random.randrange(len(options))]

    def slip(self) -> bool:
        """Whether something is forgotten here."""
        return self.slips > 0 and self.chance(self.slips)

    # Lines

    def write(self, *lines: str) -> None:
        self.lines += ["    " * self.indent + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[Scope]:
        """An indented block with names of its own, which are gone after it."""
        self.write(head)
        self.indent += 1
        self.scopes.append(Scope())
        before = len(self.lines)
        try:
            yield self.scopes[-1]
            if len(self.lines) == before:
                self.write("pass")
        finally:
            self.scopes.pop()
            self.indent -= 1

    @contextmanager
    def function(self, head: str, decorators: Sequence[str] = ()) -> Iterator[Scope]:
        """A function's block: of the names around it only the module's constants are seen, as others may be moved later."""
        outer, inside = self.scopes, self.in_function
        constants = {name: value for name, value in outer[0].values.items() if value.fixed}
        self.scopes = [Scope(constants, list(outer[0].callees))]
        self.in_function = True
        self.write(*decorators)
        try:
            with self.block(head) as scope:
                yield scope
        finally:
            self.scopes, self.in_function = outer, inside
            self.write("") if not self.indent else None

    # Names

    def fresh_name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def bind(self, name: str, kind: str, place: str, *, fixed: bool = False) -> str:
        self.scopes[-1].values[name] = Value(kind, place, fixed)
        return name

    def forget(self, name: str) -> None:
        for scope in self.scopes:
            scope.values.pop(name, None)

    def new(self, kind: str, place: str) -> str:
        """A new name for a tensor of a kind; the caller writes the line that binds it."""
        stem = {"mat": "x", "vec": "v", "num": "s", "mask": "mask", "index": "idx"}[kind]
        return self.bind(self.fresh_name(stem), kind, place)

    def let(self, kind: str, place: str, text: str) -> str:
        """Binds a new name to an expression."""
        name = self.new(kind, place)
        self.write(f"{name} = {text}")
        return name

    def names(self, kind: str | None = None, place: str | None = None) -> list[str]:
        """The names in scope of a kind and at a place (None: any)."""
        return [
            name
            for scope in self.scopes
            for name, value in scope.values.items()
            if kind in (None, value.kind) and place in (None, value.place)
        ]

    def own(self, place: str | None = None, kind: str | None = None) -> list[str]:
        """The names of the innermost block that may be rebound or changed."""
        return [
            name
            for name, value in self.scopes[-1].values.items()
            if not value.fixed and place in (None, value.place) and kind in (None, value.kind)
        ]

    def value(self, name: str) -> Value:
        return next(scope.values[name] for scope in reversed(self.scopes) if name in scope.values)

    def places(self) -> list[str]:
        """The places that have a name; those of a function's inputs first."""
        found = {value.place for scope in self.scopes for value in scope.values.values()}
        return sorted(found) or ["host"]

    def place(self) -> str:
        """A place to compute at: mostly where the work is done."""
        places = self.places()
        usual = "@" if "@" in places else "home"
        return usual if (usual in places and self.chance(0.6)) else self.one_of(places)

    # Expressions

    def spelt_device(self, place: str) -> str:
        """An expression for a place."""
        near = self.names(place=place)
        if place in ("home", "there", "host"):
            fixed = {"home": self.device, "there": '"cuda:1"', "host": '"cpu"'}[place]
            return f"{self.one_of(near)}.device" if near and self.chance(0.25) else fixed
        return f"{self.one_of(near)}.device"

    def near(self, place: str) -> list[str]:
        """The names of floating-point tensors at a place."""
        return [name for kind in FLOATING for name in self.names(kind, place)]

    def moved(self, text: str, place: str, kind: str = "") -> str:
        """An expression's value at a place; forgotten with a slip. Only what floats is moved to another tensor (and its type)."""
        if self.slip():
            return text
        text = atom(text)
        near = self.near(place)
        ways = [f"{text}.to({self.spelt_device(place)})"] * 3
        if near:
            like = self.one_of(("", ".device")) if kind in FLOATING else ".device"
            ways.append(f"{text}.to({self.one_of(near)}{like})")
        if place == "home":
            ways += [f"{text}.cuda()"] * 2 + [f"{text}.to(device={self.device}, non_blocking=True)"]
        elif place == "there":
            ways.append(f"{text}.cuda(1)")
        elif place == "host":
            ways += [f"{text}.cpu()"] * 2
        return self.one_of(ways)

    def made(self, kind: str, place: str) -> str:
        """An expression that makes a tensor at a place."""
        if kind == "mat" and place in LEGACY and self.chance(0.05):
            return self.one_of(LEGACY[place])
        template = self.one_of(FRESH[kind])
        if place == "host":
            return template.format(device=', device="cpu"' if self.chance(0.05) else "")
        if self.near(place) and self.chance(0.35):
            return self.filled(self.one_of(LIKE[kind]), place, 0)
        if self.chance(0.5):
            device = "" if self.slip() else f", device={self.spelt_device(place)}"
            return template.format(device=device)
        return self.moved(template.format(device=""), place, kind)

    def tensor(self, kind: str, place: str, depth: int = 2) -> str:
        """An expression for a tensor of a kind at a place."""
        if place == "any" or self.slip():
            place = self.one_of(self.places())
        known = self.names(kind, place)
        if known and (depth <= 0 or self.chance(0.55)):
            return self.one_of(known)
        if depth <= 0 or self.chance(0.2):
            others = self.names(kind)
            if others and self.chance(0.4):
                return self.moved(self.one_of(others), place, kind)
            return self.made(kind, place)
        callees = [c for c in self.callees() if c.gives[0] == kind and c.gives[1] in ("@", place)]
        if callees and self.chance(0.4):
            return self.called(self.one_of(callees), place, depth - 1)
        return self.filled(self.one_of(COMPUTED[kind]), place, depth - 1)

    def callees(self) -> list[Callee]:
        return [callee for scope in self.scopes for callee in scope.callees]

    def called(self, callee: Callee, place: str, depth: int = 1) -> str:
        """A call whose result is at a place."""
        arguments = [self.tensor(kind, place if at == "@" else at, depth) for kind, at in callee.takes]
        return callee.text.format(*arguments)

    def filled(self, template: str, place: str, depth: int = 1, x: str = "") -> str:
        """A template with its holes filled."""

        def fill(hole: re.Match[str]) -> str:
            kind, at = hole[1], hole[2] or place
            if kind == "x":
                return x
            if kind == "near":
                return self.one_of(self.near(place))
            if kind == "device":
                return self.spelt_device(place)
            text = self.tensor(kind, at, depth)
            alone = template[hole.start() - 1 : hole.start()] in ("(", "[") and template[hole.end() :][:1] in (
                ")",
                "]",
                ",",
            )
            return text if alone else atom(text)

        return _HOLE.sub(fill, template)

    def kind(self) -> str:
        return "mat" if self.chance(0.6) else self.one_of(KINDS)


@cache
def _is_atom(text: str) -> bool:
    tree = ast.parse(text, mode="eval").body
    return isinstance(tree, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant)


def atom(text: str) -> str:
    """An expression as it can stand as an operand."""
    return text if text.isidentifier() or _is_atom(text) else f"({text})"
