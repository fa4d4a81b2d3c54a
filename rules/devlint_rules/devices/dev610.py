"""DEV610: a string that torch takes for no device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.arguments import takers

if TYPE_CHECKING:
    from devlint.facts import Facts


class InvalidDeviceString(Rule):
    """A string that isn't a device, such as `"gpu"` or `"cuda: 0"`.

    ## What it does
    Flags `"gpu"`, `"CUDA"`, `"cuda: 0"`, `"cuda0"`, `"cuda:0,1"` and their like where torch takes a device: in
    `torch.device`, `.to`, `.cuda`, factories, `map_location`, `torch.cuda.set_device` and others, directly or through
    a variable, or as a table's entry for machines with an accelerator. Strings that are used for something else are left alone, and so are
    device types that a separate backend may add, such as `"npu"`, and those that the project registers.

    ## Why is this bad
    The first use fails with `RuntimeError: Invalid device string`, or `Expected one of cpu, cuda, ... device type at
    start of device string`. If `torch.cuda.is_available()` chooses the string, that happens only on machines with a GPU.

    ## Example
    ```python
    import torch

    x = torch.ones(3, device="gpu")
    ```

    ## Use instead
    ```python
    import torch

    x = torch.ones(3, device="cuda")
    ```

    ## Fix safety
    Safe: the string is replaced by the only device that it can mean. GPUs of NVIDIA and AMD are both `cuda`. There is no fix for
    several indices, because a device has only one.

    ## References
    - [torch.device](https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device)
    - [HIP (ROCm) semantics](https://docs.pytorch.org/docs/stable/notes/hip.html)
    """

    code = "DEV610"
    name = "invalid-device-string"
    trigger = (
        r"[\"']\s*(?:(?i:gpu|rocm|nvidia|amd|metal)|(?:CUDA|Cuda|CPU|Cpu|MPS|XPU|HPU|META))[\s:_.,/-]{0,40}(?:[\d,\s]{0,200}[\"']|[%{])"
        r"|[\"']\s*(?:cuda|xpu|mps|cpu|hpu|meta)(?:\s|[_.,/-]?\d|:\s|:[\"']|:-|:\d+[\s,:]|:0\d)|[\"']\s+(?:cuda|xpu|mps|cpu)\b"
        r"|\b(?:device|to|cuda|xpu)\s*\(\s*[\"'][\d, ]+[\"']"
    )
    effect = Effect(raises="RuntimeError", words="device type at start of device string: gpu")
    fix = "S"

    def shape(self) -> m.BaseMatcherNode:
        return m.SimpleString() | m.FormattedString(parts=[m.FormattedStringText(), m.AtLeastN(m.DoNotCare(), n=1)])

    def judge(self, node: cst.SimpleString | cst.FormattedString, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        written = _written(node, found, facts) if found is not None else None
        fault = diagnosed(written.text) if written is not None else None
        if found is None or written is None or fault is None or (fault.is_name and _is_registered(facts)):
            return
        taken = list(takers(written.whole, facts))
        if not taken and (fault.is_name or not _is_setting(written.whole, facts)):
            return
        notes = (
            (facts.note("taken for a device here", taken[0].call),)
            if taken and written.whole not in ast.walk(taken[0].call)
            else ()
        )
        hint = fault.hint
        if fault.is_name and facts.surroundings.prefers_accelerator:
            hint = "`torch.accelerator.current_accelerator()` is the one that the machine has"
        yield Report(
            node,
            f"`{facts.name_of(node)}` is no device: {fault.why}",
            "likely" if all(t.likely for t in taken) else "certain",
            notes=notes,
            hint=hint,
            change=_respelt(node, fault),
            minor=_is_always_given(found, facts),
        )


def _is_always_given(found: ast.expr, facts: Facts) -> bool:
    """Whether it is a parameter's default, and each call of a function of that name, of which there are some, says the parameter's."""
    scope = next((p for p in facts.model.ancestors(found) if isinstance(p, ast.FunctionDef)), None)
    function = facts.model.source.function_at(scope) if scope is not None else None
    parameter = next((name for name, value in function.defaults.items() if value is found), None) if function else None
    if function is None or parameter is None:
        return False
    # An object is made by its class's name, which stands before the bracket of `class Net(nn.Module)` as well.
    made = function.cls if function.name == "__init__" else None
    if made is not None and facts.model.texts_match(rf"\bclass \w{{1,80}}\([^)\n]{{0,200}}\b{re.escape(made.name)}\b"):
        # What is derived from it may leave the default by `super().__init__(size)`.
        return False
    name = made.name if made is not None else function.name
    called = rf"(?<!def )(?<!class )\b{re.escape(name)}\("
    without = rf"{called}(?![^\n]{{0,160}}(?:\n[^\n]{{0,160}}){{0,2}}\b{re.escape(parameter)}\b)"
    own = facts.model.source.without_comments
    is_called = re.search(called, own) is not None or facts.model.texts_match(called, elsewhere=True)
    return is_called and re.search(without, own) is None and not facts.model.texts_match(without, elsewhere=True)


@dataclass(frozen=True)
class Fault:
    """What is wrong with a device string, and what it means."""

    why: str
    # The type and index that it means; None where it can't be told.
    type: str | None = None
    index: str = ""
    # The type is no type of torch.
    is_name: bool = False
    hint: str | None = None


# What people call accelerators -> the type that torch has for them.
_NAMES = {"gpu": "cuda", "rocm": "cuda", "nvidia": "cuda", "amd": "cuda", "metal": "mps"}
_TYPES = "cuda|xpu|mps|cpu|hpu|meta"
_VALID = regex(rf"(?:{_TYPES})(?::(?:0|[1-9]\d*))?")
_ONE = regex(rf"({_TYPES}|{'|'.join(_NAMES)})?[\s:_.,/-]*?(-?\d+)?:?", re.IGNORECASE)
_SEVERAL = regex(rf"(?:{_TYPES}|{'|'.join(_NAMES)})?:?\s*\d+(?:[,\s]+(?:(?:{_TYPES}):)?\d+)+", re.IGNORECASE)


def diagnosed(text: str) -> Fault | None:
    """What is wrong with a device string; None for a valid one, and for one that may be the name of another backend.

    What is valid was read off `torch.device` of torch 2.13: `[type]` or `[type]:[index]`, lower case, without spaces,
    signs or leading zeros.
    """
    if _VALID.fullmatch(text) or not text.strip():
        return None
    if _SEVERAL.fullmatch(text.strip()):
        return Fault("a device has one index", hint="for several devices, wrap the model or start a process for each")
    match = _ONE.fullmatch(text.strip())
    if match is None or not (match[1] or match[2]):
        return None
    name, index = (match[1] or "").lower(), match[2] or ""
    if index.startswith("-") and ":" in text:
        return Fault("an index isn't negative")
    index = str(abs(int(index))) if index else ""
    if not name:
        return Fault("a number by itself is an index only as an `int`", "cuda", index)
    if name in _NAMES:
        makers = "Apple" if name == "metal" else "NVIDIA and AMD"
        return Fault(f"GPUs of {makers} are of the type `{_NAMES[name]}`", _NAMES[name], index, is_name=True)
    if match[1] != name:
        return Fault("types are lower case", name, index)
    if text != text.strip() or " " in text:
        return Fault("it has a space", name, index)
    if text.endswith(":"):
        return Fault("the index is missing", name, index)
    return Fault("an index stands behind a colon, without leading zeros", name, index)


class _Written(NamedTuple):
    """A device string as written: its text, with a digit where it is filled in, and the whole expression."""

    text: str
    whole: ast.expr


_HOLE = regex(r"%[ds]|\{\w*\}")


def _written(node: cst.SimpleString | cst.FormattedString, found: ast.expr, facts: Facts) -> _Written | None:
    if isinstance(node, cst.FormattedString):
        texts = [p.value for p in node.parts if isinstance(p, cst.FormattedStringText)]
        filled = _filled(texts[0], "".join(texts[1:]))
        return _Written(filled, found) if filled and len(node.parts) - len(texts) == 1 else None
    text = node.evaluated_value
    if not isinstance(text, str):
        return None
    around = iter(facts.model.ancestors(found))
    match next(around, None):
        case ast.JoinedStr():
            return None
        case ast.BinOp(op=ast.Add(), left=left) as whole:
            filled = _filled(text, "")
            return _Written(filled, whole) if left is found and filled else None
        case ast.BinOp(op=ast.Mod(), left=left) as whole if left is found:
            return _Written(_HOLE.sub("0", text), whole)
        case ast.Attribute(attr="format"):
            formatted = next(around, None)
            return _Written(_HOLE.sub("0", text), formatted) if isinstance(formatted, ast.Call) else None
        case ast.Attribute():
            return None
    return _Written(text, found)


def _filled(before: str, after: str) -> str | None:
    """The text with a digit in the hole, where something separates it: what fills `cuda{suffix}` may be `:0`."""
    return f"{before}0{after}" if before[-1:] in (":", " ") else None


def _is_setting(whole: ast.expr, facts: Facts) -> bool:
    """Whether an expression is what a table has under the name of a device where there is an accelerator.

    `args["device"] = "cuda: 0" if torch.cuda.is_available() else "cpu"`: wherever that goes, it is a device of torch's.
    """
    around = iter(facts.model.ancestors(whole))
    choice = next(around, None)
    if not isinstance(choice, ast.IfExp) or "is_available(" not in ast.unparse(choice.test):
        return False
    other = choice.orelse if choice.body is whole else choice.body
    if not isinstance(other, ast.Constant) or _VALID.fullmatch(str(other.value)) is None:
        return False
    match next(around, None):
        case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=str() as key))]):
            return "device" in key.lower()
        case ast.Dict(keys=keys, values=values):
            named = next((k for k, v in zip(keys, values, strict=True) if v is choice), None)
            return isinstance(named, ast.Constant) and "device" in str(named.value).lower()
    return False


def _is_registered(facts: Facts) -> bool:
    """The project gives a backend of its own a name."""
    return bool(_REGISTERS.search(facts.model.source.text.encode("utf-8", "replace"))) or bool(
        facts.model.imports_from(_REGISTERS)
    )


_REGISTERS = regex(rb"rename_privateuse1_backend|generate_methods_for_privateuse1_backend")


def _respelt(node: cst.SimpleString | cst.FormattedString, fault: Fault) -> Change | None:
    """The same string with what it means."""
    if fault.type is None:
        return None
    if isinstance(node, cst.FormattedString):
        kept = [p for p in node.parts if not isinstance(p, cst.FormattedStringText)]
        new: cst.BaseExpression = node.with_changes(parts=[cst.FormattedStringText(f"{fault.type}:"), *kept])
    else:
        text = str(node.evaluated_value)
        hole = _HOLE.search(text)
        index = hole[0] if hole else fault.index if re.search(r"\d", text) else ""
        # An index without a digit in sight is added by what follows: `"cuda: " + str(rank)`.
        spelt = f"{fault.type}:{index}" if fault.index else fault.type
        new = node.with_changes(value=f"{node.prefix}{node.quote}{spelt}{node.quote}")
    return Change("write the device that it means", "safe", ((node, new),))
