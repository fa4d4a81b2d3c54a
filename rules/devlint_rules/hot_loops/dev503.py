"""DEV503: turning a tensor into text at each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, Value, last_name, leaves, walk
from devlint.knowledge.ecosystem import WANDB_RUN
from devlint.lazy import cst, m
from devlint.rule import Effect, Report, Rule
from devlint_rules.hot_loops import by_role, stalls
from devlint_rules.hot_loops.needed import TEXT_METHODS, is_needed

if TYPE_CHECKING:
    from devlint.facts import Facts, HotStall, PlacementModel, Unit

TEXT_FUNCTIONS = {"builtins.print", "builtins.str", "builtins.repr", "builtins.format", "tqdm.write", "tqdm.tqdm.write",
                  "wandb.log", "wandb.run.log", "mlflow.log_metric", "mlflow.log_metrics"}  # fmt: skip


class PrintInHotLoop(Rule):
    """A tensor printed, logged or formatted as text at each step.

    ## What it does
    Flags `print`, f-strings, `%` and `format`, `str`, logging calls, progress-bar text (`set_postfix`,
    `set_description`), TensorBoard's `add_scalar`, `wandb.log` and mlflow's `log_metric` that are given an accelerator
    tensor, or a dictionary or list with one, at each pass of a hot loop. Left alone: text under a step guard or in an
    exception handler, `logger.debug`, shapes, types and names, and the names of files.

    Told where the rule is selected by its code, as in `--select DEV503`, since there is no fix for it: what a step says is
    mostly meant to be read.

    In code that is hot by its role (in preview) it tells of what each step comes by; of what stands where an option leads,
    runs once a request, or follows right on another wait, where it is selected by its code as well.

    ## Why is this bad
    The text needs the value, so the host waits until the accelerator has done all that was queued before it: one stall
    at each step. A progress bar redraws a few times a second, but its text is made at each step all the same.

    ## Example
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 1).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    for step, batch in enumerate(loader):
        loss = model(batch.to(device)).mean()
        loss.backward()
        print("step", step, loss)
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 1).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    for step, batch in enumerate(loader):
        loss = model(batch.to(device)).mean()
        loss.backward()
        if step % 4 == 0:
            print("step", step, loss)
    ```

    ## References
    - [Performance Tuning Guide: avoid unnecessary CPU-GPU synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "DEV503"
    name = "print-in-hot-loop"
    severity = "warning"
    # What begins a word is asked for once, where one begins.
    trigger = (
        r"\b(?:(?:print|str|repr|format|write)\s*\(|[fF][rR]?[\"']|[rR][fF][\"']|(?:wandb(?:\.run)?|mlflow|\w*run)\.log(?:_metrics?)?\s*\()"
        r"|[\"']\s*%\s*[(\w]|\.\s*(?:set_\w+|info|warn\w*|error|critical|exception|add_\w+)\s*\("
    )
    alias = r"\bimport\s+(?:wandb|mlflow)\s+as\s+(\w+)"
    needs = stalls.NEEDS
    only_hot = True
    only_training = True
    only_amid_step = True
    effect = Effect(syncs=4, words="print")
    seen_as = ("sync",)

    def concerns(self, unit: Unit) -> bool:
        # A message of names and plain text holds no tensor.
        return not isinstance(unit.node, ast.Raise) and any(_makes_text(part) for part in walk(unit.node))

    senses = frozenset({"text"})

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return stalls.reads_accelerator(unit, model)

    def judge_stall(self, node: cst.CSTNode, stall: HotStall, facts: Facts) -> Iterator[Report]:
        text = facts.shown(stall.asked)
        message = f"`{text}` becomes text, and the host waits for the accelerator, {stall.often}"
        yield by_role.report(node, stall, facts, message, "write it now and then, or leave it out")

    def shape(self) -> m.BaseMatcherNode:
        return m.OneOf(
            m.Call(args=[m.AtLeastN(n=1)]),
            m.FormattedStringExpression(),
            m.BinaryOperation(left=m.OneOf(m.SimpleString(), m.ConcatenatedString()), operator=m.Modulo()),
        )

    def judge(self, node: cst.CSTNode, facts: Facts) -> Iterator[Report]:
        for shown in _shown(node, facts):
            known = _tensor(shown, facts) if not _names_file(shown, facts) else None
            hot = facts.hot_loop(shown) if known is not None else None
            found = facts.node(shown)
            if known is None or hot is None or (isinstance(found, ast.expr) and is_needed(found, hot, facts)):
                continue
            value, likely = known
            yield Report(
                shown,
                f"`{facts.name_of(shown)}` becomes {_what_of(node)} at each step, and the host waits for {stalls.place_of(value)} "
                "each time",
                "likely" if likely or hot.likely else "certain",
                notes=stalls.loop_notes(hot, value, facts),
                hint=stalls.LOG_SOMETIMES,
            )


def _what_of(node: cst.CSTNode) -> str:
    """What a writer makes of what it is given: `add_scalar` wants a number."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) if name.startswith("add_") and name != "add_text":
            return "a number" if name.startswith("add_scalar") else "an array"
    return "text"


def _shown(node: cst.CSTNode, facts: Facts) -> Iterator[cst.BaseExpression]:
    """The expressions that a node itself turns into text."""
    match node:
        case cst.FormattedStringExpression(expression=expression):
            yield expression
        case cst.BinaryOperation(right=cst.Tuple(elements=elements)):
            yield from (e.value for e in elements)
        case cst.BinaryOperation(right=right):
            yield right
        case cst.Call(func=func, args=args) if _writes(func, facts):
            for argument in args:
                if argument.keyword is None or argument.keyword.value not in _SAYS_HOW:
                    yield from _parts(argument.value)


# Keywords that say where, how or under which number something is written.
_SAYS_HOW = frozenset({"file", "end", "sep", "global_step", "step"})
# Calls that are given the name of a file.
_FILE_CALLS = frozenset(
    {"open", "Path", "join", "save", "savez", "imwrite", "imsave", "savefig", "save_image", "mkdir"}
)


def _names_file(shown: cst.BaseExpression, facts: Facts) -> bool:
    """Whether a value becomes part of a file's name: whoever writes a file at each step waits for that, not for the name."""
    child = facts.node(shown)
    for parent in facts.model.ancestors(child) if child is not None else ():
        match parent:
            case ast.BinOp(op=ast.Div()):
                # `folder / f"..."`
                return True
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return name in _FILE_CALLS
            case ast.stmt():
                return False
    return False


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What is given, the elements of a dictionary or a list that is spelt out one by one."""
    match node:
        case cst.Dict(elements=elements) | cst.List(elements=elements) | cst.Tuple(elements=elements):
            for element in elements:
                yield from _parts(element.value)
        case cst.Call(func=cst.Name(value="dict"), args=args):
            for argument in args:
                yield from _parts(argument.value)
        case _:
            yield node


def _writes(func: cst.BaseExpression, facts: Facts) -> bool:
    qualified = facts.qualified(func)
    if qualified is not None:
        return qualified in TEXT_FUNCTIONS or (
            qualified.startswith("logging.") and qualified.rsplit(".", 1)[1] in TEXT_METHODS
        )
    match func:
        case cst.Attribute(value=cst.SimpleString() | cst.ConcatenatedString(), attr=cst.Name(value="format")):
            return True
        case cst.Attribute(value=owner, attr=cst.Name(value="log")):
            return facts.value(owner).name == WANDB_RUN
        case cst.Attribute(value=owner, attr=cst.Name(value=name)) if name in TEXT_METHODS:
            # An object of the project's own may do anything with it.
            value = facts.value(owner)
            return value.cls is None and value.kind not in (Kind.TENSOR, Kind.BATCH, Kind.MODULE)
    return False


def _tensor(node: cst.BaseExpression, facts: Facts) -> tuple[Value, bool] | None:
    """The tensor on an accelerator that an expression is, or holds: a dictionary is written with all that is in it."""
    found = (facts.accelerated(leaf) for leaf in leaves(facts.value(node)))
    return next((known for known in found if known is not None and known[0].is_tensor), None)


_WRITERS = TEXT_METHODS | {name.rsplit(".", 1)[1] for name in TEXT_FUNCTIONS}


def _makes_text(node: ast.AST) -> bool:
    match node:
        case ast.FormattedValue(value=value):
            return not isinstance(value, ast.Constant)
        case ast.BinOp(left=ast.Constant(value=str()) | ast.JoinedStr(), op=ast.Mod()):
            return True
        case ast.Call(func=func, args=args, keywords=keywords):
            text = last_name(func) in _WRITERS
            return text and not all(isinstance(a, ast.Constant) for a in [*args, *(k.value for k in keywords)])
    return False
