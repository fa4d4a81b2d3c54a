"""What must hold of a text that fixes were applied to, whatever rule proposed them.

It is Python; each name that an edit brings is bound where the edit stands, by Python's own rules of scopes; no comment
is lost and no blank is left at a line's end; and no call that needs an accelerator was added where code runs without one.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import symtable
import tokenize
import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from devlint.findings import Edit
from devlint.regexes import regex
from devlint.textmap import TextMap

# Comments that are taken away on purpose when nothing needs them.
_MARKER = regex(r"#\s*(?:noqa|devlint)", re.IGNORECASE)
# Module attributes that Python sets by itself.
_ALWAYS_BOUND = frozenset({*dir(builtins), "__file__", "__name__", "__doc__", "__path__", "__class__", "__spec__"})
_BLANK_END = regex(r"[ \t]\r?$", re.MULTILINE)


@contextmanager
def _no_warnings() -> Iterator[None]:
    """What Python thinks of the code (`x is "cpu"`) is no news to those who wrote it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fault(
    before: str, after: str, edits: Sequence[Edit], imports: Iterable[str] = (), *, takes_markers: bool = False
) -> str:
    """What is wrong with `after`, in a few words; "" where nothing is.

    `edits` made it of `before`, and do not overlap; `imports` are statements that will be added at its top.
    `takes_markers`: they may take suppression comments away.
    """
    try:
        # What the parser takes, the compiler may refuse: a keyword given twice. Nothing is run.
        with _no_warnings():
            tree = ast.parse(after)
            compile(tree, "<fixed>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "it isn't valid Python"
    lost = Counter(_comments(before)) - Counter(_comments(after))
    if any(not (takes_markers and _MARKER.search(comment)) for comment in lost):
        return "a comment would be lost"
    if len(_BLANK_END.findall(after)) > len(_BLANK_END.findall(before)):
        return "a line would end in blanks"
    places = list(_places(before, edits))
    imported = {name for statement in imports for name in _in(ast.parse(statement))}
    unbound = sorted(
        (_unbound(before, after) - imported)
        | _bound_too_late(tree, after, places, _said_before(before, edits))
        | _unset(tree, before, after, places)
    )
    if unbound:
        return f"`{unbound[0]}` isn't bound there"
    if _asks_for_accelerator(before) and _needs_more_accelerator(before, tree, after, places):
        return "it would need an accelerator where there may be none"
    return ""


def _comments(text: str) -> Iterator[str]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            if token.type == tokenize.COMMENT:
                yield token.string.rstrip()
    except (tokenize.TokenError, SyntaxError):
        return


def _places(before: str, edits: Sequence[Edit]) -> Iterator[range]:
    """Where the texts of edits stand in what they made: offsets."""
    lines = TextMap(before)
    shift = 0
    for edit in sorted(edits, key=lambda e: e.span):
        start = lines.offset(edit.span.line, edit.span.column)
        end = lines.offset(edit.span.end_line, edit.span.end_column)
        yield range(start + shift, start + shift + len(edit.text))
        shift += len(edit.text) - (end - start)


# Names: which scope asks for which, and where they are bound


def _unbound(before: str, after: str) -> set[str]:
    """The names that a scope asks for in `after` and nothing binds, and that it didn't ask for in `before`."""
    had, has = _Names(before), _Names(after)
    if has.has_star:
        # Whatever the text asks for anywhere may be in there.
        bound = has.bound | {name for _, name in had.asked}
    else:
        bound = has.bound
    return {name for scope, name in has.asked - had.asked if name not in bound}


class _Names:
    """The global names of a text: those that its scopes ask for, and those that it binds."""

    def __init__(self, text: str) -> None:
        with _no_warnings():
            top = symtable.symtable(text, "<fixed>", "exec")
        # (the path of a scope, a name that it looks for among the globals)
        self.asked: set[tuple[tuple[str, ...], str]] = set()
        self.bound: set[str] = set(_ALWAYS_BOUND)
        self.has_star = bool(re.search(r"^[ \t]*from\s+\S+\s+import\s*(?:\(\s*)?\*", text, re.MULTILINE))
        todo: list[tuple[symtable.SymbolTable, tuple[str, ...]]] = [(top, ())]
        while todo:
            table, path = todo.pop()
            at_top = table.get_type() == "module"
            for symbol in table.get_symbols():
                name = symbol.get_name()
                binds = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
                if binds and (at_top or symbol.is_declared_global()):
                    self.bound.add(name)
                if symbol.is_referenced() and (at_top or symbol.is_global()):
                    self.asked.add((path, name))
            todo += [(child, (*path, child.get_name())) for child in table.get_children()]


_Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def _said_before(before: str, edits: Sequence[Edit]) -> list[frozenset[str]]:
    """The words that each edit found in its place, in the order of the places: a line that is laid out anew says them again."""
    lines = TextMap(before)
    return [frozenset(_WORD.findall(lines.slice(edit.span))) for edit in sorted(edits, key=lambda e: e.span)]


_WORD = regex(r"\w+")


def _bound_too_late(tree: ast.Module, text: str, places: Sequence[range], said: Sequence[frozenset[str]]) -> set[str]:
    """The names in new text that are bound in their own scope, but not on each way to where they are used.

    What was `said` in the same place before was asked for there.
    """
    lines = TextMap(text)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found: set[str] = set()
    for node in _within(tree, lines, places):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        start = lines.offset(lines.span_of(node).line, lines.span_of(node).column)
        if any(start in place and node.id in words for place, words in zip(places, said, strict=True)):
            continue
        scope = _scope_of(node, parents)
        if isinstance(scope, ast.ClassDef) and any(node.id in _binds(n) for n in _own(tree)):
            # What the body of a class hasn't bound yet is looked for in the module.
            scope = tree
        if isinstance(scope, _Scopes) and not _is_bound_at(node, scope, parents):
            found.add(node.id)
    return found


# Where a name that is bound at all is asked for before it is.
_Scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def _within(tree: ast.AST, lines: TextMap, places: Sequence[range]) -> Iterator[ast.expr]:
    """The expressions that touch new text."""
    taken = [place for place in places if len(place)]
    starts = [place.start for place in taken]
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            span = lines.span_of(node)
            start, end = lines.offset(span.line, span.column), lines.offset(span.end_line, span.end_column)
            at = bisect_left(starts, end) - 1
            if at >= 0 and taken[at].stop > start:
                yield node


def _scope_of(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    """The function, class, lambda or comprehension that a name is looked up in first."""
    child = node
    while child in parents:
        parent = parents[child]
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and child in parent.body:
            return parent
        if isinstance(parent, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Module)):
            return parent
        child = parent
    return child


def _is_bound_at(name: ast.Name, scope: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a name that is bound in `scope` at all is bound before it is used, as far as the text around it tells."""
    if not any(name.id in _binds(node) for node in _own(scope)):
        # Of another scope: `_unbound` has seen to it.
        return True
    child: ast.AST = name
    while child is not scope and child in parents:
        parent = parents[child]
        for block in _blocks(parent):
            if child in block:
                for earlier in block[: block.index(child)]:
                    if name.id in _surely_bound([earlier]) or _uses(earlier, name.id):
                        return True
        if name.id in _bound_by_head(parent, child):
            return True
        child = parent
    # What the statement asked for already was there for it.
    return any(
        n is not name and isinstance(n, ast.Name) and n.id == name.id
        for part in _header(_statement_of(name, parents))
        for n in ast.walk(part)
    )


def _header(statement: ast.AST) -> Iterator[ast.AST]:
    """The parts of a statement that aren't in blocks of its own."""
    inside = {id(part) for block in _blocks(statement) for part in block}
    yield from (part for part in ast.iter_child_nodes(statement) if id(part) not in inside)


def _statement_of(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    while not isinstance(node, ast.stmt) and node in parents:
        node = parents[node]
    return node


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, those of the scopes in it left out."""
    todo = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            todo += ast.iter_child_nodes(node)


def _binds(node: ast.AST) -> set[str]:
    """The names that one node binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return {name}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.arg(arg=name):
            return {name}
        case ast.alias(name=name, asname=other):
            return {other or name.split(".")[0]}
        case ast.ExceptHandler(name=str() as name):
            return {name}
        case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
            return {name}
    return set()


def _blocks(node: ast.AST) -> Iterator[list[ast.AST]]:
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            yield block


def _bound_by_head(parent: ast.AST, child: ast.AST) -> set[str]:
    """What the head of a statement has bound when the block that `child` is in runs."""
    heads: list[ast.AST] = []
    match parent:
        case ast.FunctionDef(args=arguments) | ast.AsyncFunctionDef(args=arguments):
            heads = [arguments] if child in parent.body else []
        case ast.For(target=target) | ast.AsyncFor(target=target):
            heads = [target, parent.iter] if child in parent.body else []
        case ast.With(items=items) | ast.AsyncWith(items=items):
            heads = [*items] if child in parent.body else []
        case ast.If(test=test) | ast.While(test=test) if child is not test:
            heads = [test]
        case ast.ExceptHandler():
            return _binds(parent)
        case ast.Try(body=body) if child in (*parent.orelse, *parent.finalbody):
            return _surely_bound(body) if child in parent.orelse else set()
    return {name for head in heads for node in ast.walk(head) for name in _binds(node)}


def _surely_bound(block: Iterable[ast.AST]) -> set[str]:
    """The names that are bound once a block has run to its end."""
    found: set[str] = set()
    for statement in block:
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                found |= _in(test)
                ways = [_surely_bound(way) for way in (body, orelse) if not _leaves(way)]
                found |= set.intersection(*ways) if ways else set()
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody):
                ways = [_surely_bound([*body, *orelse])]
                ways += [_surely_bound(h.body) for h in handlers if not _leaves(h.body)]
                found |= set.intersection(*ways) | _surely_bound(finalbody)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                found |= set().union(*map(_in, items)) | _surely_bound(body)
            case ast.For() | ast.AsyncFor() | ast.While() | ast.Match():
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found |= _binds(statement)
            case _:
                found |= _in(statement)
    return found


def _in(node: ast.AST) -> set[str]:
    return {name for part in ast.walk(node) for name in _binds(part)}


def _leaves(block: Sequence[ast.AST]) -> bool:
    return bool(block) and isinstance(block[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _uses(statement: ast.AST, name: str) -> bool:
    """Whether a statement reads a name whenever it runs."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    heads = [getattr(statement, field, None) for field in ("test", "iter")]
    nodes = [head for head in heads if head is not None] or ([] if hasattr(statement, "body") else [statement])
    return any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
        for node in nodes
        for n in ast.walk(node)
    )


# Bases that give an object nothing but what modules have.
_PLAIN_BASES = frozenset({"object", "Module", "nn.Module", "torch.nn.Module"})


def _unset(tree: ast.Module, before: str, after: str, places: Sequence[range]) -> set[str]:
    """The attributes of `self` that new text reads, and that nothing in a class of plain modules has set or defined."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found: set[str] = set()
    for node in _within(tree, TextMap(after), places):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=attr, ctx=ast.Load()):
                pass
            case _:
                continue
        parent = parents.get(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            continue
        cls = next((p for p in _around(node, parents) if isinstance(p, ast.ClassDef)), None)
        plain = cls is not None and all(ast.unparse(base) in _PLAIN_BASES for base in cls.bases)
        if plain and not re.search(
            rf"\bself\s*\.\s*{attr}\b|\bdef\s+{attr}\b|^[ \t]+{attr}\s*[:=]", before, re.MULTILINE
        ):
            found.add(f"self.{attr}")
    return found


def _around(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while node in parents:
        node = parents[node]
        yield node


# Calls that only work where there is an accelerator

_BACKEND_CALL = regex(
    r"torch\.(?:cuda|xpu|mps|hpu|npu|accelerator)\.(?!is_available\b|device_count\b|current_accelerator\b)\w+"
)
_ASKS = regex(
    r"\b(?:is_available|current_accelerator)\s*\(|\b(?:no|use)_(?:cuda|gpu)\b|\bdevice_count\s*\("
    # A setting that is on or off: `if args.cuda:`.
    r"|(?:^|\bif )(?:not )?(?:[A-Za-z_]\w{0,40}\.){1,3}(?:cuda|gpu):?$",
    re.IGNORECASE | re.MULTILINE,
)


def _asks_for_accelerator(text: str) -> bool:
    """Whether a program is meant for machines without an accelerator too."""
    return _ASKS.search(text) is not None


def _needs_more_accelerator(before: str, tree: ast.Module, after: str, places: Sequence[range]) -> bool:
    """Whether new text calls an accelerator's own functions where nothing has asked for one, and `before` didn't as often."""
    new = [node for node in _within(tree, TextMap(after), places) if isinstance(node, ast.Call)]
    needing = _needing(tree)
    return any(node in needing for node in new) and len(needing) > len(_needing(ast.parse(before)))


def _needing(tree: ast.Module) -> set[ast.Call]:
    """The calls of an accelerator's own functions that stand where nothing has asked for one."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return {
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and _BACKEND_CALL.fullmatch(ast.unparse(node.func))
        and not any(_ASKS.search(test) for test in _tests_around(node, parents))
        and not _is_beside_a_move(node, parents)
    }


def _is_beside_a_move(node: ast.Call, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether what stands beside a call moves something to CUDA each time that the call runs: `x = x.cuda()`."""
    statement = _statement_of(node, parents)
    around = next((block for block in _blocks(parents[statement]) if statement in block), [])
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "cuda"
        for other in around
        for n in _run_through(other)
    )


def _run_through(statement: ast.AST) -> Iterator[ast.AST]:
    """What surely runs when a statement does, and the blocks under its `with` do."""
    match statement:
        case ast.With(items=items, body=body):
            yield from (n for item in items for n in ast.walk(item))
            for inner in body:
                yield from _run_through(inner)
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr() | ast.Return():
            yield from () if any(isinstance(n, _BY_CHOICE) for n in ast.walk(statement)) else ast.walk(statement)


# Of these a part may be left out.
_BY_CHOICE = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension)


def _tests_around(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[str]:
    while node in parents:
        parent = parents[node]
        if isinstance(parent, (ast.If, ast.IfExp, ast.While)) and node is not parent.test:
            yield ast.unparse(parent.test)
        node = parent
