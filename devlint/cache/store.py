"""The rows of a cache, in an SQLite file that several runs may use at once.

A row that was damaged is as good as none: each says what its bytes come to. A look (a question and its answer) and a
record (all looks of one file) bear that as their name, so that what many results hang on is kept once.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

from devlint.disk import blake2b
from devlint.records import record
from devlint.source.filesystem import FileFacts
from devlint.source.looks import Answer, Question

Result = TypeVar("Result")

# Larger than this, the older half of the results is dropped.
MAX_BYTES = 256_000_000
# Rows that nothing refers to any more are looked for when the file has grown by this factor.
_GROWTH = 2
_SMALL = 4_000_000
# How long another run's writing is waited for, in seconds.
_PATIENCE = 2.0
_AT_ONCE = 500

_TABLES = (
    "CREATE TABLE entry (key TEXT PRIMARY KEY, findings TEXT, records BLOB, sum INTEGER, time INTEGER) WITHOUT ROWID",
    "CREATE TABLE file (path BLOB PRIMARY KEY, state TEXT, digest TEXT, imports BLOB, sum INTEGER) WITHOUT ROWID",
    "CREATE TABLE identity (look TEXT PRIMARY KEY, sources TEXT) WITHOUT ROWID",
    "CREATE TABLE latest (id INTEGER PRIMARY KEY, answer BLOB, basis BLOB, sum INTEGER)",
    "CREATE TABLE look (id INTEGER PRIMARY KEY, question BLOB, answer BLOB, basis BLOB)",
    "CREATE TABLE record (id INTEGER PRIMARY KEY, looks BLOB)",
    "CREATE TABLE swept (bytes INTEGER)",
)


@record(frozen=True, slots=True)
class Entry:
    """A kept result: the findings as JSON, and the records of all files that they hang on."""

    findings: str
    records: tuple[int, ...]


@record
class Rows:
    """What is read of a store, or goes into it."""

    entries: dict[str, Entry] = field(default_factory=dict)
    records: dict[int, tuple[int, ...]] = field(default_factory=dict)
    looks: dict[int, tuple[Question, Answer]] = field(default_factory=dict)

    def add_record(self, looks: Iterable[tuple[Question, Answer]]) -> int:
        """Takes in all looks of a file; returns the name of the record."""
        named = {_sum(*_spelt(question, answer)): (question, answer) for question, answer in looks}
        self.looks |= named
        names = tuple(sorted(named))
        record = _sum(_packed(names))
        self.records[record] = names
        return record


class Store:
    """An SQLite file; whatever is wrong with it, it is as if it were empty."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def facts(self) -> dict[str, FileFacts]:
        """What was known of files, by path."""

        def read(database: sqlite3.Connection) -> dict[str, FileFacts]:
            found = {}
            for raw, state, digest, imports, total in database.execute("SELECT * FROM file"):
                if total == _sum(raw, state.encode(), digest.encode(), imports or b""):
                    said = None if imports is None else _text(imports)
                    found[_text(raw)] = FileFacts(state, digest, said)
            return found

        return self._reading(read) or {}

    def identity(self, look: str) -> str | None:
        """The digest of sources that looked so to the disk."""

        def read(database: sqlite3.Connection) -> str | None:
            found = database.execute("SELECT sources FROM identity WHERE look = ?", [look]).fetchone()
            return str(found[0]) if found else None

        return self._reading(read)

    def latest(self) -> dict[int, Answer]:
        """The answers that were found again, or found anew, where what they hang on was no longer the same: by `name_of`."""

        def read(database: sqlite3.Connection) -> dict[int, Answer]:
            rows = database.execute("SELECT * FROM latest")
            told = ((name, a, b) for name, a, b, total in rows if total == _sum(b"%d" % name, a, b))
            return {name: Answer(_text(answer), _text(basis)) for name, answer, basis in told}

        return self._reading(read) or {}

    def rows(self, keys: Sequence[str]) -> Rows:
        """The entries of some keys, with all that they refer to."""
        return self._reading(lambda database: _read_rows(database, keys)) or Rows()

    def write(
        self, rows: Rows, facts: Mapping[str, FileFacts], latest: Mapping[int, Answer], identity: str, now: int
    ) -> None:
        """Adds rows; what can't be written is lost. `identity` is how sources look, and their digest; or ""."""
        files = (_file_row(path, known) for path, known in facts.items())
        looks = ((name, *_spelt(*look)) for name, look in rows.looks.items())
        answers = ((name, *_answer_row(name, answer)) for name, answer in latest.items())
        records = ((name, _packed(names)) for name, names in rows.records.items())
        entries = (_entry_row(key, entry, now) for key, entry in rows.entries.items())

        def put(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                if identity:
                    database.execute("INSERT OR REPLACE INTO identity VALUES (?, ?)", identity.split())
                database.executemany("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?)", files)
                database.executemany("INSERT OR REPLACE INTO look VALUES (?, ?, ?, ?)", looks)
                database.executemany("INSERT OR REPLACE INTO latest VALUES (?, ?, ?, ?)", answers)
                database.executemany("INSERT OR REPLACE INTO record VALUES (?, ?)", records)
                database.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?)", entries)
                grown = _size(database)
                (last,) = database.execute("SELECT max(bytes) FROM swept").fetchone()
                if grown > max(_SMALL, _GROWTH * (last or 0)):
                    _sweep(database, halve=grown > MAX_BYTES)

        self._done(put)

    def _reading(self, work: Callable[[sqlite3.Connection], Result]) -> Result | None:
        return self._done(work) if self._path.is_file() else None

    def _done(self, work: Callable[[sqlite3.Connection], Result]) -> Result | None:
        """What some work with the database gives; None where it can't be done. A file that is damaged is removed."""
        try:
            with closing(self._connect()) as database:
                return work(database)
        except (sqlite3.OperationalError, OSError):
            # Another run has it, or the disk won't.
            return None
        except (sqlite3.DatabaseError, TypeError, ValueError, AttributeError):
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            return None

    def _connect(self) -> sqlite3.Connection:
        """The database, with our tables and nothing else in it. Raises sqlite3.Error, OSError."""
        if self._path.is_symlink():
            self._path.unlink()
        database = sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None)
        try:
            database.execute("PRAGMA trusted_schema = OFF")
            database.execute("PRAGMA synchronous = OFF")
            _need_ours(database)
        except BaseException:
            database.close()
            raise
        return database


def _read_rows(database: sqlite3.Connection, keys: Sequence[str]) -> Rows:
    found = Rows()
    for key, findings, records, total, _ in _among(database, "SELECT * FROM entry WHERE key IN", keys):
        if total == _sum(key.encode(), findings.encode(), records):
            found.entries[key] = Entry(findings, _unpacked(records))
    wanted = sorted({name for entry in found.entries.values() for name in entry.records})
    for name, looks in _among(database, "SELECT * FROM record WHERE id IN", wanted):
        if name == _sum(looks):
            found.records[name] = _unpacked(looks)
    wanted = sorted({look for looks in found.records.values() for look in looks})
    for look, question, answer, basis in _among(database, "SELECT * FROM look WHERE id IN", wanted):
        if look == _sum(question, answer, basis):
            found.looks[look] = tuple(_text(question).split("\0")), Answer(_text(answer), _text(basis))
    return found


def _among(database: sqlite3.Connection, query: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of a query that ends in IN, for some values."""
    for at in range(0, len(values), _AT_ONCE):
        some = values[at : at + _AT_ONCE]
        yield from database.execute(f"{query} ({','.join('?' * len(some))})", some)


def _need_ours(database: sqlite3.Connection) -> None:
    """Gives an empty database our tables; raises sqlite3.DatabaseError for one that has others."""
    made = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
    if not database.execute(made).fetchone():
        with database:
            database.execute("BEGIN IMMEDIATE")
            if not database.execute(made).fetchone():
                for table in _TABLES:
                    database.execute(table)
    if sorted(sql for (sql,) in database.execute(made)) != sorted(_TABLES):
        raise sqlite3.DatabaseError("it isn't ours")


def _sweep(database: sqlite3.Connection, *, halve: bool) -> None:
    """Drops what nothing refers to, and where told the older half of the results."""
    if halve:
        database.execute("DELETE FROM entry WHERE time <= (SELECT time FROM entry ORDER BY time LIMIT 1 OFFSET (SELECT count(*) / 2 FROM entry))")  # fmt: skip
    used = {record for (records,) in database.execute("SELECT records FROM entry") for record in _unpacked(records)}
    found = {record: _unpacked(looks) for record, looks in database.execute("SELECT * FROM record")}
    looks = {look for record, names in found.items() if record in used for look in names}
    database.executemany("DELETE FROM record WHERE id = ?", ((record,) for record in found.keys() - used))
    known = {look for (look,) in database.execute("SELECT id FROM look")}
    database.executemany("DELETE FROM look WHERE id = ?", ((look,) for look in known - looks))
    # What is told again is told quickly enough.
    database.execute("DELETE FROM latest")
    database.execute("DELETE FROM swept")
    free, whole = (database.execute(f"PRAGMA {what}").fetchone()[0] for what in ("freelist_count", "page_count"))
    database.execute("INSERT INTO swept VALUES (?)", [_size(database) * (whole - free) // max(whole, 1)])


def _size(database: sqlite3.Connection) -> int:
    count, size = (database.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
    return int(count * size)


def _entry_row(key: str, entry: Entry, now: int) -> tuple[Any, ...]:
    records = _packed(entry.records)
    return key, entry.findings, records, _sum(key.encode(), entry.findings.encode(), records), now


def _file_row(path: str, facts: FileFacts) -> tuple[Any, ...]:
    raw = _raw(path)
    imports = None if facts.imports is None else _raw(facts.imports)
    return (
        raw,
        facts.state,
        facts.digest,
        imports,
        _sum(raw, facts.state.encode(), facts.digest.encode(), imports or b""),
    )


def _spelt(question: Question, answer: Answer) -> tuple[bytes, bytes, bytes]:
    return _raw("\0".join(question)), _raw(answer.text), _raw(answer.basis)


def name_of(roots: Sequence[Path], question: Question) -> int:
    """What stands for a question that is asked under some import roots."""
    return _sum(*(_raw(str(root)) for root in roots), b"", *map(_raw, question))


def _answer_row(name: int, answer: Answer) -> tuple[bytes, bytes, int]:
    text, basis = _raw(answer.text), _raw(answer.basis)
    return text, basis, _sum(b"%d" % name, text, basis)


def _sum(*parts: bytes) -> int:
    """What some bytes come to, as the kind of number that SQLite takes."""
    hashed = blake2b(digest_size=8)
    for part in parts:
        hashed.update(b"%d " % len(part))
        hashed.update(part)
    return int.from_bytes(hashed.digest(), "little", signed=True)


def _packed(numbers: Sequence[int]) -> bytes:
    return array("q", numbers).tobytes()


def _unpacked(raw: bytes) -> tuple[int, ...]:
    return tuple(array("q", raw))


# Names of files may hold bytes that are no text.
def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")
