"""DEV402: a model that isn't where its wrapper wants it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import HOST, NONE, Kind, Sort, Step, Value, own_nodes, parse_device
from devlint.lazy import cst
from devlint.rule import Change, Effect, Report
from devlint_rules.wrappers.unwrapping import DATA_PARALLEL, DISTRIBUTED, AboutWrapping, wrapping_by

if TYPE_CHECKING:
    from devlint.facts import Facts


class WrappedBeforeMove(AboutWrapping):
    """A parallel wrapper around a model that isn't on the wrapper's first device.

    ## What it does
    Flags `DistributedDataParallel(model, device_ids=[...])` around a model that is still on the host, wrappers around a
    model that was moved to another GPU than `device_ids[0]`, and a `DataParallel` that is called while its model is on
    the host. A `DataParallel` may be made first and moved later, and `DistributedDataParallel` without `device_ids`
    takes models on the host: both are left alone, and so is a model that was moved under a condition.

    ## Why is this bad
    `DistributedDataParallel` doesn't move the model, and raises `ValueError: DistributedDataParallel device_ids ... only
    work with ... GPU modules`. `DataParallel` copies the model from its first device to the others, and with two GPUs
    raises `RuntimeError: module must have its parameters and buffers on device cuda:0`.

    ## Example
    ```python
    import torch
    from torch import nn

    model = nn.DataParallel(nn.Linear(2, 2))
    out = model(torch.zeros(4, 2).cuda())
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    model = nn.DataParallel(nn.Linear(2, 2).cuda())
    out = model(torch.zeros(4, 2).cuda())
    ```

    ## Fix safety
    Unsafe: the model then is on the accelerator, and code that takes it to be on the host has to follow. Not offered in a
    file that never names an accelerator.

    ## References
    - [torch.nn.parallel.DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    - [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
    - [pytorch/pytorch 100243](https://github.com/pytorch/pytorch/issues/100243)
    """

    code = "DEV402"
    name = "wrapped-before-move"
    effect = Effect(
        raises="RuntimeError", words="module must have its parameters and buffers on device cuda:0", devices=2
    )
    fix = "U"

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        wrapping = wrapping_by(node, facts)
        if wrapping is None:
            return
        called, given, found = wrapping
        wrapper = next((v for _, v in facts.value(node).alternatives()), None)
        if wrapper is None or not wrapper.elements or _places_by_default(facts):
            return
        story = _story(called, wrapper.elements[0], given, found, facts)
        if story is None:
            return
        models = [v for _, v in facts.value(given.value).alternatives()]
        yield Report(
            node,
            f"`{facts.name_of(given.value)}` is {story.what}",
            "certain" if story.certain and not any(v.likely for v in models) else "likely",
            notes=(*facts.notes(models[0].trail), *facts.notes(story.steps)),
            # What was made of somebody else's model may be where that is; and where nothing speaks of a GPU, the program
            # runs without one, and DataParallel does nothing.
            change=None
            if not story.certain and (_is_of_a_parameter(given, facts) or "cuda" not in facts.text.text)
            else Change("move the model first", "unsafe", ((given, _moved(given, found, facts)),)),
        )


class _Story(NamedTuple):
    """What is wrong with a model and its wrapper, and where it comes out."""

    what: str
    certain: bool = True
    steps: tuple[Step, ...] = ()


def _story(called: str, ids: Value, given: cst.Arg, found: ast.Call, facts: Facts) -> _Story | None:
    models = [v for _, v in facts.value(given.value).alternatives()]
    stays = all(_is_on_host(v, facts) for v in models)
    may_move = _is_handed_out(given, found, facts) or _is_made_of_moved(given, facts)
    if stays and not may_move and not _is_moved_by_method(given, found, facts):
        if called == DISTRIBUTED and _names_devices(ids):
            return _Story("still on cpu, and DistributedDataParallel with `device_ids` doesn't move it: ValueError")
        if called == DATA_PARALLEL and (steps := _calls_on_host(found, facts)):
            when = "on cpu when the DataParallel around it is called"
            return _Story(f"{when}: RuntimeError with two GPUs or more", certain=False, steps=steps)
    first = _first(ids, called)
    if first and all(_is_elsewhere(v, first) for v in models):
        return _Story(
            f"on {models[0].place}, and the wrapper's first device is {first}: RuntimeError when it is called"
        )
    return None


def _is_of_a_parameter(given: cst.Arg, facts: Facts) -> bool:
    """Whether a model is one that the function is given, or is made of such things."""
    node = facts.node(given.value)
    scope = facts.scope
    if node is None or scope is None:
        return False
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    names += [
        n
        for name in names
        for value in facts.model.assigned_values(name)
        for n in ast.walk(value)
        if isinstance(n, ast.Name)
    ]
    return bool({n.id for n in names} & {a.arg for a in scope.parameters} - {"self"})


def _moved(given: cst.Arg, found: ast.Call, facts: Facts) -> cst.Arg:
    """The argument, moved to the wrapper's first device."""
    target = _target(found, facts)
    method = cst.Attribute(_with_brackets(given.value), cst.Name("to" if target else "cuda"))
    return given.with_changes(value=cst.Call(method, [cst.Arg(cst.parse_expression(target))] if target else []))


def _with_brackets(model: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(model, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or model.lpar:
        return model
    return model.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _target(found: ast.Call, facts: Facts) -> str:
    """The first of the `device_ids` as code; "" for the current device."""
    ids = next(
        (k.value for k in found.keywords if k.arg == "device_ids"), found.args[1] if len(found.args) > 1 else None
    )
    match ids:
        case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]):
            return facts.code_of(first)
        case ast.Name() | ast.Attribute():
            return f"{facts.code_of(ids)}[0]"
    return ""


def _places_by_default(facts: Facts) -> bool:
    """Something decides where models are made, or that there are no GPUs."""
    return (
        re.search(r"set_default_(?:device|tensor_type)|with\s+torch\.device|CUDA_VISIBLE_DEVICES", facts.text.text)
        is not None
    )


def _is_on_host(model: Value, facts: Facts) -> bool:
    """A module that was made on the host and that nothing was seen to move.

    One whose class holds nothing but what it was given is where that is.
    """
    if model.kind is not Kind.MODULE or model.place != HOST or model.site in ("", "self"):
        return False
    if model.cls is None:
        # Any of its parts may be elsewhere.
        return all(_is_on_host(part, facts) for part in model.elements or () if part.is_module)
    if not facts.model.holds_state(model):
        return False
    constructors = [c.methods["__init__"] for c in model.cls.project_lineage() if "__init__" in c.methods]
    return not any(re.search(r"cuda|device|\.to\(", ast.unparse(c.node)) for c in constructors)


def _names_devices(ids: Value) -> bool:
    """A list that surely isn't None, and isn't empty."""
    return ids.kind is Kind.SEQUENCE and bool(ids.elements)


def _first(ids: Value, called: str) -> str:
    """The wrapper's first device as `cuda:0`, where it is known and there are others beside it that matter."""
    if called == DATA_PARALLEL and ids == NONE:
        return "cuda:0"
    if ids.kind is not Kind.SEQUENCE or not ids.elements or (called == DATA_PARALLEL and len(ids.elements) == 1):
        # With one device DataParallel moves the model itself.
        return ""
    first = ids.elements[0].constant
    if isinstance(first, int) and not isinstance(first, bool):
        return f"cuda:{first}"
    place = parse_device(first) if isinstance(first, str) else None
    return place.name if place is not None and ":" in place.name else ""


def _is_elsewhere(model: Value, first: str) -> bool:
    """On another GPU, both known by their numbers."""
    place = model.place
    return model.kind is Kind.MODULE and place.sort is Sort.ACCELERATOR and ":" in place.name and place.name != first


def _is_handed_out(given: cst.Arg, wrap: ast.Call, facts: Facts) -> bool:
    """A function that can't be looked into had the model before, and may have moved it."""
    model = facts.node(given)
    if not isinstance(model, (ast.Name, ast.Attribute)):
        return False
    text = ast.unparse(model)
    for call in own_nodes(facts.model.enclosing_scope(wrap)):
        if not isinstance(call, ast.Call) or call is wrap or call.lineno > wrap.lineno:
            continue
        arguments = [*call.args, *(k.value for k in call.keywords)]
        if any(ast.unparse(a) == text for a in arguments):
            name = facts.model.value(call.func)
            if name.kind is not Kind.FUNCTION and not name.name.startswith(("torch.", "builtins.", "copy.")):
                return True
    return False


def _is_moved_by_method(given: cst.Arg, wrap: ast.Call, facts: Facts) -> bool:
    """Whether an object moves its model in a method that it has called before it wraps: `self.device()`."""
    model = facts.node(given.value)
    cls = facts.model.source.class_of(wrap)
    if cls is None or not isinstance(model, ast.Attribute):
        return False
    asked = {
        n.func.attr
        for n in own_nodes(facts.model.enclosing_scope(wrap))
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and ast.unparse(n.func.value) == "self"
        and n.lineno < wrap.lineno
    }
    moving = re.compile(rf"{re.escape(ast.unparse(model))}\.(?:to|cuda)\(")
    methods = (m for m in cls.body if isinstance(m, ast.FunctionDef) and m.name in asked)
    return any(moving.search(ast.unparse(method)) is not None for method in methods)


def _is_made_of_moved(given: cst.Arg, facts: Facts) -> bool:
    """Whether a model was made around another one that was moved: `Wrapped(model)` after `model = setup().cuda()`."""
    model = facts.node(given)
    made = facts.model.assigned_values(model) if isinstance(model, ast.Name) else ()
    names = {a.id for m in made if isinstance(m, ast.Call) for a in m.args if isinstance(a, ast.Name)}
    return any(
        re.search(rf"(?m)\b{name}(?:[ \t]*=[^=\n].{{0,200}})?\.(?:cuda|to)\(", facts.text.text) for name in names
    )


def _calls_on_host(wrap: ast.Call, facts: Facts) -> tuple[Step, ...]:
    """The first call of the wrapper with its model on the host, where the wrapper is a variable of one function."""
    target = _variable(wrap, facts)
    if target is None:
        return ()
    scope = facts.model.enclosing_scope(wrap)
    for happening in facts.model.happenings("called", wrap):
        if happening.place == HOST and not _reads_global(happening.step.line, target, scope, facts):
            return (happening.step,)
    return ()


def _variable(wrap: ast.Call, facts: Facts) -> str | None:
    """The plain name that the wrapper, or what a method of it returns, is assigned to."""
    for parent in facts.model.ancestors(wrap):
        if isinstance(parent, ast.Assign):
            target = parent.targets[0]
            return target.id if len(parent.targets) == 1 and isinstance(target, ast.Name) else None
        if not isinstance(parent, (ast.Attribute, ast.Call, ast.IfExp)):
            return None
    return None


def _reads_global(line: int, name: str, scope: ast.AST, facts: Facts) -> bool:
    """A function uses a variable of the top level: it may have been moved by the time that the function runs."""
    if not isinstance(scope, ast.Module):
        return False
    around = [
        n
        for n in ast.walk(scope)
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.lineno <= line <= (n.end_lineno or n.lineno)
    ]
    return bool(around) and not any(name == a.arg for f in around for a in facts.model.source.function_at(f).parameters)
