"""Every regular expression of the linter takes time in proportion to its text, by its form."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import devlint_rules
import pytest
from regular import superlinear

import devlint
from devlint.regexes import Regex
from devlint.rule import load_registry

# Modes in which a search doesn't begin anew at each character.
ANCHORED = {"match", "fullmatch"}

# Methods that look for an expression, given as a text, in the files of a project; and those of `re` that are told one by its name.
SEARCHING = {
    *("texts_match", "papers_match", "project_uses", "files_matching", "matching", "uses", "uses_itself", "is_tried_by", "file_with", "never_says"),
    *("package_says", "search", "match", "fullmatch", "findall", "finditer"),
}  # fmt: skip

# What the form tells of these isn't so.
SOUND = {
    "devlint.commands.where:_split_place": "reads an argument of the command line",
    "devlint.notebooks._LEXEME": "a string that isn't closed matches too",
    "devlint.words._TOKEN": "reads expressions, not texts",
    "devlint.signatures.answers.silence._HOST_FUNCTIONS": "each of its loops reads to the end of a name, which is the end of the text",
    "devlint.placement.cold._OCCASIONAL": "after a run of word characters there is always a boundary",
    "devlint.placement.cold._FOR_LOOKING": "after a run of word characters there is always a boundary",
}


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """The modules of a package that lint, the runtime companion left out."""
    top = Path(package.__file__ or "").parent
    for file in sorted(top.rglob("*.py")):
        inside = file.relative_to(top).with_suffix("")
        if inside.parts[0] not in ("runtime", "__main__"):
            yield importlib.import_module(".".join([package.__name__, *inside.parts]).removesuffix(".__init__"))


def patterns_in(value: object) -> Iterator[re.Pattern]:
    """Compiled expressions, in containers too."""
    if isinstance(value, (re.Pattern, Regex)):
        yield value
    elif isinstance(value, dict):
        for item in (*value.keys(), *value.values()):
            yield from patterns_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from patterns_in(item)


def uses_of(name: str, source: str) -> set[str]:
    """The methods of a compiled expression that a module calls."""
    return set(re.findall(rf"\b{re.escape(name)}(?:\[[^\]]*\])?\.(\w+)", source))


def everything() -> Iterator[tuple[str, str, int, bool]]:
    """Where each expression stands, its text and flags, and whether it is searched for."""
    for module in (m for package in (devlint, devlint_rules) for m in modules(package)):
        source = Path(module.__file__ or "").read_text("utf-8")
        for name, value in vars(module).items():
            for pattern in patterns_in(value):
                uses = uses_of(name, source)
                text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
                yield f"{module.__name__}.{name}", text, pattern.flags & ~re.UNICODE, not uses or bool(uses - ANCHORED)
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=how), args=[ast.Constant(value=str() as text), *_]
                ) if how != "compile":
                    yield f"{module.__name__}:{node.lineno}", text, 0, how not in ANCHORED
                case ast.Call(func=ast.Attribute(attr=how), args=[asked, *_]) if how in SEARCHING:
                    found = getattr(module, asked.id, None) if isinstance(asked, ast.Name) else None
                    text = asked.value if isinstance(asked, ast.Constant) else found
                    if isinstance(text, str):
                        yield f"{module.__name__}:{node.lineno}", text, 0, how not in ANCHORED
    for rule in load_registry().rules():
        for field, texts in (("trigger", [rule.trigger]), ("needs", rule.needs), ("alias", [rule.alias])):
            for text in texts:
                yield f"{rule.code}.{field}", text, 0, True


EVERYTHING = {(text, flags, search): where for where, text, flags, search in everything()}


@pytest.mark.parametrize(
    ("pattern", "search", "grows"),
    [
        (r"\w+\(", True, True),
        (r"\w+\(", False, False),
        (r"\b\w+\(", True, False),
        (r"(?<![.\w])\w+x", True, False),
        (r"(?<!\.)\w+x", True, True),
        (r"#\s*noqa", True, False),
        (r"(?:a|ab|b)*c", False, True),
        (r"(?:a*)*b", False, True),
        (r"a*a*b", False, True),
        (r"a*ba*c", False, False),
        (r"\s*,\s*", True, True),
        (r"\s*,\s*", False, False),
        (r"(?m)^[ \t]*x", True, False),
        (r"(?m)^\s*x", True, True),
        (r"a[^\n]*b", True, True),
        (r"a[^\na]*b", True, False),
        (r"a[^\n]{0,300}b", True, False),
        (r"x.*y.*z", False, True),
        (r"(?:\w+\.)*\w+x", False, False),
        (r"(?:\w+\.?)*x", False, True),
        (r"(?i)a[b-c]*B*d", False, True),
        (r"\d+", True, False),
        (r"(\d+)$", True, True),
        (r".*a.*", False, False),
        (r".*a.*b", False, True),
    ],
)
def test_the_form_tells(pattern, search, grows):
    assert bool(superlinear(pattern, search=search)) == grows


@pytest.mark.parametrize(("text", "flags", "search"), EVERYTHING, ids=list(EVERYTHING.values()))
def test_it_is_linear(text, flags, search):
    where = EVERYTHING[text, flags, search].split(":")[0]
    if any(sound.split(":")[0] == where for sound in SOUND):
        return
    told = superlinear(text, flags, search=search)
    assert told == "", text
