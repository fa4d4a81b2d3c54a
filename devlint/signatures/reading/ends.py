"""What the end of a scope leaves behind: for those who see it from outside, and for its signature."""

from __future__ import annotations

from devlint.signatures.state.frame import ANYTHING, PLACE, Frame, Key
from devlint.signatures.state.outcome import Effect, Need
from devlint.signatures.values.values import HOST, TENSOR, UNKNOWN_PLACE, Cell, Value, leaves
from devlint.source.modules import FunctionModel

# Needs that a signature keeps for its callers.
MAX_KEPT_NEEDS = 80


def forget_moves_since(frame: Frame, nested: FunctionModel) -> None:
    """Before a function that was handed out is read: a module that was placed, and moved on since, may be anywhere by then."""
    for key, then in frame.placed_then.get(nested, {}).items():
        now = frame.env.get(key)
        if now is not None and now.place != then.place and then.place != HOST and then.kind is TENSOR:
            frame.env[key] = Value(TENSOR, UNKNOWN_PLACE)


def leave_behind(frame: Frame) -> None:
    """Leaves what a scope made for those that see it from outside."""
    for key, value in frame.env.items():
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], Cell):
            key[0].last[key[1]] = value


def outcome_of(frame: Frame, entry: dict[Key, Value]) -> tuple[tuple[Effect, ...], dict[Cell, dict[str, Value]]]:
    """What a scope's end leaves changed of its inputs, and of what it made."""
    effects: list[Effect] = []
    cells: dict[Cell, dict[str, Value]] = {}
    for key, value in frame.env.items():
        if not isinstance(key, tuple) or len(key) != 2:
            continue
        identity, slot = key
        if isinstance(identity, Cell):
            cells.setdefault(identity, {})[slot] = value
        elif (
            isinstance(identity, tuple)
            and entry.get(key) is not value
            and identity[:1] != ("class",)
            and not str(identity[0]).startswith("#")
        ):
            effects.append(Effect(identity, slot, value))
    # The place of the whole before the places of its parts.
    effects.sort(key=lambda e: (e.slot != ANYTHING, len(e.path), e.slot == PLACE))
    return tuple(effects), cells


def open_needs(frame: Frame) -> tuple[Need, ...]:
    """The needs that a caller's values decide, one of each kind."""
    found: dict[object, Need] = {}
    for need in frame.needs:
        options = [o for _, v in need.operands for _, o in leaves(v, frame.atoms)]
        if not any(o.place.is_open or o.path is not None or isinstance(o.data, tuple) for o in options):
            continue
        places = frozenset((o.place, o.rank) for o in options)
        key = (need.sense, places, need.name if need.sense != "operation" else "", need.path)
        if key not in found:
            found[key] = need
    return tuple(found.values())[:MAX_KEPT_NEEDS]
