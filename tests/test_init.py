"""`devlint init`: a project with old findings is adopted in one commit, and what comes after is checked."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from repositories import ENVIRONMENT, commit, devlint, git, packaged, told, write

from devlint import __version__
from devlint.addresses import DOCUMENTATION

OLD = 'import torch\n\nx = torch.ones(3)\n' + "".join(f'x.to("cuda")  # {n}\n' for n in range(10))  # fmt: skip
CALLER = """\
import torch

from pkg.ops import weigh


def main():
    y = torch.ones(3, device="cuda")
    print(weigh(y))


main()
"""
GOOD = "import torch\n\n\ndef weigh(x):\n    return x * 2\n"
# What hooks and jobs take: the tag of a release, the main branch of what is none.
REVISION = "main" if ".dev" in __version__ else f"v{__version__}"
BREAKS = "import torch\n\n\ndef weigh(x):\n    return x * torch.ones(3)\n"


def job_says(folder: Path) -> list[str]:
    """The commands of the CI job."""
    job = yaml.safe_load((folder / ".github" / "workflows" / "devlint.yml").read_text())["jobs"]["devlint"]
    return [step["run"] for step in job["steps"] if "run" in step]


@pytest.mark.slow
def test_a_project_with_300_old_findings(tmp_path):
    package = packaged(tmp_path / "package")
    revision = git(package, "rev-parse", "HEAD").strip()
    user = tmp_path / "user"
    user.mkdir()
    environment = {**ENVIRONMENT, "PRE_COMMIT_HOME": str(tmp_path / "home")}
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, cwd=user, env=environment, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        if "No matching distribution" in said and "connect" in said.lower():
            pytest.skip("the package index can't be reached")
        return done

    old = {f"old/m{n:02}.py": OLD for n in range(30)}
    pyproject = '[project]\nname = "user"\ndependencies = ["torch>=2.4"]\n'
    commit(
        user, {**old, "pkg/__init__.py": "", "pkg/ops.py": GOOD, "pkg/train.py": CALLER, "pyproject.toml": pyproject}
    )
    assert len(told(user)) == 300

    done = devlint(user, "init", "--yes", "--repo", str(package), "--rev", revision)
    assert (done.returncode, done.stderr) == (0, "")
    assert ".devlint-baseline.json: 300 old findings, which runs leave out (DEV101 300)" in done.stdout
    written = "pyproject.toml, .pre-commit-config.yaml, .github/workflows/devlint.yml, .devlint-baseline.json"
    assert f"Written: {written}\n" in done.stdout

    # One commit, which its own hook lets through.
    assert run(sys.executable, "-m", "pre_commit", "install").returncode == 0
    git(user, "add", "-A")
    done = run("git", *identity, "commit", "-m", "Adopt devlint")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"devlint --staged\.+\(no files to check\)Skipped", done.stderr + done.stdout)
    assert git(user, "status", "--porcelain") == ""
    assert devlint(user).stdout == "All checks passed!\nLeft out: 300 old findings, in .devlint-baseline.json\n"
    install, check = job_says(user)
    assert shlex.split(install) == ["pip", "install", f"devlint @ git+file://{package}@{revision}"]
    assert devlint(user, *shlex.split(check)[1:]).returncode == 0

    # Lines move, a file gets another name: still green.
    write(user, {"old/m00.py": "# moved\n\n" + OLD})
    git(user, "mv", "old/m01.py", "old/renamed.py")
    git(user, "add", "-A")
    done = run("git", *identity, "commit", "-m", "Move things")
    assert done.returncode == 0, done.stdout + done.stderr
    assert devlint(user, *shlex.split(check)[1:]).returncode == 0

    # One bug in what another file calls: the commit fails, and the caller is named.
    write(user, {"pkg/ops.py": BREAKS})
    git(user, "add", "-A")
    done = run("git", *identity, "commit", "-m", "A bug")
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "pkg/train.py:8:" in said
    assert "DEV201" in said
    assert "print(weigh(y))" in said
    assert re.search(r"Found 1 error in 1 file$", said, re.MULTILINE)
    assert git(user, "log", "-1", "--format=%s") == "Move things\n"
    # Whoever goes round the hook meets it in CI.
    git(user, "commit", "-q", "--no-verify", "-m", "A bug")
    done = devlint(user, *shlex.split(check)[1:])
    assert done.returncode == 1
    assert "pkg/train.py:8:" in done.stdout
    assert told(user, "--since=HEAD~1") == ["pkg/train.py:8 DEV201"]


@pytest.fixture
def project(tmp_path):
    """A project with everything that is looked at."""
    files = {
        "pyproject.toml": '[project]\nname = "x"\ndependencies = ["numpy", "torch >= 2.4, < 3"]',
        ".pre-commit-config.yaml": "# ours\nrepos:\n- repo: local  # one\n  hooks: []\n\n# the end\nexclude: ^x\n",
        "python/acme/__init__.py": "",
        "third_party/other.py": OLD,
        "tests/__init__.py": "",
        "a.py": 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\nif torch.backends.mps.is_available():\n    x.to("mps")\n',
    }
    commit(tmp_path, files)
    (tmp_path / "python" / "acme" / "__init__.py").write_text("")
    return tmp_path


def test_what_it_looks_at_and_shows(project):
    before = git(project, "status", "--porcelain")
    done = devlint(project / "tests", "init", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert '+torch-version = "2.4"\n' in done.stdout
    assert '+src = [".", "python"]\n' in done.stdout
    assert '+exclude = ["third_party"]\n' in done.stdout
    assert re.search(r"^\+extend-select = \[\"DEV\d+\"\]$", done.stdout, re.MULTILINE)
    assert "+# Rules about portable code: this names cuda" in done.stdout
    assert "+# Other people's code.\n+exclude" in done.stdout
    # Nothing is written unless somebody agrees.
    assert git(project, "status", "--porcelain") == before
    done = devlint(project, "init")
    assert done.returncode == 2
    assert done.stderr == "error: nothing was written; --yes writes without asking\n"
    assert git(project, "status", "--porcelain") == before


def answered(folder: Path, *typed: bytes) -> tuple[int, str]:
    """Runs `devlint init` on a terminal, and types an answer whenever it asks; its exit code, and what the terminal shows."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-P", "-m", "devlint", "init"]
    # A session of its own, with the terminal as its own: ^C reaches it as from a keyboard.
    # Whoever started the tests may have ^C ignored.
    take = (
        "import fcntl, os, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        "signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", take, *command],
        cwd=folder,
        env=ENVIRONMENT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown, asked, answers, last = "", 0, list(typed), b""
    try:
        while True:
            if not select.select([ours], [], [], 2)[0]:
                # A signal that comes before the reading has begun is heard with the next key only.
                os.write(ours, last)
                continue
            shown += os.read(ours, 4096).decode()
            if shown.count(QUESTION) > asked:
                asked += 1
                if not answers:
                    running.kill()
                    pytest.fail(f"it asks once more:\n{shown}")
                last = answers.pop(0)
                os.write(ours, last)
    except OSError:
        # Linux says so when the other end is closed.
        pass
    os.close(ours)
    assert not answers, shown
    return running.wait(timeout=60), shown.replace("\r\n", "\n")


QUESTION = "Write these? [y/N]: "


def test_yes_on_a_terminal(project):
    code, shown = answered(project, b"y\n")
    assert code == 0, shown
    # Everything is shown before it asks, and written after.
    before, _, after = shown.partition(QUESTION)
    assert '+torch-version = "2.4"\n' in before
    assert "Written:" not in before
    assert (
        "Written: pyproject.toml, .pre-commit-config.yaml, .github/workflows/devlint.yml, .devlint-baseline.json\n"
        in after
    )
    assert told(project) == []
    # Asked once: there is nothing left to agree to.
    code, shown = answered(project)
    assert code == 0, shown
    assert QUESTION not in shown


@pytest.mark.parametrize(
    ("typed", "code"),
    [((b"n\n",), 2), ((b"\n",), 2), ((b"what\n", b"no\n"), 2), ((b"\x04",), 130), ((b"\x03",), 130)],
    ids=["no", "return", "something else, then no", "end of input", "ctrl-c"],
)
def test_no_on_a_terminal(project, typed, code):
    before = git(project, "status", "--porcelain")
    done = answered(project, *typed)
    assert done[0] == code, done[1]
    assert ("nothing was written; --yes writes without asking" in done[1]) == (code == 2)
    assert "Traceback" not in done[1]
    assert git(project, "status", "--porcelain") == before


def test_what_is_there_stays(project):
    assert devlint(project, "init", "--yes").returncode == 0
    assert (project / ".pre-commit-config.yaml").read_text() == (
        "# ours\nrepos:\n- repo: local  # one\n  hooks: []\n- repo: https://github.com/devlint/devlint\n"
        f"  rev: {REVISION}\n  hooks:\n    - id: devlint-staged\n\n# the end\nexclude: ^x\n"
    )
    check = [sys.executable, "-m", "pre_commit", "validate-config", ".pre-commit-config.yaml"]
    assert subprocess.run(check, cwd=project, check=False).returncode == 0
    assert (project / "pyproject.toml").read_text().startswith('[project]\nname = "x"\n')
    assert told(project) == []
    commit(project)
    done = devlint(project, "init", "--yes")
    assert done.returncode == 0
    assert done.stdout.endswith("Nothing to do: the project is set up.\n")
    assert git(project, "status", "--porcelain") == ""


def test_gitlab_and_no_pyproject(tmp_path):
    commit(tmp_path, {"a.py": OLD, ".gitlab-ci.yml": "test:\n  script: [pytest]\n"})
    assert devlint(tmp_path, "init", "--yes", "--no-pre-commit").returncode == 0
    jobs = yaml.safe_load((tmp_path / ".gitlab-ci.yml").read_text())
    assert jobs["test"] == {"script": ["pytest"]}
    assert jobs["devlint"]["script"][-1] == "devlint check"
    assert not (tmp_path / ".pre-commit-config.yaml").exists()
    assert (tmp_path / "devlint.toml").read_text() == f"# All settings: {DOCUMENTATION}/settings/\n"
    assert len(json.loads((tmp_path / ".devlint-baseline.json").read_text())["findings"]) == 10
    assert told(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("repos: []\n", "repos:\n  - repo: U\n    rev: v0.1.0\n    hooks:\n      - id: devlint-staged\n"),
        (
            "repos:\n  - repo: local\n    hooks: []",
            "repos:\n  - repo: local\n    hooks: []\n  - repo: U\n    rev: v0.1.0\n    hooks:\n      - id: devlint-staged\n",
        ),
    ],
)
def test_hooks_of_several_forms(tmp_path, text, after):
    write(tmp_path, {"a.py": "x = 1\n", ".pre-commit-config.yaml": text, "pyproject.toml": "[tool.devlint]\n"})
    assert devlint(tmp_path, "init", "--yes", "--no-ci", "--repo", "U", "--rev", "v0.1.0").returncode == 0
    assert (tmp_path / ".pre-commit-config.yaml").read_text() == after
    check = [sys.executable, "-m", "pre_commit", "validate-config", ".pre-commit-config.yaml"]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0


def test_a_list_that_it_cannot_read_is_left_alone(tmp_path):
    write(
        tmp_path, {"a.py": "x = 1\n", ".pre-commit-config.yaml": "{repos: []}\n", "pyproject.toml": "[tool.devlint]\n"}
    )
    done = devlint(tmp_path, "init", "--yes", "--no-ci")
    assert done.returncode == 0
    assert ".pre-commit-config.yaml has no list of repos; add:\n- repo: https://" in done.stdout
    assert (tmp_path / ".pre-commit-config.yaml").read_text() == "{repos: []}\n"


def test_files_that_cannot_be_linted_are_left_out(tmp_path):
    """The job that is written would be red from its first day."""
    commit(tmp_path, {"a.py": BREAKS, "old.py": "import torch\nprint 1\n", "x[1]/old.py": "import torch\nexec 1\n"})
    done = devlint(tmp_path, "init", "--yes")
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 2
    assert "2 files can't be linted: the settings exclude them, since each run would fail\n" in done.stdout
    settings = (tmp_path / "devlint.toml").read_text()
    assert "# Files that can't be linted.\nexclude = " in settings
    done = devlint(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_files_that_cannot_be_linted_where_there_are_settings(tmp_path):
    commit(tmp_path, {"a.py": BREAKS, "old.py": "import torch\nprint 1\n", "devlint.toml": "preview = false\n"})
    done = devlint(tmp_path, "init", "--yes")
    assert "1 file can't be linted, so that each run will fail: mend it, or add to `exclude`\n" in done.stdout
    assert (tmp_path / "devlint.toml").read_text() == "preview = false\n"


def test_a_folder_without_settings_of_its_own_has_no_baseline_of_its_own(tmp_path):
    (tmp_path / "sub").mkdir()
    for file in (tmp_path / "a.py", tmp_path / "sub" / "b.py"):
        file.write_text('import torch\nx = torch.load("a")\n')
    (tmp_path / "sub" / "pyproject.toml").write_text("[tool.black]\n")
    run = [sys.executable, "-m", "devlint"]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run([*run, "init", "--yes"], cwd=tmp_path, capture_output=True, check=True)
    assert not (tmp_path / "sub" / ".devlint-baseline.json").exists()
    assert subprocess.run(run, cwd=tmp_path, capture_output=True, check=False).returncode == 0


def test_what_init_writes_changes_nothing_that_is_found(tmp_path):
    """A branch called `main` in a hook's settings, or code in the baseline, leads to no function of the program."""
    write(
        tmp_path,
        {
            "pkg/__init__.py": "",
            "pkg/used.py": "from pkg.helper import helped\n\nprint(helped())\n",
            "pkg/helper.py": "def helped():\n    return 1\n",
            "pkg/idle.py": UNUSED_LOOP,
            "pyproject.toml": "[project]\nname = 'pkg'\nversion = '1'\n",
        },
    )
    before = devlint(tmp_path, "--output-format", "concise", "--no-baseline").stdout
    devlint(tmp_path, "init", "--yes")
    assert devlint(tmp_path, "--output-format", "concise", "--no-baseline").stdout == before
    assert devlint(tmp_path).returncode == 0


UNUSED_LOOP = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def main(device):
    model = nn.Linear(4, 2).to(device)
    criterion = nn.MSELoss()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    history = []
    for x, y in DataLoader([], batch_size=2):
        loss = criterion(model(x.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(loss.item())
    return history
"""
