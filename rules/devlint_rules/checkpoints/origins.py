"""Who wrote the file that a call loads: tensors that come back to where they were, or that were on the host, need no device."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from devlint.facts import calls_in, is_setting, last_name, own_nodes, units_at, walk
from devlint.lazy import regex
from devlint_rules.checkpoints.caches import is_cache
from devlint_rules.checkpoints.files import ANY, WRITING, numbered, path_of, writes
from devlint_rules.checkpoints.told import is_told_to_host
from devlint_rules.checkpoints.values import entered_as, given_to, imported_values, makers_of, values_of
from devlint_rules.checkpoints.writers import is_written_from_host, texts_in

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel

# They download a checkpoint and hand `map_location`, their third argument, on to torch.load.
DOWNLOADS = frozenset({"torch.hub.load_state_dict_from_url", "torch.utils.model_zoo.load_url"})


def is_own(call: ast.Call, first: int, facts: Facts) -> bool:
    """Whether what a call loads was written by this program, or by makers who wrote it for everybody.

    `first` is the position of the file among the arguments.
    """
    # Each load of a file is asked beside each other one.
    known = _known_of(facts.model)
    if (call, first) not in known:
        known[call, first] = _is_own(call, first, facts)
    return known[call, first]


@lru_cache(maxsize=1)
def _known_of(model: PlacementModel) -> dict[tuple[ast.Call, int], bool]:
    """What is known of the loads of a file."""
    return {}


def _is_own(call: ast.Call, first: int, facts: Facts) -> bool:
    if len(call.args) <= first:
        return False
    file = call.args[first]
    if any(v.name == "io.BytesIO" for _, v in facts.model.value(file).alternatives()) or _is_temporary(file, facts):
        return True
    if isinstance(file, ast.Name) and any(facts.model.qualified(v) == "io.BytesIO" for v in makers_of(file, facts)):
        return True
    if is_cache(call, file, facts) or _ships_with_the_code(file, facts) or _is_published(call, file, facts):
        return True
    texts = texts_in([file, *values_of(file, facts)])
    if _is_of_rank(file, facts) or is_written_from_host(call, file, texts, facts):
        return True
    if _is_written_before(call, file, facts) or _is_on_the_host(file, facts):
        return True
    # The last ones go through other files.
    return is_told_to_host(texts, facts) or _is_kept_from_run(file, facts)


def _is_of_rank(file: ast.expr, facts: Facts) -> bool:
    """Whether each process, or each device, has a file of its own: the one that reads it wrote it, on the device that it has."""
    parts = [n for value in (file, *values_of(file, facts)) for n in walk(value)]
    owners = {id(n.value) for n in parts if isinstance(n, ast.Attribute)}
    names = (n for n in parts if isinstance(n, (ast.Name, ast.Attribute)) and id(n) not in owners)
    return any(_RANK.fullmatch(last_name(n)) for n in names)


_RANK = regex(r"(?:get_)?(?:local_|global_)?rank|device|DEVICE")


# -- what this program wrote -------------------------------------------------------------------------------------------


def _is_written_before(call: ast.Call, file: ast.expr, facts: Facts) -> bool:
    """Whether the same run wrote the file, or had it written: `early_stopping(loss, model, path)`, `path = prepare(data)`."""
    scope = facts.model.enclosing_scope(call)
    before = [
        n
        for n in own_nodes(scope)
        if isinstance(n, ast.Call) and n.lineno < call.lineno and not _is_in_other_branch(n, call, facts)
    ]
    if any(writes(n, file) or _writes_one_of(n, file, facts) for n in before) or _is_given_by_writer(file, facts):
        return True
    if _is_of_turn_before(file, facts) and any(_writes_one_of(n, file, facts) for n in calls_in(scope)):
        return True
    if _is_best_of_run(file, facts) and any(last_name(n.func) in _TRAINING for n in before):
        return True
    parts = {n.id for value in (file, *values_of(file, facts)) for n in walk(value) if isinstance(n, ast.Name)}
    if any(_EXPORTING.match(last_name(n.func)) and _is_handed(n, "", parts) for n in before):
        return True
    if isinstance(file, ast.Constant) and any(_is_told(n, file) for n in before):
        return True
    if _is_written_by_callees(before, file, facts) or _is_written_by_callers(scope, file, facts):
        return True
    model = _loaded_into(call, facts)
    return model is not None and (
        any(_is_handed(n, ast.unparse(model), parts) and not _MAKING.match(last_name(n.func)) for n in before)
        or _is_kept_by_one_told(before, ast.unparse(model), file, facts)
    )


def _is_kept_by_one_told(before: list[ast.Call], model: str, file: ast.expr, facts: Facts) -> bool:
    """`stopping = EarlyStopping(path)`, and then `stopping(loss, model)`: what was told the file is handed the model."""
    path = ast.unparse(file)
    told = (n for n in before if any(ast.unparse(g) == path for g in given_to(n)))
    keepers = {
        ast.unparse(s.targets[0])
        for n in told
        for s in [facts.model.source.statement_of(n)]
        if isinstance(s, ast.Assign)
    }
    return any(
        ast.unparse(n.func).split(".")[0] in keepers and any(ast.unparse(g) == model for g in given_to(n))
        for n in before
    )


def _is_best_of_run(file: ast.expr, facts: Facts) -> bool:
    """`checkpoint.best_model_path`: where a trainer's callback says that it has put what a run brought."""
    return any(
        isinstance(n, ast.Attribute) and n.attr in _OF_RUN for v in (file, *values_of(file, facts)) for n in walk(v)
    )


def _is_kept_from_run(file: ast.expr, facts: Facts) -> bool:
    """Whether an object keeps of a run what the trainer's callback said, and has it from there alone: `self._best_path = checkpoint.best_model_path`."""
    match file:
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            kept = rf"\bself\.{re.escape(attr)}[ \t]{{0,4}}(?::[^=\n]{{0,80}})?="
            of_run = rf"[ \t]{{0,4}}[\w.]{{0,80}}\.(?:{'|'.join(sorted(_OF_RUN))})\b"
            told, other = kept + of_run, rf"{kept}(?!=|[ \t]{{0,4}}None\b|{of_run})"
            return facts.model.texts_match(told) and not facts.model.texts_match(other)
    return False


_OF_RUN = frozenset({"best_model_path", "last_model_path", "best_model_checkpoint"})
_TRAINING = frozenset({"fit", "train", "tune"})


# What makes another thing of a model, such as its optimizer, writes nothing.
_MAKING = regex(r"_?(?:make|build|get|create|init|load|set|setup|resume|restore|print|count)(?:_|$)")


def _is_in_other_branch(node: ast.AST, call: ast.Call, facts: Facts) -> bool:
    """Whether a node stands in a branch that is left out where a call is reached: `if new: train(...)`, `else: load(...)`.

    In a loop another pass may have come by it.
    """
    inside = {node, *facts.model.ancestors(node)}
    around = list(facts.model.ancestors(call))
    for child, parent in zip((call, *around), around, strict=False):
        if isinstance(parent, ast.If) and parent in inside:
            other = parent.orelse if child in parent.body else parent.body
            return any(s in inside for s in other) and not _is_repeated(parent, facts)
    return False


def _is_repeated(node: ast.AST, facts: Facts) -> bool:
    """Whether a loop of its function runs a node again and again."""
    for parent in facts.model.ancestors(node):
        if isinstance(parent, _FUNCTIONS):
            return False
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
            return True
    return False


def _is_told(call: ast.Call, file: ast.Constant) -> bool:
    """`Pretrain("test.pt", "test.txt")`: what was told the same name made the file, where nothing else does."""
    return "load" not in last_name(call.func) and any(
        isinstance(g, ast.Constant) and g.value == file.value for g in given_to(call)
    )


_EXPORTING = regex(r"_?(?:save|convert|export|dump|write)(?:_|$)")


def _is_given_by_writer(file: ast.expr, facts: Facts) -> bool:
    """`path = prepare(dataset)`, where that saves something and says where."""
    made = facts.model.assigned_values(file) if isinstance(file, ast.Name) else [file]
    called = [facts.model.callee(value) for value in made if isinstance(value, ast.Call)]
    return bool(called) and all(
        c is not None and any(isinstance(n, ast.Call) and last_name(n.func) == "save" for n in c.function.nodes)
        for c in called
    )


def _is_written_by_callees(before: list[ast.Call], file: ast.expr, facts: Facts) -> bool:
    """Whether a function of the file that is called before has saved what is loaded, under the same path as code: a setting's, or a text's."""
    paths = _paths_of(file, facts)
    if not _means_one_file(file, facts) or _is_given_again(file, facts):
        return False
    # Also what is handed to somebody to call: `pool.map(self.write, names)`.
    called = {
        last_name(n)
        for call in before
        for n in (call.func, *given_to(call))
        if isinstance(n, (ast.Name, ast.Attribute))
    }
    writing = [
        n
        for n in _calls_of(WRITING, facts)
        if ((to := path_of(n)) is not None and paths & _paths_of(to, facts)) or _writes_one_of(n, file, facts)
    ]
    # What is called by its name, or by that of its class, of which an object is made: `Trainer(callbacks=[Saving()])`.
    around = (scope for n in writing for scope in facts.model.ancestors(n))
    return any(isinstance(scope, (*_FUNCTIONS, ast.ClassDef)) and scope.name in called for scope in around)


def _is_written_by_callers(scope: ast.AST, file: ast.expr, facts: Facts) -> bool:
    """Whether each call of a function comes after a write to the file that it loads: `test(config)` at the end of `train(config)`.

    Or after a call of what writes it: `train(); test()`.
    """
    if not isinstance(scope, _FUNCTIONS) or not _means_one_file(file, facts):
        return False
    calls = [
        [n for n in own_nodes(model.enclosing_scope(call)) if isinstance(n, ast.Call) and n.lineno < call.lineno]
        for model, call in facts.model.calls_in_sight(scope)
    ]
    return bool(calls) and all(
        any(writes(n, file) for n in before) or _is_written_by_callees(before, file, facts) for before in calls
    )


def _paths_of(file: ast.expr, facts: Facts) -> set[str]:
    """A path as code; of an open file, that which it was opened with."""
    opened = (
        [v.args[0] for v in entered_as(file, facts) if isinstance(v, ast.Call) and v.args]
        if isinstance(file, ast.Name)
        else []
    )
    return {ast.unparse(path) for path in opened or [file]}


def _means_one_file(file: ast.expr, facts: Facts) -> bool:
    """Whether a path as code means one file wherever it stands: it has a setting or a text in it, or is a name of the top level."""
    scope = facts.model.enclosing_scope(file)
    if isinstance(file, ast.Name) and file.id in facts.model.source.bindings and isinstance(scope, _FUNCTIONS):
        local = {n.id for n in own_nodes(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        return file.id not in local | {a.arg for a in facts.model.source.function_at(scope).parameters}
    return any("." in path or "'" in path for path in _paths_of(file, facts))


def _is_given_again(file: ast.expr, facts: Facts) -> bool:
    """Whether a name of the top level is given another path too: that of a file which another run wrote."""
    if not isinstance(file, ast.Name):
        return False
    return sum(isinstance(s, ast.Assign) for s in facts.model.source.bindings.get(file.id, ())) > 1


def _is_of_turn_before(file: ast.expr, facts: Facts) -> bool:
    """Whether the turn before has written a file: `f"step_{step - 1}.pt"` where `step` isn't the first one, or in the loop over it."""
    counted = {
        n.left.id
        for n in walk(file)
        if isinstance(n, ast.BinOp)
        and isinstance(n.op, ast.Sub)
        and isinstance(n.left, ast.Name)
        and ast.unparse(n.right) == "1"
    }
    around = list(facts.model.ancestors(file))
    asked = [p.test for p in around if isinstance(p, ast.If)] + [p.target for p in around if isinstance(p, ast.For)]
    return any(isinstance(n, ast.Name) and n.id in counted for part in asked for n in walk(part))


def _writes_one_of(call: ast.Call, file: ast.expr, facts: Facts) -> bool:
    """`torch.save(x, folder + f"epoch_{i}.pt")`, of a file that is called so but for a number: the best of a run is read again."""
    to = path_of(call) if isinstance(call.func, ast.Attribute) and call.func.attr == "save" else None
    if to is None:
        return False
    read = numbered(file, facts.model)
    return ANY in read and _LETTERS.search(read) is not None and read == numbered(to, facts.model)


# The text beside a part that differs, which says which file is meant.
_LETTERS = regex(r"[^\W\d_]{2}")


def _loaded_into(call: ast.Call, facts: Facts) -> ast.expr | None:
    """`model` of `model.load_state_dict(torch.load(path))`, and of `model = torch.load(path)`."""
    match next(facts.model.ancestors(call), None):
        case ast.Call(func=ast.Attribute(value=model, attr="load_state_dict")) | ast.Assign(targets=[model]):
            return model
    return None


def _is_handed(call: ast.Call, model: str, names: set[str]) -> bool:
    """Whether a call is given a model, any where none is named, and a part of the path of its checkpoint."""
    given = given_to(call)
    is_of_model = not model or any(ast.unparse(g) == model for g in given)
    return is_of_model and any(isinstance(g, ast.Name) and g.id in names for g in given)


def _is_temporary(file: ast.expr, facts: Facts) -> bool:
    """A file that is gone with the program holds what the program put there."""
    if not isinstance(file, ast.Name) or "tempfile" not in facts.text.text:
        return False
    made = [*entered_as(file, facts), *facts.model.assigned_values(file)]
    return any(isinstance(v, ast.Call) and last_name(v.func) in _TEMPORARY for v in made)


_TEMPORARY = frozenset({"TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile"})


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _is_on_the_host(file: ast.expr, facts: Facts) -> bool:
    """Whether a script that says nothing of devices reads what it saves, or what trains and saves in such scripts reads anything."""
    if "torch.save(" not in facts.text.text:
        return False
    if any(writes(call, file) for call in _calls_of(WRITING, facts)) and facts.model.is_host_program:
        return True
    trains = ".backward(" in facts.text.text
    return trains and "." not in facts.model.source.name and facts.model.is_of_host_programs


def _calls_of(names: Collection[str], facts: Facts) -> Iterator[ast.Call]:
    """The calls of the file's text with one of some last names; nothing is modelled for them."""
    source = facts.model.source
    for unit in units_at(source, sorted({line for name in names for line in source.called_on(name)})):
        yield from (n for n in calls_in(unit.node) if last_name(n.func) in names)


# -- what others wrote -------------------------------------------------------------------------------------------------


def _is_published(call: ast.Call, file: ast.expr, facts: Facts) -> bool:
    """Whether what is loaded is published: what a download's file of code names, else what the path is made of."""
    values = [file, *values_of(file, facts), *imported_values(file, facts)]
    found = texts_in(values)
    if _is_release(call, file, facts):
        return True
    if any(_HASHED.search(text) or _BACKBONE.search(text) for text in found) or any(
        "torchvision" in name for name in _names_in(file, facts)
    ):
        return True
    addresses = [text for text in found if "://" in text]
    is_told = isinstance(file, ast.Attribute) and is_setting(file)
    if not addresses and facts.model.qualified(call.func) in DOWNLOADS and not is_told:
        addresses = _ADDRESS.findall(facts.text.text)
    return bool(addresses) and all(_PUBLISHED.match(text) or _HASHED.search(text) for text in addresses)


def _is_release(call: ast.Call, file: ast.expr, facts: Facts) -> bool:
    """Whether a model asks for `pretrained` weights by a name that never changes: their makers wrote them for everybody."""
    if isinstance(file, ast.Subscript):
        # `model_urls["resnet18"]`
        file = file.value
    named = _is_kept_under_a_name(file) or (
        isinstance(file, ast.Name)
        and bool(facts.model.source.top_level_values(file.id) or imported_values(file, facts))
    )
    scope = facts.model.enclosing_scope(call)
    if not isinstance(scope, ast.Module) and isinstance(file, ast.Name) and _OF_BACKBONES.search(scope.name):
        return any(a.arg == file.id for a in facts.model.source.function_at(scope).parameters)
    tests = (p.test for p in facts.model.ancestors(call) if isinstance(p, ast.If))
    return named and any(last_name(n) == "pretrained" for test in tests for n in walk(test))


def _is_kept_under_a_name(file: ast.expr) -> bool:
    """`"weights.pth"`, or the place that a function of the project's own keeps it at: `get_model_file("resnet50")`."""
    match file:
        case ast.Constant():
            return True
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str()) | ast.BinOp() | ast.JoinedStr(), *_]):
            return name not in ("open", "str", "Path")
    return False


# Functions that are handed the weights on which a training starts.
_OF_BACKBONES = regex(r"(?i)backbone|imagenet")


def _names_in(file: ast.expr, facts: Facts) -> Iterator[str]:
    """The names that an expression asks of packages: `torchvision.models.resnet.model_urls`."""
    for node in walk(file):
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield facts.model.qualified(node) or ""


_ADDRESS = regex(r"https?://[^\s\"']{1,300}\.(?:pth|pt|bin|tar|ckpt|th|zip)\b")
# What the makers of torch publish, and files that are named after their hash, as they do.
_PUBLISHED = regex(r"https?://download\.pytorch\.org/")
_HASHED = regex(r"\w-[0-9a-f]{8,64}\.\w{1,10}")
# What somebody has called so who downloaded it there: `resnet34-pre.pth`.
_BACKBONE = regex(
    r"(?i)(?:resnet|resnext|vgg|densenet|alexnet|mobilenet|inception|squeezenet|shufflenet)\w{0,12}"
    r"[-_](?:pre|pretrained|imagenet)\.\w{1,8}$"
)


def _ships_with_the_code(file: ast.expr, facts: Facts) -> bool:
    """A file whose path starts from `__file__` is the author's own, and loads wherever the code was tested."""
    nodes = (n for value in (file, *values_of(file, facts)) for n in walk(value))
    return any(isinstance(n, ast.Name) and n.id == "__file__" for n in nodes)
