"""Who reads a checkpoint: a program that can't run without an accelerator all the same, or one that has just trained."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from devlint.facts import is_setting, last_name, own_nodes, walk
from devlint.lazy import regex
from devlint_rules.checkpoints.coming import CUDA, comes_by_cuda
from devlint_rules.checkpoints.published import is_of_base, is_published, lies_at_one_place
from devlint_rules.checkpoints.starts import is_started, starts_with_cuda_alone
from devlint_rules.checkpoints.uncalled import is_nobodys

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel

_TRAINING = frozenset({"train", "fit", "training", "run_train", "train_model"})
# Calls are followed backwards this far.
_MAX_CALLERS = 2

Asked = Callable[["PlacementModel", ast.AST], bool]


def has_device(call: ast.Call, facts: Facts) -> bool:
    """Whether whoever comes by a call surely has the device that its checkpoint was written with.

    So it is in a program that needs an accelerator anyway, in a single process, and in one that trained in the same run.
    What is published has mostly been moved to the host.
    """
    if _leaves_out_a_place(facts.model, call):
        return False
    if is_published(facts.model, call) or is_of_base(call) or lies_at_one_place(facts.model, call):
        return True
    if _is_one_of_many(facts.model.source.without_comments):
        # Each process puts its copy on the first accelerator.
        return False
    if _is_for_cuda(facts.model) or _is_of_files_for_cuda(facts.model, call):
        return True
    if _ON_CUDA_BY_DEFAULT.search(facts.text.text) or _is_met(facts.model, call, _asks_before):
        return True
    if _is_told_by_trainer(facts.model, call):
        return True
    if _is_met(facts.model, call, comes_by_cuda) or _is_met(facts.model, call, _has_just_saved(call)):
        return True
    if _is_kept_by_its_class(facts.model, call) and _is_met(facts.model, call, _was_called_before):
        return True
    # The last, for it reads what the file imports.
    return starts_with_cuda_alone(facts.model)


def _leaves_out_a_place(model: PlacementModel, call: ast.Call) -> bool:
    """Whether a function asks its callers for a place, and does nothing with what they say: `def loaded(path, map_location=None)`."""
    scope = model.enclosing_scope(call)
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    asks = any(a.arg == "map_location" for a in model.source.function_at(scope).parameters)
    return asks and not any(isinstance(n, ast.Name) and n.id == "map_location" for n in own_nodes(scope))


def _is_one_of_many(text: str) -> bool:
    """Whether a text speaks of several processes, and not only of whether there are any: `dist.is_initialized()`."""
    if "DistributedDataParallel" in text:
        return True
    used = _ASKS.sub("", _IMPORT.sub("", text))
    alias = next((match["alias"] for match in _IMPORT.finditer(text) if match["alias"]), None)
    return "torch.distributed" in used or (alias is not None and re.search(rf"\b{alias}\b", used) is not None)


_IMPORT = regex(
    r"(?m)^[ \t]*(?:import torch\.distributed|from torch import distributed)\b(?: as (?P<alias>\w+))?[ \t]*$"
)
_ASKS = regex(r"\b(?:torch\.distributed|distributed|dist)\.is_(?:initialized|available)\b")


def _is_for_cuda(model: PlacementModel) -> bool:
    """Whether a whole project calls `.cuda()`, and nowhere asks for, or speaks of, another place."""
    return not model.texts_match(_PLACES) and model.texts_match(r"\.cuda\(")


# At the beginning of a line of the program's own: under no condition but that it is run.
_ON_CUDA_BY_DEFAULT = regex(r"(?m)^(?: {4}|\t)?torch\.set_default_tensor_type\(['\"]?torch\.cuda\.")
# Words of code that runs in more than one place; what is made where a tensor is, or on "cuda", says of no other one.
_PLACES = (
    r"is_available|['\"]cpu['\"]|\b(?:torch|self|args|opt|cfg|config|params)\.device\b"
    r"|(?<![.\w])devices?\b(?!\s{0,4}=\s{0,4}(?:['\"]cuda|[\w.\[\]]{1,80}\.device\b))"
)


def _is_of_files_for_cuda(model: PlacementModel, call: ast.Call) -> bool:
    """Whether the file of a load, and those that call its function, speak of no other place than that of `.cuda()` and `torch.cuda`."""
    scope = model.enclosing_scope(call)
    calls = model.calls_in_sight(scope) if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
    users = [file for file, _ in calls] or [model]
    spoken = any(re.search(pattern, _said(file)) for pattern in (_PLACES, _FLAGGED) for file in (model, *users))
    return all(".cuda" in file.source.without_comments for file in users) and not spoken


def _said(model: PlacementModel) -> str:
    """What a file says, without what says nothing of where its program runs: other loads, and a `device` that is CUDA's wherever it is set."""
    text = _ELSEWHERE.sub("", model.source.without_comments)
    named = [n for n in walk(model.source.tree) if isinstance(n, ast.arg) and n.arg == "device"]
    given = [] if named else _given_to_device(model.source.tree)
    is_cuda = bool(given) and all(CUDA.fullmatch(ast.unparse(value)) for value in given)
    return _DEVICE.sub("", text) if is_cuda else text


def _given_to_device(tree: ast.Module) -> list[ast.expr]:
    return [
        n.value
        for n in walk(tree)
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "device" for t in n.targets)
    ]


_DEVICE = regex(r"(?:\btorch\.|(?<![.\w]))device\b")


# Where other loads go to, and whether there is a library.
_ELSEWHERE = regex(
    r"(?s)\b(?:dist|distributed)\.is_available|\bmap_location ?= ?(?:torch\.device\()?['\"]cpu['\"]|\bload\([^=]{0,120}?,\s{0,40}['\"]cpu['\"]\)"
)
# `if args.cuda:`, `x.cuda() if use_gpu else x`
_FLAGGED = r"(?i)\b(?:if|and|or|not|case)\b[^\n]{0,80}(?:cuda|[cg]pu)"


def _asks_before(model: PlacementModel, call: ast.AST) -> bool:
    """Whether a program ends without an accelerator before it comes by a call: `assert torch.cuda.is_available()`."""
    scope, around = model.enclosing_scope(call), set(model.ancestors(call))
    return any(
        isinstance(n, (ast.Assert, ast.If))
        and n.lineno < getattr(call, "lineno", 0)
        and _ends_without(n)
        # Not where only an option asks for one: `if use_cuda: assert torch.cuda.is_available()`.
        and around.issuperset(p for p in model.ancestors(n) if isinstance(p, ast.If))
        for n in (*own_nodes(scope), *model.source.tree.body)
    )


def _ends_without(statement: ast.Assert | ast.If) -> bool:
    test = ast.unparse(statement.test)
    if isinstance(statement, ast.Assert):
        return _AVAILABLE.fullmatch(test) is not None
    without = statement.body if test.startswith("not ") else statement.orelse
    return _AVAILABLE.fullmatch(test.removeprefix("not ")) is not None and bool(without) and _ends(without[-1])


def _ends(statement: ast.stmt) -> bool:
    """Whether a statement leaves the program: it raises, or calls `sys.exit()`."""
    match statement:
        case ast.Raise():
            return True
        case ast.Expr(value=ast.Call(func=func)):
            return last_name(func) in _ENDING
    return False


_AVAILABLE = regex(r"(?:torch\.)?cuda\.is_available\(\)")
_ENDING = frozenset({"exit", "_exit", "quit"})


def _is_met(model: PlacementModel, node: ast.AST, asked: Asked, depth: int = 0) -> bool:
    """Whether something holds where a node stands, or where each call of its function does."""
    if asked(model, node):
        return True
    scope = model.enclosing_scope(node)
    if depth == _MAX_CALLERS:
        return False
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        imports = list(_imports_of(model))
        return bool(imports) and all(_is_met(file, statement, asked, depth + 1) for file, statement in imports)
    calls = model.calls_in_sight(scope)
    # What nothing calls itself calls nothing.
    used = [(file, call) for file, call in calls if not is_nobodys(file, call)] or calls
    return bool(used) and all(_is_met(file, call, asked, depth + 1) for file, call in used)


def _imports_of(model: PlacementModel) -> Iterator[tuple[PlacementModel, ast.stmt]]:
    """Where other files import a file, which runs what stands at its top; of what is a program itself, nowhere."""
    if is_started(model.source.tree):
        return
    for file in model.files_naming(model.source.file.stem):
        for statement in walk(file.source.tree):
            if isinstance(statement, (ast.Import, ast.ImportFrom)) and any(
                source.path == model.source.path for source in file.imported_modules(statement)
            ):
                yield file, statement


def _has_just_saved(call: ast.Call) -> Asked:
    """Asks whether what a load reads was saved before by the same run; what it says of its path, a setting's name, the training says too."""
    file = call.args[0] if call.args else None
    setting = file.attr if isinstance(file, ast.Attribute) and is_setting(file) else ""
    return partial(_has_just_trained, setting, _name_of(file))


def _is_kept_by_its_class(model: PlacementModel, call: ast.Call) -> bool:
    """Whether a method loads the file under an attribute of its object, to which the class itself saves: `self.path` of an `EarlyStopping`."""
    cls = model.source.class_of(call)
    file = ast.unparse(call.args[0]) if call.args else ""
    if cls is None or not file.startswith("self."):
        return False
    saves = (n for n in walk(cls) if isinstance(n, ast.Call) and _is_torch_save(n))
    return any(file in map(ast.unparse, n.args) for n in saves)


def _was_called_before(model: PlacementModel, node: ast.AST) -> bool:
    """Whether the object of a method that a call calls was itself called before, in the same function: `stopping(loss, net)`, at each epoch."""
    match node:
        case ast.Call(func=ast.Attribute(value=of)):
            owner = ast.dump(of)
            calls = (n for n in own_nodes(model.enclosing_scope(node)) if isinstance(n, ast.Call))
            return any(n.lineno < node.lineno and ast.dump(n.func) == owner for n in calls)
    return False


def _name_of(file: ast.expr | None) -> str:
    """`model.pth` of `os.path.join(folder, "model.pth")`; "" where it isn't written down."""
    parts = walk(file) if file is not None else []
    names = [n.value.rpartition("/")[2] for n in parts if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return names[-1] if names and _FILE.fullmatch(names[-1]) else ""


_FILE = regex(r"[\w-]{1,80}\.\w{1,8}(?:\.\w{1,4})?")


def _has_just_trained(setting: str, name: str, model: PlacementModel, node: ast.AST) -> bool:
    """`exp.train(setting)` before `exp.predict(setting)`, or `train_model(net, path)`, which saves, before `test_model(path)`.

    Or a training before what reads a file of a name that the project saves under.
    """
    if not isinstance(node, ast.Call):
        return False
    owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    # Whoever starts a program may name any file.
    is_told = bool(setting) or any(isinstance(a, ast.Attribute) and is_setting(a) for a in node.args)
    saving = rf"\bsave\([^\n]{{0,200}}\b{re.escape(name)}"
    child: ast.AST = node
    for parent in model.ancestors(node):
        for block in (getattr(parent, field, None) for field in ("body", "orelse")):
            if isinstance(block, list) and child in block:
                before = block[: block.index(child)]
                if any(_trains(n, owner) for statement in before for n in walk(statement)):
                    return True
                if any(_trains_and_saves(s, setting, model) for s in before):
                    return True
                if not is_told and any(_is_training_loop(s, model) for s in before):
                    return True
                if name and any(map(_is_training, before)) and model.texts_match(saving):
                    return True
        child = parent
    return False


def _trains(node: ast.AST, owner: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=of, attr=name)):
            return name in _TRAINING and ast.unparse(of) == owner
    return False


def _is_training(statement: ast.stmt) -> bool:
    """`train_model(net)`, `losses = trainer.fit()`"""
    match statement:
        case ast.Expr(value=ast.Call(func=func)) | ast.Assign(value=ast.Call(func=func)):
            return _IS_TRAINING.match(last_name(func)) is not None
    return False


def _trains_and_saves(statement: ast.stmt, setting: str, model: PlacementModel) -> bool:
    """Whether a statement calls a function, or a method, that trains by its name, saves what comes of it, and speaks of a setting, if of one."""
    match statement:
        case ast.Expr(value=ast.Call() as call) | ast.Assign(value=ast.Call() as call):
            nodes = list(_nodes_called(call, model)) if _IS_TRAINING.match(last_name(call.func)) else []
            return any(isinstance(n, ast.Call) and _SAVES.match(last_name(n.func)) for n in nodes) and (
                not setting or any(isinstance(n, ast.Attribute) and n.attr == setting for n in nodes)
            )
    return False


def _is_training_loop(statement: ast.stmt, model: PlacementModel) -> bool:
    """Whether a loop trains and saves what comes of it, epoch after epoch or task after task: what is read behind it is that."""
    if not isinstance(statement, (ast.For, ast.While)):
        return False
    calls = [n for n in walk(statement) if isinstance(n, ast.Call)]
    names = {last_name(call.func) for call in calls}
    counts = isinstance(statement, ast.For) and last_name(statement.target) in ("epoch", "ep")
    if not (counts or any(name == "backward" or _IS_TRAINING.match(name) for name in names)):
        return False
    return any(_is_torch_save(c) or _SAVES_EPOCH.match(last_name(c.func)) for c in calls) or any(
        _writes_a_file(call, model) for call in calls
    )


def _writes_a_file(call: ast.Call, model: PlacementModel) -> bool:
    """Whether what a call calls, of the project's, has a `torch.save` in it."""
    return any(map(_is_torch_save, _nodes_called(call, model)))


def _is_torch_save(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func) == "torch.save"
    )


# Names of what saves a training, and of nothing else: pictures and scores are saved as well.
_SAVES_EPOCH = regex(
    r"_?(?:save|store|write|dump)_(?:the_|all_|best_|last_)*(?:check_?points?|ckpts?|models?|states?|weights?|net\w*|param\w*|snapshot)"
    r"|_?(?:save_)?snapshot|early_stopp"
)


def _nodes_called(call: ast.Call, model: PlacementModel) -> Iterable[ast.AST]:
    """The nodes of the function, or of the method of an object made in sight, that a call calls."""
    called = model.callee(call)
    if called is not None:
        return called.function.nodes
    model.ensure_around(call)
    function = model.function_called(call)
    return own_nodes(function) if function is not None else ()


_IS_TRAINING = regex(r"(?:run_|do_|start_)?(?:train|fit|training|finetune)(?:_|$)")
_SAVES = regex(r"_?save(?:_|$)")


def _is_told_by_trainer(model: PlacementModel, call: ast.Call) -> bool:
    """`trainer.snapshot_path` behind `trainer.train(epochs)`: what has trained says where it has put what came of it.

    Or `stopping.path` behind `stopping.step(loss, net)`, whose class saves to that.
    """
    match call.args:
        case [ast.Attribute(value=owner, attr=name), *_]:
            spelt = ast.unparse(owner)
            before = [
                n
                for n in own_nodes(model.enclosing_scope(call))
                if isinstance(n, ast.Call)
                and isinstance(n.func, ast.Attribute)
                and n.lineno < call.lineno
                and ast.unparse(n.func.value) == spelt
            ]
            if _KEPT.search(name) and any(_trains(n, spelt) for n in before):
                return True
            return bool(before) and _saves_under(owner, name, call, model)
    return False


def _saves_under(owner: ast.expr, name: str, call: ast.Call, model: PlacementModel) -> bool:
    """Whether the class of an object at a call saves to what its objects keep under a name."""
    model.ensure_around(call)
    classes = [known.cls.node for _, known in model.value(owner).alternatives() if known.cls is not None]
    saves = [n for cls in classes for n in walk(cls) if isinstance(n, ast.Call) and _is_torch_save(n)]
    return any(f"self.{name}" in map(ast.unparse, n.args) for n in saves)


_KEPT = regex(r"(?i)snapshot|best|checkpoint|ckpt|saved?_")
