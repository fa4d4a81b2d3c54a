"""What the project itself writes to the file that a call loads: where all of it comes from the host, no device can be missing.

A `torch.save` is taken for one to the file that is loaded where both name it alike (`"embedding.pt"`, `config.save_path`), or where it
writes all keys that are asked of what is loaded; where none does, where the class of the load has methods that save.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import Kind, own_nodes, units_at, walk
from devlint.lazy import regex
from devlint_rules.checkpoints.files import ANY, numbered
from devlint_rules.checkpoints.hopeless import is_whole_model
from devlint_rules.checkpoints.host_programs import HostProgram, host_program
from devlint_rules.checkpoints.written import Write, is_on_host

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel


def is_written_from_host(call: ast.Call, file: ast.expr, texts: list[str], facts: Facts) -> bool:
    """Whether the project writes the file that a call loads, and always from the host; `texts` stand in the file's path."""
    if _speaks_of_no_device(facts.model):
        return True
    keys = keys_asked(call, facts)
    if keys and any(keys <= of_host and sign in facts.text.text for sign, of_host in _OF_HOST.items()):
        return True
    told = (*texts, *_by_default(file, facts), *texts_in(_default_of(file, facts)))
    named = {text.rpartition("/")[2] for text in told if FILE_NAME.search(text)}
    reading = _Reading(named, frozenset(keys), ast.unparse(file))
    own = list(writes_in(facts.model))
    if _is_saved_from_host(named, own, facts):
        return True
    found = [w for w in own if reading.may_be_from(w)]
    if found and all(map(is_from_host, found)):
        # What another file saves under that name is that one's.
        return True
    for model in facts.model.files_matching(reading.pattern) if reading.pattern else ():
        found += (w for w in writes_in(model) if reading.may_be_from(w))
    found = found or _of_whole_models(call, named, own, facts)
    found = found or [w for w in _of_class(call, own, facts) if reading.may_be_unnamed(w)]
    program = host_program(facts.model)
    if found:
        return all(is_from_host(w) or _is_of_numbers(w) or _is_of_host(w.model, program) for w in found)
    if program.saves and not named:
        return True
    if isinstance(file, ast.Name) and not texts:
        # Whatever a caller gives to a file of code that saves too: it is what is saved there, mostly.
        found = [w for w in own if reading.may_be_unnamed(w)]
    if found and all(map(is_from_host, found)):
        return True
    return not named and _writes_from_host_alone(own, facts)


def _is_of_host(model: PlacementModel, program: HostProgram) -> bool:
    """Whether a file belongs to a program that knows of the host alone, or is one."""
    return model.source.path in program.files or bool(host_program(model).files)


# Each load of a file asks that.
@lru_cache(maxsize=2)
def _speaks_of_no_device(model: PlacementModel) -> bool:
    """Whether a project saves what it trains, and nowhere says a word of another place than the host, nor leaves that to a framework."""
    trains = model.texts_match(SAVING) and model.texts_match(r"\.backward\(")
    return trains and not (model.texts_match(_FRAMEWORKS) or model.texts_match(_OTHER_PLACES))


# Said also of its own files: a project that is too large to tell matches anything.
# Processes that share their work say nothing of places, for those on the host do as well; nor does what goes where something else is.
_OTHER_PLACES = r"(?i)\b(?:cuda|[gx]pus?|(?<!\.)devices?(?![ \t]{0,2}(?:=[ \t]{0,2}(?:torch\.device\()?|\()['\"]cpu|[ \t]{0,2}=[ \t]{0,2}[\w.]{1,60}\.device\b)|mps|hpu|npu|tpus?)\b|\.to\((?!['\"]cpu['\"]\)|\w{1,60}\.device\)|torch\.(?:u?int|b?float|double|half|long|bool)\d{0,2}\))|\baccelerators?\b|\b(?:import|from) accelerate\b|\bdeepspeed|\bfastai|\bskorch|from_pretrained|\bpretrained ?="


def _is_saved_from_host(named: set[str], own: list[Write], facts: Facts) -> bool:
    """Whether all that the same file of code saves comes from the host, some of it copied there.

    Where it saves nothing, and nothing says which file it reads: all that another one saves.
    """
    if own or named:
        return _copies_before_saving(facts.model, own)
    return any(_copies_before_saving(model, list(writes_in(model))) for model in facts.model.files_matching(_COPIES))


def _copies_before_saving(model: PlacementModel, written: list[Write]) -> bool:
    is_copying = bool(written) and _COPYING.search(model.source.without_comments) is not None
    return is_copying and all(map(is_from_host, written))


_COPIES = r"\.cpu\(\)|\b(?:\w{1,40}_)?to_cpu\("
_COPYING = regex(_COPIES)


def is_from_host(write: Write, *, read: bool = False) -> bool:
    """Whether all that is written is on the host for sure, a function that is there to save speaks of the host, or nobody of anything else."""
    return (
        is_on_host(write.value, write, read=read)
        or _is_brought_to_host(write)
        or _is_left_by_trainer(write)
        or _is_of_host_program(write)
    )


def _is_left_by_trainer(write: Write) -> bool:
    """Whether Lightning's trainer has trained what is written, and so left it on the host: `trainer.fit(net, data)`.

    It moves the module there at the end of each run (`Strategy.teardown`).
    """
    if write.model.source.imported_packages.isdisjoint({"lightning", "pytorch_lightning"}):
        return False
    trained = {
        n.args[0].id
        for n in own_nodes(write.model.enclosing_scope(write.call))
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr == "fit"
        and n.lineno < write.call.lineno
        and n.args
        and isinstance(n.args[0], ast.Name)
    }
    return not trained.isdisjoint(n.id for n in walk(write.value) if isinstance(n, ast.Name))


def _is_of_host_program(write: Write) -> bool:
    """Whether a program writes what it trains, and neither it nor what it imports of the project says a word of another place."""
    source = write.model.source
    if ".backward(" not in source.text or re.search(_OTHER_PLACES, source.without_comments) is not None:
        return False
    imports = (n for n in walk(source.tree) if isinstance(n, (ast.Import, ast.ImportFrom)))
    modules = (module for n in imports for module in write.model.imported_modules(n))
    return not any(re.search(_OTHER_PLACES, module.without_comments) for module in modules)


def _is_brought_to_host(write: Write) -> bool:
    """`def save(self, path): self.set_device("cpu"); torch.save(self, path)`"""
    scope = write.model.enclosing_scope(write.call)
    if not isinstance(scope, ast.FunctionDef) or _SAVES.search(scope.name) is None:
        return False
    return _TO_HOST_WORDS.search(ast.unparse(scope)) is not None


_SAVES = regex(r"(?i)sav|checkpoint|ckpt|dump|export|snapshot")
# `self.to_gpu(-1)`: of no index.
_TO_HOST_WORDS = regex(rf"{_COPIES}|(?:device\(|device=|\.to\()'cpu'|\b\w{{0,40}}(?:gpu|cuda|device)\(-1\)")


def _writes_from_host_alone(own: list[Write], facts: Facts) -> bool:
    """Whether all that a project writes it writes from the host, or has read before: so is what is read then.

    What frameworks write for it isn't seen.
    """
    if facts.model.texts_match(_FRAMEWORKS) or not facts.model.texts_match(SAVING):
        return False
    written = _all_writes(own, facts)
    return any(map(is_from_host, written)) and all(is_from_host(w, read=True) for w in written)


def _by_default(file: ast.expr, facts: Facts) -> Iterator[str]:
    """The file that an option of the program's names by default: `args.model`, of `add_argument("--model", default="net.pth")`."""
    if not isinstance(file, ast.Attribute) or not isinstance(file.value, ast.Name):
        return
    for node in walk(facts.model.source.tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="add_argument"), args=names, keywords=given) if any(
                isinstance(n, ast.Constant) and str(n.value).lstrip("-").replace("-", "_") == file.attr for n in names
            ):
                yield from (
                    str(k.value.value) for k in given if k.arg == "default" and isinstance(k.value, ast.Constant)
                )


def _default_of(file: ast.expr, facts: Facts) -> list[ast.expr]:
    """What the parameter is by default that says which file is loaded."""
    scope = facts.model.enclosing_scope(file)
    if not isinstance(file, ast.Name) or isinstance(scope, ast.Module):
        return []
    default = facts.model.source.function_at(scope).defaults.get(file.id)
    return [default] if default is not None else []


SAVING = r"\btorch\.save\("
_FRAMEWORKS = r"(?i)lightning|\bignite\b|save_state\b|\bTrainer\("


# What frameworks copy to the host before they write it: what a file of code that reads it speaks of, and the keys of what is
# written. BasicSR's `save_network`; fairseq's `move_to_cpu`.
_OF_HOST = {
    "params_ema": frozenset({"params", "params_ema"}),
    "fairseq": frozenset({"model", "args", "cfg", "task_state", "extra_state"}),
    "extra_state": frozenset({"model", "args", "cfg", "task_state", "extra_state"}),
}


class _Reading(NamedTuple):
    """What is known of a file where it is read: names of files in its path, the keys asked of it, the path as code."""

    names: set[str]
    keys: frozenset[str]
    text: str

    @property
    def pattern(self) -> str:
        """What stands in a file of code that may write it; "" where nothing tells."""
        telling = [rf"['\"/]{re.escape(name)}['\"]" for name in sorted(self.names)]
        telling += [rf"['\"/]{match[0]}" for name in sorted(self.names) if (match := _BEFORE_NUMBER.match(name))]
        telling += [rf"['\"]{re.escape(key)}['\"]\s?:" for key in sorted(self.keys) if not _USUAL_KEY.search(key)][:1]
        if "." in self.text and not self.text.startswith("self.") and _PATH.fullmatch(self.text):
            telling.append(rf"\bsave\([^\n]{{0,200}}\b{re.escape(self.text)}\b")
        return "|".join(telling)

    def may_be_from(self, write: Write) -> bool:
        """Whether a write goes to what may be the same file."""
        if self.names & {name.rpartition("/")[2] for name in _texts_of(write.file, write)}:
            return True
        if any(_is_one_of(name, numbered(write.file, write.model)) for name in self.names):
            return True
        if _PATH.fullmatch(self.text) and "." in self.text and ast.unparse(write.file) == self.text:
            return True
        return bool(self.keys) and not all(map(_USUAL_KEY.search, self.keys)) and self.keys <= parts_of(write).keys()

    def may_be_unnamed(self, write: Write) -> bool:
        """Whether nothing says that a write goes to another file: no name where it is read, no other keys."""
        keys = parts_of(write).keys()
        return not self.names and (not self.keys or not keys or self.keys <= keys)


def _is_one_of(name: str, written: str) -> bool:
    """Whether a file's name is one of those that are written with something put into them: `epoch_12.pt` of `f"{folder}/epoch_{i}.pt"`."""
    *parts, last = re.sub(f"{ANY}+", ANY, written.rpartition("/")[2]).split(ANY)
    if not 0 < len(parts) <= _MOST_PUT_IN or _LETTERS.search("".join((*parts, last.rpartition(".")[0]))) is None:
        return False
    return re.fullmatch(r"[\w.+-]{0,40}".join(map(re.escape, (*parts, last))), name) is not None


# A name that more is put into is matched by too much.
_MOST_PUT_IN = 4
_LETTERS = regex(r"[^\W\d_]{4}")


# What a file's name begins with that goes on with a number.
_BEFORE_NUMBER = regex(r"[A-Za-z][A-Za-z_-]{3,40}(?=\d)")
FILE_NAME = regex(r"[\w-]{1,80}\.(?:pth?|ckpt|tar|bin|pkl|t7|p|torch|weights?|model|params|dat)$")
_PATH = regex(r"[\w.]{1,80}")
# Keys that are written wherever a training is saved.
_USUAL_KEY = regex(r"(?i)state|model|net|optim|epoch|iter|step|loss|acc|best|arch|args|config|encoder|decoder|ema")


def writes_in(model: PlacementModel) -> Iterator[Write]:
    """The calls of `torch.save` in a file of code, by its text; the scopes that they stand in were read."""
    for unit in units_at(model.source, model.source.called_on("save")):
        for node in walk(unit.node):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="torch" | "th" | "t"), attr="save"),
                    args=[value, *rest],
                    keywords=given,
                ):
                    file = rest[0] if rest else next((k.value for k in given if k.arg == "f"), None)
                    if file is not None:
                        # What is known of a value mustn't hang on what other rules have asked for.
                        model.ensure(unit.scope)
                        yield Write(node, value, file, model)


def _of_whole_models(call: ast.Call, named: set[str], own: list[Write], facts: Facts) -> list[Write]:
    """What writes modules themselves in a project, where a load of a file of any name asks for one: `torch.load(path).eval()`."""
    if named or not is_whole_model(call, facts):
        return []
    written = _all_writes(own, facts)
    return [w for w in written if all(v.kind is Kind.MODULE for _, v in w.model.value(w.value).alternatives())]


def _all_writes(own: list[Write], facts: Facts) -> list[Write]:
    """The writes of a file, which are its own, and those of the other files of its project."""
    return [*own, *(w for model in facts.model.files_matching(SAVING) for w in writes_in(model))]


def _of_class(call: ast.Call, own: list[Write], facts: Facts) -> list[Write]:
    """What the methods of the class save that a load stands in, or else what those that it inherits save."""
    cls = facts.model.source.class_of(call)
    found = [w for w in own if cls is not None and facts.model.source.class_of(w.call) is cls]
    return found or [*_of_bases(call, facts)]


def _of_bases(call: ast.Call, facts: Facts) -> Iterator[Write]:
    """What methods save that the class around a load inherits from the project's own."""
    cls = facts.model.class_around(call)
    for base in cls.project_lineage() if cls is not None else ():
        model = facts.model.file_of(base.source)
        if model is not None:
            yield from (w for w in writes_in(model) if model.source.class_of(w.call) is base.node)


def _is_of_numbers(write: Write) -> bool:
    """Whether the class that writes uses torch for nothing but files: what it counts and keeps are numbers, as in a schedule."""
    cls = write.model.source.class_of(write.call)
    if cls is None or not isinstance(write.value, (ast.Dict, ast.Name)) or not parts_of(write):
        return False
    used = {
        n.attr
        for n in walk(cls)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "torch"
    }
    said = {n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in walk(cls)}
    return used <= _FILES and said.isdisjoint(_OF_TENSORS) and not any(map(_is_foreign, cls.bases))


def _is_foreign(base: ast.expr) -> bool:
    """Whether a class comes of another file's: what that keeps isn't seen here."""
    return isinstance(base, ast.Attribute)


_FILES = frozenset({"save", "load"})
# What is said of tensors and of what holds some.
_OF_TENSORS = frozenset(
    {"state_dict", "load_state_dict", "parameters", "to", "cuda", "tensor", "Tensor", "nn", "Module"}
)


def keys_asked(call: ast.Call, facts: Facts) -> set[str]:
    """The constant keys that are asked of what a call loads: of itself, or of the one name that it is assigned to."""
    match parent := next(facts.model.ancestors(call), None):
        case ast.Subscript(value=value, slice=key) if value is call:
            options = facts.model.assigned_values(key) if isinstance(key, ast.Name) else [key]
            return {o.value for o in options if isinstance(o, ast.Constant) and isinstance(o.value, str)}
        case ast.Assign(targets=[ast.Name(id=name)]):
            scope = facts.model.enclosing_scope(parent)
            return {
                n.slice.value
                for n in own_nodes(scope)
                if isinstance(n, ast.Subscript)
                and isinstance(n.value, ast.Name)
                and n.value.id == name
                and isinstance(n.ctx, ast.Load)
                and isinstance(n.slice, ast.Constant)
                and isinstance(n.slice.value, str)
            }
    return set()


def parts_of(write: Write) -> dict[str, ast.expr]:
    """What is written under each constant key of a dict."""
    values = write.model.assigned_values(write.value) if isinstance(write.value, ast.Name) else [write.value]
    return {
        key.value: part
        for value in values
        if isinstance(value, ast.Dict)
        for key, part in zip(value.keys, value.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def texts_in(values: Iterable[ast.AST]) -> list[str]:
    """The texts that stand in expressions."""
    return [n.value for v in values for n in walk(v) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def _texts_of(file: ast.expr, write: Write) -> set[str]:
    """The texts in a path, and in what its names are assigned."""
    names = [n for n in walk(file) if isinstance(n, ast.Name)]
    values = [file, *(v for n in names for v in write.model.assigned_values(n))]
    values += (v for name in names for v in write.model.source.top_level_values(name.id))
    return set(texts_in(values))
