"""What a project writes with `torch.save`, and whether it is on the host there."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import Kind, Sort, Value, access_path, last_name, own_nodes, walk
from devlint.lazy import regex

if TYPE_CHECKING:
    from devlint.facts import PlacementModel


class Write(NamedTuple):
    """A `torch.save(value, file)`, in a file of code of the project; or what a function returns that is written."""

    call: ast.Call | ast.Return
    value: ast.expr
    file: ast.expr
    model: PlacementModel


_MAX_DEPTH = 10
# What they give holds nothing of a device; the state of a generator is on the host, wherever it draws (`Generator.get_state`).
_PLAIN = frozenset(
    {"cpu", "numpy", "tolist", "item", "int", "float", "str", "len", "bool", "round", "vars", "from_numpy", "range", "keys",
     "format", "join", "get_rng_state", "get_rng_state_all", "get_state", "value_counts", "nlargest", "to_dict", "to_numpy"}
)  # fmt: skip
# A function that is called so copies a whole state: `utils.move_to_cpu(trainer.state_dict())`.
_TO_HOST = regex(r"(?:\w{1,40}_)?to_cpu")
# What they give is where its arguments are.
_OF_ARGUMENTS = frozenset(
    {"dict", "list", "tuple", "set", "OrderedDict", "Counter", "sorted", "enumerate", "zip", "tqdm", "reversed"}
)
# What they give is where their owner is.
_OF_OWNER = frozenset(
    {"state_dict", "copy", "items", "values", "half", "float", "detach", "clone", "contiguous", "get"}
)


def is_on_host(
    value: ast.expr, write: Write, depth: int = 0, *, read: bool = False, under_way: frozenset[str] = frozenset()
) -> bool:
    """Whether all of a value is on the host for sure where it is written; what was `read` before may be taken to be so.

    `under_way` are the names that are being asked about: what one is made of itself says nothing more of it.
    """
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, ast.Name):
        if value.id in under_way:
            return True
        under_way |= {value.id}

    def is_so(part: ast.expr | None) -> bool:
        return part is None or is_on_host(part, write, depth + 1, read=read, under_way=under_way)

    match value:
        case ast.Constant() | ast.JoinedStr() | ast.Compare():
            return True
        case ast.Dict(keys=keys, values=parts) if any(map(_is_state, parts)):
            return all(map(is_so, _without_counts(keys, parts)))
        case ast.Dict(values=parts) if any(map(_is_copied, parts)):
            # Whoever copies its tensors to the host has no others among the names beside them.
            return all(is_so(part) for part in parts if not isinstance(part, ast.Name))
        case ast.Dict(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return all(map(is_so, parts))
        case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.SetComp(elt=part) | ast.DictComp(value=part):
            return is_so(part)
        case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, right=other):
            return is_so(one) and is_so(other)
        case ast.Subscript(value=ast.Call() as made, slice=ast.Constant(value=int() as index)) if returned := _returned(
            made, write
        ):
            pieces = [(v.elts[index], at) for v, at in returned if isinstance(v, ast.Tuple) and index < len(v.elts)]
            are_so = len(pieces) == len(returned) and all(is_on_host(v, at, depth + 1, read=read) for v, at in pieces)
            return are_so or _is_known_on_host(write.model.value(value))
        case ast.Subscript(value=owner):
            return is_so(owner)
        case ast.Call(func=ast.Attribute(value=owner, attr="to"), args=[place, *_]):
            return _says_host(place) or (_DTYPE.fullmatch(ast.unparse(place)) is not None and is_so(owner))
        case ast.Call(func=func, keywords=given) if last_name(func) == "load":
            places = [k.value for k in given if k.arg == "map_location"]
            return any(map(_says_host, places)) or (read and not places)
        case ast.Call(func=func, args=args, keywords=given) if last_name(func) in _OF_ARGUMENTS:
            return all(map(is_so, (*args, *(k.value for k in given))))
        case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in _OF_OWNER:
            return is_so(owner)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr="get_state")):
            # No generator's: what an object of the project's says of itself.
            return False
        case ast.Call(func=func) if last_name(func) in _PLAIN or _TO_HOST.fullmatch(last_name(func)):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as owner)) if _is_moved_to_host(
            owner, write
        ):
            return True
        case ast.Call() if _is_new(value, write):
            return True
        case ast.Call() if returned := _returned(value, write):
            are_so = all(is_on_host(v, at, depth + 1, read=read) for v, at in returned)
            return are_so or _is_known_on_host(write.model.value(value))
        case ast.Attribute(attr=attr) if attr in _COUNTS or _SETTING.match(ast.unparse(value)):
            return True
        case ast.Attribute() if _is_moved_to_host(value, write) or _is_counter(value, write):
            return True
        case ast.Attribute(value=ast.Name(id="self")) if (added := _collected(value, write)) is not None:
            return all(map(is_so, added))
        case ast.Name():
            return (
                value.id in _SETTINGS
                or _is_moved_to_host(value, write)
                or _is_made_on_host(value, write, is_so)
                or _is_given_from_host(value, write, depth, read=read)
            )
    return _is_known_on_host(write.model.value(value))


def _is_given_from_host(name: ast.Name, write: Write, depth: int, *, read: bool) -> bool:
    """Whether a name is a parameter of the function that writes, which everybody gives what is on the host: `save(net.to("cpu"))`."""
    scope = write.model.enclosing_scope(name)
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) or write.model.assigned_values(name):
        return False
    if name.id not in {a.arg for a in write.model.source.function_at(scope).parameters}:
        return False
    calls = write.model.calls_in_sight(scope)
    called = [(file, call, file.callee(call)) for file, call in calls]
    given = [(file, call, c.given(call).get(name.id) if c is not None else None) for file, call, c in called]
    return bool(given) and all(
        value is not None and is_on_host(value, Write(call, value, value, file), depth + 1, read=read)
        for file, call, value in given
    )


def _returned(call: ast.Call, write: Write) -> list[tuple[ast.expr, Write]]:
    """What a function of the project returns, each with where that stands; nothing where that isn't known."""
    called = write.model.callee(call)
    file = write.model.file_of(called.function.source) if called is not None else None
    if called is None or file is None:
        return []
    returns = [n for n in called.function.nodes if isinstance(n, ast.Return)]
    return [(n.value, Write(n, n.value, n.value, file)) for n in returns if n.value is not None]


# Keys of what a run counts, or scores.
_COUNTED = regex(
    r"(?i)(?:\w{0,20}_)?(?:epochs?|iter(?:ation)?s?|steps?|tasks?|acc(?:uracy)?|score|seed|version|name|arch)"
)


def _without_counts(keys: list[ast.expr | None], values: list[ast.expr]) -> list[ast.expr]:
    """The values of a dict but for names under keys of counts: beside states that are copied to the host, no tensor is left among them."""
    return [
        value
        for key, value in zip(keys, values, strict=True)
        if not isinstance(value, (ast.Name, ast.Attribute))
        or not isinstance(key, ast.Constant)
        or _COUNTED.fullmatch(str(key.value)) is None
    ]


def _is_state(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) == "state_dict"


def _is_copied(value: ast.expr) -> bool:
    """`weights.cpu()`, `weights.detach().to("cpu")`"""
    match value:
        case ast.Call(func=ast.Attribute(attr="cpu"), args=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[place]):
            return _says_host(place)
    return False


def _is_new(made: ast.Call, write: Write) -> bool:
    """Whether a function makes an object of a class, going by its name, hands it to nobody, and says nothing of devices: `net = Net()`."""
    scope = write.model.enclosing_scope(made)
    if _CLASS.fullmatch(last_name(made.func)) is None or _speaks_of_devices(ast.unparse(scope)):
        return False
    match next(write.model.ancestors(made), None):
        case ast.Assign(targets=[ast.Name(id=name)]):
            calls = (n for n in own_nodes(scope) if isinstance(n, ast.Call) and last_name(n.func) != "save")
            return not any(isinstance(a, ast.Name) and a.id == name for call in calls for a in call.args)
    return False


def _speaks_of_devices(text: str) -> bool:
    """Whether code speaks of another place than the host: `device = "cpu"` doesn't, nor does what is moved to that."""
    chosen = _CHOSEN.findall(text)
    if chosen and all(map(_HOST.fullmatch, chosen)):
        text = _DEVICE.sub("", text)
    return _OF_DEVICES.search(text) is not None


_CHOSEN = regex(r"\bdevice = ([^\n]{1,200})")
_DEVICE = regex(r"\bdevice = [^\n]{1,200}|\.to\(device\)|\bdevice=device\b")
_CLASS = regex(r"[A-Z]\w{1,60}")
_OF_DEVICES = regex(r"(?i)cuda|gpu|device|\.to\(|accelerat|parallel|\bmps\b|\bx[lp]u\b")
_COUNTS = frozenset({"epoch", "step", "iteration", "global_step"})
_SETTINGS = frozenset({"args", "opt", "opts", "config", "cfg", "hparams"}) | _COUNTS
_SETTING = regex(r"(?:self\.)?(?:args|opts?|options|config|cfg|hparams|hps?|flags|FLAGS)\b")


_DTYPE = regex(r"torch\.(?:b?float|half|double|u?int|long|bool)\d{0,2}|dtype")


def _says_host(place: ast.expr) -> bool:
    return _HOST.fullmatch(ast.unparse(place)) is not None


_HOST = regex(r"(?:torch\.device\()?['\"]cpu['\"]\)?")


def _is_moved_to_host(value: ast.expr, write: Write) -> bool:
    """Whether the last that was done to what a value is a part of was `net.cpu()`, `net = net.to("cpu")`."""
    path = access_path(value) or ""
    moves = [
        n
        for n in own_nodes(write.model.enclosing_scope(write.call))
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in ("cpu", "cuda", "to")
        and n.lineno < write.call.lineno
        and _is_kept(n, write)
        and (owner := access_path(_in_mode(n.func.value))) is not None
        and f"{path}.".startswith(f"{owner}.")
    ]
    last = max(moves, key=lambda n: n.lineno, default=None)
    if last is None or not isinstance(last.func, ast.Attribute):
        return False
    return last.func.attr == "cpu" or (last.func.attr == "to" and bool(last.args) and _says_host(last.args[0]))


def _in_mode(owner: ast.expr) -> ast.expr:
    """`net.eval()` is the module itself."""
    match owner:
        case ast.Call(func=ast.Attribute(value=inner, attr="eval" | "train")):
            return inner
    return owner


def _is_counter(value: ast.Attribute, write: Write) -> bool:
    """Whether an attribute begins as a number, and is counted up by numbers: `self.step = 0`, `self.step += 1`."""
    cls = write.model.source.class_of(write.call)
    stored, counted = [], False
    for node in walk(cls) if cls is not None else ():
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=attr)], value=given) if attr == value.attr:
                stored.append(given)
            case ast.AugAssign(target=ast.Attribute(attr=attr), value=ast.Constant()) if attr == value.attr:
                counted = True
    return counted and any(isinstance(v, ast.Constant) and isinstance(v.value, (int, float)) for v in stored)


def _collected(value: ast.Attribute, write: Write) -> list[ast.expr] | None:
    """What the class that writes appends to a list of its own; None where it does anything else with it than that."""
    cls = write.model.source.class_of(write.call)
    parts: list[ast.expr] = []
    is_list = False
    for node in walk(cls) if cls is not None else ():
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=attr)], value=given) if attr == value.attr:
                if not isinstance(given, ast.List) and not (
                    isinstance(given, ast.Call) and last_name(given.func) == "load"
                ):
                    return None
                is_list = is_list or isinstance(given, ast.List)
                parts += given.elts if isinstance(given, ast.List) else []
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=attr), attr=adding), args=args) if (
                attr == value.attr
            ):
                if adding != "append":
                    return None
                parts += args
    return parts if is_list and parts else None


def _is_kept(call: ast.Call, write: Write) -> bool:
    """`net.cpu()` as a statement, which moves a module; `net = net.cpu()`."""
    match next(write.model.ancestors(call), None):
        case ast.Expr():
            return True
        case ast.Assign(targets=[target]) if isinstance(call.func, ast.Attribute):
            return access_path(target) == access_path(call.func.value)
    return False


def _is_made_on_host(name: ast.Name, write: Write, is_so: Callable[[ast.expr], bool]) -> bool:
    """Whether a name is assigned only what is on the host, and nothing else is put into it."""
    scope = write.model.enclosing_scope(name)
    values = [v for v in write.model.assigned_values(name) if not _is_of(v, name.id)]
    values += _iterated(name, scope, write.model)
    if any(_copies_each_to_host(n, name.id) for n in own_nodes(scope)):
        return True
    if all(any(isinstance(n, ast.Name) and n.id == name.id for n in walk(value)) for value in values):
        # Made of itself: what it was before, nobody says.
        return False
    put = [p for n in own_nodes(scope) for p in _put_into(n, name.id)]
    return bool(values) and all(map(is_so, (*values, *put)))


def _iterated(name: ast.Name, scope: ast.AST, model: PlacementModel) -> list[ast.expr]:
    """What gives a name its values one by one, in the loops of a scope or the comprehension around."""
    around = [g for p in model.ancestors(name) for g in getattr(p, "generators", ())]
    loops = [*around, *(n for n in own_nodes(scope) if isinstance(n, (ast.For, ast.AsyncFor)))]
    return [loop.iter for loop in loops if any(isinstance(n, ast.Name) and n.id == name.id for n in walk(loop.target))]


def _copies_each_to_host(node: ast.AST, name: str) -> bool:
    """`for key in state: state[key] = state[key].cpu()`, over its keys or its items."""
    match node:
        case ast.For(
            iter=over,
            body=[*_, ast.Assign(targets=[ast.Subscript(value=ast.Name(id=into))], value=ast.Call() as copied)],
        ):
            owner = over.func.value if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) else over
            is_of_it = into == name and isinstance(owner, ast.Name) and owner.id == name
            to_host = last_name(copied.func) == "cpu" or (
                last_name(copied.func) == "to" and any(map(_says_host, copied.args[:1]))
            )
            return is_of_it and to_host
    return False


def _is_of(value: ast.expr, name: str) -> bool:
    """`x` itself in another form, which is where `x` is."""
    path = access_path(value)
    return path is not None and path.split(".")[0] == name


def _put_into(node: ast.AST, name: str) -> list[ast.expr]:
    """What a statement puts into a container: `parts[key] = value`, `parts.append(value)`."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=into))], value=value) if into == name:
            return [value]
        case ast.Call(func=ast.Attribute(value=ast.Name(id=into), attr="append" | "extend" | "update"), args=args):
            return args if into == name else []
    return []


def _is_known_on_host(value: Value) -> bool:
    """Whether the model knows that a tensor, or a number, is on the host on all ways."""
    options = [v for _, v in value.alternatives()]
    return all(v.kind in _NUMBERS or (v.is_tensor and v.place.sort is Sort.HOST and not v.likely) for v in options)


_NUMBERS = frozenset({Kind.SCALAR, Kind.CONSTANT})
