"""The wheel that mypyc compiles: it holds what it should, and finds what the pure one finds."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from repositories import ENVIRONMENT, packaged

ROOT = Path(__file__).parents[1]
LINTED = ("examples", "tests/cases")


def _hook():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_compiled_is_there_and_what_is_not_as_well():
    hook = _hook()
    named = hook.sources(ROOT)
    assert "devlint/signatures/values/values.py" in named
    for pattern in (*hook.COMPILED, *hook.PLAIN):
        assert list(ROOT.glob(pattern)), f"hatch_build.py: nothing is called {pattern}"
    # A compiled class has no place for them: it would break when it is used.
    held = [name for name in named if "@cached_property" in (ROOT / name).read_text(encoding="utf-8")]
    assert held == [], "hatch_build.py: PLAIN lacks"
    # mypyc takes the first part of `[first, *_] as whole` for the whole.
    mistaken = [name for name in named if re.search(r"\] as \w+", (ROOT / name).read_text(encoding="utf-8"))]
    assert mistaken == []
    # mypyc has no code for `x in (first, *others)`.
    unhandled = [
        f"{name}:{node.lineno}"
        for name in named
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare) and any(map(_first_starred, node.comparators))
    ]
    assert unhandled == []


def _first_starred(node: ast.expr) -> ast.expr | None:
    return next((part for part in getattr(node, "elts", ()) if isinstance(part, ast.Starred)), None)


def _installed(wheel: Path, folder: Path) -> Path:
    """A fresh environment with a wheel in it, and with the libraries of the one that runs the tests."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    # Some have `lib64` beside it, which is the same.
    (site,) = folder.glob("[lL]ib/**/site-packages")
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries), encoding="utf-8")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def _found(python: Path, *options: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [python, "-P", "-m", "devlint", "check", "--isolated", "--select", "ALL", "--preview", "--markdown", "--no-cache",
         "--output-format", "json", *options, *LINTED],
        cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)


# It compiles for minutes.
@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("cc") is None and os.name != "nt", reason="no compiler here")
def test_it_finds_what_the_pure_one_finds(tmp_path):
    pytest.importorskip("mypyc")
    package = packaged(tmp_path / "package")
    pythons = {}
    for asked in ("", "1"):
        out = tmp_path / f"dist{asked}"
        build = [sys.executable, "-P", "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(package)]
        done = subprocess.run(
            build,
            cwd=tmp_path,
            env=ENVIRONMENT | {"DEVLINT_COMPILE": asked},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (wheel,) = out.iterdir()
        assert wheel.name.endswith("-py3-none-any.whl") == (not asked)
        pythons[asked] = _installed(wheel, tmp_path / f"venv{asked}")
    where = "import devlint.signatures.values.values as v; print(v.__file__)"
    files = {
        asked: subprocess.run(
            [python, "-P", "-c", where], env=ENVIRONMENT, capture_output=True, text=True
        ).stdout.strip()
        for asked, python in pythons.items()
    }
    assert files[""].endswith("values.py")
    assert not files["1"].endswith(".py")
    pure = _found(pythons[""], "-j", "1")
    assert len(pure) > 1000
    assert not [finding for finding in pure if finding["code"] == "DEV000"]
    assert _found(pythons["1"], "-j", "1") == pure
    assert _found(pythons["1"], "-j", "2") == pure
    assert _kept_in_circles(pythons["1"]) == ""


def _kept_in_circles(python: Path) -> str:
    """What compiled functions keep that hold themselves by functions within them: all that they saw stays with them."""
    code = """
import gc
from devlint.cli import cli
gc.disable()
cli.main(["check", "--isolated", "--no-cache", "-j1", "--quiet", "examples"], standalone_mode=False)
gc.set_debug(gc.DEBUG_SAVEALL)
gc.collect()
kinds = {type(thing).__name__ for thing in gc.garbage}
print(*sorted(kind for kind in kinds if kind.endswith("_env")))
"""
    done = subprocess.run(
        [python, "-P", "-c", code], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1]
