"""What `devlint new-rule` writes: a rule with its page, a skeleton of its cases, and a pack around them where there is none.

What is written passes its own tests at once; what says TODO is to be replaced.
"""

from __future__ import annotations

import keyword
import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from devlint.rule import CODE, ENTRY_POINTS, NAME

# The pack that comes with devlint, and the beginning of codes that is its own.
_OURS = ("devlint_rules", "DEV")
# A new rule of devlint's own is opt-in.
_OPT_IN = "    # Until it was judged on enough code of others.\n    default = False\n"


class ScaffoldError(Exception):
    """Why nothing was written; one line that says what to do."""


@dataclass(frozen=True)
class _Pack:
    """A project that holds rules: its folder, and the package in which the new one goes."""

    folder: Path
    package: str
    is_new: bool = False

    @property
    def source(self) -> Path:
        """The folder of the package; raises ScaffoldError where it isn't found."""
        inside = Path(*self.package.split("."))
        if self.is_new:
            return self.folder / inside
        for root in (self.folder, self.folder / "src", *sorted(p for p in self.folder.iterdir() if p.is_dir())):
            if (root / inside).is_dir():
                return root / inside
        raise ScaffoldError(f"{self.folder}: the package {self.package} isn't there, nor in its src folder")


def _pack_in(folder: Path, into: str | None) -> _Pack:
    """The pack of a folder, with the package that the rule goes into."""
    project = folder / "pyproject.toml"
    if not project.exists():
        return _Pack(folder, _package_name(folder), is_new=True)
    try:
        table = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError) as error:
        raise ScaffoldError(f"{project}: {str(error).splitlines()[0]}") from None
    packages = [value.split(":")[0] for value in table.get("entry-points", {}).get(ENTRY_POINTS, {}).values()]
    if not packages:
        raise ScaffoldError(
            f'{project} names no rule pack: add [project.entry-points."{ENTRY_POINTS}"], or name a new folder'
        )
    inside = [package for package in packages if into is None or f"{into}.".startswith(f"{package}.")]
    if len(inside) != 1:
        raise ScaffoldError(f"{project} has the packs {', '.join(packages)}: name one, or a package of one, by --into")
    return _Pack(folder, into or inside[0])


def new_rule(code: str, name: str, folder: Path, into: str | None = None) -> dict[Path, str]:
    """The files to write for a rule in the pack whose project a folder holds; none of them is there yet.

    A folder that is empty, or isn't there, gets a new pack with its name. `into` names the package that the rule goes into
    where it isn't the pack's own. Raises ScaffoldError.
    """
    if not re.fullmatch(CODE, code):
        raise ScaffoldError(f"'{code}' isn't a code: capital letters and three or four digits, such as ACME001")
    if not re.fullmatch(NAME, name):
        raise ScaffoldError(f"'{name}' isn't a name: words in lower case with hyphens between, such as dropped-copy")
    pack = _pack_in(folder, into)
    ours, prefix = _OURS
    if code.startswith(prefix) and pack.package.split(".")[0] != ours:
        raise ScaffoldError(
            f"codes that begin with {prefix} are devlint's own: choose letters of yours; for a rule of devlint's own, --into names a package of its pack"
        )
    words = {
        "code": code,
        "name": name,
        "class_name": "".join(word.capitalize() for word in name.split("-")),
        "package": pack.package,
        "distribution": pack.folder.resolve().name,
        "default": _OPT_IN if code.startswith(prefix) else "",
    }
    written = {
        pack.source / f"{code.lower()}.py": _filled("rule.py", words),
        pack.folder / "tests" / "cases" / f"{code.lower()}.md": _filled("case.md", words),
    }
    if pack.is_new:
        written[pack.folder / "pyproject.toml"] = _filled("pyproject.toml", words)
        written[pack.source / "__init__.py"] = '"""Rules for devlint, one module each."""\n'
        written[pack.folder / "tests" / "test_rules.py"] = _filled("test_rules.py", words)
    for path in written:
        if path.exists():
            raise ScaffoldError(f"{path} is there already, and nothing was written")
    _check_free(pack, code, name)
    return written


def _check_free(pack: _Pack, code: str, name: str) -> None:
    """Raises ScaffoldError where a rule of the pack has that code or name, installed or not."""
    # Of a subpackage, all of its pack.
    source = pack.source if pack.is_new else pack.source.parents[pack.package.count(".")] / pack.package.split(".")[0]
    for path in sorted(source.rglob("*.py")):
        taken = re.search(rf"""^    (?:code|name) = ["'](?:{code}|{name})["']""", path.read_text("utf-8"), re.MULTILINE)
        if taken is not None:
            raise ScaffoldError(f"{path} has `{taken[0].strip()}` already: choose another, and nothing was written")


def _package_name(folder: Path) -> str:
    """The name of the package of a new pack."""
    name = re.sub(r"[-. ]", "_", folder.resolve().name).lower()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ScaffoldError(
            f"{folder} has no pyproject.toml: name a pack's folder, or one that isn't there yet for a new pack"
        )
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ScaffoldError(f"'{folder.resolve().name}' can't be the name of a package: choose another folder")
    return name


def _filled(template: str, words: dict[str, str]) -> str:
    text = (files(__name__) / "templates" / f"{template}.in").read_text(encoding="utf-8")
    return Template(text).substitute(words)
