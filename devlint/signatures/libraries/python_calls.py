"""Python's own functions, NumPy, and what wants its arguments on the host."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial

from devlint.knowledge import ecosystem
from devlint.signatures.state import containers
from devlint.signatures.state.frame import EVERY, Call
from devlint.signatures.state.objects import COMPUTED, attribute, store_attribute
from devlint.signatures.values.conditions import TRUE
from devlint.signatures.values.values import (
    A_NUMBER,
    ARRAY,
    CONSTANT,
    DICT,
    FUNCTION,
    GATHERED,
    HOST,
    LIST,
    NAMESPACE,
    NEVER,
    NONE,
    NOTHING,
    NUMBER,
    OBJECT,
    OUTCOME,
    SUPER,
    TENSOR,
    TUPLE,
    UNKNOWN,
    Place,
    Value,
    constant,
    leaves,
    mapped,
)
from devlint.source.modules import last_name

Meaning = Callable[[Call], Value]


def meaning(name: str) -> Meaning | None:
    """What calls of Python's, NumPy's and such names do; None where nothing is known."""
    plain = name.removeprefix("builtins.")
    if plain in SPECIAL:
        return SPECIAL[plain]
    if name in ecosystem.PASSING_ITERATORS or plain in ecosystem.PASSING_ITERATORS:
        return _first
    if name.startswith("numpy."):
        return partial(_numpy, name=name)
    if name.startswith(_HOST_PACKAGES) or name in _HOST_WRITERS:
        return partial(_hosted, name=name)
    if name.startswith(_IMAGE_PACKAGES):
        return _image
    if name.startswith(("math.", "os.", "time.", "logging.", "random.", "sys.", "json.", "re.", "argparse.")):
        return _math if name.startswith("math.") else None
    return None


# Packages whose functions turn tensors into arrays.
_HOST_PACKAGES = ("scipy.", "sklearn.", "cv2.", "matplotlib.", "pandas.", "seaborn.")
# Packages that refuse tensors wherever they are, or say so themselves.
_IMAGE_PACKAGES = ("PIL.", "skimage.")
# Functions that write what is in the host's memory: by an array, or ("Input tensor has to be on CPU.") as it stands there.
_HOST_WRITERS = frozenset(
    {"torchaudio.save", "soundfile.write", "imageio.imwrite", "imageio.imsave", "imageio.mimsave", "imageio.mimwrite",
     "imageio.v2.imwrite", "imageio.v2.imsave", "imageio.v2.mimsave", "imageio.v2.mimwrite", "imageio.v3.imwrite"}
)  # fmt: skip
# Those that hand over to the tensor's own method or attribute, and don't ask for an array: found by running them.
_HARMLESS = frozenset(
    {
        "numpy.prod",
        "numpy.isscalar",
        "numpy.ndim",
        "numpy.shape",
        "numpy.random.seed",
        "numpy.product",
        "numpy.size",
        "scipy.sparse.issparse",
        "scipy.sparse.isspmatrix",
    }
)
# They ask for a Python number first, which a tensor with one element has, wherever it is.
_FLOATS = frozenset({"numpy.float64", "numpy.double", "numpy.float_"})
_HANDED_OVER = frozenset({"numpy.nonzero", "numpy.real", "numpy.squeeze", "numpy.take_along_axis"})


def _numpy(call: Call, name: str) -> Value:
    if name in _HANDED_OVER and call.given and call.given[0][1].kind in (TENSOR, UNKNOWN):
        # A tensor stays one, at its place.
        return mapped(call.given[0][1], _same_tensor, call.frame.atoms)
    if name in _FLOATS:
        return A_NUMBER
    if name not in _HARMLESS:
        _on_the_host(call, name)
    if name in ("numpy.prod", "numpy.isscalar", "numpy.random.rand", "numpy.random.uniform", "numpy.random.randint"):
        return A_NUMBER
    return Value(ARRAY, HOST)


def _same_tensor(value: Value) -> Value:
    """A tensor where another one is."""
    if value.kind is not TENSOR:
        return NOTHING
    return Value(TENSOR, value.place, likely=value.likely, step=value.step)


def _hosted(call: Call, name: str) -> Value:
    if name not in _HARMLESS:
        _on_the_host(call, name)
    return NOTHING


def plotted(call: Call, name: str) -> Value:
    """A method of Matplotlib's axes that makes arrays of what it is given by position."""
    for node, value in call.given:
        _wants_host(call, f"matplotlib.axes.Axes.{name}", node, value, likely=True)
    return NOTHING


# The methods that fail with a tensor on an accelerator, found by running those of Matplotlib 3.10 under virtual CUDA.
PLOTTING = frozenset(
    {"plot", "scatter", "bar", "barh", "hist", "hist2d", "imshow", "matshow", "pcolormesh", "pcolor", "contour", "contourf",
     "fill", "fill_between", "fill_betweenx", "errorbar", "step", "stem", "semilogx", "semilogy", "loglog", "boxplot",
     "violinplot", "quiver", "pie", "stackplot", "eventplot", "hexbin", "streamplot", "vlines", "hlines", "axhline", "axvline",
     "axvspan", "set_xlim", "set_ylim", "set_xticks", "ecdf", "stairs", "specgram", "psd", "spy"}
)  # fmt: skip


def _image(call: Call) -> Value:
    return NOTHING


# Keywords for plain numbers: a tensor with one element hands over its own, wherever it is.
_NUMBERS = frozenset({"size", "shape", "axis", "num", "k"})


def _on_the_host(call: Call, name: str) -> None:
    # What `scipy.optimize` and its like hand on to the function that they are given.
    handed_on = call.keywords.get("args") if name.startswith("scipy.") else None
    # What is written comes first or second; a rate behind it is a number.
    given = [*call.given[:2]] if name in _HOST_WRITERS else call.everything()
    numbers = [v for k, v in call.keywords.items() if k in _NUMBERS]
    for node, value in given:
        if (node, value) == handed_on or (node, value) in numbers:
            continue
        _wants_host(call, name, node, value)


def _wants_host(call: Call, name: str, node: ast.expr, value: Value, *, likely: bool = False) -> None:
    """Notes that a call makes an array of what it is given, or of the tensors in it."""
    if value.kind in (LIST, TUPLE):
        contents = containers.contents_of(call.frame, value)
        value = Value(TUPLE, parts=(containers.all_parts(contents, call.frame),)) if contents is not None else value
    if any(option.kind in ("tensor", UNKNOWN, "batch") for _, option in leaves(value, call.frame.atoms)):
        call.frame.need("host", call.node, name, (node, value), guarded=likely)


def _math(call: Call) -> Value:
    return A_NUMBER


def _first(call: Call) -> Value:
    return call.given[0][1] if call.given else NOTHING


def _absolute(call: Call) -> Value:
    """It is where what it is of is, and another number."""
    return mapped(_first(call), lambda option: option.but(path=None), call.frame.atoms)


def _number(call: Call) -> Value:
    return A_NUMBER


def _range(call: Call) -> Value:
    given = call.positional_values
    if len(given) == 1 and given[0].kind is CONSTANT and isinstance(given[0].data, int):
        return Value("range", data=max(given[0].data, 0))
    return A_NUMBER


def _listed(call: Call, kind: str) -> Value:
    if not call.given:
        empty = Value(containers.ITEMS, data=()) if kind is DICT else Value(TUPLE)
        return containers.made(call.frame, kind, empty, call.node) if kind is not TUPLE else Value(TUPLE)
    given = call.given[0][1]
    if kind is TUPLE and given.kind is TUPLE:
        return given

    def plain(option: Value) -> Value:
        contents = containers.contents_of(call.frame, option)
        if contents is None or contents.kind not in (TUPLE, containers.EACH) or option.kind is DICT:
            contents = Value(containers.EACH, parts=(containers.element(call.frame, option),))
        if kind is TUPLE:
            return contents if contents.kind is TUPLE else containers.made(call.frame, LIST, contents, call.node)
        return containers.made(call.frame, LIST, contents, call.node)

    return mapped(given, plain, call.frame.atoms)


def _dict(call: Call) -> Value:
    frame = call.frame
    table: dict[object, Value] | None = {}
    for _, value in call.given:
        contents = containers.contents_of(frame, value)
        if contents is not None and contents.kind is containers.ITEMS and table is not None:
            table |= dict(zip(contents.data, contents.parts, strict=True))
        else:
            table = None
    if table is None or call.open_ended:
        return containers.made(frame, DICT, Value(containers.EACH, parts=(NOTHING,)), call.node)
    table |= {name: value for name, (_, value) in call.keywords.items()}
    return containers.made(
        frame, DICT, Value(containers.ITEMS, data=tuple(table), parts=tuple(table.values())), call.node
    )


def _enumerate(call: Call) -> Value:
    frame = call.frame
    given = call.given[0][1] if call.given else NOTHING
    contents = containers.contents_of(frame, given)
    if contents is not None and contents.kind is TUPLE and len(contents.parts) <= containers.MAX_UNROLLED:
        parts = tuple(Value(TUPLE, parts=(constant(i), p)) for i, p in enumerate(contents.parts))
        return containers.made(frame, LIST, Value(TUPLE, parts=parts), call.node)
    each = containers.element(frame, given)
    return containers.made(
        frame,
        LIST,
        Value(containers.EACH, parts=(Value(TUPLE, parts=(A_NUMBER, NOTHING if each is NEVER else each)),)),
        call.node,
    )


def _zip(call: Call) -> Value:
    frame = call.frame
    held = [containers.contents_of(frame, v) for _, v in call.given]
    if held and all(c is not None and c.kind is TUPLE for c in held):
        rows = zip(*(c.parts for c in held if c is not None), strict=False)
        parts = tuple(Value(TUPLE, parts=tuple(row)) for row in rows)
        if len(parts) <= containers.MAX_UNROLLED:
            return containers.made(frame, LIST, Value(TUPLE, parts=parts), call.node)
    each = tuple(containers.element(frame, v) for _, v in call.given)
    return containers.made(
        frame,
        LIST,
        Value(containers.EACH, parts=(Value(TUPLE, parts=tuple(NOTHING if e is NEVER else e for e in each)),)),
        call.node,
    )


def _next(call: Call) -> Value:
    return containers.element(call.frame, call.given[0][1]) if call.given else NOTHING


def _getattr(call: Call) -> Value:
    owner, name = call.argument(0), call.argument(1)
    if owner is None or name is None or name.kind is not CONSTANT or not isinstance(name.data, str):
        return NOTHING
    found = attribute(call.frame, owner, name.data)
    if len(call.given) > 2:
        # It may lack it.
        return NOTHING if found.kind in (UNKNOWN,) else found
    return found


def _setattr(call: Call) -> Value:
    owner, name, value = call.argument(0), call.argument(1), call.argument(2)
    if owner is None or value is None or name is None:
        return NONE
    if name.kind is CONSTANT and isinstance(name.data, str):
        store_attribute(call.frame, owner, name.data, value)
    elif all(held != NOTHING for _, held in call.frame.env.get((owner.identity, EVERY), NOTHING).options()):
        # In a loop over `vars(owner)`: names that nobody knows make nothing of each attribute.
        call.frame.put(owner, EVERY, value)
    else:
        for key in [k for k in call.frame.env if isinstance(k, tuple) and k[0] == owner.identity]:
            call.frame.env[key] = NOTHING
        call.frame.displace(owner, 0)
        if isinstance(owner.identity, tuple):
            # Whoever calls this finds all its attributes changed.
            call.frame.env[owner.identity, EVERY] = NOTHING
        call.frame.lose_batch(owner)
    return NONE


def _namespace(call: Call) -> Value:
    """`types.SimpleNamespace(name=value)`: an object that holds what it was given."""
    if call.given or call.open_ended:
        return NOTHING
    cell = call.frame.new_cell(call.node)
    for name, (_, value) in call.keywords.items():
        call.frame.env[cell, f".{name}"] = value
    return Value(OBJECT, data=NAMESPACE, cell=cell)


def _vars(call: Call) -> Value:
    """`vars(self)`, of an input: each of its attributes, whichever it is; of a namespace, those that it was given."""
    owner = call.argument(0)
    if owner is not None and owner.kind is OBJECT and owner.data == NAMESPACE:
        env = call.frame.env
        held = {k[1][1:]: v for k, v in env.items() if isinstance(k, tuple) and k[0] is owner.cell}
        contents = Value(containers.ITEMS, data=tuple(held), parts=tuple(held.values()))
        return containers.made(call.frame, DICT, contents, call.node)
    if owner is None or owner.path is None or not isinstance(owner.identity, tuple):
        return NOTHING
    path = (*owner.path, EVERY)
    every = Value(UNKNOWN, Place("input", path), path=path)
    call.frame.env.setdefault((owner.identity, EVERY), every)
    return containers.made(call.frame, DICT, Value(containers.EACH, parts=(every,)), call.node)


def _super(call: Call) -> Value:
    frame = call.frame
    cls = frame.reader.class_around(frame)
    me = frame.reader.self_of(frame)
    if cls is None or me is None:
        return NOTHING
    return Value(SUPER, data=cls, parts=(me,))


def _partial(call: Call) -> Value:
    if not call.given:
        return NOTHING
    inner = call.given[0][1]
    return Value(
        "partial",
        data=tuple(call.keywords),
        parts=(inner, *call.positional_values[1:], *(v for _, v in call.keywords.values())),
    )


def _map(call: Call) -> Value:
    frame = call.frame
    if len(call.given) < 2:
        return NOTHING
    contents = containers.contents_of(frame, call.given[1][1])
    mapped_call = call.given[0][1]
    if mapped_call.kind is FUNCTION and contents is not None and contents.kind is TUPLE and len(call.given) == 2:
        results = tuple(frame.reader.call_with(call, mapped_call, [part]) for part in contents.parts)
        return containers.made(frame, LIST, Value(TUPLE, parts=results), call.node)
    each = [containers.element(frame, v) for _, v in call.given[1:]]
    result = frame.reader.call_with(call, mapped_call, [NOTHING if e is NEVER else e for e in each])
    return containers.made(frame, LIST, Value(containers.EACH, parts=(result,)), call.node)


def _bool(call: Call) -> Value:
    if not call.given:
        return constant(False)
    told = frame_truth(call)
    return told


def frame_truth(call: Call) -> Value:
    condition = call.frame.reader.truth(call.frame, call.given[0][1])
    if condition == TRUE:
        return constant(True)
    return Value(OUTCOME, data=condition) if condition else constant(False)


def _text(call: Call) -> Value:
    given = call.given[0][1] if call.given else NOTHING
    return given.but(tags=frozenset()) if given.kind in ("device", "device type") else Value(NUMBER)


def _sum(call: Call) -> Value:
    """`sum(tensors)`."""
    frame = call.frame
    given = call.given[0][1] if call.given else NOTHING
    contents = containers.contents_of(frame, given)
    if contents is not None and contents.kind is TUPLE and 0 < len(contents.parts) <= 8:
        frame.need("operation", call.node, "sum", *((call.given[0][0], part) for part in contents.parts))
        return frame.reader.together(frame, call.node, *contents.parts[:4])
    each = containers.element(frame, given)
    return mapped(
        each,
        lambda v: (
            v.but(path=None, tags=v.tags & {GATHERED, *COMPUTED})
            if v.kind == "tensor" or GATHERED in v.tags
            else A_NUMBER
            if v.kind is NUMBER
            else NOTHING
        ),
        frame.atoms,
    )


def _extreme(call: Call) -> Value:
    """`max(a, b)`, `max(items)`: one of them, which are compared with each other."""
    kinds = {v.kind for v in call.positional_values}
    if kinds <= {NUMBER, CONSTANT, "count"}:
        return A_NUMBER
    if call.open_ended:
        return NOTHING
    if len(call.given) == 1:
        contents = containers.contents_of(call.frame, call.given[0][1])
        parts = contents.parts if contents is not None and contents.kind is TUPLE else ()
        pairs = [(call.given[0][0], part) for part in parts]
    else:
        pairs = call.given
    if "key" in call.keywords:
        return containers.any_of([v for _, v in pairs], call.frame) if pairs else NOTHING
    if not 1 < len(pairs) <= 8 or any(v.kind is not TENSOR for _, v in pairs):
        return NOTHING
    call.frame.need("operation", call.node, last_name(call.node.func), *pairs)
    return containers.any_of([v for _, v in pairs], call.frame)


def _reduce(call: Call) -> Value:
    """`functools.reduce(f, items)`: what `f` gives of two of them, and of that and another."""
    if len(call.given) < 2:
        return NOTHING
    frame, function, start = call.frame, call.given[0][1], call.argument(2, "initial")
    contents = containers.contents_of(frame, call.given[1][1])
    if contents is not None and contents.kind is TUPLE and len(contents.parts) <= 8:
        first, *rest = (*([] if start is None else [start]), *contents.parts) or (NOTHING,)
    else:
        each = containers.element(frame, call.given[1][1])
        first, rest = each if start is None else start, [each]
    for item in rest:
        first = frame.reader.call_with(call, function, [first, NOTHING if item is NEVER else item])
    return NOTHING if first is NEVER else first


def _sorted(call: Call) -> Value:
    """A list, which is on no device, of what somebody gives."""
    parts = containers.element(call.frame, call.given[0][1]) if call.given else NOTHING
    return containers.made(call.frame, LIST, Value(containers.EACH, parts=(parts,)), call.node)


def _copied(call: Call) -> Value:
    """`copy.deepcopy(x)`: another thing at the same place."""
    return call.frame.reader.copied(call.frame, call.given[0][1], call.node) if call.given else NOTHING


def _len(call: Call) -> Value:
    return containers.length_of(call.frame, call.given[0][1] if call.given else NOTHING)


SPECIAL: dict[str, Meaning] = {
    **dict.fromkeys(("int", "float", "round", "ord", "hash", "id", "divmod", "pow"), _number),
    "len": _len,
    "sorted": _sorted,
    "range": _range,
    "list": partial(_listed, kind=LIST),
    "tuple": partial(_listed, kind=TUPLE),
    "set": partial(_listed, kind=LIST),
    "frozenset": partial(_listed, kind=LIST),
    "collections.deque": partial(_listed, kind=LIST),
    "dict": _dict,
    "collections.OrderedDict": _dict,
    "enumerate": _enumerate,
    "zip": _zip,
    "next": _next,
    "getattr": _getattr,
    "setattr": _setattr,
    "super": _super,
    "functools.partial": _partial,
    "functools.reduce": _reduce,
    "map": _map,
    "bool": _bool,
    "str": _text,
    "sum": _sum,
    "min": _extreme,
    "max": _extreme,
    "abs": _absolute,
    "print": lambda call: NONE,
    "copy.deepcopy": _copied,
    "copy.copy": _copied,
    "isinstance": lambda call: NOTHING,
    "vars": _vars,
    "types.SimpleNamespace": _namespace,
}
