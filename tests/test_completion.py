"""Shell completion, asked of real shells."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_cli import devlint

# The `devlint` of this environment, as a shell finds it.
SCRIPTS = Path(sys.executable).parent
ENVIRONMENT = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"}


def need(shell: str) -> None:
    if shutil.which(shell) is None or not (SCRIPTS / "devlint").exists():
        pytest.skip(f"{shell} isn't installed here")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "rulings.md").touch()


def of_bash(line: str) -> list[str]:
    """What bash completes the last word of a line to."""
    script = (
        'eval "$(devlint completion bash)"; '
        'read -ra COMP_WORDS <<< "$LINE"; [[ $LINE == *" " ]] && COMP_WORDS+=(""); '
        'COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); _devlint_completion devlint 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env={**ENVIRONMENT, "LINE": line}, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def of_fish(line: str) -> list[str]:
    script = "devlint completion fish | source; complete -C $LINE"
    done = subprocess.run(
        ["fish", "--no-config", "-c", script],
        env={**ENVIRONMENT, "LINE": line, "HOME": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=True,
    )
    return [row.split("\t")[0] for row in done.stdout.splitlines()]


def of_zsh(line: str) -> list[str]:
    """What stands on the screen of an interactive zsh once Tab was pressed twice."""
    child, screen = pty.fork()
    if child == 0:
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**ENVIRONMENT, "TERM": "dumb", "PS1": "", "ZDOTDIR": str(Path.cwd())})
    try:
        setup = 'autoload -Uz compinit; compinit -D -u; eval "$(devlint completion zsh)"; echo re""ady\n'
        os.write(screen, setup.encode())
        _until(screen, b"ready")
        os.write(screen, line.encode() + b"\t\t")
        return _until(screen, b"DEV509").decode(errors="replace").split()
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(screen)


def _until(screen: int, wanted: bytes) -> bytes:
    """What comes out until there is a text in it, or nothing more comes."""
    seen = b""
    deadline = time.monotonic() + 60
    while wanted not in seen and time.monotonic() < deadline:
        if select.select([screen], [], [], 1)[0]:
            seen += os.read(screen, 65536)
    return seen


@pytest.mark.parametrize(("shell", "ask"), [("bash", of_bash), ("fish", of_fish)])
def test_a_shell_completes_commands_options_codes_and_files(shell, ask):
    need(shell)
    assert ask("devlint rule") == ["rule", "rules"]
    assert ask("devlint rule DEV50")[:9] == [f"DEV50{digit}" for digit in range(1, 10)]
    assert ask("devlint rule item-in") == ["item-in-hot-loop"]
    assert ask("devlint check --select DEV1,dev20")[:2] == ["DEV1,dev201", "DEV1,dev202"]
    assert ask("devlint --ignore DEV301") == ["DEV301"]
    assert ask("devlint --unsafe") == ["--unsafe-fixes"]
    assert ask("devlint check --output-format gi") == ["github", "gitlab"]
    assert sorted(ask("devlint completion ")) == ["bash", "fish", "zsh"]
    if shell == "fish":  # bash itself completes files, once it is told to
        assert ask("devlint check tr") == ["train.py"]
        assert ask("devlint tr") == ["train.py"]


def test_zsh_completes_codes():
    need("zsh")
    assert {f"DEV50{digit}" for digit in range(1, 10)} <= set(of_zsh("devlint rule DEV50"))


def test_the_page_says_where_the_line_goes():
    text = devlint("completion", "--help").stdout
    assert "~/.bashrc" in text
    assert "config/fish/completions/devlint.fish" in text
    assert devlint("completion", "tcsh").returncode == 2
