"""Signs at hand that something is no tensor, or on the host: tests around it, what its name is given, and words beside it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from devlint.placement.choices import Choices
from devlint.regexes import regex
from devlint.signatures.answers.attributes import is_cpu
from devlint.signatures.answers.order import is_own
from devlint.signatures.answers.waits import Stall
from devlint.signatures.state.waits import DECIDE, FLUSH, MADE, READ, STAGED
from devlint.source.modules import FunctionModel, SourceModule, last_name
from devlint.source.trees import walk


class File(Protocol):
    """What is asked of the model of a file."""

    @property
    def source(self) -> SourceModule: ...
    @property
    def choices(self) -> Choices: ...
    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]: ...
    def files_naming(self, name: str) -> Sequence[File]: ...


def is_ruled_out(model: File, stall: Stall) -> bool:
    """Whether something says that what is waited for is no tensor, or is on the host."""
    if stall.sense == FLUSH:
        return False
    if stall.sense == MADE:
        return _takes_numbers(model, stall)
    return (
        _is_no_tensor_here(model, stall)
        or _asks_whether_given(stall)
        or _is_made_for_host(model, stall)
        or _is_no_tensor_by_name(model, stall)
        or _is_array_by_use(stall)
        or _is_said_to_be_on_host(model, stall)
        or _is_left_a_number(stall)
        or _is_step_of_optimizer(model, stall)
        # What is uploaded is on the host by then, and is to be.
        or (stall.sense != STAGED and (_is_moved_later(stall) or _is_made_of_data(stall)))
    )


# -- what stands around it ---------------------------------------------------------------------------------------------


def _is_no_tensor_here(model: File, stall: Stall) -> bool:
    """`"learned" == kind`, and the `else` of `if torch.is_tensor(value):`."""
    if isinstance(stall.asked, ast.Compare) and any(map(_is_text, (stall.asked.left, *stall.asked.comparators))):
        return True
    asked = ast.unparse(stall.asked)
    return any(
        isinstance(parent, ast.If) and child in parent.orelse and _asks_for_tensor(parent.test) == asked
        for child, parent in _around(model, stall.node)
    )


def _asks_whether_given(stall: Stall) -> bool:
    """`if past:` where `past=None` is a parameter, whatever its annotation says: of a tensor nobody could ask that."""
    match stall.sense, stall.asked:
        case (kind, ast.Name(id=name)) if kind == DECIDE and stall.asked is stall.node:
            given = stall.function.defaults.get(name)
            stores = (n for n in stall.function.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            is_as_given = all(n.id != name or n.lineno > stall.node.lineno for n in stores)
            return isinstance(given, ast.Constant) and given.value is None and is_as_given
    return False


def _around(model: File, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What stands around a node in its function, the innermost first, each behind the part of it that the node is in."""
    child = node
    for parent in model.ancestors(node):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        yield child, parent
        child = parent


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_made_for_host(model: File, stall: Stall) -> bool:
    """Whether a `with torch.device("cpu"):` is around: what such code handles is the host's."""
    if stall.value.place.off_host:
        return False
    return any(
        isinstance(parent, ast.With) and any(is_cpu(item.context_expr) for item in parent.items)
        for _, parent in _around(model, stall.node)
    )


def _takes_numbers(model: File, stall: Stall) -> bool:
    """`if not torch.is_tensor(t): t = torch.tensor([t], device=x.device)`: for those who give a number."""
    for _, parent in _around(model, stall.node):
        match parent:
            case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=test)):
                asked = _asks_for_tensor(test)
                if asked is not None and any(ast.unparse(n) == asked for n in ast.walk(stall.asked)):
                    return True
    return False


def _asks_for_tensor(test: ast.expr) -> str | None:
    """What a test asks whether it is a tensor."""
    match test:
        case ast.Call(func=ast.Attribute(attr="is_tensor"), args=[asked]):
            return ast.unparse(asked)
        case ast.Call(
            func=ast.Name(id="isinstance"), args=[asked, ast.Name(id="Tensor") | ast.Attribute(attr="Tensor")]
        ):
            return ast.unparse(asked)
    return None


# -- what its name is given --------------------------------------------------------------------------------------------


def _is_no_tensor_by_name(model: File, stall: Stall) -> bool:
    """Whether what a name is given says that it holds no tensor where it is asked."""
    asks = stall.sense in (DECIDE, READ) or stall.name == "repeat_interleave"
    if not asks or not isinstance(stall.asked, ast.Name):
        return False
    name, function = stall.asked.id, stall.function
    given = function.assigned.get(name, [])
    if stall.sense == DECIDE and any(isinstance(value, _HOLDING) for value in given):
        # The truth of a list is its length.
        return True
    if given and all(_is_counted(function, value) for value in given):
        return True
    left = [value for value in given if not _never_runs(model, function, value)]
    if not given or len(left) == len(given):
        return False
    handed = name in {p.arg for p in function.parameters}
    return all(map(_is_number, left)) if left else handed


def _is_moved_later(stall: Stall) -> bool:
    """`if x.max() > 1: ...` before `x = (2 * x - 1).to(device)`: so far it is wherever it was, which is hardly there."""
    root: ast.AST = stall.asked
    while isinstance(root, (ast.Attribute, ast.Call, ast.Subscript, ast.Compare)):
        match root:
            case (
                ast.Call(func=inner) | ast.Compare(left=inner) | ast.Attribute(value=inner) | ast.Subscript(value=inner)
            ):
                root = inner
    if stall.certain or stall.value.place.off_host or not isinstance(root, ast.Name):
        return False
    moved = [v for v in stall.function.assigned.get(root.id, ()) if _moves(v, root.id)]
    return bool(moved) and all(value.lineno > stall.node.lineno for value in moved)


def _moves(value: ast.expr, name: str) -> bool:
    """`x.to(device)`, `(2 * x - 1).to(device=device)`, `x.cuda()`: to a place that isn't asked of `x` itself."""
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and (n.func.attr == "cuda" or (n.func.attr == "to" and any(map(_names_device, _given(n)))))
        and any(isinstance(part, ast.Name) and part.id == name for part in walk(n.func.value))
        for n in walk(value)
    )


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords)]


def _names_device(node: ast.expr) -> bool:
    """`device`, `self.device`, `options["device"]`."""
    match node:
        case ast.Subscript(slice=ast.Constant(value="device")):
            return True
    return isinstance(node, (ast.Name, ast.Attribute)) and last_name(node) == "device"


def _is_left_a_number(stall: Stall) -> bool:
    """`if not isinstance(at, int): return False` before `int(at)`: only numbers come by; `int(field(x, "max_seqlen"))` is one.

    What is computed of numbers alone is one as well, whatever else a function may take: `int(length_of(x.shape[1]))`.
    """
    asked = stall.asked
    if isinstance(asked, ast.Call) and not stall.value.place.off_host:
        if asked.args and not asked.keywords and is_own(asked.func) and all(map(_is_number, asked.args)):
            return True
        texts = [a.value for a in asked.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if any(_LONGEST.fullmatch(text) for text in texts):
            return True
    if stall.sense != READ or not isinstance(asked, ast.Name):
        return False
    return any(
        isinstance(s, ast.If) and isinstance(s.body[-1], ast.Return) and _asks_for_other_than_int(s.test, asked.id)
        for s in stall.function.node.body
        if s.lineno < stall.node.lineno
    )


# How long the longest is, which engines keep as a number beside the lengths.
_LONGEST = regex(r"max_?(?:seq_?)?len(?:gth)?(?:_\w{1,10})?")


def _asks_for_other_than_int(test: ast.expr, name: str) -> bool:
    """`x is not None and not isinstance(x, int)`"""
    tests = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return any(isinstance(t, ast.UnaryOp) and ast.unparse(t.operand) == f"isinstance({name}, int)" for t in tests)


def _is_made_of_data(stall: Stall) -> bool:
    """Whether something is computed of `torch.tensor(...)` without a device, so of what surely was on the host, unless somebody moved it."""
    if stall.certain or stall.value.place.off_host or stall.value.place.sort == "input":
        return False
    return _is_made_on_host(stall.function, stall.asked)


def _is_made_on_host(function: FunctionModel, node: ast.expr, back: int = 4) -> bool:
    match node:
        case ast.Name(id=name):
            given = function.assigned.get(name, [])
            return bool(back) and len(given) == 1 and _is_made_on_host(function, given[0], back - 1)
        case ast.Subscript(value=inner) | ast.BinOp(left=inner, right=ast.Constant()):
            return _is_made_on_host(function, inner, back)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="tensor"), keywords=given):
            return not any(k.arg in ("device", None) for k in given)
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=args):
            if last_name(owner) in ("functional", "F"):
                return bool(args) and _is_made_on_host(function, args[0], back)
            return attr not in ("to", "cuda", "type", "npu", "xpu") and _is_made_on_host(function, owner, back)
    return False


_HOLDING = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def _never_runs(model: File, function: FunctionModel, value: ast.expr) -> bool:
    """Whether an assignment stands where no call comes by: under a test that all calls decide, or for a call that gave nothing."""
    return model.choices.is_never_made(value) or _gave_nothing(model, function, value)


def _gave_nothing(model: File, function: FunctionModel, value: ast.expr) -> bool:
    """`mask = mask_of(x)`, `if mask is None: value = ...`: what is called so gives a mask."""
    for child, parent in _around(model, value):
        match parent:
            case ast.If(
                test=ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]),
                body=body,
            ) if child in body:
                given = function.assigned.get(name, [])
                return bool(given) and all(isinstance(v, ast.Call) for v in given)
    return False


def _is_number(node: ast.expr) -> bool:
    """`x.size(-1)`, `x.shape[0]`, `len(x)`, `4`."""
    match node:
        case ast.Constant(value=int() | float()):
            return True
        case ast.Call(func=ast.Attribute(attr="size"), args=[_]) | ast.Call(func=ast.Name(id="len" | "int")):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
    return False


def _is_counted(function: FunctionModel, value: ast.expr, back: int = 2) -> bool:
    """`x.shape[0] - left_out`, where `left_out = info.get("left_out", 0)`: numbers of the host, as their defaults say."""
    match value:
        case ast.BinOp(left=left, right=right) | ast.IfExp(body=left, orelse=right):
            return _is_counted(function, left, back) and _is_counted(function, right, back)
        case ast.Call(func=ast.Attribute(attr="get"), args=[_, ast.Constant(value=int())]):
            return True
        case ast.Name(id=name) if back:
            given = function.assigned.get(name, [])
            return bool(given) and all(_is_counted(function, v, back - 1) for v in given)
    return _is_number(value)


def _is_array_by_use(stall: Stall) -> bool:
    """Whether the docstring says that what is asked is NumPy's, or something is asked of it that only arrays have."""
    if stall.value.place.off_host:
        return False
    function = stall.function
    names = {n.id for n in walk(stall.asked) if isinstance(n, ast.Name)}
    names |= {
        n.id for name in names for v in function.assigned.get(name, ()) for n in walk(v) if isinstance(n, ast.Name)
    }
    handed = names & {p.arg for p in function.parameters}
    page = ast.get_docstring(function.node, clean=False) or "" if handed else ""
    return any(re.search(_ARRAY.format(re.escape(name)), page) for name in handed) or any(
        isinstance(n, ast.Attribute) and n.attr == "astype" and isinstance(n.value, ast.Name) and n.value.id in names
        for n in function.nodes
    )


# A line that says of a parameter that it is an array, and of no tensor.
_ARRAY = r"(?m)^(?![^\n]*[tT]ensor)[ \t]{{0,40}}{}[ \t]{{0,4}}[:(][^\n]{{0,80}}\b(?:[nN]um[pP]y|ndarray|np)\b"


# How often an optimizer has stepped, as PyTorch's and those like them call it.
_STEP = regex(r"(?:state_)?steps?(?:_t|_tensor)?")


def _is_step_of_optimizer(model: File, stall: Stall) -> bool:
    """`step_t.item()`, which an optimizer keeps on the host unless it is told to be capturable: there it reads nothing."""
    return (
        stall.sense == READ
        and isinstance(stall.asked, (ast.Name, ast.Subscript))
        and "capturable" in model.source.text
        and any(map(_STEP.fullmatch, _called(stall.asked)))
    )


def _called(node: ast.expr) -> list[str]:
    """`step_t`, and `step` of `state["step"]`."""
    match node:
        case ast.Name(id=name) | ast.Subscript(slice=ast.Constant(value=str() as name)):
            return [name]
    return []


# -- words -------------------------------------------------------------------------------------------------------------


def _is_said_to_be_on_host(model: File, stall: Stall) -> bool:
    """`# lengths is on the CPU`: whoever wrote that looked."""
    if "#" not in model.source.text:
        return False
    names = {n.id for n in walk(stall.asked) if isinstance(n, ast.Name)}
    for _, parent in _around(model, stall.node):
        match parent:
            case ast.For(target=target, iter=over) if names & {n.id for n in walk(target) if isinstance(n, ast.Name)}:
                names |= {n.id for n in walk(over) if isinstance(n, ast.Name)}
    return any(re.search(_SAID.format(re.escape(name)), model.source.text) for name in names if len(name) > 2)


_SAID = r"#[^\n]{{0,80}}\b{}\W{{0,3}} (?:is|are|stays?|lives?|lie)(?: (?:already|always|kept|still))?(?: (?:on|in))?(?: the)? (?:CPU|cpu|host)\b(?! (?:if|when|unless|until))"


# -- classes of data ---------------------------------------------------------------------------------------------------

# What makes examples of data: in workers of a loader, on the host.
_OF_DATA = regex(r"(?i)\w{0,60}(?:Dataset|DataModule|Collat\w{0,60}|Featuri[sz]er|DataPipeline)\w{0,20}")
# Classes that make one another are followed so far.
_MAX_MAKERS = 3


def is_made_for_data(model: File, function: FunctionModel, back: int = _MAX_MAKERS) -> bool:
    """Whether all that makes an object of a function's class, and something does, is a data set, or is made for one itself."""
    cls = function.outermost.cls
    if cls is None:
        return False
    name = cls.name
    makers = [
        (file, node)
        for file in (model, *model.files_naming(name))
        for node in walk(file.source.tree)
        if isinstance(node, ast.Call) and last_name(node.func) == name
    ]
    return bool(makers) and all(_is_of_data(file, node, back) for file, node in makers)


def _is_of_data(file: File, node: ast.Call, back: int) -> bool:
    around = None
    for parent in file.ancestors(node):
        match parent:
            case ast.ClassDef(name=name) if _OF_DATA.fullmatch(name):
                return True
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                around = around or parent
    return around is not None and back > 1 and is_made_for_data(file, file.source.function_at(around), back - 1)
