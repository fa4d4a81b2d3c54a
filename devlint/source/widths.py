"""How long a project lets its lines be: what its formatter or its linter is told, else what the file at hand shows."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from devlint.regexes import regex

if TYPE_CHECKING:
    from configparser import ConfigParser

# Where a project says so.
FILES = (
    "pyproject.toml", "ruff.toml", ".ruff.toml", "setup.cfg", ".style.yapf", ".flake8", "tox.ini",
    ".pre-commit-config.yaml", ".editorconfig",
)  # fmt: skip
# What black and ruff let a line be where they are told nothing; flake8's and yapf's.
_FORMATTED, _BY_PEP_8 = 88, 79
# No line is too long that is no longer than this.
NARROWEST = _BY_PEP_8
# What people who use none of them stay within.
_USUAL = (_FORMATTED, 100, 120)
# So many lines that all end before a width show that somebody sees to it.
_SHOWING = 50
# So many lines that end so near to a width show that others were broken there.
_PRESSED, _NEAR = 8, 9
# One line in so many may be longer than its file's lines are.
_GOT_AWAY = 100
_FEW = 2
# Where so many lines are longer than all those, one of them by far, nobody minds, and what a fix adds to the longest is no worse.
_MANY, _FAR, _UNMINDED = 3, 150, 24
# Nobody breaks a text; one that long makes its line long. An f-string is several tokens since Python 3.12.
_LONG_TEXT = 30
_TEXTS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
# black's arguments, and that it is used at all.
_TOLD_BLACK = regex(r"(?:--line-length|(?<!\w)-l)[=\s\"',\]\[-]{1,10}(\d{2,3})\b")
_SECTION = regex(r"^\[(?:tool\.)?yapf\][^\[]{0,2000}", re.MULTILINE)
# In `.editorconfig`.
_PYTHON_FILES = regex(r"[*.{, ]py\b")
_TOLD_EDITOR = regex(r"\s*max_line_length\s*=\s*(\w+)")
_USES_YAPF = regex(r"/(?:mirrors-)?yapf(?:\.git)?\s*$", re.MULTILINE)
_USES_FLAKE8 = regex(r"/flake8(?:\.git)?\s*$", re.MULTILINE)
_TOLD_YAPF = regex(r"column_limit['\"]?\s*[:=]\s*(\d{2,4})\b")
_TOLD_FLAKE8 = regex(r"--max-line-length[=\s\"',\]\[-]{1,10}(\d{2,4})\b")
# What yapf is told where its lines begin behind their brackets, and where those close on lines of their own.
_HANGING = ("split_before_expression_after_opening_paren", "split_before_first_argument")
_DEDENTED = regex(r"dedent_closing_brackets\s*=\s*(?i:true|1)|based_on_style\s*=\s*['\"]?facebook")
_USES_BLACK = regex(r"/(?:black|ruff)-pre-commit\b|psf/black(?:-pre-commit-mirror)?\b|omnilib/ufmt\b")


def told_width(texts: Mapping[str, str]) -> int | None:
    """The width that the files of a folder tell, by their names; None where they tell none."""
    tables = {name: _toml(text) for name, text in texts.items() if name.endswith(".toml")}
    sections = {
        name: _ini(text) for name, text in texts.items() if name in ("setup.cfg", ".style.yapf", ".flake8", "tox.ini")
    }
    told = [
        *_of_formatters(tables, sections),
        *_of_linters(tables, sections),
        *_of_hooks(texts.get(".pre-commit-config.yaml", "")),
        *_of_editors(texts.get(".editorconfig", "")),
    ]
    return next(iter(told), None)


def told_form(texts: Mapping[str, str]) -> str:
    """How yapf is told to break lines by the files of a folder: "aligned" to a bracket, or "hanging" behind it; "" where it isn't used."""
    said = [
        texts.get(".style.yapf", ""),
        *map(_about_yapf, (texts.get("setup.cfg", ""), texts.get("pyproject.toml", ""))),
    ]
    told = "\n".join(said).lower()
    hooks = texts.get(".pre-commit-config.yaml", "")
    if _USES_BLACK.search(hooks) or _DEDENTED.search(told) or not (told.strip() or _USES_YAPF.search(hooks)):
        return ""
    is_hanging = any(re.search(rf"{name}\s*=\s*(?:true|1)\b", told) for name in _HANGING)
    return "hanging" if is_hanging else "aligned"


def _about_yapf(text: str) -> str:
    """The section about yapf of a file of settings."""
    return found[0] if (found := _SECTION.search(text)) else ""


def longest(text: str) -> int:
    """The longest line of a file's code."""
    return max(_lengths_of_code(text), default=0)


def shown_width(text: str) -> int:
    """The width that a file's own lines of code keep, but for a few that got away; a short file shows little."""
    lengths = sorted(_lengths_of_code(text))
    most = max(lengths, default=0)
    usual = _USUAL if len(lengths) >= _SHOWING else _USUAL[1:]
    above = sum(_BY_PEP_8 + 1 < length <= _FORMATTED for length in _lengths_of_code(text, with_texts=True))
    if len(lengths) >= _SHOWING and lengths[-_PRESSED] > _BY_PEP_8 - _NEAR and above < _FEW:
        # Many lines that end right before PEP 8's width were broken there, also those that hold a text.
        usual = (_BY_PEP_8, _BY_PEP_8 + 1, *usual)
    kept = lengths[-1 - len(lengths) // _GOT_AWAY] if lengths else 0
    fits = next((width for width in usual if most <= width), None)
    if fits or kept <= _USUAL[-1]:
        return fits or _USUAL[-1]
    nobody_minds = most > _FAR and lengths[-_MANY:][0] > _USUAL[-1]
    return most + _UNMINDED if nobody_minds else most


def keeps(text: str, width: int) -> bool:
    """Whether a file's lines of code keep a width, but for a few that got away."""
    lengths = [len(line) for line in text.splitlines()]
    most = max(_FEW, len(lengths) // _GOT_AWAY)
    if sum(length > width for length in lengths) <= most:
        return True
    return sum(length > width for length in _lengths_of_code(text)) <= most


def _lengths_of_code(text: str, *, with_texts: bool = False) -> list[int]:
    """How long the lines are that a formatter would break: not those of comments, nor those that a long text makes long.

    `with_texts` counts what holds a text of one line as well: one that is longer than a width wasn't broken for it.
    """
    lengths = [len(line) for line in text.splitlines()]
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            row, column = token.start
            if token.type == tokenize.COMMENT:
                lengths[row - 1] = len(token.line[:column].rstrip())
            elif token.type in _TEXTS and (
                token.end[0] > row or (token.end[1] - column >= _LONG_TEXT and not with_texts)
            ):
                for number in range(row, token.end[0] + 1):
                    lengths[number - 1] = 0
    except (tokenize.TokenError, SyntaxError, IndexError):
        # What can't be told apart is all taken for code.
        return [len(line) for line in text.splitlines()]
    return lengths


def _of_formatters(tables: Mapping[str, dict[str, Any]], sections: Mapping[str, ConfigParser]) -> Iterator[int]:
    tools = tables.get("pyproject.toml", {}).get("tool", {})
    ruff = [tables[name] for name in ("ruff.toml", ".ruff.toml") if tables.get(name)]
    for table, key, usual in (
        (tools.get("black"), "line-length", _FORMATTED),
        *((table, "line-length", _FORMATTED) for table in (tools.get("ruff"), *ruff)),
        (tools.get("yapf"), "column_limit", _BY_PEP_8),
    ):
        if isinstance(table, dict):
            width = table.get(key, table.get(key.replace("-", "_"), usual))
            yield from _numbers(width)
    for parser in sections.values():
        for section in ("style", "yapf"):
            if parser.has_section(section):
                yield from _numbers(parser.get(section, "column_limit", fallback=_BY_PEP_8))


def _of_hooks(text: str) -> Iterator[int]:
    for uses, told, usual in (
        (_USES_BLACK, _TOLD_BLACK, _FORMATTED),
        (_USES_YAPF, _TOLD_YAPF, _BY_PEP_8),
        (_USES_FLAKE8, _TOLD_FLAKE8, _BY_PEP_8),
    ):
        if uses.search(text):
            yield from _numbers(match[1] if (match := told.search(text)) else usual)


def _of_linters(tables: Mapping[str, dict[str, Any]], sections: Mapping[str, ConfigParser]) -> Iterator[int]:
    for parser in sections.values():
        for section in ("flake8", "pycodestyle", "pep8"):
            if parser.has_section(section):
                said = dict(parser.items(section))
                ignored = f"{said.get('ignore', '')} {said.get('extend-ignore', '')}"
                if "E501" not in ignored:
                    yield from _numbers(said.get("max-line-length", said.get("max_line_length", _BY_PEP_8)))


def _of_editors(text: str) -> Iterator[int]:
    """What the last section says that Python's files are among, or that all are."""
    told, is_ours = "", False
    for line in text.splitlines():
        if line.startswith("["):
            is_ours = line.strip() == "[*]" or _PYTHON_FILES.search(line) is not None
        elif is_ours and (found := _TOLD_EDITOR.match(line)):
            told = found[1]
    yield from _numbers(told)


def _numbers(value: object) -> Iterator[int]:
    """The number that a setting says; nothing where it says none."""
    digits = re.match(r"\d{2,4}(?!\d)", str(value).strip())
    if digits:
        yield int(digits[0])


def _toml(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _ini(text: str) -> ConfigParser:
    import configparser

    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return configparser.ConfigParser()
    return parser
