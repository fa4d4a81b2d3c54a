"""A signature put to use at a call: inputs replaced by what is given, conditions decided by it."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from functools import lru_cache
from operator import neg
from typing import Any

from devlint.signatures.libraries.devices import device_from
from devlint.signatures.libraries.torch_modules import holds_nothing
from devlint.signatures.reading import comparing, tests, types_asked
from devlint.signatures.state import containers
from devlint.signatures.state.frame import Frame
from devlint.signatures.state.objects import attribute, place_of
from devlint.signatures.state.outcome import Signature
from devlint.signatures.values.conditions import FALSE, TRUE, Clause, Condition, clauses_of, tests_of
from devlint.signatures.values.values import (
    BATCH,
    CONSTANT,
    DECLARED,
    DEVICE,
    EITHER,
    FUNCTION,
    HOST,
    LIST,
    LOADER,
    METHOD,
    MODULES,
    NONE,
    NOTHING,
    NUMBER,
    OBJECT,
    OUTCOME,
    RANKED,
    SUPER,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    UNWRAPPED,
    WRAPPER,
    ZERO_DIM,
    Cell,
    Made,
    Path,
    Place,
    Value,
    broadcast,
    constant,
    either,
    mapped,
    rank_of,
    unwrapped,
)
from devlint.source.modules import SourceModule

# So many parts of an input are told from one another where a function does the same with each.
_MAX_IN_TURN = 8
# And so many where it changes each.
_MAX_CHANGED = 40
# What may be a tensor, and so have a rank.
_RANKED = frozenset({TENSOR, UNKNOWN})
# The place that `device=None` names.
_NOWHERE = Place("unknown", "none")


class Instance:
    """What a function's inputs are at one call."""

    def __init__(self, frame: Frame, signature: Signature | None, given: dict[str, Value], call: ast.AST) -> None:
        self.frame = frame
        self.signature = signature
        self.given = given
        self.call = call
        self._serial = frame.reader.turn()
        # What the function makes by default isn't made on the host then.
        self._elsewhere = bool(frame.elsewhere)
        self._paths: dict[Path, Value] = {}
        self._results: dict[Path, Value] = {}
        self._cells: dict[Cell, Cell] = {}
        self._values: dict[int, tuple[Value, Value]] = {}
        self._literals: dict[int, Condition] = {}
        # Those that are one literal of the caller's, or 0, which always holds: most are.
        self._single: dict[int, int] = {}
        self._conditions: dict[Condition, Condition] = {TRUE: TRUE, FALSE: FALSE}
        self._places: dict[Place, Value] = {}
        self._loader_is_placed: bool | None = None

    @property
    def source(self) -> SourceModule:
        """The file that the call stands in."""
        return self.frame.source

    def cut(self) -> None:
        """Lets go of what may refer back to it: nobody asks it any more."""
        for known in (self._paths, self._results, self._values, self.given):
            known.clear()

    def supposing(self, path: Path, value: Value) -> Instance:
        """The same call, were a part of an input this."""
        other = Instance(self.frame, self.signature, self.given, self.call)
        other._paths = self._results | {path: value}
        other._results = self._results
        return other

    def suppose(self, condition: Condition, told: Condition) -> None:
        """Takes one outcome of a test for another condition."""
        for clause in condition if len(condition) == 1 else ():
            for literal in clause if len(clause) == 1 else ():
                self._take(literal, told)
                self._take(-literal, self.frame.atoms.negated(told))

    def tell(self, path: Path, value: Value) -> None:
        """What a call in the function gives, where only the caller knows what is called."""
        self._results[path] = self._paths[path] = value

    def is_told(self, path: Path) -> bool:
        """Whether something is, or came of, what such a call gives."""
        return path[:1] in self._results

    def turns(self, path: Path) -> list[Instance]:
        """The same call once for each thing that a path leads to: a loop goes over all parts of what is given."""
        if "[]" not in path:
            return [self]
        each = path[: path.index("[]") + 1]
        given = containers.contents_of(self.frame, self.at(each[:-1]))
        if given is None or given.kind is not TUPLE or len(given.parts) > _MAX_CHANGED:
            return [self]
        return [self.supposing(each, part) for part in given.parts]

    # -- inputs ----------------------------------------------------------------------------------------------------

    def at(self, path: Path) -> Value:
        """What is given for an input, or for a part of one."""
        known = self._paths.get(path)
        if known is None:
            known = self._paths[path] = self._reached(path)
        return known

    def _reached(self, path: Path) -> Value:
        root = path[0]
        if root not in self.given and not self.is_told(path):
            if str(root).startswith("#"):
                renamed = (f"{root}.{self._serial}", *path[1:])
                return Value(UNKNOWN, UNKNOWN_PLACE, path=renamed, likely=True)
            return Value(UNKNOWN, Place("input", path), path=path)
        if len(path) == 1:
            return self.given[root]
        owner = self.at(path[:-1])
        step = str(path[-1])
        if step.startswith("."):
            return attribute(self.frame, owner, step[1:])
        if step == "[]":
            return containers.element(self.frame, owner)
        if step.startswith("["):
            index = _index_of(step)
            return NOTHING if index is None else containers.item(self.frame, owner, index, ast.Constant(index.data))
        return containers.length_of(self.frame, owner)

    # -- values ----------------------------------------------------------------------------------------------------

    def value(self, value: Value) -> Value:
        """A value of the function, as the call makes it."""
        if value.is_closed and not (self._elsewhere and value.place == HOST):
            return value
        known = self._values.get(id(value))
        if known is None or known[0] is not value:
            made = self._instantiated(value)
            if isinstance(value.rank, tuple):
                rank = self._rank(value.rank)
                made = mapped(made, lambda v: v.but(rank=rank) if v.kind in _RANKED else v, self.frame.atoms)
            known = self._values[id(value)] = value, made
        return known[1]

    def _rank(self, rank: tuple[Any, ...]) -> Any:
        """A rank that inputs decide, as what is given for them does."""
        given = broadcast(rank_of(self.at(path)) for path in rank[1:])
        if rank[0] == "like" or given == RANKED:
            return given
        return ("some", *given[1:]) if isinstance(given, tuple) else ""

    def _instantiated(self, value: Value) -> Value:
        if value.kind is EITHER:
            options: list[tuple[Condition, Value]] = []
            for condition, part in value.parts:
                if part.path is None:
                    options.append((self.condition(condition), self.value(part)))
                else:
                    options += self._options(condition, part)
            return either(options, self.frame.atoms)
        if value.path is not None:
            given = self._input(value)
            return mapped(given, unwrapped, self.frame.atoms) if UNWRAPPED in value.tags else given
        if value.kind is UNKNOWN and isinstance(value.data, tuple):
            return self._like(value)
        if value.kind is OUTCOME:
            return self._outcome(value)
        if value.cell is not None:
            cell = self._cell(value.cell)
            return value.but(cell=cell, parts=tuple(self._part(p) for p in value.parts))
        if value.kind is FUNCTION and value.data is not None:
            function, closure, around = value.data
            if closure is not None and around is None and self.signature is not None:
                self.frame.reader.refers_back(self)
                return value.but(data=(function, closure, self))
            return value
        if value.kind in (TUPLE, METHOD, SUPER, LOADER, "partial", containers.EACH, containers.ITEMS):
            value = value.but(parts=tuple(self._part(p) for p in value.parts)) if value.parts else value
        if value.place.is_open:
            at = self.place(value.place)
            return mapped(at, lambda p: self._by_default(_placed(value, p)), self.frame.atoms)
        return self._by_default(value)

    def _options(self, condition: Condition, part: Value) -> list[tuple[Condition, Value]]:
        """An alternative, as the call makes it: of an input that may be a wrapper, by each thing that is given for it.

        What a test says of several things at once has more clauses than are kept.
        """
        assert part.path is not None
        given = self.given.get(part.path[0], NOTHING) if condition != TRUE else NOTHING
        if all(option.kind is not WRAPPER for _, option in given.options()):
            return [(self.condition(condition), self.value(part))]
        made = []
        for when, option in given.options():
            one = self.supposing(part.path[:1], option)
            made.append((self.frame.atoms.both(when, one.condition(condition)), one.value(part)))
        return made

    def _by_default(self, value: Value) -> Value:
        """A value, what may be made by default being where the block around the call says."""
        if self._elsewhere and value.place == HOST and value.kind is TENSOR:
            return value.but(place=UNKNOWN_PLACE, likely=True)
        return value

    def _part(self, part: object) -> object:
        return self.value(part) if isinstance(part, Value) else part

    def _input(self, value: Value) -> Value:
        assert value.path is not None
        actual = self.at(value.path)
        if isinstance(value.data, Made):
            return actual.but(data=value.data)
        if value.kind is LOADER:
            return mapped(actual, lambda o: o if o.kind is LOADER else value.but(path=o.path), self.frame.atoms)
        if self.is_told(value.path):
            return actual
        if value.kind is UNKNOWN:
            if str(value.path[0]).startswith("#") and value.place.is_open:
                return mapped(
                    self.place(value.place), lambda p: actual.but(place=p.place, step=p.step), self.frame.atoms
                )
            if str(value.path[0]).startswith("#"):
                return actual.but(place=value.place, step=value.step, likely=value.likely)
            return actual
        if value.kind is BATCH and str(value.path[0]).startswith("#"):
            # It came out of a loader in the function: the call says nothing of it, but where an input's loader is.
            own = value.but(path=actual.path)
            if value.tags >= DECLARED and self._is_given_placed_loader():
                return own.but(place=UNKNOWN_PLACE)
            return mapped(self._open_place(value.place), lambda p: _placed(own, p), self.frame.atoms)
        if value.kind in (NUMBER, CONSTANT):
            if actual.kind is TENSOR and actual.path is not None:
                # It isn't a tensor on this way: None, where it may be left out.
                return Value(UNKNOWN, path=actual.path, likely=True)
            return actual if actual.kind in (NUMBER, CONSTANT, OUTCOME) else value.but(path=None)

        def typed(option: Value) -> Value:
            if option.kind is UNKNOWN:
                return value.but(path=option.path, place=option.place, step=option.step or value.step, likely=True)
            return option

        return mapped(actual, typed, self.frame.atoms)

    def _is_given_placed_loader(self) -> bool:
        """Whether the call gives a loader, or an object with one, whose batches aren't on the host, or may not be."""
        if self._loader_is_placed is None:
            self._loader_is_placed = any(o.kind is LOADER and o.place != HOST for o in self._given_and_held())
        return self._loader_is_placed

    def _given_and_held(self) -> Iterator[Value]:
        """What the call gives, and what the objects among that hold."""
        given = [o for v in self.given.values() for _, o in v.options()]
        objects = {o.identity for o in given if o.kind is OBJECT and o.identity is not None}
        held = [v for key, v in self.frame.env.items() if objects and isinstance(key, tuple) and key[0] in objects]
        yield from given
        yield from (o for v in held for _, o in v.options())

    def _like(self, value: Value) -> Value:
        """Something that is of the kind that an input is, at a place of its own."""
        actual = self.at(value.data)

        def like(option: Value) -> Value:
            if option.kind in (TENSOR, BATCH):
                return value.but(kind=TENSOR, data=None, rank=value.rank if isinstance(value.rank, str) else "")
            if option.kind is UNKNOWN:
                return value.but(data=option.path or option.data)
            if option.kind in MODULES:
                return option
            if option.kind in (NUMBER, CONSTANT, "array"):
                return Value(option.kind if option.kind != CONSTANT else NUMBER, option.place)
            return NOTHING

        made = mapped(actual, like, self.frame.atoms)
        if not value.place.is_open or made.kind in MODULES:
            return made
        at = self.place(value.place)
        return mapped(
            made,
            lambda v: mapped(at, lambda p: _placed(v, p), self.frame.atoms) if v.kind in (TENSOR, UNKNOWN) else v,
            self.frame.atoms,
        )

    def _outcome(self, value: Value) -> Value:
        told = self.condition(value.data)
        if told == TRUE:
            return constant(True)
        return constant(False) if told == FALSE else value.but(data=told)

    def _cell(self, cell: Cell) -> Cell:
        """The call's own copy of something that the function makes."""
        if self.signature is None or cell not in self.signature.cells:
            return cell
        known = self._cells.get(cell)
        if known is None:
            known = self._cells[cell] = Cell((cell.site, self._serial))
            self.frame.made_under[known] = self.frame.path
            for slot, held in self.signature.cells[cell].items():
                self.frame.env[known, slot] = self._in_turn(held) or self.value(held)
        return known

    def _in_turn(self, contents: Value) -> Value | None:
        """Contents with a part for each part of an input, where the call knows those one by one."""
        if contents.kind is not containers.EACH or contents.data is None:
            return None
        given = containers.contents_of(self.frame, self.at(contents.data))
        if given is None or given.kind is not TUPLE or not 0 < len(given.parts) <= _MAX_IN_TURN:
            return None
        made = []
        for part in given.parts:
            made.append(self.supposing((*contents.data, "[]"), part).value(contents.parts[0]))
        return Value(TUPLE, parts=tuple(made))

    # -- places ----------------------------------------------------------------------------------------------------

    def place(self, place: Place) -> Value:
        """Where an input is, or what a device that is given names, as a value with that place."""
        known = self._places.get(place)
        if known is None:
            known = self._places[place] = self._found_place(place)
        return known

    def _open_place(self, place: Place) -> Value:
        return self.place(place) if place.is_open else Value(TENSOR, place)

    def _found_place(self, place: Place) -> Value:
        actual = self.at(place.name)
        if place.sort == "told":
            found = device_from(self.frame, actual)
            if found is None:
                return Value(TENSOR, UNKNOWN_PLACE)
            return mapped(found, _told, self.frame.atoms)
        return mapped(actual, self._whereabouts, self.frame.atoms)

    def _whereabouts(self, value: Value) -> Value:
        if "mixed" in value.tags:
            return Value(TENSOR, UNKNOWN_PLACE)
        if value.kind in MODULES:
            return Value(TENSOR, UNKNOWN_PLACE) if holds_nothing(value) else place_of(self.frame, value)
        if value.kind is TENSOR and value.place == HOST and rank_of(value) == ZERO_DIM:
            # What is computed with it is where the others are.
            return Value(TENSOR, UNKNOWN_PLACE)
        if value.kind in (TENSOR, BATCH, UNKNOWN, DEVICE, "array"):
            return Value(TENSOR, value.place, step=value.step, likely=value.likely)
        if value.kind == "object" and value.place.is_open:
            return Value(TENSOR, value.place, likely=True)
        if value.kind in (TUPLE, LIST):
            # What is computed from tensors in a list is where they are.
            return self._whereabouts_of_all(value)
        return Value(TENSOR, UNKNOWN_PLACE)

    def _whereabouts_of_all(self, value: Value) -> Value:
        """Where all parts of a tuple or list are; unknown where they aren't at one place."""
        part = containers.all_parts(containers.contents_of(self.frame, value), self.frame)
        places = {o.place for _, o in part.options() if o.kind in (TENSOR, BATCH)}
        if len(places) != 1 or any(o.kind not in (TENSOR, BATCH) for _, o in part.options()):
            return Value(TENSOR, UNKNOWN_PLACE)
        return self._whereabouts(next(o for _, o in part.options()))

    # -- conditions ------------------------------------------------------------------------------------------------

    def condition(self, condition: Condition) -> Condition:
        """A condition of the function, as the call decides it."""
        known = self._conditions.get(condition)
        if known is None:
            known = self._conditions[condition] = self._decided(condition)
        return known

    def _decided(self, condition: Condition) -> Condition:
        if len(condition) == 1:
            return self._of_clause(*condition)
        told = [self._of_clause(clause) for clause in clauses_of(condition)]
        joined = frozenset([clause for ways in told for clause in ways])
        if all(len(ways) == 1 for ways in told) and len(tests_of(joined)) == len(tests_of(condition)):
            # Each test is one of the caller's, and no two are the same: nothing makes anything superfluous that didn't before.
            return joined
        result = FALSE
        for ways in told:
            result = self.frame.atoms.either(result, ways)
        return result

    def _of_clause(self, clause: Clause) -> Condition:
        single = self._single
        if clause <= single.keys():
            made = frozenset([test for literal in clause if (test := single[literal])])
            if not made:
                return TRUE
            possible = made.isdisjoint(map(neg, made)) and not self.frame.atoms.contradicts(made)
            return frozenset((made,)) if possible else FALSE
        literals = self._literals
        joint = TRUE
        # Tests that are one test of the caller's are put together at once.
        plain: list[int] = []
        for literal in sorted(clause):
            told = literals.get(literal)
            if told is None:
                told = self._of_literal(literal)
            if joint is TRUE and len(told) == 1:
                (only,) = told
                if not only:
                    continue
                if len(only) == 1:
                    (test,) = only
                    if -test in plain:
                        return FALSE
                    plain.append(test)
                    continue
            if plain:
                joint = frozenset((frozenset(plain),))
                plain = []
            joint = told if joint is TRUE else self.frame.atoms.both(joint, told)
            if not joint:
                return joint
        if plain and self.frame.atoms.contradicts(made := frozenset(plain)):
            return FALSE
        return frozenset((made,)) if plain else joint

    def _of_literal(self, literal: int) -> Condition:
        atoms = self.frame.atoms
        other = self._literals.get(-literal)
        if other is None and literal < 0:
            other = self._of_literal(-literal)
        if other is not None:
            told = atoms.negated(other)
        else:
            atom = atoms.atom(literal)
            told = self._told(atom.key, atom.host_when)
        self._take(literal, told)
        return told

    def _take(self, literal: int, told: Condition) -> None:
        """Keeps what a literal is at this call."""
        self._literals[literal] = told
        if len(told) == 1:
            (clause,) = told
            if len(clause) < 2:
                self._single[literal] = next(iter(clause), 0)

    def _told(self, key: Hashable, host_when: bool | None) -> Condition:
        frame = self.frame
        match key:
            case ("true", token):
                return tests.truth(frame, self._token(token), host_when)
            case ("none", token):
                return comparing.is_none(frame, self._token(token))
            case ("on host", Place() as place):
                at = self.place(place)
                result = FALSE
                for condition, option in at.options():
                    told = frame.atoms.negated(comparing.on_accelerator(frame, option))
                    result = frame.atoms.either(result, frame.atoms.both(condition, told))
                return result
            case ("same place", Place() as a, Place() as b):
                result = FALSE
                for first_when, first in self._open_place(a).options():
                    for second_when, second in self._open_place(b).options():
                        joint = frame.atoms.both(first_when, second_when)
                        told = comparing.same_place(frame, first.place, second.place)
                        result = frame.atoms.either(result, frame.atoms.both(joint, told))
                return result
            case ("isinstance", token, tuple() as types):
                named = [self._token(t) for t in types]
                return types_asked.instance_of(frame, self._token(token), tuple(named))
            case ("spelt", token, str() as asked, str() as text):
                return tests.spelt(frame, self._token(token), asked, text)
            case ("filled", token):
                return tests.filled(frame, self._token(token))
            case ("has", token, str() as name):
                return types_asked.has(frame, self._token(token), name)
            case (str() as kind, a, b) if kind in comparing.COMPARISONS:
                # A number of which nothing is known needn't be what it is at another call.
                left = comparing.called_number(frame, self._token(a), self._number(a))
                right = comparing.called_number(frame, self._token(b), self._number(b))
                return comparing.compared(frame, kind, left, right, host_when)
        return frame.atoms.literal(("at call", self._serial, key), host_when)

    def _number(self, token: object) -> str:
        """What a number of which nothing is known is called here."""
        if isinstance(token, Value):
            # Of all else that may be compared nobody wants the name, and a function's is its whole text.
            token = token.data if token.kind == NUMBER else token.kind
        return f"{token} at {self._serial}"

    def _token(self, token: object) -> Value:
        if isinstance(token, tuple) and not isinstance(token, Place):
            return self.at(token)
        return self.value(token) if isinstance(token, Value) else NOTHING


@lru_cache(maxsize=1024)
def _index_of(step: str) -> Value | None:
    """The index or key that a step of a path names: `[0]`, `["mask"]`; None where it isn't written there."""
    try:
        return constant(ast.literal_eval(step[1:-1]))
    except (ValueError, SyntaxError):
        return None


def _placed(value: Value, place: Value) -> Value:
    if place.place == _NOWHERE:
        # No device: what is made there is made on the host, what was moved there stayed where it was.
        made = value.step is not None and value.step.message.startswith("created there")
        place = place.but(place=HOST if made else UNKNOWN_PLACE)
        if value.step is not None and made:
            value = value.but(step=value.step._replace(message=value.step.message.replace("there", "on cpu", 1)))
    return value.but(
        place=place.place, step=value.step or place.step if place.step is None else _joined(value, place),
        likely=value.likely or place.likely,
    )  # fmt: skip


def _joined(value: Value, place: Value) -> object:
    """The steps of what was given, with the function's own behind them; where a part of a module was made, its own steps tell."""
    last = value.step
    is_all = last is not None and (last.before is None or last.before.of_module)
    return last._replace(before=place.step) if last is not None and is_all else place.step


def _told(device: Value) -> Value:
    if device is NONE or device.kind is CONSTANT:
        return Value(TENSOR, _NOWHERE)
    return Value(TENSOR, device.place, likely=device.likely, step=device.step)
