"""The GitHub action and the GitLab template: valid, and their steps run by bash as the services run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from test_cli import BAD, CLEAN

ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
TEMPLATE = ROOT / "templates" / "devlint.gitlab-ci.yml"
OTHER = BAD.replace("x", "y")


def git(folder: Path, *arguments: str) -> str:
    told = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *told, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "c")


@dataclass
class Job:
    """A run of the action's own steps in a checkout."""

    folder: Path
    temp: Path
    environment: dict[str, str]
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    log: str = ""

    def run(self, **inputs: str) -> int:
        """The exit code of the first step that fails, or 0."""
        given = {name: about.get("default", "") for name, about in ACTION["inputs"].items()} | inputs
        for step in ACTION["runs"]["steps"]:
            if "run" not in step or step.get("id") == "install":
                continue
            code = self.step(step, given)
            if code:
                return code
        return 0

    def step(self, step: dict, inputs: dict[str, str]) -> int:
        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("inputs."):
                return inputs[name.removeprefix("inputs.")]
            if name == "github.action_path":
                return str(ROOT)
            steps, identity, outputs, key = name.split(".")
            assert (steps, outputs) == ("steps", "outputs")
            return self.outputs.get(identity, {}).get(key, "")

        def filled(text: str) -> str:
            return re.sub(r"\$\{\{ ([\w.-]+) \}\}", value, text)

        # An expression in a script would be a way in for whoever names a branch.
        assert "${{" not in step["run"]
        file, output, summary = (self.temp / name for name in ("step.sh", "output", "summary.md"))
        file.write_text(step["run"])
        output.write_text("")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(file)],
            cwd=self.folder / filled(step.get("working-directory", ".")),
            env={
                **self.environment,
                **{name: filled(text) for name, text in step.get("env", {}).items()},
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(summary),
                "RUNNER_TEMP": str(self.temp),
                "GITHUB_WORKSPACE": str(self.folder),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        self.log += done.stdout + done.stderr
        if "id" in step:
            self.outputs[step["id"]] = dict(line.split("=", 1) for line in output.read_text().splitlines())
        return done.returncode

    @property
    def annotated(self) -> list[str]:
        return re.findall(r"^::\w+ title=\w+ [^:]*?file=([^,]+),", self.log, re.MULTILINE)

    @property
    def summary(self) -> str:
        file = self.temp / "summary.md"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def job(tmp_path, monkeypatch) -> Job:
    """A job on a shallow checkout of a pull request, with devlint installed already."""
    origin, folder, temp = (tmp_path / name for name in ("origin", "checkout", "temp"))
    origin.mkdir()
    temp.mkdir()
    git(origin, "init", "-q")
    commit(origin, old=BAD, other=CLEAN)
    git(origin, "checkout", "-qb", "feature")
    commit(origin, new=OTHER)
    git(origin, "checkout", "-q", "main")
    commit(origin, meanwhile=BAD)
    git(origin, "checkout", "-q", "feature")
    git(origin, "merge", "-q", "main")
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=feature", origin.as_uri(), str(folder))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "CI_", "GIT_"))}
    made = Job(folder, temp, environment)
    made.outputs["install"] = {"scripts": str(Path(sys.executable).parent)}
    if not (Path(sys.executable).parent / "devlint").exists():
        pytest.skip("devlint isn't installed as a script here")
    return made


@pytest.mark.parametrize(
    ("schema", "file"), [("github-actions", "action.yml"), ("gitlab-ci", "templates/devlint.gitlab-ci.yml")]
)
def test_the_files_have_the_form_that_the_services_ask_for(schema, file, tmp_path):
    pytest.importorskip("check_jsonschema")
    text = (ROOT / file).read_text()
    # Of a template, the job: what stands before it are its inputs.
    (tmp_path / "x.yml").write_text(text.rsplit("\n---\n", 1)[-1])
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(tmp_path / "x.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_push_reports_everything(job):
    assert job.run() == 1
    assert job.annotated == ["meanwhile.py", "new.py", "old.py"]
    assert job.outputs["lint"]["code"] == "1"
    sarif = json.loads(Path(job.outputs["lint"]["sarif"]).read_text())
    assert len(sarif["runs"][0]["results"]) == 3
    assert "new.py:4:1: DEV101" in job.summary


def test_a_pull_request_reports_what_it_brings(job):
    job.environment["GITHUB_BASE_REF"] = "main"
    assert job.run() == 1
    assert job.annotated == ["new.py"]
    assert job.run(since="none") == 1
    assert job.annotated == ["new.py", "meanwhile.py", "new.py", "old.py"]


def test_a_pull_request_that_brings_nothing_passes(job):
    job.environment["GITHUB_BASE_REF"] = "main"
    (job.folder / "new.py").write_text(CLEAN)
    git(job.folder, "commit", "-qam", "mended")
    assert job.run() == 0
    assert job.outputs["lint"]["code"] == "0"
    # A checkout with the whole history is as good.
    assert job.run() == 0


@pytest.mark.slow
def test_inputs_are_options_and_nothing_else(job):
    assert job.run(paths="new.py", annotations="false") == 1
    assert "new.py:4:1: DEV101 [discarded-move]" in job.log
    assert job.annotated == []
    assert job.run(args="--select DEV3 --config 'ignore = [\"DEV301\"]'") == 0
    (job.folder / "a b").mkdir()
    (job.folder / "a b" / "bad.py").write_text(BAD)
    job.log = ""
    assert job.run(paths="'a b' new.py") == 1
    assert job.annotated == ["a b/bad.py", "new.py"]
    job.log = ""
    assert job.run(**{"working-directory": "a b"}) == 1
    assert job.annotated == ["a b/bad.py"]
    job.run(paths="$(touch hacked) `touch hacked`; touch hacked", args="; touch hacked")
    assert not list(job.folder.rglob("hacked"))
    assert job.run(paths="-gone.py") == 2
    assert job.run(since="HEAD", args="--exit-zero") == 0


def test_a_wrong_call_fails_with_what_is_wrong(job):
    assert job.run(args="--select DEV999") == 2
    assert "no rule is called 'DEV999'" in job.log
    assert "sarif" not in job.outputs["lint"]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["", str(ROOT)])
def test_devlint_is_installed_beside_the_project(job, version):
    """Needs a package index."""
    (install,) = (step for step in ACTION["runs"]["steps"] if step.get("id") == "install")
    assert job.step(install, {"version": version}) == 0, job.log
    scripts = Path(job.outputs["install"]["scripts"])
    assert scripts.is_relative_to(job.temp)
    assert job.run(paths="new.py") == 1
    assert job.annotated == ["new.py"]


@pytest.mark.parametrize(
    ("version", "asked"),
    [("0.1.0", "devlint==0.1.0"), (">=0.1,<0.2", "devlint>=0.1,<0.2"), ("git+https://x/y@z", "git+https://x/y@z")],
)
def test_a_version_is_what_pip_takes(job, version, asked, tmp_path):
    (install,) = (step for step in ACTION["runs"]["steps"] if step.get("id") == "install")
    # The environment's Python says what it was called with.
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "python").write_text(
        '#!/bin/sh\nmkdir -p "$3/bin"\ncp "$0" "$3/bin/python" 2>/dev/null\ncase "$*" in *pip*) echo "$*" ;; esac\n'
    )
    (fake / "python").chmod(0o755)
    job.environment["PATH"] = f"{fake}:{job.environment['PATH']}"
    assert job.step(install, {"version": version}) == 0
    assert job.log.splitlines()[-1].endswith(f" {asked}")


def test_the_gitlab_job_runs(job):
    about, jobs = (part for part in TEMPLATE.read_text().split("\n---\n"))
    inputs = yaml.safe_load(about)["spec"]["inputs"]

    def script(**given: str) -> str:
        values = {name: str(about["default"]) for name, about in inputs.items()} | given
        values = {name: value.lower() if value in ("True", "False") else value for name, value in values.items()}
        filled = re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda match: values[match[1]], jobs)
        lines = yaml.safe_load(filled)["devlint"]["script"]
        # An environment in which pip says what it was called with.
        return "\n".join(['pip() { echo "pip $*"; }', *lines])

    def run(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{job.environment['PATH']}"
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", text],
            cwd=job.folder,
            env={**job.environment, "PATH": path, "CI_PROJECT_DIR": str(job.folder), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    done = run(script(version="0.1.0"))
    assert done.stdout.startswith("pip install --quiet devlint==0.1.0\n")
    done = run(script(version=">=0.1,<0.2"))
    assert done.stdout.startswith("pip install --quiet devlint>=0.1,<0.2\n")
    done = run(script())
    assert done.stdout.startswith("pip install --quiet devlint\n")
    assert done.returncode == 1
    assert len(json.loads((job.folder / "gl-code-quality-report.json").read_text())) == 3
    assert (job.folder / "devlint.xml").read_text().startswith("<?xml")
    git(job.folder, "fetch", "-q", "--unshallow", "origin", "+refs/heads/main:refs/remotes/origin/main")
    base = git(job.folder, "rev-parse", "origin/main")
    done = run(script(since="true"), CI_MERGE_REQUEST_DIFF_BASE_SHA=base)
    assert "new.py:4:1: DEV101" in done.stdout
    assert "old.py" not in done.stdout


@pytest.mark.parametrize(("at", "schema"), [(0, "github-workflows"), (1, "gitlab-ci")])
def test_the_page_s_files_are_valid_and_name_inputs_that_there_are(at, schema, tmp_path):
    pytest.importorskip("check_jsonschema")
    block = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "ci-linting.md").read_text(), re.DOTALL)[at]
    (tmp_path / "x.yml").write_text(block)
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        f"vendor.{schema}",
        str(tmp_path / "x.yml"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    document = yaml.safe_load(block)
    if at == 0:
        given = document["jobs"]["devlint"]["steps"][-1]["with"]
        known = ACTION["inputs"]
    else:
        given = document["include"][0]["inputs"]
        known = yaml.safe_load(TEMPLATE.read_text().split("\n---\n")[0])["spec"]["inputs"]
    assert given.keys() <= known.keys()


def test_the_page_names_each_input_and_format():
    from typing import get_args

    from devlint.findings import OutputFormat

    text = (ROOT / "docs" / "ci-linting.md").read_text()
    for word in (*ACTION["inputs"], *get_args(OutputFormat)):
        assert f"`{word}`" in text
