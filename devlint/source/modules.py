"""One parsed module: its tree, its top-level bindings, and where things stand in it."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import field
from functools import cached_property
from pathlib import Path

from devlint.knowledge.ecosystem import KEEPING_DECORATORS
from devlint.records import record
from devlint.regexes import regex
from devlint.source.devices import is_device_name
from devlint.source.evidence import evidence_in
from devlint.source.kinds import Kind
from devlint.source.outline import Outline, outline_of
from devlint.source.trees import own_nodes, parents_in, walk
from devlint.textmap import column_of

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@record(eq=False)
class FunctionModel:
    """A function or method of a module that was parsed; identity is the definition."""

    node: FunctionNode
    source: SourceModule
    cls: ast.ClassDef | None = None
    parent: FunctionModel | None = None

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def text(self) -> str:
        """The definition's source."""
        return self.source.text_of(self.node)

    @property
    def outermost(self) -> FunctionModel:
        """The function around all others that it stands in; itself where it stands in none."""
        function = self
        while function.parent is not None:
            function = function.parent
        return function

    @cached_property
    def parameters(self) -> list[ast.arg]:
        """All parameters that take one argument each, in order."""
        arguments = self.node.args
        return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]

    @cached_property
    def defaults(self) -> dict[str, ast.expr]:
        """Parameter name -> its default."""
        arguments = self.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        found = {a.arg: d for a, d in zip(reversed(positional), reversed(arguments.defaults), strict=False)}
        pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return found | {a.arg: d for a, d in pairs if d is not None}

    @cached_property
    def decorators(self) -> list[str]:
        """The dotted names of the decorators, calls by what they call."""
        targets = (d.func if isinstance(d, ast.Call) else d for d in self.node.decorator_list)
        return [dotted(t) or "" for t in targets]

    @cached_property
    def keeps_result(self) -> bool:
        """Whether its decorators hand on what it returns, as far as they are known."""
        return all(name.rsplit(".", 1)[-1] in KEEPING_DECORATORS for name in self.decorators)

    @property
    def is_static(self) -> bool:
        return "staticmethod" in self.decorators

    @property
    def is_property(self) -> bool:
        return any(d == "property" or d.endswith(("cached_property", ".getter")) for d in self.decorators)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The nodes of the function, nested definitions named but not entered."""
        return own_nodes(self.node)

    @cached_property
    def outline(self) -> Outline:
        """What its nodes tell, nested definitions named but not entered."""
        return outline_of(self.node, self.nodes)

    @cached_property
    def assigned(self) -> dict[str, list[ast.expr]]:
        """The expressions that it assigns to each plain name."""
        return assigned_in(self.node)

    @property
    def evidence(self) -> dict[str, Kind]:
        """What the function's use of names says of them."""
        return self.outline.evidence

    @property
    def is_generator(self) -> bool:
        return self.outline.is_generator

    @property
    def declared_outer(self) -> frozenset[str]:
        """Names under `global` or `nonlocal`."""
        return self.outline.declared_outer

    @cached_property
    def local_names(self) -> frozenset[str]:
        """Names that the function binds itself, parameters included."""
        names = {a.arg for a in self.parameters}
        names |= {a.arg for a in (self.node.args.vararg, self.node.args.kwarg) if a}
        return (self.outline.bound | names) - self.outline.declared_outer


@record(eq=False)
class SourceModule:
    """A module's source, parsed."""

    path: str
    text: str
    tree: ast.Module
    # Its dotted name, where it is part of a package or stands at an import root; "" otherwise.
    name: str = ""
    is_package: bool = False
    # What is known of its classes, by their definitions.
    classes: dict[ast.ClassDef, object] = field(default_factory=dict)
    # Every function and method, outer ones first, once somebody asked for all of them.
    functions: list[FunctionModel] | None = None
    _functions: dict[ast.AST, FunctionModel] = field(default_factory=dict)
    _parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    _starts: dict[int, list[int]] = field(default_factory=dict)

    @cached_property
    def file(self) -> Path:
        """Its path, for those who ask the project: to make one anew for each question costs more than most answers."""
        return Path(self.path)

    @cached_property
    def bindings(self) -> dict[str, list[ast.stmt]]:
        """Top-level names and the statements that bind them, `if`, `try` and `with` looked into."""
        found: dict[str, list[ast.stmt]] = {}
        for statement in flat_statements(self.tree.body):
            for name in bound_names(statement):
                found.setdefault(name, []).append(statement)
        return found

    @cached_property
    def evidence(self) -> dict[str, Kind]:
        """What the top level's use of names says of them."""
        return evidence_in(self.tree, own_nodes(self.tree))

    def column(self, line: int, byte_column: int) -> int:
        """The column, in characters from 1, of a place as `ast` tells it, in bytes of UTF-8 from 0."""
        if not self.text.isascii() and 0 < line <= len(self.line_starts):
            start = self.line_starts[line - 1]
            return column_of(self.text[start : start + byte_column], byte_column)
        return byte_column + 1

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset of each line's first character."""
        return [0, *(match.end() for match in re.finditer(r"\r\n|\n|\r", self.text))]

    def offsets_of(self, node: ast.stmt) -> tuple[int, int]:
        """The offsets of a statement's lines in the text: of the first one's begin, and of the last one's end."""
        end = node.end_lineno or node.lineno
        stop = self.line_starts[end] if end < len(self.line_starts) else len(self.text)
        return self.line_starts[node.lineno - 1], stop

    def text_of(self, node: ast.stmt) -> str:
        """The lines of a statement."""
        return self.text[slice(*self.offsets_of(node))]

    def close(self) -> None:
        """Forgets what was worked out of the tree, which refers back to the module."""
        self.classes.clear()
        self.functions = None
        self._functions.clear()
        self._parents.clear()

    def rest(self) -> None:
        """Forgets what is soon worked out again, after its own file was linted: others ask for little of it."""
        self._parents.clear()

    def starts_of(self, block: list[ast.stmt]) -> list[int]:
        """The first line of each statement of a block of this module."""
        known = self._starts.get(id(block))
        if known is None:
            known = self._starts[id(block)] = [_first_line(statement) for statement in block]
        return known

    def called_on(self, name: str) -> list[int]:
        """The lines on which something of a name seems to be called or defined, in their order, each once."""
        return self._called_on.get(name, [])

    @cached_property
    def without_comments(self) -> str:
        """The text without what stands behind a `#`."""
        return _COMMENT.sub("", self.text)

    @cached_property
    def _called_on(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        flags = re.ASCII if self.text.isascii() else 0
        for match in re.finditer(r"\b(\w++)\s*+\(", self.text, flags):
            line = bisect_right(self.line_starts, match.start())
            lines = found[match[1]]
            if not lines or lines[-1] != line:
                lines.append(line)
        return found

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node of this module, innermost first."""
        parent = self._parent(node)
        while parent is not None:
            yield parent
            parent = self._parent(parent)

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class that a node stands in."""
        return next((p for p in self.ancestors(node) if isinstance(p, ast.ClassDef)), None)

    def top_level_values(self, name: str) -> list[ast.expr]:
        """The expressions that the top level of this module assigns to a name."""
        bound = self.bindings.get(name, ())
        return [b.value for b in bound if isinstance(b, (ast.Assign, ast.AnnAssign)) and b.value is not None]

    def statement_of(self, node: ast.AST) -> ast.AST:
        """The statement that a node stands in, or is; the node itself, where nothing is around it."""
        return next((p for p in (node, *self.ancestors(node)) if isinstance(p, ast.stmt)), node)

    def before(self, statement: ast.AST) -> list[ast.stmt]:
        """The statements before another one in its own block, as they stand there."""
        return self._beside(statement)[0]

    def after(self, statement: ast.AST) -> list[ast.stmt]:
        """The statements after another one in its own block, as they stand there."""
        return self._beside(statement)[1]

    def _beside(self, statement: ast.AST) -> tuple[list[ast.stmt], list[ast.stmt]]:
        parent = self._parent(statement)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                at = block.index(statement)
                return block[:at], block[at + 1 :]
        return [], []

    def _parent(self, node: ast.AST) -> ast.AST | None:
        known = self._parents.get(node)
        line: int | None = getattr(node, "lineno", None)
        if known is None and line is not None:
            # One top-level statement at a time: most are never asked about.
            for top in self._top_level_at(line):
                if top not in self._parents:
                    self._parents[top] = self.tree
                    self._parents.update(parents_in(top))
            known = self._parents.get(node)
        return known

    def _top_level_at(self, line: int) -> Iterator[ast.stmt]:
        """The top-level statements on a line: several may share it."""
        for position in range(bisect_right(self.starts_of(self.tree.body), line) - 1, -1, -1):
            statement = self.tree.body[position]
            if (statement.end_lineno or statement.lineno) < line:
                return
            yield statement

    @cached_property
    def changed_elsewhere(self) -> frozenset[str]:
        """Top-level names that some function rebinds, or may move: `global x`, an indented `x.cuda()`."""
        rebound = (name for match in _GLOBAL.finditer(self.text) for name in match[1].split(","))
        return frozenset({*map(str.strip, rebound), *(match[1] for match in _INDENTED_MOVE.finditer(self.text))})

    @cached_property
    def sets_default_device(self) -> bool:
        """Whether factories anywhere in the file may create elsewhere than on the host without being told."""
        return _DEFAULT_DEVICE.search(self.text) is not None or self._under_devices is None

    def makes_elsewhere(self, function: FunctionModel | None) -> bool:
        """Whether factories in a function, or at the top level, may create elsewhere than on the host without being told."""
        names = self._under_devices
        if names is None or self.sets_default_device:
            return True
        while function is not None and names:
            if function.name in names or (function.cls is not None and function.cls.name in names):
                return True
            function = function.parent
        return False

    @cached_property
    def _under_devices(self) -> frozenset[str] | None:
        """The names of functions and classes of the file that `with device:` blocks lead to.

        None where a block may run anything: `with device: model(x)`.
        """
        blocks = self._device_blocks
        if not blocks:
            return frozenset()
        named: dict[str, list[ast.AST]] = defaultdict(list)
        outside: set[str] = set()
        for node in walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                named[node.name].append(node)
            elif isinstance(node, ast.Import):
                outside |= {a.asname or a.name.split(".")[0] for a in node.names if a.name.split(".")[0] == "torch"}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch" and not node.level:
                outside |= {a.asname or a.name for a in node.names}
        reached: set[str] = set()
        waiting: list[ast.AST] = [statement for block in blocks for statement in block.body]
        while waiting:
            for node in walk(waiting.pop()):
                if isinstance(node, ast.Call) and not _is_plain_call(node.func, named, outside):
                    return None
                name = last_name(node)
                if name in named and name not in reached:
                    reached.add(name)
                    waiting += named[name]
        return frozenset(reached)

    @cached_property
    def _device_blocks(self) -> list[ast.With | ast.AsyncWith]:
        """The blocks under a device: `with torch.device("cuda"):`."""
        lines = (bisect_right(self.line_starts, match.start()) for match in _WITH_DEVICE.finditer(self.text))
        statements = {id(top): top for line in lines for top in self._top_level_at(line)}
        blocks = (n for top in statements.values() for n in walk(top) if isinstance(n, (ast.With, ast.AsyncWith)))
        return [block for block in blocks if any(_chooses_device(item.context_expr) for item in block.items)]

    @cached_property
    def star_imports(self) -> list[ast.ImportFrom]:
        return [s for s in flat_statements(self.tree.body) if isinstance(s, ast.ImportFrom) and s.names[0].name == "*"]

    def function(self, node: FunctionNode, cls: ast.ClassDef | None, parent: FunctionModel | None) -> FunctionModel:
        """The model of a definition in this module, the same one each time, by the class and the function around it."""
        known = self._functions.get(node)
        if known is None:
            known = self._functions[node] = FunctionModel(node, self, cls, parent)
        return known

    def function_at(self, node: FunctionNode) -> FunctionModel:
        """The model of a definition anywhere in this module."""
        known = self._functions.get(node)
        if known is not None:
            return known
        scopes = [
            n for n in self.ancestors(node) if isinstance(n, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        cls = scopes[0] if scopes and isinstance(scopes[0], ast.ClassDef) else None
        outer = next((n for n in scopes if not isinstance(n, ast.ClassDef)), None)
        return self.function(node, cls, self.function_at(outer) if outer is not None else None)

    def absolute(self, statement: ast.ImportFrom) -> str:
        """The dotted name of the module that a `from ... import` names."""
        if not statement.level:
            return statement.module or ""
        parts = self.name.split(".") if self.name else []
        up = statement.level - (1 if self.is_package else 0)
        base = parts[: len(parts) - up] if up else parts
        return ".".join([*base, *([statement.module] if statement.module else [])])

    @cached_property
    def imported_packages(self) -> frozenset[str]:
        """The first parts of everything that the module imports anywhere."""
        names = set()
        waiting = [*self.tree.body]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Import):
                names |= {a.name.split(".")[0] for a in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names.add(node.module.split(".")[0])
            else:
                waiting += [inner for block in blocks_of(node) for inner in block]
        return frozenset(names)


# What begins with a character that is written down is looked for several times as fast as what begins with `^` or `\b`.
_GLOBAL = regex(r"\n[ \t]+global[ \t]+(\w+(?:[ \t]*,[ \t]*\w+)*)")
_INDENTED_MOVE = regex(r"\n[ \t]+(?:\w+[ \t]*=[ \t]*)?(\w+)\.(?:to|cuda|xpu|cpu|to_empty)\(")
_DEFAULT_DEVICE = regex(r"set_default_device|set_default_tensor_type|DeviceContext")
_COMMENT = regex(r"#.*")
_WITH_DEVICE = regex(r"with\b[^\n]{0,300}(?i:device)")


def _chooses_device(context: ast.expr) -> bool:
    """`with torch.device("cuda"):`, `with device:`, `with on_device():`. `torch.cuda.device(1)` says which `cuda` is meant."""
    if isinstance(context, ast.Call) and (dotted(context.func) or "").endswith(("cuda.device", "cuda.device_of")):
        return False
    return is_device_name(context)


def _is_plain_call(func: ast.expr, named: Container[str], torch: Container[str]) -> bool:
    """Whether a call runs code of the file under its own name, or nothing of it: PyTorch's, a class of elsewhere, a method."""
    if last_name(func) in named:
        return True
    words = (dotted(func) or last_name(func)).split(".")
    is_method = isinstance(func, ast.Attribute) and (words[-1] in _PLAIN_METHODS or words[-1].endswith("_"))
    return words[0] in torch or is_method or words[-1][:1].isupper() or words[-1] in _PLAIN_CALLS


# Calls that run none of the program's own functions.
_PLAIN_CALLS = frozenset([
    "abs", "bool", "dict", "enumerate", "float", "from_config", "from_pretrained", "getattr", "int", "isinstance",
    "len", "list", "max", "min", "print", "range", "set", "setattr", "sorted", "str", "sum", "super", "tuple",
    "type", "zip",
])  # fmt: skip
_PLAIN_METHODS = frozenset([
    "__init__", "add_module", "append", "buffers", "children", "clone", "cpu", "cuda", "dim", "eval", "expand",
    "extend", "float", "format", "get", "half", "items", "join", "keys", "load_state_dict", "long", "modules",
    "mul", "named_buffers", "named_modules", "named_parameters", "new_tensor", "numel", "parameters",
    "register_buffer", "register_parameter", "repeat", "reshape", "size", "split", "state_dict", "to", "train",
    "unsqueeze", "update", "values", "view",
])  # fmt: skip


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` as text, or None where the expression isn't a plain chain of names."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def last_name(node: ast.AST) -> str:
    """`c` of `a.b.c`, and of anything else that is asked for its `c`; "" where it is no name at all."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def flat_statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a scope, blocks looked into, definitions not."""
    waiting = [*body][::-1]
    while waiting:
        statement = waiting.pop()
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting += [inner for block in blocks_of(statement) for inner in block][::-1]


# Most statements, which hold no others.
_WITHOUT_BLOCKS = (
    ast.Expr,
    ast.Assign,
    ast.Return,
    ast.AugAssign,
    ast.AnnAssign,
    ast.Import,
    ast.ImportFrom,
    ast.Raise,
)


def blocks_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The statement lists inside a compound statement."""
    if isinstance(statement, _WITHOUT_BLOCKS):
        return []
    blocks = [getattr(statement, name) for name in ("body", "orelse", "finalbody") if getattr(statement, name, None)]
    blocks += [handler.body for handler in getattr(statement, "handlers", ())]
    blocks += [case.body for case in getattr(statement, "cases", ())]
    return blocks


def bound_names(statement: ast.stmt) -> Iterator[str]:
    """The names that one statement (not its blocks) binds."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=aliases):
            yield from ((a.asname or a.name).split(".")[0] for a in aliases)
        case ast.ImportFrom(names=aliases):
            yield from (a.asname or a.name for a in aliases if a.name != "*")
        case ast.Assign(targets=targets):
            for target in targets:
                yield from target_names(target)
        case ast.AnnAssign(target=target, value=ast.expr()) | ast.AugAssign(target=target):
            yield from target_names(target)
        case ast.For(target=target) | ast.AsyncFor(target=target):
            yield from target_names(target)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars is not None:
                    yield from target_names(item.optional_vars)


def assigned_in(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """The expressions that a scope's own statements assign to each plain name; `a, b = f()` gives `b` a `f()[1]`."""
    found: dict[str, list[ast.expr]] = {}
    for node in own_nodes(scope):
        if isinstance(node, ast.Assign):
            pairs = (pair for target in node.targets for pair in _each_assigned(target, node.value))
            for name, value in dict.fromkeys(pairs):
                found.setdefault(name, []).append(value)
    return found


def _each_assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match target:
        case ast.Name(id=name):
            yield name, value
        case ast.Tuple(elts=parts) | ast.List(elts=parts) if not any(isinstance(p, ast.Starred) for p in parts):
            spelt = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(parts) else None
            for index, part in enumerate(parts):
                whole = ast.Subscript(value, ast.Constant(index), ast.Load())
                yield from _each_assigned(part, spelt[index] if spelt else ast.copy_location(whole, value))


def target_names(target: ast.expr) -> Iterator[str]:
    """The plain names in an assignment's target."""
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            for element in elts:
                yield from target_names(element)
        case ast.Starred(value=value):
            yield from target_names(value)
