"""DEV204: NumPy asked for a tensor on an accelerator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.lazy import cst, m
from devlint.placement.trees import walk
from devlint.placement.values import Value
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.mixing.apart import NAMES_DEVICE, place_text

if TYPE_CHECKING:
    from devlint.facts import Facts
    from devlint.placement.model import PlacementModel
    from devlint.placement.units import Unit

# Packages whose functions turn what they are given into arrays.
_ARRAY_PACKAGES = ("numpy.", "matplotlib.pyplot.", "scipy.", "sklearn.", "cv2.", "pandas.", "seaborn.")
# They don't look at the values, or know tensors themselves.
_HARMLESS = frozenset({"numpy.shape", "numpy.ndim", "numpy.isscalar", "pandas.isna"})


class NumpyFromAccelerator(Rule):
    """NumPy, or a library built on it, asked for a tensor on an accelerator.

    ## What it does
    Flags `.numpy()` on a tensor that is on an accelerator, and `np.asarray(t)`, `plt.plot(t)` and the like. After
    `.cpu()`, and where the place isn't known, nothing is said.

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
    Safe: the copy to the host is what the error asks for. Where the tensor comes out of a module, and so may need
    gradients, `.detach()` is added too.

    ## References
    - [torch.Tensor.numpy](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html)
    - [mrdbourke/pytorch-deep-learning 909](https://github.com/mrdbourke/pytorch-deep-learning/issues/909)
    """

    code = "DEV204"
    name = "numpy-from-accelerator"
    trigger = r"\.\s*numpy\s*\(\s*\)|\b(?:np|numpy|plt|sklearn|scipy|cv2|pd|sns)\.\w"
    alias = r"\bfrom\s+(?:sklearn|scipy|numpy|cv2|matplotlib)[\w.]*\s+import\s+(\w+)"
    needs = (NAMES_DEVICE,)
    effect = Effect(raises="TypeError", words="can't convert cuda:0 device type tensor to numpy")
    fix = "S"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        model.ensure(unit.scope)
        return any(_is_off_host(model.value(node)) for node in walk(unit.node))

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        for tensor in _converted(node, facts):
            known, found = _on_accelerator(tensor, facts), facts.node(node)
            if known is None or _is_forced(node) or (found is not None and facts.model.is_for_the_host(found)):
                continue
            value, likely = known
            yield Report(
                node,
                f"`{facts.name_of(tensor)}` is {place_text(value.place)}, and `{facts.name_of(node.func)}` takes tensors "
                "on cpu only: TypeError",
                "likely" if likely else "certain",
                notes=facts.notes(value.trail[-3:]),
                change=_copied(tensor, value),
            )
            return


def _converted(node: cst.Call, facts: Facts) -> list[cst.BaseExpression]:
    """The expressions that the call turns into arrays."""
    match node.func:
        case cst.Attribute(value=value, attr=cst.Name("numpy")) if not node.args:
            return [value]
    name = facts.qualified(node.func) or ""
    if not name.startswith(_ARRAY_PACKAGES) or name in _HARMLESS:
        return []
    return [a.value for a in node.args if not a.star]


def _is_forced(node: cst.Call) -> bool:
    """`t.numpy(force=True)` copies by itself."""
    return any(a.keyword is not None and a.keyword.value == "force" for a in node.args)


def _on_accelerator(node: cst.BaseExpression, facts: Facts) -> tuple[Value, bool] | None:
    """(the value, likely) of a tensor that is off the host on every path that is known."""
    value = facts.value(node)
    if not _is_off_host(value):
        return None
    options = [v for _, v in value.alternatives()]
    return options[0], any(v.likely for v in options)


def _is_off_host(value: Value) -> bool:
    return all(v.is_tensor and v.place.off_host for _, v in value.alternatives())


def _copied(tensor: cst.BaseExpression, value: Value) -> Change | None:
    if not isinstance(tensor, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
        return None
    computed = any(step.message.startswith("computed there") for step in value.trail)
    owner = cst.Call(cst.Attribute(tensor, cst.Name("detach"))) if computed else tensor
    copied = cst.Call(cst.Attribute(owner, cst.Name("cpu")))
    return Change("copy it to the host first", "safe", ((tensor, copied),))
