"""What a terminal gets to see, and what a log of CI does."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import BAD, CLEAN, devlint, write

from devlint.addresses import rule_page

# Colours and weights of letters: what draws a progress bar, on a slow machine, goes without.
STYLE = re.compile(r"\x1b\[[0-9;]*m")
LINK = re.compile(r"\x1b]8;;(?P<url>[^\x1b]*)\x1b\\(?P<text>.*?)\x1b]8;;\x1b\\")
KITTY = {"KITTY_WINDOW_ID": "1"}


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("bad.py", BAD)
    for name in (
        "NO_COLOR",
        "FORCE_COLOR",
        "FORCE_HYPERLINK",
        "COLUMNS",
        "KITTY_WINDOW_ID",
        "VTE_VERSION",
        "TERM_PROGRAM",
    ):
        monkeypatch.delenv(name, raising=False)


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """What devlint writes to a terminal."""
    own, theirs = pty.openpty()
    command = [sys.executable, "-m", "devlint", *arguments]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm-256color", **environment}
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(own, 65536):
            seen += chunk
    except OSError:  # Linux says so that nobody writes any more
        pass
    os.close(own)
    process.wait()
    return seen.decode().replace("\r\n", "\n")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "concise"])
def test_codes_lead_to_their_pages_on_terminals_that_follow_links(form):
    shown = on_a_terminal("bad.py", "--output-format", form, **KITTY)
    (link,) = LINK.finditer(shown)
    assert link["url"] == rule_page("DEV101")
    assert "DEV101" in link["text"]
    plain = on_a_terminal("bad.py", "--output-format", form)
    # What comes before is the progress, which may be drawn or not.
    assert LINK.sub(lambda match: match["text"], shown).split("bad.py:", 1)[1] == plain.split("bad.py:", 1)[1]
    for environment in ({"FORCE_HYPERLINK": "0", **KITTY}, {"NO_COLOR": "1", **KITTY}, {"VTE_VERSION": "4800"}):
        assert "\x1b]8" not in on_a_terminal("bad.py", "--output-format", form, **environment)
    assert "\x1b]8" in on_a_terminal("bad.py", "--output-format", form, VTE_VERSION="7600")
    # A pipe and a file never hold any.
    assert "\x1b]8" not in devlint("bad.py", "--output-format", form, env={**KITTY, "FORCE_COLOR": "1"}).stdout
    on_a_terminal("bad.py", "--output-format", f"{form}=report.txt", **KITTY)
    assert "\x1b" not in Path("report.txt").read_text()


def test_no_color_holds_for_all_that_is_said():
    assert STYLE.search(on_a_terminal("bad.py", "gone.py"))
    assert "\x1b[31m" in on_a_terminal("--select", "DEV999")
    for arguments in (["bad.py", "gone.py"], ["--select", "DEV999"], ["rules"], ["rule", "DEV101"]):
        assert not STYLE.search(on_a_terminal(*arguments, NO_COLOR="1"))
        done = devlint(*arguments)
        assert "\x1b[" not in done.stdout + done.stderr
    assert STYLE.search(devlint("bad.py", env={"FORCE_COLOR": "1"}).stdout)
    assert "\x1b[" not in devlint("bad.py", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout


def test_a_log_is_wide_unless_somebody_says_how_wide():
    def widest(**env: str) -> int:
        shown = devlint("rules", env={"FORCE_COLOR": "1", **env}).stdout
        return max(len(line) for line in re.sub(r"\x1b[^m\\]*[m\\]", "", shown).splitlines())

    assert 100 < widest() <= 160
    assert widest(COLUMNS="100") <= 100


def test_a_folder_with_a_command_s_name_is_linted_by_the_long_form():
    write("rules/bad.py", BAD)
    write("completion/clean.py", CLEAN)
    assert "rules/bad.py:4:1: DEV101" in devlint("check", "rules").stdout
    assert devlint("check", "completion").stdout == "All checks passed!\n"
    assert "discarded-move" in devlint("rules").stdout
    assert "devlint check rules" in devlint("--help").stdout.replace("\n", " ").replace("  ", " ")
