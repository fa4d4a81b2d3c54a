"""DEV702: CUDA named as the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, dotted
from devlint.lazy import cst, m
from devlint.rule import Effect, Report, Rule
from devlint_rules.devices.arguments import takers
from devlint_rules.portable import guards
from devlint_rules.portable.instead import by_device, by_layer, hint_for, layer_for
from devlint_rules.portable.spelt import MESHES, comparison_of, names_device, whole_of

if TYPE_CHECKING:
    from devlint.facts import Facts
    from devlint.findings import Confidence


class CudaLiteral(Rule):
    """CUDA named as the device, where any accelerator would do.

    ## What it does
    Flags `.cuda()`, `.is_cuda`, and `"cuda"` and `"cuda:0"` used as a device or its type: given to PyTorch or to a
    parameter such as `device=`, kept in a variable of such a name, or compared with a `.type`. Left alone is code that is
    about CUDA on purpose, as for DEV701, a comparison whose branch does what only CUDA can, and code that names other
    backends as well: it maps one to another.

    What this rule reports, `hard-coded-device` (DEV603) doesn't report again.

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
    of the machine once, in a variable `device`. If there is no accelerator, that is the host.

    ## References
    - [torch.accelerator](https://docs.pytorch.org/docs/stable/accelerator.html)
    - [Device-agnostic code](https://docs.pytorch.org/docs/stable/notes/cuda.html#device-agnostic-code)
    """

    code = "DEV702"
    name = "cuda-literal"
    trigger = r"\.\s*cuda\s*\(|\bis_cuda\b|[\"']cuda\b"
    severity = "warning"
    default = False
    effect = Effect(raises="RuntimeError", words="Expected all tensors to be on the same device", devices=2)
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
        layer = layer_for(found, facts)
        change = by_layer(found, layer, facts) if layer is not None else by_device(found, facts)
        hint = None if change else hint_for(found, layer, facts)
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
    compared = comparison_of(found, facts)
    if compared is not None:
        return ("certain", "asks for CUDA, not for any accelerator") if _is_portable_test(compared, facts) else None
    # `"cuda" if torch.cuda.is_available() else "cpu"` is told, and mended, at its test.
    if _is_choice(found, facts) or _is_last_resort(found, facts) or _is_label(found, facts):
        return None
    if next(takers(found, facts), None) is not None:
        return "certain", message
    return ("likely", message) if _is_called_device(found, facts) else None


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
    whole = whole_of(found, facts)
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
                return names_device(name)
            case ast.Call(func=func, args=[first, *_]) if child is first:
                name = (dotted(func) or "").rpartition(".")[2]
                return name in MESHES
            case ast.Call(func=func, args=args) if child in args[1:]:
                return (dotted(func) or "").endswith("parametrize") and _names_devices(args[0])
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                return names_device((dotted(target) or "").rpartition(".")[2])
            case ast.arguments():
                return names_device(_parameter(parent, child) or "")
            case ast.IfExp(test=test) if child is not test:
                child = parent
            case ast.List() | ast.Tuple() | ast.BoolOp():
                child = parent
            case ast.Starred() | ast.Dict() | ast.Compare() | ast.stmt():
                return False
            case _:
                return False
    return False


def _names_devices(names: ast.expr) -> bool:
    return isinstance(names, ast.Constant) and isinstance(names.value, str) and "device" in names.value


def _parameter(arguments: ast.arguments, default: ast.AST) -> str | None:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    return next((argument.arg for argument, given in pairs if given is default), None)
