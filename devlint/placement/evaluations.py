"""Hot loops that evaluate or predict: what waits there costs less than in training, and most of it has to come to the host."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from devlint.regexes import regex
from devlint.source.modules import last_name
from devlint.source.trees import own_nodes, walk

# What is called where something learns.
_LEARNS = regex(r"backward|train|optimi[sz]|(^|_)(update|learn|fit|attack)(_|$)", re.IGNORECASE)
# What keeps count of what happens, and learns nothing when it is told.
_COUNTING = regex(
    r"meter|metric|log|eval|bar$|progress|stat|acc|loss|dict|avg|average|track|monitor|histor|result|summary|time|count|score|conf|top_?\d|prec|err(?:or)?s?\b|^(?:mem|memory)$",
    re.IGNORECASE,
)
_STEPPING = regex(r"optim|scaler|engine|opt(_|$)", re.IGNORECASE)
# What is brought up to date, and has no weights.
_SETTING_UP = regex(r"(?:^|_)update_(?:\w{1,40}_)?(?:conf|cfg|setting|progress|stat|metric|bar|cache|mask|desc)")
# Functions that are named for it.
_EVALUATES = regex(
    r"eval|valid|(^|_)(val|test|testing|infer|inference|predict\w{0,40}|demo|visuali[sz]\w{0,40}|extract\w{0,40}|score|detect|track)(_|$)",
    re.IGNORECASE,
)
# What is evaluated on.
_HELD_OUT = regex(
    r"(?:^|[_.])(?:val|valid|validation|test|testing|eval|evaluation|dev)_?(?:data_?)?(?:loader|dl|iter|batches|set|queue)"
)
_GRAPHLESS = frozenset({"no_grad", "inference_mode"})


def is_evaluation(function_name: str) -> bool:
    """Whether a function evaluates or predicts, going by its name."""
    return _EVALUATES.search(function_name) is not None


def trains(loop: ast.AST) -> bool:
    """Whether something learns in a loop: it goes backward, steps an optimizer, or calls what is named for it."""
    for node in walk(loop):
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            owner = last_name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
            # `model.train()` after an evaluation trains nothing, `meter.update(...)` counts.
            counts = (name == "train" and owner != "") or (name == "update" and _counts(node))
            counts = counts or _SETTING_UP.search(name) is not None
            if (_LEARNS.search(name) and not counts) or (name == "step" and _STEPPING.search(owner)):
                return True
    return False


def _counts(update: ast.Call) -> bool:
    """`meter.update(x)`, `objs.update(loss.item(), n)`: what is brought up to date with a number that was read has no weights."""
    if _COUNTING.search(_owner_of(update)) is not None:
        return True
    return any(isinstance(a, ast.Call) and last_name(a.func) == "item" for a in update.args)


def _owner_of(call: ast.Call) -> str:
    """What a method is called of, in words: `self.meters["loss"]`."""
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def evaluates(loop: ast.AST, around: Iterable[ast.AST]) -> bool:
    """Whether a hot loop evaluates or predicts; `around` are the nodes that it stands in, innermost first.

    So it is where nothing learns in it, and it builds no graph, or its function is named so, or the model was told `eval()`, or it goes
    over what is held out, or writes a file in each pass.
    """
    outside = list(around)
    if _is_graphless(loop, outside):
        return True
    if trains(loop):
        return False
    if any(map(_builds_no_graph, walk(loop))) or _writes_each(loop):
        return True
    for parent in outside:
        if _builds_no_graph(parent):
            return True
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            name = "" if isinstance(parent, ast.Module) else parent.name
            return is_evaluation(name) or _was_told(parent, getattr(loop, "lineno", 0))
    return False


def _is_graphless(loop: ast.AST, around: Iterable[ast.AST]) -> bool:
    """Whether nothing can go backward in a loop, or does in one over what is held out, whatever is called in it."""
    if any(isinstance(n, ast.Call) and last_name(n.func) in _LEARNING for n in walk(loop)):
        return False
    if isinstance(loop, (ast.For, ast.AsyncFor)) and _HELD_OUT.search(ast.unparse(loop.iter)):
        return True
    for parent in around:
        if _builds_no_graph(parent):
            return True
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
    return False


# What writes a file of what was computed.
_WRITING = frozenset(
    {"save", "savez", "savez_compressed", "savetxt", "savemat", "imwrite", "imsave", "save_image", "write_video", "write_png"}
)  # fmt: skip


def _writes_each(loop: ast.AST) -> bool:
    """Whether each pass of a loop writes a file, under no condition: what is computed in it is extracted for later."""
    body = loop.body if isinstance(loop, (ast.For, ast.AsyncFor)) else []
    return any(
        isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and last_name(s.value.func) in _WRITING for s in body
    )


# What makes gradients, or has them made.
_LEARNING = frozenset({"backward", "enable_grad", "train_step", "training_step", "train_on_batch", "learn"})


def _builds_no_graph(node: ast.AST) -> bool:
    """Whether a node is a `with torch.no_grad():`, or a function that is decorated so."""
    contexts: list[ast.expr] = []
    if isinstance(node, (ast.With, ast.AsyncWith)):
        contexts = [item.context_expr for item in node.items]
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        contexts = node.decorator_list
    return any(_name_of(context) in _GRAPHLESS for context in contexts)


def _name_of(node: ast.expr) -> str:
    return last_name(node.func if isinstance(node, ast.Call) else node)


def _was_told(scope: ast.AST, line: int) -> bool:
    """Whether the last of `x.eval()` and `x.train()` in a scope before a line is the former."""
    told = max(_told(scope, line), default=(0, ""))
    return told[1] == "eval"


def _told(scope: ast.AST, line: int) -> Iterator[tuple[int, str]]:
    for node in own_nodes(scope):
        match node:
            case ast.Call(func=ast.Attribute(attr="eval" | "train" as mode)) if node.lineno < line:
                # `model.train(False)` is `model.eval()`.
                off = any(isinstance(a, ast.Constant) and a.value is False for a in node.args)
                yield node.lineno, "eval" if off else mode
