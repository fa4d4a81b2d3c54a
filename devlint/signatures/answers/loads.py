"""Functions of the project that load a checkpoint, and leave it to their callers to say where to."""

from __future__ import annotations

import ast

from devlint.signatures.answers.callees import Callee
from devlint.signatures.reading.reader import Reader
from devlint.source.modules import FunctionModel


def left_open(reader: Reader, called: Callee, call: ast.Call) -> str | None:
    """The parameter that a function hands on to torch.load as `map_location`, where a call of it leaves that at None."""
    function = called.function
    loads = [n for n in function.nodes if isinstance(n, ast.Call) and _is_load(reader, function, n)]
    names = {_location(load) for load in loads}
    name = names.pop() if len(names) == 1 else None
    if name is None or name in function.assigned or called.is_given(call, name):
        return None
    default = function.defaults.get(name)
    return name if isinstance(default, ast.Constant) and default.value is None else None


def _is_load(reader: Reader, function: FunctionModel, call: ast.Call) -> bool:
    return isinstance(call.func, (ast.Name, ast.Attribute)) and (
        reader.static_value(function.source, call.func).data == "torch.load"
    )


def _location(load: ast.Call) -> str | None:
    """The name that is given as `map_location`."""
    given = next((k.value for k in load.keywords if k.arg == "map_location"), None)
    if given is None and len(load.args) > 1:
        given = load.args[1]
    return given.id if isinstance(given, ast.Name) else None
