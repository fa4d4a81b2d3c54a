"""Code that can't be reached, or that comes to nothing, since a statement of its function, or of each one that calls it, always fails."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from devlint.knowledge import torch_knowledge
from devlint.placement.classes import ClassModel
from devlint.regexes import regex
from devlint.signatures.answers.callees import Callee
from devlint.source.modules import FunctionModel, FunctionNode, SourceModule
from devlint.source.trees import own_nodes

# Callers are followed backwards this far.
_MAX_CALLERS = 2
# What `torch.autograd.Variable` takes, as found by calling it: `device=` is a TypeError in every release.
_OF_VARIABLE = frozenset({"data", "requires_grad", "volatile"})
# What Python or IPython binds by itself; a device that somebody forgot to quote is mended by itself.
_BOUND_ELSEWHERE = regex(
    r"__\w{1,40}__$|(?:display|get_ipython|In|Out|_)$|(?:cuda|cpu|gpu|mps|xpu|hpu|npu|xla|meta)\d{0,3}$"
)


class Asked(Protocol):
    """What is asked of the model of a file."""

    @property
    def source(self) -> SourceModule: ...
    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]: ...
    def callee(self, call: ast.Call) -> Callee | None: ...
    def class_around(self, node: ast.AST) -> ClassModel | None: ...
    def calls_in_sight(self, function: FunctionNode) -> Sequence[tuple[Asked, ast.Call]]: ...
    def enclosing_scope(self, node: ast.AST) -> ast.AST: ...
    def files_naming(self, name: str) -> Sequence[Asked]: ...
    def imported_modules(self, node: ast.Import | ast.ImportFrom) -> list[SourceModule]: ...
    def is_unbound(self, name: ast.Name) -> bool: ...
    def qualified(self, node: ast.expr) -> str | None: ...
    def texts_match(self, pattern: str, *, elsewhere: bool = ...) -> bool: ...


def comes_to_nothing(model: Asked, node: ast.AST, depth: int = 0) -> bool:
    """Whether what always fails stands under no more conditions than a node, in its function or where each call of that stands."""
    scope = model.enclosing_scope(node)
    shared = _conditions(model, node)
    function = model.source.function_at(scope) if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
    failing = (n for n in _once_each(scope) if _fails(n, model, function) and _conditions(model, n) <= shared)
    if any(not _leaves_between(scope, node, n) for n in failing):
        return True
    if depth == _MAX_CALLERS or not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    if _is_never_made(model, scope):
        return True
    calls = model.calls_in_sight(scope)
    return bool(calls) and all(comes_to_nothing(file, call, depth + 1) for file, call in calls)


def _is_never_made(model: Asked, method: ast.AST) -> bool:
    """Whether the constructor of a method's class always fails: `super(Other, self).__init__()`, where `Other` is no base."""
    cls = model.class_around(method)
    constructor = cls.methods.get("__init__") if cls is not None else None
    return constructor is not None and any(
        isinstance(n, ast.Call) and _is_of_stranger(n, model) and not _conditions(model, n)
        for n in own_nodes(constructor.node)
    )


def _leaves_between(scope: ast.AST, node: ast.AST, failing: ast.AST) -> bool:
    """Whether a function, or a pass of a loop, may be over behind a node and before it comes to what fails."""
    return any(
        isinstance(n, (ast.Return, ast.Break, ast.Continue)) and _start(node) < _end(n) <= _start(failing)
        for n in own_nodes(scope)
    )


def _start(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _end(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)


def _conditions(model: Asked, node: ast.AST) -> set[tuple[ast.AST, str]]:
    """What a node of a scope runs under: the branches that it stands in, each with the name of its block."""
    found: set[tuple[ast.AST, str]] = set()
    child = node
    for parent in model.ancestors(node):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            break
        if isinstance(parent, _CONDITIONS):
            found.add((parent, _block_of(parent, child)))
        child = parent
    return found


_CONDITIONS = (
    ast.If,
    ast.IfExp,
    ast.BoolOp,
    ast.Try,
    ast.ExceptHandler,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.Match,
    ast.comprehension,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.Assert,
)


def _block_of(parent: ast.AST, child: ast.AST) -> str:
    for name, value in ast.iter_fields(parent):
        if value is child or (isinstance(value, list) and child in value):
            return name
    return ""


def _once_each(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, of each name that is read the first alone; what annotates a local variable isn't read."""
    seen = set[str]()
    nodes = own_nodes(scope)
    notes = {id(part) for n in nodes if isinstance(n, ast.AnnAssign) for part in ast.walk(n.annotation)}
    for node in nodes:
        name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else ""
        if id(node) not in notes and (not name or name not in seen):
            seen.add(name)
            yield node


def _fails(node: ast.AST, model: Asked, function: FunctionModel | None) -> bool:
    """Whether something always fails: an import of a module that isn't beside the file, a name that nothing binds, a call with what the function doesn't take, or without what it asks for.

    What a program's own lines name and import may be there when it is run, of an extension or a notebook.
    """
    match node:
        case ast.ImportFrom(level=level, module=str()) if level > 0:
            return function is not None and not model.imported_modules(node)
        case ast.Name(id=name, ctx=ast.Load()):
            if function is None or name in function.local_names or name in model.source.bindings:
                return False
            return _BOUND_ELSEWHERE.match(name) is None and model.is_unbound(node)
        case ast.Attribute(value=ast.Name(id="self"), attr=attr, ctx=ast.Load()):
            # The device that a module hasn't got is mended by itself.
            return attr != "device" and _is_never_set(node, model)
        case ast.Call(func=ast.Name(id="super"), args=[_, _]):
            return _is_of_stranger(node, model)
        case ast.Call(func=ast.Name() | ast.Attribute()):
            pass
        case _:
            return False
    named = {k.arg for k in node.keywords if k.arg is not None}
    if model.qualified(node.func) == "torch.autograd.Variable":
        return not named <= _OF_VARIABLE
    called = model.callee(node)
    if called is None or not _is_plain(called.function):
        return False
    return not named <= _names_of(called.function) or not called.has_all(node)


def _is_of_stranger(call: ast.Call, model: Asked) -> bool:
    """`super(Other, self)` for a class of the same file that isn't the one around, nor one that it comes of: a TypeError."""
    match call:
        case ast.Call(func=ast.Name(id="super"), args=[ast.Name(id=name), ast.Name(id="self")]):
            cls = model.class_around(call)
        case _:
            return False
    if cls is None or not set(cls.outside_bases) <= _PLAIN_BASES or _may_be_base(cls, model):
        return False
    is_class = isinstance(next(iter(model.source.bindings.get(name, ())), None), ast.ClassDef)
    return is_class and name not in {c.name for c in cls.project_lineage()}


# Classes outside of a project that set no attributes but their own.
_PLAIN_BASES = frozenset({"object", "torch.nn.Module"})
# What may set an attribute without spelling it so.
_SETTING = regex(r"__getattr|\bsetattr\(|__dict__|__slots__|\bexec\(|\blocals\(\)|\bvars\(self")


def _is_never_set(read: ast.Attribute, model: Asked) -> bool:
    """Whether nothing ever sets the attribute of `self` that is read: no method of its class or its bases, and nobody else."""
    cls = model.class_around(read)
    if cls is None or cls.node.decorator_list or not set(cls.outside_bases) <= _PLAIN_BASES or cls.defines(read.attr):
        return False
    if not any(c.assigned_in and "__init__" in c.methods for c in cls.project_lineage()):
        # What has no constructor is a sketch, or a part of something else.
        return False
    texts = [c.text for c in cls.project_lineage()]
    if read.attr in torch_knowledge().wrappers["torch.nn.DataParallel"] or any(map(_SETTING.search, texts)):
        return False
    name, others = re.escape(read.attr), [model.source.text, *(f.source.text for f in model.files_naming(cls.name))]
    own = re.compile(
        rf"['\"]{name}['\"]|\.{name}\b[^\n=(]{{0,60}}=(?!=)|\b(?:for|as)\b(?:(?!\bin\b)[^\n]){{0,60}}\.{name}\b"
    )
    by_others = re.compile(rf"['\"]{name}['\"]|(?<!\bself)\.{name}\b[^\n=(]{{0,60}}=(?!=)")
    return not any(map(own.search, texts)) and not any(map(by_others.search, others)) and not _may_be_base(cls, model)


def _may_be_base(cls: ClassModel, model: Asked) -> bool:
    """Whether another class of the project comes of one, going by its name, and may bring what that lacks."""
    return model.texts_match(rf"\bclass\s+\w+\([^)\n]{{0,200}}\b{cls.name}\b")


def _is_plain(function: FunctionModel) -> bool:
    """Whether a function is what its name stands for: not decorated, no method, and the only one of that name in its file."""
    arguments = function.node.args
    if function.cls is not None or function.parent is not None or function.decorators or arguments.kwarg is not None:
        return False
    return len(function.source.bindings.get(function.name, ())) == 1


def _names_of(function: FunctionModel) -> set[str]:
    arguments = function.node.args
    return {a.arg for a in (*arguments.args, *arguments.kwonlyargs)}
