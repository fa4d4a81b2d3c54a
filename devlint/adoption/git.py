"""What git knows of a repository: revisions, which lines were changed since one, and the files as they were.

git is run for what it has recorded; nothing in a repository is obeyed (no external diffs, no filters of contents).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from devlint.files import PAGE_SUFFIXES, SUFFIXES
from devlint.regexes import regex
from devlint.settings import FILE_NAMES

# Where a project's main branch may stand, what a CI says of it first.
_TARGETS = ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "BITBUCKET_PR_DESTINATION_BRANCH")
_MAIN = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
_WHOLE_HISTORY = "fetch the whole history (`git fetch --unshallow`; in GitHub's checkout action, `fetch-depth: 0`)"
# What a run reads beside the code: settings, what marks a project's root, what is ignored.
_BESIDE = (*FILE_NAMES, ".gitignore", "setup.cfg")
_HUNK = regex(rb"@@ -\S+ \+(\d+)(?:,(\d+))? @@")


class GitError(Exception):
    """What git can't do here; the text is one line that says what to do."""


@dataclass(frozen=True)
class Change:
    """A file that isn't as it was. Paths are from the repository's top."""

    # None: it was deleted.
    path: str | None
    # None: it is new.
    old: str | None
    # The lines that were added or changed; None for all.
    lines: frozenset[int] | None


class Repository:
    """The git repository that a folder is in. Raises GitError where there is none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.top = Path(os.path.realpath(self._said("rev-parse", "--show-toplevel")))

    def resolve(self, revision: str) -> str:
        """The commit that a revision names."""
        try:
            return self._said("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except GitError:
            why = f", a shallow clone; {_WHOLE_HISTORY}" if self.is_shallow else "; `git log` shows which there are"
            raise GitError(f"there is no revision '{revision}' in {self.top}{why}") from None

    def merge_base(self) -> str:
        """Where the current branch left the main one."""
        told = next((name for name in _TARGETS if os.environ.get(name)), None)
        for branch in [f"origin/{os.environ[told]}"] if told else _MAIN:
            try:
                tip = self._said("rev-parse", "--verify", "--quiet", "--end-of-options", f"{branch}^{{commit}}")
            except GitError:
                continue
            try:
                return self._said("merge-base", "HEAD", tip)
            except GitError:
                if self.is_shallow:
                    raise GitError(f"this shallow clone doesn't reach back to {branch}; {_WHOLE_HISTORY}") from None
                raise GitError(f"HEAD and {branch} have no commit in common; name one, as in --since=HEAD~1") from None
        if self.is_shallow:
            raise GitError(f"this shallow clone has no {branch if told else 'main branch'}; {_WHOLE_HISTORY}")
        if told:
            target = os.environ[told]
            raise GitError(
                f"there is no branch {branch}, which {told} names, in {self.top}; `git fetch origin {target}` brings it, "
                "or name another, as in --since=HEAD~1"
            )
        raise GitError(f"no main branch was found in {self.top} ({', '.join(_MAIN)}); name one, as in --since=develop")

    def head(self) -> str:
        """The last commit, or the empty tree where there is none yet."""
        try:
            return self._said("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        except GitError:
            return self._run("hash-object", "-t", "tree", "--stdin").decode().strip()

    @property
    def is_shallow(self) -> bool:
        return self._said("rev-parse", "--is-shallow-repository") == "true"

    def changes(self, revision: str, *, staged: bool) -> list[Change]:
        """How the working tree (or with `staged`, what would be committed) differs from a revision."""
        out = self._run(
            "diff", "--unified=0", "--raw", "--patch", "-z", "--find-renames", "--no-ext-diff", "--no-textconv", "--no-color",
            "--ignore-submodules", "--inter-hunk-context=0", *(["--cached"] if staged else []), revision, "--",
        )  # fmt: skip
        changes = list(_changes_in(out))
        if not staged:
            new = self._run("ls-files", "-z", "--others", "--exclude-standard", "--full-name", ":/")
            changes += [Change(os.fsdecode(path), None, None) for path in new.split(b"\0") if path]
        return changes

    def export(self, revision: str | None, into: Path, also: Iterable[str] = ()) -> None:
        """Writes the code and the settings of a revision (None: of what would be committed) under a folder.

        `also` are further files, by their paths from the top.
        """
        listed = self._tree(revision) if revision is not None else self._index()
        further = {PurePosixPath(path) for path in also}
        wanted = [
            (name, path)
            for name, path in listed
            if (path.name in _BESIDE or path.suffix in (*SUFFIXES, *PAGE_SUFFIXES) or path in further)
            # Whoever made the tree may have given it names that lead out of the folder.
            and not (path.is_absolute() or ".." in path.parts)
        ]
        for path, data in zip((path for _, path in wanted), self._blobs(name for name, _ in wanted), strict=True):
            file = into / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def _tree(self, revision: str) -> Iterator[tuple[bytes, PurePosixPath]]:
        for entry in self._run("ls-tree", "-r", "-z", "--full-tree", revision).split(b"\0"):
            about, _, path = entry.partition(b"\t")
            if about.startswith(b"100"):
                yield about.split()[2], PurePosixPath(os.fsdecode(path))

    def _index(self) -> Iterator[tuple[bytes, PurePosixPath]]:
        for entry in self._run("ls-files", "-s", "-z", "--full-name", ":/").split(b"\0"):
            about, _, path = entry.partition(b"\t")
            if about.startswith(b"100"):
                yield about.split()[1], PurePosixPath(os.fsdecode(path))

    def _blobs(self, names: Iterable[bytes]) -> Iterator[bytes]:
        asked = list(names)
        out = memoryview(self._run("cat-file", "--batch", given=b"".join(name + b"\n" for name in asked)))
        at = 0
        for _ in asked:
            end = bytes(out[at : at + 200]).index(b"\n") + at
            size = int(bytes(out[at:end]).split()[2])
            yield bytes(out[end + 1 : end + 1 + size])
            at = end + 1 + size + 1

    def _said(self, *arguments: str) -> str:
        return self._run(*arguments).decode("utf-8", "surrogateescape").strip("\n")

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        command = ["git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", *arguments]
        environment = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
        try:
            done = subprocess.run(
                command, cwd=self._folder, env=environment, input=given, capture_output=True, check=False
            )
        except FileNotFoundError:
            raise GitError("git isn't installed here, and --since and --staged ask it what was changed") from None
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            said = lines[-1] if lines else f"git {arguments[0]} failed"
            raise GitError(said.removeprefix("fatal: "))
        return done.stdout


def _changes_in(out: bytes) -> Iterator[Change]:
    """The changes that `git diff --raw --patch -z` tells: first each file's names, then each file's patch."""
    raw, _, patch = out.partition(b"\0\0")
    fields = iter(raw.rstrip(b"\0").split(b"\0"))
    entries: list[tuple[str | None, str | None]] = []
    for about in fields:
        if not about.startswith(b":"):
            break
        status = about.rsplit(b" ", 1)[-1][:1]
        first = os.fsdecode(next(fields))
        second = os.fsdecode(next(fields)) if status in (b"R", b"C") else first
        if status != b"U":
            entries.append((None if status == b"D" else second, None if status == b"A" else first))
    # What stands in a file begins with `+` or `-` there.
    patches = re.split(rb"^diff --git ", patch, flags=re.MULTILINE)[1:]
    for (path, old), hunks in zip(entries, patches, strict=False):
        yield Change(path, old, frozenset(_added_in(hunks)) if old is not None else None)


def _added_in(hunks: bytes) -> Iterator[int]:
    for line in hunks.split(b"\n"):
        if match := _HUNK.match(line):
            start, count = int(match[1]), int(match[2] or 1)
            yield from range(start, start + count)
