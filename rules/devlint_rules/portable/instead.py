"""What DEV702 writes in the place of CUDA: the project's own, the device at hand, or the accelerator that is there."""

from __future__ import annotations

import ast
import re
from itertools import islice
from typing import TYPE_CHECKING

from devlint.facts import dotted, own_nodes
from devlint.portable import ATTRIBUTE, DEVICE, METHOD, Layer
from devlint.rule import Change
from devlint_rules.portable import guards, named
from devlint_rules.portable.at_hand import CHECKS_SINCE, AtHand, at_hand, outermost
from devlint_rules.portable.spelt import (
    comparison_of,
    index_behind,
    names_cuda,
    names_device,
    says_first,
    wants_type,
    whole_of,
)

if TYPE_CHECKING:
    from devlint.facts import Facts


def hint_for(found: ast.expr, layer: Layer | None, facts: Facts) -> str:
    """What to do where no fix is offered."""
    if isinstance(found, ast.Attribute) or comparison_of(found, facts) is not None:
        return 'ask for the host instead: `.device.type != "cpu"`'
    if layer is not None:
        return f"use `{layer.code}`"
    return "give the device on: `torch.accelerator.current_accelerator()` is the one that is there"


def layer_for(found: ast.expr, facts: Facts) -> Layer | None:
    """The project's own for what an expression does."""
    if isinstance(found, ast.Attribute):
        return facts.surroundings.portable.layer(ATTRIBUTE)
    if isinstance(found, ast.Call) and (own := facts.surroundings.portable.layer(METHOD)) is not None:
        return own
    return facts.surroundings.portable.layer(DEVICE)


def by_layer(found: ast.expr, layer: Layer, facts: Facts) -> Change | None:
    """The project's own in the place of an expression; None where nobody knows how."""
    code: str | None = layer.code
    match found:
        case ast.Attribute():
            code = f"{layer.code}({facts.code_of(found.value)})"
        case ast.Call(func=ast.Attribute(value=owner)) if facts.surroundings.portable.layer(METHOD) is not None:
            rest = [facts.code_of(a) for a in found.args] + [
                f"{k.arg}={facts.code_of(k.value)}" for k in found.keywords
            ]
            code = f"{layer.code}({', '.join([facts.code_of(owner), *rest])})"
        case ast.Call():
            code = _moved(found, layer.code, facts)
        case _ if index_behind(found) is None or _is_default(found, facts):
            return None
    if code is None:
        return None
    return Change(f"use `{layer.code}`", "unsafe", edits=(facts.replaced(found, code),), imports=(layer.needs,))


def by_device(found: ast.expr, facts: Facts) -> Change | None:
    """The device at hand, or one that is asked for, in the place of an expression; None where a reader has to see to it."""
    if isinstance(found, ast.Attribute) or _is_default(found, facts) or "torch" not in facts.model.source.bindings:
        return None
    if _is_like(found) or named.is_commented_on(found, facts) or _is_under_device(found, facts):
        return None
    if comparison_of(found, facts) is not None and not guards.is_in_test(found, facts):
        return None
    device = at_hand(found, facts)
    if device is not None:
        code = _with(device, found, facts)
        return Change(f"use `{device.device}`", "unsafe", edits=(facts.replaced(*code),)) if code else None
    # The value of a variable is asked for where it is set.
    if _sets_device(found, facts):
        whole = whole_of(found, facts)
        return Change("ask for the accelerator", "unsafe", edits=(facts.replaced(whole, _asked(found, facts)),))
    if _is_named_with_index(found, facts):
        asked = "torch.accelerator.current_accelerator().type"
        return Change("ask for the accelerator", "unsafe", edits=(facts.replaced(found, asked),))
    return None if _is_chosen(found, facts) else _by_new_variable(found, facts)


def _is_named_with_index(found: ast.expr, facts: Facts) -> bool:
    """`device = torch.device("cuda", rank)` beside what needs an accelerator."""
    parent, statement = [*islice(facts.model.ancestors(found), 2)]
    match parent, statement:
        case ast.Call(args=[first, _]), ast.Assign(targets=[target]) if first is found and wants_type(found, facts):
            return names_device((dotted(target) or "").rpartition(".")[2]) and _needs_one(found, facts)
    return False


def _is_under_device(found: ast.expr, facts: Facts) -> bool:
    """`with torch.cuda.device(n):` says which one of CUDA's is meant."""
    withs = (p for p in facts.model.ancestors(found) if isinstance(p, ast.With))
    return any("cuda.device(" in ast.unparse(item.context_expr) for p in withs for item in p.items)


def _is_like(found: ast.expr) -> bool:
    """`torch.ones_like(x).cuda()`: it is where `x` is, and needs no move."""
    match found:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Attribute(attr=name)))):
            return name.endswith("_like")
    return False


def _is_chosen(found: ast.expr, facts: Facts) -> bool:
    """`torch.device("cpu" if host else "cuda")`: a variable of its own for one of the two says it twice."""
    parent = next(facts.model.ancestors(found), None)
    return isinstance(parent, ast.IfExp) and parent.test is not found


def _by_new_variable(found: ast.expr, facts: Facts) -> Change | None:
    """A variable `device`, set before the statement of the function or module that first needs it."""
    scope = outermost(found, facts)
    if isinstance(scope, ast.Module) or _binds(scope, "device") or named.stays(found, facts):
        return None
    if any(map(names_cuda, own_nodes(facts.model.source.tree))):
        # What runs at the top level stays with CUDA: a part of the file goes along.
        return None
    first = _first_statement(scope, found, facts)
    code = _with(AtHand("device", "device.type"), found, facts)
    if first is None or code is None:
        return None
    made = facts.inserted_before(first, f"device = {_accelerator(first, facts)}")
    return Change("ask for the accelerator once", "unsafe", edits=(made, facts.replaced(*code)))


def _binds(scope: ast.AST, name: str) -> bool:
    return any(
        (isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store))
        or (isinstance(n, ast.arg) and n.arg == name)
        for n in ast.walk(scope)
    )


def _first_statement(scope: ast.FunctionDef | ast.AsyncFunctionDef, found: ast.expr, facts: Facts) -> ast.stmt | None:
    """The first statement of a function that names CUDA, in the block that holds all that do; None where it comes later.

    Loops are not gone into, so that what is asked before them is asked once.
    """
    block: list[ast.stmt] | None = scope.body
    first = None
    while block is not None:
        holding = [statement for statement in block if _count(statement)]
        if holding and _starts_a_line(holding[0], facts):
            first = holding[0]
        block = _only_block(holding[0]) if len(holding) == 1 else None
    return first if first is not None and first.lineno <= found.lineno else None


def _only_block(statement: ast.stmt) -> list[ast.stmt] | None:
    """The block of a statement that holds all that names CUDA in it; None where there is none, or it runs again and again."""
    if not isinstance(statement, (ast.If, ast.With, ast.Try)):
        return None
    blocks = [getattr(statement, field, []) for field in ("body", "orelse", "finalbody")]
    return next((block for block in blocks if sum(map(_count, block)) == _count(statement)), None)


def _count(node: ast.AST) -> int:
    return sum(map(names_cuda, ast.walk(node)))


def _starts_a_line(statement: ast.stmt, facts: Facts) -> bool:
    """Whether a line can be added before a statement: it is no `elif`, and has its line for itself."""
    span = facts.text.span_of(statement)
    line = facts.text.line(span.line)
    return not line[: span.column - 1].strip() and not re.match(r"elif\b", line[span.column - 1 :])


def _accelerator(found: ast.expr | ast.stmt, facts: Facts) -> str:
    """Code for the accelerator of the machine, or the host, for where an expression or a statement stands."""
    current = "torch.accelerator.current_accelerator()"
    if _needs_one(found, facts):
        return current
    if facts.surroundings.oldest_torch is not None and facts.surroundings.oldest_torch < CHECKS_SINCE:
        return f'{current} if torch.accelerator.is_available() else torch.device("cpu")'
    return 'torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")'


def _needs_one(found: ast.expr | ast.stmt, facts: Facts) -> bool:
    """Whether the code only runs where there is an accelerator: under a test for one, or a mark."""
    if isinstance(facts.model.enclosing_scope(found), ast.Module):
        # Marks come too late for what a class or module does as it is made.
        return guards.has_accelerator(found, facts, marks=False)
    return guards.has_accelerator(found, facts) or any(
        re.search(r"requires?_(?:gpu|accelerator|cuda)", ast.unparse(mark))
        for definition in guards.definitions_around(found, facts)
        for mark in definition.decorator_list
    )


def _asked(found: ast.expr, facts: Facts) -> str:
    """The value of a variable that is set to CUDA."""
    whole = whole_of(found, facts)
    if whole is not found and says_first(found, facts):
        return "torch.device(torch.accelerator.current_accelerator().type, 0)"
    if whole is not found:
        return _accelerator(found, facts)
    if _needs_one(found, facts):
        return "torch.accelerator.current_accelerator().type"
    return 'torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"'


def _sets_device(found: ast.expr, facts: Facts) -> bool:
    """Whether it is the whole value of a variable that is called a device."""
    if index_behind(found) not in ("", "0") or (says_first(found, facts) and not _needs_one(found, facts)):
        return False
    parent = next(facts.model.ancestors(whole_of(found, facts)), None)
    match parent:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return names_device((dotted(target) or "").rpartition(".")[2])
    return False


def _with(device: AtHand, found: ast.expr, facts: Facts) -> tuple[ast.expr, str] | None:
    """(what is replaced, by what) with a device at hand."""
    if isinstance(found, ast.Call):
        code = _moved(found, device.device, facts)
        return None if code is None else (found, code)
    index = index_behind(found)
    if index is None:
        return None
    if comparison_of(found, facts) is not None or wants_type(found, facts):
        return (found, device.type) if not index else None
    whole = whole_of(found, facts)
    if index == "" or (index == "0" and not says_first(found, facts)):
        return (whole, device.device) if device.device != device.type or whole is found else (found, device.device)
    if whole is not found:
        return whole, f"torch.device({device.type}, {index})"
    return found, f'f"{{{device.type}}}:{index if index.isdigit() else "{" + index + "}"}"'


def _moved(call: ast.Call, device: str, facts: Facts) -> str | None:
    """`x.cuda(...)` as `x.to(device, ...)`; None where it is told an index."""
    assert isinstance(call.func, ast.Attribute)
    kept = [k for k in call.keywords if k.arg == "non_blocking"]
    if call.args or len(kept) != len(call.keywords):
        return None
    given = ", ".join([device, *(f"{k.arg}={facts.code_of(k.value)}" for k in kept)])
    return f"{facts.code_of(call.func.value)}.to({given})"


def _is_default(found: ast.expr, facts: Facts) -> bool:
    """Whether it is a parameter's default, or a value in a decorator: what may be there is asked too early."""
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        if isinstance(parent, ast.arguments):
            return True
        if isinstance(parent, guards.Definition):
            return child in parent.decorator_list
        child = parent
    return False
