"""Which checkpoint of this program a `torch.load` reads: the same path, as code, written and read where both can be seen."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import Kind, Value, last_name, own_nodes

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel


class Loaded(NamedTuple):
    """A part of a file that is read: `torch.load(path)["model"]`."""

    path: ast.expr
    key: str | None


class Saved(NamedTuple):
    """What a `torch.save` puts where it is read, and the call."""

    value: Value
    call: ast.Call


def loaded_by(node: ast.expr, facts: Facts) -> Loaded | None:
    """The file that an expression comes from as it was read; None where it comes from elsewhere, or was changed."""
    match node:
        case ast.Call(func=func, args=[path, *_]) if facts.model.value(func).name == "torch.load":
            return Loaded(path, None)
        case ast.Subscript(value=whole, slice=ast.Constant(value=str() as key)):
            loaded = loaded_by(whole, facts)
            return Loaded(loaded.path, key) if loaded is not None and loaded.key is None else None
        case ast.Name() if (value := _only_value(node, facts)) is not None:
            return loaded_by(value, facts)
    return None


def _only_value(name: ast.Name, facts: Facts) -> ast.expr | None:
    """What a variable was bound to, where it is bound once and only read from then on."""
    uses = [n for n in own_nodes(facts.model.enclosing_scope(name)) if isinstance(n, ast.Name) and n.id == name.id]
    stores = [n for n in uses if isinstance(n.ctx, ast.Store)]
    values = list(facts.model.assigned_values(name))
    if len(stores) != 1 or len(values) != 1:
        return None
    return values[0] if all(_only_reads(n, facts) for n in uses if n not in stores) else None


def _only_reads(use: ast.Name, facts: Facts) -> bool:
    """A part is read, or the whole is loaded, printed or measured: the keys stay as they are."""
    parent = next(facts.model.ancestors(use), None)
    match parent:
        case ast.Subscript(ctx=ast.Load()):
            return True
        case ast.Attribute(attr="get" | "keys"):
            return True
        case (
            ast.Call(func=ast.Attribute(attr="load_state_dict")) | ast.Call(func=ast.Name(id="print" | "len" | "type"))
        ):
            return True
    return isinstance(parent, (ast.keyword, ast.Compare))


def saved_under(loaded: Loaded, facts: Facts) -> list[Saved]:
    """All that this file's code saves to that path; empty where some of it isn't known."""
    found = []
    text = ast.unparse(loaded.path)

    def may_be_it(call: ast.Call) -> bool:
        path = path_of(call)
        return path is not None and ast.unparse(path) == text

    for call in facts.model.calls("save", may_be_it):
        path = path_of(call)
        if path is None or facts.model.value(call.func).name != "torch.save":
            continue
        if not _is_same_path(path, loaded.path, facts):
            return []
        part = _part(facts.model.value(call.args[0]), loaded.key) if call.args else None
        if part is None:
            return []
        found.append(Saved(part, call))
    return found


def path_of(call: ast.Call) -> ast.expr | None:
    """The file that a call like `torch.save(x, path)` writes."""
    named = (k.value for k in call.keywords if k.arg == "f")
    return call.args[1] if len(call.args) > 1 else next(named, None)


def _part(value: Value, key: str | None) -> Value | None:
    if key is None:
        return value
    if value.kind is Kind.MAPPING and value.keys is not None and value.elements is not None and key in value.keys:
        return value.elements[value.keys.index(key)]
    return None


def _is_same_path(one: ast.expr, other: ast.expr, facts: Facts) -> bool:
    """The names in two paths of the same text mean the same thing."""
    here, there = facts.model.enclosing_scope(one), facts.model.enclosing_scope(other)
    return all(_means_the_same(name, here, there, facts) for name in _names(one))


def _names(path: ast.expr) -> Iterator[str]:
    yield from {n.id for n in ast.walk(path) if isinstance(n, ast.Name)}


def _means_the_same(name: str, here: ast.AST, there: ast.AST, facts: Facts) -> bool:
    if here is there:
        return sum(1 for n in own_nodes(here) if isinstance(n, ast.Name) and n.id == name and _is_store(n)) <= 1
    if name == "self":
        return _class_of(here, facts) is not None and _class_of(here, facts) is _class_of(there, facts)
    functions = [s for s in (here, there) if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return len(facts.model.source.bindings.get(name, ())) == 1 and not any(
        name in facts.model.source.function_at(f).local_names for f in functions
    )


def _is_store(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _class_of(scope: ast.AST, facts: Facts) -> ast.AST | None:
    parent = next(facts.model.ancestors(scope), None)
    return parent if isinstance(parent, ast.ClassDef) else None


# What stands for a part of a path that differs.
ANY = "\0"


def numbered(path: ast.expr, model: PlacementModel, under_way: frozenset[str] = frozenset()) -> str:
    """A path with a mark in the place of each number or text that is put into it; "" for what isn't put together so.

    `under_way` are the names that are being followed: `path = f"{path}/net.pt"`.
    """
    inner = partial(numbered, model=model, under_way=under_way)
    match path:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            both = inner(left), inner(right)
            return "".join(both) if all(both) else ""
        case ast.JoinedStr(values=values):
            return "".join(_put_in(part, inner) for part in values)
        case ast.Call(func=ast.Name(id="str")):
            return ANY
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return re.sub(r"\{[^{}]*\}", ANY, text)
        case ast.Call(func=ast.Attribute(attr="join"), args=[*parts]):
            found = [inner(part) for part in parts]
            return "/".join(found) if all(found) else ""
        case ast.Name(id=name) if name not in under_way and len(values := list(model.assigned_values(path))) == 1:
            known = numbered(values[0], model, under_way | {name})
            return known if ANY in known else f"<{name}>"
        case ast.Name() | ast.Attribute():
            return f"<{ast.unparse(path)}>"
    return ""


def _put_in(part: ast.expr, inner: Callable[[ast.expr], str]) -> str:
    """A part of an f-string: its text, or what is known of the path that is put in there."""
    if isinstance(part, ast.FormattedValue) and ANY in (known := inner(part.value)):
        return known
    return str(part.value) if isinstance(part, ast.Constant) else ANY


# Calls whose second argument is a file that is there afterwards: `torch.save(x, path)`, `shutil.copy(latest, best)`.
WRITING = frozenset({"save", "copy", "copy2", "copyfile", "move", "rename", "replace", "download_url_to_file"})


def writes(call: ast.Call, file: ast.expr) -> bool:
    """Whether a call writes a file, going by its path as code."""
    match call:
        case ast.Call(func=ast.Name(id="open"), args=[path, ast.Constant(value="wb"), *_]):
            return _spelt(path) == _spelt(_opened(file))
        case ast.Call(func=ast.Attribute(attr="save"), args=[]) if _says_parts_of(file, call):
            return True
    to = path_of(call) if isinstance(call.func, ast.Attribute) and call.func.attr in WRITING else None
    return to is not None and _spelt(_opened(to)) == _spelt(_opened(file))


def _says_parts_of(file: ast.expr, call: ast.Call) -> bool:
    """`trainer.save(path="runs", model_filename="net.pt")`, of `"runs/net.pt"`."""
    told = {k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
    return isinstance(file, ast.Constant) and {*str(file.value).split("/")} <= told


def _spelt(path: ast.expr) -> str:
    """A path as code, `"./net.pt"` as `"net.pt"`."""
    return ast.unparse(path).replace("'./", "'")


def _opened(file: ast.expr) -> ast.expr:
    """`path` of `open(path, "wb")`."""
    match file:
        case ast.Call(func=func, args=[path, *_]) if last_name(func) == "open":
            return path
    return file
