"""Whether a file is one that somebody published, or that lies where its author alone has it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devlint.facts import last_name, own_nodes
from devlint.lazy import regex

if TYPE_CHECKING:
    from devlint.facts import PlacementModel


def is_published(model: PlacementModel, call: ast.Call) -> bool:
    """Whether a call downloads what somebody published, or what it loads is what its function otherwise downloads."""
    calls = [n for n in own_nodes(model.enclosing_scope(call)) if isinstance(n, ast.Call)]
    if any(_DOWNLOADING.fullmatch(last_name(n.func)) for n in (call, *calls)):
        return True
    path = ast.unparse(call.args[0]) if call.args else ""
    if not path:
        return False
    return any(_fetches(n, path) for n in own_nodes(model.enclosing_scope(call))) or _is_address_by_default(model, call)


def _is_address_by_default(model: PlacementModel, call: ast.Call) -> bool:
    """Whether a parameter's default says where on the net the file is: `path="https://..."`, also of what it is opened with."""
    scope = model.enclosing_scope(call)
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    entered = {
        i.optional_vars.id: i.context_expr
        for n in own_nodes(scope)
        if isinstance(n, ast.With)
        for i in n.items
        if isinstance(i.optional_vars, ast.Name)
    }
    file = call.args[0]
    opened = entered.get(file.id) if isinstance(file, ast.Name) else None
    named = {n.id for part in (file, opened) if part is not None for n in ast.walk(part) if isinstance(n, ast.Name)}
    defaults = model.source.function_at(scope).defaults
    return any("://" in ast.unparse(value) for name, value in defaults.items() if name in named)


def _fetches(node: ast.AST, path: str) -> bool:
    """`urlretrieve(url, path)`; `with open(path, "wb") as f: f.write(response.content)`"""
    match node:
        case ast.Call(func=func, args=[_, ast.expr() as target, *_]) if last_name(func) == "urlretrieve":
            return ast.unparse(target) == path
        case ast.With(items=[ast.withitem(context_expr=ast.Call(func=ast.Name(id="open"), args=[opened, *_]))]):
            return ast.unparse(opened) == path and any(
                isinstance(n, ast.Attribute) and n.attr in ("content", "iter_content") for n in ast.walk(node)
            )
    return False


def is_of_base(call: ast.Call) -> bool:
    """Whether the path is named after a net that others have trained and published, on which a training starts: `args.basenet`."""
    names = (n for arg in call.args[:1] for n in ast.walk(arg) if isinstance(n, (ast.Name, ast.Attribute)))
    return any(_OF_BASES.fullmatch(last_name(n)) is not None for n in names)


_OF_BASES = regex(
    r"(?i)(?:\w{1,20}_)?(?:base_?net|vgg_?(?:\d\d)?|resnet_?\d{2,3}|imagenet)(?:_(?:path|file|weights?|model|pretrained))?"
)
_DOWNLOADING = regex(r"load_state_dict_from_url|load_url|hf_hub_download|_?download(?:_\w{1,40})?")


def lies_at_one_place(model: PlacementModel, call: ast.Call) -> bool:
    """Whether a path begins where one machine alone has it: `"/data/weights/net.pth"`, `os.path.join("/data", name)`.

    Whoever runs that elsewhere writes another path there first.
    """
    file = call.args[0] if call.args else None
    if isinstance(file, ast.Name):
        given = [*model.assigned_values(file)] or [*model.source.top_level_values(file.id)]
        file = given[0] if len(given) == 1 else None
    return file is not None and _ABSOLUTE.match(_beginning(file)) is not None


def _beginning(path: ast.expr) -> str:
    """The text that a path begins with."""
    match path:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=first) | ast.JoinedStr(values=[first, *_]):
            return _beginning(first)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return text
        case ast.Call(func=func, args=[first, *_]) if last_name(func) in ("join", "Path", "open"):
            return _beginning(first)
    return ""


_ABSOLUTE = regex(r"(?:/(?!tmp/)[\w.-]{2,}|~|[A-Za-z]:[\\/])")
