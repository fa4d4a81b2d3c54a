"""DEV702: CUDA named as the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from devlint.facts import Kind, dotted, own_nodes
from devlint.lazy import cst, m, regex
from devlint.portable import ATTRIBUTE, DEVICE, METHOD, Layer
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.arguments import taker, takers
from devlint_rules.portable import guards, named
from devlint_rules.portable.at_hand import CHECKS_SINCE, AtHand, at_hand, outermost
from devlint_rules.portable.indices import index_counts

if TYPE_CHECKING:
    from devlint.facts import Facts
    from devlint.findings import Confidence

# What a string that names CUDA as a device looks like; the index behind it may be computed.
_LITERAL = regex(r"cuda(?::(\d+)?)?")
# What is called like a device, or like the type of one.
_DEVICE = regex(r"(?:^|_)(?:device|dev|map_location|accelerator)$|^device_map$", re.IGNORECASE)
_TYPE = regex(r"(?:device|accel|accelerator)_type$|^device\.type$", re.IGNORECASE)
# Functions whose first argument is the type of a device.
_TYPE_FIRST = frozenset({"torch.autocast", "torch.amp.autocast", "torch.amp.GradScaler", "torch.get_autocast_dtype"})
_MESHES = frozenset({"init_device_mesh", "DeviceMesh"})


class CudaLiteral(Rule):
    """CUDA named as the device, where any accelerator would do.

    ## What it does
    Flags `.cuda()`, `.is_cuda`, and `"cuda"` and `"cuda:0"` where a device or its type is asked for: given to PyTorch, to a
    parameter such as `device=`, kept in a variable that is called so, compared with a `.type`. Left alone is what is
    about CUDA on purpose, as for DEV701, a comparison whose branch does what only CUDA can, and code that speaks of other
    backends as well: it maps one to another.

    Where it speaks, `hard-coded-device` (DEV603) doesn't.

    ## Why is this bad
    On a machine with another accelerator the program fails here, or takes the other branch.

    ## Example
    ```python
    import torch


    def noise(x: torch.Tensor, device: torch.device):
        return x + torch.randn(3, device="cuda")


    device = torch.device("cuda:1")  # devlint: ignore[DEV702] what is tried here
    y = noise(torch.ones(3, device=device), device)
    ```

    ## Use instead
    ```python
    import torch


    def noise(x: torch.Tensor, device: torch.device):
        return x + torch.randn(3, device=device)


    device = torch.device("cuda:1")  # devlint: ignore[DEV702] what is tried here
    y = noise(torch.ones(3, device=device), device)
    ```

    ## Fix safety
    Unsafe: it takes the device at hand (a variable, `self.device`, the device of an operand), or asks for the accelerator
    of the machine once, in a variable `device`. Where there is none, that is the host.

    ## References
    - [torch.accelerator](https://docs.pytorch.org/docs/stable/accelerator.html)
    - [Device-agnostic code](https://docs.pytorch.org/docs/stable/notes/cuda.html#device-agnostic-code)
    """

    code = "DEV702"
    name = "cuda-literal"
    trigger = r"\.\s*cuda\s*\(|\bis_cuda\b|[\"']cuda\b"
    severity = "warning"
    default = False
    effect = Effect(raises="RuntimeError", words="Expected all tensors to be on the same device")
    fix = "U"

    def shape(self) -> m.BaseMatcherNode:
        text = m.SimpleString(m.MatchRegex(r"[\"']cuda(?::\d*)?[\"']"))
        formatted = m.FormattedString(parts=[m.FormattedStringText("cuda:"), m.AtLeastN(n=1)])
        return m.Call(func=m.Attribute(attr=m.Name("cuda"))) | m.Attribute(attr=m.Name("is_cuda")) | text | formatted

    def judge(self, node: cst.BaseExpression, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        if found is None:
            return
        told = _told(found, facts)
        if told is None or guards.is_about_cuda(found, facts) or guards.maps_backends(found, facts):
            return
        if any(re.search(r"(?:^|_to_)cuda$", d.name) for d in guards.definitions_around(found, facts)):
            # What a class has for CUDA itself, and what says that it moves there.
            return
        confidence, message = told
        layer = _layer(found, facts)
        change = _by_layer(found, layer, facts) if layer is not None else _by_device(found, facts)
        hint = None if change else _hint(found, layer, facts)
        yield Report(node, f"`{facts.name_of(node)}` {message}", confidence, hint=hint, change=change)


# What is told


def _told(found: ast.expr, facts: Facts) -> tuple[Confidence, str] | None:
    """(confidence, the message) where an expression names CUDA as a device; None where it doesn't."""
    match found:
        case ast.Call(func=ast.Attribute(value=owner)):
            return _move(owner, found, facts)
        case ast.Attribute(ctx=ast.Load()):
            owner_name = dotted(found.value)
            known = facts.model.value(found.value).kind is not Kind.UNKNOWN
            if owner_name is not None and facts.model.qualified(found.value) is not None:
                return None
            return ("certain" if known else "likely"), "asks for CUDA, not for any accelerator"
        case ast.Constant() | ast.JoinedStr():
            return _literal(found, facts)
    return None


def _move(owner: ast.expr, call: ast.Call, facts: Facts) -> tuple[Confidence, str] | None:
    value = facts.model.value(owner)
    if value.kind in (Kind.REFERENCE, Kind.FUNCTION):
        return None
    if value.cls is not None and value.cls.method("cuda") is not None:
        return None
    known = value.kind in (Kind.TENSOR, Kind.PARAMETER, Kind.MODULE, Kind.WRAPPER, Kind.BATCH)
    return ("certain" if known else "likely"), "moves to CUDA, not to the accelerator that is there"


def _literal(found: ast.Constant | ast.JoinedStr, facts: Facts) -> tuple[Confidence, str] | None:
    message = "names CUDA where any accelerator would do"
    compared = _compared(found, facts)
    if compared is not None:
        return ("certain", "asks for CUDA, not for any accelerator") if _is_portable_test(compared, facts) else None
    # `"cuda" if torch.cuda.is_available() else "cpu"` is told, and mended, at its test.
    if _is_choice(found, facts) or _is_last_resort(found, facts) or _is_label(found, facts):
        return None
    if next(takers(found, facts), None) is not None:
        return "certain", message
    return ("likely", message) if _is_called_device(found, facts) else None


def _compared(found: ast.expr, facts: Facts) -> ast.Compare | None:
    """The comparison that an expression, or a tuple with it, is a side of."""
    for parent in facts.model.ancestors(found):
        if isinstance(parent, ast.Compare):
            return parent
        if not isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
            return None
    return None


def _is_portable_test(compared: ast.Compare, facts: Facts) -> bool:
    """Whether `device.type == "cuda"` decides nothing that only CUDA can do."""
    sides = [compared.left, *compared.comparators]
    if len(sides) != 2 or not isinstance(compared.ops[0], (ast.Eq, ast.NotEq)):
        return False
    if not any(re.search(r"(?:^|[._])device\.type$|device_type$", ast.unparse(side)) for side in sides):
        return False
    child: ast.AST = compared
    for parent in facts.model.ancestors(compared):
        match parent:
            case ast.If(test=test) if child is test:
                # What the branch does is looked at: functions of CUDA's that have counterparts, or flags.
                text = "\n".join(ast.unparse(s) for s in (*parent.body, *parent.orelse))
                return "torch.cuda." in text and not guards.OWN.search(text)
            case ast.IfExp() | ast.While():
                return False
            case ast.Assert():
                return guards.is_in_test(parent, facts)
            case ast.keyword(arg=argument):
                return argument is not None and "pin_memory" in argument
            case ast.Assign(targets=[ast.Name(id=name)]):
                return re.search(r"pin|amp|non_blocking|use_gpu", name) is not None
            case ast.stmt():
                return False
        child = parent
    return False


def _is_choice(found: ast.expr, facts: Facts) -> bool:
    parent = next(facts.model.ancestors(found), None)
    return (
        isinstance(parent, ast.IfExp)
        and parent.test is not found
        and re.search(r"torch\.cuda\.|\bcuda\.", ast.unparse(parent.test)) is not None
    )


def _is_last_resort(found: ast.expr, facts: Facts) -> bool:
    """`given or "cuda"`: what is meant where nothing else was found."""
    parent = next(facts.model.ancestors(found), None)
    return isinstance(parent, ast.BoolOp) and parent.values[0] is not found


def _is_label(found: ast.expr, facts: Facts) -> bool:
    """Whether nothing is put there: tensors are fake, or a test that runs anywhere only makes a `torch.device`."""
    withs = (p for p in facts.model.ancestors(found) if isinstance(p, ast.With))
    if any(re.search(r"[fF]ake", ast.unparse(item)) for p in withs for item in p.items):
        return True
    whole = _whole(found, facts)
    around = guards.definitions_around(found, facts)
    if whole is found or not guards.is_in_test(found, facts) or any(d.decorator_list for d in around):
        return False
    test = next(d for d in around if d.name.startswith("test"))
    return not re.search(r"\bdevice=|\.to\(|\.cuda\(|with torch\.device", guards.text_of(test, facts))


def _is_called_device(found: ast.expr, facts: Facts) -> bool:
    """Whether what takes the string is called a device: a keyword, a variable, a parameter, a row of test values."""
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.keyword(arg=str() as name):
                return _is_device_name(name)
            case ast.Call(func=func, args=[first, *_]) if child is first:
                name = (dotted(func) or "").rpartition(".")[2]
                return name in _MESHES
            case ast.Call(func=func, args=args) if child in args[1:]:
                return (dotted(func) or "").endswith("parametrize") and _names_devices(args[0])
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                return _is_device_name((dotted(target) or "").rpartition(".")[2])
            case ast.arguments():
                return _is_device_name(_parameter(parent, child) or "")
            case ast.IfExp(test=test) if child is not test:
                child = parent
            case ast.List() | ast.Tuple() | ast.BoolOp():
                child = parent
            case ast.Starred() | ast.Dict() | ast.Compare() | ast.stmt():
                return False
            case _:
                return False
    return False


def _is_device_name(name: str) -> bool:
    return _DEVICE.search(name) is not None or _TYPE.search(name) is not None


def _names_devices(names: ast.expr) -> bool:
    return isinstance(names, ast.Constant) and isinstance(names.value, str) and "device" in names.value


def _parameter(arguments: ast.arguments, default: ast.AST) -> str | None:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    return next((argument.arg for argument, given in pairs if given is default), None)


# What to write instead


def _hint(found: ast.expr, layer: Layer | None, facts: Facts) -> str:
    if isinstance(found, ast.Attribute) or _compared(found, facts) is not None:
        return 'ask for the host instead: `.device.type != "cpu"`'
    if layer is not None:
        return f"use `{layer.code}`"
    return "give the device on: `torch.accelerator.current_accelerator()` is the one that is there"


def _layer(found: ast.expr, facts: Facts) -> Layer | None:
    """The project's own for what an expression does."""
    if isinstance(found, ast.Attribute):
        return facts.surroundings.portable.layer(ATTRIBUTE)
    if isinstance(found, ast.Call) and (own := facts.surroundings.portable.layer(METHOD)) is not None:
        return own
    return facts.surroundings.portable.layer(DEVICE)


def _by_layer(found: ast.expr, layer: Layer, facts: Facts) -> Change | None:
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
        case _ if _index(found) is None or _is_default(found, facts):
            return None
    if code is None:
        return None
    return Change(f"use `{layer.code}`", "unsafe", edits=(facts.replaced(found, code),), imports=(layer.needs,))


def _by_device(found: ast.expr, facts: Facts) -> Change | None:
    if isinstance(found, ast.Attribute) or _is_default(found, facts) or "torch" not in facts.model.source.bindings:
        return None
    if _is_like(found) or named.is_commented_on(found, facts) or _is_under_device(found, facts):
        return None
    if _compared(found, facts) is not None and not guards.is_in_test(found, facts):
        return None
    device = at_hand(found, facts)
    if device is not None:
        code = _with(device, found, facts)
        return Change(f"use `{device.device}`", "unsafe", edits=(facts.replaced(*code),)) if code else None
    # The value of a variable is asked for where it is set.
    if _sets_device(found, facts):
        whole = _whole(found, facts)
        return Change("ask for the accelerator", "unsafe", edits=(facts.replaced(whole, _asked(found, facts)),))
    if _is_named_with_index(found, facts):
        asked = "torch.accelerator.current_accelerator().type"
        return Change("ask for the accelerator", "unsafe", edits=(facts.replaced(found, asked),))
    return None if _is_chosen(found, facts) else _by_new_variable(found, facts)


def _is_named_with_index(found: ast.expr, facts: Facts) -> bool:
    """`device = torch.device("cuda", rank)` beside what needs an accelerator."""
    parent, statement = [*islice(facts.model.ancestors(found), 2)]
    match parent, statement:
        case ast.Call(args=[first, _]), ast.Assign(targets=[target]) if first is found and _wants_type(found, facts):
            return _is_device_name((dotted(target) or "").rpartition(".")[2]) and _needs_one(found, facts)
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
    if any(map(_is_literal, own_nodes(facts.model.source.tree))):
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
    return sum(map(_is_literal, ast.walk(node)))


def _starts_a_line(statement: ast.stmt, facts: Facts) -> bool:
    """Whether a line can be added before a statement: it is no `elif`, and has its line for itself."""
    span = facts.text.span_of(statement)
    line = facts.text.line(span.line)
    return not line[: span.column - 1].strip() and not re.match(r"elif\b", line[span.column - 1 :])


def _is_literal(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str() as text):
            return _LITERAL.fullmatch(text) is not None
        case ast.JoinedStr(values=[ast.Constant(value="cuda:"), *_]):
            return True
        case ast.Call(func=ast.Attribute(attr="cuda")):
            return True
    return False


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
    whole = _whole(found, facts)
    if whole is not found and _index_counts(found, facts):
        return "torch.device(torch.accelerator.current_accelerator().type, 0)"
    if whole is not found:
        return _accelerator(found, facts)
    if _needs_one(found, facts):
        return "torch.accelerator.current_accelerator().type"
    return 'torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"'


def _sets_device(found: ast.expr, facts: Facts) -> bool:
    """Whether it is the whole value of a variable that is called a device."""
    if _index(found) not in ("", "0") or (_index_counts(found, facts) and not _needs_one(found, facts)):
        return False
    parent = next(facts.model.ancestors(_whole(found, facts)), None)
    match parent:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return _is_device_name((dotted(target) or "").rpartition(".")[2])
    return False


def _whole(found: ast.expr, facts: Facts) -> ast.expr:
    """The call of `torch.device` around a string, where it is given nothing else; the string itself elsewhere."""
    parent = next(facts.model.ancestors(found), None)
    match parent:
        case ast.Call(func=func, args=[only], keywords=[]) if (
            only is found and facts.model.qualified(func) == "torch.device"
        ):
            return parent
    return found


def _with(device: AtHand, found: ast.expr, facts: Facts) -> tuple[ast.expr, str] | None:
    """(what is replaced, by what) with a device at hand."""
    if isinstance(found, ast.Call):
        code = _moved(found, device.device, facts)
        return None if code is None else (found, code)
    index = _index(found)
    if index is None:
        return None
    if _compared(found, facts) is not None or _wants_type(found, facts):
        return (found, device.type) if not index else None
    whole = _whole(found, facts)
    if index == "" or (index == "0" and not _index_counts(found, facts)):
        return (whole, device.device) if device.device != device.type or whole is found else (found, device.device)
    if whole is not found:
        return whole, f"torch.device({device.type}, {index})"
    return found, f'f"{{{device.type}}}:{index if index.isdigit() else "{" + index + "}"}"'


def _index(found: ast.expr) -> str | None:
    """The code of the index behind `cuda:`, "" where there is none; None where it can't be told."""
    match found:
        case ast.Constant(value=str() as text):
            matched = _LITERAL.fullmatch(text)
            return (matched[1] or "") if matched and text != "cuda:" else None
        case ast.JoinedStr(
            values=[ast.Constant(value="cuda:"), ast.FormattedValue(value=value, conversion=-1, format_spec=None)]
        ):
            return ast.unparse(value)
    return None


def _index_counts(found: ast.expr, facts: Facts) -> bool:
    """Whether a string names the first device, and that it has an index counts."""
    return _index(found) == "0" and index_counts(_whole(found, facts), facts)


def _wants_type(found: ast.expr, facts: Facts) -> bool:
    """Whether a string is asked for that is the type of a device, not a device."""
    parent = next(facts.model.ancestors(found), None)
    if isinstance(parent, ast.keyword) and parent.arg is not None:
        return _TYPE.search(parent.arg) is not None
    if isinstance(parent, ast.Call) and len(parent.args) > 1 and facts.model.qualified(parent.func) == "torch.device":
        return True
    taken = taker(found, facts)
    if taken is not None and taken.name in _TYPE_FIRST:
        return True
    return isinstance(parent, ast.Call) and (dotted(parent.func) or "").rpartition(".")[2] in _MESHES


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
