"""Nothing that --fix writes is ever lost: not to an editor, a full disk, a link, a signal or a kill."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest
from faults.program import BAD, COMMAND, FIXED, devlint, errors, write

from devlint import fixer
from devlint.batch import Plan, Worker
from devlint.disk import FileError
from devlint.files import Target, read_source, write_source
from devlint.rule import load_registry
from devlint.settings import Settings

needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can mount")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


def left_behind(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir() if file.name.startswith(".devlint-")]


def test_what_an_editor_saved_in_between_stays(project, monkeypatch):
    file = write("bad.py")
    saved = BAD + "# precious\n"
    really_fix = fixer.fix

    def fix_while_somebody_saves(*arguments, **more):
        outcome = really_fix(*arguments, **more)
        file.write_text(saved)
        return outcome

    monkeypatch.setattr(fixer, "fix", fix_while_somebody_saves)
    worker = Worker(Plan(fix=True, named=(str(project),)), load_registry())
    result = worker.run(Target(file.absolute(), "bad.py", Settings(project)))
    assert file.read_text() == saved
    assert [f.code for f in result.findings] == ["DEV000", "DEV101"]
    assert "it changed since it was read, and is left as it is now" in result.findings[0].message
    assert left_behind(project) == []


@pytest.mark.parametrize("now", ["", BAD[:-1], BAD + "x", BAD.replace("3", "4")])
def test_a_file_that_is_another_by_now_is_left_alone(project, now):
    file = write("bad.py")
    source = read_source(file, "bad.py")
    file.write_text(now)
    with pytest.raises(FileError, match="it changed since it was read"):
        write_source(source.with_text(FIXED), source)
    assert file.read_text() == now
    assert left_behind(project) == []


def test_a_file_that_is_gone_by_now_stays_gone(project):
    file = write("bad.py")
    source = read_source(file, "bad.py")
    file.unlink()
    with pytest.raises(FileError, match="can't be written: No such file"):
        write_source(source.with_text(FIXED), source)
    assert list(project.iterdir()) == []


def test_mode_owner_and_attributes_stay(project):
    file = write("bad.py")
    file.chmod(0o4751)
    attributes = {}
    if hasattr(os, "setxattr"):
        try:
            os.setxattr(file, "user.note", b"mine")
            attributes = {"user.note": b"mine"}
        except OSError:
            pass
    os.utime(file, (1, 1))
    assert devlint("--fix").returncode == 0
    after = file.stat()
    assert (file.read_text(), stat.S_IMODE(after.st_mode)) == (FIXED, 0o4751)
    assert {name: os.getxattr(file, name) for name in attributes} == attributes
    # It did change: what goes by the time must see that.
    assert after.st_mtime > 1_000


def test_a_link_out_of_the_paths_is_left_alone_unless_told(project):
    outside = write("outside/shared.py")
    Path("src").mkdir()
    Path("src/link.py").symlink_to("../outside/shared.py")
    done = devlint("src", "--fix", "--output-format", "concise", "-q")
    assert done.returncode == 2
    assert outside.read_text() == BAD
    assert (
        f"src/link.py:1:1: DEV000 is a link out of the named paths, to {outside.absolute()}, which is left alone"
        in done.stdout
    )
    assert "src/link.py:4:1: DEV101" in done.stdout
    done = devlint("src", "--fix", "--follow-links")
    assert done.returncode == 0
    assert errors(done) == [f"warning: src/link.py: is a link: {outside.absolute()} was changed"]
    assert outside.read_text() == FIXED
    assert Path("src/link.py").is_symlink()


def test_a_link_that_is_named_is_written_through_and_told(project):
    real = write("real/code.py")
    Path("link.py").symlink_to("real/code.py")
    done = devlint("link.py", "--fix")
    assert done.returncode == 0
    assert errors(done) == [f"warning: link.py: is a link: {real.absolute()} was changed"]
    assert real.read_text() == FIXED


def test_a_folder_that_is_reached_by_a_link_is_no_news(project):
    write("real/code.py")
    Path("alias").symlink_to("real", target_is_directory=True)
    done = devlint("alias", "--fix")
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("real/code.py").read_text() == FIXED


def test_hard_links_stay_one_file_and_are_left_alone_unless_told(project):
    file = write("a.py")
    Path("b.txt").hardlink_to(file)
    done = devlint("a.py", "--fix", "--output-format", "concise", "-q")
    assert done.returncode == 2
    assert "DEV000 has 2 names (hard links), which would all change; --follow-links lets it" in done.stdout
    assert file.read_text() == BAD
    assert devlint("a.py", "--fix", "--follow-links").returncode == 0
    assert Path("b.txt").read_text() == FIXED
    assert file.stat().st_nlink == 2
    assert left_behind(project) == []


@pytest.fixture
def small_disk(project):
    """A real file system with room for next to nothing."""
    folder = project / "small"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@needs_root
@pytest.mark.parametrize("names", [1, 2])
def test_a_full_disk_costs_nothing(small_disk, names):
    text = BAD + "# " + "x" * 50_000 + "\n"
    file = write(str(small_disk / "bad.py"), text)
    if names > 1:
        (small_disk / "other").hardlink_to(file)
    done = devlint("small", "--fix", "--follow-links", "--output-format", "concise", "-q")
    assert done.returncode == 2
    assert "small/bad.py:1:1: DEV000 can't be written: No space left on device" in done.stdout
    assert file.read_text() == text
    assert left_behind(small_disk) == []


@needs_root
def test_a_file_system_that_takes_no_writes(small_disk):
    file = write(str(small_disk / "bad.py"))
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    done = devlint("small", "--fix", "--output-format", "concise", "-q")
    assert done.returncode == 2
    assert "can't be written: it is read-only" in done.stdout
    assert file.read_text() == BAD


def test_what_is_written_is_on_the_disk_before_it_takes_the_place(project, monkeypatch):
    """The new text first, then the name, then the folder that holds the name."""
    file = write("bad.py")
    done: list[str] = []
    really_sync, really_replace = os.fsync, os.replace

    def sync(handle):
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        done.append("folder" if is_folder else os.pread(handle, 10_000, 0).decode())
        really_sync(handle)

    def replace(old, new):
        done.append(f"to {Path(new).name}")
        really_replace(old, new)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    source = read_source(file, "bad.py")
    write_source(source.with_text(FIXED), source)
    assert done == [FIXED, "to bad.py", "folder"]


@needs_fork
def test_no_kill_while_a_file_is_written_loses_a_byte(project):
    """A child writes one version over the other without end, and is killed at any moment."""
    versions = [BAD + "# " + "a" * 20_000 + "\n", FIXED + "# " + "b" * 30_000 + "\n"]
    file = write("bad.py", versions[0])
    moments = random.Random(1)
    for _ in range(60):
        child = os.fork()
        if not child:
            try:
                while True:
                    before = read_source(file, "bad.py")
                    write_source(before.with_text(versions[before.text == versions[0]]), before)
            finally:
                os._exit(1)
        time.sleep(moments.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        assert file.read_text() in versions


@needs_fork
def test_no_signal_while_a_file_is_written_leaves_anything_behind(project):
    file = write("bad.py", BAD)
    moments = random.Random(2)
    for _ in range(30):
        child = os.fork()
        if not child:
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                while True:
                    before = read_source(file, "bad.py")
                    write_source(before.with_text(FIXED if before.text == BAD else BAD), before)
            finally:
                os._exit(1)
        time.sleep(moments.uniform(0, 0.01))
        os.kill(child, signal.SIGTERM)
        assert os.waitpid(child, 0)[1] == signal.SIGTERM
        assert file.read_text() in (BAD, FIXED)
        assert left_behind(project) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(("jobs", "kills"), [("1", 100), ("2", 200)])
def test_kills_of_the_whole_program_while_it_fixes(project, jobs, kills):
    """Kills at random moments between the first write and the last: of all processes, or of the first one alone."""
    moments = random.Random(3)
    names = [f"m{number:02}.py" for number in range(60)]
    lasts = _seconds_of_writing(names, jobs)
    cut_short = 0
    for _ in range(kills):
        started = _started_fixing(names, jobs)
        time.sleep(moments.uniform(0, lasts))
        # It may have come to its end before.
        with contextlib.suppress(ProcessLookupError):
            if moments.random() < 0.5:
                os.killpg(started.pid, signal.SIGKILL)
            else:
                os.kill(started.pid, signal.SIGKILL)
        started.wait()
        texts = [Path(name).read_text() for name in names]
        assert set(texts) <= {BAD, FIXED}
        cut_short += BAD in texts
        _until_all_are_gone(started.pid)
        assert {Path(name).read_text() for name in names} <= {BAD, FIXED}
    assert cut_short > kills // 10


def _started_fixing(names: list[str], jobs: str) -> subprocess.Popen[bytes]:
    """A run over fresh files that has written the first of them, or is through."""
    for name in names:
        write(name)
    started = subprocess.Popen(
        [*COMMAND, "--fix", "--jobs", jobs], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
    )
    while started.poll() is None and Path(names[0]).stat().st_size == len(BAD):
        time.sleep(0.002)
    return started


def _seconds_of_writing(names: list[str], jobs: str) -> float:
    started, begun = _started_fixing(names, jobs), time.monotonic()
    started.wait()
    return time.monotonic() - begun


def _until_all_are_gone(group: int) -> None:
    """Waits for the processes that end by themselves when the first one is gone."""
    with contextlib.suppress(ProcessLookupError):
        for _ in range(2_000):
            os.killpg(group, 0)
            time.sleep(0.01)
        raise AssertionError("a process lives on")


def test_a_fix_that_is_not_to_be_written_is_never_near_the_disk(project):
    file = write("bad.py")
    before = file.stat()
    assert devlint("--diff").returncode == 1
    after = file.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
