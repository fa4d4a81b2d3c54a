"""What holds at one point of a program: values by access path, and the conditions that are known to hold.

An access path is a name with constant attributes and keys: `model`, `self.net`, `batch['image']`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from devlint.placement.values import (
    NO_GUARDS,
    NOWHERE,
    UNKNOWN,
    Guard,
    Guards,
    Place,
    Sort,
    Step,
    Value,
    compatible,
    either,
    join,
    replace,
    wrappers_among,
)
from devlint.source.kinds import Kind
from devlint.source.paths import is_under, wholes


@dataclass
class Environment:
    """The state along one path."""

    values: dict[str, Value] = field(default_factory=dict)
    guards: Guards = NO_GUARDS
    # Where each name that a guard may speak of was last bound.
    bound_at: dict[str, int] = field(default_factory=dict)
    # The path has ended: return, raise, break or continue.
    dead: bool = False
    # The paths of which parts are known.
    with_parts: frozenset[str] = frozenset()

    def copy(self) -> Environment:
        return Environment(dict(self.values), self.guards, dict(self.bound_at), self.dead, self.with_parts)

    def get(self, path: str) -> Value | None:
        """The value at a path, less the alternatives that the guards rule out."""
        value = self.values.get(path)
        return self.open(value) if value is not None else None

    def open(self, value: Value) -> Value:
        """A value, less the alternatives that the guards rule out."""
        if not self.guards:
            return value
        if value.place.sort is Sort.PREFERRED and any(g.without_accelerator for g in self.guards):
            # Where the program found no accelerator, what it put there is elsewhere.
            return replace(value, place=NOWHERE)
        if value.kind is not Kind.EITHER:
            return value
        open_options = [(g, v) for g, v in value.options if compatible(g, self.guards)]
        return value if len(open_options) == len(value.options) else either(open_options)

    def bind(self, path: str, value: Value, line: int) -> None:
        """Sets a path; what was known of its parts, and conditions on it, are forgotten."""
        if path in self.with_parts:
            self.values = {p: v for p, v in self.values.items() if not is_under(p, path)}
        self.put(path, value)
        # A part that is set once is the same for every method of the object; set again, it is another from there on.
        self.bound_at[path] = line if path in self.bound_at or not wholes(path) else 0

    def put(self, path: str, value: Value) -> None:
        """Says more of what is at a path: what is known of its parts, and conditions on it, still hold."""
        self.values[path] = value
        if not wholes(path) <= self.with_parts:
            self.with_parts |= wholes(path)

    def forget(self, path: str) -> None:
        self.values = {p: v for p, v in self.values.items() if p != path and not is_under(p, path)}

    def move_site(self, site: str, place: Place, step: Step | None, *, likely: bool) -> None:
        """An object that changes in place was moved: every path that holds it sees it."""
        if site:
            holders = [(p, v) for p, v in self.values.items() if v.site == site or v.options or v.inner is not None]
            self.values.update((p, _moved(v, site, place, step, likely)) for p, v in holders)

    def distinct(self, text: str, paths: Iterable[str]) -> str:
        """A condition's text, made distinct by where the paths in it were bound."""
        bound = ",".join([str(self.bound_at.get(p, 0)) for p in paths])
        return f"{text}@{bound}"

    def assume(self, condition: str, outcome: bool) -> None:
        """Continues under a condition's outcome; an outcome that contradicts the path ends it."""
        if (condition, not outcome) in self.guards:
            self.dead = True
        self.guards |= {Guard(condition, outcome)}


def _moved(value: Value, site: str, place: Place, step: Step | None, likely: bool) -> Value:
    if value.site == site:
        return value.at(place, step, likely=likely)
    if value.kind is Kind.EITHER and any(v.site == site for _, v in value.options):
        return either((g, _moved(v, site, place, step, likely)) for g, v in value.options)
    if value.inner is not None and value.kind is Kind.WRAPPER and value.inner.site == site:
        return replace(value.at(place, step, likely=likely), inner=_moved(value.inner, site, place, step, likely))
    return value


def _one_of(path: str, a: Value, b: Value, when_a: Guards, when_b: Guards) -> Value:
    """What a path holds where two paths meet; an attribute that may be many things is remembered as a wrapper all the same."""
    joined = join(a, b, when_a, when_b)
    if joined is UNKNOWN and path.startswith("self."):
        return wrappers_among((when_a, a), (when_b, b))
    return joined


def merge(a: Environment, b: Environment) -> Environment:
    """The state where two paths meet."""
    if a.dead:
        return b
    if b.dead:
        return a
    when_a, when_b = a.guards - b.guards, b.guards - a.guards
    values = dict(a.values)
    for path, value in b.values.items():
        mine = values.get(path)
        if mine is None:
            # Bound on one path only. A plain name must have been bound to be used; a part falls back to unknown.
            values[path] = value if "." not in path and "[" not in path else join(UNKNOWN, value, when_a, when_b)
        elif mine is not value:
            values[path] = _one_of(path, mine, value, when_a, when_b)
    if len(values) > len(b.values):
        for path in a.values.keys() - b.values.keys():
            if "." in path or "[" in path:
                values[path] = join(values[path], UNKNOWN, when_a, when_b)
    bound = a.bound_at
    if bound != b.bound_at:
        unsure = {path: -1 for path, line in bound.items() if b.bound_at.get(path, line) != line}
        bound = {**b.bound_at, **bound, **unsure}
    return Environment(values, a.guards & b.guards, dict(bound), with_parts=a.with_parts | b.with_parts)
