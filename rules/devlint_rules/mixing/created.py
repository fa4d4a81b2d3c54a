"""Where a tensor is to be created that meets another one: a device that is surely there, and that mends the function.

None is given where the function would fail all the same, where the host is meant, or where nobody knows whose device it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.facts import Mixing, Sort, blocks_of, calls_in, is_test_file, is_told, last_name, own_nodes
from devlint.knowledge import torch_knowledge
from devlint.knowledge.ecosystem import PLAIN_BASES
from devlint.lazy import regex
from devlint_rules.beside import other_branches
from devlint_rules.mixing.proof import beside, runs_in_module

if TYPE_CHECKING:
    from devlint.facts import Facts

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def device_to_create_on(function: _Function, call: ast.Call, facts: Facts) -> str | None:
    """The device that a factory is to be given, by a name that is bound there; None where it is better left to the reader."""
    told = {c: mixing for c, mixing in facts.model.unplaced.items() if facts.model.enclosing_scope(c) is function}
    devices = {c: _device_of_one(mixing, function, c, facts) for c, mixing in told.items()}
    if not all(devices.values()) or _stays_half_done(function, facts) or not runs_in_module(function, facts):
        # All that a function makes on the host is mended, or none of it.
        return None
    if any(not _is_made_by(told, other, facts) for other in beside(function, facts)):
        # What else is apart there fails all the same.
        return None
    return devices[call]


def in_other_branches(call: ast.Call, facts: Facts) -> list[ast.Call]:
    """The calls of the same factory, without a device either, that give the same name what they make on other branches of one test."""
    statement = facts.model.source.statement_of(call)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
        case _:
            return []
    return [
        n
        for other in other_branches(statement, facts)
        for part in ast.walk(other)
        if isinstance(part, ast.Assign) and [ast.unparse(t) for t in part.targets] == [name]
        for n in calls_in(part.value)
        if ast.unparse(n.func) == ast.unparse(call.func) and takes_device(n)
    ]


def _is_made_by(calls: Iterable[ast.Call], mixing: Mixing, facts: Facts) -> bool:
    """Whether one of some calls of a function made what is on the host."""
    lines = {(call.lineno, call.col_offset) for call in calls}
    return any((s.line, s.column) in lines and s.path == facts.model.source.path for s in mixing.host.value.trail)


def _device_of_one(mixing: Mixing, function: _Function, call: ast.Call, facts: Facts) -> str | None:
    is_left = (
        not takes_device(call)
        or _has_no_dimension(call)
        or _is_among_others(call, function, facts)
        or _is_moved_behind(mixing, function, facts)
        or _may_be_meant_for_the_host(mixing, function, facts)
        or is_test_file(Path(facts.path))
        or facts.model.choices.is_never_made(call)
    )
    return None if is_left else _device(mixing, function, call, facts)


def takes_device(call: ast.Call) -> bool:
    """Whether a call is a factory that could be told a device, and isn't."""
    if any(isinstance(a, ast.Starred) for a in call.args) or any(
        k.arg in (None, "device", "out") for k in call.keywords
    ):
        return False
    name = last_name(call.func)
    return name not in ("from_numpy", "frombuffer", "normal", "shape_as_tensor") and not name[:1].isupper()


# They make tensors on the host, and take no device.
_LEGACY = regex(r"(?:(?:Float|Double|Half|Long|Int|Byte|Bool)?Tensor|from_numpy)")
# What makes a tensor on the host where nothing else is said.
_FACTORIES = frozenset(
    {"zeros", "ones", "full", "empty", "arange", "linspace", "eye", "rand", "randn", "randint", "tensor"}
)


def _stays_half_done(function: _Function, facts: Facts) -> bool:
    """Whether a function makes more on the host that takes no device: it would fail all the same."""
    return any(
        _is_left_on_host(n, facts) or _is_joined_untold(n, facts) or _is_array_function_of_tensor(n, facts)
        for n in own_nodes(function)
    )


def _is_array_function_of_tensor(node: ast.AST, facts: Facts) -> bool:
    """Whether a node is `np.power(2, steps)` of a tensor: what that gives is on the host, and it fails where the tensor isn't."""
    if not isinstance(node, ast.Call) or not (facts.model.qualified(node.func) or "").startswith("numpy."):
        return False
    return any(v.is_tensor for given in node.args for _, v in facts.model.value(given).alternatives())


def _is_among_others(call: ast.Call, function: _Function, facts: Facts) -> bool:
    """Whether others are put into the same list, of which nobody tells."""
    collected = _collected_in(call, facts)
    return any(
        last_name(n.func) in _FACTORIES
        and n not in facts.model.unplaced
        and not any(k.arg in ("device", None) for k in n.keywords)
        and _collected_in(n, facts) == collected
        for n in own_nodes(function)
        if collected and isinstance(n, ast.Call) and n is not call
    )


def _is_moved_behind(mixing: Mixing, function: _Function, facts: Facts) -> bool:
    """Whether the function moves what the two give: `both = torch.cat((x, made))`, `both = both.cuda()`, both on the host until then."""
    match facts.model.source.statement_of(mixing.node):
        case ast.Assign(targets=[ast.Name(id=given)]):
            return any(
                isinstance(n, ast.Call)
                and isinstance(n.func, ast.Attribute)
                and n.func.attr in ("cuda", "to")
                and isinstance(n.func.value, ast.Name)
                and n.func.value.id == given
                and n.lineno > mixing.node.lineno
                for n in own_nodes(function)
            )
    return False


def _may_be_meant_for_the_host(mixing: Mixing, function: _Function, facts: Facts) -> bool:
    """Whether nothing says that a function computes for models: then the tensors that it is given may never leave the host.

    So it is with a store of what was seen, a metric, or what prepares data.
    """
    place = mixing.other.value.place
    if place.sort is Sort.ACCELERATOR or is_told(place):
        return False
    cls = facts.model.class_around(function)
    if _OF_DEVICES.search(facts.code_of(function)) or (cls is not None and "self.device" in ast.unparse(cls.node)):
        return False
    if cls is not None:
        return all(base in PLAIN_BASES for base in cls.outside_bases)
    return _OF_MODELS.search(facts.text.text) is None


_OF_DEVICES = regex(r"\.device\b|\bdevice\s*=")
_OF_MODELS = regex(r"\btorch\.nn\b|\bimport\s+nn\b")


def _is_joined_untold(node: ast.AST, facts: Facts) -> bool:
    """Whether a node is `torch.cat([zeros(3), x])`, where what is made on the host is told nowhere."""
    match node:
        case ast.Call(func=func, args=[ast.List(elts=parts) | ast.Tuple(elts=parts), *_]):
            return last_name(func) in _JOINING and any(
                isinstance(part, ast.Call)
                and last_name(part.func) in _FACTORIES
                and part not in facts.model.unplaced
                and not any(k.arg in ("device", None) for k in part.keywords)
                for part in parts
            )
    return False


_JOINING = frozenset({"cat", "concat", "stack", "hstack", "vstack"})


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


def _may_be_none(function: _Function, facts: Facts) -> set[str]:
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


def _device(mixing: Mixing, function: _Function, call: ast.Call, facts: Facts) -> str | None:
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
    arguments = {
        name
        for name in arguments
        if name == "self" or (_may_be_tensor(name, function) and _is_used_as_tensor(name, call, function, facts))
    }
    met = root_name(mixing.other.node)
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
        and _is_one_thing(mixing.other.node, facts)
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


def _is_one_thing(name: ast.Name, facts: Facts) -> bool:
    """Whether a name is given one value, or tensors alone: on one of several ways it may be a number."""
    is_tensor = all(value.is_tensor for _, value in facts.model.value(name).alternatives())
    return is_tensor or len(facts.model.assigned_values(name)) < 2


def _is_kept_tensor(path: str, facts: Facts) -> bool:
    """Whether an attribute is surely a tensor, or what has its device: a module has none."""
    name = re.escape(path.removeprefix("self."))
    made = rf"self\.{name}(?:\s*:[^=\n]{{1,80}})?\s*=\s*(?:\w+\.){{0,3}}(?:Parameter|Tensor|tensor|zeros|ones|empty|full|eye|arange|randn|rand)\("
    registered = rf"register_(?:buffer|parameter)\(\s*['\"]{name}['\"]"
    return re.search(f"{made}|{registered}", facts.text.text) is not None


_TYPED_OTHERWISE = regex(
    r"\b(?:ndarray|[Ll]ist|[Dd]ict|[Tt]uple|Sequence|Iterable|Mapping|PackedSequence|Module|str|int|float)\b"
)


def _may_be_tensor(name: str, function: _Function) -> bool:
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


_TYPED_TENSOR = regex(r"(?:\w+\.)?(?:\w*Tensor|Variable|Parameter)")


def _is_used_as_tensor(name: str, call: ast.Call, function: _Function, facts: Facts) -> bool:
    """Whether a parameter is surely a tensor where a call is: as its type says, or since what runs with the call uses it as one."""
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    typed = next((a.annotation for a in arguments if a.arg == name), None)
    if typed is not None and _TYPED_TENSOR.fullmatch(ast.unparse(typed)):
        return True
    statement = facts.model.source.statement_of(call)
    around = [statement, *facts.model.ancestors(statement)]
    blocks = [
        block
        for parent in around
        if isinstance(parent, ast.stmt)
        for block in blocks_of(parent)
        if any(s in block for s in around)
    ]
    return any(
        _asks_of_tensor(node, name, facts)
        for block in blocks
        for inner in block
        for node in (part for head in _run_with(inner) for part in ast.walk(head))
    )


def _run_with(statement: ast.stmt) -> Iterator[ast.AST]:
    """What of a statement runs whenever it is reached."""
    inner = {id(s) for block in blocks_of(statement) for s in block}
    yield from (part for part in ast.iter_child_nodes(statement) if id(part) not in inner)
    if isinstance(statement, (ast.With, ast.AsyncWith, ast.For)):
        # A loop is there to be run.
        yield from (part for s in statement.body for part in _run_with(s))


def _asks_of_tensor(node: ast.AST, name: str, facts: Facts) -> bool:
    """Whether an expression fails, or means something else, where a name is no tensor: `x.size(0)`, `x * y`, `torch.cat((x, y))`."""
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr=attr):
            return owner == name and attr in torch_knowledge().tensor_attributes | torch_knowledge().tensor_methods
        case ast.BinOp(left=left, right=right):
            return any(isinstance(n, ast.Name) and n.id == name for n in (left, right))
        case ast.UnaryOp(op=ast.USub() | ast.Invert(), operand=ast.Name(id=operand)):
            return operand == name
        case ast.Compare(left=left, comparators=others, ops=ops):
            is_value = all(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in ops)
            return is_value and any(isinstance(n, ast.Name) and n.id == name for n in (left, *others))
        case ast.Call(func=func, args=args):
            given = [e for a in args for e in (a.elts if isinstance(a, (ast.List, ast.Tuple)) else [a])]
            is_given = any(isinstance(n, ast.Name) and n.id == name for n in given)
            return is_given and (facts.model.qualified(func) or "").startswith("torch.")
    return False


def keyed_by(name: str, function: _Function) -> list[str]:
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


def _stands_before(name: str, mixing: Mixing, function: _Function, call: ast.Call, facts: Facts) -> bool:
    """Whether what it meets is there already when the tensor is made."""
    if mixing.other.foreign or facts.model.enclosing_scope(mixing.other.node) is not function:
        return False
    return name not in facts.model.source.bindings and facts.model.is_bound_before(name, call)


def root_name(node: ast.expr) -> str:
    """The name that a chain of methods, attributes and subscripts starts from."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            # What a function gives isn't what is called by its name.
            return ""
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
