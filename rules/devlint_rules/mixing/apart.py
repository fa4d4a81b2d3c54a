"""What the rules about operands at different places share: names, notes and moves."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.facts import MOVES, Mixing, Operand, Place, Sort, access_path, is_told, is_under, own_nodes, walk
from devlint.findings import Edit, Note

if TYPE_CHECKING:
    from devlint.facts import Facts

# What may make a tensor, or take one from somewhere: without it there is nothing to be apart.
MAKES_TENSORS = (
    r"[lL]oader|\.cpu\(|from_numpy|\.(?:to|cuda)\(|Tensor\(|device"
    r"|\b(?:arange|linspace|logspace|eye|zeros|ones|empty|full|rand|randn|randint|randperm|tensor|range|normal)\("
)


def text_of(operand: Operand, facts: Facts) -> str:
    """An operand as the reader wrote it, long ones cut."""
    code = ast.unparse(operand.node) if operand.foreign else facts.code_of(operand.node)
    text = " ".join(code.split())
    return text if len(text) <= 40 else f"{text[:37]}..."


def place_text(place: Place, node: ast.expr, facts: Facts) -> str:
    """A place, for a sentence about a node: `on cuda`, `wherever x is`. Names of other scopes are none there."""
    if place.sort is Sort.SAME:
        if not facts.model.is_bound_before(root_of(place.name), node):
            return "on a device that the caller chooses" if is_told(place) else "wherever the caller has it"
        return f"on `{place.name}`" if is_told(place) else f"wherever `{place.name}` is"
    return f"on {place.name}"


def is_left_open(mixing: Mixing) -> bool:
    """Whether the other operand is wherever a caller has it, and nothing says where that is."""
    place = mixing.other.value.place
    return place.sort is Sort.SAME and not is_told(place)


def trails(mixing: Mixing, facts: Facts) -> tuple[Note, ...]:
    """Both operands' trails, each step under its operand's name."""
    found = [*facts.notes(mixing.calls)]
    for operand in (mixing.host, mixing.other):
        name = text_of(operand, facts)
        steps = operand.value.trail[-3:]
        found += [facts.note_at(f"`{name}`: {s.message}", s.path, s.line, s.column) for s in steps]
    return tuple(found)


def made_by_caller(mixing: Mixing, facts: Facts) -> str | None:
    """What to do about an operand that a caller made on the host; None where it is made here."""
    made = next((step for step in mixing.host.value.trail if step.message.startswith("created")), None)
    if made is None or not mixing.calls:
        return None
    here, source = facts.model.enclosing_scope(mixing.node), facts.model.source
    if isinstance(here, ast.Module) or (made.path == source.path and made.line in span_of(here)):
        return None
    where = f"line {made.line}" if made.path == source.path else f"{Path(made.path).name}:{made.line}"
    return f"best moved once, where the caller makes it ({where})"


def span_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> range:
    """The lines of a function."""
    return range(function.lineno, (function.end_lineno or function.lineno) + 1)


def at_call(mixing: Mixing, facts: Facts) -> str:
    """What to add to a message that stands at a call: what that gives, and where operands are by the names that are told.

    Empty where the reader finds these on the line.
    """
    call, operation = mixing.node, mixing.operation
    # A property is called where it is read.
    if operation is None or not isinstance(call, (ast.Call, ast.Attribute)):
        return ""
    names = {ast.unparse(part) for part in walk(call) if isinstance(part, ast.expr)}
    if names.issuperset(text_of(operand, facts) for operand in (mixing.host, mixing.other)):
        return ""
    here = facts.model.source.path
    where = f"line {operation.line}" if operation.path == here else f"{Path(operation.path).name}:{operation.line}"
    arguments = [*call.args, *(k.value for k in call.keywords)] if isinstance(call, ast.Call) else []
    given = ", ".join(map(ast.unparse, arguments))
    called = f"is called with `{given}`" if 0 < len(given) <= 40 else "is called here"
    return f", in `{operation.message}` ({where}), which {called}"


def is_likely(mixing: Mixing) -> bool:
    """Whether an inference took part, or a device that only the program's user knows."""
    return not mixing.certain


def dropped_move(operand: Operand, facts: Facts) -> bool:
    """Whether a move of the operand, or of what it was computed from, was made and dropped before: that is the finding then (DEV101)."""
    if operand.foreign:
        return False
    paths = {facts.code_of(operand.node)}
    if isinstance(operand.node, ast.Name):
        computed = [v for v in facts.model.assigned_values(operand.node) if isinstance(v, ast.Call)]
        paths |= {ast.unparse(a) for call in computed for a in call.args}
    statements = (n.value for n in own_nodes(facts.model.enclosing_scope(operand.node)) if isinstance(n, ast.Expr))
    dropped = (part for v in statements for part in (v.elts if isinstance(v, ast.Tuple) else [v]))
    return any(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in MOVES
        and call.lineno <= operand.node.lineno
        and ast.unparse(call.func.value) in paths
        for call in dropped
    )


def device_of(operand: Operand, facts: Facts) -> str | None:
    """An expression for the device of the operand, where a short one can be written here."""
    place = operand.value.place
    # What another function calls its device is no name here.
    if place.sort is Sort.SAME and is_told(place) and facts.model.is_bound_before(root_of(place.name), operand.node):
        return place.name
    if _is_plain(operand.node) and operand.value.is_tensor and not operand.foreign and not operand.inside:
        return f"{facts.code_of(operand.node)}.device"
    return None


def named_here(device: str, node: ast.expr, facts: Facts) -> str:
    """The name that a function gave a device before a node, as `device = x.device`, or made `x` with; the expression itself without one."""
    scope = facts.model.enclosing_scope(node)
    if isinstance(scope, ast.Module):
        return device
    stored = Counter(n.id for n in own_nodes(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    for n in own_nodes(scope):
        match n:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if n.lineno < node.lineno:
                made_with = _told_device(value) if f"{name}.device" == device and stored[name] == 1 else ""
                named = name if ast.unparse(value) == device else made_with
                if named and stored[named] < 2 and facts.model.is_bound_before(named, node):
                    return named
    return device


def _told_device(value: ast.expr) -> str:
    """`device` of `torch.zeros(3, device=device)`; "" for what no name says."""
    given = [k.value for k in value.keywords if k.arg == "device"] if isinstance(value, ast.Call) else []
    return given[0].id if given and isinstance(given[0], ast.Name) else ""


def device_moved_to(operand: Operand, node: ast.expr, facts: Facts) -> str | None:
    """The device as the last move in an operand's trail spells it, where a name or a string does that is known at a node."""
    for step in reversed(operand.value.trail):
        for call in walk(facts.model.source.tree) if step.path == facts.model.source.path else ():
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr in MOVES
                and (call.lineno, call.col_offset) == (step.line, step.column)
            ):
                if call.func.attr != "to":
                    return repr(MOVES[call.func.attr]).replace("'", '"') if not call.args else None
                device = call.args[0] if call.args else call.keywords[0].value if call.keywords else None
                if isinstance(device, ast.Name) and not facts.model.is_bound_before(device.id, node):
                    return None
                return ast.unparse(device).replace("'", '"') if isinstance(device, (ast.Name, ast.Constant)) else None
    return None


def moved(operand: Operand, device: str, facts: Facts) -> Edit | None:
    """An edit that moves an operand; None where the operand can't simply take a method."""
    if operand.foreign or operand.inside or (not _is_plain(operand.node) and not isinstance(operand.node, ast.Call)):
        return None
    if _is_written_here(operand.node, facts):
        return None
    return facts.replaced(operand.node, f"{facts.code_of(operand.node)}.to({device})")


def _is_written_here(node: ast.expr, facts: Facts) -> bool:
    """Whether a part of a batch, or of an object, is put there by the scope itself, or has parts that are: `batch["x"][1] = ...`.

    It may be there by now, or be no tensor at all.
    """
    path = access_path(node)
    if path is None or isinstance(node, ast.Name):
        return False
    targets = (
        target
        for n in own_nodes(facts.model.enclosing_scope(node))
        if isinstance(n, (ast.Assign, ast.AugAssign))
        for target in (n.targets if isinstance(n, ast.Assign) else [n.target])
    )
    return any(written == path or is_under(written, path) for t in targets if (written := access_path(t)) is not None)


def root_of(path: str) -> str:
    """The name that an access begins with: `args` of `args.device`."""
    return path.split(".", 1)[0].split("[", 1)[0]


def _is_plain(node: ast.expr) -> bool:
    match node:
        case ast.Name():
            return True
        case ast.Attribute(value=value) | ast.Subscript(value=value):
            return _is_plain(value)
    return False
