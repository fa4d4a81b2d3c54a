"""Files in parts of about as many bytes, the same on each machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

from devlint.files import Target

# Between these, a chunk of work is as large as keeps all processes busy to the end.
_LEAST_BYTES = 50_000
_MOST_BYTES = 500_000
_CHUNKS_PER_JOB = 8


def shard(targets: Sequence[Target], number: int, count: int) -> list[Target]:
    """The part with that number, from 1, of `count` parts of the files."""
    sizes = [0] * count
    chosen = set()
    for size, target in sorted(((_size(t), t) for t in targets), key=lambda pair: (-pair[0], pair[1].display)):
        lightest = sizes.index(min(sizes))
        sizes[lightest] += size
        if lightest == number - 1:
            chosen.add(target.display)
    return [target for target in targets if target.display in chosen]


def chunks(targets: Sequence[Target], jobs: int) -> list[Sequence[Target]]:
    """The files in runs of neighbours, which tend to read the same others, of about as many bytes each.

    Each process gets some, however small the files are.
    """
    sizes = [_size(target) for target in targets]
    whole = sum(sizes)
    most = min(max(whole // (jobs * _CHUNKS_PER_JOB), _LEAST_BYTES), _MOST_BYTES, whole // jobs)
    found: list[Sequence[Target]] = []
    start = held = 0
    for at, size in enumerate(sizes):
        if held and held + size > most:
            found.append(targets[start:at])
            start, held = at, 0
        held += size
    return [*found, targets[start:]] if start < len(targets) else found


def size_of(targets: Sequence[Target]) -> int:
    """The bytes of some files."""
    return sum(map(_size, targets))


def _size(target: Target) -> int:
    """A file's bytes, and one for the file itself."""
    try:
        return os.stat(target.path).st_size + 1  # noqa: PTH116
    except OSError:
        return 1
