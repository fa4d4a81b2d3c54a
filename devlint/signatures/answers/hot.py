"""Hot by role: functions that run once a step, a token, a request or a batch, though no loop around them is in sight.

`roles.py` says which functions are hot by themselves; what those call is hot too, unless it is cold by its name.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from devlint.knowledge import torch_knowledge
from devlint.signatures.answers.replaced import is_replaced
from devlint.signatures.answers.roles import (
    answers_request,
    has_role,
    is_cold_file,
    is_cold_function,
    is_compiled,
    is_helper,
    is_hot_by_calls,
    is_in_loop,
)
from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.classes import ClassInfo
from devlint.source.modules import FunctionModel, SourceModule, dotted
from devlint.source.project import Project
from devlint.source.units import all_functions

# Calls are followed this far from a function that is hot by itself.
MAX_CALLS = 6


# Names that so many things have that a call of one says nothing of who is called.
_COMMON = frozenset(
    {"to", "get", "set", "add", "update", "append", "forward", "step", "copy", "clone", "reset", "items", "keys", "values",
     "size", "view", "sum", "mean", "apply", "run", "close", "device", "dtype", "shape", "mask", "data", "pop", "index", "split", "build", "load", "save", "log"}
)  # fmt: skip


# Names that methods of several classes of a project have: which of them another file calls isn't told.
_OF_MANY = frozenset(
    {"infer", "encode", "decode", "process", "prepare", "predict", "generate", "sample", "init", "setup", "start", "stop", "end",
     "execute", "compute", "get_output", "finish", "train", "eval", "fit", "score", "transform", "convert", "select", "send", "quantize", "dequantize", "initialize"}
)  # fmt: skip


class Hot(NamedTuple):
    """Why a function is hot: the function that is so by its role, and the calls that lead from it."""

    root: FunctionModel
    calls: tuple[tuple[SourceModule, ast.Call | ast.expr], ...] = ()
    # How many hot functions call it.
    ways: int = 1
    # It runs once a request: only what stands in its loops runs again and again.
    once: bool = False


class HotCode:
    """Which functions of a file are hot, and why."""

    def __init__(
        self,
        reader: Reader,
        source: SourceModule,
        patterns: Iterable[str] = (),
        is_cold: Callable[[ast.AST], bool] = lambda node: False,
        elsewhere: Callable[[FunctionModel], Iterable[HotCode]] = lambda function: (),
        is_rare: Callable[[ast.AST], bool] = lambda node: False,
        of_file: Callable[[SourceModule], HotCode | None] = lambda source: None,
    ) -> None:
        """`elsewhere` gives the hot code of other files that may call a function of this one, `of_file` that of a file.

        What is rare runs now and then; that is cold as well.
        """
        self._reader = reader
        self._source = source
        self._patterns = tuple(patterns)
        self._is_cold = is_cold
        self._elsewhere = elsewhere
        self._is_rare = is_rare
        self._of_file = of_file
        self._asked: dict[FunctionModel, Hot | None] = {}
        self._functions = list(all_functions(source))
        self._methods: dict[str, list[FunctionModel]] = {}
        self._nested: dict[FunctionModel, dict[str, FunctionModel]] = {}
        for function in self._functions:
            if function.cls is not None:
                self._methods.setdefault(function.name, []).append(function)
            if function.parent is not None:
                self._nested.setdefault(function.parent, {})[function.name] = function
        # The functions of this file that call each one, with the calls.
        self._callers: dict[FunctionModel, list[tuple[FunctionModel, ast.expr]]] = {}
        self._found = self._search()

    def of(self, function: FunctionModel | None) -> Hot | None:
        """Why a function is hot; None where it isn't."""
        if function is None or function in self._found:
            return self._found.get(function) if function is not None else None
        if function not in self._asked:
            self._asked[function] = self._by_others(function)
        return self._asked[function]

    def _by_others(self, function: FunctionModel) -> Hot | None:
        """Why a function is hot that only the hot code of other files leads to, by way of this file's functions."""
        if is_cold_file(self._source.path):
            return None
        ways: dict[FunctionModel, tuple[tuple[SourceModule, ast.expr], ...]] = {function: ()}
        waiting = deque(ways)
        while waiting:
            here = waiting.popleft()
            if is_cold_function(here):
                continue
            told = self._called_elsewhere(here)
            if told is not None:
                once = told.once and not any(is_in_loop(self._source, node) for _, node in ways[here])
                return told._replace(calls=(*told.calls, *ways[here]), once=once)
            if len(ways[here]) < MAX_CALLS:
                for caller, node in self._callers.get(here, ()):
                    if caller not in ways and not self._is_cold(node):
                        ways[caller] = ((self._source, node), *ways[here])
                        waiting.append(caller)
        return None

    def _called_elsewhere(self, function: FunctionModel) -> Hot | None:
        """Why a function is hot that hot code of another file calls."""
        if function.parent is not None or (function.cls is not None and not _is_telling(function)):
            return None
        told = (told for other in self._elsewhere(function) if (told := other.calling(function)))
        return _most_often(told)

    def calling(self, function: FunctionModel) -> Hot | None:
        """Why a function of another file is hot which this file's hot code calls, or hands on; None where none does."""
        if function.cls is not None and any(f.name == function.name for f in self._functions if f.cls is not None):
            # Nobody knows which of them is called.
            return None
        return _most_often(self._uses(function, _names_of(self._reader.project, function, self._source)))

    def _uses(self, function: FunctionModel, names: set[str]) -> Iterator[Hot]:
        """Why a function of another file is hot, by each use of it in this file's hot code."""
        for caller in self._functions:
            for node in caller.nodes:
                if _is_use(node, function, names) and isinstance(node, ast.expr) and not self._is_cold(node):
                    hot = self.of(caller)
                    if hot is None:
                        break
                    once = hot.once and not is_in_loop(self._source, node)
                    yield Hot(hot.root, (*hot.calls, (self._source, node)), once=once)

    def _search(self) -> dict[FunctionModel, Hot]:
        """Each function that a hot one leads to, by the shortest way."""
        if is_cold_file(self._source.path):
            return {}
        leaving = {function: list(self._called_by(function)) for function in self._functions}
        for caller, called_by_it in leaving.items():
            for called, node in called_by_it:
                self._callers.setdefault(called, []).append((caller, node))
        unmet = self._met_only_cold()
        roots = [f for f in self._functions if f not in unmet and self.is_root(f) and not self._is_unused(f)]
        roots = [f for f in roots if not self.is_met_rarely(f)]
        found: dict[FunctionModel, Hot] = {f: Hot(f) for f in roots if not self._answers_request(f)}
        callers: dict[FunctionModel, set[FunctionModel]] = {f: set() for f in roots}
        waiting = deque(found)
        while waiting or (waiting := self._next_request(roots, found)):
            function = waiting.popleft()
            here = found[function]
            if len(here.calls) >= MAX_CALLS:
                continue
            for called, node in leaving[function]:
                if is_cold_function(called) and not self._is_named_hot(called):
                    continue
                if self._is_cold(node):
                    continue
                callers.setdefault(called, set()).add(function)
                once = here.once and not is_in_loop(self._source, node)
                if called not in found or (found[called].once and not once):
                    found[called] = Hot(here.root, (*here.calls, (self._source, node)), once=once)
                    waiting.append(called)
        return {f: hot._replace(ways=max(len(callers[f]), 1)) for f, hot in found.items()}

    def _next_request(self, roots: list[FunctionModel], found: dict[FunctionModel, Hot]) -> deque[FunctionModel]:
        """The functions that answer a request, and that nothing was found to call again and again."""
        left = [f for f in roots if f not in found]
        found.update((f, Hot(f, once=True)) for f in left)
        return deque(left)

    def _answers_request(self, function: FunctionModel) -> bool:
        """Whether a function does all that a request asks for: the call of a pipeline, or a stage of one."""
        return not self._is_named_hot(function) and answers_request(function, self._class_of(function))

    def _met_only_cold(self) -> set[FunctionModel]:
        """Helpers that something calls, and that only cold code does: constructors, what is cached, what runs once."""
        calls = self._callers
        # A rank without requests makes a dummy run at each step of the others: that says nothing of what it calls.
        told = [f for f in self._functions if "dummy" not in f.name and not self._is_named_hot(f)]
        cold = {f for f in told if is_cold_function(f)}
        unmet: set[FunctionModel] = set()
        helpers = [f for f in told if f in calls and f not in cold and is_helper(f.name)]
        growing = True
        while growing:
            more = {
                f
                for f in helpers
                if f not in unmet
                and all(caller in cold or caller in unmet or self._is_cold(node) for caller, node in calls[f])
            }
            unmet |= more
            growing = bool(more)
        return unmet

    def is_met_rarely(self, function: FunctionModel) -> bool:
        """Whether something calls a function, or the one whose place it takes, and all that does runs now and then."""
        if self._is_named_hot(function) or function.name.startswith(("__", "forward")):
            return False
        info = self._class_of(function)
        before = info.inherited_method(function.name) if info is not None else None
        if before is not None and before is not function:
            file = self._of_file(before.source)
            return file is not None and file.is_met_rarely(before)
        calls = self._callers.get(function, ())
        if not calls or not all(self._is_rare(node) for _, node in calls):
            return False
        called = rf"(?<!def )(?<!super\(\)\.)\b{function.name}\s*\("
        return not self._reader.project.texts_match(called, self._source.file)

    def is_root(self, function: FunctionModel) -> bool:
        """Whether a function is hot by its role."""
        if self._is_named_hot(function):
            return True
        if function.is_property:
            # Whoever reads it makes it hot.
            return False
        if is_cold_function(function) or is_replaced(self._reader, function):
            return False
        if any(is_hot_by_calls(f.name) for f in _with_outer(function)):
            return False
        return is_compiled(function) or has_role(function.name, self._class_of(function))

    def _is_unused(self, function: FunctionModel) -> bool:
        return not self._is_named_hot(function) and is_unused(self._reader.project, function)

    def _is_named_hot(self, function: FunctionModel) -> bool:
        """Whether the settings name a function: `encode`, `Engine.schedule`."""
        names = [function.name]
        if function.cls is not None:
            names.append(f"{function.cls.name}.{function.name}")
        return any(fnmatchcase(name, pattern) for name in names for pattern in self._patterns)

    def _class_of(self, function: FunctionModel) -> ClassInfo | None:
        scope: FunctionModel | None = function
        while scope is not None and scope.cls is None:
            scope = scope.parent
        if scope is None or scope.cls is None:
            return None
        return self._reader.class_info(self._source, scope.cls)

    # -- calls -----------------------------------------------------------------------------------------------------

    def _called_by(self, function: FunctionModel) -> Iterator[tuple[FunctionModel, ast.expr]]:
        """The functions of this file that a function calls, or hands to something that will."""
        nested = self._nested.get(function.parent, {}) if function.parent is not None else {}
        nested = nested | self._nested.get(function, {})
        info = self._class_of(function)
        for node in function.nodes:
            if isinstance(node, ast.Call):
                for reference in (node.func, *node.args, *(k.value for k in node.keywords)):
                    called = self._meant(reference, function, nested, info, is_call=reference is node.func)
                    if called is not None and called is not function:
                        yield called, node
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and info is not None:
                method = info.method(node.attr) if node.value.id == "self" else None
                if method is not None and method.is_property and method.source is self._source:
                    yield method, node

    def _meant(
        self,
        reference: ast.expr,
        function: FunctionModel,
        nested: dict[str, FunctionModel],
        info: ClassInfo | None,
        *,
        is_call: bool,
    ) -> FunctionModel | None:
        match reference:
            case ast.Name(id=name):
                if name in nested:
                    return nested[name]
                return self._top_level(name) if is_call or name not in function.local_names else None
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name) if info is not None:
                method = info.method(name)
                return method if method is not None and method.source is self._source else None
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name) if info is not None:
                method = info.inherited_method(name)
                return method if method is not None and method.source is self._source else None
            case ast.Attribute(value=owner, attr=name) if is_call and name not in _COMMON:
                own = self._methods.get(name, [])
                if name in _OF_MANY and function.cls is not None and own and own[0].cls is function.cls:
                    # `self.streamer.generate(...)`: that of another class.
                    return None
                known = dotted(owner)
                if known is not None and known.split(".")[0] in ("torch", "np", "F", "nn", "math", "os"):
                    return None
                return own[0] if len(own) == 1 else None
        return None

    def _top_level(self, name: str) -> FunctionModel | None:
        for statement in reversed(self._source.bindings.get(name, [])):
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return self._source.function_at(statement)
            if isinstance(statement, ast.ClassDef):
                return None
        return None


def _with_outer(function: FunctionModel) -> Iterator[FunctionModel]:
    """A function, and those that it stands in."""
    scope: FunctionModel | None = function
    while scope is not None:
        yield scope
        scope = scope.parent


def is_unused(project: Project, function: FunctionModel, *, but_by_tests: bool = False) -> bool:
    """Whether nothing in the project, or nothing but tests, leads to a function, or to the one that it stands in."""
    function = function.outermost
    cls = function.cls.name if function.cls is not None else ""
    return project.is_unused(function.source.file, cls, function.name, but_by_tests=but_by_tests)


def _most_often(told: Iterable[Hot]) -> Hot | None:
    """The first that runs more than once a request, or else the first."""
    first = None
    for hot in told:
        if not hot.once:
            return hot
        first = first or hot
    return first


def _is_telling(function: FunctionModel) -> bool:
    """Whether a call of a method's name, on whatever, says that it is this one which is called."""
    if function.name in torch_knowledge().tensor_methods:
        # A tensor's own is meant.
        return False
    return function.name not in _COMMON | _OF_MANY and not function.name.startswith("__")


def _names_of(project: Project, function: FunctionModel, source: SourceModule) -> set[str]:
    """What a function of another file is called in a file, if it is called by a plain name."""
    if function.cls is not None:
        return set()
    own = source.bindings.get(function.name, ())
    is_other = any(isinstance(s, _DEFINITIONS) or _brings_another(project, function, source, s) for s in own)
    names = set() if is_other else {function.name}
    for statement in source.tree.body:
        if isinstance(statement, ast.ImportFrom):
            names |= {a.asname for a in statement.names if a.name == function.name and a.asname}
    return names


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _brings_another(project: Project, function: FunctionModel, source: SourceModule, statement: ast.stmt) -> bool:
    """Whether a statement imports another function of that name, which a module of the project defines."""
    if not isinstance(statement, ast.ImportFrom) or all(a.name != function.name for a in statement.names):
        return False
    module = project.find(source.absolute(statement), source.file)
    return (
        module is not None
        and module.path != function.source.path
        and any(isinstance(s, _DEFINITIONS) for s in module.bindings.get(function.name, ()))
    )


def _is_use(node: ast.AST, function: FunctionModel, names: set[str]) -> bool:
    """Whether a node calls a function, hands it to something that will, or reads it, where it is a property."""
    match node:
        case ast.Call(func=func, args=args, keywords=keywords):
            meant = [func, *args, *(k.value for k in keywords)]
            return any(_means(part, function, names, is_call=part is func) for part in meant)
        case ast.Attribute(attr=attr) if function.is_property:
            return attr == function.name
    return False


def _means(node: ast.expr, function: FunctionModel, names: set[str], *, is_call: bool) -> bool:
    match node:
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(value=owner, attr=attr) if attr == function.name:
            # `geometry.turn(x)` of an imported module; a method, on whatever.
            return function.cls is not None or (is_call and isinstance(owner, (ast.Name, ast.Attribute)))
    return False
