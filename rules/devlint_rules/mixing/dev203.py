"""DEV203: a factory without a device whose result meets an input."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Mixing, last_name, own_nodes
from devlint.knowledge import torch_knowledge
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.mixing.apart import dropped_move, place_text, text_of

if TYPE_CHECKING:
    from devlint.facts import Facts


class FactoryWithoutDevice(Rule):
    """A tensor created on the host that meets an input, wherever that is.

    ## What it does
    Flags `torch.zeros`, `torch.arange`, `torch.FloatTensor` and the like without `device=` where the result meets an input
    of the function, a parameter, a buffer, or what a module computed: the function breaks for any caller with tensors on
    an accelerator. Left alone are results that are moved before, that have no dimension in element-wise arithmetic, and
    that serve as plain host data; and functions that are meant for the host by their name or class (data sets, collate
    functions, loading, saving, plots, export, tests), or that hand what they meet to NumPy as it is.

    ## Why is this bad
    It works as long as everything is on the host, and so it passes tests on CI; on a GPU it raises
    `RuntimeError: Expected all tensors to be on the same device`.

    ## Example
    ```python
    import torch
    from torch import nn


    class Masked(nn.Module):
        def forward(self, x, lengths):
            steps = torch.arange(x.size(1))
            mask = steps < lengths.unsqueeze(1)
            return x.masked_fill(~mask, 0.0)


    Masked()(torch.ones(2, 4, device="cuda"), torch.tensor([1, 3], device="cuda"))
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn


    class Masked(nn.Module):
        def forward(self, x, lengths):
            steps = torch.arange(x.size(1), device=lengths.device)
            mask = steps < lengths.unsqueeze(1)
            return x.masked_fill(~mask, 0.0)


    Masked()(torch.ones(2, 4, device="cuda"), torch.tensor([1, 3], device="cuda"))
    ```

    ## Fix safety
    Safe: the tensor is created where the one is that it meets, which had to be on the host until now. Not offered where it
    is as long as another input, and where the function makes more on the host that takes no `device`, or of which nobody has told where it meets others.

    ## References
    - [CUDA semantics: device-agnostic code](https://docs.pytorch.org/docs/stable/notes/cuda.html#device-agnostic-code)
    - [mozilla/TTS 549](https://github.com/mozilla/TTS/issues/549)
    """

    code = "DEV203"
    name = "factory-without-device"
    trigger = (
        r"\b(?:arange|linspace|logspace|eye|zeros|ones|empty|full|rand|randn|randint|randperm|tensor|tri[lu]_indices|normal"
        r"|\w+_window|from_numpy|\w*Tensor)\("
    )
    event = "unplaced-factory"
    needs = (r"\bdef\s",)
    effect = Effect(raises="RuntimeError", words="Expected all tensors to be on the same device")
    fix = "S"

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        mixing = facts.unplaced(node)
        call = facts.node(node)
        if mixing is None or not isinstance(call, ast.Call) or dropped_move(mixing.host, facts):
            return
        function = facts.model.enclosing_scope(call)
        if isinstance(function, ast.Module) or (function.name in _BEFORE_MOVES and _is_of_a_module(function, facts)):
            return
        other, place = text_of(mixing.other, facts), mixing.other.value.place
        if any("," in key for name in (_root(mixing.other.node), place.name) for key in keyed_by(name, function)):
            # Parts of a dictionary whose keys are tuples: nobody knows where those are.
            return
        where = "wherever the caller has it" if place.name == other else place_text(place, call, facts)
        around = facts.model.enclosing_scope(mixing.other.node) if not mixing.other.foreign else function
        inside = f" in `{around.name}`" if around is not function and not isinstance(around, ast.Module) else ""
        device = _device(mixing, function, call, facts)
        yield Report(
            node,
            f"`{facts.name_of(node.func)}` creates on cpu what meets `{other}`{inside}, which is {where}: "
            "give it a `device`",
            "likely",
            notes=(facts.note(f"`{other}` meets it here", mixing.node),),
            change=_created_there(call, device, facts)
            if device
            and takes_device(node, facts)
            and not _has_no_dimension(call)
            and not _stays_half_done(call, function, facts)
            else None,
        )


# What these create in a module moves with it.
_BEFORE_MOVES = ("__init__", "reset_parameters", "init_weights")


def _is_of_a_module(function: ast.FunctionDef | ast.AsyncFunctionDef, facts: Facts) -> bool:
    cls = facts.model.class_around(function)
    return cls is None or any(facts.model.is_module_base(base) for base in cls.outside_bases)


def takes_device(node: cst.Call, facts: Facts) -> bool:
    """Whether a call is a factory that could be told a device, and isn't."""
    if any(a.star or (a.keyword is not None and a.keyword.value in ("device", "out")) for a in node.args):
        return False
    name = str(node.func.attr.value if isinstance(node.func, cst.Attribute) else getattr(node.func, "value", ""))
    return name not in ("from_numpy", "frombuffer", "normal", "shape_as_tensor") and not name[:1].isupper()


# They make tensors on the host, and take no device.
_LEGACY = regex(r"(?:(?:Float|Double|Half|Long|Int|Byte|Bool)?Tensor|from_numpy)")
# What makes a tensor on the host where nothing else is said.
_FACTORIES = frozenset(
    {"zeros", "ones", "full", "empty", "arange", "linspace", "eye", "rand", "randn", "randint", "tensor"}
)


def _stays_half_done(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, facts: Facts) -> bool:
    """Whether the function makes more on the host that takes no device, or of which nobody tells: it would fail all the same."""
    if any(_is_left_on_host(n, facts) for n in own_nodes(function)):
        return True
    collected = _collected_in(call, facts)
    return any(
        last_name(n.func) in _FACTORIES
        and n not in facts.model.unplaced
        and not any(k.arg in ("device", None) for k in n.keywords)
        and _collected_in(n, facts) == collected
        for n in own_nodes(function)
        if collected and isinstance(n, ast.Call) and n is not call
    )


def _is_left_on_host(node: ast.AST, facts: Facts) -> bool:
    """Whether a node is `torch.FloatTensor(n)`, or an array's tensor, without a move behind it."""
    if not isinstance(node, ast.Call) or _LEGACY.fullmatch(last_name(node.func)) is None:
        return False
    child: ast.AST = node
    for parent in facts.model.ancestors(node):
        match parent:
            case ast.Attribute(attr="to" | "cuda" | "type" | "type_as"):
                return False
            case ast.Attribute():
                child = parent
            case ast.Call(func=func) if func is child:
                child = parent
            case _:
                break
    return "cuda" not in ast.unparse(node.func)


def _collected_in(call: ast.Call, facts: Facts) -> str:
    """The list that a statement appends what a call makes to; "" for other statements."""
    match facts.model.source.statement_of(call):
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend"))):
            return name
    return ""


def _has_no_dimension(call: ast.Call) -> bool:
    """Whether what is made is one number, which may stay on the host: where one fails, another device doesn't help."""
    match call.args:
        case [ast.Constant() | ast.Call(func=ast.Name(id="len")) | ast.Call(func=ast.Attribute(attr="size"), args=[_])]:
            return last_name(call.func) in ("tensor", "scalar_tensor")
        case [ast.Subscript(value=ast.Attribute(attr="shape"))]:
            return last_name(call.func) in ("tensor", "scalar_tensor")
    return False


def _created_there(call: ast.Call, device: str, facts: Facts) -> Change:
    return Change(f"create it there: `device={device}`", "safe", edits=(facts.with_argument(call, f"device={device}"),))


def _may_be_none(function: ast.FunctionDef | ast.AsyncFunctionDef, facts: Facts) -> set[str]:
    """The parameters that may be None: by their defaults, or since the function asks."""
    defaults = facts.model.source.function_at(function).defaults
    found = {name for name, d in defaults.items() if isinstance(d, ast.Constant) and d.value is None}
    for node in own_nodes(function):
        match node:
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]
            ):
                found.add(name)
    return found


def _device(
    mixing: Mixing, function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, facts: Facts
) -> str | None:
    """The device of what it meets, by a name that the function is given: those are bound before anything is created."""
    arguments = {a.arg for a in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]}
    # A parameter that is None where nothing is given for it has no device.
    absent = _may_be_none(function, facts)
    arguments -= absent
    match mixing.other.node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str() as key)):
            # A part of a dictionary, which has no device itself.
            return f'{name}["{key}"].device' if name in arguments and key.isprintable() and '"' not in key else None
    # What is called is a module, most likely, and has no device.
    called = {n.func.id for n in own_nodes(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    arguments -= called
    arguments = {name for name in arguments if name == "self" or _may_be_tensor(name, function)}
    met = _root(mixing.other.node)
    if met in absent:
        return None
    if met in arguments - {"self"} and _as_long_as(call) & arguments - {met}:
        # As long as one input, it meets another: which of them it goes with, the reader has to say.
        return None
    if met in arguments - {"self"}:
        return f"{met}.device"
    name = mixing.other.value.place.name
    if name in arguments - {"self"} and f"device={name}.device" in facts.code_of(function):
        # As it was done for the others.
        return f"{name}.device"
    shaped = _shaped_like(call)
    if shaped and not mixing.other.foreign and any(
        isinstance(n, ast.Name) and n.id == shaped for n in ast.walk(mixing.other.node)
    ):  # fmt: skip
        return f"{shaped}.device"
    if (
        isinstance(mixing.other.node, ast.Name)
        and met not in called
        and _stands_before(met, mixing, function, call, facts)
    ):
        return f"{met}.device"
    if (
        met == "self"
        and met in arguments
        and isinstance(mixing.other.node, ast.Attribute)
        and mixing.other.value.is_tensor
    ):
        return f"{ast.unparse(mixing.other.node)}.device"
    is_kept = name.startswith("self.") and "self" in arguments and _is_kept_tensor(name, facts)
    if (name in arguments and name != "self") or is_kept:
        return f"{name}.device"
    return None


def _is_kept_tensor(path: str, facts: Facts) -> bool:
    """Whether an attribute is surely a tensor, or what has its device: a module has none."""
    name = re.escape(path.removeprefix("self."))
    made = rf"self\.{name}(?:\s*:[^=\n]{{1,80}})?\s*=\s*(?:\w+\.){{0,3}}(?:Parameter|Tensor|tensor|zeros|ones|empty|full|eye|arange|randn|rand)\("
    registered = rf"register_(?:buffer|parameter)\(\s*['\"]{name}['\"]"
    return re.search(f"{made}|{registered}", facts.text.text) is not None


_TYPED_OTHERWISE = regex(
    r"\b(?:ndarray|[Ll]ist|[Dd]ict|[Tt]uple|Sequence|Iterable|Mapping|PackedSequence|Module|str|int|float)\b"
)


def _may_be_tensor(name: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether nothing that a function does with a parameter, or says of it, tells that it is no tensor, which has no `device`."""
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    typed = next((a.annotation for a in arguments if a.arg == name), None)
    if typed is not None and _TYPED_OTHERWISE.search(ast.unparse(typed)):
        return False
    if keyed_by(name, function):
        return False
    knowledge = torch_knowledge()
    known = knowledge.tensor_methods.keys() | knowledge.tensor_attributes.keys()
    for node in own_nodes(function):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=attr) if owner == name:
                if attr not in known:
                    return False
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str())) if owner == name:
                return False
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=asked), _]) if asked == name:
                return False
    return True


def keyed_by(name: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The names that a parameter is subscripted with, where it is used for nothing else: a list or a dictionary is, most likely."""
    loads = [n for n in own_nodes(function) if isinstance(n, ast.Name) and n.id == name]
    keys = {id(n.value): n.slice for n in own_nodes(function) if isinstance(n, ast.Subscript) and _is_of_names(n.slice)}
    used = {id(n): n for n in loads if isinstance(n.ctx, ast.Load)}
    return [ast.unparse(keys[use]) for use in used] if used.keys() <= keys.keys() else []


def _is_of_names(key: ast.expr) -> bool:
    match key:
        case ast.Tuple(elts=parts):
            return len(parts) > 1 and all(isinstance(p, (ast.Name, ast.Attribute)) for p in parts)
    return isinstance(key, ast.Name)


def _as_long_as(call: ast.Call) -> set[str]:
    """The names whose first dimension sizes what a call makes: `x` of `x.size(0)`."""
    found = set()
    for node in ast.walk(call):
        match node:
            case (
                ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[ast.Constant(value=0)])
                | ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=0))
            ):
                found.add(name)
    return found


def _shaped_like(call: ast.Call) -> str:
    """The tensor of whose size a factory makes another: `x` of `torch.zeros(x.size())`; "" for other sizes."""
    match call.args:
        case [ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[])]:
            return name
        case [ast.Attribute(value=ast.Name(id=name), attr="shape")]:
            return name
    return ""


def _stands_before(
    name: str, mixing: Mixing, function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, facts: Facts
) -> bool:
    """Whether what it meets is there already when the tensor is made."""
    if mixing.other.foreign or facts.model.enclosing_scope(mixing.other.node) is not function:
        return False
    return name not in facts.model.source.bindings and facts.model.is_bound_before(name, call)


def _root(node: ast.expr) -> str:
    """The name that a chain of methods, attributes and subscripts starts from."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            # What a function gives isn't what is called by its name.
            return ""
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
