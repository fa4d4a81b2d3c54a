"""What is published: built from a copy of what git tracks, without asking the network, and used as its users would."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from repositories import ENVIRONMENT, git

from devlint.addresses import DOCUMENTATION, REPOSITORY

ROOT = Path(__file__).parents[1]


def python(folder: Path, *arguments: str, **environment: str) -> str:
    """What a Python program says that runs in a folder."""
    done = subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=folder,
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(source: Path, out: Path) -> list[str]:
    """The names of the sdist and of the wheel that is made of it."""
    python(source, "-m", "build", "--no-isolation", "--outdir", str(out), str(source))
    return sorted(path.name for path in out.iterdir())


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A repository of what git tracks here, or of an unpacked sdist, as it stands in the working tree."""
    folder = tmp_path_factory.mktemp("release") / "checkout"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if (ROOT / ".git").exists() and listed.returncode == 0:
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
    else:
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns("PKG-INFO", "__pycache__", ".pytest_cache", "site"))
    git(folder.parent, "init", "-q", "-b", "main", str(folder))
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")
    return folder


@pytest.fixture(scope="module")
def released(checkout, tmp_path_factory):
    """What is published of a commit with a tag."""
    git(checkout, "tag", "v9.8.7")
    out = tmp_path_factory.mktemp("dist")
    assert build(checkout, out) == ["devlint-9.8.7-py3-none-any.whl", "devlint-9.8.7.tar.gz"]
    git(checkout, "tag", "-d", "v9.8.7")
    return out


def test_without_a_tag_it_is_a_development_version(checkout, released, tmp_path):
    assert re.fullmatch(r"devlint-0\.0\.1\.dev\d+\+g\w+-py3-none-any\.whl", build(checkout, tmp_path / "dist")[0])


def test_without_git_it_is_no_version(checkout, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(checkout, bare, ignore=shutil.ignore_patterns(".git"))
    assert build(bare, tmp_path / "dist")[0] == "devlint-0.0.0-py3-none-any.whl"


def test_an_archive_of_the_repository_knows_its_version(checkout, released, tmp_path):
    """GitHub delivers actions so, and `git archive` is how others fetch a release."""
    git(checkout, "tag", "v9.8.7")
    try:
        git(checkout, "archive", "--prefix=archive/", "-o", str(tmp_path / "a.tar"), "HEAD")
    finally:
        git(checkout, "tag", "-d", "v9.8.7")
    with tarfile.open(tmp_path / "a.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    assert python(tmp_path / "archive", "-m", "hatchling", "version") == "9.8.7\n"


def test_pypi_takes_it_and_shows_its_page(released):
    files = [str(path) for path in released.iterdir()]
    assert python(released, "-m", "twine", "check", "--strict", *files).count("PASSED") == 2


def test_the_wheel_holds_the_two_packages_and_what_they_read(released):
    (wheel,) = released.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        metadata = file.read("devlint-9.8.7.dist-info/METADATA").decode()
    assert {name.split("/")[0] for name in names} == {"devlint", "devlint_rules", "devlint-9.8.7.dist-info"}
    for needed in (
        "devlint/py.typed",
        "devlint/knowledge/operators.json",
        "devlint/scaffold/templates/rule.py.in",
        "devlint_rules/outlines.json",
    ):
        assert needed in names
    urls = re.findall(r"^Project-URL: \w+, (.+)$", metadata, re.MULTILINE)
    assert urls
    assert all(url.startswith((REPOSITORY, DOCUMENTATION)) for url in urls)


@pytest.mark.slow
def test_the_sdist_passes_its_own_tests(released, tmp_path):
    """Some of them; .github/workflows/release.yml runs all."""
    (sdist,) = released.glob("*.tar.gz")
    with tarfile.open(sdist) as file:
        file.extractall(tmp_path, filter="data")
    source = tmp_path / "devlint-9.8.7"
    site = tmp_path / "site"
    install = ("-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site))
    python(tmp_path, *install, str(source))
    assert python(tmp_path, "-m", "devlint", "-V", PYTHONPATH=str(site)) == "devlint 9.8.7\n"
    tests = ("tests/test_cases.py", "tests/test_testing.py", "tests/test_addresses.py", "tests/test_readme.py")
    said = python(
        source, "-m", "pytest", "-q", "-k", "dev101 or testing or addresses or readme", *tests, PYTHONPATH=str(site)
    )
    assert " passed" in said
    assert str(site) in python(source, "-c", "import devlint; print(devlint.__file__)", PYTHONPATH=str(site))


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_workflows_are_what_they_are_meant_to_be():
    read = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in WORKFLOWS}
    jobs = read["ci"]["jobs"]
    matrix = jobs["tests"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    publish = read["release"]["jobs"]["publish"]
    # Trusted publishing: a token that is made for the job, and none that is kept.
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"]["name"] == "pypi"
    text = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    assert "secrets." not in text


def test_the_oldest_python_and_torch_of_the_workflow_are_those_that_are_promised():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    oldest_python = re.search(r'python: \["(3[.]\d+)"', text)[1]
    oldest_torch = re.search(r'torch: \["(2[.]\d+)"', text)[1]
    assert f'requires-python = ">={oldest_python}"' in project
    assert f'"torch>={oldest_torch}"' in project
