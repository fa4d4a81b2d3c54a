"""What a condition says of the values that it speaks of, when it holds and when it doesn't."""

from __future__ import annotations

import ast

from devlint.knowledge import torch_knowledge
from devlint.placement.conditions import condition_of
from devlint.placement.environment import Environment
from devlint.placement.scope import Scope
from devlint.placement.values import Value, either, replace
from devlint.source.kinds import Kind
from devlint.source.paths import access_path


def assume(frame: Scope, env: Environment, test: ast.expr, outcome: bool) -> None:
    """Continues in `env` as after `test` came out as `outcome`."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            assume(frame, env, operand, not outcome)
            return
        case ast.BoolOp(op=op, values=values):
            # All parts hold after `and`, none after a failed `or`; otherwise only the whole is known.
            if isinstance(op, ast.And) == outcome:
                for part in values:
                    assume(frame, env, part, outcome)
                return
        case ast.NamedExpr(target=target):
            assume(frame, env, target, outcome)
            return
        case ast.Constant(value=value):
            if bool(value) != outcome:
                env.dead = True
            return
    condition = condition_of(test)
    env.assume(env.distinct(condition.text, condition.paths), outcome != condition.negated)
    if type(test) in _NARROWING:
        _narrow(frame, env, test, outcome)


_NARROWING = frozenset({ast.Call, ast.Compare, ast.Name, ast.Attribute})


def _narrow(frame: Scope, env: Environment, test: ast.expr, outcome: bool) -> None:
    """Drops the alternatives of a value that the condition rules out."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[subject, types]):
            names = _type_names(frame, types)
            if names is not None:
                _fetch(frame, env, subject)
                _keep(env, subject, lambda v: _is_instance(v, names), outcome)
                if outcome and names == {"torch.Tensor"}:
                    _become_tensor(env, subject)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="is_tensor"), args=[subject]):
            _keep(env, subject, lambda v: _is_instance(v, {"torch.Tensor"}), outcome)
            if outcome:
                _become_tensor(env, subject)
        case ast.Call(func=ast.Name(id="hasattr"), args=[subject, ast.Constant(value=str() as name)]):
            _fetch(frame, env, subject)
            _keep(env, subject, lambda v: _has(v, name), outcome)
        case ast.Call(func=func, args=[subject]) if (names := _asked_types(frame, func)) is not None:
            _keep(env, subject, lambda v: _is_instance(v, names), outcome)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[subject, *_]) if outcome and _asks(name):
            # A predicate of the project's own: under it, the value is what the predicate says, and not a bare wrapper.
            _keep(env, subject, lambda v: False if v.kind is Kind.WRAPPER else None, True)
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
            _keep(env, left, _is_none, outcome == isinstance(op, ast.Is))
        case ast.Compare() if (asked := _type_test(test)) is not None:
            subject, types = asked
            names = _type_names(frame, types)
            if names is not None:
                _keep(env, subject, lambda v: _is_instance(v, names), outcome)
        case ast.Name() | ast.Attribute():
            _keep(env, test, lambda v: False if _is_none(v) else None, outcome)


def _asked_types(frame: Scope, func: ast.expr) -> set[str] | None:
    """The types that a predicate of the project asks for: `def is_parallel(m): return type(m) in (A, B)`."""
    function = frame.value_of(func).function if isinstance(func, (ast.Name, ast.Attribute)) else None
    if function is None or len(function.parameters) != 1:
        return None
    body = [s for s in function.node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    match body:
        case [ast.Return(value=ast.Call(func=ast.Name(id="isinstance"), args=[subject, types]))]:
            pass
        case [ast.Return(value=ast.Compare() as test)] if (asked := _type_test(test)) is not None:
            subject, types = asked
        case _:
            return None
    return _type_names(frame.beside(function), types) if access_path(subject) == function.parameters[0].arg else None


def _type_test(test: ast.Compare) -> tuple[ast.expr, ast.expr] | None:
    """What `type(x) is T`, `type(x) == T` or `type(x) in (T, U)` asks, and for which types."""
    match test:
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="type"), args=[subject]),
            ops=[ast.Is() | ast.Eq() | ast.In()],
            comparators=[types],
        ):
            return subject, types
    return None


def _fetch(frame: Scope, env: Environment, subject: ast.expr) -> None:
    """Puts what a class's methods leave in an attribute among the values of this path, to be told apart there."""
    path = access_path(subject) if isinstance(subject, ast.Attribute) else None
    if path is None or env.get(path) is not None:
        return
    value = frame.value_of(subject)
    if any(v.kind is Kind.WRAPPER for _, v in value.alternatives()):
        env.put(path, value)


def _keep(env: Environment, subject: ast.expr, judge: object, outcome: bool) -> None:
    path = access_path(subject)
    value = env.get(path) if path else None
    if path is None or value is None:
        return
    kept = [(g, v) for g, v in value.alternatives() if judge(v) in (outcome, None)]  # type: ignore[operator]
    if not kept:
        # The model says that it can't be: then the code knows more than the model.
        env.put(path, Value(Kind.UNKNOWN))
    elif len(kept) < len(list(value.alternatives())):
        env.put(path, either(kept))
        if len(kept) == 1:
            # What the condition left over is there on certain paths: this is one of them.
            env.guards |= kept[0][0]


def _become_tensor(env: Environment, subject: ast.expr) -> None:
    """A value of unknown kind that was asked, and is a tensor."""
    path = access_path(subject)
    value = env.get(path) if path else None
    if path is not None and (value is None or value.kind in (Kind.UNKNOWN, Kind.BATCH)):
        env.put(path, replace(value or Value(Kind.UNKNOWN), kind=Kind.TENSOR))


def _type_names(frame: Scope, types: ast.expr) -> set[str] | None:
    elements = types.elts if isinstance(types, ast.Tuple) else [types]
    values = [frame.value_of(e) for e in elements]
    if not all(v.kind in (Kind.REFERENCE, Kind.CLASS) for v in values):
        return None
    return {frame.analysis.objects.type_name(v) for v in values}


def _is_instance(value: Value, names: set[str]) -> bool | None:
    """True, False, or None where it isn't known."""
    match value.kind:
        case Kind.WRAPPER:
            # Of a subclass only what it surely is.
            return value.name in names or "torch.nn.Module" in names or (None if value.cls is not None else False)
        case Kind.TENSOR | Kind.PARAMETER:
            return "torch.Tensor" in names if value.kind is Kind.TENSOR else None
        case Kind.MODULE:
            return (
                None if value.cls is not None or not value.name else (value.name in names or "torch.nn.Module" in names)
            )
        case Kind.CONSTANT if value.constant is None:
            return False
    return None


def _has(value: Value, name: str) -> bool | None:
    """`hasattr(x, name)`: a wrapper has what its class has; of a project's module, `module` can be told."""
    if value.kind is Kind.WRAPPER:
        own = name in torch_knowledge().wrappers.get(value.name, frozenset())
        return own or (None if value.cls is not None else False)
    if name == "module" and value.kind is Kind.MODULE and value.cls is not None and not value.cls.defines("module"):
        return False
    return None


def _asks(name: str) -> bool:
    return name.lstrip("_").startswith(("is_", "has_"))


def _is_none(value: Value) -> bool | None:
    if value.kind is Kind.CONSTANT:
        return value.constant is None
    return None if value.kind is Kind.UNKNOWN else False
