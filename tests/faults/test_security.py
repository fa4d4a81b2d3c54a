"""A hostile repository is read, never run, and says nothing to the terminal."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from faults.program import COMMAND, HANGS, devlint, errors, write

from devlint.console import emit
from devlint.escapes import printable, printable_lines, quoted_name
from devlint.evidence import EvidenceError, read_evidence

RUN_ME = "open('it-was-run', 'w').close()\n"
# Cursor movement, a window title, a line of its own, the other direction, and the C1 form of ESC [.
HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e\x9b31m"


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_modules_in_the_working_directory_are_never_imported(project, jobs):
    """Neither those that devlint imports, nor packs that the directory says it has."""
    for name in (
        "typing",
        "click",
        "libcst",
        "rich",
        "pathspec",
        "difflib",
        "json",
        "multiprocessing",
        "sitecustomize2",
    ):
        write(f"{name}.py", RUN_ME)
    for name in ("devlint_rules", "devlint_extra", "concurrent"):
        write(f"{name}/__init__.py", RUN_ME)
    write("evil-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    write("evil-1.dist-info/entry_points.txt", "[devlint.rules]\nevil = devlint_extra\n")
    write("src/a.py")
    write("src/b.py")
    script = Path(sys.executable).with_name("devlint")
    commands = [[*COMMAND], *([[str(script)]] if script.exists() else [])]
    for command in commands:
        for arguments in (
            ["src", "--fix", "--diff", "--jobs", jobs],
            ["rules"],
            ["rule", "DEV101"],
            ["where", "src/a.py:3"],
        ):
            done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=HANGS, check=False)
            assert done.returncode in (0, 1), done.stderr
            assert not Path("it-was-run").exists(), (command, arguments)


def test_our_own_entry_point_is_the_module_that_was_tested():
    scripts = importlib.metadata.entry_points(group="console_scripts", name="devlint")
    assert [script.value for script in scripts] == ["devlint.cli:main"]


def test_settings_name_no_code(project):
    """Whatever a project's settings say, nothing of the project is imported."""
    write("evil.py", RUN_ME)
    write("bad.py")
    for key in ("plugins", "packs", "rules", "load", "init-hook"):
        write("devlint.toml", f'{key} = ["evil"]\n')
        done = devlint("bad.py")
        assert done.returncode == 2
        assert f"unknown key '{key}'" in done.stderr
    write("devlint.toml", 'extend = "evil.py"\n')
    done = devlint("bad.py")
    assert done.returncode == 2
    assert "evil.py" in done.stderr
    write(
        "devlint.toml",
        'behaves-like = { "evil.f" = "torch.load" }\nhot-functions = ["evil.*"]\nloader-names = ["evil"]\n',
    )
    assert devlint("bad.py").returncode == 1
    assert not Path("it-was-run").exists()


BAD = f'import torch\n\nx = torch.ones(3)\nx.to("cuda")  # {HOSTILE}\nd = {{}}\nd["{HOSTILE[:4]}"] = x\nd["{HOSTILE[:4]}"].to("cuda")\n'


@pytest.mark.slow
@pytest.mark.parametrize("style", ["text", "concise", "json"])
def test_no_control_character_comes_through_a_report(project, style):
    name = f"a{HOSTILE[:13]}\n.py"
    write(name, BAD)
    done = devlint(".", "--output-format", style)
    assert done.returncode == 1
    assert set(done.stdout) - {"\n"} <= set(map(chr, range(32, 127))) | {"…"}
    assert len(json.loads(done.stdout) if style == "json" else done.stdout.splitlines()) < 30
    done = devlint(name + "2", f"--{HOSTILE}", "x")
    assert printable_lines(done.stderr) == done.stderr
    done = devlint(name + "2")
    assert errors(done) == [f"error: {printable(name)}2: no such file or folder"]
    done = devlint("where", f"{name}:4")
    assert printable_lines(done.stdout) == done.stdout
    assert "\\x1b[2J" in done.stdout
    assert printable_lines(devlint("where", f"{name}:99").stderr) != ""
    assert "\x1b" not in devlint("where", f"{name}:99").stderr + devlint("-v", name).stderr


def test_a_patch_is_exact_for_patch_and_printable_for_a_person(project):
    write("bad.py", BAD)
    done = devlint("--diff", "bad.py")
    assert "\x1b[2J" in done.stdout
    subprocess.run(["patch", "-p0"], input=done.stdout.encode(), check=True, capture_output=True)
    assert (
        Path("bad.py").read_bytes()
        == BAD.replace("\nx.to", "\nx = x.to")
        .replace(f'\nd["{HOSTILE[:4]}"].to', f'\nd["{HOSTILE[:4]}"] = d["{HOSTILE[:4]}"].to')
        .encode()
    )
    write("bad.py", BAD)
    ours, theirs = pty.openpty()
    subprocess.run(
        [*COMMAND, "--diff", "bad.py", "--color", "never"], stdout=theirs, stderr=subprocess.DEVNULL, check=False
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert b"\\x1b[2J" in shown
    assert b"\x1b" not in shown


def test_names_in_a_patch_are_quoted_as_git_does():
    assert quoted_name("src/a.py") == "src/a.py"
    assert quoted_name("日.py") == "日.py"
    assert quoted_name('a"\\\n\x1b.py') == '"a\\"\\\\\\012\\033.py"'
    assert quoted_name(os.fsdecode(b"\xff\n")) == '"\\377\\012"'


def test_what_is_escaped_and_what_is_shown():
    assert printable(HOSTILE) == "\\x1b[2J\\x1b]0;owned\\x07\\u202e\\x9b31m"
    assert printable("é 日本 → \N{COMBINING ACUTE ACCENT}") == "é 日本 → \N{COMBINING ACUTE ACCENT}"
    assert printable("a\tb\nc\udcff\x7f") == "a\\tb\\nc\\udcff\\x7f"
    assert printable_lines("a\tb\n\x0c") == "a\tb\n\\x0c"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"tool": "devlint", "schema": 1, "events": [{"kind": "sync", "path": "x", "line": 1e400, "operation": "", "count": 1}]}',
        '{"tool": "devlint", "schema": 1, "events": [{"kind": "sync", "path": "a\\u0000b", "line": 1, "operation": "", "count": 1}]}',
        '{"tool": "devlint", "schema": 1, "events": [7]}',
        '{"tool": "devlint", "schema": 1, "events": [{"kind": "sync", "path": "x", "line": ' + "9" * 5_000 + "}]}",
        '{"tool": "devlint", "schema": {}, "events": []}',
        "\udcff",
    ],
)
def test_reports_of_runs_are_data(project, text):
    Path("report.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(EvidenceError) as told:
        read_evidence(Path("report.json"))
    assert "\n" not in str(told.value)


def test_what_a_report_of_a_run_says_is_shown_printably(project):
    write("bad.py")
    event = {"kind": "sync", "path": "bad.py", "line": 1, "operation": HOSTILE, "count": 1}
    write("report.json", json.dumps({"tool": "devlint", "schema": 1, "events": [event]}))
    done = devlint("bad.py", "--evidence", "report.json")
    assert done.returncode == 1
    assert printable_lines(done.stdout) == done.stdout
    if hasattr(os, "mkfifo"):
        os.mkfifo("pipe.json")
        done = devlint("bad.py", "--evidence", "pipe.json")
        assert done.returncode == 2
        assert "it is a named pipe" in done.stderr


def test_emit_shows_what_the_encoding_lacks(capfd):
    emit("é\n")
    assert capfd.readouterr().out == "é\n"
