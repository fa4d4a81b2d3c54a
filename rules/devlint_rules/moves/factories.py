"""Factories of torch that make a tensor where `device=` says, and moves that `device=` can take the place of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import HOST, MOVES, Kind, own_nodes, place_of_device, walk
from devlint.lazy import cst, m

if TYPE_CHECKING:
    from devlint.facts import Facts

# Each of these makes its result on the device itself: with `device="meta"` it dispatches one operation, and none on
# the host. Left out: as_tensor and asarray, which may share the data; from_numpy, frombuffer and the legacy constructors, which take no device; the sparse ones, which go by their
# parts. The numbers are the same everywhere.
EXACT = frozenset(
    {"torch.zeros", "torch.ones", "torch.full", "torch.empty", "torch.empty_strided", "torch.empty_permuted", "torch.eye",
     "torch.arange", "torch.tril_indices", "torch.triu_indices", "torch.scalar_tensor"}
)  # fmt: skip
# Each device has its own stream of random numbers.
RANDOM = frozenset({"torch.rand", "torch.randn", "torch.randint", "torch.randperm"})
# Computed in floating point: the last bit may differ.
ROUNDED = frozenset(
    {"torch.linspace", "torch.logspace", "torch.hann_window", "torch.hamming_window", "torch.bartlett_window",
     "torch.blackman_window", "torch.kaiser_window", "torch.range"}
)  # fmt: skip
# It reads Python's data on the host in either spelling: `device=` saves an allocation and a call.
OF_DATA = frozenset({"torch.tensor"})
# They make their result where a tensor is that they are given: moved at once, that is a copy too many, or none at all.
LIKE = frozenset({"torch.zeros_like", "torch.ones_like", "torch.full_like", "torch.empty_like"})
# Each of their arguments without a name, or the first where it is a tuple or a list, is a size.
_OF_SIZES = frozenset(
    {"torch.zeros", "torch.ones", "torch.empty", "torch.eye", "torch.rand", "torch.randn", "torch.full"}
)
_OF_COUNTS = frozenset({"torch.arange", "torch.randperm"})
ALL = EXACT | RANDOM | ROUNDED | OF_DATA
# Methods that may stand between a factory and a move and do the same on the device; those that fill at random.
BETWEEN = frozenset(
    {"view", "reshape", "unsqueeze", "squeeze", "flatten", "expand", "repeat", "t", "transpose", "permute", "contiguous",
     "long", "float", "int", "half", "double", "bool", "byte", "bfloat16", "fill_", "zero_", "requires_grad_"}
)  # fmt: skip
# Those of them that change the shape alone.
SHAPING = frozenset(
    {
        "view",
        "reshape",
        "unsqueeze",
        "squeeze",
        "flatten",
        "expand",
        "repeat",
        "t",
        "transpose",
        "permute",
        "contiguous",
    }
)
FILLING = frozenset({"normal_", "uniform_", "bernoulli_", "random_", "exponential_"})
# With one of these the tensor has to be where it is: pinned memory, a generator or a result of the host.
ON_HOST = frozenset({"device", "pin_memory", "generator", "out", "layout"})


class Move(NamedTuple):
    """A move that a `device=` of the factory can take the place of."""

    device: cst.BaseExpression
    # What the call still has to do: `.to(dtype=...)`.
    rest: tuple[cst.Arg, ...]


def moved_at_once(node: ast.AST) -> Iterator[ast.Call]:
    """The calls below a node whose results are moved right where they are made: `torch.ones(3)` of `torch.ones(3).cuda()`."""
    for call in walk(node):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Call() as made, attr=name)) if name in MOVES:
                while isinstance(made.func, ast.Attribute) and isinstance(made.func.value, ast.Call):
                    made = made.func.value
                yield made


def root_of(node: cst.Call) -> tuple[cst.Call, frozenset[str]] | None:
    """The first call of a chain of methods, and the methods between; None where one of them isn't known to be the same anywhere."""
    between: set[str] = set()
    while isinstance(node.func, cst.Attribute) and isinstance(node.func.value, cst.Call):
        between.add(node.func.attr.value)
        node = node.func.value
    return (node, frozenset(between)) if between <= BETWEEN | FILLING else None


def factory(node: cst.BaseExpression, facts: Facts) -> str | None:
    """The qualified name of the factory that a call calls, where it makes a tensor on the host for want of `device=`."""
    if not isinstance(node, cst.Call):
        return None
    name = facts.qualified(node.func)
    if name not in ALL or _has_no_elements(name, node, facts):
        return None
    if any(a.star == "**" or (a.keyword is not None and a.keyword.value in ON_HOST) for a in node.args):
        return None
    # The default device may be an accelerator.
    return name if "set_default_" not in facts.text.text and not _in_device_context(node, facts) else None


def like_another(node: cst.Call, facts: Facts) -> str | None:
    """The qualified name of what makes a tensor as large as another one, which isn't known to be on an accelerator; None of other calls."""
    name = facts.qualified(node.func)
    if (
        name not in LIKE
        or not node.args
        or any(a.star == "**" or (a.keyword is not None and a.keyword.value in ON_HOST) for a in node.args)
    ):
        return None
    places = [v.place for _, v in facts.value(node.args[0].value).alternatives()]
    return None if any(place.off_host for place in places) else name


def _has_no_elements(name: str, node: cst.Call, facts: Facts) -> bool:
    """`torch.empty(0)`, `torch.zeros((0, 4))`: no memory is taken, and nothing copied."""
    call = facts.node(node)
    return isinstance(call, ast.Call) and 0 in told_sizes(name, call)


def told_sizes(name: str, call: ast.Call) -> list[int | None]:
    """The sizes that a factory is given, None for what isn't written down; none for a factory that is given something else."""
    sizes = [*call.args, *(k.value for k in call.keywords if k.arg == "size")]
    if name in _OF_COUNTS:
        sizes = sizes if len(sizes) == 1 else []
    elif name not in _OF_SIZES:
        return []
    match sizes:
        case [ast.List(elts=elements) | ast.Tuple(elts=elements), *_]:
            sizes = elements
        case [whole, *_] if name == "torch.full":
            sizes = [whole]
    return [s.value if isinstance(s, ast.Constant) and type(s.value) is int else None for s in sizes]


def _in_device_context(node: cst.Call, facts: Facts) -> bool:
    """`with torch.device("cuda"):` and the like of other libraries; torch.cuda.device chooses among GPUs alone."""
    found = facts.node(node)
    contexts = [
        ast.unparse(item.context_expr)
        for parent in (facts.model.ancestors(found) if found is not None else ())
        if isinstance(parent, (ast.With, ast.AsyncWith))
        for item in parent.items
    ]
    return any("device" in text and "cuda.device" not in text for text in contexts)


def is_exact(name: str, node: cst.Call) -> bool:
    """Whether a factory makes the same numbers on every device."""
    if name == "torch.arange" and m.findall(node, m.OneOf(m.Float(), m.Divide())):
        return False
    wants_grad = any(a.keyword is not None and a.keyword.value == "requires_grad" for a in node.args)
    # A leaf when it is made in its place, and a copy of one when it is moved there.
    return name in EXACT | OF_DATA | LIKE and not wants_grad


def move(node: cst.Call, facts: Facts) -> Move | None:
    """What `x.to(...)` or `x.cuda()` says of where to; None where that isn't surely another device than the host."""
    func = cst.ensure_type(node.func, cst.Attribute)
    if any(a.star or (a.keyword is not None and a.keyword.value in ("copy", "tensor")) for a in node.args):
        return None
    # The accelerator has nothing to wait for.
    args = [a for a in node.args if a.keyword is None or a.keyword.value != "non_blocking"]
    given = next((a for a in args if a.keyword is not None and a.keyword.value == "device"), None)
    if given is None and args and args[0].keyword is None:
        given = args[0]
    rest = tuple(a for a in args if a is not given)
    if len([a for a in args if a.keyword is None]) > 2:
        return None
    if func.attr.value != "to":
        if given is None:
            return None if rest else Move(cst.SimpleString(f'"{MOVES[func.attr.value]}"'), ())
        return Move(_as_device(given.value, facts), ()) if not rest and _is_device(given.value, facts) else None
    if given is None:
        return None
    if not rest and given.keyword is None and _is_tensor(given.value, facts):
        # It says of what type the result is, too.
        like = [cst.Attribute(given.value, cst.Name(name)) for name in ("device", "dtype")]
        tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        return Move(like[0], (cst.Arg(like[1], keyword=cst.Name("dtype"), equal=tight),))
    return Move(_as_device(given.value, facts), rest) if _is_device(given.value, facts) else None


def _as_device(node: cst.BaseExpression, facts: Facts) -> cst.BaseExpression:
    """`x.device` of `x.get_device()`, which is -1 on the host; what an object of the project says of its device, it may have to find first."""
    match node:
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("get_device")), args=[]) if not (
            m.matches(owner, m.Name("self")) or any(v.is_module or v.cls for _, v in facts.value(owner).alternatives())
        ):
            if isinstance(owner, cst.Attribute) and owner.attr.value == "data":
                owner = owner.value
            return cst.Attribute(owner, cst.Name("device"))
    return node


def may_be_none(moving: ast.Call, facts: Facts) -> bool:
    """Whether `x.cuda(args.gpu)` may be told None, which says the current GPU there and the host in a factory.

    So it is with what is compared with None somewhere, or is None where nothing is given for it.
    """
    if not isinstance(moving.func, ast.Attribute) or moving.func.attr == "to" or not moving.args:
        return False
    text = ast.unparse(moving.args[0])
    name = re.escape(re.split(r"\W+", text.rstrip("'\"]"))[-1])
    tested = rf"\b{re.escape(text)}\s+is\s+(?:not\s+)?None|\b{re.escape(text)}\s*[!=]=\s*None"
    left_out = rf"\b{name}['\"]?(?:\s*:[^=,()\n]{{1,80}})?\s*=\s*None\b|--{name}['\"][^)\n]{{0,200}}\bdefault=None\b"
    pattern = f"{tested}|{left_out}"
    return re.search(pattern, facts.text.text) is not None or facts.model.texts_match(pattern, elsewhere=True)


def sized_by(making: ast.Call, moving: ast.Call, facts: Facts) -> str | None:
    """`x.device` where `x.cuda()`'s tensor is made as large as `x`, which is there as well; "" where no tensor, or one on the host, sizes it.

    A tensor is there that is known to be, or that a function is given and doesn't move. None where nobody knows where it is.
    """
    if ast.unparse(moving.func).rpartition(".")[2] != "cuda" or moving.args or any(
        k.arg != "non_blocking" for k in moving.keywords
    ):  # fmt: skip
        return ""
    sizes = [
        size for argument in (*making.args, *(k.value for k in making.keywords)) for size in _sizes(argument, facts)
    ]
    names = {n.id for n in sizes}
    scope = facts.model.enclosing_scope(making)
    if not names or isinstance(scope, ast.Module):
        return ""
    if len(names) > 1:
        # The same words as before say it exactly.
        return ""
    (name,) = names
    options = [v for size in sizes for _, v in facts.model.value(size).alternatives()]
    if all((v.is_tensor or v.kind is Kind.BATCH) and v.place.off_host for v in options):
        return f"{name}.device"
    is_given = any(a.arg == name for a in facts.model.source.function_at(scope).parameters)
    moves = any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in ("cuda", "to", "cpu")
        and _holds(n.func.value, name)
        for n in own_nodes(scope)
    )
    if any(v.place == HOST for v in options) or (is_given and not moves and _says_where_elsewhere(scope, name, facts)):
        return ""
    return f"{name}.device" if is_given and not moves else None


def has_plain_sister(making: ast.Call, moving: ast.Call, facts: Facts) -> bool:
    """Whether a statement beside moves what it makes with the same words, and is sized by no tensor: it says `device="cuda"`."""
    statement = facts.model.source.statement_of(making)
    return any(
        made.lineno != making.lineno
        and facts.model.qualified(made.func) in ALL
        and (outer := _move_of(made, facts)) is not None
        and isinstance(outer.func, ast.Attribute)
        and isinstance(moving.func, ast.Attribute)
        and (outer.func.attr, [ast.dump(a) for a in outer.args])
        == (moving.func.attr, [ast.dump(a) for a in moving.args])
        and not any(True for a in made.args for _ in _sizes(a, facts))
        for beside in (*facts.model.source.before(statement), *facts.model.source.after(statement))
        for made in moved_at_once(beside)
    )


def alike(making: ast.Call, moving: ast.Call, facts: Facts) -> Iterator[tuple[ast.Call, ast.Call]]:
    """The factories of a function, each with its move, that are moved with the same words as one of them: a reader wants one form for all."""
    for made in moved_at_once(facts.model.enclosing_scope(making)):
        outer = _move_of(made, facts)
        if outer is None or facts.model.qualified(made.func) not in EXACT:
            continue
        if (ast.unparse(outer.func).rpartition(".")[2], [*map(ast.dump, outer.args)]) == (
            ast.unparse(moving.func).rpartition(".")[2],
            [*map(ast.dump, moving.args)],
        ):
            yield made, outer


def _move_of(made: ast.Call, facts: Facts) -> ast.Call | None:
    """The move at the end of a chain of methods that begins with a factory."""
    child: ast.AST = made
    for parent in facts.model.ancestors(made):
        match parent:
            case ast.Attribute():
                child = parent
            case ast.Call(func=func) if func is child:
                if isinstance(func, ast.Attribute) and func.attr in MOVES:
                    return parent
                child = parent
            case _:
                return None
    return None


def _says_where_elsewhere(scope: ast.AST, name: str, facts: Facts) -> bool:
    """Whether a function moves more than what is as large as one input: then it says where with the same words everywhere."""
    moved = (
        n
        for n in own_nodes(scope)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in ("cuda", "to")
    )
    return any(
        not any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(n.func))
        and not any(sized.id == name for sized in _sizes(n.func, facts))
        for n in moved
    )


def _holds(node: ast.expr, name: str) -> bool:
    """Whether an expression is made of what a name holds, and not of its size alone."""
    sized = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr in ("size", "shape")}
    return any(isinstance(n, ast.Name) and n.id == name and id(n) not in sized for n in ast.walk(node))


def _sizes(argument: ast.expr, facts: Facts) -> Iterator[ast.Name]:
    """The tensors of whose sizes an argument is made: `x` of `x.size(0)`, also under a name that the scope gave it."""
    for node in ast.walk(argument):
        match node:
            case ast.Attribute(value=ast.Name() as sized, attr="size" | "shape"):
                yield sized
            case ast.Name(ctx=ast.Load()):
                for value in facts.model.assigned_values(node):
                    match value:
                        case (
                            ast.Call(func=ast.Attribute(value=ast.Name() as sized, attr="size"))
                            | ast.Subscript(value=ast.Attribute(value=ast.Name() as sized, attr="shape"))
                        ):
                            yield sized


def names_device(node: cst.Call, facts: Facts) -> bool:
    """Whether a move is told a device, rather than a tensor of which no more is known than that it is one."""
    given = next((a.value for a in node.args if a.keyword is None or a.keyword.value == "device"), None)
    return given is None or _is_device(given, facts) or all(v.is_tensor for _, v in facts.value(given).alternatives())


def _is_tensor(node: cst.BaseExpression, facts: Facts) -> bool:
    """Whether an argument is a tensor: known to be one, or an input of `forward` that isn't called a device or a type."""
    found = facts.node(node)
    if found is None:
        return False
    options = [v for _, v in facts.value(node).alternatives()]
    if all(v.is_tensor for v in options):
        return True
    root = found.value if isinstance(found, ast.Subscript) else found
    scope = facts.scope
    if scope is None or scope.name != "forward" or not isinstance(root, ast.Name):
        return False
    return root.id in [a.arg for a in scope.parameters[1:]] and not re.search(r"dev|type|dtype", root.id)


def _is_device(node: cst.BaseExpression, facts: Facts) -> bool:
    """Whether an argument surely is a device, and not the host alone."""
    found = facts.node(node)
    options = [v for _, v in facts.value(node).alternatives()]
    if any(v.is_tensor or v.kind is Kind.BATCH for v in options):
        # It says of what type the result is, too.
        return False
    places = [place_of_device(v, found) for v in options]
    return all(p is not None for p in places) and any(p is not None and p[0] != HOST for p in places)


# They make the same of a type that they are told as of one that their result is changed to.
_TYPED = frozenset(
    {"torch.zeros", "torch.ones", "torch.eye", "torch.empty", "torch.empty_strided", "torch.empty_permuted"}
)
# So does `arange`, of types that it counts in without a loss.
_COUNTED_IN = frozenset(
    f"torch.{name}" for name in ("float", "float32", "double", "float64", "int", "int32", "long", "int64")
)


def takes_type(name: str, node: cst.Call, move: Move, facts: Facts) -> bool:
    """Whether a factory makes the type itself that the move changes its result to: `dtype=` beside `device=`."""
    if any(a.keyword is not None and a.keyword.value == "dtype" for a in node.args):
        return False
    match move.rest:
        case (cst.Arg(keyword=None | cst.Name("dtype"), value=value),):
            counted = name == "torch.arange" and facts.qualified(value) in _COUNTED_IN
            return name in _TYPED or counted or (name == "torch.tensor" and _is_of_any_type(node))
    return False


# Types that `torch.tensor` reads data as just as it changes what it has read: others overflow, or lose what was read.
_READ_AS = frozenset({"float", "half", "bfloat16", "long", "bool"})
# Methods that change the type, and what to call that.
_CASTS = {
    "long": "long", "int": "int", "float": "float", "half": "half", "double": "double", "bool": "bool", "byte": "uint8",
    "bfloat16": "bfloat16",
}  # fmt: skip


def cast_around(making: ast.Call, moving: ast.Call, name: str, facts: Facts) -> tuple[ast.Call, str] | None:
    """(the call, the type) of the one `.long()` between a factory and its move, or right after that, which `dtype=` says as well.

    What only shapes the tensor may stand beside it.
    """
    prefix = ast.unparse(making.func).removesuffix(name.rpartition(".")[2])
    if prefix == "" or any(k.arg in ("dtype", None) for k in making.keywords):
        return None
    inner = moving.func.value if isinstance(moving.func, ast.Attribute) else moving
    above = [*islice(facts.model.ancestors(moving), 2)]
    outer = above[1] if inner is making and len(above) > 1 else _under_shaping(inner)
    match outer:
        case ast.Call(func=ast.Attribute(value=value, attr=cast), args=[], keywords=[]) if cast in _CASTS:
            is_next = value is moving or _under_shaping(value) is making
        case ast.Call(
            func=ast.Attribute(value=value, attr="to" | "type"), args=[ast.Attribute(attr="dtype") as told], keywords=[]
        ):
            # `.to(device).to(x.dtype)`, `.to(device).type(x.dtype)`
            fits = name in _TYPED and value in (making, moving)
            return (outer, ast.unparse(told)) if fits else None
        case _:
            return None
    counted = name == "torch.arange" and f"torch.{cast}" in _COUNTED_IN
    fits = name in _TYPED or counted or (name in OF_DATA and cast in _READ_AS)
    return (outer, f"{prefix}{_CASTS[cast]}") if is_next and fits else None


def _under_shaping(node: ast.expr) -> ast.expr:
    """What is only shaped by the last calls of a chain: `torch.ones(n)` of `torch.ones(n).view(1, -1)`."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in SHAPING
        and not any("dtype" in ast.unparse(k) or "torch." in ast.unparse(k) for k in (*node.args, *node.keywords))
    ):
        node = node.func.value
    return node


# Their results are of the default type, which is float32 where nobody sets another.
_OF_DEFAULT_TYPE = frozenset({"torch.zeros", "torch.ones", "torch.eye", "torch.empty"})


def makes_floats(name: str, dtype: str, facts: Facts) -> bool:
    """Whether a factory makes what `.float()` made of its result without being told: a project sets no other default type."""
    return name in _OF_DEFAULT_TYPE and dtype.endswith(".float") and makes_float32(facts)


def makes_float32(facts: Facts) -> bool:
    """Whether what is made without a type is of float32: neither a file nor its project sets another default."""
    return "set_default_" not in facts.text.text and not facts.model.texts_match(
        r"\bset_default_(?:dtype|tensor_type)\b", elsewhere=True
    )


def _is_of_any_type(node: cst.Call) -> bool:
    """Whether `torch.tensor` is given one number that every type holds, or cuts as a change of type does."""
    match node.args:
        case [cst.Arg(keyword=None, value=cst.Integer() | cst.Float() as number), *_]:
            return float(number.evaluated_value) <= 127
    return False


def code_of(node: cst.CSTNode) -> str:
    """A node's text, as it stands."""
    return cst.Module([]).code_for_node(node)


def made_there(node: cst.Call, device: cst.BaseExpression) -> cst.Call:
    """A factory's call with `device=`."""
    argument = cst.Arg(
        device, keyword=cst.Name("device"), equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    )
    return with_argument(node, argument)


def with_argument(node: cst.Call, argument: cst.Arg) -> cst.Call:
    """A call with one more argument, laid out like the others."""
    if not node.args:
        return node.with_changes(args=[argument])
    last = node.args[-1]
    if isinstance(last.comma, cst.Comma):
        # One argument a line, the last with a comma too.
        between = cst.Comma(whitespace_after=node.whitespace_before_args)
        argument = argument.with_changes(comma=last.comma)
        return node.with_changes(args=[*node.args[:-1], last.with_changes(comma=between), argument])
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return node.with_changes(args=[*node.args[:-1], last.with_changes(comma=comma), argument])
