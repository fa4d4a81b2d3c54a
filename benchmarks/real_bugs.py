"""How many of the device-placement bugs, or of the stalls, that public projects made and mended devlint finds.

Each row of `data/real_bugs.tsv` (`--table stalls`: `data/real_stalls.tsv`) names the commit that mended a bug. devlint lints the file as its first parent has it;
the bug is found if a finding with an accepted code stands at most two lines off an accepted line. Needs clones of the
projects, with their history; the folders that it unpacks are kept for the next run.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

DATA = Path(__file__).resolve().parent / "data"
TABLES = {"bugs": DATA / "real_bugs.tsv", "stalls": DATA / "real_stalls.tsv"}
TABLE = TABLES["bugs"]
COLUMNS = ("repo", "fix_commit", "path", "lines", "code", "decidable", "note")

# Who could know of a bug: who sees the file, the project, or only the run.
Decidable = Literal["file", "project", "run"]
DECIDABLE: tuple[Decidable, ...] = get_args(Decidable)

# What devlint is asked: every rule, and no settings but its own.
LINT = ("--isolated", "--no-cache", "--select", "ALL", "--output-format", "json")
# A finding that is at most this many lines off an accepted one is there.
SLACK = 2
# A finding that is at most this many lines off is shown beside a missed bug.
NEAR = 10
# A bug that DEV301 finds is easy, and there are many of them.
EASY = "DEV301"
# A kind that no rule has yet.
NEW = "NEW:"

# What is unpacked: what is linted, and what marks the root of a project.
UNPACKED = ("*.py", "*pyproject.toml", "*setup.cfg")


class BenchmarkError(Exception):
    """The run can't go on; the text is one line that says what failed and why."""


@dataclass(frozen=True, slots=True)
class Bug:
    """One row of the table. The codes are the accepted ones, the best first."""

    repo: str
    fix: str
    path: str
    lines: tuple[int, ...]
    codes: tuple[str, ...]
    decidable: Decidable
    note: str

    @property
    def counted(self) -> bool:
        """Whether some rule could find it."""
        return any(not code.startswith(NEW) for code in self.codes)


@dataclass(frozen=True, slots=True)
class Finding:
    """What devlint found: where, and by which rule."""

    path: str
    line: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one bug: the finding that is it, those near it, and those still there after the fix."""

    bug: Bug
    hit: Finding | None
    near: tuple[Finding, ...] = ()
    after: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Bench:
    """What a run needs to know: the clones, the folder to unpack into, devlint's command, and whether to lint the fix."""

    clones: Mapping[str, Path]
    cache: Path
    command: tuple[str, ...]
    after: bool = False

    def judge(self, bugs: Sequence[Bug]) -> list[Outcome]:
        """The outcomes of bugs that one commit of one repository mended; raises BenchmarkError."""
        before = self._tree(bugs[0], "before")
        for bug in bugs:
            if not (before / bug.path).is_file():
                raise BenchmarkError(f"{bug.repo} {bug.fix}: there was no {bug.path} before; mend the row")
        found = self._lint(before, bugs)
        outcomes = [Outcome(bug, hit(bug, found), tuple(near(bug, found))) for bug in bugs]
        return self._with_after(outcomes, before, bugs) if self.after else outcomes

    def _with_after(self, outcomes: Sequence[Outcome], before: Path, bugs: Sequence[Bug]) -> list[Outcome]:
        """The same outcomes with what is still found where the bugs were."""
        after = self._tree(bugs[0], "after")
        left = self._lint(after, bugs)
        places = [moved(bug.lines, _lines(before / bug.path), _lines(after / bug.path)) for bug in bugs]
        found = [tuple(at(bug.path, lines, bug.codes, left)) for bug, lines in zip(bugs, places, strict=True)]
        return [dataclasses.replace(outcome, after=some) for outcome, some in zip(outcomes, found, strict=True)]

    def _lint(self, tree: Path, bugs: Iterable[Bug]) -> list[Finding]:
        """What devlint finds in the bugs' files, by one process in the root of a tree; a file that is gone has nothing."""
        paths = sorted({bug.path for bug in bugs if (tree / bug.path).is_file()})
        if not paths:
            return []
        # Python must not take its modules from the tree: nothing of it may run.
        environment = {**os.environ, "PYTHONSAFEPATH": "1"}
        said = _run([*self.command, *LINT, *paths], tree, environment, fine=(0, 1, 2))
        try:
            report = json.loads(said)
        except ValueError:
            raise BenchmarkError(f"`{shlex.join(self.command)}` gave no JSON report in {tree}") from None
        return [Finding(each["path"], each["line"], each["code"], each["message"]) for each in report]

    def _tree(self, bug: Bug, side: Literal["before", "after"]) -> Path:
        """The Python files before or after a fix, in a folder that is made if it isn't there yet."""
        tree = self.cache / bug.repo.replace("/", "__") / f"{bug.fix[:12]}-{side}"
        if not tree.exists():
            tree.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".", dir=tree.parent) as scratch:
                unpack(self.clones[bug.repo], f"{bug.fix}^" if side == "before" else bug.fix, Path(scratch) / tree.name)
                (Path(scratch) / tree.name).rename(tree)
        return tree


def read_bugs(table: Path) -> list[Bug]:
    """The rows of a table; raises BenchmarkError on a row that isn't one."""
    header, *rows = table.read_text(encoding="utf-8").splitlines()
    if tuple(header.split("\t")) != COLUMNS:
        raise BenchmarkError(f"{table}:1: the columns aren't {', '.join(COLUMNS)}")
    return [_bug(row, f"{table}:{number}") for number, row in enumerate(rows, 2)]


def _bug(row: str, where: str) -> Bug:
    cells = row.split("\t")
    if len(cells) != len(COLUMNS):
        raise BenchmarkError(f"{where}: has {len(cells)} cells, and there are {len(COLUMNS)} columns")
    repo, fix, path, lines, codes, decidable, note = cells
    known = next((each for each in DECIDABLE if each == decidable), None)
    if known is None:
        raise BenchmarkError(f"{where}: '{decidable}' isn't one of {', '.join(DECIDABLE)}")
    try:
        numbers = tuple(int(line) for line in lines.split(","))
    except ValueError:
        raise BenchmarkError(f"{where}: '{lines}' isn't a list of line numbers") from None
    return Bug(repo, fix, path, numbers, tuple(codes.split("|")), known, note)


def at(path: str, lines: Iterable[int], codes: Iterable[str], findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings with one of some codes on one of some lines of a file, or at most SLACK lines off."""
    places, wanted = set(lines), set(codes)
    for finding in findings:
        if finding.path == path and finding.code in wanted and _off(finding, places) <= SLACK:
            yield finding


def hit(bug: Bug, findings: Iterable[Finding]) -> Finding | None:
    """The finding that is the bug: the one whose code is the best, then the one that is nearest."""
    found = at(bug.path, bug.lines, bug.codes, findings)
    return min(found, key=lambda each: (bug.codes.index(each.code), _off(each, bug.lines)), default=None)


def near(bug: Bug, findings: Iterable[Finding]) -> Iterator[Finding]:
    """What was found around a bug, by whichever rule."""
    return (each for each in findings if each.path == bug.path and _off(each, bug.lines) <= NEAR)


def moved(lines: Iterable[int], before: Sequence[str], after: Sequence[str]) -> set[int]:
    """Where lines of a file stand after a change: a line that was changed may be any of those that took its place."""
    places: set[int] = set()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        for line in (line for line in lines if start < line <= end):
            same = new_start + line - start
            places.update({same} if tag == "equal" else range(new_start + 1, new_end + 1))
    return places


def unpack(clone: Path, commit: str, folder: Path) -> None:
    """Writes the files of a commit that matter into a new folder; raises BenchmarkError.

    `git archive` would leave out what the project's attributes say, and stumbles over blobs that a clone hasn't got.
    """
    folder.mkdir()
    # What a checkout has, and devlint takes for the root of a project.
    (folder / ".git").mkdir()
    git = ["git", f"--git-dir={clone}", f"--work-tree={folder}"]
    environment = {**os.environ, "GIT_INDEX_FILE": str(folder / ".git" / "index")}
    _run([*git, "read-tree", f"{commit}^{{commit}}"], folder, environment)
    names = _run([*git, "ls-files", "-z", "--", *UNPACKED], folder, environment)
    _run([*git, "checkout-index", "-z", "--stdin"], folder, environment, given=names)


def find_clones(folder: Path, repos: Iterable[str]) -> dict[str, Path]:
    """The git directory of each repository that has one below a folder named `owner+name` or `owner__name`."""
    if not folder.is_dir():
        raise BenchmarkError(f"{folder}: no such folder; --clones names the one with the clones")
    names = {repo.replace("/", mark): repo for repo in repos for mark in ["+", "__"]}
    found: dict[str, Path] = {}
    for parent, folders, _ in os.walk(folder):
        for name in [name for name in folders if name in names]:
            # A clone is as large as a project: nothing below it is looked for.
            folders.remove(name)
            clone = _git_directory(Path(parent) / name)
            if clone is not None:
                found.setdefault(names[name], clone)
        folders[:] = [name for name in folders if name != ".git"]
    return found


def _git_directory(folder: Path) -> Path | None:
    """The git directory of a clone, a bare one, or one in a folder of its own."""
    inner = sorted(each for each in folder.iterdir() if each.is_dir())
    places = (folder, folder / ".git", *inner, *(each / ".git" for each in inner))
    return next((each for each in places if (each / "HEAD").is_file() and (each / "objects").is_dir()), None)


def installed_codes(command: Sequence[str]) -> set[str]:
    """The codes of all rules of the devlint that a `check` command runs; raises BenchmarkError."""
    program = command[:-1] if command[-1] == "check" else command
    return {line.split()[0] for line in _run([*program, "rules"], Path.cwd()).splitlines()[1:]}


def run_all(bench: Bench, bugs: Sequence[Bug], jobs: int) -> list[Outcome]:
    """The outcomes of bugs, in their order; devlint runs once for each fix. Raises BenchmarkError."""
    groups: dict[tuple[str, str], list[Bug]] = {}
    for bug in bugs:
        groups.setdefault((bug.repo, bug.fix), []).append(bug)
    outcomes: dict[Bug, Outcome] = {}
    pool = ThreadPoolExecutor(jobs)
    try:
        for number, group in enumerate(pool.map(bench.judge, groups.values()), 1):
            outcomes.update({outcome.bug: outcome for outcome in group})
            _say(f"{number} of {len(groups)} fixes")
    finally:
        pool.shutdown(cancel_futures=True)
    _say("")
    return [outcomes[bug] for bug in bugs]


def summary(outcomes: Sequence[Outcome], installed: set[str]) -> str:
    """Found and total by who could know, and by the code that fits best, as two Markdown tables."""
    counted = [each for each in outcomes if each.bug.counted]
    rows: list[tuple[str, list[Outcome]]] = []
    for kind in DECIDABLE:
        of_kind = [each for each in counted if each.bug.decidable == kind]
        rows.append((kind, of_kind))
        if kind == "file":
            rows.append((f"file, without {EASY}", [each for each in of_kind if each.bug.codes[0] != EASY]))
    lines = ["| decidable | found | of | |", "| --- | ---: | ---: | ---: |"]
    for title, some in rows:
        found = sum(each.hit is not None for each in some)
        lines.append(
            f"| {title} | {found} | {len(some)} | {found / len(some):.0%} |" if some else f"| {title} | 0 | 0 | |"
        )
    lines += ["", f"| best code | {' | '.join(DECIDABLE)} |", f"| --- |{' ---: |' * len(DECIDABLE)}"]
    for code in sorted({_best(each.bug) for each in counted}):
        of_code = [each for each in counted if _best(each.bug) == code]
        cells = [_share([each for each in of_code if each.bug.decidable == kind]) for kind in DECIDABLE]
        lines.append(f"| {code}{'' if code in installed else ' (no such rule)'} | {' | '.join(cells)} |")
    without = [each for each in counted if not installed & set(each.bug.codes)]
    lines += ["", f"{len(outcomes) - len(counted)} not counted: kinds of bugs that no rule is about."]
    lines += [f"{len(without)} of the counted have only codes that the installed rules lack."] if without else []
    return "\n".join(lines)


def _best(bug: Bug) -> str:
    """The first code that isn't of a new kind."""
    return next(code for code in bug.codes if not code.startswith(NEW))


def _share(outcomes: Sequence[Outcome]) -> str:
    """`found / total`, or nothing if there are none."""
    return f"{sum(each.hit is not None for each in outcomes)} / {len(outcomes)}" if outcomes else ""


def listed(outcome: Outcome) -> str:
    """One line for one bug, one more for each finding that the fix left there."""
    bug = outcome.bug
    shown = [f"found: {_shown(outcome.hit)}"] if outcome.hit else ["missed"]
    others = [_shown(each) for each in outcome.near if each != outcome.hit]
    shown += [f"near: {', '.join(others)}"] if others else []
    place = f"{bug.path}:{','.join(map(str, bug.lines))}"
    line = "  ".join((bug.repo, bug.fix[:10], place, bug.decidable, "|".join(bug.codes), bug.note, "; ".join(shown)))
    return "\n".join([line, *(f"    left after the fix: {_shown(each)} {each.message}" for each in outcome.after)])


def _shown(finding: Finding) -> str:
    return f"{finding.code}:{finding.line}"


def as_json(outcome: Outcome) -> dict[str, Any]:
    """One bug and what became of it, for --json."""
    bug = outcome.bug

    def plain(finding: Finding) -> dict[str, Any]:
        return {"code": finding.code, "line": finding.line, "message": finding.message}

    return {
        "repo": bug.repo,
        "fix_commit": bug.fix,
        "path": bug.path,
        "lines": bug.lines,
        "codes": bug.codes,
        "decidable": bug.decidable,
        "note": bug.note,
        "counted": bug.counted,
        "found": outcome.hit and plain(outcome.hit),
        "near": [plain(each) for each in outcome.near],
        "after": [plain(each) for each in outcome.after],
    }


def _off(finding: Finding, lines: Iterable[int]) -> int:
    """How many lines a finding is off the nearest of some."""
    return min((abs(finding.line - line) for line in lines), default=sys.maxsize)


def _lines(file: Path) -> list[str]:
    """The lines of a file that may be gone."""
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []


def _run(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    *,
    given: str = "",
    fine: tuple[int, ...] = (0,),
) -> str:
    """The standard output of a command; raises BenchmarkError when it ends with another exit code than a fine one."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        input=given.encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode not in fine:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["it gave no reason"]
        raise BenchmarkError(f"`{shlex.join(command)[:200]}` ended with exit code {done.returncode}: {said[-1]}")
    return done.stdout.decode()


def _say(line: str) -> None:
    """Shows progress on a terminal, in one line that the next one replaces."""
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    cache = Path(tempfile.gettempdir()) / "devlint-real-bugs"
    command = shlex.join([sys.executable, "-m", "devlint", "check"])
    add(
        "--clones",
        type=Path,
        required=True,
        metavar="DIR",
        help="the folder with the clones, each in a folder owner__name",
    )
    add("--table", type=_table, default=TABLE, metavar="bugs|stalls|FILE", help="the bugs [bugs]")
    add("--codes", type=_codes, default=frozenset(), metavar="CODES", help="the bugs of these rules only")
    add("--decidable", choices=DECIDABLE, help="the bugs that can be known from there only")
    add("--repo", metavar="OWNER/NAME", help="the bugs of this repository only")
    add("--cache", type=Path, default=cache, metavar="DIR", help="where to unpack, and find again [%(default)s]")
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="how many run at once [%(default)s]")
    add("--list", choices=("missed", "found", "all"), help="show these bugs, one a line")
    add("--after", action="store_true", help="lint the fixes too, and show what is found there still")
    add("--command", type=shlex.split, default=command, metavar="COMMAND", help="runs `devlint check` [%(default)s]")
    add("--json", type=Path, metavar="FILE", help="write what became of every bug there")
    arguments = parser.parse_args()
    if arguments.jobs < 1:
        parser.error("--jobs must be at least 1")
    return arguments


def _table(value: str) -> Path:
    """A table by its name, or its file."""
    return TABLES.get(value) or Path(value)


def _codes(value: str) -> frozenset[str]:
    return frozenset(code.strip().upper() for code in value.split(",") if code.strip())


def _chosen(bugs: Iterable[Bug], arguments: argparse.Namespace) -> list[Bug]:
    """The bugs that --codes, --decidable and --repo leave."""
    return [
        bug
        for bug in bugs
        if (not arguments.codes or arguments.codes & set(bug.codes))
        and arguments.decidable in (None, bug.decidable)
        and arguments.repo in (None, bug.repo)
    ]


def main() -> int:
    """Runs the benchmark; returns the exit code."""
    arguments = _arguments()
    try:
        bugs = _chosen(read_bugs(arguments.table), arguments)
        clones = find_clones(arguments.clones, {bug.repo for bug in bugs})
        installed = installed_codes(arguments.command)
        bench = Bench(clones, arguments.cache.absolute(), tuple(arguments.command), arguments.after)
        there = [bug for bug in bugs if bug.repo in clones]
        outcomes = run_all(bench, there, arguments.jobs)
        if arguments.json:
            text = json.dumps([as_json(outcome) for outcome in outcomes], indent=1)
            arguments.json.write_text(text + "\n", encoding="utf-8")
    except (BenchmarkError, OSError) as error:
        _say("")
        print(f"error: {error}", file=sys.stderr)
        return 2
    for outcome in outcomes:
        asked = outcome.bug.counted and arguments.list in ("all", "found" if outcome.hit else "missed")
        if asked or outcome.after:
            print(listed(outcome))
    print(summary(outcomes, installed))
    absent = sorted({bug.repo for bug in bugs} - set(clones))
    if absent:
        print(f"{len(bugs) - len(there)} rows are left out, since no clone was found of {', '.join(absent)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
