"""DEV401: a method or attribute that a parallel wrapper hasn't got."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from devlint.facts import Kind, access_path, is_test, own_nodes, walk
from devlint.knowledge import torch_knowledge
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.dev607 import has_no_device, of_first_parameter
from devlint_rules.guards import expects_missing, is_unwrapped_beside
from devlint_rules.wrappers.unwrapping import class_of, unwrapped, wrap_notes

if TYPE_CHECKING:
    from devlint.facts import Facts, Missing, Value


class MissingModuleAttribute(Rule):
    """A method or attribute that a parallel wrapper doesn't have.

    ## What it does
    Flags methods and attributes of your own class that are used on a `DataParallel` or `DistributedDataParallel`
    object, also if the model is wrapped on some paths only (`if torch.cuda.device_count() > 1:`), in another
    function, or in another file. What the wrapper has itself, `nn.Module`'s own interface, and code under a guard
    (`isinstance`, `hasattr`, `getattr(model, "module", model)`, `except AttributeError`) are left alone.
    What tests ask of a model that is wrapped on some paths only is reported if you select the rule by its code.

    ## Why is this bad
    A wrapper is an `nn.Module` around your model, and only passes `forward` on. Anything else raises
    `AttributeError: 'DataParallel' object has no attribute ...`, and it does so only on the machine with two GPUs.

    ## Example
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(x)

        def freeze(self):
            self.requires_grad_(False)


    model = nn.DataParallel(Net())
    model.freeze()
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(x)

        def freeze(self):
            self.requires_grad_(False)


    model = nn.DataParallel(Net())
    model.module.freeze()
    ```

    ## Fix safety
    Safe if the model is always wrapped: `.module` is inserted. If it is wrapped on some paths only, the fix is
    `getattr(model, "module", model)`, which leaves a bare model as it is. That is unsafe, since most projects keep the bare model under a
    name of its own. Not offered if another file decides whether the model is wrapped, if a scope would need it more than once, or if the
    call trains a model wrapped by DistributedDataParallel: past the wrapper, gradients aren't averaged. If a model is wrapped on some
    paths, all uses are mended, or none.

    ## References
    - [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
    - [pytorch/pytorch 43329](https://github.com/pytorch/pytorch/issues/43329)
    """

    code = "DEV401"
    name = "missing-module-attribute"
    # In code, not in prose: called, imported, or named in an annotation or a check.
    trigger = r"DataParallel\s*[(),\]:|]|DataParallel\s+as\b|import\s[^\n]{0,300}DataParallel|accelerator\.prepare\("
    event = "missing-attribute"
    effect = Effect(raises="AttributeError", words="'DataParallel' object has no attribute 'freeze'")
    fix = "S/U"

    def shape(self) -> m.BaseMatcherNode:
        return m.Attribute()

    def judge(self, node: cst.Attribute, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        if not isinstance(found, ast.Attribute) or not _is_told(found, facts):
            return
        missing = facts.model.missing[found]
        wrapper = class_of(missing.wrapper)
        subject = facts.name_of(node.value)
        when = (
            f"`{subject}` is a {wrapper} on some paths, and that"
            if missing.sometimes
            else f"`{subject}` is a {wrapper}, which"
        )
        model = missing.wrapper.inner
        bare_too = model is not None and found.attr == "device" and has_no_device(model, facts)
        change = of_first_parameter(node, [model]) if model and bare_too else _unwrapped(node, found, missing, facts)
        first, *others = _told_at_once(found, facts) if change is None and missing.sometimes else [found]
        others = others if found is first else []
        yield Report(
            node,
            f"{when} has no attribute `{node.attr.value}`: AttributeError when it is reached",
            "likely" if missing.wrapper.likely or missing.sometimes else "certain",
            notes=(
                *facts.notes(missing.wrapper.trail),
                *(facts.note("asked for what it lacks here too", o) for o in others),
            ),
            hint="the wrapped model has none either"
            if bare_too
            else None
            if change
            else _hint(missing, found.attr, subject),
            change=change,
            # A test that takes several ways is run with each of them.
            minor=found is not first
            or (missing.sometimes and wrapper == "DistributedDataParallel" and _is_of_one_process(missing, facts))
            or (missing.sometimes and is_test(Path(facts.path)) and _TESTS.search(facts.text.text) is not None),
        )


# What starts several processes, or says who does: without any of it, DistributedDataParallel raises when it is made.
_STARTING = (
    r"init_process_group|init_dist|initialize_dist|setup_dist|torchrun|distributed\.(?:run|launch)|mpirun|SLURM|slurm|submitit|torch_xla"
    r"|(?:from|import)\s+(?:accelerate|deepspeed|horovod|ignite|lightning|pytorch_lightning|ray|transformers)\b"
)


def _is_of_one_process(missing: Missing, facts: Facts) -> bool:
    """Whether nothing starts several processes; or a program says no word of them, and another file wraps what it is given where there are some."""
    if not facts.model.texts_match(_STARTING):
        return True
    notes = wrap_notes(missing.wrapper, facts)
    elsewhere = bool(notes) and all(note.path != facts.path for note in notes)
    return elsewhere and "__name__" in facts.text.text and _SEVERAL.search(facts.model.source.without_comments) is None


_SEVERAL = regex(r"(?i)dist|launch|ddp|parallel|rank|slurm|accelerat|nproc|world|fabric|trainer")


# A script that evaluates is called `test_few_shot.py` too.
_TESTS = regex(r"\bdef test_|\bunittest\b")


def _is_told(found: ast.Attribute, facts: Facts) -> bool:
    """Whether a wrapper is asked for what it lacks, and the code around isn't ready for that."""
    missing = facts.model.missing.get(found)
    if missing is None or expects_missing(found, found.attr, facts) or is_unwrapped_beside(found, facts):
        return False
    if (
        _is_set(found, missing, facts)
        or _is_of_other_class(found, missing.wrapper.name, facts)
        or _is_chosen_with_wrapper(found, missing, facts)
    ):
        return False
    inner = missing.wrapper.inner
    if inner is not None and (inner.kind in (Kind.OPTIMIZER, Kind.SCHEDULER) or _computes_nothing(inner)):
        # DEV405's matter: there is no model to unwrap.
        return False
    if found.attr in _OF_SEVERAL_DEVICES and isinstance(found.value, ast.Name):
        return False
    return not _is_either_way_bare(found, facts) and not _runs_before_wrap(found, missing, facts)


def _is_set(found: ast.Attribute, missing: Missing, facts: Facts) -> bool:
    """Whether the same class, or function, gives the wrapper that attribute itself: `self.parallel.features = DataParallel(self.net.features)`."""
    asked, source = access_path(found), facts.model.source
    wrapped = [step.line for step in missing.wrapper.trail if step.path == source.path]
    around = source.class_of(found) or facts.model.enclosing_scope(found)
    return asked is not None and any(
        isinstance(n, ast.Attribute)
        and n.attr == found.attr
        and isinstance(n.ctx, ast.Store)
        and n.lineno > max(wrapped, default=0)
        and access_path(n) == asked
        for n in walk(around)
    )


def _computes_nothing(model: Value) -> bool:
    """Whether a module has no `forward`, as an optimizer that is one: without parameters `prepare` wraps it in nothing."""
    cls = model.cls
    return (
        cls is not None
        and cls.method("forward") is None
        and set(cls.outside_bases) <= {"torch.nn.Module"}
        and (cls.method("step") is not None)
    )


def _is_of_other_class(found: ast.Attribute, wrapper: str, facts: Facts) -> bool:
    """Whether a test around says that it is of a class which isn't the wrapper's: `if isinstance(model, FSDP):`."""
    owner = ast.unparse(found.value)
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.If(test=test, body=body) if child in body:
                held = [test]
            case ast.IfExp(test=test, body=body) if child is body:
                held = [test]
            case ast.BoolOp(op=ast.And(), values=values) if child in values:
                held = values[: values.index(child)]
            case _:
                held = []
        parts = (part for test in held for part in (test.values if _is_conjunction(test) else [test]))
        if any(_names_other_class(part, owner, wrapper, facts) for part in parts):
            return True
        child = parent
    return False


def _is_conjunction(test: ast.expr) -> TypeGuard[ast.BoolOp]:
    return isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)


def _names_other_class(test: ast.expr, owner: str, wrapper: str, facts: Facts) -> bool:
    """`isinstance(owner, T)` for classes none of which may be a wrapper's, or every module's."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[thing, types]) if ast.unparse(thing) == owner:
            classes = types.elts if isinstance(types, (ast.Tuple, ast.List)) else [types]
            names = [facts.model.qualified(c) or ast.unparse(c) for c in classes]
            return not any(_MAY_WRAP.search(name) or name == wrapper for name in names)
    return False


# Both of these, and tuples of them under names of one's own.
_MAY_WRAP = regex(
    r"\bDataParallel$|DistributedDataParallel$|\bDDP$|\bDP$|\bModule$|\bobject$|[Ww]rap|parallel(?!\.\w)|PARALLEL|^[A-Z_]+$"
)


def _is_of_another_wrapper(attribute: str, missing: Missing) -> bool:
    """Whether it is another wrapper's own, which the model that is wrapped hasn't either: `model.no_sync()`."""
    others = (known for name, known in torch_knowledge().wrappers.items() if name != missing.wrapper.name)
    return any(attribute in known for known in others)


def _is_chosen_with_wrapper(found: ast.Attribute, missing: Missing, facts: Facts) -> bool:
    """Whether it is asked where another wrapper is chosen: `if args.fsdp: model.clip_grad_norm_(1)`."""
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.If(test=test, body=body) if child in body and missing.sometimes:
                if _OTHER_WRAPPERS.search(_flags_of(test)):
                    return True
        child = parent
    return False


def _flags_of(test: ast.expr) -> str:
    """The text of a test that asks for a setting to be on; "" for another one."""
    return ast.unparse(test) if isinstance(test, (ast.Name, ast.Attribute, ast.Compare)) else ""


_OTHER_WRAPPERS = regex(r"(?i)fsdp|fully_?shard|deepspeed|horovod")


def _hint(missing: Missing, attribute: str, subject: str) -> str:
    if _is_of_another_wrapper(attribute, missing):
        return "the wrapped model has none either: it is another wrapper's own"
    if not missing.sometimes:
        return f"the model that it wraps is asked by `{subject}.module.{attribute}`"
    return f'keep the bare model under a name of its own where it is wrapped, or ask `getattr({subject}, "module", {subject})`'


# DistributedDataParallel had them up to torch 1.10, for several devices a process: what asks for them is for those releases.
_OF_SEVERAL_DEVICES = frozenset({"parallel_apply", "_module_copies"})


def _is_either_way_bare(found: ast.expr, facts: Facts) -> bool:
    """Whether something is `model.module` on one path and `model` on the other: who wrote that knows when it is wrapped.

    A name that is given both, or what a function gives that returns both.
    """
    match found:
        case ast.Attribute(value=ast.Name() as name):
            values = facts.model.assigned_values(name)
        case ast.Attribute(value=ast.Call() as call):
            values = _returned_by(call, facts)
        case _:
            return False
    given = {ast.unparse(value) for value in values}
    return any(text.endswith(".module") and text.removesuffix(".module") in given for text in given)


def _returned_by(call: ast.Call, facts: Facts) -> list[ast.expr]:
    """What a function of the project returns that is called, or one that is defined beside the call."""
    called = facts.model.callee(call)
    nodes = [] if called is None else called.function.nodes
    if called is None and isinstance(call.func, ast.Name):
        beside = (n for n in own_nodes(facts.model.enclosing_scope(call)) if isinstance(n, ast.FunctionDef))
        nodes = [n for function in beside if function.name == call.func.id for n in own_nodes(function)]
    return [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]


def _runs_before_wrap(found: ast.expr, missing: Missing, facts: Facts) -> bool:
    """Whether a method is called by the one that wraps, before it does: `self.load()`, and then `self.net = DDP(self.net)`."""
    scope = facts.model.enclosing_scope(found)
    cls = facts.model.source.class_of(scope)
    if cls is None or isinstance(scope, ast.Module):
        return False
    lines = [n.line for n in wrap_notes(missing.wrapper, facts) if n.path == facts.model.source.path]
    return any(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == scope.name
        and ast.unparse(call.func.value) == "self"
        and call.lineno < line
        for method in cls.body
        for line in lines
        if method.lineno <= line <= (method.end_lineno or 0) and method is not scope
        for call in ast.walk(method)
    )


# A file has words of its own for bare models, or an engine in their place.
_OF_ENGINES = regex(r"\bunwrap_model\(|\bdeepspeed\.initialize\b")


def _is_told_more(found: ast.Attribute, facts: Facts) -> bool:
    """Whether the same scope sets attributes of the wrapper itself: whoever wrote that takes it for the bare model there."""
    path = ast.unparse(found.value)
    return any(
        isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and ast.unparse(n.value) == path
        for n in own_nodes(facts.model.enclosing_scope(found))
    )


def _unwrapped(node: cst.Attribute, found: ast.Attribute, missing: Missing, facts: Facts) -> Change | None:
    if not all(_is_unwrappable(other, facts) for other in _mended_with(found, facts)):
        # What is mended in half is still to be mended, by other means: the rest tells which.
        return None
    if missing.sometimes and (_OF_ENGINES.search(facts.text.text) or _is_asked_untold(found, facts)):
        # What another library makes of a model has attributes of its own, and a `module` too. The file has words of its own for that, or the same is asked where nobody knows who asks: it is unwrapped where it is handed over.
        return None
    title = (
        "unwrap it first: the wrapped model is its `.module`"
        if missing.sometimes
        else "insert `.module`: the wrapped model is there"
    )
    model = unwrapped(node.value, found, facts, sometimes=missing.sometimes)
    return Change(title, "unsafe" if missing.sometimes else "safe", ((node, node.with_changes(value=model)),))


def _is_asked_untold(found: ast.Attribute, facts: Facts) -> bool:
    """Whether the file asks a model of the same name for the same elsewhere, and nothing tells of it."""
    said = ast.unparse(found)
    return any(
        isinstance(n, ast.Attribute)
        and n.attr == found.attr
        and n not in facts.model.missing
        and ast.unparse(n) == said
        and not expects_missing(n, n.attr, facts)
        for n in walk(facts.model.source.tree)
    )


def _mended_with(found: ast.Attribute, facts: Facts) -> list[ast.Attribute]:
    """What is asked of the same wrapper, where it is one on some paths only: all of it wants the same remedy."""
    missing = facts.model.missing
    origin = wrap_notes(missing[found].wrapper, facts)
    beside = [other for other, lacking in missing.items() if wrap_notes(lacking.wrapper, facts) == origin]
    return [n for n in beside if _is_told(n, facts)] if any(missing[n].sometimes for n in beside) else [found]


def _told_at_once(found: ast.Attribute, facts: Facts) -> list[ast.Attribute]:
    """What is asked of the same wrapper, in reading order: where a name for the bare model mends it all, the first speaks for the rest."""
    return sorted(_mended_with(found, facts), key=lambda n: (n.lineno, n.col_offset))


def _is_unwrappable(found: ast.Attribute, facts: Facts) -> bool:
    """Whether `.module` is what is wanted where a wrapper is asked."""
    missing = facts.model.missing[found]
    if _is_told_more(found, facts):
        return False
    if get_close_matches(found.attr, ["module"]):
        # `model.moduel`: it is unwrapped there, and misspelt.
        return False
    if _is_of_another_wrapper(found.attr, missing):
        return False
    if missing.sometimes and (
        any(note.path != facts.model.source.path for note in wrap_notes(missing.wrapper, facts))
        or _asks_often(found, facts)
    ):
        # What another file decides may never come here wrapped; what is asked for often should have a name of its own.
        return False
    # Past the wrapper, gradients aren't averaged.
    return class_of(missing.wrapper) != "DistributedDataParallel" or not _trains(found, facts)


def _asks_often(found: ast.expr, facts: Facts) -> bool:
    """Whether the same scope asks a wrapped model for what it lacks more than once."""
    return sum(node in facts.model.missing for node in own_nodes(facts.model.enclosing_scope(found))) > 1


_TRAINING = regex(r"backward\(|train|loss")


def _trains(found: ast.expr, facts: Facts) -> bool:
    """Whether an attribute is a method that is given what may be tensors, in code that trains, going by its words."""
    call = next(facts.model.ancestors(found), None)
    if not isinstance(call, ast.Call) or call.func is not found:
        return False
    scope = facts.model.enclosing_scope(found)
    code = ast.unparse(call) if isinstance(scope, ast.Module) else facts.code_of(scope)
    given = [facts.model.value(argument) for argument in (*call.args, *(k.value for k in call.keywords))]
    return _TRAINING.search(code) is not None and any(
        v.is_tensor or v.kind in (Kind.BATCH, Kind.UNKNOWN) for value in given for _, v in value.alternatives()
    )
