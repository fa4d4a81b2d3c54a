"""Code that is meant for the host: what a function by itself would be told for is right there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from devlint.regexes import regex
from devlint.signatures.values.values import Place
from devlint.source.devices import is_device_name, names_a_move
from devlint.source.modules import FunctionModel, SourceModule, dotted, last_name
from devlint.source.project import Project
from devlint.source.trees import own_nodes, walk
from devlint.source.units import Unit, units_at

# Functions that run before anything is moved, or that are about files and other forms of a model.
_HOST_FUNCTIONS = regex(
    r"__init__|__new__|__setstate__|__getitem__|__iter__|__len__|__repr__|__post_init__|_?(?:re)?init(?:_.*|ialize.*)?|reset_parameters|post_init|setup|prepare_data|set_input"
    r"|_?(?:load|save|convert|export|dump|read|write|parse|plot|show|visuali[sz]e|collate|preprocess|onnx)(?:_.*)?"
    r"|_?onnx_.*|.*_(?:cpu|np|numpy|host|to_pil|pil|ref|reference|onnx|init|collate|fn_init|export|checkpoint)|.*collate.*|.*(?:numpy|_from_list).*"
    r"|test_.*|.*bench(?:mark)?.*|upgrade_.*|.*caffe2.*|from_.*|get_parser|.*dataset.*|tokenize.*"
)  # fmt: skip
_HOST_CLASSES = regex(
    r".*(?:Dataset|BatchSampler|Collat\w{0,30}|Reader|Loader|Tokenizer|TestCase|Tests?|Config|DataModule)"
)
_HOST_FOLDERS = regex(
    r"/(?:tests?|datasets?|preprocess\w{0,30}|benchmarks?|export)/|(?:^|/)(?:\w{0,40}_)?(?:dataset|collat(?:e|or))s?\.py$"
    r"|/(?:export|convert)(?:_\w{1,60})?\.py$|(?:^|/)(?:\w{0,60}_)?onnx(?:_\w{1,60})?\.py$"
)


def is_host_code(function: FunctionModel | None, *, may_construct: bool = False) -> bool:
    """Whether a function is meant for the host, going by its name and its class; with `may_construct`, constructors aren't."""
    scope = function
    while scope is not None:
        constructs = may_construct and scope.name in ("__init__", "__post_init__")
        if _is_transform(scope) or (
            _HOST_FUNCTIONS.fullmatch(scope.name) and not _is_forward(scope) and not constructs
        ):
            return True
        if scope.parent is None and scope.name.startswith(("build_", "create_")):
            return True
        if scope.cls is not None and (_is_host_class(scope.cls) or _tries_itself(scope, scope.cls)):
            return True
        scope = scope.parent
    return False


def _tries_itself(function: FunctionModel, cls: ast.ClassDef) -> bool:
    """Whether a method of a model tries it on something of its own: `model.test()`, where it was made."""
    arguments = function.node.args
    given = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    computes = any(isinstance(s, ast.FunctionDef) and s.name == "forward" for s in cls.body)
    return function.name in ("test", "self_test") and given <= 1 and computes


def _is_transform(function: FunctionModel) -> bool:
    """Whether a function is a dataset's transform: a plain object that is called with an image, or one in a file of such."""
    if function.name != "__call__" or function.cls is None:
        return False
    given = [a.arg for a in function.parameters[1:]]
    plain = all(dotted(base) == "object" for base in function.cls.bases)
    named = function.cls.name.endswith(_TRANSFORMING)
    return (plain and (named or given[:1] in _IMAGES)) or _TRANSFORMS.search(function.source.path) is not None


_IMAGES = (["img"], ["image"], ["pic"], ["sample"])
_TRANSFORMING = ("Transform", "Augmentation")
_TRANSFORMS = regex(r"(?:transforms?(?:_\w{1,40})?|\w{0,40}augment\w{0,40})(?:/\w{1,60})?\.py$")


def _is_forward(function: FunctionModel) -> bool:
    return function.cls is not None and function.name in ("forward", "__call__")


def _is_host_class(cls: ast.ClassDef) -> bool:
    names = [cls.name, *(dotted(b) or "" for b in cls.bases)]
    return any(_HOST_CLASSES.fullmatch(name.rsplit(".", 1)[-1]) for name in names)


_DEVICES = regex(r"\.device\b|\bdevice=|\.new(?:_\w+)?\(|\.type_as\(|\.is_cuda\b|\.cuda\(")


def speaks_of_devices(function: FunctionModel) -> bool:
    """Whether a function treats something as if it may be on an accelerator.

    Where it makes things by a setting of some package (`device=settings.device`), it says nothing of what it is given.
    """
    text = _OF_A_NAME.sub(lambda m: "" if _is_imported(function.source, m[1]) else m[0], function.text)
    return _DEVICES.search(text) is not None


def _is_imported(source: SourceModule, name: str) -> bool:
    return any(isinstance(b, (ast.Import, ast.ImportFrom)) for b in source.bindings.get(name, ()))


_OF_A_NAME = regex(r"(?:\bdevice=)?\b(\w{1,60})(?:\.\w{1,60}){0,3}\.device\b")


def is_handed_over_with_a_device(function: FunctionModel) -> bool:
    """Whether a function, or the one that makes it, is given to something together with a device: it works on what is there."""
    names = _handed_over(function.source)
    scope: FunctionModel | None = function
    while scope is not None:
        if scope.name in names:
            return True
        scope = scope.parent
    return False


@lru_cache(maxsize=8)
def _handed_over(source: SourceModule) -> frozenset[str]:
    """The names of functions that some call of a file is given beside a device."""
    found: set[str] = set()
    if "device" not in source.text:
        return frozenset()
    for call in walk(source.tree):
        if isinstance(call, ast.Call):
            given = [*call.args, *(k.value for k in call.keywords)]
            if any(is_device_name(a) for a in given) or any(k.arg == "device" for k in call.keywords):
                named = [a.func if isinstance(a, ast.Call) else a for a in given]
                found |= {last_name(n) for n in named if isinstance(n, (ast.Name, ast.Attribute))}
    return frozenset(found)


_STAND_IN = regex(r"(?i).*(?:dummy|example|fake|mock|tracing|warmup|placeholder).*")


def is_stand_in(node: ast.expr) -> bool:
    """Whether an operand stands for some input, to try a model before anything is moved."""
    return isinstance(node, ast.Name) and _STAND_IN.fullmatch(node.id) is not None


_MAX_COPYING = 64


def is_given_copies(function: FunctionModel, place: Place) -> bool:
    """Whether all calls of that name in the file bring an input copied to the host, whatever they are called on."""
    names = [a.arg for a in function.parameters]
    if place.sort != "input" or place.name[0] not in names:
        return False
    name, position = str(place.name[0]), names.index(place.name[0]) - (function.cls is not None)
    lines = function.source.called_on(function.name)
    if len(lines) > _MAX_COPYING:
        # So many don't all do it.
        return False
    nodes = (n for u in units_at(function.source, lines) for n in walk(u.node))
    calls = [n for n in nodes if isinstance(n, ast.Call) and _is_called(n.func, function.name)]
    given = [
        next((k.value for k in c.keywords if k.arg == name), c.args[position] if 0 <= position < len(c.args) else None)
        for c in calls
    ]
    return bool(given) and all(g is not None and ast.unparse(g).endswith(".cpu()") for g in given)


def _is_called(func: ast.expr, name: str) -> bool:
    return isinstance(func, (ast.Name, ast.Attribute)) and last_name(func) == name


def is_never_named(function: FunctionModel) -> bool:
    """Whether a function within another one is never called, nor handed to anything."""
    if function.parent is None or function.node.decorator_list:
        return False
    return not any(isinstance(n, ast.Name) and n.id == function.name for n in walk(function.parent.node))


def is_moved_after_calls(function: FunctionModel) -> bool:
    """Whether whoever calls a function in its file moves what it gives afterwards: it computes on the host."""
    source = function.source
    lines = [line for line in source.called_on(function.name) if line != function.node.lineno]
    if not 0 < len(lines) <= _MAX_CALLS:
        return False
    found = [
        (n, u)
        for u in units_at(source, lines)
        for n in walk(u.node)
        if isinstance(n, ast.Call) and _is_called(n.func, function.name)
    ]
    return bool(found) and all(_is_moved_behind(unit, call) for call, unit in found)


def is_moved_afterwards(function: FunctionModel, node: ast.AST) -> bool:
    """Whether a function moves the result of an operation of its own to an accelerator: `x = torch.cat(parts); x = x.cuda()`."""
    statement = function.source.statement_of(node)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            calls = (n for n in own_nodes(function.node) if isinstance(n, ast.Call))
            return any(call.lineno > statement.lineno and _is_sent(call, name) for call in calls)
    return False


def brings_others_itself(function: FunctionModel, place: Place) -> bool:
    """Whether a function moves another of its inputs itself: callers have them on the host, this one too, as far as anybody knows.

    `tokens = tokens.cuda()`, where `tokens` is a parameter, and the place is that of one that stays where it is.
    """
    if place.sort != "input":
        return False
    given = {a.arg for a in function.parameters}
    brought = {t.id for n in own_nodes(function.node) for t in _sent_again(n) if t.id in given}
    return bool(brought) and place.name[0] in given - brought


def _sent_again(node: ast.AST) -> Iterator[ast.Name]:
    """The name of `x = x.cuda()`."""
    match node:
        case ast.Assign(targets=[ast.Name() as target], value=ast.Call() as call) if _is_sent(call, target.id):
            yield target


def _is_sent(call: ast.Call, name: str) -> bool:
    """`x.cuda()`, `x.to(device)`; where `x.to(y)` leads, `y` knows alone."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="cuda")):
            return owner == name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="to"), args=[to, *_]):
            return owner == name and is_device_name(to)
    return False


def _is_moved_behind(unit: Unit, call: ast.AST) -> bool:
    """Whether a statement gives names what a call gives, and one of them, or what it is joined to, is moved behind it."""
    match unit.statement:
        case ast.Assign(targets=[target], value=value) if value is call:
            names = {n.id for n in walk(target) if isinstance(n, ast.Name)}
        case _:
            return False
    nodes = own_nodes(unit.scope.node) if unit.scope is not None else ()
    behind = [n for n in nodes if isinstance(n, (ast.Assign, ast.Call)) and n.lineno >= call.lineno]
    for node in sorted(behind, key=lambda n: (n.lineno, n.col_offset)):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _joins(value, names):
                names.add(name)
            case ast.Call() if _is_move_of(node, names):
                return True
    return False


def _joins(value: ast.expr, names: set[str]) -> bool:
    """`torch.cat([x, y])`, `x if y is None else torch.cat([x, y])`: whether something is made of what has one of some names."""
    match value:
        case ast.IfExp(body=one, orelse=other):
            return _joins(one, names) or _joins(other, names)
        case ast.Name(id=name):
            return name in names
        case ast.Call(
            func=ast.Attribute(attr="cat" | "concat" | "stack"), args=[ast.List(elts=parts) | ast.Tuple(elts=parts), *_]
        ):
            return any(_joins(part, names) for part in parts)
    return False


def _is_move_of(call: ast.Call, names: set[str]) -> bool:
    """`x.cuda()`, `torch.cat([x, y]).to(device)`, `to_cuda(x, y)`."""
    match call.func:
        case ast.Attribute(value=owner, attr=attr) if attr in _TO_ACCELERATOR:
            return _joins(owner, names)
    return names_a_move(last_name(call.func)) and any(isinstance(n, ast.Name) and n.id in names for n in call.args)


# Functions that are called from more places have no one story.
_MAX_CALLS = 8
_TO_ACCELERATOR = frozenset({"to", "cuda"})


def is_host_program(project: Project, source: SourceModule) -> bool:
    """Whether a notebook, a script, or a part of a project with scripts, says nothing of devices, and nor does the project."""
    if _says(source.without_comments, _PLACES):
        return False
    path = source.file
    if source.path.endswith(".ipynb"):
        return True
    if _runs(source) and not any(user is None or _PLACES.search(user.text) for user in _users(project, source)):
        return True
    # A part of programs none of which says anything of devices.
    return not project.texts_match(_PLACES.pattern, path) and (
        project.texts_match(_PROGRAM, path) or (project.is_only_run(path) and project.texts_match(_TRAINS, path))
    )


def is_of_host_programs(project: Project, source: SourceModule) -> bool:
    """Whether a file and those that import it say nothing of devices, and one of them is a program."""
    return says_nothing_of_devices(project, source) and (
        _runs(source) or any(user is not None and _runs(user) for user in _users(project, source))
    )


def says_nothing_of_devices(project: Project, source: SourceModule) -> bool:
    """Whether a file and those that import it say nothing of devices."""
    if _says(source.without_comments, _OF_DEVICES):
        return False
    return not any(
        # A package that hands on many names, `Trainer` among them, says nothing by that.
        user is None or (_DEVICE_WORDS if user.file.name == "__init__.py" else _OF_DEVICES).search(user.text)
        for user in _users(project, source)
    )


def _users(project: Project, source: SourceModule) -> list[SourceModule | None]:
    """The few files that import a file; None is one that can't be read: nobody knows what it says."""
    return [project.load(importer, source.file) for importer in project.importers_of(source.file)]


@lru_cache(maxsize=8)
def _says(text: str, pattern: re.Pattern[str]) -> bool:
    """Whether a file's text holds a pattern: each of its findings asks."""
    return pattern.search(text) is not None


def _runs(source: SourceModule) -> bool:
    """Whether a file's top level runs a program: a loop, a call of its own, what is done where it is run as a script."""
    own = {s.name for s in source.tree.body if isinstance(s, ast.FunctionDef)}

    def runs(statement: ast.stmt) -> bool:
        match statement:
            case ast.For() | ast.While():
                return True
            case ast.If(test=test):
                return "__name__" in ast.unparse(test)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
                return name in own
        return False

    return any(map(runs, source.tree.body))


_WORDS = r"cuda(?!\.manual_seed)|gpu|device|accelerat|\bx[lp]u\b|\bmps\b"
_PLACES = regex(rf"(?i){_WORDS}|trainer")
_DEVICE_WORDS = regex(rf"(?i){_WORDS}")
# The same where a program's own class may be called a trainer.
_OF_DEVICES = regex(rf"(?i){_WORDS}|lightning|import[^\n]{{0,80}}\bTrainer\b")
_PROGRAM = r"(?m)^if __name__ == "
_TRAINS = r"\.backward\("


def is_made_elsewhere(project: Project, source: SourceModule, function: FunctionModel | None) -> bool:
    """Whether a program of the project, or its tests, make their tensors on an accelerator where nothing else is said, or that function does."""
    return (
        source.makes_elsewhere(function)
        or project.uses_itself(_DEFAULTS, source.file)
        or (not _runs(source) and project.is_tried_by(_DEFAULTS_OF_TESTS, source.file))
    )


def made_elsewhere_by(project: Project, source: SourceModule) -> Path | None:
    """The other file that says so, for people who ask."""
    return project.file_with(_DEFAULTS, source.file)


_SETS_DEFAULT = r"torch\.set_default_(?:tensor_type\([^)\n]{0,80}cuda|device\((?!None|self\b|(?:torch\.device\()?['\"](?:cpu|meta)))"
_DEFAULTS = rf"(?m)^[ \t]{{0,40}}{_SETS_DEFAULT}"
# At the top level: of all that a file of tests makes.
_DEFAULTS_OF_TESTS = rf"(?m)^{_SETS_DEFAULT}"


def is_of_host_project(project: Project, source: SourceModule) -> bool:
    """Whether a whole project names no accelerator and moves nothing: nobody has run it on one. A few files alone don't tell."""
    return not _says(source.text, _MOVING) and project.never_says(_MOVING.pattern, source.file, _A_PROJECT)


_MOVING = regex(
    r"(?i)cuda|gpu\b|\.to\([^)\n]{0,40}device|\.device\)|accelerator|lightning|type_as\("
    r"|\bdevice=(?![\"']cpu|None\b|torch\.device\([\"']cpu)"
)
_A_PROJECT = 6


def is_data_module(source: SourceModule) -> bool:
    """Whether a file defines datasets and moves nothing: its functions work on what those hold."""
    classes = (s for s in source.tree.body if isinstance(s, ast.ClassDef))
    names = ((dotted(base) or "").rsplit(".", 1)[-1] for cls in classes for base in cls.bases)
    return any(name.endswith("Dataset") for name in names) and not _says(source.without_comments, _MOVING)


def is_host_data(place: Place) -> bool:
    """Whether a place is that of something which a dataset, a loader or a replay memory holds, which hold it on the host, or
    that of a part of a checkpoint, which is where somebody has loaded it.
    """
    return place.sort == "input" and len(place.name) > 1 and _DATA.fullmatch(str(place.name[0])) is not None


_DATA = regex(
    r"(?i)(?:.*_)?(?:dataset|data_?loader|data_?module|loader|sample|transition|rollout|trajectory|experience|replay)s?"
    r"|(?:\w{1,40}_)?(?:checkpoint|ckpt|state_?dict)s?(?:_\w{1,40})?"
)


def is_of_shapes(place: Place) -> bool:
    """Whether a place is that of shapes, which are small, made on the host and compared there, or says that it is the host."""
    if place.sort != "input":
        return False
    return _SHAPES.fullmatch(str(place.name[0])) is not None or any(_ON_HOST.fullmatch(str(n)) for n in place.name)


def is_called_shape(node: ast.expr) -> bool:
    """Whether an expression is called a shape, or is a part of what is: `img_shape[1]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return _SHAPES.fullmatch(last_name(node)) is not None


def is_read_as_number(node: ast.expr, function: FunctionModel | None) -> bool:
    """Whether something is one number, for its function reads it as that too: `label.item()`."""
    return isinstance(node, ast.Name) and function is not None and f"{node.id}.item()" in function.text


_SHAPES = regex(r"(?:\w{1,60}_)?(?:shape|size)s?(?:_?\d{1,3})?")
_ON_HOST = regex(r"\.?\w{1,60}_(?:cpu|host|np|numpy)")


def is_switched_to_host(source: SourceModule) -> bool:
    """Whether a file tells the whole program, at its top level, to stay on the host: `set_cpu_device()`."""
    return _says(source.text, _SWITCH)


_SWITCH = regex(r"^(?:\w{1,40}\.){0,3}(?:set|use|force)_cpu(?:_\w{1,40})?\(", re.MULTILINE)


def is_host_file(path: str) -> bool:
    """Whether a file is about data or tests, going by its folders and its name."""
    return _HOST_FOLDERS.search(path) is not None
