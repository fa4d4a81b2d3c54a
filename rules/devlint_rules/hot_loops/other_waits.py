"""Whether each step of a loop waits for the accelerator all the same: then there is nothing to gain by taking one wait away."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from devlint.facts import HOST, Kind, Value, last_name, leaves, own_nodes
from devlint.knowledge import torch_knowledge
from devlint.lazy import regex
from devlint_rules.hot_loops.needed import WRITERS, WRITING
from devlint_rules.hot_loops.sized import sized_by_values

if TYPE_CHECKING:
    from devlint.facts import Facts, FunctionModel, PlacementModel

# Methods that bring a tensor to the host; builtins that ask for a tensor's numbers.
_READING_METHODS = frozenset({"item", "tolist", "cpu", "numpy"})
_READING_BUILTINS = frozenset(
    {"float", "int", "bool", "print", "str", "repr", "format", "max", "min", "sorted", "range"}
)
# In the text of a function that is called: it reads what it is given.
_READS = regex(r"\.(?:item|tolist|numpy)\(|\.cpu\(\)|(?<!\.)\bfloat\(|\bnonzero\(|\bprint\(")
# It goes on by what it asks of a tensor: `if torch.isnan(loss):`, `assert x.isfinite().all()`.
_DECIDES = regex(
    r"\b(?:if|assert|while|and|or|not)\s+(?:(?:torch|x|self)\.)?(?:isnan|isinf|isfinite|allclose|equal)\(|\.(?:any|all)\(\)\s{0,4}(?::|,|\n|and\b|or\b)"
)
# The same for what is as large as a tensor's values say: `torch.where(x > 0)`, `x[mask]`, `x[y == 1]`.
_COUNTS = regex(
    r"\bwhere\([^,()]{1,80}(?:\([^()]{0,60}\)[^,()]{0,40})?\)|\[~?(?:self\.)?\w{0,40}mask\w{0,20}\]"
    r"|\[[\w.~ ]{1,60}(?:[<>]=?|==|!=)[\w. ]{1,60}\]|\b(?:masked_select|argwhere)\("
)
# As many as the longest of a batch: `int(lengths.max())`, `range(max_len)`.
_SIZED = regex(r"\b(?:int|range)\([^()\n]{0,60}(?:max|length|lens?)(?:\.max)?(?:\(\))?\)")
# In the text of a model's `forward`, which computes with numbers of Python's as well.
_READ_THERE = regex(
    r"\.(?:item|tolist|numpy)\(|\.cpu\(\)|\bnonzero\(|\bdistributions\.[A-Z]\w{1,60}\((?![^()]{0,200}\bvalidate_args\b)"
)
# By the name of a tensor's type what is made on the host is brought to where it is: `grid.type(x.data.type())`.
_UPLOADS = regex(r"\.type\(\)")
# PyTorch Geometric asks the last of the graphs how many there are, unless it is told.
_POOLS = regex(
    r"\bglobal_(?:add|mean|max)_pool\([^,()]{1,60}(?:\([^()]{0,60}\)[^,()]{0,40})?,[^,()]{1,60}\)|\bto_dense_(?:batch|adj)\("
)
# Functions that nobody has read, and that score, decode, show or keep what they are given.
_ON_THE_HOST = regex(
    r"(?i)accuracy|(?:^|_)acc(?:_|$)|metric|scor|(?:^|_)m?iou|dice|(?:^|_)f1|(?:^|_)auc|bleu|rouge|decode|(?:^|_)nms|post_?process|to_numpy|tensor2"
    r"|eval|confusion|hungarian|distance_edit|edit_distance|(?:^|_)[wc]er(?:_|$)|visuali[sz]|plot|draw|imshow|^log|add_(?:scalar|image|histogram|text)"
    r"|set_(?:postfix|description)|extract|convert_|parse|progress|pbar"
)
# What a statement that is only a call does with tensors on the accelerator itself.
_QUEUEING = frozenset(
    {"append", "extend", "backward", "step", "zero_grad", "train", "eval", "clip_grad_norm_", "clip_grad_value_", "all_reduce",
     "broadcast", "requires_grad_", "retain_grad", "update_moving_average", "register_hook", "popleft", "insert"}
)  # fmt: skip
# They look whether a gradient overflowed, before they step.
_SCALERS = frozenset({"scaler", "grad_scaler", "loss_scaler", "amp_scaler"})
_SYNCHRONIZING = frozenset({"synchronize", "empty_cache", "scale_loss"})
# Functions that nobody has read, and that run a model many times: one wait more is nothing beside them.
_LASTING = regex(r"(?i)generate|beam_search|attack|perturb|inner_loop|rollout|simulate")
_DISTRIBUTION = regex(r"torch\.distributions\.(?:\w+\.)*[A-Z]\w*")
# Functions are looked into so many times.
_MAX_DEPTH = 2


def waits_anyway(read: ast.expr, loop: ast.stmt, facts: Facts, is_collected: Callable[[ast.Call], bool]) -> bool:
    """Whether something else than `read` makes each step wait; what `is_collected` holds of doesn't, once it is mended as well.

    So does nothing where the same function asks what is computed for its array as it is: then it runs on the host.
    """
    scope = facts.model.enclosing_scope(loop)
    if any(_is_array_of_host(node) for node in own_nodes(scope)):
        return True
    return any(
        node is not read
        and _waits(node, facts, is_collected)
        # In the head of the loop, or under a guard, it is asked for rarely.
        and facts.model.hot_loop(node) is not None
        for node in own_nodes(loop)
    )


def waits_beside(read: ast.expr, facts: Facts) -> bool:
    """Whether something else in the scope of `read` makes each call, or pass, wait."""
    return any(
        node is not read and _waits(node, facts, lambda _: False) and not facts.model.is_guarded(node)
        for node in own_nodes(facts.model.enclosing_scope(read))
    )


def waiting_beside(
    read: ast.expr, loop: ast.stmt | None, facts: Facts, is_told: Callable[[ast.Call], bool]
) -> Iterator[ast.AST]:
    """What else than `read` makes each step wait, in its loop or in the function around it, and no rule tells of."""
    own = {*ast.walk(read), *facts.model.ancestors(read)}
    around = [loop] if loop is not None and loop in own else [facts.model.enclosing_scope(read), loop]
    for node in (n for scope in around if scope is not None for n in own_nodes(scope)):
        if node not in own and _stays(node, facts, is_told) and facts.model.hot_loop(node) is not None:
            yield node


def _stays(node: ast.AST, facts: Facts, is_told: Callable[[ast.Call], bool]) -> bool:
    """Whether a node waits, and most likely goes on doing so: asserts and elements that masks pick among them, which `waits_untold` leaves to their rule."""
    match node:
        case ast.Assert(test=test):
            return _decides_by_tensor(test, facts)
        case ast.Call() | ast.Subscript() if sized_by_values(node, facts) is not None:
            return True
        case ast.Call() if (called := facts.model.callee(node)) is not None:
            return any(_holds_tensor(g, facts) for g in _given(node)) and _reads_untold(called.function, facts, is_told)
        case ast.Call():
            return _call_waits(node, facts, is_told, surely=True)
    return False


def _is_array_of_host(node: ast.AST) -> bool:
    """`model(x).detach().numpy()`, without a copy to the host."""
    match node:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(func=ast.Attribute(value=tensor, attr="detach"))
                | ast.Attribute(value=tensor, attr="data"),
                attr="numpy",
            )
        ):
            return not any(isinstance(n, ast.Attribute) and n.attr in ("cpu", "to") for n in ast.walk(tensor))
    return False


def _waits(node: ast.AST, facts: Facts, is_collected: Callable[[ast.Call], bool]) -> bool:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            return _decides_by_tensor(test, facts)
        case ast.comprehension(ifs=tests):
            return any(_decides_by_tensor(test, facts) for test in tests)
        case ast.FormattedValue(value=value) | ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod(), right=value):
            return _holds_tensor(value, facts)
        case ast.Subscript():
            return sized_by_values(node, facts) is not None
        case ast.Call():
            return sized_by_values(node, facts) is not None or _call_waits(node, facts, is_collected)
    return False


def _decides_by_tensor(test: ast.expr, facts: Facts) -> bool:
    """Whether a branch waits for a tensor's truth."""
    match test:
        case ast.BoolOp(values=values):
            return any(_decides_by_tensor(value, facts) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _decides_by_tensor(operand, facts)
    known = facts.accelerated(facts.model.value(test))
    return known is not None and known[0].is_tensor


def _call_waits(
    call: ast.Call, facts: Facts, is_collected: Callable[[ast.Call], bool], *, surely: bool = False
) -> bool:
    match call.func:
        case ast.Attribute(value=tensor, attr=name) if name in _READING_METHODS and not call.args:
            return _may_be_there(tensor, facts) and not is_collected(call)
        case ast.Name(id=name) if name in _READING_BUILTINS:
            is_there = any(_holds_tensor(argument, facts) for argument in call.args)
            return is_there and not (name in ("float", "int") and is_collected(call))
        case ast.Attribute(value=ast.Constant(value=str()), attr="format") | ast.Attribute(value=ast.Name(id="math")):
            return any(_holds_tensor(argument, facts) for argument in _given(call))
        case ast.Attribute(value=owner, attr="step"):
            names = {v.name.rpartition(".")[2] for _, v in facts.model.value(owner).alternatives()}
            return "GradScaler" in names or last_name(owner) in _SCALERS
    if _DISTRIBUTION.fullmatch(facts.model.qualified(call.func) or "") and all(
        k.arg != "validate_args" for k in call.keywords
    ):
        # It looks whether all that it is given may be, and raises where it mayn't (torch.distributions.Distribution).
        return any(_holds_tensor(argument, facts) for argument in _given(call))
    return last_name(call.func) in _SYNCHRONIZING or _reads_inside(call, facts, is_collected, surely=surely)


def _reads_untold(function: FunctionModel, facts: Facts, is_told: Callable[[ast.Call], bool]) -> bool:
    """Whether a function of the project reads what no rule tells of there, or goes on by what it asks of a loss."""
    if _DECIDES.search(function.text) is not None:
        return True
    reads = [n for n in function.nodes if isinstance(n, ast.Call) and _reads_by_itself(n)]
    if function.source is facts.model.source:
        return any(not is_told(read) for read in reads)
    model = facts.model.file_of(function.source)
    return any(model is None or not _is_told_there(read, model, facts) for read in reads)


def _copies_untold(function: FunctionModel, is_told: Callable[[ast.Call], bool]) -> bool:
    """Whether a function of the project that is given a batch, which it moves by itself, copies something to the host of which no rule tells."""
    calls = [n for n in function.nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    moves = any(last_name(n.func) in ("cuda", "to") for n in calls)
    return moves and any(last_name(n.func) == "cpu" and not n.args and not is_told(n) for n in calls)


def _is_told_there(read: ast.Call, model: PlacementModel, facts: Facts) -> bool:
    tensor = tensor_read(read)
    model.ensure_around(read)
    hot = model.hot_loop(read)
    return (
        hot is not None
        and not hot.is_minor
        and tensor is not None
        and facts.accelerated(model.value(tensor)) is not None
    )


def tensor_read(call: ast.Call) -> ast.expr | None:
    """What a reading reads: `x` of `x.item()` and of `float(x)`."""
    return call.func.value if isinstance(call.func, ast.Attribute) else call.args[0] if call.args else None


def _reads_by_itself(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(attr=name):
            return name in _READING_METHODS and not call.args
        case ast.Name(id=name):
            return name in ("float", "int")
    return False


def _reads_inside(call: ast.Call, facts: Facts, is_told: Callable[[ast.Call], bool], *, surely: bool) -> bool:
    """Whether a function that is given a tensor reads it, by its text, or by its name where nobody knows its text.

    `surely` asks for what is known to be a tensor on an accelerator, and leaves out what is told where it stands.
    """
    given = [*_given(call)]
    tensors = [g for g in given if _holds_tensor(g, facts)]
    kinds = {v.kind for g in given for _, v in facts.model.value(g).alternatives()}
    if surely and not tensors:
        moving = facts.model.callee(call) if Kind.BATCH in kinds else None
        return moving is not None and _copies_untold(moving.function, is_told)
    if not tensors and Kind.UNKNOWN not in kinds:
        return False
    called = facts.model.callee(call)
    if called is not None and surely:
        return _reads_untold(called.function, facts, is_told)
    if called is not None:
        return _reads(called.function.text) or _calls_what_reads(called.function.text, facts)
    value = facts.model.value(call.func)
    modules = [v for _, v in value.alternatives() if v.is_module]
    if modules:
        return any(reads_in_method(module, "forward", facts) for module in modules)
    match call.func:
        case ast.Attribute(value=owner, attr=method):
            modules = [v for _, v in facts.model.value(owner).alternatives() if v.is_module and v.cls is not None]
            if modules:
                return any(reads_in_method(module, method, facts) for module in modules)
    if any(v.name.startswith(("torch.", "builtins.")) for _, v in value.alternatives()):
        return False
    name = last_name(call.func)
    if name in WRITERS or WRITING.fullmatch(name) or _ON_THE_HOST.search(name):
        return True
    if not surely and _LASTING.search(name):
        return True
    is_statement = isinstance(next(facts.model.ancestors(call), None), ast.Expr)
    return (
        not surely
        and is_statement
        and bool(tensors)
        and name not in _QUEUEING | torch_knowledge().tensor_methods.keys()
    )


def reads_in_method(module: Value, method_name: str, facts: Facts) -> bool:
    """Whether a module of the project, or what a wrapper wraps, reads tensors in a method, such as `forward`, or in what that calls."""
    todo, seen = [(module, method_name)], set()
    while todo:
        owner, name = todo.pop()
        while owner.inner is not None:
            owner = owner.inner
        method = owner.cls.method(name) if owner.cls is not None else None
        if owner.cls is None or method is None or method.node in seen:
            continue
        texts = (method.text, *_texts_called(method, facts))
        if any(p.search(text) for p in (_READ_THERE, _COUNTS, _DECIDES, _SIZED, _UPLOADS, _POOLS) for text in texts):
            return True
        buffers = _BUFFERS.findall(owner.cls.source.text_of(owner.cls.node))
        asked = (name for pattern in (_ASKED_OF_SELF, _READ_OF_SELF) for name in pattern.findall(method.text))
        if not set(buffers).isdisjoint(asked):
            return True
        seen.add(method.node)
        todo += [(owner, called) for called in _OWN_CALLED.findall(method.text)]
        for attribute, called in _PART_CALLED.findall(method.text):
            held = facts.model.held(owner.cls, attribute)
            todo += [(part, called or "forward") for _, part in held.alternatives() if part.is_module]
        for attribute in {*_PARTS_CALLED.findall(method.text)}:
            held = facts.model.held(owner.cls, attribute)
            todo += [(part, "forward") for _, whole in held.alternatives() for part in _parts_of(whole)]
    return False


def _parts_of(whole: Value) -> tuple[Value, ...]:
    """The modules in an `nn.ModuleList` or an `nn.Sequential`."""
    parts = whole.elements or ((whole.each,) if whole.each is not None else ())
    return tuple(part for part in parts if part.is_module)


def _texts_called(function: FunctionModel, facts: Facts) -> Iterator[str]:
    """The texts of the project's functions that a function calls by their names, also of those that it imports."""
    model = facts.model if function.source is facts.model.source else facts.model.file_of(function.source)
    for node in function.nodes if model is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and model is not None:
            called = model.callee(node)
            if called is not None:
                yield called.function.text


# `register_buffer("ready", ...)`, and `if not self.ready:`, `if self.ready == 0:` or `int(self.ready)` of it.
_BUFFERS = regex(r"\bregister_buffer\([ \t\n]{0,80}['\"](\w{1,60})['\"]")
_ASKED_OF_SELF = regex(r"\bif (?:not )?self\.(\w{1,60})(?: ?[=!<>][^\n:]{0,60})?:")
_READ_OF_SELF = regex(r"\b(?:int|float|bool)\(self\.(\w{1,60})\)")
# `self.name(` is a method, or a part; `self.part.name(` a part's method.
_OWN_CALLED = regex(r"\bself\.(\w{1,60})\(")
_PART_CALLED = regex(r"\bself\.(\w{1,60})(?:\.(\w{1,60}))?\(")
# `for part in self.parts:`, `self.parts[0](x)`, `self.parts(x)`: each of several parts is called.
_PARTS_CALLED = regex(r"\bself\.(\w{1,60})(?=[:\[(])")


# Calls in a text, by the names of what is called.
_CALLED = regex(r"\b([A-Za-z_]\w{1,60})\(")


def _reads(text: str) -> bool:
    return any(pattern.search(text) is not None for pattern in (_READS, _COUNTS, _DECIDES))


def _calls_what_reads(text: str, facts: Facts, depth: int = 0) -> bool:
    """Whether functions of the same file that a text calls read tensors."""
    functions = {
        node.name: node
        for name in _CALLED.findall(text)
        for node in facts.model.source.bindings.get(name, ())
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    texts = [facts.code_of(node) for node in functions.values() if facts.code_of(node) != text]
    return any(_reads(inner) or (depth < _MAX_DEPTH and _calls_what_reads(inner, facts, depth + 1)) for inner in texts)


def _given(call: ast.Call) -> Iterator[ast.expr]:
    """What a call is given, the parts of a display of it one by one."""
    for argument in (*call.args, *(k.value for k in call.keywords)):
        match argument:
            case ast.Dict(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                yield from parts
            case ast.Starred(value=value):
                yield value
            case _:
                yield argument


def _holds_tensor(node: ast.expr, facts: Facts) -> bool:
    """Whether an expression surely is, or holds, a tensor on an accelerator."""
    return any(facts.accelerated(leaf) is not None for leaf in leaves(facts.model.value(node)))


def _may_be_there(node: ast.expr, facts: Facts) -> bool:
    """Whether what is asked for its numbers may be on an accelerator: whatever isn't known to be on the host, most likely is."""
    return any(v.place != HOST for _, v in facts.model.value(node).alternatives())
