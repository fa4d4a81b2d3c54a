"""DEV701: functions of `torch.cuda` that any accelerator has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import dotted
from devlint.findings import Edit, Safety, Span
from devlint.knowledge.counterparts import Counterpart, counterpart, counterparts
from devlint.lazy import cst, m
from devlint.portable import Layer
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.dev604 import DTYPES
from devlint_rules.portable import guards, named
from devlint_rules.portable.at_hand import CHECKS_SINCE, at_hand

if TYPE_CHECKING:
    from devlint.facts import Facts


class CudaOnlyApi(Rule):
    """A function of `torch.cuda` that has a counterpart for any accelerator.

    ## What it does
    Flags functions, classes and imports of `torch.cuda` that have a counterpart in `torch.accelerator`, `torch.amp` or
    `torch` itself (if every release from `torch-version` on has it), or in the project's own layer, which the
    setting `portable.replace` names. Left alone is code that is about CUDA on purpose: under a test for CUDA
    (`device.type == "cuda"`), in a function that uses what only CUDA has (its graphs, NCCL, Triton), in files of the
    setting `portable.cuda-only`, and in functions and classes whose `def` or `class` line says `# devlint: cuda-only`.

    The rule is opt-in, with all of its family: `extend-select = ["DEV7"]`.

    ## Why is this bad
    On a machine with another accelerator the program fails here, or doesn't use that accelerator.

    ## Example
    ```python
    from unittest import mock

    import torch

    # As on a machine with another accelerator.
    with mock.patch("torch.cuda.is_available", return_value=False):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ```

    ## Use instead
    ```python
    from unittest import mock

    import torch

    # As on a machine with another accelerator.
    with mock.patch("torch.cuda.is_available", return_value=False):
        device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    ```

    ## Fix safety
    Safe if both do the same on a machine with CUDA and on one without an accelerator; that was found out by running both.
    `torch.accelerator.empty_cache()` and its like raise an error if there is no accelerator: as statements they get a test, elsewhere the fix is
    unsafe. Also unsafe: `is_available` and `device_count` in a file that names CUDA elsewhere too; streams, events
    and `torch.amp`, whose counterparts are different classes; and the project's own layer. There is no fix if the code that
    `is_available` decides about names CUDA, since it would then run on another accelerator.

    ## References
    - [torch.accelerator](https://docs.pytorch.org/docs/stable/accelerator.html)
    - [torch.amp](https://docs.pytorch.org/docs/stable/amp.html)
    """

    code = "DEV701"
    name = "cuda-only-api"
    trigger = r"\bcuda\s*\.\s*\w|torch\.cuda\b|\btorch\s+import\b.*\bcuda\b"
    alias = r"import\s+torch\.cuda\s+as\s+(\w+)"
    severity = "warning"
    default = False
    for_any_accelerator = True
    effect = Effect(holds="device.type == 'cpu'", devices=0)
    fix = "S/U"

    def shape(self) -> m.BaseMatcherNode:
        return m.Attribute() | m.Name() | m.ImportFrom() | m.Import()

    def judge(self, node: cst.Attribute | cst.Name | cst.ImportFrom | cst.Import, facts: Facts) -> Iterator[Report]:
        if isinstance(node, (cst.ImportFrom, cst.Import)):
            yield from _imported(node, facts)
            return
        found = facts.node(node)
        name = _name(found, facts) if found is not None else None
        if found is None or name is None or (isinstance(found, ast.Name) and found.id != "cuda" and "." not in name):
            return
        parent = next(facts.model.ancestors(found), None)
        if isinstance(parent, ast.Attribute) and _name(parent, facts) is not None:
            # A longer name is looked at by itself.
            return
        if isinstance(found, ast.Name) and name != "torch.cuda":
            # What it was imported as is told at the import.
            return
        layer, known = _stand_ins(name, facts)
        if (layer is None and known is None) or not _speaks(found, name, facts) or guards.is_in_chain(found, facts):
            return
        if layer is not None:
            yield Report(node, _told(name, layer.code), change=_by_layer(found, layer, facts))
        elif known is not None:
            yield Report(
                node,
                _told(name, known.name),
                hint=_HINTS.get(name) or (_MEND_FIRST if _sends_elsewhere(found, name, facts) else None),
                change=_by_counterpart(found, name, known, facts),
            )


_HINTS = {
    "torch.cuda.amp.autocast": "torch.amp.autocast is told the type of the device first: `torch.amp.autocast(device.type)`",
    "torch.cuda.amp.GradScaler": "torch.amp.GradScaler is told the type of the device first: `torch.amp.GradScaler(device.type)`",
}
_MEND_FIRST = "what it decides names CUDA, which another accelerator must not meet: mend that first"


def _told(name: str, other: str) -> str:
    return f"`{name}` is for CUDA alone: `{other}` is for any accelerator"


def _name(found: ast.expr, facts: Facts) -> str | None:
    """The name in `torch.cuda` that an expression refers to."""
    text = dotted(found)
    if text is None:
        return None
    # Code that is never reached isn't modelled.
    name = facts.model.qualified(found) or (text if text.startswith("torch.") else "")
    return name if re.match(r"torch\.cuda(?:\.|$)", name) else None


def _stand_ins(name: str, facts: Facts) -> tuple[Layer | None, Counterpart | None]:
    """(the project's own layer, what torch has) for a name; of torch's own, a layer is for what has no counterpart."""
    layer, known = facts.surroundings.portable.layer(name), counterpart(name, facts.surroundings.oldest_torch)
    if layer is not None and layer.is_of_torch and known is not None:
        return None, known
    if layer is None and name.rpartition(".")[2] in DTYPES:
        return None, None
    return layer, known if layer is None else None


def _speaks(found: ast.AST, name: str, facts: Facts) -> bool:
    # A project that names a layer means all of CUDA's, also where what only CUDA has is used.
    has_layer = facts.surroundings.portable.layer(name) is not None
    return not (guards.is_meant(found, facts) if has_layer else guards.is_about_cuda(found, facts))


# Imports


def _imported(node: cst.ImportFrom | cst.Import, facts: Facts) -> Iterator[Report]:
    statement = facts.statement
    if isinstance(statement, ast.ImportFrom) and isinstance(node, cst.ImportFrom):
        if statement.level or statement.module is None:
            return
        for alias in statement.names:
            name = f"{statement.module}.{alias.name}"
            if not re.match(r"torch\.cuda(?:\.|$)", name):
                continue
            layer, known = _stand_ins(name, facts)
            if (layer is None and known is None) or not _speaks(statement, name, facts):
                continue
            other = layer.code if layer is not None else known.name if known is not None else ""
            yield Report(node, _told(name, other), change=_of_import(statement, known, facts))
    elif isinstance(statement, ast.Import):
        for alias in statement.names:
            layer = facts.surroundings.portable.layer("torch.cuda")
            # What is used of it tells the rest.
            if alias.name.startswith("torch.cuda") and layer is not None and _speaks(statement, alias.name, facts):
                yield Report(node, _told(alias.name, layer.code))


def _of_import(statement: ast.ImportFrom, known: Counterpart | None, facts: Facts) -> Change | None:
    """The import of one function that has the same name, and takes the same, in the other module."""
    if known is None or len(statement.names) != 1 or known.of_type:
        return None
    (alias,) = statement.names
    module, _, last = known.name.rpartition(".")
    # What is done with it can't be seen here: whether it is called without an accelerator, or by keyword.
    name = last if last == alias.name and alias.asname is None else f"{last} as {alias.asname or alias.name}"
    return Change(
        f"import it from {module}", "unsafe", edits=(facts.replaced(statement, f"from {module} import {name}"),)
    )


# Fixes


def _by_layer(found: ast.expr, layer: Layer, facts: Facts) -> Change:
    return Change(f"use `{layer.code}`", "unsafe", edits=(facts.replaced(found, layer.code),), imports=(layer.needs,))


def _by_counterpart(found: ast.expr, name: str, known: Counterpart, facts: Facts) -> Change | None:
    parent = next(facts.model.ancestors(found), None)
    call = parent if isinstance(parent, ast.Call) and parent.func is found else None
    title = f"use `{known.name}`"
    if named.is_commented_on(found, facts) or named.stays(found, facts) or _meets_streams(known, facts):
        return None
    if known.of_type:
        return _told_type(found, call, known, facts)
    if name == "torch.cuda.is_available" and call is not None and (whole := _choice(call, facts)) is not None:
        return whole
    if _sends_elsewhere(found, name, facts):
        return None
    edits = _arguments(call, known, facts) if call is not None else ()
    if edits is None:
        return None
    edits = (facts.replaced(found, known.name), *edits)
    imports = () if _has_torch(facts) else ("import torch",)
    if known.without == "raises" and call is not None and not guards.has_accelerator(found, facts):
        guarded = _guarded(call, known, facts)
        return guarded or Change(title, "unsafe", edits=edits, imports=imports)
    return Change(title, _safety(name, known, call, facts), edits=edits, imports=imports)


def _meets_streams(known: Counterpart, facts: Facts) -> bool:
    """Whether a stream for any accelerator would be given to what takes CUDA's alone."""
    return "stream" in known.name.lower() and "torch.cuda.stream(" in facts.text.text


# What is asked before CUDA is used.
_ASKS = frozenset({"torch.cuda.is_available", "torch.cuda.device_count"})


def _sends_elsewhere(found: ast.expr, name: str, facts: Facts) -> bool:
    """Whether a counterpart would send another accelerator to where CUDA is named."""
    return name in _ASKS and named.is_decided_by(found, facts)


def _safety(name: str, known: Counterpart, call: ast.Call | None, facts: Facts) -> Safety:
    if not known.exact or call is None or known.without == "differs":
        return "unsafe"
    return "unsafe" if name in _ASKS and _names_cuda_otherwise(facts.text.text) else "safe"


def _names_cuda_otherwise(text: str) -> bool:
    """Whether a text speaks of CUDA beside the functions that a fix takes care of: those would meet another accelerator."""
    exact = "|".join(re.escape(name) for name, known in counterparts().items() if known.exact)
    code = re.sub(r"#[^\n]*", "", re.sub(rf"(?:{exact})\b", "", text))
    return re.search(r"cuda|\bgpu\b|\bnvidia", code, re.IGNORECASE) is not None


def _has_torch(facts: Facts) -> bool:
    return "torch" in facts.model.source.bindings


def _arguments(call: ast.Call, known: Counterpart, facts: Facts) -> tuple[Edit, ...] | None:
    """What changes in a call's arguments; None where the counterpart may not take them."""
    given = [*call.args, *(k.value for k in call.keywords)]
    if known.name == "torch.Event" and call.args:
        # Its first argument is a device, not whether it takes the time.
        return None
    if not known.exact or not given:
        return ()
    if len(given) != 1 or not _takes(known, given[0], facts):
        return None
    if call.keywords and known.by_position:
        value, func = facts.text.span_of(given[0]), facts.text.span_of(call.func)
        return (Edit(Span(func.end_line, func.end_column + 1, value.line, value.column), ""),)
    return ()


def _takes(known: Counterpart, argument: ast.expr, facts: Facts) -> bool:
    """Whether a counterpart takes an argument of that form, or of any where the form isn't known."""
    match argument:
        case ast.Starred():
            return False
        case ast.Constant(value=int()):
            return "index" in known.forms
        case ast.Constant(value=str()) | ast.JoinedStr():
            return "text" in known.forms
        case ast.Constant(value=None):
            return "none" in known.forms
    name = dotted(argument) or ""
    if re.search(r"(?:^|[._])(?:local_)?(?:rank|index|idx|id|ordinal)$", name):
        return "index" in known.forms
    return {"index", "text", "device"} <= known.forms


def _guarded(call: ast.Call, known: Counterpart, facts: Facts) -> Change | None:
    """The call under a test of its own, where it is a statement that has its lines for itself."""
    statement = next(facts.model.ancestors(call), None)
    if not isinstance(statement, ast.Expr) or not _has_torch(facts):
        return None
    span = facts.text.span_of(statement)
    indent = facts.text.line(span.line)[: span.column - 1]
    rest = facts.text.line(span.end_line)[span.end_column - 1 :].strip()
    if indent.strip() or (rest and not rest.startswith("#")) or span.line != span.end_line:
        return None
    arguments = facts.code_of(call)[len(facts.code_of(call.func)) :]
    step = facts.step
    code = f"if torch.accelerator.is_available():{facts.text.newline}{indent}{step}{known.name}{arguments}"
    return Change("use it where there is an accelerator", "safe", edits=(facts.replaced(statement, code),))


def _choice(call: ast.Call, facts: Facts) -> Change | None:
    """`"cuda" if torch.cuda.is_available() else "cpu"`, also with each in a `torch.device`: the whole of it."""
    choice = next(facts.model.ancestors(call), None)
    if not (isinstance(choice, ast.IfExp) and choice.test is call and _has_torch(facts)):
        return None
    body, is_device = _device_text(choice.body)
    if body not in ("cuda", "cuda:0") or _device_text(choice.orelse) != ("cpu", is_device):
        return None
    if named.is_decided_elsewhere(call, facts):
        return None
    around = next(facts.model.ancestors(choice), None)
    whole: ast.expr | None = choice if is_device else None
    if isinstance(around, ast.Call) and not is_device and _device_text(around, choice)[1]:
        whole = around
    checks = facts.surroundings.oldest_torch is None or facts.surroundings.oldest_torch >= CHECKS_SINCE
    if whole is not None and checks:
        code = 'torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")'
        parent = next(facts.model.ancestors(whole), None)
        if not isinstance(parent, (ast.Assign, ast.AnnAssign, ast.Return, ast.keyword)) and not _is_argument(
            whole, parent
        ):
            code = f"({code})"
        return Change("ask for any accelerator", "unsafe", edits=(facts.replaced(whole, code),))
    kind = "" if is_device else ".type"
    edits = (
        facts.replaced(call.func, "torch.accelerator.is_available"),
        facts.replaced(choice.body, f"torch.accelerator.current_accelerator(){kind}"),
    )
    return Change("ask for any accelerator", "unsafe", edits=edits)


def _device_text(node: ast.expr, only: ast.expr | None = None) -> tuple[str, bool]:
    """(the text that names a device, whether it stands in a `torch.device`); of `only`, that it is given to one."""
    match node:
        case ast.Constant(value=str() as text):
            return text, False
        case ast.Call(func=func, args=[given], keywords=[]) if dotted(func) in ("torch.device", "device"):
            if given is only:
                return "", True
            return (_device_text(given)[0], True) if isinstance(given, ast.Constant) else ("", False)
    return "", False


def _is_argument(node: ast.expr, parent: ast.AST | None) -> bool:
    """Whether an expression is an argument of its own, which needs no parentheses."""
    return isinstance(parent, ast.Call) and node in parent.args


def _told_type(found: ast.expr, call: ast.Call | None, known: Counterpart, facts: Facts) -> Change | None:
    """`torch.amp.autocast(device.type, ...)`, where a device is at hand."""
    device = at_hand(found, facts)
    if call is None or device is None or not _has_torch(facts) or "custom" in known.name:
        return None
    rest = [facts.code_of(a) for a in call.args]
    if rest:
        # By position they'd be other parameters there.
        return None
    span = facts.text.span_of(found)
    line, column = span.end_line, span.end_column
    if facts.text.line(line)[column - 1 : column] != "(":
        return None
    after = Edit(Span(line, column + 1, line, column + 1), device.type + (", " if call.keywords else ""))
    return Change(f"use `{known.name}`", "unsafe", edits=(facts.replaced(found, known.name), after))
