"""Waits that are waits: points where the host waits for what is on an accelerator, as far as the signatures tell."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from devlint.regexes import regex
from devlint.signatures.answers.attributes import is_cpu, may_be_host_device
from devlint.signatures.answers.hosted import is_kept_on_host, must_be_on_host, says_host
from devlint.signatures.answers.off_host import is_known_tensor, is_off_host, on_accelerator, treats_as_movable
from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.frame import Frame
from devlint.signatures.state.outcome import Wait
from devlint.signatures.state.waits import COPY, DECIDE, FLUSH, MADE, RACE, READ, SIZE, SOLVED, STAGED, TEXT
from devlint.signatures.values.values import (
    ARRAY,
    BATCH,
    CONSTANT,
    HOST,
    LIST,
    NUMBER,
    TENSOR,
    TUPLE,
    UNKNOWN,
    Step,
    Value,
    leaves,
    steps_to,
)
from devlint.source.devices import TARGETS, is_device_name
from devlint.source.masks import is_mask
from devlint.source.modules import FunctionModel, SourceModule, dotted
from devlint.source.trees import calls_in


@dataclass(frozen=True)
class Stall:
    """A point where the host waits for an accelerator, or is likely to."""

    sense: str
    node: ast.expr | ast.stmt
    name: str
    # What is waited for, or uploaded.
    asked: ast.expr
    value: Value
    function: FunctionModel
    certain: bool
    # Of a copy that races: where it is read.
    use: ast.expr | None = None
    # Nothing in the function itself says that what is waited for may be on an accelerator.
    supposed: bool = False
    # The parameters that have to be tensors for it: whoever gives numbers doesn't wait.
    of_tensors: frozenset[str] = frozenset()
    # On another way the function brings it to the host itself.
    also_on_host: bool = False

    @property
    def trail(self) -> tuple[Step, ...]:
        return steps_to(self.value.step)


def stalls(reader: Reader, source: SourceModule) -> list[Stall]:
    """The stalls of the functions of a file, which were read; of each node and sense the surest one."""
    found: dict[tuple[ast.AST, str], Stall] = {}
    for frame in reader.frames_in(source):
        if frame.function is None:
            continue
        for wait in frame.waits:
            stall = _judged(reader, frame, wait)
            if stall is None:
                continue
            key = (stall.node, stall.sense)
            known = found.get(key)
            if known is None or (stall.certain and not known.certain):
                found[key] = stall
    return list(found.values())


def _judged(reader: Reader, frame: Frame, wait: Wait) -> Stall | None:
    atoms = reader.atoms
    if not wait.path or atoms.with_host(wait.path):
        return None
    assert frame.function is not None
    judge = _JUDGES.get(wait.sense)
    told = judge(reader, frame, wait) if judge is not None else None
    if told is None:
        return None
    value, certain = told
    if must_be_on_host(frame, value.place, wait.path):
        return None
    certain = certain and not wait.supposed and not value.likely
    supposed = value.kind is UNKNOWN and not is_known_tensor(frame, value) and not treats_as_movable(frame)
    use = _read_before_waiting(frame.function.node, wait.node) if wait.sense == RACE else None
    if wait.sense == RACE and use is None:
        return None
    return Stall(
        wait.sense,
        wait.node,
        wait.name,
        wait.asked,
        value,
        frame.function,
        certain,
        use,
        supposed and wait.sense != FLUSH,
        _have_to_be_tensors(frame, wait),
        any(_is_brought_to_host(option) for _, option in leaves(wait.value, atoms)),
    )


def _is_brought_to_host(option: Value) -> bool:
    """Whether something is on the host because the code says so: `x.to("cpu")`."""
    return (
        option.kind in (TENSOR, BATCH, UNKNOWN) and option.place == HOST and any(s.told for s in steps_to(option.step))
    )


def _have_to_be_tensors(frame: Frame, wait: Wait) -> frozenset[str]:
    """The parameters that a function asks to be tensors wherever what a wait is for may be on an accelerator."""
    atoms = frame.atoms
    ways = [
        clause
        for condition, option in leaves(wait.value, atoms)
        if is_off_host(frame, wait.asked, option, surely_tensor=True) is not None
        for clause in atoms.both(wait.path, condition)
    ]
    asked = [frozenset(name for x in clause if x > 0 and (name := _asked_tensor(atoms.atom(x).key))) for clause in ways]
    return frozenset.intersection(*asked) if asked else frozenset()


def _asked_tensor(key: object) -> str:
    """The parameter that a test asks to be a tensor; "" for other tests."""
    match key:
        case ("isinstance", (str() as name,), (Value(data="torch.Tensor"),)):
            return name
    return ""


# -- what each sense asks ----------------------------------------------------------------------------------------------


# Names of sizes and counts.
_COUNT = regex(r"(?:\w{1,60}_)?(?:batch_size|bsz?|size|count)|(?:num|n)_\w{1,60}")


def _is_count(frame: Frame, node: ast.expr) -> bool:
    """Whether something is an item of a dict under the name of a size: those are plain numbers among tensors."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=str() as name)) | ast.Name(id=name):
            return _COUNT.fullmatch(name) is not None and _is_looked_up(frame, node)
    return False


# What only numbers are called, whatever an annotation says.
_SIZE_OF_STEP = regex(r"(?:\w{1,60}_)?(?:chunk|channel|batch|window|hop|kernel)_size")


def _counts_by_name(node: ast.expr) -> bool:
    """Whether something is computed of what is called the size of a chunk, and of no tensor's part."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    functions = {id(n.func) for n in calls_in(node)}
    values = [n.id for n in names if id(n) not in functions and n.id not in ("self", "math")]
    return (
        bool(values)
        and any(map(_SIZE_OF_STEP.fullmatch, values))
        and not any(isinstance(n, ast.Subscript) for n in ast.walk(node))
    )


def _read(reader: Reader, frame: Frame, wait: Wait) -> tuple[Value, bool] | None:
    if (_is_count(frame, wait.asked) or _counts_by_name(wait.asked)) and not wait.value.place.off_host:
        return None
    if _is_kept_by_others(reader, frame, wait):
        return None
    sure = wait.name == "item" or (
        _looks_like_tensor(frame, wait.asked) if wait.name == "tolist" else _is_reduced(frame, wait.asked)
    )
    told = on_accelerator(frame, wait.asked, wait.value, surely_tensor=sure)
    # Whoever counts up to something has a number, unless more than its arithmetic says otherwise.
    return None if told is not None and wait.name == "range" and told[0].kind is UNKNOWN and not sure else told


def _is_kept_by_others(reader: Reader, frame: Frame, wait: Wait) -> bool:
    """`cache.length.item()`, where the project makes `length_data = torch.zeros(4, device="cpu")`: the cache's lengths are views of that."""
    match wait.asked:
        case ast.Attribute(attr=name) if wait.name == "item" and not wait.value.place.off_host and len(name) > _SHORT:
            made = _MADE_FOR_HOST.format(re.escape(name))
            return reader.project_uses(frame.source, made) or re.search(made, frame.source.text) is not None
    return False


# Attributes with names of fewer letters are of many things.
_SHORT = 6
_MADE_FOR_HOST = (
    r"\b{}\w{{0,12}} = torch\.\w{{1,12}}\((?:[^()]|\([^()]{{0,60}}\)){{0,160}}?device=(?:torch\.device\()?[\"']cpu[\"']"
)


# Methods of tensors and of arrays, and of nothing else.
_REDUCTIONS = frozenset(
    {"max", "min", "sum", "mean", "norm", "argmax", "argmin", "amax", "amin", "prod", "any", "all", "nonzero"}
)


def _is_reduced(frame: Frame, node: ast.expr, back: int = 2) -> bool:
    """Whether an expression is computed by a method that only tensors and arrays have, and nothing says array."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            if name in ("cumsum", "squeeze", "long", "to", "detach", "float", "int"):
                return _is_reduced(frame, owner, back)
            return name in _REDUCTIONS and not _says_array(frame, owner)
        case ast.Name(id=name) if back and frame.function is not None:
            given = frame.function.assigned.get(name, ())
            return bool(given) and all(_is_reduced(frame, v, back - 1) for v in given)
    return False


def _says_array(frame: Frame, node: ast.expr, back: int = 2) -> bool:
    """Whether something is NumPy's, or a module's own function: `np.max(x)`, `df.max()`."""
    text = ast.unparse(node)
    if says_host(node) or re.search(r"\b(?:np|numpy|pd|df|math|random|jnp|cp)\b|_np\b|numpy\(", text):
        return True
    root = node
    while isinstance(root, (ast.Attribute, ast.Subscript, ast.Call)):
        root = root.func if isinstance(root, ast.Call) else root.value
    text = frame.function.text if frame.function is not None else ""
    if isinstance(root, ast.Name) and re.search(rf"isinstance\(\s*{root.id}\s*,[^)]{{0,60}}ndarray", text):
        return True
    if isinstance(root, ast.Name) and back and frame.function is not None:
        given = frame.function.assigned.get(root.id, ())
        return any(_says_array(frame, v, back - 1) for v in given if v is not node)
    return False


def _looks_like_tensor(frame: Frame, node: ast.expr, back: int = 2) -> bool:
    """Whether an expression, or what a name was assigned, does what only tensors take."""
    text = ast.unparse(node)
    if "np." in text or "numpy" in text:
        return False
    if "torch." in text or re.search(
        r"\.(?:detach|argmax|topk|cumsum|softmax|masked_select|index_select|cuda)\b", text
    ):
        return True
    if isinstance(node, ast.Name) and back and frame.function is not None:
        given = frame.function.assigned.get(node.id, ())
        return any(_looks_like_tensor(frame, v, back - 1) for v in given)
    return False


def _copy(reader: Reader, frame: Frame, wait: Wait) -> tuple[Value, bool] | None:
    if wait.name == "numpy" and not any(o.place.off_host for _, o in leaves(wait.value, frame.atoms)):
        # An accelerator's tensor has no `.numpy()`: it is on the host.
        return None
    return on_accelerator(frame, wait.asked, wait.value, surely_tensor=wait.name == "cpu")


def _text(reader: Reader, frame: Frame, wait: Wait) -> tuple[Value, bool] | None:
    return on_accelerator(frame, wait.asked, wait.value)


# What answers with a tensor, asked of tensors and of arrays alone.
_ANSWERS = frozenset(
    {"any", "all", "isnan", "isinf", "isfinite", "eq", "ne", "gt", "ge", "lt", "le", "logical_and", "logical_or"}
)


def _answers(frame: Frame, node: ast.expr) -> bool:
    """Whether an expression is the answer of a tensor: `x.isfinite()`, `mask.any()`, `(x > 0).all()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _ANSWERS:
            text = ast.unparse(owner)
            return "np." not in text and "numpy" not in text and text not in ("np", "math", "pd", "df", "jnp")
        case ast.Compare(left=left):
            return isinstance(left, ast.Call) and isinstance(left.func, ast.Attribute) and left.func.attr in (
                "max", "min", "sum", "norm", "abs", "argmax") and not left.args  # fmt: skip
    return False


def _decide(reader: Reader, frame: Frame, wait: Wait) -> tuple[Value, bool] | None:
    if _counts_by_name(wait.asked) and not wait.value.place.off_host:
        return None
    told = on_accelerator(frame, wait.asked, wait.value, surely_tensor=_answers(frame, wait.asked))
    if told is None or _answers(frame, wait.asked):
        return told
    # A flag out of a dict that holds tensors as well is more likely a flag.
    mixed = not told[0].place.off_host and any(o.kind is UNKNOWN for _, o in leaves(wait.value, frame.atoms))
    flag = mixed and _is_looked_up(frame, wait.asked)
    return None if flag or told[0].kind is not TENSOR else told


def _is_looked_up(frame: Frame, node: ast.expr, back: int = 1) -> bool:
    """Whether something is an item of a dict under a name: `data["no_grad"]`, `data["rows"] == 0`."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=str())):
            return True
        case ast.Compare(left=left):
            return _is_looked_up(frame, left, back)
        case ast.Name(id=name) if back and frame.function is not None:
            return any(_is_looked_up(frame, value, back - 1) for value in frame.function.assigned.get(name, ()))
    return False


def _size(reader: Reader, frame: Frame, wait: Wait) -> tuple[Value, bool] | None:
    if wait.name in ("[]", "[]="):
        if not _is_mask(frame, wait.asked):
            return None
        if wait.name == "[]=" and not any(o.kind is TENSOR for _, o in (wait.target or wait.value).options()):
            return None
        if all(o.place == HOST for _, o in leaves(wait.value, frame.atoms)):
            # The mask is counted on the host.
            return None
        for value in (wait.value, wait.target):
            told = on_accelerator(frame, wait.asked, value, surely_tensor=True) if value is not None else None
            if told is not None:
                return told
        return None
    # What is repeated may be told by a number.
    return on_accelerator(frame, wait.asked, wait.value, surely_tensor=wait.name != "repeat_interleave")


def _solved(reader: Reader, frame: Frame, wait: Wait) -> tuple[Value, bool] | None:
    return on_accelerator(frame, wait.asked, wait.value, surely_tensor=True)


def _is_mask(frame: Frame, node: ast.expr) -> bool:
    assigned = frame.function.assigned if frame.function is not None else {}
    return is_mask(node, lambda name: assigned.get(name.id, ()))


def _made(reader: Reader, frame: Frame, wait: Wait) -> tuple[Value, bool] | None:
    """What is uploaded comes from the host, and where it goes is an accelerator."""
    target = wait.target
    if target is None or not any(_may_be_off_host(frame, wait, o) for _, o in target.options()):
        return None
    into = _written_into(wait)
    if into is not None and (says_host(into) or _is_pinned(frame, into)):
        return None
    if wait.name == "index":
        return (target, False) if any(o.kind is TENSOR for _, o in target.options()) else None
    given = (
        frame.function.assigned.get(wait.asked.id, ()) if frame.function and isinstance(wait.asked, ast.Name) else ()
    )
    if _is_empty(wait.asked) or (given and all(map(_is_empty, given))):
        # Nothing is copied.
        return None
    for _, option in leaves(wait.value, frame.atoms, 0):
        if wait.name in ("to", "cuda", "copy_", "npu", "xpu", "hpu"):
            if (
                option.kind is TENSOR
                and option.place == HOST
                and _is_made_here(frame, option)
                and not _is_pinned(frame, wait.asked)
            ):
                return option, False
        elif option.kind in (NUMBER, CONSTANT, LIST, TUPLE, ARRAY, "count", "range"):
            return option, False
        elif option.kind is UNKNOWN and wait.name in ("torch.tensor", "new_tensor"):
            # What `torch.tensor` is given is hardly ever a tensor.
            return option, False
        elif option.kind is TENSOR and wait.name in ("torch.tensor",):
            return option, False
    return None


def _is_empty(node: ast.expr) -> bool:
    """`[]`, `torch.zeros(0, 4)`, `torch.empty((0,)).long()`."""
    match node:
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            return not elts
        case ast.Call(func=ast.Attribute(value=ast.Call() as owner)):
            return _is_empty(owner)
        case ast.Call(func=func, args=args) if dotted(func) in _SIZED:
            sizes = args[0].elts if args and isinstance(args[0], (ast.List, ast.Tuple)) else args
            return any(isinstance(size, ast.Constant) and size.value == 0 for size in sizes)
    return False


_SIZED = frozenset({"torch.zeros", "torch.ones", "torch.empty", "torch.rand", "torch.randn"})


def _written_into(wait: Wait) -> ast.expr | None:
    """What `x[[0, 2]]` takes from, and `x.copy_(y)` writes to."""
    match wait.node:
        case ast.Subscript(value=base) if wait.name == "index":
            return base
        case ast.Call(func=ast.Attribute(value=base)) if wait.name == "copy_":
            return base
    return None


def _may_be_off_host(frame: Frame, wait: Wait, option: Value) -> bool:
    """Whether a device, or where a tensor is, may well be an accelerator."""
    if option.place.off_host:
        return True
    if is_kept_on_host(frame, option):
        return False
    given = []
    if isinstance(wait.node, ast.Call):
        given = [*wait.node.args[:1], *(k.value for k in wait.node.keywords if k.arg in TARGETS)]
    if any(may_be_host_device(frame.reader.class_around(frame), node) for node in given):
        return False
    # Nobody knows which device; but it is called one.
    return option.place.is_open or (
        option.kind == "device" and option.place != HOST and any(is_device_name(node) for node in given)
    )


def _is_made_here(frame: Frame, value: Value) -> bool:
    """Whether the function at hand made it on the host itself."""
    assert frame.function is not None
    first = next(iter(steps_to(value.step)), None)
    if first is None or not first.message.startswith("created on cpu"):
        return False
    node = frame.function.node
    if first.path != frame.source.path or not node.lineno <= first.line <= (node.end_lineno or node.lineno):
        return False
    return not _names_another_device(frame.function, first.line)


def _names_another_device(function: FunctionModel, line: int) -> bool:
    """Whether what is made on a line is given a device that is the host on one of its ways only: `device=device_of(net)`."""
    return any(
        k.arg == "device" and not is_cpu(k.value) and not isinstance(k.value, ast.Constant)
        for n in function.nodes
        if isinstance(n, ast.Call) and n.lineno == line
        for k in n.keywords
    )


def _is_pinned(frame: Frame, node: ast.expr, back: int = 2) -> bool:
    text = ast.unparse(node)
    if "pin" in text:
        return True
    if isinstance(node, ast.Call) and any(
        k.arg is None and "kwargs" in ast.unparse(k.value).lower() for k in node.keywords
    ):
        # `torch.tensor(lengths, **ON_HOST_KWARGS)`: whether that pins isn't told.
        return True
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return _is_pinned(frame, node.value, back)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _is_pinned(frame, node.func.value, back)
    if isinstance(node, ast.Name) and back and frame.function is not None:
        return any(_is_pinned(frame, v, back - 1) for v in frame.function.assigned.get(node.id, ()))
    return False


def _staged(reader: Reader, frame: Frame, wait: Wait) -> tuple[Value, bool] | None:
    """`non_blocking=True` from memory that surely isn't pinned."""
    if _is_pinned(frame, wait.asked):
        return None
    if wait.name == "copy_ to the host":
        held = [o for _, o in wait.target.options()] if wait.target is not None else []
        receiver = (
            wait.node.func.value
            if isinstance(wait.node, ast.Call) and isinstance(wait.node.func, ast.Attribute)
            else None
        )
        if receiver is None or _is_pinned(frame, receiver) or not all(_is_made_here(frame, o) for o in held):
            return None
        return on_accelerator(frame, wait.asked, wait.value, surely_tensor=True)
    for _, option in leaves(wait.value, frame.atoms):
        if option.kind is TENSOR and option.place == HOST and _is_made_here(frame, option):
            target = wait.target
            if target is not None and any(o.place.off_host or o.place.is_open for _, o in target.options()):
                return option, False
    return None


# Calls after which a copy that was begun is there, or that somebody waits for by.
_WAITING = regex(r"(?i)\w{0,60}(?:sync|wait|query|join|result|barrier)\w{0,60}")
_READING = frozenset({"numpy", "tolist", "item", "__array__"})
_READERS = frozenset(
    {"int", "float", "bool", "list", "print", "len_never", "str", "any", "all", "min", "max", "sum", "asarray", "array"}
)


def _race(reader: Reader, frame: Frame, wait: Wait) -> tuple[Value, bool] | None:
    told = on_accelerator(frame, wait.asked, wait.value, surely_tensor=True)
    return told if told is not None else None


def _read_before_waiting(function: ast.AST, copy: ast.AST) -> ast.expr | None:
    """The first reading on the host of a copy that was begun, where nothing waits for it in between."""
    name = ""
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=value, attr=attr) if value is copy and attr in _READING:
                return node
            case ast.Call(func=ast.Name(id=reading) | ast.Attribute(attr=reading), args=[first, *_]) if (
                first is copy and reading in _READERS
            ):
                return node
            case ast.Assign(targets=[ast.Name(id=bound)], value=value) if value is copy:
                name = bound
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=bound), attr="copy_")) as call) if (
                call is copy
            ):
                name = bound
    if not name:
        return None
    end = (getattr(copy, "end_lineno", 0), getattr(copy, "end_col_offset", 0))
    later = [n for n in ast.walk(function) if isinstance(n, (ast.expr, ast.stmt)) and (n.lineno, n.col_offset) >= end]
    for node in sorted(later, key=lambda n: (n.lineno, n.col_offset)):
        match node:
            case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called)) if _WAITING.fullmatch(called):
                return None
            case ast.Name(id=other, ctx=ast.Store()) if other == name:
                return None
            case ast.Call(func=ast.Attribute(value=ast.Name(id=read), attr=attr)) if read == name and attr in _READING:
                return node
            case ast.Call(func=ast.Name(id=reading) | ast.Attribute(attr=reading), args=[ast.Name(id=read), *_]) if (
                read == name and reading in _READERS
            ):
                return node
    return None


def _flush(reader: Reader, frame: Frame, wait: Wait) -> tuple[Value, bool] | None:
    return wait.value, False


_JUDGES = {
    READ: _read,
    COPY: _copy,
    TEXT: _text,
    DECIDE: _decide,
    SIZE: _size,
    SOLVED: _solved,
    MADE: _made,
    STAGED: _staged,
    FLUSH: _flush,
    RACE: _race,
}
