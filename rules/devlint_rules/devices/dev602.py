"""DEV602: visible devices that are set by a wrong name, or to a wrong value."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import Kind, walk
from devlint.findings import Edit
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.environment import VARIABLES, Access, access_by

if TYPE_CHECKING:
    from devlint.facts import Facts


class VisibleDevicesValue(Rule):
    """`CUDA_VISIBLE_DEVICES`, or its like, misspelt or set to a value that doesn't work.

    ## What it does
    Flags accesses to `os.environ` under a misspelt name (`CUDA_VISIBLE_DEVICE`), values of `CUDA_VISIBLE_DEVICES` and
    its like that aren't strings (`0`, `[0, 1]`, an option of `type=int`), strings that CUDA can't read as a list of
    devices (`"cuda:0"`, `"[0, 1]"`, `"0;1"`), and `setdefault` with several values. Variables of the program's own are
    left alone, and so are `""`, `"-1"` and UUIDs.

    ## Why is this bad
    A misspelt variable changes nothing, and the program uses GPUs that are meant for others. A value that isn't a string raises
    `TypeError: str expected`. From a string, CUDA takes the devices before the first one that it can't read: `"cuda:0"` hides
    every GPU.

    ## Example
    ```python
    import os

    os.environ["CUDA_VISIBLE_DEVICES"] = 0
    import torch
    ```

    ## Use instead
    ```python
    import os

    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    import torch
    ```

    ## Fix safety
    Safe: the name is corrected, and the value becomes the string that it means.

    ## References
    - [CUDA environment variables](https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars)
    - [os.environ](https://docs.python.org/3/library/os.html#os.environ)
    """

    code = "DEV602"
    name = "visible-devices-value"
    trigger = r"[\"'](?i:(?:CUDA|HIP|ROCR|ASCEND|MUSA|MLU)[A-Z_]{0,40}(?:DEV|GPU)[A-Z_ ]{0,40})[\"']"
    effect = Effect(raises="TypeError", words="str expected, not int")
    fix = "S"

    def shape(self) -> m.BaseMatcherNode:
        return m.SimpleString()

    def judge(self, node: cst.SimpleString, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        access = access_by(found, facts) if found is not None else None
        if access is None:
            return
        name = str(access.key.value)
        meant = _meant(name)
        if meant is not None:
            new = cst.SimpleString(f"{node.prefix}{node.quote}{meant}{node.quote}")
            yield Report(
                node,
                f"`{name}` is a variable that nothing reads: `{meant}` is meant",
                change=Change(f"write `{meant}`", "safe", ((node, new),)),
            )
        if (meant or name) not in VARIABLES or (meant or name) in _OTHER_VALUES:
            return
        fault = _too_many(access, facts) or (_fault(access.value, facts) if access.value is not None else None)
        if fault is not None:
            change = Change("write the string that it means", "safe", edits=fault.edits) if fault.edits else None
            yield Report(node, fault.message, "likely" if fault.likely else "certain", hint=fault.hint, change=change)


# Variables of which the value isn't a list of numbers.
_OTHER_VALUES = frozenset({"CUDA_DEVICE_ORDER", "ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK"})
_LISTED = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def _meant(name: str) -> str | None:
    """The variable that a misspelt name is nearest to; None for one that exists or is the program's own."""
    if name in VARIABLES or re.fullmatch(r"(?!CUDA|HIP|ROCR)[A-Z0-9_]+_VISIBLE_DEVICES", name):
        return None
    for known in _LISTED:
        if known in name and name.strip(" _") != known:
            return None
        alike = name.upper().replace("GPU", "DEVICE")
        if difflib.SequenceMatcher(None, alike, known).ratio() >= 0.9 and alike.split("_")[0][:2] == known[:2]:
            return known
    return None


class _Fault(NamedTuple):
    message: str
    edits: tuple[Edit, ...] = ()
    hint: str | None = None
    likely: bool = False


def _too_many(access: Access, facts: Facts) -> _Fault | None:
    """`setdefault(name, "0", "1")`."""
    match access.node:
        case ast.Call(func=ast.Attribute(attr="setdefault"), args=[_, *values]) if len(values) > 1:
            texts = [str(v.value) for v in values if isinstance(v, ast.Constant)]
            edits: tuple[Edit, ...] = ()
            if len(texts) == len(values):
                start, end = facts.text.span_of(values[0]), facts.text.span_of(values[-1])
                span = type(start)(start.line, start.column, end.end_line, end.end_column)
                edits = (Edit(span, f'"{",".join(texts)}"'),)
            return _Fault("`setdefault` takes one value: TypeError; several devices are one string, with commas", edits)
    return None


def _fault(value: ast.expr, facts: Facts) -> _Fault | None:
    """What is wrong with a value, if something is for sure."""
    match value:
        case ast.Constant(value=str() as text):
            return _unreadable(value, text, facts)
        case ast.Constant(value=None):
            return _not_a_string("None", hint='`os.environ.pop(name, None)` removes it; `""` hides every device')
        case ast.Constant(value=bool()):
            return _not_a_string("a bool")
        case (
            ast.Constant(value=int() as number)
            | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number))
        ):
            text = f'"{facts.code_of(value)}"' if number is not None else ""
            return _not_a_string("an int", (facts.replaced(value, text),))
        case ast.List(elts=elts) | ast.Tuple(elts=elts) if all(isinstance(e, ast.Constant) for e in elts):
            joined = ",".join(str(e.value) for e in elts if isinstance(e, ast.Constant))
            return _not_a_string(f"a {type(value).__name__.lower()}", (facts.replaced(value, f'"{joined}"'),))
    kind = facts.model.value(value)
    if kind.kind is Kind.CONSTANT and isinstance(kind.constant, str):
        fault = _unreadable(value, kind.constant, facts)
        # The string stands elsewhere: the place where it is used isn't where to mend it.
        return fault._replace(edits=(), hint=fault.hint or _WITH_COMMAS) if fault is not None else None
    if kind.kind is Kind.SEQUENCE:
        joined = f'",".join(map(str, {facts.code_of(value)}))'
        return _not_a_string("a list or tuple", (facts.replaced(value, joined),), likely=kind.likely)
    if _is_int(value, facts):
        return _not_a_string("an int", (facts.replaced(value, f"str({facts.code_of(value)})"),))
    return None


def _not_a_string(what: str, edits: tuple[Edit, ...] = (), hint: str | None = None, likely: bool = False) -> _Fault:
    return _Fault(f"the value is {what}: TypeError, environment variables are strings", edits, hint, likely)


def _is_int(value: ast.expr, facts: Facts) -> bool:
    """Whether an expression is an int by what makes it, or by what declares it."""
    known = facts.model.value(value)
    if known.kind is Kind.CONSTANT:
        return isinstance(known.constant, int) and not isinstance(known.constant, bool)
    match value:
        case ast.Call(func=func):
            return facts.model.value(func).name in (
                "builtins.int", "builtins.len", "torch.cuda.device_count", "torch.cuda.current_device",
                "torch.distributed.get_rank",
            )  # fmt: skip
        case ast.Name(id=name):
            scope = facts.model.enclosing_scope(value)
            if isinstance(scope, ast.Module):
                return False
            stored = any(
                isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(scope)
            )
            return not stored and any(
                isinstance(a, ast.arg)
                and a.arg == name
                and isinstance(a.annotation, ast.Name)
                and a.annotation.id == "int"
                for a in ast.walk(scope.args)
            )
        case ast.Attribute(value=ast.Name(), attr=attr):
            return _is_int_option(attr, facts)
    return False


def _is_int_option(name: str, facts: Facts) -> bool:
    """Whether the file declares a command line's option of that name as `type=int`, and never sets it otherwise."""
    declared = False
    for node in walk(facts.model.source.tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="add_argument"), args=options, keywords=keywords):
                names = [
                    o.value.lstrip("-").replace("-", "_")
                    for o in options
                    if isinstance(o, ast.Constant) and isinstance(o.value, str)
                ]
                if name in names:
                    given = {k.arg: k.value for k in keywords}
                    kind = given.get("type")
                    declared = isinstance(kind, ast.Name) and kind.id == "int" and "nargs" not in given
            case ast.Attribute(attr=attr, ctx=ast.Store()) if attr == name:
                return False
    return declared


_ITEM = r"(?:\d+|GPU-[\w-]+|MIG-[\w/-]+)"
_READABLE = regex(rf"\s*(?:-1\s*|{_ITEM}\s*(?:,\s*{_ITEM}\s*)*(?:,\s*)?(?:,\s*-1\s*)?)?", re.IGNORECASE)
# Numbers, with whatever between them.
_BETWEEN, _NAMED = r"[\s\[\](){};,|&]", r"(?:(?:cuda|gpu):?|:)\s*"
_PLAIN = regex(rf"{_BETWEEN}*(?:{_NAMED})?\d+(?:{_BETWEEN}+(?:{_NAMED})?\d+|{_NAMED}\d+)*{_BETWEEN}*", re.IGNORECASE)
_WITH_COMMAS = 'write numbers with commas, such as `"0,1"`'
# What people set to hide every device: it does.
_HIDES = frozenset({"none", "no", "void", "nodevfiles", "false", "cpu", "null"})


def _unreadable(value: ast.expr, text: str, facts: Facts) -> _Fault | None:
    """A string that isn't a list of devices. What is read of it was tried with torch.cuda._parse_visible_devices."""
    if _READABLE.fullmatch(text) or text.strip().lower() in _HIDES:
        return None
    first = re.match(r"\s*\d+", text)
    read = f"only `{first[0].strip()}` is read" if first else "no device is read, and every GPU is hidden"
    numbers = re.findall(r"\d+", text)
    plain = _PLAIN.fullmatch(text)
    edits = (facts.replaced(value, f'"{",".join(numbers)}"'),) if plain and numbers else ()
    return _Fault(
        f"`{text}` isn't a list of devices: {read}",
        edits,
        None if edits else _WITH_COMMAS,
    )
