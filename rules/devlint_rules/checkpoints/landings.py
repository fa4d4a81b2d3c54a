"""Where what a program loads ends up: copied to where its owner is, moved, or read as a plain number.

Then it doesn't matter where it was before. Whatever else is done with it may need the place that it was saved from.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import access_path, blocks_of, last_name, own_nodes, walk
from devlint.lazy import regex
from devlint_rules.checkpoints.measured import is_measure, may_be_tensor

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel

# Functions are followed into one another so many times.
_MAX_DEPTH = 3

# What copies the values of tensors to where their owner is.
_COPYING = frozenset({"load_state_dict", "copy_", "_load_from_state_dict", "load_weights", "load_model_weights"})
# What gives the same things, in another container or one by one.
_PASSING = frozenset(
    {"list", "dict", "tuple", "OrderedDict", "enumerate", "zip", "sorted", "reversed", "iter", "next", "deepcopy", "copy"}
)  # fmt: skip
# What looks at a thing, and keeps nothing of it.
_LOOKING = frozenset(
    {"print", "len", "isinstance", "type", "hasattr", "str", "int", "float", "bool", "set", "format", "info", "debug",
     "warning", "warn", "error", "max", "min", "set_rng_state", "setstate", "set_state", "Namespace"}
)  # fmt: skip
# What shows a number, or makes a plain one of it.
_SHOWING = frozenset({"print", "str", "float", "int", "format", "info", "debug", "warning", "write", "round"})
# Methods that give parts of a thing, or the thing itself in another shape or type.
_PARTS = frozenset(
    {"items", "values", "get", "pop", "copy", "state_dict", "float", "half", "double", "long", "clone", "detach", "view",
     "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "contiguous", "type", "setdefault"}
)  # fmt: skip
# Attributes whose value isn't a tensor of what was loaded.
_TOLD = frozenset({"shape", "dtype", "ndim", "device", "is_cuda", "requires_grad", "training", "__class__", "__dict__"})
# What a loaded module is told, and stays where it is.
_OF_MODULES = frozenset({"eval", "train", "requires_grad_", "parameters", "named_parameters", "load_state_dict"})
# What is kept beside the tensors of a checkpoint under such keys is numbers, texts and settings.
_NUMBERS = regex(
    r"(?i)(?:^|_)(?:epochs?|(?:n_?)?iters?|iterations?|steps?|best[a-z\d]{0,30}|acc[a-z\d]{0,30}|prec[a-z\d]{0,30}|top1|top5|loss[a-z\d]{0,30}|lr|args?|hyper[a-z\d]{0,30}|hparams?"
    r"|config[a-z\d]{0,30}|cfgs?|arch[a-z\d]{0,30}|models?_name|names?|version|scores?|metrics?|m?ap|f1|bleu|wer|ppl|vocab[a-z\d]{0,30}|class(?:es|_to_idx)"
    r"|num[a-z\d]{0,30}|sizes?|dims?|seed|history|logs?|times?|date|kwargs|settings?|options|params_dict|fitness|round|rng[a-z\d]{0,30})$"
)
# Objects of that kind keep what they are given, or do as they like with it, wherever their class isn't known.
_KEEPING = regex(
    r"(?i)ema|averag|shadow|swa|queue|memory|bank|buffer|normali[sz]er|(?:^|_)(?:rms|stats?|meters?|history)|replay|tracker"
)

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def lands_anywhere(call: ast.expr, facts: Facts) -> bool:
    """Whether all that is loaded is copied, moved or read as numbers, some of it at least being copied or moved."""
    landing = _Landing(facts.model)
    return landing.follow(call) and (landing.taken or _is_unused_state(call, facts))


def is_only_read(call: ast.expr, facts: Facts) -> bool:
    """Whether nothing is taken of what is loaded but numbers, texts and settings."""
    landing = _Landing(facts.model)
    return landing.follow(call) and not landing.taken


# What those call what a file holds who load it into a model.
_STATE = regex(r"(?i)state|ckpt|check_?point|weights|saved|snapshot")


def _is_unused_state(call: ast.expr, facts: Facts) -> bool:
    """Whether what is loaded is called a state, and nothing is seen to become of it."""
    match next(facts.model.ancestors(call), None):
        case ast.Assign(targets=[ast.Name(id=name)]) if _STATE.search(name):
            scope = facts.model.enclosing_scope(call)
            return not any(
                isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in walk(scope)
            )
    return False


def copies(call: ast.Call, model: PlacementModel | None) -> bool:
    """Whether a `load_state_dict` copies what it is given to where its owner is, which not everybody's own does.

    Without a model, in a file that nobody has read so far, its owner's name alone tells.
    """
    if any(k.arg == "assign" for k in call.keywords):
        # The module takes the loaded tensors as they are.
        return False
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "load_state_dict":
        return True
    owner = call.func.value
    options = [v for _, v in model.value(owner).alternatives()] if model is not None else []
    classes = [v.cls for v in options if v.cls is not None]
    own = [method for cls in classes if (method := cls.method("load_state_dict")) is not None]
    if own and model is not None:
        return all(_hands_on(method.node, model) for method in own)
    return any(v.is_module for v in options) or _KEEPING.search(last_name(owner)) is None


def _hands_on(method: _Function, model: PlacementModel) -> bool:
    """Whether a `load_state_dict` of the project's own has what it is given copied."""
    arguments = method.args.args[1:2]
    landing = _Landing(model, 1, method)
    return bool(arguments) and landing.follow_name(arguments[0].arg, method) and landing.taken


class _Landing:
    """One loaded thing on its ways through a program, each of which has to end well."""

    def __init__(self, model: PlacementModel, depth: int = 0, within: _Function | None = None) -> None:
        self._model = model
        self._depth = depth
        # Whether some of it is copied, or moved.
        self.taken = False
        # Whether a function that it is followed into gives it back.
        self._is_returned = False
        self._known: set[tuple[ast.AST, str]] = set()
        self._waiting: list[tuple[ast.AST, str, ast.AST]] = []
        # Of a function that may stand in another file.
        nodes = walk(within) if within is not None else ()
        self._parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}

    def follow(self, start: ast.expr) -> bool:
        """Whether all ends well that an expression gives."""
        return self._ends_well(start) and self._rest_ends_well()

    def follow_name(self, name: str, scope: _Function) -> bool:
        """The same of what a function is given."""
        self._waiting.append((scope, name, scope))
        return self._rest_ends_well()

    def _rest_ends_well(self) -> bool:
        while self._waiting:
            scope, path, since = self._waiting.pop()
            if (scope, path) in self._known:
                continue
            self._known.add((scope, path))
            uses = list(self._uses(scope, path, since))
            # What an object keeps and doesn't ask for itself, others do.
            if ("." in path and not uses) or not all(self._ends_well(use) for use in uses):
                return False
        return True

    def _uses(self, scope: ast.AST, path: str, since: ast.AST) -> Iterator[ast.expr]:
        """Where what a statement gives a name is read, up to where it is moved for good."""
        # Functions in it read the name as well.
        nodes = list(walk(scope))
        first = 0 if "." in path else getattr(since, "lineno", 0)
        found = [
            n
            for n in nodes
            if isinstance(n, (ast.Name, ast.Attribute))
            and isinstance(n.ctx, ast.Load)
            and n.lineno >= first
            and access_path(n) == path
        ]
        statements = [n for n in nodes if isinstance(n, (ast.Expr, ast.Assign))]
        moved = min((n.lineno for n in statements if "." not in path and self._moves(n, path, since)), default=None)
        if moved is not None:
            self.taken = True
        return (n for n in found if moved is None or n.lineno < moved)

    def _moves(self, node: ast.Expr | ast.Assign, path: str, since: ast.AST) -> bool:
        """`net = net.to(device)`, or `net.to(device)`, that surely comes after `since`."""
        moving = node.value if node.lineno > getattr(since, "lineno", 0) else None
        match moving:
            case ast.Call(func=ast.Attribute(value=owner, attr="to")) if access_path(owner) == path:
                around = [since, *self._around(since)]
                return any(node in block for p in around if isinstance(p, ast.stmt) for block in blocks_of(p)) or any(
                    isinstance(p, ast.Module) and node in p.body for p in around
                )
        return False

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        if node not in self._parents:
            yield from self._model.ancestors(node)
        while node in self._parents:
            node = self._parents[node]
            yield node

    def _ends_well(self, node: ast.AST) -> bool:
        """Whether what an expression gives ends well, once it is followed out of what it is a part of."""
        child = node
        for parent in self._around(node):
            verdict = self._step(child, parent)
            if verdict is not None:
                return verdict
            child = parent
        return False

    def _step(self, child: ast.AST, parent: ast.AST) -> bool | None:
        """Whether it ends well there; None where it is a part of `parent` as well."""
        match parent:
            case ast.Subscript(value=value, slice=key):
                if value is not child or not isinstance(parent.ctx, ast.Load):
                    return True
                return self._is_number_of(key, parent) if _is_number(key) else None
            case ast.Attribute(attr=attr):
                is_asked = isinstance(around := next(self._around(parent), None), ast.Call) and around.func is parent
                return True if not is_asked and (attr in _TOLD or _NUMBERS.search(attr)) else None
            case ast.Call(func=func):
                return self._asked(parent, func) if func is child else self._given(parent, child)
            case ast.Assign(targets=targets):
                return all(self._bind(t, parent) for t in targets)
            case ast.AnnAssign(target=target):
                return self._bind(target, parent)
            case ast.NamedExpr(target=target):
                return None if self._bind(target, parent) else False
            case ast.For(target=target) | ast.comprehension(target=target) if child is parent.iter:
                return self._bind(target, parent)
            case ast.Return():
                return self._returned(parent)
            case ast.BinOp(left=left, right=right):
                text = isinstance(left, ast.Constant) and isinstance(left.value, str)
                plain = isinstance(left, ast.Constant) or isinstance(right, ast.Constant)
                return True if text else None if plain else False
            case ast.IfExp(test=test):
                return True if child is test else None
        if isinstance(parent, ast.Compare):
            # Numbers are put in order, and tensors where they are alike.
            return not any(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in parent.ops)
        if isinstance(parent, _ASKING):
            return True
        return None if isinstance(parent, _AROUND) else False

    def _is_number_of(self, key: ast.expr, part: ast.expr) -> bool:
        """Whether what is kept under a key of a number is one for sure, or is only shown."""
        assert isinstance(key, ast.Constant)
        return not may_be_tensor(str(key.value), self._model) or self._is_only_shown(part)

    def _is_only_shown(self, part: ast.expr) -> bool:
        """`print(x["best"])`, `f"{x['best']}"`, `float(x["best"])`; `best = x["best"]` that is only shown, or that nothing reads."""
        child: ast.AST = part
        for parent in self._around(part):
            match parent:
                case ast.Call(func=func) if child is not func:
                    return last_name(func) in _SHOWING
                case ast.Attribute(attr=attr) if attr != "item":
                    return False
                case ast.Attribute() | ast.JoinedStr() | ast.Expr():
                    return True
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is part:
                    scope = next((p for p in self._around(parent) if isinstance(p, (*_FUNCTIONS, ast.Module))), parent)
                    return not _is_shared(name, scope) and all(
                        self._is_only_shown(n) for n in _reads_until_next(name, scope, parent)
                    )
                case ast.stmt() | ast.Compare() | ast.Call():
                    return False
            child = parent
        return False

    def _asked(self, call: ast.Call, func: ast.expr) -> bool | None:
        """What a method of it, or it itself, is called for."""
        if not isinstance(func, ast.Attribute):
            # A module, which works where its owner has moved it.
            return True
        name = func.attr
        if name in ("to", "cuda", "cpu"):
            guarded = any(isinstance(p, ast.If) for p in self._around(call))
            self.taken = self.taken or name == "to" or (name == "cuda" and guarded)
            return True
        if name in _PARTS:
            is_number = name in ("get", "pop") and call.args and _is_number(call.args[0])
            return self._is_number_of(call.args[0], call) if is_number else None
        if name in ("update", "append", "extend"):
            return True
        return name in _OF_MODULES or name in _LOOKING or name in _OF_TEXTS

    def _given(self, call: ast.Call, argument: ast.AST) -> bool | None:
        name = last_name(call.func)
        if name in _COPYING:
            self.taken = True
            return copies(call, self._model if call not in self._parents else None)
        if name in _PASSING:
            return None
        if name in _LOOKING:
            return True
        if name in ("update", "append", "extend", "setdefault") and isinstance(call.func, ast.Attribute):
            return self._bind(call.func.value, call)
        return self._goes_well_in(call, argument)

    def _goes_well_in(self, call: ast.Call, argument: ast.AST) -> bool | None:
        """Whether a function of the project that is given it treats it well; None where it gives it back."""
        # Names in another file's function are that file's.
        called = self._model.callee(call) if self._depth < _MAX_DEPTH and call not in self._parents else None
        if called is None:
            return False
        value = argument.value if isinstance(argument, ast.keyword) else argument
        parameter = next((name for name, given in called.given(call).items() if given is value), None)
        function = called.function.node
        inner = _Landing(self._model, self._depth + 1, function)
        if parameter is None or not inner.follow_name(parameter, function):
            return False
        self.taken = self.taken or inner.taken
        return None if inner._is_returned else True

    def _returned(self, statement: ast.Return) -> bool:
        if self._depth:
            self._is_returned = True
            return True
        scope = self._model.enclosing_scope(statement)
        if isinstance(scope, ast.Module):
            return False
        callers = self._model.callers(scope)
        for model, _, call in callers:
            landing = _Landing(model, self._depth + 1)
            if not landing.follow(call) or landing._is_returned:
                return False
            self.taken = self.taken or landing.taken
        return bool(callers)

    def _bind(self, target: ast.expr, at: ast.AST) -> bool:
        """Follows what is bound from there on; False where nobody can tell what it then is."""
        if isinstance(target, (ast.Tuple, ast.List)):
            return all(self._bind(t, at) for t in target.elts)
        if isinstance(target, ast.Starred):
            return self._bind(target.value, at)
        while isinstance(target, ast.Subscript):
            # What is put into a container is a part of it.
            target = target.value
        path = access_path(target)
        if path is None or (isinstance(target, ast.Attribute) and target.attr in ("data", "grad")):
            return False
        if _NUMBERS.search(last_name(target)) and isinstance(target, ast.Attribute):
            return True
        around = [
            p
            for p in self._around(at)
            if isinstance(p, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module))
        ]
        if any(path in n.names for p in around[:1] for n in own_nodes(p) if isinstance(n, ast.Global)):
            around = around[-1:]
        scope = next((p for p in around if isinstance(p, ast.ClassDef) or "." not in path), None)
        if scope is None:
            return False
        self._waiting.append((scope, path, at))
        return True


def _reads_until_next(name: str, scope: ast.AST, since: ast.stmt) -> list[ast.Name]:
    """Where a name is read in a scope up to where it is given something else, going by lines."""
    named = [n for n in own_nodes(scope) if isinstance(n, ast.Name) and n.id == name and n.lineno > since.lineno]
    stores = [n.lineno for n in named if not isinstance(n.ctx, ast.Load)]
    return [n for n in named if isinstance(n.ctx, ast.Load) and n.lineno <= min(stores, default=n.lineno)]


def _is_shared(name: str, scope: ast.AST) -> bool:
    """Whether functions in a scope have a name of it, or it has one of the file's."""
    own = set(own_nodes(scope))
    return any(
        name in n.names
        if isinstance(n, (ast.Global, ast.Nonlocal))
        else isinstance(n, ast.Name) and n.id == name and n not in own
        for n in walk(scope)
    )


# Around these it is only looked at.
_ASKING = (
    ast.If,
    ast.While,
    ast.Assert,
    ast.FormattedValue,
    ast.JoinedStr,
    ast.Expr,
    ast.Delete,
    ast.UnaryOp,
)
# Around these it is what it was.
_AROUND = (
    ast.keyword, ast.Starred, ast.Tuple, ast.List, ast.Dict, ast.BoolOp, ast.DictComp, ast.ListComp, ast.GeneratorExp, ast.Await,
)  # fmt: skip
# Methods of texts, such as the keys of a checkpoint are, and what a tensor tells of itself.
_OF_TEXTS = frozenset({*dir(str), "keys", "size", "dim", "numel", "item", "tolist"})


def _is_number(key: ast.expr) -> bool:
    """Whether a key says that what is kept under it is no tensor that computes."""
    return (
        isinstance(key, ast.Constant)
        and isinstance(key.value, str)
        and (_NUMBERS.search(key.value) is not None or is_measure(key.value))
    )
