"""DEV604: tensor types of another age that carry a device in their name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.facts import HOST, Kind, is_test_file, last_name, walk
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.guards import asks_for_main, moves_on_each_way, tests_deciding
from devlint_rules.portable.at_hand import at_hand

if TYPE_CHECKING:
    from devlint.facts import Facts

# https://docs.pytorch.org/docs/stable/tensors.html#data-types
DTYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
    "BoolTensor": "bool",
}
_TYPE = regex(rf"torch\.cuda\.({'|'.join(DTYPES)})")
_HOST_TYPE = regex(rf"torch\.({'|'.join(DTYPES)})")


class LegacyCudaType(Rule):
    """A legacy tensor type with a device in its name, such as `torch.cuda.FloatTensor`.

    ## What it does
    Flags `torch.cuda.FloatTensor` and its like, `x.type("torch.cuda.FloatTensor")`, and
    `torch.set_default_tensor_type`. Annotations and `isinstance` checks are left alone, and so is a type that is given a `device`.

    Some uses are reported only if you select the rule by its code (`--select DEV604`): those that a condition chooses
    (`torch.cuda.FloatTensor if use_cuda else torch.FloatTensor`); those in tests, in a subclass of `torch.autograd.Function`, in a file that
    moves other things to CUDA whatever there is, in a project that chooses its GPU (`torch.cuda.set_device`), or in a loss that only such files
    use; and `set_default_tensor_type` of a type on the host where nothing else in the file sets a default, under a
    condition, or without a fix, unless `torch-version` says that the project is meant for 2.1 and newer.

    ## Why is this bad
    `set_default_tensor_type` is deprecated since PyTorch 2.1. `torch.cuda.FloatTensor` always means the current GPU,
    not that of the data at hand: in a replica or a process on another GPU it is the wrong one, and without a GPU it
    fails. `dtype` and `device` say the two things separately.

    ## Example
    ```python
    import torch

    torch.set_default_tensor_type(torch.FloatTensor)
    x = torch.ones(3)
    ```

    ## Use instead
    ```python
    import torch

    torch.set_default_dtype(torch.float32)
    x = torch.ones(3)
    ```

    ## Fix safety
    Safe, and offered where the new form is exact: a default type on the host, a tensor made of literal data or sizes,
    a cast of a tensor that is known to be on the host.

    ## References
    - [torch.set_default_tensor_type](https://docs.pytorch.org/docs/stable/generated/torch.set_default_tensor_type.html)
    - [torch.set_default_device](https://docs.pytorch.org/docs/stable/generated/torch.set_default_device.html)
    """

    code = "DEV604"
    name = "legacy-cuda-type"
    severity = "warning"
    trigger = r"set_default_tensor_type|cuda\.(?:Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)Tensor"
    effect = Effect(warns="set_default_tensor_type() is deprecated")
    fix = "S"

    def shape(self) -> m.BaseMatcherNode:
        named = m.Name(m.MatchRegex(rf"set_default_tensor_type|{'|'.join(DTYPES)}"))
        return m.Attribute(attr=named) | m.SimpleString(m.MatchRegex(r".*torch\.cuda\..*")) | named

    def judge(self, node: cst.Attribute | cst.SimpleString | cst.Name, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        if found is None:
            return
        parent = next(facts.model.ancestors(found), None)
        if facts.qualified(node) == "torch.set_default_tensor_type":
            if isinstance(parent, ast.Call) and parent.func is found:
                yield self._default_type(node, parent, facts)
            return
        name = str(node.evaluated_value) if isinstance(node, cst.SimpleString) else facts.qualified(node) or ""
        kind = _TYPE.fullmatch(name)
        if kind is None or _is_annotation_or_check(found, facts) or _is_default_type(parent, facts):
            return
        if isinstance(parent, ast.Call) and parent.func is found and any(k.arg == "device" for k in parent.keywords):
            return
        called = isinstance(parent, ast.Call) and parent.func is found
        cast = _cast_by(found, parent)
        if (isinstance(node, cst.SimpleString) and cast is None) or _is_never_used(parent, facts):
            return
        change = _made(parent, kind[1], facts) if called and isinstance(parent, ast.Call) else None
        if cast is not None:
            change = _moved(cast, kind[1], facts)
        fails = "raises TypeError" if called else "fails"
        without = "" if _is_guarded(found, facts) else f", and {fails} without one"
        yield Report(
            node,
            f"`{facts.name_of(node)}` is a legacy type: it means the current GPU, whichever one the data is on{without}",
            hint=None if change else f"give `dtype=torch.{DTYPES[kind[1]]}` and the `device` that the data is on",
            change=change,
            # What only casts keeps its place where the program knows one GPU: nobody minds.
            minor=not called
            or _is_chosen(found, facts)
            or is_test_file(Path(facts.path))
            or facts.model.project_uses(_CHOOSES)
            or _is_for_cuda(found, facts),
        )

    def _default_type(self, node: cst.CSTNode, call: ast.Call, facts: Facts) -> Report:
        given = facts.code_of(call.args[0]).strip("\"'") if call.args else ""
        host, cuda = _HOST_TYPE.fullmatch(given), _TYPE.fullmatch(given)
        change = None
        # It also sets the default place back to the host: with CUDA types about, the new form isn't exact.
        if host and not re.search(r"set_default_tensor_type\s*\(\s*[\"']?torch\.cuda", facts.text.text):
            new = f"torch.set_default_dtype(torch.{DTYPES[host[1]]})"
            if facts.code_of(call.func) == "torch.set_default_tensor_type":
                change = Change("set the default dtype", "safe", edits=(facts.replaced(call, new),))
        place = '`torch.set_default_device("cuda")`' if cuda else "`torch.set_default_device`"
        return Report(
            node,
            "`set_default_tensor_type` is deprecated since PyTorch 2.1: the default dtype and the default device are two things now",
            hint=None if change else f"use `torch.set_default_dtype` and {place}",
            change=change,
            minor=(change is None and not _is_deprecated(facts.surroundings.oldest_torch))
            # A type on the host says nothing of a device where nothing else sets a default.
            or (host is not None and len(_SETTING.findall(facts.text.text)) == 1)
            or _is_guarded(call, facts),
        )


# What sets a default.
_SETTING = regex(r"\bset_default_(?:tensor_type|dtype|device)\s*\(")
# The first release that warns of `set_default_tensor_type`, and before which `set_default_device` isn't all there.
_DEPRECATED_SINCE = (2, 1)


def _is_deprecated(oldest: tuple[int, int] | None) -> bool:
    """Whether a project says that it is meant for releases that warn."""
    return oldest is not None and oldest >= _DEPRECATED_SINCE


def _is_for_cuda(found: ast.expr, facts: Facts) -> bool:
    """Whether other code of the file is moved to CUDA, whatever there is: then no device is got right by mending the type alone.

    So it is in an operation of its own, a subclass of `torch.autograd.Function`, which hands its tensors to kernels.
    """
    if any(
        isinstance(p, ast.ClassDef) and any(last_name(b) == "Function" for b in p.bases)
        for p in facts.model.ancestors(found)
    ):
        return True
    return any(_moves_anyway(node, facts) for node in walk(facts.model.source.tree)) or _is_of_cuda_programs(
        found, facts
    )


# A process that chooses its GPU means that one.
_CHOOSES = r"\bcuda\.set_device\("


# What is computed with while something is trained, and hardly otherwise.
_OF_TRAINING = regex(r"(?i)\w{0,60}(?:loss|criterion)\w{0,60}")
# A move to a GPU that is told.
_TO_ONE = regex(r"\.cuda\((?![ \t]{0,9}(?:\)|non_blocking|async))|\.to\([^()\n]{0,80}device|cuda:")


def _is_of_cuda_programs(found: ast.expr, facts: Facts) -> bool:
    """Whether each file that names what a type stands in moves what it runs to CUDA, whatever there is.

    A loss is meant, or anything of a file whose users know no GPU but the current one.
    """
    around = [p for p in facts.model.ancestors(found) if isinstance(p, (ast.ClassDef, ast.FunctionDef))]
    if not around:
        return False
    is_loss = _OF_TRAINING.fullmatch(around[-1].name) is not None
    defined = [s.name for s in facts.model.source.tree.body if isinstance(s, (ast.ClassDef, ast.FunctionDef))]
    names = [around[-1].name] if is_loss else defined
    programs = {file.source.path: file.source for name in names for file in facts.model.files_naming(name)}
    return bool(programs) and all(
        any(moves_on_each_way(function.body) for function in walk(source.tree) if isinstance(function, _SCOPES))
        and (is_loss or _TO_ONE.search(source.text) is None)
        for source in programs.values()
    )


_SCOPES = (ast.Module, ast.FunctionDef)


def _moves_anyway(node: ast.AST, facts: Facts) -> bool:
    """`model.cuda()`, `x.to("cuda")` under no condition that asks for a GPU."""
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda")):
            pass
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Constant(value=str() as place), *_]):
            if not place.startswith("cuda"):
                return False
        case _:
            return False
    around = (p for p in facts.model.ancestors(node) if isinstance(p, (ast.If, ast.IfExp, ast.Try)))
    return not any(isinstance(p, ast.Try) or _OF_GPUS.search(ast.unparse(p.test)) for p in around)


def _is_never_used(parent: ast.AST | None, facts: Facts) -> bool:
    """`dtype = torch.cuda.FloatTensor`, of which nothing is made."""
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return len(re.findall(rf"\b{name}\b", facts.text.text)) == 1
    return False


def _is_guarded(found: ast.expr, facts: Facts) -> bool:
    """Whether a condition decides that the type is used: `torch.cuda.FloatTensor if use_cuda else torch.FloatTensor`."""
    return not all(map(asks_for_main, tests_deciding(found, facts)))


# What a condition speaks of that decides whether there is a GPU; a type that data may have isn't meant.
_OF_GPUS = regex(r"(?i)\bgpus?\b|_gpu|gpu_|device|\bcpu\b|cuda(?!\.\w+Tensor)")


def _is_chosen(found: ast.expr, facts: Facts) -> bool:
    """Whether a condition about GPUs decides that the type is used: `torch.cuda.FloatTensor if use_cuda else torch.FloatTensor`."""
    return any(_OF_GPUS.search(ast.unparse(test)) for test in tests_deciding(found, facts))


def _is_annotation_or_check(found: ast.expr, facts: Facts) -> bool:
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.arg() | ast.AnnAssign() if child is parent.annotation:
                return True
            case ast.FunctionDef(returns=returns) | ast.AsyncFunctionDef(returns=returns):
                return child is returns
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass")):
                return True
            case ast.Compare():
                # `if torch.cuda.HalfTensor in buckets:`
                return True
            case ast.Subscript() if child is parent.slice:
                # `Union[torch.Tensor, torch.cuda.LongTensor]`, under a name of its own.
                return True
            case ast.stmt():
                return False
        child = parent
    return False


def _is_default_type(parent: ast.AST | None, facts: Facts) -> bool:
    """`set_default_tensor_type(<it>)` is reported as a whole."""
    return isinstance(parent, ast.Call) and facts.model.value(parent.func).name == "torch.set_default_tensor_type"


def _cast_by(found: ast.expr, parent: ast.AST | None) -> ast.Call | None:
    """The call `x.type(found)`."""
    match parent:
        case ast.Call(func=ast.Attribute(attr="type"), args=[given]) if given is found:
            return parent
    return None


def _made(call: ast.Call, kind: str, facts: Facts) -> Change | None:
    """A factory in the constructor's place, where its arguments are literal data or sizes."""
    if call.keywords or not isinstance(call.func, ast.Attribute) or facts.code_of(call.func.value) != "torch.cuda":
        return None
    place = _place(call, facts)
    if place is None:
        return None
    rest = f"dtype=torch.{DTYPES[kind]}, device={place})"
    given = ", ".join(facts.code_of(a) for a in call.args)
    if not call.args:
        code = f"torch.empty(0, {rest}"
    elif len(call.args) == 1 and isinstance(call.args[0], (ast.List, ast.Tuple)):
        code = f"torch.tensor({given}, {rest}"
    elif all(isinstance(a, ast.Constant) and isinstance(a.value, int) for a in call.args):
        code = f"torch.empty({given}, {rest}"
    else:
        return None
    zeroed = _zeroed(call, facts) if code.startswith("torch.empty(") else None
    if zeroed is not None:
        call, code = zeroed, code.replace("torch.empty(", "torch.zeros(", 1)
    return Change("use a factory with dtype and device", "safe", edits=(facts.replaced(call, code),))


def _zeroed(call: ast.Call, facts: Facts) -> ast.Call | None:
    """The call `made.zero_()` around what makes a tensor."""
    method, zeroed = islice(chain(facts.model.ancestors(call), (None, None)), 2)
    match zeroed:
        case ast.Call(func=ast.Attribute(attr="zero_") as func, args=[], keywords=[]) if func is method:
            return zeroed
    return None


def _moved(call: ast.Call, kind: str, facts: Facts) -> Change | None:
    """`x.to("cuda", dtype)`, where x is on the host: a cast leaves a tensor on the GPU that it is on."""
    assert isinstance(call.func, ast.Attribute)
    subject = facts.model.value(call.func.value)
    if subject.kind is not Kind.TENSOR or subject.place != HOST or subject.likely:
        return None
    place = _place(call, facts)
    if place is None:
        return None
    code = f"{facts.code_of(call.func.value)}.to({place}, torch.{DTYPES[kind]})"
    return Change("move and cast with `.to`", "safe", edits=(facts.replaced(call, code),))


def _place(call: ast.Call, facts: Facts) -> str | None:
    """Code for the place that the type stands for; None where any accelerator is meant, and no device is at hand."""
    if facts.surroundings.for_any_accelerator:
        # Asked for in each of many calls, it would fill the lines.
        device = at_hand(call, facts)
        return device.device if device is not None else None
    scope = facts.model.enclosing_scope(call)
    if not isinstance(scope, ast.Module) and scope.name == "forward":
        # Its inputs tell the device, and which of them does, the reader has to say.
        return None
    return "torch.accelerator.current_accelerator()" if facts.surroundings.prefers_accelerator else '"cuda"'
