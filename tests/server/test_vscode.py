"""The extension for VS Code: checked, tested and packaged by npm from the versions that its lock file names, and used in
VS Code itself, whose window is a page of Chromium."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server.test_editing import DROPPED, project

from devlint.server.options import KEYS

EXTENSION = Path(__file__).parent.parent.parent / "editors" / "vscode"
# A build of VS Code that npm has: its server, to which a browser is the window. It runs on Node 20 and later.
VSCODE = "code-server@4.96.4"
FIXED = DROPPED.replace("x.to", "x = x.to")
# Longer than anything takes here, in milliseconds.
PATIENCE = 120_000

pytestmark = pytest.mark.skipif(not EXTENSION.exists(), reason="the extension isn't part of the sdist")


def run(*command: str, cwd: Path) -> str:
    """What a command that must succeed writes."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_offers_the_settings_that_the_server_knows() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    offered = {name.removeprefix("devlint.") for name in manifest["contributes"]["configuration"]["properties"]}
    assert offered - {"path", "trace.server"} == set(KEYS)


def test_a_server_that_is_told_nothing_ends_in_good_order(tmp_path: Path) -> None:
    """So the extension tries whether an environment has one."""
    run(sys.executable, "-P", "-m", "devlint", "server", cwd=tmp_path)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The extension, checked, tested and packaged."""
    if shutil.which("npm") is None:
        pytest.skip("npm isn't installed here")
    if subprocess.run(["npm", "ping"], capture_output=True, check=False).returncode:
        pytest.skip("npm's registry can't be reached")
    copy = tmp_path_factory.mktemp("extension") / "vscode"
    shutil.copytree(EXTENSION, copy, ignore=shutil.ignore_patterns("node_modules", "out", "*.vsix"))
    for command in (["npm", "ci"], ["npm", "test"], ["npm", "run", "package"]):
        run(*command, cwd=copy)
    [package] = copy.glob("*.vsix")
    return package


@pytest.mark.slow
def test_it_is_built_and_packaged(package: Path) -> None:
    with zipfile.ZipFile(package) as archive:
        names = set(archive.namelist())
    assert {"extension/package.json", "extension/out/extension.js"} <= names
    assert not any("node_modules" in name for name in names)


@pytest.fixture(scope="module")
def vscode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """VS Code's server, as far as these tests need it: what npm would have to compile stays out."""
    folder = tmp_path_factory.mktemp("vscode")
    packed = run("npm", "pack", "--silent", VSCODE, cwd=folder).split()[-1]
    with tarfile.open(folder / packed) as archive:
        archive.extractall(folder, filter="data")
    server = folder / "package" / "lib" / "vscode"
    # The versions that its lock file names include some that npm doesn't have.
    (server / "npm-shrinkwrap.json").unlink()
    run("npm", "install", "--ignore-scripts", "--omit=dev", "--no-package-lock", cwd=server)
    return server


class Window:
    """A window of VS Code with a folder open."""

    def __init__(self, page: Any) -> None:
        self.page = page
        page.set_default_timeout(PATIENCE)

    def open_folder(self, address: str, folder: Path) -> None:
        """Opens a folder, whose authors are trusted: the extension doesn't run before."""
        self.page.goto(f"{address}/?folder={folder}")
        self.page.get_by_role("button", name="Yes, I trust the authors").click()

    def open(self, name: str) -> None:
        """Opens a file from the explorer."""
        self.page.get_by_role("treeitem", name=name).click()

    @property
    def findings(self) -> Any:
        """The marked ranges of the file that is shown."""
        return self.page.locator(".squiggly-error, .squiggly-warning")

    def line(self, text: str) -> Any:
        """The line of the shown file that holds a text, which has no blanks."""
        return self.page.locator(".view-line", has_text=text).first

    def command(self, name: str) -> None:
        """Runs a command from the palette."""
        self.page.keyboard.press("F1")
        self.page.keyboard.type(name)
        self.page.locator(".quick-input-list .monaco-list-row.focused", has_text=name).wait_for()
        self.page.keyboard.press("Enter")


@pytest.fixture
def window(vscode: Path, package: Path, browser: Any, tmp_path: Path) -> Iterator[tuple[Window, Path]]:
    """A window with the extension, and the folder that is open in it."""
    folder = project(tmp_path / "work")
    (folder / "a.py").write_text(DROPPED)
    # VS Code watches what is there when it starts.
    (folder / ".vscode").mkdir()
    (folder / ".vscode" / "settings.json").write_text("{}")
    own = ["--server-data-dir", str(tmp_path / "data"), "--extensions-dir", str(tmp_path / "extensions")]
    start = ["node", "out/server-main.js", *own, "--accept-server-license-terms"]
    run(*start, "--install-extension", str(package), cwd=vscode)
    # Of devlint there is nothing on the PATH, which VS Code asks a shell for.
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": os.defpath + ":/usr/local/bin"}
    start[0] = str(shutil.which("node"))
    listen = [*start, "--host", "127.0.0.1", "--port", "0", "--without-connection-token", "--telemetry-level", "off"]
    server = subprocess.Popen(
        listen, cwd=vscode, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert server.stdout is not None
    port = next(at[1] for line in server.stdout if (at := re.search(r"agent listening on (\d+)", line)))
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    shown = Window(page)
    try:
        shown.open_folder(f"http://127.0.0.1:{port}", folder)
        yield shown, folder
    finally:
        page.close()
        server.terminate()
        server.wait()


def set_up(folder: Path, **more: object) -> None:
    """Writes the settings of a folder: the program that these tests run with, and more."""
    settings = {"devlint.path": [sys.executable, "-P", "-m", "devlint"], **more}
    (folder / ".vscode" / "settings.json").write_text(json.dumps(settings))


@pytest.mark.slow
def test_vs_code_shows_findings_and_fixes_them(window: tuple[Window, Path]) -> None:
    shown, folder = window
    page = shown.page
    # Nobody has said where devlint is: that is told, and who says it needn't answer the message first.
    shown.open("a.py")
    page.get_by_text("devlint was found in no environment").first.wait_for()
    set_up(folder, **{"[python]": {"editor.codeActionsOnSave": {"source.fixAll.devlint": "explicit"}}})
    shown.findings.first.wait_for()
    # The list of problems: the finding, its code, and the trail below it.
    page.keyboard.press("Control+Shift+M")
    problems = page.locator(".markers-panel [role=treeitem]")
    page.locator(".markers-panel", has_text="created on cpu").first.wait_for()
    told = " ".join(problems.all_inner_texts())
    assert "`x.to(device)` returns a moved copy" in told
    assert "DEV101" in told
    page.keyboard.press("Control+Shift+M")
    # What is known of a value.
    shown.line("print(x)").get_by_text("x", exact=True).hover()
    page.locator(".monaco-hover:visible", has_text="tensor on cpu").wait_for()
    # A quick fix, which takes the finding away; and it comes back when it is undone.
    shown.line("x.to(device)").click()
    page.keyboard.press("Control+.")
    page.locator(".action-widget .monaco-list-row.focused", has_text="assign the result").wait_for()
    page.keyboard.press("Enter")
    shown.findings.first.wait_for(state="detached")
    assert "x = x.to(device)" in shown.line("x.to(device)").inner_text().replace("\xa0", " ")
    page.keyboard.press("Control+Z")
    shown.findings.first.wait_for()
    # Fixed on saving.
    page.keyboard.press("Control+S")
    shown.findings.first.wait_for(state="detached")
    page.locator(".tab.active:not(.dirty)").wait_for()
    assert (folder / "a.py").read_text() == FIXED
    # The server is started anew, and serves.
    shown.command("devlint: Restart the server")
    shown.line("print(x)").click()
    page.keyboard.press("End")
    page.keyboard.type("\nx.cpu()")
    shown.findings.first.wait_for()


@pytest.mark.slow
def test_vs_code_shows_findings_in_the_cells_of_a_notebook(window: tuple[Window, Path]) -> None:
    shown, folder = window
    set_up(folder)
    sources = ("import torch\n", "x = torch.ones(3)\n", 'x.to("cuda")\n')
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**cell, "source": [source]} for source in sources]
    book = {"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 4}
    (folder / "n.ipynb").write_text(json.dumps(book))
    shown.open("n.ipynb")
    marked = shown.page.locator(
        ".notebookOverlay .cell .squiggly-error, .notebookOverlay .monaco-editor .squiggly-error"
    )
    marked.first.wait_for()
    shown.page.keyboard.press("Control+Shift+M")
    shown.page.locator(".markers-panel", has_text="DEV101").first.wait_for()
