"""What becomes of a loaded thing: it goes into `load_state_dict`, is read as an array, or is known to be on the host."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from devlint.facts import Kind, last_name, own_nodes
from devlint.lazy import regex
from devlint_rules.checkpoints.landings import copies

if TYPE_CHECKING:
    from devlint.facts import Facts


def goes_into_load_state_dict(call: ast.expr, facts: Facts) -> bool:
    uses = uses_of(call, facts)
    return bool(uses) and all(_is_loaded(use, facts) for use in uses)


def uses_of(call: ast.expr, facts: Facts) -> list[ast.expr]:
    """Where the loaded value goes: the call itself, or each use of the one name that it is assigned to."""
    parent = next(facts.model.ancestors(call), None)
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1 or not isinstance(parent.targets[0], ast.Name):
        return [call]
    name = parent.targets[0].id
    scope = facts.model.enclosing_scope(call)
    return [n for n in own_nodes(scope) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]


# Calls whose argument is plain data or a host tensor by what they do: random states are ByteTensors on the host.
# What takes the state of a generator; an object's own `self.set_state` takes what it likes.
_HOST_SINKS = regex(r"rng_state|setstate|(?<!^self\.)set_state")


def is_host_data(use: ast.expr, facts: Facts) -> bool:
    """Whether a use shows that what was loaded holds no accelerator tensors."""
    child: ast.AST = use
    for parent in facts.model.ancestors(use):
        match parent:
            case ast.Subscript(
                value=value, slice=ast.Constant(value="epoch" | "step" | "global_step" | "iteration")
            ) if value is use and isinstance(use, ast.Call):
                # A number.
                return True
            case ast.Subscript(value=value) if value is child:
                child = parent
            case ast.keyword():
                child = parent
            case ast.Call(func=ast.Attribute(value=owner, attr="load_state_dict")):
                # The state of a scheduler, a gradient scaler, a loader or a sampler is numbers, that of an engine is bytes.
                return _counts_steps(owner, facts) or _is_engine(owner, facts)
            case ast.Call(func=func):
                if child is func:
                    return False
                name = facts.model.value(func).name
                return name == "torch.from_numpy" or bool(_HOST_SINKS.search(ast.unparse(func)))
            case ast.Compare(ops=[ast.In() | ast.NotIn()]) | ast.For():
                return False
            case _:
                return False
    return False


def holds_arrays(use: ast.expr, facts: Facts) -> bool:
    """Whether a use shows that NumPy's arrays were saved, or tensors that are as good as these.

    What was loaded, or a part of it, is asked for its array as it is (`torch.load(path)["x"].numpy()`), or made a tensor.
    """
    part, parent = _out_of_parts(use, facts)
    if isinstance(parent, ast.Attribute) and parent.attr in ("items", "values"):
        return any(_is_made_tensor(item, facts) or _is_image(item, facts) for item in _items_of(parent, facts))
    return _is_asked_for_array(part, facts) or _is_made_tensor(part, facts)


# What gives a tensor where it was.
_VIEWS = frozenset({"view", "reshape", "squeeze", "unsqueeze", "flatten", "transpose", "permute", "detach", "float"})


def _is_asked_for_array(part: ast.AST, facts: Facts) -> bool:
    """`.numpy()` of something, or of views of it, with no copy to the host between."""
    child = part
    for parent in facts.model.ancestors(part):
        match parent:
            case ast.Attribute(attr="numpy"):
                return True
            case ast.Subscript(value=whole) if whole is child:
                pass
            case ast.Attribute(attr=name) if name in _VIEWS:
                pass
            case ast.Call(func=func) if func is child:
                pass
            case _:
                return False
        child = parent
    return False


def is_object_of_arrays(call: ast.expr, facts: Facts) -> bool:
    """Whether what is loaded stands in the place of an object whose constructor makes NumPy's arrays, and no tensor.

    `memory = torch.load(path)` and otherwise `memory = Replay(size)`.
    """
    parent = next(facts.model.ancestors(call), None)
    match parent:
        case ast.Assign(targets=[ast.Name() as name]):
            others = [v for v in facts.model.assigned_values(name) if v is not call]
        case _:
            return False
    made = [v for other in others if isinstance(other, ast.Call) for _, v in facts.model.value(other).alternatives()]
    methods = [v.cls.method("__init__") for v in made if v.cls is not None]
    return bool(methods) and len(made) == len(methods) and all(m is not None and _makes_arrays(m.text) for m in methods)


# Arrays of NumPy's are made, and nothing of PyTorch's.
_ARRAYS = regex(r"\bnp\.(?:empty|zeros|ones|full|array)\(")
_TENSORS = regex(r"\btorch\.|\bnn\.|\bTensor\b")


def _makes_arrays(text: str) -> bool:
    return _ARRAYS.search(text) is not None and _TENSORS.search(text) is None


def _is_made_tensor(part: ast.AST, facts: Facts) -> bool:
    """Whether something is what `torch.as_tensor` is given, and no device with it: that changes nothing about a tensor.

    Nor does `torch.Tensor`, which takes none from an accelerator.
    """
    parent = next(facts.model.ancestors(part), None)
    return (
        isinstance(parent, ast.Call)
        and parent.args[:1] == [part]
        and not any(k.arg in ("device", None) for k in parent.keywords)
        and facts.model.value(parent.func).name in ("torch.as_tensor", "torch.from_numpy", "torch.Tensor")
    )


def _is_image(item: ast.Name, facts: Facts) -> bool:
    """`label.save(path)`: a tensor has no such method, and pictures do."""
    attribute, call = islice((*facts.model.ancestors(item), None, None), 2)
    return isinstance(attribute, ast.Attribute) and attribute.attr == "save" and isinstance(call, ast.Call)


def _items_of(method: ast.Attribute, facts: Facts) -> Iterator[ast.Name]:
    """Where the body of `for name, value in x.items():` reads the value."""
    call, loop, outer = islice((*facts.model.ancestors(method), None, None, None), 3)
    if isinstance(loop, ast.Call) and loop.args[:1] == [call]:
        # `tqdm(x.items())`
        call, loop = loop, outer
    if not isinstance(loop, (ast.For, ast.comprehension)) or loop.iter is not call:
        return
    target = loop.target.elts[-1] if isinstance(loop.target, ast.Tuple) else loop.target
    around = loop if isinstance(loop, ast.For) else next(facts.model.ancestors(loop), loop)
    for n in ast.walk(around):
        if (
            isinstance(n, ast.Name)
            and isinstance(target, ast.Name)
            and n.id == target.id
            and isinstance(n.ctx, ast.Load)
        ):
            yield n


def _out_of_parts(node: ast.expr, facts: Facts) -> tuple[ast.AST, ast.AST | None]:
    """`x["a"][0]` around `x`, and what stands around that."""
    child: ast.AST = node
    for parent in facts.model.ancestors(node):
        if not (isinstance(parent, ast.Subscript) and parent.value is child):
            return child, parent
        child = parent
    return child, None


def _counts_steps(owner: ast.expr, facts: Facts) -> bool:
    options = [v for _, v in facts.model.value(owner).alternatives()]
    if any(v.kind is Kind.SCHEDULER or v.name.endswith("GradScaler") for v in options):
        return True
    name = last_name(owner).lower()
    gives_data = name.endswith(("loader", "_sampler")) and all(v.kind is not Kind.MODULE for v in options)
    return gives_data or any(word in name for word in ("scheduler", "scaler"))


# Modules whose state holds no tensors.
_ENGINES = frozenset({"torch2trt.TRTModule"})


def _is_engine(owner: ast.expr, facts: Facts) -> bool:
    """Whether a module is an engine that somebody has compiled, whose state is its bytes."""
    made = facts.model.assigned_values(owner) if isinstance(owner, ast.Name) else []
    return any(isinstance(v, ast.Call) and facts.model.qualified(v.func) in _ENGINES for v in made)


def _is_loaded(node: ast.expr, facts: Facts) -> bool:
    """Whether an expression, or a part of it by subscript, is the argument of `load_state_dict`."""
    child, parent = _out_of_parts(node, facts)
    if isinstance(parent, ast.keyword) and parent.arg == "state_dict":
        child, parent = parent, next(facts.model.ancestors(parent), None)
    match parent:
        case ast.Call(func=ast.Attribute(attr="load_state_dict"), args=args, keywords=keywords):
            return child in [*args[:1], *keywords] and copies(parent, facts.model)
    return False
