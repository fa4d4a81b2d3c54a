"""DEV303: a state dict whose keys don't fit the model that it is loaded into."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import Kind, Value, calls_in
from devlint.findings import Note
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.checkpoints.files import loaded_by, saved_under
from devlint_rules.wrappers.bare import bare_model, is_bare
from devlint_rules.wrappers.unwrapping import class_of, wrap_notes

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel, Unit


class PrefixedKeysMismatch(Rule):
    """A wrapper's state dict loaded into a bare model, or the reverse.

    ## What it does
    Flags `load_state_dict` where both ends can be seen and one of them is a `DataParallel` or `DistributedDataParallel`
    object: the state of the other model, or a file that the same code writes under the same path. States whose keys are
    rewritten in between, and loads whose failure is dealt with, are left alone.

    ## Why is this bad
    Each key of a wrapper's state starts with `module.`, and none of a bare model's does: `RuntimeError: Missing key(s) in
    state_dict ... Unexpected key(s)`. With `strict=False` nothing is loaded, and nothing is said.

    ## Example
    ```python
    import torch
    from torch import nn

    model = nn.DataParallel(nn.Linear(2, 2))
    torch.save(model.state_dict(), "model.pt")
    net = nn.Linear(2, 2)
    net.load_state_dict(torch.load("model.pt"))
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    model = nn.DataParallel(nn.Linear(2, 2))
    torch.save(model.module.state_dict(), "model.pt")
    net = nn.Linear(2, 2)
    net.load_state_dict(torch.load("model.pt"))
    ```

    ## Fix safety
    Unsafe: it is for you to say which end should change. The fix is at the load: the wrapped model itself is loaded into, or
    the prefix is taken off the keys, so that files that were written before load as well.

    ## References
    - [torch.nn.Module.load_state_dict](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.load_state_dict)
    - [pytorch/pytorch 3805](https://github.com/pytorch/pytorch/issues/3805)
    """

    code = "DEV303"
    name = "prefixed-keys-mismatch"
    trigger = r"\.load_state_dict\s*\("
    effect = Effect(raises="RuntimeError", words="Missing key(s) in state_dict")
    fix = "U"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return any(calls_in(unit.node))

    def shape(self) -> m.BaseMatcherNode:
        return m.Call(func=m.Attribute(attr=m.Name("load_state_dict")), args=[m.AtLeastN(m.Arg(), n=1)])

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        given = next((a for a in node.args if a.keyword is None or a.keyword.value == "state_dict"), None)
        state = facts.node(given) if given is not None and not given.star else None
        if not isinstance(found, ast.Call) or not isinstance(found.func, ast.Attribute) or state is None:
            return
        # The state's end first: it is seldom in sight, and the model's may take a look through the project.
        source = _source(state, facts)
        if source is None or _is_provided_for(found, facts):
            return
        model = _end_of_model(found.func.value, facts)
        if model is None or source.wrapped is model.wrapped:
            return
        assert given is not None
        wrapper = (source if source.wrapped else model).value
        name, from_what = facts.name_of(cst.ensure_type(node.func, cst.Attribute).value), class_of(wrapper)
        message = (
            f"this state is of a {from_what}, each key with `module.` before it, and `{name}` is bare"
            if source.wrapped
            else f"`{name}` is a {from_what}, whose keys start with `module.`, and this state is of a bare model"
        )
        lax = any(k.arg == "strict" and isinstance(k.value, ast.Constant) and not k.value.value for k in found.keywords)
        yield Report(
            node,
            f"{message}: {'nothing is loaded' if lax else 'RuntimeError, no key fits'}",
            "likely" if model.unsure or source.unsure else "certain",
            notes=(*wrap_notes(wrapper, facts), *source.notes),
            change=_change(node, given, source, facts),
        )


class _End(NamedTuple):
    """One end of the way: a model, or the model that a state was taken of."""

    value: Value
    wrapped: bool
    unsure: bool = False
    notes: tuple[Note, ...] = ()


# Methods by which a class sees to the keys itself.
_OWN_KEYS = ("load_state_dict", "state_dict", "_load_from_state_dict", "_register_load_state_dict_pre_hook")


def _sees_to_keys(value: Value) -> bool:
    return value.cls is not None and any(value.cls.method(name) is not None for name in _OWN_KEYS)


def _end_of_model(node: ast.expr, facts: Facts) -> _End | None:
    options = [v for _, v in facts.model.value(node).alternatives()]
    if any(_sees_to_keys(v) for v in options):
        return None
    if all(v.kind is Kind.WRAPPER for v in options):
        return _End(options[0], wrapped=True, unsure=not options[0].site)
    bare = bare_model(node, facts)
    return _End(bare[0], wrapped=False, unsure=bare[1]) if bare is not None else None


def _source(state: ast.expr, facts: Facts) -> _End | None:
    """Whose state it is: told by the value itself, or by what is saved under the path that it is loaded from."""
    direct = _end_of_state(facts.model.value(state))
    if direct is not None:
        if isinstance(state, ast.Call) and isinstance(state.func, ast.Attribute) and not direct.wrapped:
            return _end_of_model(state.func.value, facts)
        return direct
    loaded = loaded_by(state, facts)
    saved = saved_under(loaded, facts) if loaded is not None else []
    ends = [_end_of_state(s.value) for s in saved]
    first = ends[0] if ends else None
    if first is None or any(end is None or end.wrapped is not first.wrapped for end in ends):
        return None
    return first._replace(notes=(facts.note("saved here", saved[0].call),))


def _end_of_state(value: Value) -> _End | None:
    options = [v.inner if v.kind is Kind.STATE_DICT else None for _, v in value.alternatives()]
    models = [v for v in options if v is not None]
    if len(models) < len(options) or any(_sees_to_keys(v) for v in models):
        return None
    if all(v.kind is Kind.WRAPPER for v in models):
        return _End(models[0], wrapped=True)
    return _End(models[0], wrapped=False) if all(is_bare(v) for v in models) else None


def _is_provided_for(call: ast.Call, facts: Facts) -> bool:
    """A failure is dealt with, or a condition asks about the keys."""
    child: ast.AST = call
    for parent in facts.model.ancestors(call):
        match parent:
            case ast.Try(body=body, handlers=handlers) if child in body and handlers:
                return True
            case ast.If(test=test) | ast.IfExp(test=test) if child is not test and "module" in ast.unparse(test):
                return True
        child = parent
    return "load_state_dict_pre_hook" in facts.text.text


def _change(node: cst.Call, given: cst.Arg, source: _End, facts: Facts) -> Change:
    func = cst.ensure_type(node.func, cst.Attribute)
    if not source.wrapped:
        inner = cst.Attribute(func.value, cst.Name("module"))
        return Change("load into the wrapped model", "unsafe", ((func, func.with_changes(value=inner)),))
    state = given.value
    if m.matches(state, m.Call(func=m.Attribute(attr=m.Name("state_dict")))):
        taken = cst.ensure_type(cst.ensure_type(state, cst.Call).func, cst.Attribute)
        inner = cst.Attribute(taken.value, cst.Name("module"))
        return Change("take the wrapped model's own state", "unsafe", ((taken, taken.with_changes(value=inner)),))
    code = f'{{k.removeprefix("module."): v for k, v in {facts.code_of(_expression(state, facts))}.items()}}'
    return Change("take the prefix off the keys", "unsafe", ((state, cst.parse_expression(code)),))


def _expression(state: cst.BaseExpression, facts: Facts) -> ast.expr:
    found = facts.node(state)
    assert found is not None
    return found
