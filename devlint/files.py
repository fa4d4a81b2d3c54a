"""Text in and text out: which files are linted, how they are read, and how they are written back byte for byte."""

from __future__ import annotations

import codecs
import dataclasses
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

from devlint.disk import (
    MAX_BYTES,
    FileError,
    TooLargeError,
    TooLargeFileError,
    digest_of,
    read_bytes,
    replace_bytes,
    spelt_size,
)
from devlint.findings import Span
from devlint.patterns import USUAL_EXCLUDES, is_valid, verdict, without_those_on
from devlint.records import record
from devlint.settings import FILE_NAMES, Settings, SettingsError
from devlint.textmap import split_lines

SUFFIXES = (".py", ".pyi", ".ipynb")
# Pages with blocks of code: linted where they are named, and in folders where the settings say so.
PAGE_SUFFIXES = (".md", ".markdown", ".rst")


# Most of a notebook is what its cells gave out: it may be this many times as large as a Python file.
_NOTEBOOK_FACTOR = 10


# A tree takes 1.4 kB for each item of a list: with more commas than these, a file is a table of data.
MAX_COMMAS = 400_000


class Container(Protocol):
    """A file that is no Python itself and holds some: a notebook (devlint/notebooks.py), a page (devlint/markup.py)."""

    @property
    def text(self) -> str:
        """The whole file's text."""
        ...

    def locate(self, line: int) -> tuple[int | None, int]:
        """The cell, if there are cells, and the line in it or in the file, of a line of the code."""
        ...

    def indent(self, line: int) -> int:
        """How many characters stand before the code on a line of it."""
        ...

    def line_of(self, cell: int | None, line: int) -> int | None:
        """The line of the code, the reverse of `locate`; None where there is none."""
        ...

    def file_line(self, line: int) -> int:
        """The line of the file, from 1, in which a line of the code is spelt."""
        ...

    def parts(self, code: str) -> list[tuple[int, str]]:
        """The parts of the code that stand by themselves, each with its first line; none where none do."""
        ...

    def emptied(self, code: str, line: int) -> str:
        """The code with the lines of the part around a line empty; the same where it has no parts that stand by themselves."""
        ...

    def can_edit(self, span: Span) -> bool:
        """Whether what an edit of the span comes to can be put back."""
        ...

    def over(self, code: str) -> Container:
        """The same with its parts where they stand in an edited code."""
        ...

    def with_code(self, code: str) -> str:
        """The file's text with an edited code; raises FileError where that can't be put back."""
        ...


@record
class Source:
    """The text of one file, or of a notebook's cells or a page's blocks joined, and what is needed to write it back.

    `display` is the path as the user gave it, with forward slashes. `text` has the line ends of the file and no byte
    order mark.
    """

    path: Path | None
    display: str
    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    # What the code was taken out of: a notebook, or a page with blocks of code.
    notebook: Container | None = None
    # What else there is to say of the file, a line each.
    remarks: tuple[str, ...] = ()
    # What stands for the bytes that were read; "" where the text is another one by now.
    digest: str = ""
    # Somebody asked for this very file: they are told where it isn't Python, whatever it is about.
    is_named: bool = False

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their ends, split where Python's parser splits."""
        return split_lines(self.text)

    def with_text(self, text: str) -> Source:
        """The same file with other text."""
        return dataclasses.replace(self, text=text, notebook=self.notebook and self.notebook.over(text), digest="")

    @property
    def parts(self) -> list[tuple[int, str]]:
        """The parts of its container that stand by themselves, each with its first line; none where there are none."""
        return self.notebook.parts(self.text) if self.notebook is not None else []

    def without_part(self, line: int) -> Source | None:
        """The source as if the part of its container that a line stands in were empty; None where there is no such part."""
        left = self.notebook.emptied(self.text, line) if self.notebook is not None else self.text
        return self.with_text(left) if left != self.text else None

    def to_bytes(self) -> bytes:
        """The whole file as it stands, or would stand, on the disk; raises FileError when it can't be written so."""
        text = self.text if self.notebook is None else self.notebook.with_code(self.text)
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = error.object[error.start]
            raise FileError(f"the fixed text holds {character!r}, which {self.encoding} can't write") from None


def read_source(path: Path, display: str, limit: int = MAX_BYTES) -> Source:
    """Reads a Python file or notebook of no more than `limit` bytes; raises FileError."""
    try:
        raw = read_bytes(path, _limit_for(display, limit))
    except TooLargeError:
        raise _too_large(display, limit) from None
    except OSError as error:
        raise FileError(f"can't be read: {error.strerror or error}") from None
    return source_from_bytes(raw, path, display, limit)


def _limit_for(display: str, limit: int) -> int:
    return limit * _NOTEBOOK_FACTOR if display.endswith(".ipynb") else limit


def _too_large(display: str, limit: int) -> TooLargeFileError:
    said = spelt_size(_limit_for(display, limit))
    return TooLargeFileError(f"is larger than {said} and was passed over; raise max-file-size, or exclude it")


def source_from_bytes(raw: bytes, path: Path | None, display: str, limit: int = MAX_BYTES) -> Source:
    """The source that `raw` holds; raises FileError, also for more than `limit` bytes."""
    if len(raw) > _limit_for(display, limit):
        raise _too_large(display, limit)
    bom = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    body = raw.removeprefix(bom)
    if display.endswith(".ipynb"):
        from devlint.notebooks import read_notebook

        notebook, code = read_notebook(_decode(body, "utf-8"))
        _need_code(code.count(","))
        return Source(path, display, code, "utf-8", bom, notebook, digest=digest_of(raw))
    _need_code(body.count(b","))
    if display.endswith(PAGE_SUFFIXES):
        return dataclasses.replace(_page(path, display, _decode(body, "utf-8"), bom), digest=digest_of(raw))
    encoding = _encoding_of(body, bom)
    return Source(path, display, _decode(body, encoding), encoding, bom, digest=digest_of(raw))


def _page(path: Path | None, display: str, text: str, bom: bytes) -> Source:
    from devlint.markup import read_page

    page, code = read_page(text, display)
    lines = ", ".join(map(str, page.amiss))
    remarks = (f"{display}: what isn't valid Python in its blocks of code was passed over (line {lines})",)
    return Source(path, display, code, "utf-8", bom, page, remarks if page.amiss else ())


def _need_code(commas: int) -> None:
    if commas > MAX_COMMAS:
        raise TooLargeFileError(
            f"holds more than {MAX_COMMAS:,} commas, as tables of data do, and was passed over; exclude it"
        )


def _encoding_of(body: bytes, bom: bytes) -> str:
    """The encoding by PEP 263: what a comment in the first two lines says, else UTF-8."""
    if b"coding" not in body[:1000]:
        return "utf-8"
    import io
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(bom + body).readline)
    except SyntaxError as error:
        raise FileError(f"can't be decoded: {error}; mend its coding comment") from None
    return encoding.removesuffix("-sig") if encoding.startswith("utf-8") else encoding


def _decode(body: bytes, encoding: str) -> str:
    advice = "save it as UTF-8, or name its encoding in a coding comment (PEP 263)"
    try:
        text = body.decode(encoding)
        # Some codecs read two spellings of one text: a file in such a one couldn't be given back unchanged.
        same = encoding in ("utf-8", "ascii") or text.encode(encoding, "replace") == body
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise FileError(f"line {line} isn't valid {encoding}: {error.reason}; {advice}") from None
    except (LookupError, ValueError, AssertionError):
        # rot13 and hex are for other things than text, idna for host names, and `undefined` for nothing.
        raise FileError(f"can't be decoded as {encoding}, which its coding comment names; {advice}") from None
    if not same:
        raise FileError(f"its {encoding} text can't be written back unchanged; save it as UTF-8")
    return text


def write_source(source: Source, before: Source) -> None:
    """Puts a source in its file's place, whole or not at all; raises FileError.

    `before` is what was read there: where the file holds something else by now, it is left alone. The mode bits stay,
    and a symbolic link stays one: the file that it points to is replaced.
    """
    if source.path is None:
        raise ValueError("a source without a path can't be written")
    data = source.to_bytes()
    try:
        replace_bytes(os.path.realpath(source.path), data, before.to_bytes())
    except OSError as error:
        raise FileError(f"can't be written: {error.strerror or error}") from None


@record(frozen=True, slots=True)
class Target:
    """A file to lint, and the settings that hold for it."""

    path: Path
    display: str
    settings: Settings
    # Met in a folder, as a link to a file.
    is_link: bool = False
    # Named itself, or in the change that is asked about; not just met in a folder.
    is_named: bool = False


@record(frozen=True, slots=True)
class Missing:
    """What can't be linted, and why, in one line."""

    # Empty where `reason` names it.
    display: str
    reason: str

    def __str__(self) -> str:
        return f"{self.display}: {self.reason}" if self.display else self.reason


def discover(
    paths: Iterable[Path], settings_for: Callable[[Path], Settings], *, force_exclude: bool = False
) -> Iterator[Target | Missing]:
    """The files under `paths`, each once, folders in the order of their names.

    `settings_for` gives the settings of a folder. A file that is named itself is linted whatever its suffix and
    whatever excludes it, unless `force_exclude`. In folders, .gitignore files are obeyed, links to folders aren't
    followed, and a link to a file counts only when the file isn't met by itself.
    """
    seen: set[str] = set()
    links: list[Target] = []
    told: set[Missing] = set()
    for path in paths:
        for item in _under(path, settings_for, force_exclude):
            if isinstance(item, Missing):
                # Settings that can't be used are met in each folder that they hold for.
                if item not in told:
                    told.add(item)
                    yield item
            elif item.is_link:
                links.append(item)
            elif _first_time(item.path, seen):
                yield item
    yield from (link for link in links if _first_time(link.path, seen))


def _under(path: Path, settings_for: Callable[[Path], Settings], force_exclude: bool) -> Iterator[Target | Missing]:
    """The files under one path of the command line, links among them."""
    display = path.as_posix()
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolving would follow links
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):  # noqa: PTH116
            yield from _walk(absolute, display, settings_for, force_exclude)
            return
        settings = settings_for(absolute.parent)
    except FileNotFoundError:
        yield Missing(display, f"no such file or folder{_meant_by(display)}")
    except OSError as error:
        yield Missing(display, f"can't be read: {error.strerror or error}")
    except ValueError as error:
        yield Missing(display, f"is no path: {error}")
    except SettingsError as error:
        yield Missing("", str(error))
    else:
        if not (force_exclude and is_excluded(absolute, settings)):
            yield Target(absolute, display, settings, is_named=True)


def _meant_by(display: str) -> str:
    """What to do instead, where a place in a file was named."""
    file, colon, place = display.partition(":")
    if not (colon and place[:1].isdigit() and os.path.isfile(file)):  # noqa: PTH113 - `is_file` raises where a folder can't be read
        return ""
    return f"; `devlint where {display}` tells what is known there"


def _first_time(path: Path, seen: set[str]) -> bool:
    real = os.path.realpath(path)
    if real in seen:
        return False
    seen.add(real)
    return True


def is_excluded(path: Path, settings: Settings) -> bool:
    """Whether a path, or a folder above it up to the settings' root, is excluded; for --force-exclude."""
    for part in (path, *path.parents):
        if part == settings.root:
            return False
        folder = part != path or part.is_dir()
        if (folder and part.name in USUAL_EXCLUDES) or settings.excludes(part, folder=folder):
            return True
    return False


def idle_excludes(settings: Settings) -> list[str]:
    """The `exclude` patterns that nothing under the settings' root bears."""
    left = [pattern for pattern in settings.exclude if not pattern.startswith("!")]
    for folder, folders, files in os.walk(settings.root):
        for name, is_folder in (*((f, True) for f in folders), *((f, False) for f in files)):
            path = os.path.join(folder, name)  # noqa: PTH118 - asked for each file
            left = [p for p in left if not verdict((p,), settings.root, path, folder=is_folder)]
        if not left:
            break
        folders[:] = [name for name in folders if name not in USUAL_EXCLUDES]
    return left


def _walk(
    top: Path, display: str, settings_for: Callable[[Path], Settings], force_exclude: bool
) -> Iterator[Target | Missing]:
    """The files with a suffix of ours under one folder, with their display paths and settings."""
    settings = settings_for(top)
    if force_exclude and is_excluded(top, settings):
        return
    # What excludes the named folder itself is overruled by the naming.
    exclude = without_those_on(settings.exclude, settings.root, top)
    if exclude != settings.exclude:
        settings = dataclasses.replace(settings, exclude=exclude)
    prefix = "" if display == "." else display.rstrip("/") + "/"
    # Not by recursion: folders can be nested deeper than Python's calls.
    open_folders = [_of_folder(_Folder(top, prefix, settings, _ignores_above(top)), settings_for)]
    while open_folders:
        item = next(open_folders[-1], None)
        if item is None:
            open_folders.pop()
        elif isinstance(item, _Folder):
            open_folders.append(_of_folder(item, settings_for))
        else:
            yield item


# A .gitignore's folder and its lines, the nearest one first.
_Ignores = tuple[tuple[Path, tuple[str, ...]], ...]


class _Folder(NamedTuple):
    """A folder to walk, what stands before the names in it, and what holds for it."""

    path: Path
    prefix: str
    settings: Settings
    ignores: _Ignores


def _of_folder(folder: _Folder, settings_for: Callable[[Path], Settings]) -> Iterator[Target | Missing | _Folder]:
    """What is in one folder, in the order of the names."""
    path, prefix, settings, ignores = folder
    try:
        with os.scandir(path) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        names = {entry.name for entry in entries}
        if not names.isdisjoint(FILE_NAMES):
            settings = settings_for(path)
    except OSError as error:
        yield Missing(prefix.rstrip("/") or ".", f"can't be read: {error.strerror or error}")
        return
    except SettingsError as error:
        yield Missing("", str(error))
        return
    if ".gitignore" in names:
        ignores = ((path, _lines_of(path / ".gitignore")), *ignores)
    suffixes = (*SUFFIXES, *PAGE_SUFFIXES) if settings.markdown else SUFFIXES
    for entry in entries:
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            taken = _is_entered(entry) if is_folder else entry.name.endswith(suffixes) and entry.is_file()
            is_link = entry.is_symlink()
        except OSError as error:
            yield Missing(prefix + entry.name, f"can't be read: {error.strerror or error}")
            continue
        if not taken or settings.excludes(entry.path, folder=is_folder) or _ignored(entry.path, ignores, is_folder):
            continue
        if is_folder:
            yield _Folder(Path(entry.path), f"{prefix}{entry.name}/", settings, ignores)
        else:
            yield Target(Path(entry.path), prefix + entry.name, settings, is_link)


def _is_entered(entry: os.DirEntry[str]) -> bool:
    """Whether a folder may hold code of one's own: an environment has other people's."""
    return entry.name not in USUAL_EXCLUDES and not os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))  # noqa: PTH110, PTH118


def _ignored(path: str, ignores: _Ignores, folder: bool) -> bool:
    for root, lines in ignores:
        said = verdict(lines, root, path, folder=folder)
        if said is not None:
            return said
    return False


def _ignores_above(top: Path) -> _Ignores:
    """The .gitignore files of the folders above `top`, up to the root of its git repository; none outside of one."""
    found: list[tuple[Path, tuple[str, ...]]] = []
    for parent in (top, *top.parents):
        if parent != top:
            found.append((parent, _lines_of(parent / ".gitignore")))
        if (parent / ".git").exists():
            found.append((parent, _lines_of(parent / ".git" / "info" / "exclude")))
            return tuple((folder, without_those_on(lines, folder, top)) for folder, lines in found if lines)
    return ()


def _lines_of(file: Path) -> tuple[str, ...]:
    """The patterns of a .gitignore file; those that aren't valid count for nothing, as in git."""
    try:
        text = read_bytes(file).decode("utf-8", "replace")
    except OSError:
        return ()
    lines = tuple(line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return lines if is_valid(lines) else tuple(line for line in lines if is_valid((line,)))
