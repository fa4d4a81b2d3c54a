"""The extension for VS Code: checked, tested and packaged by npm, from the versions that its lock file names."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from devlint.server.options import KEYS

EXTENSION = Path(__file__).parent.parent.parent / "editors" / "vscode"
pytestmark = pytest.mark.skipif(not EXTENSION.exists(), reason="the extension isn't part of the sdist")


def test_it_offers_the_settings_that_the_server_knows() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    offered = {name.removeprefix("devlint.") for name in manifest["contributes"]["configuration"]["properties"]}
    assert offered - {"path", "trace.server"} == set(KEYS)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm isn't installed here")
def test_it_is_built_and_packaged(tmp_path: Path) -> None:
    if subprocess.run(["npm", "ping"], capture_output=True, check=False).returncode:
        pytest.skip("npm's registry can't be reached")
    copy = tmp_path / "vscode"
    shutil.copytree(EXTENSION, copy, ignore=shutil.ignore_patterns("node_modules", "out", "*.vsix"))
    for command in (["npm", "ci"], ["npm", "test"], ["npm", "run", "package"]):
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    [package] = copy.glob("*.vsix")
    with zipfile.ZipFile(package) as archive:
        names = set(archive.namelist())
    assert {"extension/package.json", "extension/out/extension.js"} <= names
    assert not any("node_modules" in name for name in names)
