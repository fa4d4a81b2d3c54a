"""What a loaded file holds, going by what it is called, and by what its names are called around the load: a checkpoint, or data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.facts import is_number_name, last_name, own_nodes
from devlint.lazy import regex
from devlint_rules.checkpoints.uses import uses_of
from devlint_rules.checkpoints.values import values_of
from devlint_rules.checkpoints.writers import keys_asked, texts_in

if TYPE_CHECKING:
    from devlint.facts import Facts


def is_of_data(call: ast.Call, facts: Facts) -> bool:
    """Whether it is a dataset that reads what it gives, a number, or numbers that are plotted: those were written on the host."""
    if _DATA_FILE.search(facts.path) is not None or _is_called_after_data(call, facts) or _is_number(call, facts):
        return True
    scope = facts.model.enclosing_scope(call)
    if _is_kept_as_data(call, scope, facts) or _is_given_as_array(call, scope, facts):
        return True
    if _PLOTTING.search("" if isinstance(scope, ast.Module) else scope.name) is not None:
        return True
    classes = (n for n in facts.model.ancestors(call) if isinstance(n, ast.ClassDef))
    return any(_DATA_CLASS.fullmatch(last_name(name)) for c in classes for name in (ast.Name(c.name), *c.bases))


def _is_number(call: ast.Call, facts: Facts) -> bool:
    """`vocab_size = torch.load(path)`"""
    match next(facts.model.ancestors(call), None):
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            return is_number_name(last_name(target))
    return False


def is_of_checkpoint(call: ast.Call, facts: Facts) -> bool:
    """Whether anything around a load says that its file holds a model, its state, or tensors that are computed with.

    What it is called, where it is read and what is asked of it says so, or that it is moved, or loaded into something.
    """
    names = set(_targets(call, facts))
    return (
        any(map(_OF_CHECKPOINTS.search, _words_around(call, facts)))
        or any(_is_computed_with(n, names) for n in own_nodes(facts.model.enclosing_scope(call)))
        or _is_moved(call, facts)
    )


def speaks_of_model(call: ast.Call, facts: Facts) -> bool:
    """Whether a load, what comes right after it, or the function that it stands in, speaks of a model or its state: else it is of data, mostly."""
    statement = facts.model.source.statement_of(call)
    if facts.model.source.path.endswith(".ipynb"):
        # Notebooks look at what programs wrote, which is results more often than not.
        used = {id(s): s for s in map(facts.model.source.statement_of, uses_of(call, facts))}
        return any(_OF_STATES.search(ast.unparse(s)) for s in (statement, *used.values()))
    scope = facts.model.enclosing_scope(call)
    around = scope.name if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else ""
    # `compare_models`, `generate_patches`: what else a function does with models says nothing of what it reads.
    taking = [around] if _TAKING_UP.search(around) is not None else []
    file = ast.unparse(call.args[0]) if call.args else ""
    if any(map(_OF_MODELS.search, (*taking, _last_part(file), *_targets(call, facts), *keys_asked(call, facts)))):
        return True
    if any(map(_KEEPING_CHECKPOINTS.search, (Path(facts.path).stem, *_classes_around(call, facts)))):
        return True
    if isinstance(next(facts.model.ancestors(call), None), ast.Subscript) and _is_moved(call, facts):
        # A part of what was kept together: `torch.load(path)["latents"].to(device)`. What is one tensor is data, mostly.
        return True
    near = (statement, *islice(facts.model.source.after(statement), _NEAR))
    return any(_USED_AS_MODEL.search(ast.unparse(s)) for s in near)


def _classes_around(call: ast.Call, facts: Facts) -> Iterator[str]:
    return (parent.name for parent in facts.model.ancestors(call) if isinstance(parent, ast.ClassDef))


def _last_part(path: str) -> str:
    """What names the file itself of a path that is written as code: `"preds.pt"` of `folder / "models" / "preds.pt"`.

    What is put into a text counts where nothing else is said there: `f"{model}.pt"`, not `f"entropy_{self.model}.pt"`.
    """
    last = _BEFORE_FILE.sub("", path)
    said = _PUT_IN.sub("", last)
    return said if _SAID.search(_ENDING.sub("", said)) is not None else last


_OF_STATES = regex(r"state_?dict|\['(?:\w{1,40}_)?(?:model|net)'\]|^(?:\w{1,40}_)?(?:model|net) = ")
_TAKING_UP = regex(
    r"(?i)load|resum|restor|from_|init|pretrain|check_?point|ckpt|build|create|make|get_\w{0,40}(?:model|net)"
)
_KEEPING_CHECKPOINTS = regex(r"(?i)check_?point|ckpt|snapshot")
# What stands between the parts of a path, with all before it.
_BEFORE_FILE = regex(r"(?s)^.*(?: / |/(?=[^'\"]*['\"])|, )(?=.)")
_PUT_IN = regex(r"\{[^{}]{0,200}\}")
_ENDING = regex(r"^f(?=['\"])|\.\w{1,4}(?:\.\w{1,4})?['\"]\)*$")
_SAID = regex(r"[A-Za-z]{2}")
_USED_AS_MODEL = regex(r"\.load_state_dict\(|\.eval\(\)|\bset_weights\(")
# So many statements behind a load say what it is of.
_NEAR = 3


def asks_for_numbers(call: ast.Call, facts: Facts) -> bool:
    """Whether all that is asked of what a call loads are numbers, by their keys: `info["epoch"]`, `info["best"]`."""
    parent = next(facts.model.ancestors(call), None)
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return False
    name = parent.targets[0].id
    nodes = own_nodes(facts.model.enclosing_scope(call))
    uses = [n for n in nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    around = [next(facts.model.ancestors(use), None) for use in uses]
    keys = [
        p.slice.value if isinstance(p, ast.Subscript) and isinstance(p.slice, ast.Constant) else None for p in around
    ]
    return bool(keys) and all(isinstance(key, str) and _OF_NUMBERS.fullmatch(key) for key in keys)


_OF_NUMBERS = regex(
    r"(?i)(?:\w{1,20}_)?(?:epochs?|steps?|iter(?:ation)?s?|best|best_\w{1,20}|loss|acc(?:uracy)?|score|lr|t)"
)


# What is done with models, with their states and with tensors of a device.
_MOVING = frozenset({"to", "cuda", "cpu", "eval", "load_state_dict", "copy_"})


def _is_computed_with(node: ast.AST, names: set[str]) -> bool:
    """`x.to(device)`, `x["a"].cuda()`, `net.load_state_dict(x)` for one of some names."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=args) if attr in _MOVING:
            return any(isinstance(n, ast.Name) and n.id in names for part in (owner, *args[:1]) for n in ast.walk(part))
    return False


def _is_moved(call: ast.Call, facts: Facts) -> bool:
    """`torch.load(path)["x"].to(device)`."""
    return any(isinstance(p, ast.Attribute) and p.attr in _MOVING for p in facts.model.ancestors(call))


def _targets(call: ast.Call, facts: Facts) -> list[str]:
    """The names that are given what is loaded, or its parts."""
    assigned = (p for p in facts.model.ancestors(call) if isinstance(p, ast.Assign))
    return [
        last_name(n)
        for p in assigned
        for target in p.targets
        for n in (target.elts if isinstance(target, ast.Tuple) else [target])
    ]


def _words_around(call: ast.Call, facts: Facts) -> Iterator[str]:
    """What names a load: the path, what it is given to, what is asked of it, the functions and classes around, the file of code."""
    file = call.args[0] if call.args else call
    yield ast.unparse(file)
    yield from texts_in(values_of(file, facts))
    yield from keys_asked(call, facts)
    yield Path(facts.path).stem
    for parent in facts.model.ancestors(call):
        match parent:
            case ast.Assign(targets=targets):
                yield from map(ast.unparse, targets)
            case ast.Call(func=func):
                yield ast.unparse(func)
            case ast.keyword(arg=str() as name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def _is_called_after_data(call: ast.Call, facts: Facts) -> bool:
    """Whether the file is called after data or figures, and not after a model: `metrics.pth`, `vocab_file`."""
    if call.args and _DATA_PATH.fullmatch(last_name(call.args[0])):
        return True
    if any(map(_MODEL_NAME.fullmatch, _targets(call, facts))):
        # `model = torch.load(folder + "net_lr0.1_log.pth")`
        return False
    values = [call.args[0], *values_of(call.args[0], facts)] if call.args else []
    texts = texts_in(values)
    return any(_OF_DATA.search(text) or (_IN_DATA.search(text) and not _OF_CHECKPOINTS.search(text)) for text in texts)


def _is_kept_as_data(call: ast.Call, scope: ast.AST, facts: Facts) -> bool:
    """`data = torch.load(path)`, in a function that names no parts of a checkpoint."""
    names = _targets(call, facts)
    if any(map(_DATA_DICT.fullmatch, names)):
        return True
    if not any(map(_DATA_NAME.fullmatch, names)):
        return False
    named = [last_name(n.func) for n in own_nodes(scope) if isinstance(n, ast.Call)]
    return not any(map(_OF_CHECKPOINTS.search, (*named, *texts_in(own_nodes(scope)))))


def _is_given_as_array(call: ast.Call, scope: ast.AST, facts: Facts) -> bool:
    """Whether a function says that what it loads, and returns, is an array: `def read(path) -> np.ndarray`."""
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) or scope.returns is None:
        return False
    names = set(_targets(call, facts))
    given = [n.value for n in own_nodes(scope) if isinstance(n, ast.Return) and n.value is not None]
    is_returned = any(
        n is call or (isinstance(n, ast.Name) and n.id in names) for value in given for n in ast.walk(value)
    )
    return is_returned and _ARRAY.fullmatch(ast.unparse(scope.returns)) is not None


_ARRAY = regex(r"(?:np|numpy)\.(?:ndarray|typing\.NDArray|ndarray\[.*\])|(?:npt\.)?NDArray(?:\[.*\])?")


_MODELS = (
    r"model|optim|encoder|decoder|weight|epoch|check_?point|ckpt|pretrain|resum|snapshot|restor|backbone|module"
    r"|polic|critic|teacher|student|adapter|classif|generat|discrim|learner"
)
_OF_CHECKPOINTS = regex(rf"(?i){_MODELS}|state|net|param|actor|agent|lora|\.pth")
# The same, where no folder, and nothing that was said by the way, counts.
_OF_MODELS = regex(
    rf"(?i:{_MODELS}|network|state_?dict)|(?<![a-zA-Z])(?i:net|actor|lora|agent|states?)|(?<!\w)params\b|Net|Actor|LoRA|Lora|Agent|State"
)


_DATA_NAME = regex(
    r"_?(?:(?:train|val|valid|test|raw)_)?(?:data|datasets?|samples|examples|vocab|dico|corpus|trajectories)"
)


# Nobody calls a checkpoint so, whatever the function around is for.
_DATA_DICT = regex(
    r"(?:\w{1,40}_)?(?:(?:vocab|corpus|data|dataset|label|sample)_(?:dict|map|list)|meta_?(?:data|infos?)|pred(?:iction)?s|vocab(?:ulary)?(?:_\w{1,20})?|corpus|tokenizer|config|cfg|hparams|settings"
    r"|tensors|outputs|logits|scores|mels?|(?:mel_)?spec(?:trogram)?s?|audios?|wav(?:eform)?s?)"
)
_MODEL_NAME = regex(r"(?i)(?:\w{1,40}_)?(?:model|net|network|\w{0,20}coder)")
_OF_DATA = regex(
    r"(?i)(?:^|[/_.-])(?:features?|labels?|targets?|data|dataset|metrics?|results?|stats|statistics|history|losses|logs?|vocab"
    r"|dict|args|opts?|options|config|hparams|splits?|indices|ids|trajectories|returns)\.(?:pt|pth|pkl|bin|t7|tar)$"
    r"|\.(?:mel|mels|spec|spect|wav|f0|feats?|npy|npz|json|csv|txt|ply|pcd|conf|config|cfg|args|opts?)$"
)
_IN_DATA = regex(r"(?i)(?:^|/)(?:data|datasets?|raw|processed)/[\w.-]{1,80}\.(?:pt|pkl|bin|p|pickle)$")
_DATA_PATH = regex(
    r"(?:\w{1,60}_)?(?:vocab|vocabulary|corpus|tokenizer|data|dataset|labels?|features?|feats?|landmarks|meta_?data|meta|predictions|preds?|indices|stats)"
    r"_(?:file|filename|path|filepath|fn|name)"
)
_PLOTTING = regex(r"(?i)^_?plot|_plots?$")
_DATA_FILE = regex(r"(?:^|/)(?:datasets?/|(?:\w{1,60}_)?datasets?\.py$)")
_DATA_CLASS = regex(r"\w{0,60}(?:Dataset|DataModule)")
