"""DEV612: a device was chosen, and another one is used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import FunctionModel, dotted, walk
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.chosen import NAMES, Chosen, chosen_in, own_device

if TYPE_CHECKING:
    from devlint.facts import ClassInfo, Facts, PlacementModel, Unit


class ChosenDeviceIgnored(Rule):
    """A device was chosen, but another one is used.

    ## What it does
    In a function that has a `device` (a parameter, or a local variable that depends on an option), flags what is put on
    `self.device`, on `"cuda"` or on the current GPU instead, or moved by `.cuda()`. Where a device is at hand, flags calls of the project's
    own functions that leave their `device` at its default, an accelerator. In classes that have a device of their own, flags what is
    decided by `torch.cuda.is_available()` alone. Left alone are code under a test of the device, a device that
    is only another name for `self.device`, and a device for results that is used after the object's own.

    This rule is new, and opt-in: select it by its code.

    ## Why is this bad
    The choice has no effect; or tensors on the chosen device meet tensors on the other one, and
    `RuntimeError: Expected all tensors to be on the same device` follows. It works as long as both devices are the same, as they usually
    are for the author.

    ## Example
    ```python
    import torch


    def mixed(target, classes, device="cuda"):
        rows = torch.zeros(target.shape[0], classes, device=device)
        return rows.scatter_(1, target.view(-1, 1), 1.0)


    def train(target, device):
        return mixed(target.to(device), 3)


    train(torch.tensor([0, 2]), device="cuda:1")
    ```

    ## Use instead
    ```python
    import torch


    def mixed(target, classes, device="cuda"):
        rows = torch.zeros(target.shape[0], classes, device=device)
        return rows.scatter_(1, target.view(-1, 1), 1.0)


    def train(target, device):
        return mixed(target.to(device), 3, device=device)


    train(torch.tensor([0, 2]), device="cuda:1")
    ```

    ## Fix safety
    Unsafe: the chosen device is used, so the program may run on another one than before.

    ## References
    - [Device-agnostic code](https://docs.pytorch.org/docs/stable/notes/cuda.html#device-agnostic-code)
    - [huggingface/pytorch-image-models 2351](https://github.com/huggingface/pytorch-image-models/pull/2351)
    """

    code = "DEV612"
    name = "chosen-device-ignored"
    trigger = r"\("
    needs = (r"\bdev(?:ice)?\b", r"\.cuda\(|[\"']cuda|current_device\(|\.device\b|cuda\.is_available")
    default = False
    effect = Effect(raises="RuntimeError", words="Expected all tensors to be on the same device", devices=2)
    fix = "U"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return any(_found(n, unit.scope, model) is not None for n in walk(unit.node))

    def shape(self) -> m.BaseMatcherNode:
        return m.Call() | m.IfExp()

    def judge(self, node: cst.Call | cst.IfExp, facts: Facts) -> Iterator[Report]:
        expression = facts.node(node)
        found = _found(expression, facts.scope, facts.model) if expression is not None else None
        if found is None:
            return
        change = None
        if found.wrong is not None:
            change = Change(f"use `{found.device}`", "unsafe", edits=(facts.replaced(found.wrong, found.device),))
        elif found.is_default and isinstance(expression, ast.Call):
            edit = facts.with_argument(expression, f"device={found.device}")
            change = Change(f"give it `{found.device}`", "unsafe", edits=(edit,))
        yield Report(node, found.message, "likely", change=change, minor=found.few_act)


class _Found(NamedTuple):
    message: str
    # What the chosen device is called here; "" where it has no name.
    device: str = ""
    # The expression that should be the chosen device.
    wrong: ast.expr | None = None
    # The call leaves the device to a default.
    is_default: bool = False
    # The choice is always what the default says, or nothing is placed by it.
    few_act: bool = False


def _found(node: ast.AST, scope: FunctionModel | None, model: PlacementModel) -> _Found | None:
    match node:
        case ast.Call():
            return _other_device(node, scope, model) or _by_default(node, scope, model) or _by_guard(node, scope, model)
        case ast.IfExp():
            return _by_availability(node, scope, model)
    return None


# -- another device than the chosen one ---------------------------------------------------------------------------


def _other_device(call: ast.Call, scope: FunctionModel | None, model: PlacementModel) -> _Found | None:
    """A tensor that is put elsewhere than on the device that the function has."""
    wrong = _accelerator(call) or _own(call)
    if wrong is None or scope is None or scope.name in _MOVES or _is_host(scope):
        return None
    chosen = chosen_in(scope, model.source)
    if chosen is None or not chosen.told or (chosen.line >= call.lineno and not chosen.is_parameter):
        return None
    if _is_asked_about(call, chosen, model) or _goes_to_the_choice(call, chosen, model):
        return None
    of_self = own_device(wrong) if not isinstance(wrong, ast.Call) or wrong is not call else ""
    if of_self:
        if chosen.alias or scope.name == "__init__" or not _precedes(call, chosen, scope) or _sets(scope, of_self):
            return None
        default = scope.defaults.get(chosen.name)
        if isinstance(default, ast.Constant) and isinstance(default.value, str):
            # Whoever says nothing didn't choose `device="cuda"`: the object's own may well be meant.
            return None
        message = f"`{ast.unparse(call.func)}` goes by `{of_self}`, and this function was told `{chosen.name}`"
        return _Found(message, chosen.name, wrong)
    if chosen.alias or _decides(scope, chosen):
        return None
    text = "`.cuda()`" if wrong is call else f"`{ast.unparse(wrong)}`"
    message = f"{text} takes no notice of the device that this function was told: `{chosen.name}`"
    return _Found(message, chosen.name, None if wrong is call else wrong)


_MOVES = frozenset({"to", "cuda", "cpu", "_apply", "device"})


def _is_host(scope: FunctionModel) -> bool:
    return scope.name.startswith("test")


def _accelerator(call: ast.Call) -> ast.expr | None:
    """What a call names an accelerator by, whatever was chosen: the literal, the current GPU, or the call itself."""
    match call:
        case ast.Call(func=ast.Attribute(attr="cuda"), args=[], keywords=[]):
            return call
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="device")):
            return None
    return next((d for d in _devices(call) if _names_accelerator(d)), None)


def _names_accelerator(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return re.fullmatch(r"cuda(:\d+)?", text) is not None
        case ast.Call(func=func):
            name = dotted(func) or ""
            if name.endswith("cuda.current_device"):
                return True
            return name == "torch.device" and bool(node.args) and _names_accelerator(node.args[0])
    return False


def _own(call: ast.Call) -> ast.expr | None:
    """`self.device` where a call takes a device, unless it moves what belongs to the object itself."""
    found = next((d for d in _devices(call) if own_device(d) in ("self.device", "self._device")), None)
    if found is None or not isinstance(call.func, ast.Attribute):
        return found
    receiver = call.func.value
    while isinstance(receiver, (ast.Attribute, ast.Subscript)):
        receiver = receiver.value
    return None if call.func.attr == "to" and isinstance(receiver, ast.Name) and receiver.id == "self" else found


def _devices(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call that are a device by where they stand."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "cuda") and call.args:
        yield call.args[0]
    if (dotted(call.func) or "").endswith(("Generator", "load")):
        # Generators and checkpoints have devices of their own.
        return
    yield from (k.value for k in call.keywords if k.arg in ("device", "device_id"))


def _is_asked_about(node: ast.expr, chosen: Chosen, model: PlacementModel) -> bool:
    """Whether a test of the device decides whether a node is reached, or chooses it."""
    child: ast.AST = node
    for parent in model.ancestors(node):
        match parent:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if child is not test:
                if _mentions(test, chosen.name) or "device" in ast.unparse(test):
                    return True
            case ast.BoolOp() if _mentions(parent, chosen.name):
                return True
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return False
        child = parent
    return False


def _goes_to_the_choice(call: ast.Call, chosen: Chosen, model: PlacementModel) -> bool:
    """Whether a call is part of choosing, or of what is handed on to the chosen device at once."""
    for parent in model.ancestors(call):
        match parent:
            case ast.Assign(targets=targets) if any(
                _mentions(t, "device") or _mentions(t, chosen.name) for t in targets
            ):
                return True
            case ast.Assign(targets=[ast.Attribute(attr=name)]) if "device" in name:
                return True
            case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Name(id=name), *_]) if name == chosen.name:
                return True
            case ast.stmt():
                return False
    return False


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, (ast.Name, ast.Attribute)) and dotted(n) == name for n in walk(node))


def _precedes(call: ast.Call, chosen: Chosen, scope: FunctionModel) -> bool:
    """Whether the device is meant for what is placed here: the object's own stands in for it, it was used before, or never.

    One that is used afterwards alone may be where the results go.
    """
    uses = [n for n in scope.nodes if isinstance(n, (ast.Name, ast.Attribute)) and dotted(n) == chosen.name]
    uses = [n for n in uses if isinstance(n.ctx, ast.Load)]
    placing = [n for n in uses if n.lineno > chosen.line]
    if chosen.falls_back and not chosen.is_parameter:
        return True
    if chosen.is_parameter and (chosen.falls_back or not placing):
        return True
    return any(n.lineno < call.lineno for n in placing if _is_placing(n, scope))


def _is_placing(name: ast.expr, scope: FunctionModel) -> bool:
    return any(isinstance(n, ast.Call) and any(d is name for d in _devices(n)) for n in scope.nodes)


def _sets(scope: FunctionModel, attribute: str) -> bool:
    """Whether a function sets the object's own device itself."""
    return any(
        isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and dotted(n) == attribute for n in scope.nodes
    )


def _decides(scope: FunctionModel, chosen: Chosen) -> bool:
    """Whether a function looks at its device to decide something, other than whether there is one."""
    tests = [n.test for n in scope.nodes if isinstance(n, (ast.If, ast.IfExp, ast.While, ast.Assert))]
    return any(_mentions(t, chosen.name) and not re.search(r"\bis (?:not )?None", ast.unparse(t)) for t in tests)


# -- a device that is left to a default --------------------------------------------------------------------------


def _by_default(call: ast.Call, scope: FunctionModel | None, model: PlacementModel) -> _Found | None:
    """A call of a function whose device is an accelerator unless it is told, where a device is at hand."""
    if not _may_default(call, model):
        return None
    found = model.callee(call)
    if found is None or found.function is scope:
        return None
    for name in NAMES:
        default = found.function.defaults.get(name)
        if default is not None and not model.is_given(found, call, name):
            break
    else:
        return None
    called = f"`{ast.unparse(call.func)}`"
    chosen = chosen_in(scope, model.source) or (chosen_in(None, model.source) if scope is not None else None)
    if chosen is not None and (chosen.line > call.lineno and not chosen.is_parameter):
        chosen = None
    if chosen is not None and _is_asked_about(call, chosen, model):
        return None
    if found.makes is not None and scope is not None and scope.cls is found.makes.node:
        return _of_own_class(call, scope, default, found.makes.text, name)
    if not _names_accelerator(default):
        return None
    shown = f"`{name}={ast.unparse(default)}`"
    if chosen is not None:
        message = f"{called} isn't given `{chosen.name}`, and takes its default: {shown}"
        few_act = _only_keeps(found.makes, found.function, name) or _is_always_default(chosen, default, scope, model)
        return _Found(message, chosen.name if name == "device" else "", is_default=name == "device", few_act=few_act)
    own = _device_of_class(scope, model)
    if own:
        return _Found(f"{called} isn't given a device, and takes its default: {shown}; this object has `{own}`")
    given = {k: v for k, v in found.given(call).items() if isinstance(v, ast.Name)}
    tensors = model.tensor_inputs(found.function) & given.keys() if scope is not None and given else frozenset[str]()
    if tensors:
        tensor = ast.unparse(given[min(tensors)])
        message = f"{called} isn't given the device of `{tensor}`, and takes its default: {shown}"
        return _Found(message, f"{tensor}.device", is_default=name == "device")
    return None


def _only_keeps(cls: ClassInfo | None, constructor: FunctionModel, name: str) -> bool:
    """Whether a constructor does no more with its device than to keep it, and no method of the class asks for that."""
    if cls is None:
        return False
    kept = {
        name_kept
        for n in constructor.nodes
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Name) and n.value.id == name
        for target in n.targets
        if (name_kept := dotted(target))
    }
    uses = [n for n in constructor.nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    if not kept or len(uses) > 1:
        return False
    nodes = [n for method in cls.methods() for n in method.nodes if isinstance(n, ast.Attribute)]
    return not any(dotted(n) in kept and isinstance(n.ctx, ast.Load) for n in nodes)


def _is_always_default(chosen: Chosen, default: ast.expr, scope: FunctionModel | None, model: PlacementModel) -> bool:
    """Whether the function's own device has the same default, and each call of it, and there are some, leaves it or says just that."""
    own = scope.defaults.get(chosen.name) if scope is not None and chosen.is_parameter else None
    if scope is None or own is None or ast.unparse(own) != ast.unparse(default):
        return False
    position = [a.arg for a in scope.parameters].index(chosen.name)
    calls = [call for _, call in model.calls_in_sight(scope.node)]
    return bool(calls) and all(
        len(call.args) <= position
        and not any(isinstance(a, ast.Starred) for a in call.args)
        and all(k.arg is not None for k in call.keywords)
        and all(ast.unparse(k.value) == ast.unparse(default) for k in call.keywords if k.arg == chosen.name)
        for call in calls
    )


def _may_default(call: ast.Call, model: PlacementModel) -> bool:
    """Whether the text says that something of that name, here or where it is imported from, has a default for its device."""
    name = (dotted(call.func) or "").rpartition(".")[2]
    if not name or name in ("to", "cuda", "device"):
        return False
    return name in _with_default(model)


_DEFAULT = r"\b(?:device|dev|torch_device|_device)\s*(?::[^=\n]{1,80})?=\s*(?:torch\.device\()?[\"'](?:cuda|cpu)"


def _with_default(model: PlacementModel) -> frozenset[str]:
    """The names of functions and classes of this file, or imported here, that may have such a default."""
    tree = model.source.tree
    known: frozenset[str] | None = getattr(tree, "devlint_device_defaults", None)
    if known is None:
        names = set(model.imports_from(re.compile(_DEFAULT.encode()), through_packages=True))
        if re.search(_DEFAULT, model.source.text):
            for node in walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    head = ast.unparse(node.args)
                    if re.search(_DEFAULT, head):
                        names.add(node.name)
                elif isinstance(node, ast.ClassDef):
                    names.add(node.name)
        known = frozenset(names)
        setattr(tree, "devlint_device_defaults", known)  # noqa: B010
    return known


def _of_own_class(call: ast.Call, scope: FunctionModel, default: ast.expr, text: str, name: str) -> _Found | None:
    """Another object of the same class, made without a device by one that has it."""
    if scope.is_static or not scope.parameters or scope.parameters[0].arg != "self":
        return None
    if not re.search(rf"self\.device\s*=[^=\n]*\b{name}\b", text) or scope.name == "__init__":
        return None
    message = (
        f"`{ast.unparse(call.func)}` isn't given `self.device`, and takes its default: `{name}={ast.unparse(default)}`"
    )
    return _Found(message, "self.device", is_default=name == "device")


# -- a device by availability ------------------------------------------------------------------------------------


def _by_availability(node: ast.IfExp, scope: FunctionModel | None, model: PlacementModel) -> _Found | None:
    """`"cuda" if torch.cuda.is_available() else "cpu"` in a class that has a device of its own."""
    if "is_available()" not in ast.unparse(node.test):
        return None
    names = {b.value.split(":")[0] for b in (node.body, node.orelse) if isinstance(b, ast.Constant) and isinstance(b.value, str)}  # fmt: skip
    own = _device_of_class(scope, model) if names == {"cuda", "cpu"} else ""
    if not own or scope is None or scope.name in ("__init__", *_MOVES) or chosen_in(scope, model.source) is not None:
        return None
    if any(isinstance(p, ast.Assign) and _mentions_device(p.targets) for p in model.ancestors(node)):
        return None
    if any(isinstance(p, (ast.If, ast.IfExp)) and _mentions(p.test, own) for p in model.ancestors(node)):
        # `if self.device == "auto":`
        return None
    message = f"this asks which device there is, and not which was chosen: `{own}`"
    # A device has its type: what is chosen here is a string.
    return _Found(message, f"{own}.type", node)


def _mentions_device(targets: list[ast.expr]) -> bool:
    return any(isinstance(t, ast.Attribute) and "device" in t.attr for t in targets)


def _by_guard(call: ast.Call, scope: FunctionModel | None, model: PlacementModel) -> _Found | None:
    """A gradient scaler for CUDA wherever there is CUDA, in a class that has a device of its own."""
    if scope is None or (dotted(call.func) or "").rpartition(".")[2] != "GradScaler":
        return None
    own = _device_of_class(scope, model)
    tests = [p.test for p in model.ancestors(call) if isinstance(p, ast.If)]
    if not own or not tests or "cuda.is_available()" not in ast.unparse(tests[0]) or "device" in ast.unparse(tests[0]):
        return None
    return _Found(f"this goes by which device there is, and not by which was chosen: `{own}`")


def _device_of_class(scope: FunctionModel | None, model: PlacementModel) -> str:
    """`self.device`, where the class of a method has a device that somebody chose; "" where it has none."""
    while scope is not None and scope.cls is None:
        scope = scope.parent
    if scope is None or scope.cls is None or scope.is_static or not scope.parameters:
        return ""
    me = scope.parameters[0].arg
    for node in walk(scope.cls):
        match node:
            case ast.FunctionDef(name="device") if node.decorator_list and node is not scope.node:
                return f"{me}.device" if me == "self" else ""
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr="device")], value=value):
                if "is_available" not in ast.unparse(value) and not isinstance(value, ast.Constant):
                    return f"{me}.device" if me == "self" else ""
    return ""
