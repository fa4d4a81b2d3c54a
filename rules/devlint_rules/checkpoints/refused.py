"""What `torch.load` refuses since PyTorch 2.6, wherever it is loaded to: a checkpoint that holds more than tensors and plain data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, last_name, own_nodes
from devlint.knowledge.unpickled import REFUSED, REFUSED_PACKAGES, SAYS_BEFORE_2_6
from devlint.lazy import regex
from devlint_rules.checkpoints.uses import uses_of
from devlint_rules.checkpoints.writers import SAVING, keys_asked, parts_of, writes_in
from devlint_rules.checkpoints.written import Write

if TYPE_CHECKING:
    from devlint.facts import Facts


def is_refused(call: ast.Call, facts: Facts) -> str:
    """The key of what is refused in the file that a call loads, going by what the project writes or asks of it; "" where nothing is.

    Nothing is where `weights_only` is given, or the project says which classes are safe, or that it is for older releases.
    """
    if any(k.arg == "weights_only" for k in call.keywords):
        return ""
    found = _asked_as_object(call, facts) or _written_as_object(call, facts)
    if not found or facts.model.papers_match(SAYS_BEFORE_2_6):
        return ""
    allowed = _ALLOWING.search(facts.text.text) or facts.model.texts_match(_ALLOWING.pattern, elsewhere=True)
    return "" if allowed else found


_ALLOWING = regex(r"\bsafe_globals\b|\badd_safe_globals\b|TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD|\btorch\.load\s{0,3}=")


# -- what is asked of it -----------------------------------------------------------------------------------------------

# Under these keys lie the settings of a run.
_SETTINGS = regex(r"(?i)(?:\w{0,20}_)?(?:args?|opts?|options|flags|config|cfg|conf|hparams|hps|settings)")


def _asked_as_object(call: ast.Call, facts: Facts) -> str:
    """The key of settings that are asked for an attribute, which neither a dict nor a list of those has: `saved["args"].width`."""
    for use in uses_of(call, facts):
        match next(facts.model.ancestors(use), None):
            case ast.Subscript(value=value, slice=ast.Constant(value=str() as key)) as part if value is use:
                if _SETTINGS.fullmatch(key) and any(_is_object(each, facts) for each in _names_of(part, facts)):
                    return key
    return ""


def _names_of(part: ast.Subscript, facts: Facts) -> Iterator[ast.expr]:
    """A part of what is loaded, and each use of the one name that it is assigned to."""
    yield part
    match next(facts.model.ancestors(part), None):
        case ast.Assign(targets=[ast.Name(id=name)]):
            nodes = own_nodes(facts.model.enclosing_scope(part))
            yield from (n for n in nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load))


def _is_object(part: ast.expr, facts: Facts) -> bool:
    match next(facts.model.ancestors(part), None):
        case ast.Attribute(value=value, attr=attr):
            return value is part and not hasattr(dict, attr) and not hasattr(list, attr)
        case ast.Call(func=ast.Name(id="vars"), args=[value]):
            return value is part
    return False


# -- what is written ---------------------------------------------------------------------------------------------------


def _written_as_object(call: ast.Call, facts: Facts) -> str:
    """The key of an object in all that the project writes with the keys that are asked of what a call loads."""
    keys = keys_asked(call, facts)
    if not keys:
        return ""
    own = list(writes_in(facts.model))
    found = [*own, *(w for model in facts.model.files_matching(SAVING) for w in writes_in(model))]
    objects = [
        next((key for key, part in parts.items() if _is_refused(part, each)), "")
        for write in found
        for each in (write, *_of_callers(write))
        if keys <= (parts := parts_of(each)).keys()
    ]
    return objects[0] if objects and all(objects) else ""


def _of_callers(write: Write) -> Iterator[Write]:
    """What callers give to a function that writes what it is given: `save_checkpoint({"net": net.state_dict()}, path)`."""
    scope = write.model.enclosing_scope(write.call)
    if not isinstance(write.value, ast.Name) or isinstance(scope, ast.Module):
        return
    for model, call in write.model.calls_in_sight(scope):
        called = model.callee(call)
        given = called.given(call).get(write.value.id) if called is not None else None
        if given is not None:
            yield write._replace(value=given, model=model)


# What a parser of arguments gives is called so.
_PARSED = frozenset({"args", "opt", "opts", "options", "flags", "FLAGS"})
_CONFIGURED = frozenset({"cfg", "config", "conf", "hparams", "hps"})


def _is_refused(part: ast.expr, write: Write) -> bool:
    model = write.model
    match part:
        case ast.Name() | ast.Attribute() if last_name(part) in _PARSED:
            return model.texts_match(r"\.parse_(?:known_)?args\(")
        case ast.Name() | ast.Attribute() if last_name(part) in _CONFIGURED:
            return model.texts_match(rf"(?m)^[ \t]*(?:import|from)[ \t]+(?:{'|'.join(REFUSED_PACKAGES)})\b")
        case ast.Call(func=func) if (name := model.qualified(func)) is not None:
            return name in REFUSED
        case ast.Dict(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
            return any(_is_refused(each, write) for each in parts)
    return all(value.kind in _REFUSED_KINDS for _, value in model.value(part).alternatives())


_REFUSED_KINDS = frozenset(
    {Kind.NDARRAY, Kind.OPTIMIZER, Kind.SCHEDULER, Kind.MODULE, Kind.WRAPPER, Kind.CLASS, Kind.FUNCTION}
)
