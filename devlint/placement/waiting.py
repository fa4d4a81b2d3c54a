"""Waits in hot code, as the signatures and the roles of functions tell of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from devlint.placement.answering import ends_answer, is_handed_out
from devlint.placement.choices import Choices
from devlint.placement.guards import Guards, saves_memory
from devlint.placement.loops import HotLoop, Program
from devlint.placement.no_wait import is_made_for_data, is_ruled_out
from devlint.placement.unmoved import is_left_on_host
from devlint.placement.values import Step
from devlint.records import record
from devlint.regexes import regex
from devlint.signatures.answers.callees import Callee
from devlint.signatures.answers.hosted import says_host
from devlint.signatures.answers.hot import Hot, HotCode
from devlint.signatures.answers.known import is_known
from devlint.signatures.answers.main_path import has_cheaper_form, is_minor
from devlint.signatures.answers.off_host import in_words
from devlint.signatures.answers.order import counts_after_matching, follows_wait, is_check, leads_to_wait
from devlint.signatures.answers.roles import is_aside, is_compiled, is_in_loop, is_of_tool
from devlint.signatures.answers.signs import count_read, is_of_loss, lacks_sign
from devlint.signatures.answers.waits import Stall, stalls
from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.waits import COPY, DECIDE, FLUSH, MADE, RACE, READ, SIZE, STAGED
from devlint.signatures.values.values import Value
from devlint.source.modules import FunctionModel, SourceModule, last_name


@record(frozen=True)
class HotStall:
    """A point of hot code where the host waits: what is done, to what, how often, and why the code is hot."""

    sense: str
    node: ast.expr | ast.stmt
    name: str
    asked: ast.expr
    value: object
    # "once a call of `Encoder.forward`"
    often: str
    certain: bool
    # How what is waited for came to be where it is, then what makes the code hot.
    trail: tuple[Step, ...]
    hot: tuple[Step, ...]
    function: FunctionModel
    # Of a copy that races: where it is read.
    use: ast.expr | None = None
    # How many loops run it, its function's calls being one.
    loops: int = 0
    # Told only where its rule is selected by its code.
    minor: bool = False
    # Hot by the role of a function, rather than by a loop around it.
    by_role: bool = False


class Waiting(Program, Protocol):
    """What is asked of the model of a file, and its signatures."""

    @property
    def reader(self) -> Reader: ...
    @property
    def project_reader(self) -> Reader: ...
    def files_naming(self, name: str) -> Sequence[Waiting]: ...
    def file_of(self, source: SourceModule) -> Waiting | None: ...
    def project_gives(self, name: str) -> bool: ...
    def texts_match(self, pattern: str, *, elsewhere: bool = ...) -> bool: ...
    @property
    def choices(self) -> Choices: ...
    def is_dead(self, node: ast.AST) -> bool: ...
    def hot_code(self, between: int = ...) -> HotCode: ...


# So many files may lie between what makes a function hot and the one that waits.
MAX_FILES_BETWEEN = 2


def hot_code(model: Waiting, patterns: tuple[str, ...], between: int) -> HotCode:
    """The hot code of a file, with what the hot code of those that import it calls, so many files away."""

    def elsewhere(function: FunctionModel) -> Iterator[HotCode]:
        files = (f for m in _defining(model, function) for f in m.files_naming(function.name)) if between else ()
        for other in dict.fromkeys(files):
            if other.source.path != model.source.path:
                yield other.hot_code(between - 1)

    def of_file(source: SourceModule) -> HotCode | None:
        other = model.file_of(source) if between else None
        return other.hot_code(between - 1) if other is not None and other.source.path != model.source.path else None

    guards = Guards(model)
    return HotCode(model.project_reader, model.source, patterns, guards.is_cold, elsewhere, guards.is_rare, of_file)


def _defining(model: Waiting, function: FunctionModel) -> Iterator[Waiting]:
    """The file of a function, and those of the classes whose method it overrides: who imports them may call it."""
    yield model
    if function.cls is not None:
        info = model.project_reader.class_info(model.source, function.cls)
        sources = dict.fromkeys(c.source for c in info.lineage() if c.source is not model.source)
        yield from (m for s in sources if (m := model.file_of(s)) is not None)


def stalls_of(model: Waiting) -> list[HotStall]:
    """The stalls of a file's hot code, in reading order; a copy that races is told wherever it stands."""
    reader = model.reader
    guards = Guards(model)
    found = sorted(stalls(reader, model.source), key=lambda s: (s.node.lineno, s.node.col_offset))
    waiting = [s for s in found if s.sense == RACE or not is_ruled_out(model, s)]
    if not waiting:
        return []
    hot = model.hot_code()
    beside = _Beside(model.source, waiting, guards.is_rare)
    told: list[HotStall] = []
    for stall in waiting:
        if stall.sense == RACE:
            told.append(_told(stall, "", (), 0))
        elif _makes_room(model, stall):
            continue
        elif (role := hot.of(stall.function)) is not None:
            told += _told_by_role(model, stall, role, guards, beside)
        elif (loop := model.hot_loop(stall.node)) is not None:
            told += _told_in_loop(model, stall, loop, beside)
    return _once_each(_at_one_go(told))


def _told_by_role(model: Waiting, stall: Stall, role: Hot, guards: Guards, beside: _Beside) -> Iterator[HotStall]:
    """A stall in a function that is hot by itself, unless it is known not to wait, or hardly ever runs."""
    if (
        (stall.supposed and not _speaks_of_devices(model, role.root))
        # What is traced makes a constant of it.
        or (stall.sense == MADE and is_compiled(stall.function))
        or guards.is_cold(stall.node)
        or (role.once and not is_in_loop(model.source, stall.node))
        or _is_given_on_host(stall, role)
        or _brings_request(stall)
        or is_made_for_data(model, stall.function)
        or is_handed_out(model, stall, role)
    ):
        return
    minor = is_minor(model.project_reader, stall, role, model.project_gives) or beside.covers(stall)
    minor = beside.repeats(stall, minor=minor)
    minor = minor or _judges_data(model, stall) or lacks_sign(stall, by_role=True, calls=bool(role.calls))
    often, loops = _often(model, stall, role), 1 + _loops(model, stall)
    yield _told(stall, often, tuple(_way(role)), loops, minor=minor, by_role=True)


def _told_in_loop(model: Waiting, stall: Stall, loop: HotLoop, beside: _Beside) -> Iterator[HotStall]:
    """A stall in a loop that trains or evaluates."""
    if (
        is_of_tool(model.source.path)
        or model.is_dead(stall.node)
        or is_left_on_host(model, stall, loop)
        or ends_answer(model, stall)
    ):
        return
    minor = loop.is_minor or is_aside(model.source.path) or is_known(stall) or beside.covers(stall)
    minor = minor or lacks_sign(stall, by_role=False, calls=bool(loop.path))
    yield _told(stall, "at each step", (_loop(loop), *loop.path), model.loops_to(stall.node), minor=minor)


class _Beside:
    """The waits of a file that come beside others, at which the host would wait as long without them."""

    def __init__(self, source: SourceModule, waiting: Sequence[Stall], is_rare: Callable[[ast.AST], bool]) -> None:
        self._source = source
        self._is_rare = is_rare
        checks = {id(s.node): s.function for s in waiting if s.sense == DECIDE and is_check(source, s.node)}
        beyond = {
            s.function for s in waiting if s.sense not in (RACE, STAGED, MADE, FLUSH) and id(s.node) not in checks
        }
        # Those that only look whether all is well, in functions that wait for more than that.
        self._checks = {node for node, function in checks.items() if function in beyond}
        self._waits = {id(s.node) for s in waiting if s.sense not in (RACE, STAGED)} - self._checks
        self._names = {s.function.name for s in waiting if s.sense not in (RACE, STAGED)}
        # Those that stay: sizes that only the values tell.
        self._lasting = {id(s.node) for s in waiting if s.sense == SIZE and not has_cheaper_form(s)}
        # What was handed to functions and is waited for: whoever brings it to the host once mends the rest.
        self._handed: set[str] = set()
        # What a function has read of what it has under a name of its own, and by which choices each comes there.
        self._read: dict[tuple[FunctionModel, str], list[frozenset[tuple[int, str]]]] = {}

    def covers(self, stall: Stall) -> bool:
        """Whether a wait is one of those."""
        node = stall.node
        return (
            id(node) in self._checks
            or follows_wait(self._source, node, self._waits, self._names, self._is_rare)
            or leads_to_wait(self._source, node, self._lasting)
            or counts_after_matching(self._source, node)
        )

    def repeats(self, stall: Stall, *, minor: bool) -> bool:
        """Whether a wait is `minor`, or an earlier one was for the same thing: asked of each, in their order."""
        if not minor and (name := _handed(stall)):
            minor = name in self._handed
            self._handed.add(name)
        if name := count_read(stall):
            chosen = _choices_to(self._source, stall.node)
            reads = self._read.setdefault((stall.function, name), [])
            minor = minor or any(before <= chosen for before in reads)
            reads.append(chosen)
        return minor


def _once_each(found: list[HotStall]) -> list[HotStall]:
    """The same, where what a function reads again, having given it no other value since, is minor: the number is at hand."""
    earlier: dict[tuple[FunctionModel, str], list[tuple[int, frozenset[tuple[int, str]]]]] = {}
    told = []
    for stall in found:
        again = False
        if stall.sense in (READ, COPY):
            reads = earlier.setdefault((stall.function, ast.unparse(stall.node)), [])
            chosen = _choices_to(stall.function.source, stall.node)
            again = any(choices <= chosen and not _is_given_between(stall, line) for line, choices in reads)
            # What is told stands for the rest, wherever that is.
            reads.append((stall.node.lineno, chosen if stall.minor else frozenset()))
        told.append(replace(stall, minor=True) if again else stall)
    return told


def _is_given_between(stall: HotStall, line: int) -> bool:
    """Whether a function gives what it waits for another value behind a line."""
    roots = {n.id for n in ast.walk(stall.node) if isinstance(n, ast.Name)}
    given = (v.lineno for name in roots for v in stall.function.assigned.get(name, ()))
    return any(line < at < stall.node.lineno for at in given)


def _choices_to(source: SourceModule, node: ast.AST) -> frozenset[tuple[int, str]]:
    """The choices that lead to a node in its function: what stands in fewer of them runs whenever it does."""
    chosen = set[tuple[int, str]]()
    child = node
    for parent in source.ancestors(node):
        match parent:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                break
            case ast.If(test=test, body=body) | ast.IfExp(test=test, body=body) if child is not test:
                taken = child in body if isinstance(body, list) else child is body
                chosen.add((id(parent), "body" if taken else "else"))
            case ast.BoolOp(values=[first, *_]) if child is not first:
                chosen.add((id(parent), str(id(child))))
        child = parent
    return frozenset(chosen)


def _judges_data(model: Waiting, stall: Stall) -> bool:
    """Whether a loop over the batches of a loader runs a wait, and nothing is trained in it: a model is judged by them."""
    loop = model.hot_loop(stall.node)
    return loop is not None and loop.kind == "batch" and loop.evaluates


# So many readings of losses in one function are there to be logged: one patch mends them all.
_LOGGED = 3


def _at_one_go(found: list[HotStall]) -> list[HotStall]:
    """Of the losses that a function reads one by one the first, with the others as notes; those are minor."""
    reads: dict[ast.AST, list[HotStall]] = {}
    for stall in found:
        if stall.sense == READ and not stall.minor and is_of_loss(stall.asked):
            reads.setdefault(stall.function.node, []).append(stall)
    told = {}
    for first, *others in reads.values():
        if len(others) + 1 >= _LOGGED:
            path = first.function.source.path
            more = (Step("read as well", path, other.node.lineno, other.node.col_offset) for other in others)
            told[id(first)] = replace(first, hot=(*first.hot, *more))
            told |= {id(other): replace(other, minor=True) for other in others}
    return [told.get(id(stall), stall) for stall in found]


def _makes_room(model: Waiting, stall: Stall) -> bool:
    """Whether memory is given back for somebody who asked to do with little of it: `if offload: torch.cuda.empty_cache()`."""
    if stall.sense != FLUSH or not stall.name.endswith(("empty_cache", "gc.collect")):
        return False
    return saves_memory(model, stall.node)


# Names that say nothing of what is handed.
_PLAIN = regex(r"self|cls|\w|inputs?|outputs?|hidden_states|tensors?|data|values?|batch|logits|scores?|loss|args|mask")


def _handed(stall: Stall) -> str:
    """The parameter whose values are waited for, where its name tells what that is."""
    node = stall.asked if stall.sense in (READ, COPY, DECIDE, SIZE) else None
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.BinOp, ast.Compare)):
        match node:
            case ast.Call(func=inner) | ast.Attribute(value=inner) | ast.Subscript(value=inner):
                node = inner
            case ast.BinOp(left=inner) | ast.Compare(left=inner):
                node = inner
    names = {p.arg for p in stall.function.parameters}
    return node.id if isinstance(node, ast.Name) and node.id in names and not _PLAIN.fullmatch(node.id) else ""


def _speaks_of_devices(model: Waiting, root: FunctionModel) -> bool:
    """Whether the function that makes code hot is a module's, or speaks of devices."""
    cls = model.reader.class_info(root.source, root.cls) if root.cls is not None else None
    return (cls is not None and cls.is_module) or in_words(root)


def _is_given_on_host(stall: Stall, hot: Hot) -> bool:
    """Whether the call that makes a function hot gives what is waited for under a name that says: this is on the host.

    Or a number for what has to be a tensor.
    """
    node = hot.calls[-1][1] if hot.calls else None
    if not isinstance(node, ast.Call) or last_name(node.func) != stall.function.name:
        return False
    bound = stall.function.cls is not None and not stall.function.is_static
    given = Callee(stall.function, bound).given(node)
    if any(isinstance(given.get(name), ast.Constant) for name in stall.of_tensors):
        return True
    place = stall.value.place if isinstance(stall.value, Value) else None
    if place is None or place.sort != "input" or not place.name:
        return False
    value = given.get(str(place.name[0]))
    return value is not None and says_host(value)


# Functions that make a tensor of what a request brings: it has to be uploaded.
_BRINGING = regex(
    r"_?(?:pre_?process|load)_(?:\w{1,60}_)?(?:images?|videos?|audios?|frames?|wavs?|waveforms?|pixels?|prompts?|texts?)(?:_\w{1,60})?"
)


def _brings_request(stall: Stall) -> bool:
    """Whether a stall is the upload of what a request brings, by the name of its function."""
    return stall.sense == MADE and _BRINGING.fullmatch(stall.function.name) is not None


def _told(
    stall: Stall, often: str, hot: tuple[Step, ...], loops: int, *, minor: bool = False, by_role: bool = False
) -> HotStall:
    trail = tuple(Step(s.message, s.path, s.line, s.column) for s in stall.trail)
    return HotStall(
        stall.sense, stall.node, stall.name, stall.asked, stall.value, often, stall.certain, trail, hot, stall.function,
        stall.use,
        loops,
        minor,
        by_role,
    )  # fmt: skip


def _loops(model: Waiting, stall: Stall) -> int:
    """How many loops of its own function run a stall."""
    return sum(
        isinstance(parent, (ast.For, ast.AsyncFor, ast.While)) for parent in _repeating(model.source, stall.node)
    )


def _repeating(source: SourceModule, node: ast.AST) -> Iterator[ast.AST]:
    """The loops and comprehensions of a function that run a node again and again, the nearest first."""
    child = node
    for parent in source.ancestors(node):
        match parent:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return
            case ast.For(iter=once) | ast.AsyncFor(iter=once):
                if child is not once:
                    yield parent
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                first = parent.generators[0]
                if child is not first or not _is_in(node, first.iter):
                    yield parent
            case ast.While():
                yield parent
        child = parent


def _is_in(node: ast.AST, around: ast.AST) -> bool:
    return any(part is node for part in ast.walk(around))


def _loop(loop: HotLoop) -> Step:
    return Step(f"hot: {loop.reason}", loop.file, loop.line, loop.column)


def _often(model: Waiting, stall: Stall, hot: Hot) -> str:
    """How often code runs that a function hot by its role leads to: by the nearest loop, its own or that of a call on the way."""
    once = f"call of `{_named(hot.root)}`{_option(model, stall.node)}"
    way = [(model.source, stall.node), *reversed(hot.calls)]
    source, around = next(((s, loop) for s, node in way for loop in _repeating(s, node)), (model.source, None))
    if around is None:
        return f"once a {once}"
    if isinstance(around, (ast.For, ast.AsyncFor, ast.While)):
        return f"at each pass of {_header(around)}{_line(source, around, model.source)}, in each {once}"
    return f"for each element, in each {once}"


# A loop, or an option, of more letters tells a reader less than the line itself.
_MAX_OPTION = 40


def _header(loop: ast.For | ast.AsyncFor | ast.While) -> str:
    """A loop in its own words, where those are few."""
    text = (
        f"while {ast.unparse(loop.test)}"
        if isinstance(loop, ast.While)
        else f"for {ast.unparse(loop.target).strip('()')} in {ast.unparse(loop.iter)}"
    )
    return f"`{text}`" if len(text) <= _MAX_OPTION else "the loop"


def _line(source: SourceModule, loop: ast.stmt, at: SourceModule) -> str:
    return f" on line {loop.lineno}" if source is at else f" in {source.file.name}:{loop.lineno}"


def _option(model: Waiting, node: ast.AST) -> str:
    """The option in its own function that a node runs under, or whenever it is off, in words: `if self.count:`."""
    child = node
    for parent in model.ancestors(node):
        match parent:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return ""
            case ast.If(test=test, body=body, orelse=orelse) if child in (*body, *orelse) and _is_option(test):
                text = ast.unparse(test)
                under = f" under `if {text}`" if child in body else f" unless `{text}`"
                return under if len(text) <= _MAX_OPTION else ""
        child = parent
    return ""


def _is_option(test: ast.expr) -> bool:
    """`flag`, `self.flag`, `mode == "fast"`, `size is not None`."""
    match test:
        case ast.Compare(left=left, comparators=[ast.Constant()]):
            return isinstance(left, (ast.Name, ast.Attribute))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return isinstance(operand, (ast.Name, ast.Attribute))
    return isinstance(test, (ast.Name, ast.Attribute))


def _named(function: FunctionModel) -> str:
    return f"{function.cls.name}.{function.name}" if function.cls is not None else function.name


def _way(hot: Hot) -> Iterator[Step]:
    """The function that is hot by its role, and the calls that lead from it."""
    root = hot.root
    yield Step(
        f"hot: `{_named(root)}` is called again and again", root.source.path, root.node.lineno, root.node.col_offset
    )
    for source, node in hot.calls:
        more = f", as from {hot.ways - 1} other places" if hot.ways > 1 and node is hot.calls[-1][1] else ""
        yield Step(f"called from here{more}", source.path, node.lineno, node.col_offset)
