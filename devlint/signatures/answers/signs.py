"""What speaks for a wait beside the code that waits: of which kinds nothing more is asked.

That something is waited for on an accelerator is sure where it is made or moved there. Where only the role of a function, or a
loop around it, says so, it hangs on what is read and how: engines keep sizes, grids and times on the host, where losses and
positions are not. The kinds that are told have been right in nine of ten cases on code that nobody had seen; of the others, who
asks for a rule by its code is told.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devlint.regexes import regex
from devlint.signatures.answers.attributes import is_cpu
from devlint.signatures.answers.waits import Stall
from devlint.signatures.state.waits import COPY, DECIDE, FLUSH, READ, SIZE, SOLVED
from devlint.source.modules import last_name

# What names are of, the first that fits: sizes come before what they are sizes of, times before their indices.
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("size", regex(r"\w{0,60}(?:grid|thw)\w{0,60}|\w{1,60}_(?:sizes?|hws?|shapes?)|sizes|shapes|hws")),
    ("count", regex(r"\w{0,60}(?:len|num_)\w{0,60}")),
    ("mask", regex(r"\w{0,60}mask\w{0,60}")),
    ("loss", regex(r"\w{0,60}loss\w{0,60}")),
    ("time", regex(r"\w{0,60}(?:time|sigma|step)\w{0,60}|t")),
    ("index", regex(r"\w{0,60}(?:ind(?:ex|ices)|idx|pos)\w{0,60}|\w{0,60}ids?")),
)
# Of which kinds a wait is told with nothing else to speak for it.
_BY_ROLE = {
    READ: frozenset({"count", "index", "loss", "mask"}),
    DECIDE: frozenset({"size", "count", "index", "loss", "other"}),
    SIZE: frozenset({"count", "index", "loss", "mask", "other"}),
    SOLVED: frozenset({"other"}),
    COPY: frozenset[str](),
}


def lacks_sign(stall: Stall, *, by_role: bool, calls: bool) -> bool:
    """Whether nothing but how code is called speaks for a wait, and it is of a kind that is often none, or that stays.

    `calls`: what makes the code hot comes to it by calls of functions.
    """
    if stall.sense == FLUSH:
        # Helpers wait, and give memory back, for whoever calls them: mostly where something ends.
        return calls
    if _is_on_host_by_default(stall) or _is_given_to_check(stall) or _is_truth_of_option(stall):
        return True
    if stall.sense not in _BY_ROLE or stall.certain or _is_there(stall):
        return False
    if stall.also_on_host or _goes_there_later(stall):
        # Whoever has it on the host on one way wants it there.
        return True
    kind = _kind(stall)
    if by_role:
        return kind not in _BY_ROLE[stall.sense]
    return kind != "loss" or _MOVES.search(stall.function.source.text) is None


# What a file says that brings something to an accelerator, or leaves that to a library.
_MOVES = regex(r"(?i)\.cuda\(|\.to\(|to_device|accelerat|lightning|fabric|deepspeed|trainer\b|device=")


def _is_on_host_by_default(stall: Stall) -> bool:
    """`def draw(n, device="cpu"): x = torch.rand(n, device=device)`: on the host, unless somebody asks for more."""
    place = stall.value.place
    given = stall.function.defaults.get(str(place.name[0])) if place.sort == "told" and place.name else None
    return given is not None and is_cpu(given)


def _goes_there_later(stall: Stall) -> bool:
    """Whether the function brings what it computes of some lengths to a device: `torch.cumsum(lengths, 0).to(device)`."""
    names = {n.id for n in ast.walk(stall.asked) if isinstance(n, ast.Name)}
    if _kind(stall) != "count" or not names:
        return False
    moves = (n for n in stall.function.nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
    return any(
        move.func.attr == "cuda" or (move.func.attr == "to" and any(map(_names_place, move.args)))
        for move in moves
        if isinstance(move.func, ast.Attribute)
        and any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(move.func.value))
    )


def _names_place(given: ast.expr) -> bool:
    """`device`, `AI_DEVICE`, `x.device`, `"cuda"`: what no type is called."""
    return _PLACE.search(ast.unparse(given)) is not None


_PLACE = regex(r"(?i)device|cuda|\brank\b")


def _is_given_to_check(stall: Stall) -> bool:
    """`check(x[mask].numel() == y.numel(), "they differ")`: whoever put that there wants to know, at any cost."""
    for parent in stall.function.source.ancestors(stall.node):
        match parent:
            case ast.Call(func=func) if parent is not stall.node and _CHECKS.search(last_name(func)):
                return True
            case ast.stmt():
                return False
    return False


_CHECKS = regex(r"(?:^|_)(?:check|assert|verify|validate)(?:_|$)")


def _is_truth_of_option(stall: Stall) -> bool:
    """`if targets:` of what is None on another way: a tensor of many elements has no truth at all."""
    if stall.sense != DECIDE or not isinstance(stall.node, ast.Name):
        return False
    function, name = stall.function, stall.node.id
    given = (function.defaults.get(name), *function.assigned.get(name, ()))
    return any(isinstance(value, ast.Constant) and value.value is None for value in given)


def _is_there(stall: Stall) -> bool:
    """Whether it is known how what is waited for came to where it is."""
    return bool(stall.trail) or stall.value.place.off_host


def is_of_loss(asked: ast.expr) -> bool:
    """Whether an expression is called a loss."""
    return _named({*_names(asked)}) == "loss"


def count_read(stall: Stall) -> str:
    """The name of lengths, or of places, that are read, where the function gives it one value: one copy of them serves all its reads."""
    asked = stall.asked
    while isinstance(asked, (ast.Subscript, ast.Call)):
        match asked:
            case (
                ast.Subscript(value=inner)
                | ast.Call(func=ast.Attribute(value=inner, attr="max" | "min" | "item"), args=[])
            ):
                asked = inner
            case _:
                return ""
    if stall.sense != READ or not isinstance(asked, ast.Name) or len(stall.function.assigned.get(asked.id, ())) > 1:
        return ""
    return asked.id if _named({asked.id}) in ("size", "count", "index") else ""


def _kind(stall: Stall) -> str:
    """What is waited for, by its names, those of the input that it comes from, and of what a loop takes it from."""
    place = stall.value.place
    parts = map(str, place.name) if isinstance(place.name, tuple) else ()
    names = {*_names(stall.asked), *(part.strip("[].'\"") for part in parts)}
    return _named(names | {name for over in _taken_from(stall, names) for name in _names(over)})


def _taken_from(stall: Stall, names: set[str]) -> Iterator[ast.expr]:
    """What the loops around a wait go over that give it one of the names: `losses` of `for v in losses.values(): v.item()`."""
    for parent in stall.function.source.ancestors(stall.node):
        match parent:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return
            case ast.For() | ast.AsyncFor():
                loops: list[ast.For | ast.AsyncFor | ast.comprehension] = [parent]
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                loops = [*parent.generators]
            case _:
                continue
        yield from (loop.iter for loop in loops if not names.isdisjoint(_names(loop.target)))


def _named(names: set[str]) -> str:
    return next((kind for kind, named in _KINDS if any(map(named.fullmatch, names))), "other")


def _names(asked: ast.expr) -> Iterator[str]:
    for node in ast.walk(asked):
        match node:
            case ast.Name(id="len"):
                # The function: what has a length is named beside it.
                continue
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.Constant(value=str(key)):
                yield key
