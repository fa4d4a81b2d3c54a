"""Which file a dotted name leads to, and what a file imports, told without parsing anything."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from devlint.disk import read_bytes, read_quietly


class ImportRoots:
    """How dotted names lead to files under the import roots."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self.folders = [Path(os.path.realpath(r)) for r in folders]
        self._places: dict[tuple[str, str], Path | None] = {}
        self._searched: dict[tuple[Path, bytes], bool] = {}
        self._packages: dict[Path, tuple[Path, str]] = {}

    def name_of(self, path: Path) -> tuple[Path, str]:
        """(import root, dotted name) of a file, by the packages that it stands in."""
        folder = path.parent
        known = self._packages.get(folder)
        if known is None:
            parts: list[str] = []
            root = folder
            while (root / "__init__.py").is_file() and root.parent != root:
                parts.append(root.name)
                root = root.parent
            known = self._packages[folder] = (root, ".".join(reversed(parts)))
        root, package = known
        if not package:
            # Namespace packages: the nearest settings root above tells the name.
            for base in self.folders:
                if folder != base and folder.is_relative_to(base):
                    package, root = ".".join(folder.relative_to(base).parts), base
                    break
        if path.stem == "__init__":
            return root, package
        return root, f"{package}.{path.stem}" if package else path.stem

    def locate(self, name: str, asking: Path) -> Path | None:
        """The file of that dotted name, or None."""
        # Folders without packages may each have a module of that name.
        key = (name, str(asking.parent))
        if key not in self._places:
            root, _ = self.name_of(asking)
            self._places[key] = self._search(name, [root, asking.parent, *self.folders])
        return self._places[key]

    def _search(self, name: str, roots: Iterable[Path]) -> Path | None:
        relative = name.replace(".", "/")
        for root in dict.fromkeys(roots):
            first = root / name.split(".", 1)[0]
            if not first.is_dir() and not first.with_suffix(".py").is_file():
                continue
            for candidate in (root / f"{relative}.py", root / relative / "__init__.py"):
                if candidate.is_file():
                    return candidate
        return None

    def names_from(self, path: Path, text: str, pattern: re.Pattern[bytes]) -> set[str]:
        """The names that a file imports from project modules whose text matches a pattern; told without parsing."""
        names: set[str] = set()
        for match in _IMPORT.finditer(text):
            module = match["module"] or match["plain"]
            location = self.locate(self._absolute(module, path), path)
            if location is not None and location != path and self._matches(location, pattern):
                names |= _imported(match["names"]) if match["names"] else {match["alias"] or module.split(".")[0]}
        return names

    def import_statements(self, path: Path) -> str:
        """The import statements of a file, told without parsing it."""
        text = read_quietly(path).decode("utf-8", "replace")
        return "\n".join(match[0] for match in _IMPORT.finditer(text))

    def imports_of(self, path: Path) -> set[Path]:
        """The project's files that a file imports, told without parsing it."""
        found: set[Path] = set()
        for match in _IMPORT.finditer(self.import_statements(path)):
            module = self._absolute(match["module"] or match["plain"], path)
            # `from package import module` names a module as well.
            names = [f"{module}.{name}" for name in _imported(match["names"], original=True)] if match["names"] else []
            located = (self.locate(name, path) for name in [module, *names] if name)
            found.update(location.resolve() for location in located if location is not None)
        return found

    def _absolute(self, module: str, path: Path) -> str:
        stripped = module.lstrip(".")
        level = len(module) - len(stripped)
        if not level:
            return module
        _, name = self.name_of(path)
        package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
        base = package[: len(package) - level + 1] if level > 1 else package
        return ".".join([*base, *([stripped] if stripped else [])])

    def _matches(self, path: Path, pattern: re.Pattern[bytes]) -> bool:
        key = (path, pattern.pattern)
        if key not in self._searched:
            try:
                self._searched[key] = pattern.search(read_bytes(path)) is not None
            except OSError:
                self._searched[key] = False
        return self._searched[key]


_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]*(?P<names>\([^()]*\)|[^\s#;(][^\n#;]*)|import[ \t]+(?P<plain>[\w.]+)(?:[ \t]+as[ \t]+(?P<alias>\w+))?)",
    re.MULTILINE,
)


def _imported(names: str, *, original: bool = False) -> set[str]:
    """The names that the part of a statement after `import` binds, or those that it asks for."""
    without_comments = re.sub(r"#[^\n]*", "", names)
    parts = (part.split() for part in without_comments.strip("() \n").replace("\\", "").split(","))
    return {words[0 if original else -1] for words in parts if words and words[-1].isidentifier()}
