"""Bytes in, bytes out: regular files alone are read, up to a size, and a file is replaced whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

try:
    # `hashlib` has it from there, and brings OpenSSL along, which takes longer to load than a file to lint.
    from _blake2 import blake2b as blake2b
except ImportError:
    from hashlib import blake2b as blake2b

# What is read of one file where nobody says otherwise.
MAX_BYTES = 4_000_000

# What an editor holds of files and hasn't saved, by their real paths: it is read in the files' place.
unsaved: dict[str, bytes] = {}

# What a path can lead to that is no file, by the type in its mode.
_NO_FILES = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class FileError(Exception):
    """A file that can't be read or written; the text is one line without the file's name."""


class TooLargeFileError(FileError):
    """A file that is passed over because of its size."""


class TooLargeError(OSError):
    """A file that is larger than asked for."""

    def __init__(self, limit: int) -> None:
        super().__init__(errno.EFBIG, f"it is larger than {spelt_size(limit)}")


class ChangedError(OSError):
    """A file that isn't as it was when it was read."""

    def __init__(self) -> None:
        super().__init__(errno.EBUSY, "it changed since it was read, and is left as it is now; run again")


def spelt_size(count: int) -> str:
    """A number of bytes for a reader: `4 MB`, `1.5 MB`, `700 kB`."""
    for unit, factor in (("MB", 1_000_000), ("kB", 1_000)):
        if count >= factor:
            return f"{count / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count} bytes"


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file, or of one that a link leads to.

    What an editor holds unsaved goes before what is on the disk. Raises OSError, at once also for what would be read
    without an end (a pipe, a device), and TooLargeError.
    """
    if unsaved and (held := unsaved.get(os.path.realpath(path))) is not None:
        if len(held) > limit:
            raise TooLargeError(limit)
        return held
    _need_file(os.stat(path))  # noqa: PTH116 - without an open, which has effects on some devices
    # It may have been exchanged since: without a writer, to open a pipe would wait for one.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        _need_file(os.fstat(handle))
        # Some files, such as those of /proc, don't tell their size.
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise TooLargeError(limit)
    return raw


def digest_of(raw: bytes) -> str:
    """What stands for some bytes."""
    return blake2b(raw, digest_size=16).hexdigest()


def _need_file(found: os.stat_result) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if kind in _NO_FILES:
        raise OSError(errno.EINVAL, f"it is {_NO_FILES[kind]}, not a file")


def replace_bytes(path: str, data: bytes, expected: bytes) -> None:
    """Puts `data` in a regular file's place, whole or not at all, where the file still holds `expected`.

    What is known of the file beside its bytes (mode, owner, extended attributes) stays. Where the file has further
    names (hard links), they keep showing the same file: it is then overwritten. Raises OSError, and ChangedError.
    """
    before = os.stat(path)  # noqa: PTH116
    if not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, "it is read-only")
    with _undisturbed(), _written_beside(path, data) as temporary:
        if _now(path, len(expected)) != expected:
            raise ChangedError
        if before.st_nlink > 1:
            _overwrite(path, data, expected)
            return
        _dress_as(path, temporary, before)
        os.replace(temporary, path)  # noqa: PTH105
        _sync_folder(path)


def put_bytes(path: str, data: bytes) -> None:
    """Puts `data` into a file, which needn't be there yet, whole or not at all; what is no file is written to. Raises OSError."""
    try:
        before = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        with open(path, "wb") as stream:  # noqa: PTH123
            stream.write(data)
        return
    if before is not None:
        path = os.path.realpath(path)
        replace_bytes(path, data, read_bytes(Path(path), before.st_size))
        return
    with _undisturbed(), _written_beside(path, data) as temporary:
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # noqa: PTH101
        os.replace(temporary, path)  # noqa: PTH105
        _sync_folder(path)


@contextlib.contextmanager
def _written_beside(path: str, data: bytes) -> Iterator[str]:
    """A new file in a file's folder that holds `data` for sure; taken away unless it was put in that file's place."""
    import tempfile

    handle, temporary = tempfile.mkstemp(prefix=".devlint-", dir=os.path.dirname(path) or ".")  # noqa: PTH120
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108


def _now(path: str, size: int) -> bytes | None:
    """What a file holds; None where that is more than `size`."""
    try:
        return read_bytes(Path(path), size)
    except TooLargeError:
        return None


def _overwrite(path: str, data: bytes, expected: bytes) -> None:
    """Writes into a file itself; what it held comes back where the disk is too full for that."""
    with open(path, "r+b", buffering=0) as file:  # noqa: PTH123
        try:
            _write_all(file, data)
            file.truncate()
        except OSError:
            file.seek(0)
            _write_all(file, expected)
            file.truncate()
            raise
        os.fsync(file.fileno())


def _write_all(file: FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def _dress_as(path: str, temporary: str, before: os.stat_result) -> None:
    """Gives a new file the owner, mode and extended attributes of another, as far as we may."""
    import shutil

    with contextlib.suppress(OSError, AttributeError):
        os.chown(temporary, before.st_uid, before.st_gid)
    with contextlib.suppress(OSError):
        shutil.copystat(path, temporary)
    # copystat gives it the old file's times too.
    os.utime(temporary)
    os.chmod(temporary, stat.S_IMODE(before.st_mode))  # noqa: PTH101


def _sync_folder(path: str) -> None:
    """Has the disk know of a rename, where folders can be synchronised at all."""
    with contextlib.suppress(OSError):
        handle = os.open(os.path.dirname(path) or ".", os.O_RDONLY)  # noqa: PTH120
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """A stretch that signals which end the program wait for, so that it leaves nothing half done behind."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    ending = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
