"""Whether a load is reached only where it works, or is tried again where it doesn't."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import last_name
from devlint.lazy import regex

if TYPE_CHECKING:
    from devlint.facts import Facts


def is_provided_for(call: ast.Call, facts: Facts) -> bool:
    """The call is reached only where it works, or is tried again with map_location where it doesn't."""
    child: ast.AST = call
    for parent in facts.model.ancestors(call):
        match parent:
            case ast.Try(body=body, handlers=handlers) if child in body:
                if any(_catches_runtime_error(h) or "map_location" in ast.unparse(h) for h in handlers):
                    return True
            case ast.If(test=test, body=body, orelse=orelse) if child is not test:
                if _asks_for_accelerator(test, facts) == (child in body) and (child in body or child in orelse):
                    return True
                if _may_be_about_devices(test, facts) and any(
                    _says_where(s, call) for s in (orelse if child in body else body)
                ):
                    # The author knows, and chose this one for machines that have what is needed.
                    return True
            case ast.IfExp(test=test, body=taken, orelse=other) if child is not test:
                if _asks_for_accelerator(test, facts) == (child is taken):
                    return True
                if _may_be_about_devices(test, facts) and "map_location" in ast.unparse(
                    other if child is taken else taken
                ):
                    return True
        if _leaves_before(parent, child, facts):
            return True
        child = parent
    return False


def _may_be_about_devices(test: ast.expr, facts: Facts) -> bool:
    """Whether a test may ask for what the machine has: by its words, or those of what its names were given."""
    told = [test, *(v for n in ast.walk(test) if isinstance(n, ast.Name) for v in facts.model.assigned_values(n))]
    return any(_OF_DEVICES.search(ast.unparse(part)) is not None for part in told)


_OF_DEVICES = regex(
    r"(?i)cuda|gpu|cpu|mps|npu|xpu|device|accelerat|available|map_?loc|rank|distributed|ddp|parallel|world"
)


def is_given_up(call: ast.Call, facts: Facts) -> bool:
    """Whether an error that a missing device gives is swallowed, and the program goes on without what would have been loaded."""
    child: ast.AST = call
    for parent in facts.model.ancestors(call):
        if isinstance(parent, ast.Try) and child in parent.body:
            catching = [h for h in parent.handlers if _catches_runtime_error(h)]
            return bool(catching) and not any(_loads_or_ends(n, call) for h in catching for n in ast.walk(h))
        child = parent
    return False


def _loads_or_ends(node: ast.AST, call: ast.Call) -> bool:
    """Whether a handler ends the function, or the program, or loads in another way."""
    if isinstance(node, ast.Call):
        return "load" in last_name(node.func) or last_name(node.func) in ("exit", "_exit", "quit")
    return isinstance(node, (ast.Raise, ast.Return))


def _says_where(statement: ast.stmt, call: ast.Call) -> bool:
    """Whether a statement gives the same function a `map_location`, by its name or by its position."""
    return "map_location" in ast.unparse(statement) or any(
        isinstance(n, ast.Call) and len(n.args) > max(len(call.args), 1) and ast.dump(n.func) == ast.dump(call.func)
        for n in ast.walk(statement)
    )


def _catches_runtime_error(handler: ast.ExceptHandler) -> bool:
    """The error that a missing device gives is dealt with."""
    return handler.type is None or any(name in ast.unparse(handler.type) for name in ("RuntimeError", "Exception"))


def _asks_for_accelerator(test: ast.expr, facts: Facts) -> bool | None:
    """True where a condition holds with an accelerator, False where it holds without one, None where it asks else."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            asked = _asks_for_accelerator(operand, facts)
            return None if asked is None else not asked
        case ast.BoolOp(op=op, values=values):
            # `a and available`: holds only with one. `a or not available`: fails only with one.
            telling = isinstance(op, ast.And)
            return telling if any(_asks_for_accelerator(v, facts) is telling for v in values) else None
        case ast.Call():
            return True if ast.unparse(test.func).endswith("is_available") else None
        case ast.Name():
            return True if any(_asks_for_accelerator(v, facts) for v in facts.model.assigned_values(test)) else None
    return None


def _leaves_before(parent: ast.AST, child: ast.AST, facts: Facts) -> bool:
    """`if not torch.cuda.is_available(): return ...` stands before it."""
    block = getattr(parent, "body", None)
    if not isinstance(block, list) or child not in block:
        return False
    return any(
        isinstance(s, ast.If) and isinstance(s.body[-1], ast.Return) and _asks_for_accelerator(s.test, facts) is False
        for s in block[: block.index(child)]
    )


def is_tried_again(call: ast.Call, facts: Facts) -> bool:
    """Whether the same was tried before, for a file that couldn't be read: then both are mended, or none."""
    return any(True for _ in _tried_before(call, facts))


def was_tried_there(call: ast.Call, facts: Facts) -> bool:
    """Whether the same was tried before with a `map_location`: where that failed, the place that was saved is meant."""
    return any(k.arg == "map_location" for tried in _tried_before(call, facts) for k in tried.keywords)


def _tried_before(call: ast.Call, facts: Facts) -> Iterator[ast.Call]:
    """The calls of the same function in the `try` for which a handler has this one."""
    handlers = (p for p in facts.model.ancestors(call) if isinstance(p, ast.ExceptHandler))
    tried = (facts.model.ancestors(handler) for handler in handlers)
    for parent in (p for parents in tried for p in parents if isinstance(p, ast.Try)):
        for node in (n for statement in parent.body for n in ast.walk(statement)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == ast.unparse(call.func):
                yield node
