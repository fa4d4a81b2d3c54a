"""Which loads are mended together: of those that fail on the same machine all are, or none is."""

from __future__ import annotations

import ast
from itertools import islice
from typing import TYPE_CHECKING

from devlint.facts import last_name, own_nodes, walk
from devlint.lazy import regex
from devlint_rules.beside import other_branches
from devlint_rules.checkpoints.caches import is_cache
from devlint_rules.checkpoints.contents import is_of_checkpoint, is_of_data
from devlint_rules.checkpoints.landings import is_only_read, lands_anywhere
from devlint_rules.checkpoints.origins import is_own
from devlint_rules.checkpoints.provided import is_given_up, is_provided_for, is_tried_again
from devlint_rules.checkpoints.published import is_of_base
from devlint_rules.checkpoints.readers import has_device
from devlint_rules.checkpoints.uncalled import is_of_no_call
from devlint_rules.checkpoints.uses import goes_into_load_state_dict, holds_arrays, is_host_data, uses_of

if TYPE_CHECKING:
    from devlint.facts import Facts


# What loads lie so many lines apart at most is of one thing, whatever it is called.
_NEAR = 12


def stays_half_done(found: ast.Call, facts: Facts) -> bool:
    """Whether another load of the same function, class or program stays as it is, and fails where this one would."""
    loads = (n for n in _around(found, facts) if isinstance(n, ast.Call) and _is_open(n, found, facts))
    return any(_is_left(n, found, facts) for n in loads) or _is_told_by_caller(found, facts)


def _is_told_by_caller(found: ast.Call, facts: Facts) -> bool:
    """Whether another load of the function asks whoever calls it where to, who may leave that out: `map_location=map_location`, which is None by default.

    Or it says `map_location=None` itself, which is no place.
    """
    scope = facts.model.enclosing_scope(found)
    if isinstance(scope, ast.Module):
        return False
    defaults = facts.model.source.function_at(scope).defaults
    optional = {name for name, value in defaults.items() if isinstance(value, ast.Constant) and value.value is None}
    return any(
        isinstance(n, ast.Call)
        and ast.dump(n.func) == ast.dump(found.func)
        and any(k.arg == "map_location" and ast.unparse(k.value) in {"None", *optional} for k in n.keywords)
        for n in own_nodes(scope)
    )


def _around(found: ast.Call, facts: Facts) -> list[ast.AST]:
    """What runs, or is used, together with a load."""
    if _PROGRAM.search(facts.text.text):
        return walk(facts.model.source.tree)
    classes = [p for p in facts.model.ancestors(found) if isinstance(p, ast.ClassDef)]
    return walk(classes[0]) if classes else own_nodes(facts.model.enclosing_scope(found))


_PROGRAM = regex(r"__name__ == ['\"]__main__['\"]")


def _is_open(node: ast.Call, found: ast.Call, facts: Facts) -> bool:
    """Whether another call of the same function, under the same name, doesn't say where to either."""
    return (
        node is not found
        and len(node.args) == 1
        and last_name(node.func) == last_name(found.func)
        and all(k.arg not in ("map_location", None) for k in node.keywords)
        and ast.dump(node.func) == ast.dump(found.func)
    )


def in_other_branches(found: ast.Call, facts: Facts) -> list[ast.Call]:
    """The loads of the same name on other branches of a test, of files of which nothing is told: a reader mends them along."""
    statement = facts.model.source.statement_of(found)
    if not isinstance(statement, ast.Assign):
        return []
    return [
        n.value
        for other in other_branches(statement, facts)
        for n in walk(other)
        if isinstance(n, ast.Assign)
        and isinstance(n.value, ast.Call)
        and [*map(ast.dump, n.targets)] == [*map(ast.dump, statement.targets)]
        and _is_open(n.value, found, facts)
        and may_be_mended(n.value, facts)
    ]


def _is_left(call: ast.Call, found: ast.Call, facts: Facts) -> bool:
    is_beside = facts.model.enclosing_scope(call) is facts.model.enclosing_scope(found)
    if not is_beside and not _stays(call, facts):
        return False
    uses = uses_of(call, facts)
    if any(holds_arrays(use, facts) for use in uses) or (uses and all(is_host_data(u, facts) for u in uses)):
        return False
    is_near = is_beside and (_is_in_one_loop(call, found, facts) or abs(call.lineno - found.lineno) <= _NEAR)
    if is_of_data(call, facts) or not (is_near or is_of_checkpoint(call, facts)):
        return False
    if is_own(call, 0, facts):
        # What is a cache by its name may lie beside what is loaded here, and have come with it.
        return is_near and (is_cache(call, call.args[0], facts) or _is_moved_alike(call, found, facts))
    if is_beside and is_given_up(call, facts):
        return True
    if is_provided_for(call, facts):
        return False
    if not is_beside and (facts.model.is_unused(call) or is_of_no_call(call, facts) or has_device(call, facts)):
        return False
    return not is_beside or _stays(call, facts)


def _stays(call: ast.Call, facts: Facts) -> bool:
    """Whether a load that fails like another one isn't told, or has no fix."""
    return is_of_base(call) or is_tried_again(call, facts) or not may_be_mended(call, facts)


def _is_moved_alike(one: ast.Call, other: ast.Call, facts: Facts) -> bool:
    """`first = torch.load(a).to(device)`, `second = torch.load(b).to(device)`: a reader sees both as one thing."""
    moves = [_move_of(call, facts) for call in (one, other)]
    return moves[0] is not None and moves[0] == moves[1]


def _move_of(call: ast.Call, facts: Facts) -> tuple[str, list[str]] | None:
    """What the method that is called on a load's result is called, and what it is given."""
    attribute, outer = islice((*facts.model.ancestors(call), None, None), 2)
    match attribute, outer:
        case ast.Attribute(attr=name), ast.Call(func=func, args=args) if func is attribute:
            return name, [*map(ast.dump, args)]
    return None


def _is_in_one_loop(one: ast.Call, other: ast.Call, facts: Facts) -> bool:
    loop = _loop_around(one, facts)
    return loop is not None and loop is _loop_around(other, facts)


def _loop_around(node: ast.AST, facts: Facts) -> ast.AST | None:
    loops = (p for p in facts.model.ancestors(node) if isinstance(p, (ast.For, ast.While, ast.FunctionDef)))
    first = next(loops, None)
    return first if isinstance(first, (ast.For, ast.While)) else None


def loads_of_same(found: ast.Call, facts: Facts) -> list[ast.Call]:
    """The other calls of a scope that load the same file, and don't say where to either."""
    scope = facts.model.enclosing_scope(found)
    return [
        n
        for n in own_nodes(scope)
        if n is not found and isinstance(n, ast.Call) and _is_same_call(n, found) and not _is_read_as_array(n, facts)
    ]


def _is_same_call(one: ast.Call, other: ast.Call) -> bool:
    return bool(one.args) and last_name(one.func) == last_name(other.func) and ast.dump(one) == ast.dump(other)


def _is_read_as_array(call: ast.Call, facts: Facts) -> bool:
    return any(holds_arrays(use, facts) for use in uses_of(call, facts))


def may_be_mended(found: ast.Call, facts: Facts) -> bool:
    """Whether what is loaded, and all that the same scope loads of the same file, may be on the host; one of them at least is copied."""
    calls = [found, *loads_of_same(found, facts)]
    lands = [goes_into_load_state_dict(call, facts) or lands_anywhere(call, facts) for call in calls]
    return any(lands) and all(ok or is_only_read(call, facts) for ok, call in zip(lands, calls, strict=True))
