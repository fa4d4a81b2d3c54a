"""DEV204: NumPy asked for a tensor on an accelerator."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.facts import HOST, Kind, Sense, Value, is_test_file, own_nodes
from devlint.knowledge import torch_knowledge
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.guards import is_tried_another_way
from devlint_rules.mixing.apart import at_call, is_likely, place_text, root_of, text_of
from devlint_rules.mixing.proof import is_surely_there

if TYPE_CHECKING:
    from devlint.facts import Facts, Mixing

# Packages whose functions turn what they are given into arrays.
_ARRAY_PACKAGES = (
    "numpy.",
    "matplotlib.pyplot.",
    "scipy.",
    "sklearn.",
    "cv2.",
    "pandas.",
    "seaborn.",
    "soundfile.write",
    "imageio.",
    "torchaudio.save",
    "torch.nn.utils.rnn.pack_padded_sequence",
)
# They don't look at the values, or know tensors themselves.
_HARMLESS = frozenset({"numpy.shape", "numpy.ndim", "numpy.isscalar", "pandas.isna"})


# They ask what they are given for a method of their name, and that of a tensor takes other arguments, on cpu as well; found by
# running them.
_ASKING_METHODS = frozenset(
    f"numpy.{name}"
    for name in ("all", "amax", "amin", "any", "flip", "imag", "max", "mean", "min", "std", "sum", "var")
)


class NumpyFromAccelerator(Rule):
    """NumPy, or a library built on it, given a tensor that is on an accelerator.

    ## What it does
    Flags `.numpy()` on a tensor that is on an accelerator, and `np.asarray(t)`, `plt.plot(t)`, `ax.plot(t)`,
    `torchaudio.save(path, t, rate)`, the lengths of `pack_padded_sequence` and the like. Nothing is reported after `.cpu()`, if the device
    isn't known, or in a `try` whose handler does something else with the same tensor. An input of a function counts (as likely) if a module
    computed it on an accelerator, or if the function treats its inputs as if they could be on one.

    ## Why is this bad
    `TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory
    first.` Plots and evaluation are run last, and fail on the machine with the GPU after the training is done.

    ## Example
    ```python
    import torch

    scores = torch.ones(3, device="cuda")
    array = scores.numpy()
    ```

    ## Use instead
    ```python
    import torch

    scores = torch.ones(3, device="cuda")
    array = scores.cpu().numpy()
    ```

    ## Fix safety
    A suggestion, which `--fix` leaves to you: `.cpu()` is what the error message asks for, provided that the tensor should be on the
    accelerator at all. If the tensor comes out of a module, and so may need gradients, `.detach()` is added too. Not offered for lists of
    tensors, if only a caller knows where the tensor is, and for likely findings in tests.

    ## References
    - [torch.Tensor.numpy](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html)
    - [mrdbourke/pytorch-deep-learning 909](https://github.com/mrdbourke/pytorch-deep-learning/issues/909)
    """

    code = "DEV204"
    name = "numpy-from-accelerator"
    trigger = r"\.\s*numpy\s*\(\s*\)|\bpack_padded_sequence\(|\b(?:np|numpy|plt|sklearn|scipy|cv2|pd|sns|sf|soundfile|imageio)\.\w|\btorchaudio\.save\("
    alias = r"\bfrom\s+(?:sklearn|scipy|numpy|cv2|matplotlib|soundfile|imageio|torchaudio)[\w.]*\s+import\s+(\w+)"
    event = "mixing"
    effect = Effect(raises="TypeError", words="can't convert cuda:0 device type tensor to numpy")
    fix = "D"

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        mixing = facts.mixing(node)
        if mixing is None or mixing.sense is not Sense.HOST or _is_forced(node):
            return
        operand = mixing.other
        if operand.inside and mixing.name.endswith("pack_padded_sequence"):
            # It makes a tensor of a list of numbers, on cpu, and copies each of them there.
            return
        fails_with = "RuntimeError" if mixing.name.startswith(("torch.", "torchaudio.")) else "TypeError"
        if is_tried_another_way(mixing.node, root_of(text_of(operand, facts)), fails_with, facts):
            return
        tensor = next((t for t in _converted(node, mixing.name, facts) if facts.node(t) is operand.node), None)
        text, place = text_of(operand, facts), operand.value.place
        where = "wherever the caller has it" if place.name == text else place_text(place, operand.node, facts)
        inside = at_call(mixing, facts)
        taker = mixing.name if inside else facts.name_of(node.func)
        may_be_array = is_likely(mixing) and _may_be_array(operand.node, mixing.name, facts)
        yield Report(
            node,
            f"`{text}` is {where}, and `{taker}` takes tensors on cpu only: {fails_with}{inside}",
            "likely" if is_likely(mixing) else "certain",
            minor=mixing.weak or may_be_array or _fails_before(mixing, facts),
            notes=(
                *facts.notes(mixing.calls),
                *facts.notes(operand.value.trail[-3:]),
            ),
            hint=f"copy each tensor in `{text}` to cpu first" if operand.inside else None,
            change=_copied(tensor, operand.value, facts.qualified(node.func) or "")
            if tensor is not None
            and not may_be_array
            and not operand.inside
            and not mixing.by_itself
            and is_surely_there(mixing, facts)
            and not _is_of_something_else(tensor, facts)
            # Where others are converted as they are, the host is meant, or it isn't mended by one; what a test makes, it
            # makes where it passes.
            and not (is_likely(mixing) and (_is_one_of_several(node, facts) or is_test_file(Path(facts.path))))
            else None,
        )


def _fails_before(mixing: Mixing, facts: Facts) -> bool:
    """Whether the call that gives what is to be on the host fails itself, for what it is given is elsewhere: `model(y).numpy()`."""
    node = mixing.other.node
    made = [v for n in ast.walk(node) if isinstance(n, ast.Name) for v in facts.model.assigned_values(n)]
    calls = (n for value in (node, *made) for n in ast.walk(value) if isinstance(n, ast.Call))
    return any(call is not mixing.node and call in facts.model.mixings for call in calls)


def _may_be_array(operand: ast.expr, called: str, facts: Facts) -> bool:
    """Whether a function of NumPy is given a part of what a model gave, or what a loop takes out of one: `for box in out["boxes"]`.

    What stands under a key a model may have copied to the host itself, and arrays go through the same call.
    """
    root = operand
    while isinstance(root, (ast.Subscript, ast.Compare)):
        root = root.value if isinstance(root, ast.Subscript) else root.left
    if not called.startswith("numpy.") or not isinstance(root, ast.Name):
        return False
    if _is_under_key(root, facts):
        return True
    loops = (n for n in own_nodes(facts.model.enclosing_scope(root)) if isinstance(n, ast.For))
    return any(
        any(isinstance(n, ast.Name) and n.id == root.id for n in ast.walk(loop.target))
        and any(_is_under_key(n, facts) for n in ast.walk(loop.iter) if isinstance(n, ast.expr))
        for loop in loops
    )


def _is_under_key(node: ast.expr, facts: Facts) -> bool:
    """Whether an expression, or what a name was given, is `out["boxes"]`."""
    values = facts.model.assigned_values(node) if isinstance(node, ast.Name) else [node]
    return any(
        isinstance(v, ast.Subscript) and isinstance(v.slice, ast.Constant) and isinstance(v.slice.value, str)
        for v in values
    )


def _converted(node: cst.Call, called: str, facts: Facts) -> list[cst.BaseExpression]:
    """The expressions that the call turns into arrays; `called` is what the model takes it for."""
    match node.func:
        case cst.Attribute(value=value, attr=cst.Name("numpy")) if not node.args:
            return [value]
    name = facts.qualified(node.func) or ""
    if called.startswith("matplotlib.axes."):
        return [a.value for a in node.args if not a.star and a.keyword is None]
    if not name.startswith(_ARRAY_PACKAGES) or name in _HARMLESS:
        return []
    return [a.value for a in node.args if not a.star]


def _is_one_of_several(node: cst.Call, facts: Facts) -> bool:
    """Whether the same function asks other tensors for their arrays as they are, of which nobody knows where they are."""
    found = facts.node(node)
    scope = facts.model.enclosing_scope(found) if found is not None else None
    for other in own_nodes(scope) if scope is not None else ():
        match other:
            case ast.Call(func=ast.Attribute(value=owner, attr="numpy"), args=[], keywords=[]) if other is not found:
                told = facts.model.mixings.get(other)
                is_mended = told is not None and not told.by_itself
                if not is_mended and any(v.place != HOST for _, v in facts.model.value(owner).alternatives()):
                    return True
    return False


def _is_forced(node: cst.Call) -> bool:
    """`t.numpy(force=True)` copies by itself."""
    return any(a.keyword is not None and a.keyword.value == "force" for a in node.args)


def _is_of_something_else(tensor: cst.BaseExpression, facts: Facts) -> bool:
    """Whether it is what an object that is no tensor has under a name, `output.C`: where it keeps that, its makers know."""
    if not isinstance(tensor, cst.Attribute) or tensor.attr.value in torch_knowledge().tensor_attributes:
        return False
    if isinstance(tensor.value, cst.Name) and tensor.value.value == "self":
        return False
    return not any(v.is_module or v.kind is Kind.OBJECT for _, v in facts.value(tensor.value).alternatives())


def _copied(tensor: cst.BaseExpression, value: Value, called: str) -> Change | None:
    if not isinstance(tensor, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
        return None
    computed = any(step.message.startswith("computed there") for step in value.trail)
    owner = cst.Call(cst.Attribute(tensor, cst.Name("detach"))) if computed else tensor
    copied = cst.Call(cst.Attribute(owner, cst.Name("cpu")))
    if called in _ASKING_METHODS:
        copied = cst.Call(cst.Attribute(copied, cst.Name("numpy")))
    return Change("copy it to cpu first", "display", ((tensor, copied),))
