"""What is no file, can't be read, or isn't there any more: one line each, and the rest of the run goes on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from faults.program import BAD, CLEAN, HANGS, devlint, errors, write

from devlint.disk import FileError, TooLargeError, read_bytes
from devlint.files import Missing, discover, read_source
from devlint.settings import Settings

# Makes a user without rights of this process: root may read everything.
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be somebody else"
)
needs_unix = pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
NOBODY = 65534


@needs_unix
def test_pipes_devices_and_sockets_are_told_at_once(project):
    os.mkfifo("pipe.py")
    Path("zero.py").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as served:
        served.bind("socket.py")
        for name, what in (("pipe.py", "a named pipe"), ("zero.py", "a device"), ("socket.py", "a socket")):
            with pytest.raises(FileError, match=f"can't be read: it is {what}, not a file"):
                read_source(Path(name), name)


@needs_unix
def test_a_run_passes_them_by(project):
    """Rules that look at all files around one are met by them too."""
    write(
        "model.py",
        "import torch\nfrom torch import nn\n\nm = nn.DataParallel(nn.Linear(2, 2).cuda())\ntorch.save(m.state_dict(), 'a.pt')\n",
    )
    os.mkfifo("pipe.py")
    Path("zero.py").symlink_to("/dev/zero")
    write("pyproject.toml", "")
    done = devlint("--output-format", "concise")
    assert done.returncode == 1
    assert done.stdout.startswith("model.py:")
    done = devlint("pipe.py", "zero.py", "model.py", "--output-format", "concise", "-q")
    assert done.returncode == 2
    assert "pipe.py:1:1: DEV000 can't be read: it is a named pipe, not a file\n" in done.stdout
    assert "zero.py:1:1: DEV000 can't be read: it is a device, not a file\n" in done.stdout
    assert "model.py:" in done.stdout


@needs_unix
def test_a_pipe_in_the_place_of_settings(project):
    os.mkfifo("pyproject.toml")
    write("bad.py")
    done = devlint("bad.py")
    assert done.returncode == 2
    assert errors(done) == [f"error: {project}/pyproject.toml: can't be read: it is a named pipe, not a file"]


@needs_unix
def test_links_that_lead_to_themselves(project):
    Path("loop.py").symlink_to("loop.py")
    Path("around").symlink_to(".", target_is_directory=True)
    Path("nowhere.py").symlink_to("gone.py")
    write("bad.py")
    done = devlint("--output-format", "concise", "-q")
    assert done.returncode == 2
    assert [line.split(":")[1] for line in errors(done)] == [" loop.py"]
    assert done.stdout.startswith("bad.py:4:1")
    assert devlint("loop.py").returncode == 2


@needs_root
def test_folders_and_files_that_may_not_be_read(project):
    """As somebody who may not: the folder, what is in a folder that can be listed only, and the file."""
    for name in ("closed/a.py", "listed/a.py", "open/secret.py", "open/bad.py"):
        write(name)
    project.chmod(0o777)
    Path("closed").chmod(0)
    Path("listed").chmod(0o744)
    Path("open/secret.py").chmod(0)
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom devlint.batch import Plan, Worker\n"
        "from devlint.files import Missing, discover, source_from_bytes\nfrom devlint.rule import load_registry\n"
        "from devlint.settings import Settings\nregistry = load_registry()\n"
        # Everything is imported while that is allowed.
        f"here = Settings(Path.cwd())\nWorker(Plan(), registry).run_source(source_from_bytes({BAD.encode()!r}, None, 'x'), here)\n"
        f"os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "worker = Worker(Plan(), registry)\n"
        "for item in discover([Path('.')], lambda folder: Settings(Path('.').absolute())):\n"
        "    if isinstance(item, Missing):\n        print(item)\n"
        "    else:\n        print(*((f.path, f.code, f.message[:20]) for f in worker.run(item).findings))\n"
    )
    for parent in project.parents:
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o001)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "closed: can't be read: Permission denied",
        "('listed/a.py', 'DEV000', \"can't be read: Permi\")",
        "('open/bad.py', 'DEV101', '`x.to(\"cuda\")` retur')",
        "('open/secret.py', 'DEV000', \"can't be read: Permi\")",
    ]


def test_a_file_that_vanishes_after_it_was_found(project):
    file = write("bad.py")
    (target,) = discover([Path()], lambda folder: Settings(project))
    assert not isinstance(target, Missing)
    file.unlink()
    with pytest.raises(FileError, match="can't be read: No such file"):
        read_source(target.path, target.display)


@pytest.mark.parametrize(
    "codec", ["rot13", "hex", "base64", "zlib", "idna", "punycode", "undefined", "bz2", "utf-16", "unicode_escape"]
)
def test_codecs_that_are_for_other_things(project, codec):
    raw = f"# coding: {codec}\nimport torch  # \\x41 \xff\n".encode("latin-1")
    Path("strange.py").write_bytes(raw)
    with pytest.raises(FileError) as told:
        read_source(Path("strange.py"), "strange.py")
    assert "\n" not in str(told.value)


def test_a_foreign_codec_leaves_the_other_files(project):
    write("a.py", "# coding: rot13\nvzcbeg gbepu\n")
    write("bad.py")
    done = devlint("--output-format", "concise", "-q")
    assert done.returncode == 2
    assert "a.py:1:1: DEV000 can't be decoded as rot13, which its coding comment names; save it as UTF-8" in done.stdout
    assert "bad.py:4:1: DEV101" in done.stdout


def test_a_path_that_is_none(project):
    done = devlint("a" * 300 + ".py", "x/" * 3000)
    assert done.returncode == 2
    assert [line.rsplit(": ", 1)[1] for line in errors(done)] == ["File name too long", "File name too long"]
    (missing,) = discover([Path("a\0b")], lambda folder: Settings(project))
    assert isinstance(missing, Missing)


def test_folders_nested_deeper_than_calls(project):
    depth = 1_100
    for _ in range(depth):
        Path("d").mkdir()
        os.chdir("d")
    try:
        os.chdir(project)
        deepest = project / "/".join("d" * depth)
        (deepest / "x.py").write_text(CLEAN)
        (found,) = discover([project], lambda folder: Settings(project))
        assert not isinstance(found, Missing)
        assert found.path == deepest / "x.py"
    finally:
        # What clears up behind tests goes down by recursion.
        subprocess.run(["rm", "-rf", project / "d"], check=True)


def test_a_missing_path_is_no_passed_check(project):
    done = devlint("nosuch.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert errors(done) == ["error: nosuch.py: no such file or folder"]
    write("clean.py", CLEAN)
    assert devlint("nosuch.py", "clean.py").stdout == ""
    assert devlint("clean.py").stdout == "All checks passed!\n"


def test_large_files_are_told_and_passed_over(project):
    write("large.py", BAD + "# " + "x" * 3_000 + "\n")
    write("bad.py")
    write("devlint.toml", 'max-file-size = "3 kB"\n')
    done = devlint("--output-format", "concise", "-q")
    assert done.returncode == 1
    assert errors(done) == [
        "warning: large.py: is larger than 3 kB and was passed over; raise max-file-size, or exclude it"
    ]
    assert done.stdout.startswith("bad.py:")
    assert "large.py" not in done.stdout
    with Path("large.py").open("rb") as large:
        done = devlint("-", "--fix", stdin=large)
    assert done.stdout == Path("large.py").read_text()
    write("devlint.toml", 'max-file-size = "3000"\n')
    done = devlint()
    assert errors(done) == [
        f"error: {project}/devlint.toml: max-file-size: must be a size such as \"4 MB\", not '3000'"
    ]


def test_tables_of_data_are_passed_over(project):
    """Their trees would take gigabytes."""
    write("table.py", BAD + "y = [" + "1," * 400_001 + "]\n")
    done = devlint("--output-format", "concise", "-q")
    assert done.returncode == 0
    assert errors(done) == [
        "warning: table.py: holds more than 400,000 commas, as tables of data do, and was passed over; exclude it"
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to RLIMIT_AS")
def test_a_table_in_a_statement_takes_no_gigabytes(project):
    """That of what stands beside it is told."""
    import resource

    write("table.py", BAD + "y = torch.tensor([" + "1, " * 150_000 + "])\ny.cuda()\n")
    done = devlint(
        "--output-format", "concise", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (900 << 20,) * 2)
    )
    assert [line.split()[:2] for line in done.stdout.splitlines()[:2]] == [
        ["table.py:4:1:", "DEV101"],
        ["table.py:6:1:", "DEV101"],
    ]


def test_sizes_are_read_no_further_than_asked(project):
    file = write("x.py", "12345")
    assert read_bytes(file, 5) == b"12345"
    with pytest.raises(TooLargeError, match="larger than 4 bytes"):
        read_bytes(file, 4)
    if sys.platform == "linux":
        # It says that it is empty, and isn't.
        assert read_bytes(Path("/proc/self/stat"))


def test_settings_that_cannot_be_used_cost_their_folder_alone(project):
    write("a/bad.py")
    write("a/x.py")
    write("a/devlint.toml", "slect = []\n")
    write("b/bad.py")
    write("c/pyproject.toml", "x = " + "[" * 100_000 + "# devlint\n")
    Path("d/devlint.toml").mkdir(parents=True)
    write("d/bad.py")
    done = devlint("--output-format", "concise", "-q")
    assert done.returncode == 2
    assert sorted(line.split(": ", 2)[2] for line in errors(done)) == [
        "can't be read: Is a directory",
        "is nested too deeply",
        "unknown key 'slect'; did you mean 'select'?",
    ]
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["b/bad.py"]
    done = devlint("a/bad.py", "a/x.py", "b/bad.py", "--output-format", "concise", "-q")
    assert done.returncode == 2
    assert len(errors(done)) == 1
    assert done.stdout.startswith("b/bad.py")


def test_names_that_are_no_text(project):
    name = b"odd\xff\x1b]0;x\x07.py"
    try:
        Path(os.fsdecode(name)).write_text(BAD)
    except OSError:
        pytest.skip("this file system takes no such name")
    for style in ("text", "concise", "json"):
        done = devlint("--output-format", style)
        assert done.returncode == 1
        assert "\x1b" not in done.stdout
        assert "\\x1b" in done.stdout or "\\u001b" in done.stdout
    assert devlint("--output-file", os.fsdecode(b"out\xff"), "--output-format", "concise").returncode == 1
    assert Path(os.fsdecode(b"out\xff")).read_text().startswith("odd\\udcff\\x1b]0;x\\x07.py:4:1: DEV101")
    assert devlint("--fix").returncode == 0


def test_the_current_folder_is_gone(project):
    Path("gone").mkdir()
    script = 'cd gone && rmdir ../gone && exec "$@"'
    for arguments in (["check"], ["check", "/dev/null"], ["check", "-"], ["where", "x.py:1"]):
        done = subprocess.run(
            ["sh", "-c", script, "sh", sys.executable, "-m", "devlint", *arguments],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=HANGS, check=False,
        )  # fmt: skip
        Path("gone").mkdir()
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith("error: the current folder can't be used: No such file")
        assert "Traceback" not in done.stderr
