"""Settings of the editor, several folders, notebooks, and a machine without the extra."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from server.editor import ALL, Editor, after, codes, pause
from server.test_editing import DROPPED, project

TWICE = DROPPED + "y = torch.zeros(2, device='gpu')\n"


@pytest.fixture
def editors() -> Iterator[list[Editor]]:
    """The servers of a test, ended with it."""
    started: list[Editor] = []
    yield started
    assert [editor.quit() for editor in started] == [0] * len(started)


def test_each_folder_of_a_workspace_has_its_settings(tmp_path: Path, editors: list[Editor]) -> None:
    one, two = project(tmp_path / "one"), project(tmp_path / "two")
    (two / "pyproject.toml").write_text('[tool.devlint]\nignore = ["DEV610"]\n')
    editor = Editor(one, two, options={"ignore": ["DEV1"]})
    editors.append(editor)
    in_one, in_two = editor.open(one / "a.py", TWICE), editor.open(two / "a.py", TWICE)
    assert codes(editor.settle(in_one)) == ["DEV610"]
    assert editor.settle(in_two) == []
    # The editor's settings, asked for folder by folder once they have changed.
    editor.settings = {one.as_uri(): {"select": ["DEV101"]}, two.as_uri(): {"enable": False}, None: {"run": "onType"}}
    editor.say(editor.client.workspace_did_change_configuration, types.DidChangeConfigurationParams(settings=None))
    editor.until(lambda: codes(list(editor.published[in_one].diagnostics)) == ["DEV101"])
    editor.insert(in_two, 0, 0, "\n")
    assert editor.settle(in_two) == []


def test_a_setting_that_is_none_is_told_and_the_others_hold(tmp_path: Path, editors: list[Editor]) -> None:
    folder = project(tmp_path)
    editor = Editor(folder, options={"ignroe": [], "debounce": "soon", "confidence": "sure", "ignore": ["DEV1"]})
    editors.append(editor)
    uri = editor.open(folder / "a.py", TWICE)
    assert codes(editor.settle(uri)) == ["DEV610"]
    editor.until(lambda: len(editor.messages) >= 3)
    assert sorted(editor.messages) == [
        'devlint: devlint.confidence: is \'sure\'; write "certain" or "likely"',
        "devlint: devlint.debounce: is 'soon'; write a number of milliseconds",
        "devlint: devlint.ignroe: there is no such setting; did you mean 'ignore'?",
    ]
    # Many editors send the same by another way.
    editor.settings = {None: {"ignroe": [], "debounce": "later"}}
    editor.say(editor.client.workspace_did_change_configuration, types.DidChangeConfigurationParams(settings=None))
    editor.until(lambda: "devlint: devlint.debounce: is 'later'; write a number of milliseconds" in editor.messages)
    assert sum("ignroe" in message for message in editor.messages) == 1
    # A rule that there isn't is told as everything else is, and the others hold.
    editor.settings = {None: {"ignroe": [], "debounce": "later", "select": ["DEV999", "DEV101"]}}
    editor.say(editor.client.workspace_did_change_configuration, types.DidChangeConfigurationParams(settings=None))
    editor.until(lambda: any("devlint.select: no rule is called 'DEV999'" in message for message in editor.messages))
    editor.until(lambda: codes(list(editor.published[uri].diagnostics)) == ["DEV101"])
    assert len(editor.messages) == len(set(editor.messages))


def test_a_setting_that_is_taken_back_holds_no_more(tmp_path: Path, editors: list[Editor]) -> None:
    folder = project(tmp_path)
    editor = Editor(folder, options={"ignore": ["DEV1"]})
    editors.append(editor)
    uri = editor.open(folder / "a.py", TWICE)

    def told(answered: Any, pushed: Any, wanted: list[str]) -> None:
        editor.settings = {None: answered, folder.as_uri(): answered}
        editor.say(editor.client.workspace_did_change_configuration, types.DidChangeConfigurationParams(pushed))
        editor.until(lambda: codes(list(editor.published[uri].diagnostics)) == wanted)

    assert codes(editor.settle(uri)) == ["DEV610"]
    told({"enable": False}, None, [])
    told({}, None, ["DEV610"])
    told(None, {"devlint": {"select": ["DEV101"]}}, ["DEV101"])
    told(None, {"devlint": {}}, ["DEV610"])


def test_another_settings_file_can_be_named(tmp_path: Path, editors: list[Editor]) -> None:
    folder = project(tmp_path)
    (folder / "strict.toml").write_text('select = ["DEV610"]\n')
    editor = Editor(folder, options={"settings": {"configuration": "strict.toml"}})
    editors.append(editor)
    assert codes(editor.settle(editor.open(folder / "a.py", TWICE))) == ["DEV610"]


def test_a_settings_file_is_looked_for_from_each_folder(tmp_path: Path, editors: list[Editor]) -> None:
    one, two = project(tmp_path / "one"), project(tmp_path / "two")
    (two / "own.toml").write_text('ignore = ["DEV610"]\n')
    (two / "deep").mkdir()
    editor = Editor(one, two, options={"configuration": "own.toml"})
    editors.append(editor)
    uri = editor.open(two / "deep" / "a.py", TWICE)
    assert codes(editor.settle(uri)) == ["DEV101"]
    assert editor.messages == []
    # Where there is none, the message says where it was looked for.
    editor.settle(editor.open(one / "a.py", TWICE))
    [said] = editor.messages
    assert f"devlint.configuration: there is no 'own.toml' in {one}, nor above it; until that is mended" in said


@pytest.mark.parametrize("options", [{"ignore": ["DEV000"]}, {"showSyntaxErrors": False}])
def test_another_server_may_tell_of_syntax(tmp_path: Path, editors: list[Editor], options: dict[str, Any]) -> None:
    folder = project(tmp_path)
    editor = Editor(folder, options=options)
    editors.append(editor)
    uri = editor.open(folder / "a.py", DROPPED)
    assert codes(editor.settle(uri)) == ["DEV101"]
    editor.insert(uri, 6, 0, "x.\n")
    # What was found before stays while a line is half typed.
    assert codes(editor.settle(uri)) == ["DEV101"]


def test_linting_can_wait_until_a_file_is_saved(tmp_path: Path, editors: list[Editor]) -> None:
    folder = project(tmp_path)
    editor = Editor(folder, options={"run": "onSave"})
    editors.append(editor)
    uri = editor.open(folder / "a.py", DROPPED)
    assert codes(editor.settle(uri)) == ["DEV101"]
    editor.insert(uri, 4, 0, "x = ")
    pause(0.5)
    assert editor.published[uri].version == 1
    editor.save(uri)
    assert editor.settle(uri) == []


def test_unsafe_fixes_can_be_part_of_fix_all(tmp_path: Path, editors: list[Editor]) -> None:
    text = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n\nnet = nn.Linear(1, 1).cuda()\noptimizer = torch.optim.SGD(net.parameters())\ntotal = 0.0\nfor x in DataLoader([]):\n    loss = net(x.cuda()).sum()\n    total += loss.item()\n    loss.backward()\n    optimizer.step()\nprint(total)\n"
    folder = project(tmp_path)
    editor = Editor(folder, options={"unsafeFixes": True})
    editors.append(editor)
    uri = editor.open(folder / "a.py", text)
    assert codes(editor.settle(uri)) == ["DEV501"]
    everything = types.Range(types.Position(0, 0), types.Position(13, 0))
    [action] = editor.actions(uri, everything, only=["source.fixAll.devlint"])
    assert ".detach()" in after(action, uri, text)


def test_a_rule_pack_that_cannot_be_used_is_told_and_left_out(
    tmp_path: Path, editors: list[Editor], monkeypatch: pytest.MonkeyPatch
) -> None:
    information = tmp_path / "site" / "halfpack-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: halfpack\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[devlint.rules]\nhalf = halfpack\n")
    (tmp_path / "site" / "halfpack.py").write_text("class Half(:\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    folder = project(tmp_path / "work")
    editors.append(editor := Editor(folder))
    assert codes(editor.settle(editor.open(folder / "a.py", DROPPED))) == ["DEV101"]
    editor.until(lambda: bool(editor.messages))
    assert editor.messages[0].startswith("devlint: left out: the rule pack halfpack 1 can't be loaded: SyntaxError")


def _cell(number: int, text: str) -> tuple[types.NotebookCell, types.TextDocumentItem]:
    uri = f"vscode-notebook-cell:/work/book.ipynb#c{number}"
    kind = types.NotebookCellKind.Markup if text.startswith("# A title") else types.NotebookCellKind.Code
    language = types.LanguageKind.Markdown if kind == types.NotebookCellKind.Markup else types.LanguageKind.Python
    return types.NotebookCell(kind, uri), types.TextDocumentItem(uri, language, 1, text)


def _wait(editor: Editor, uri: str, wanted: list[str]) -> list[types.Diagnostic]:
    editor.until(lambda: uri in editor.published and codes(list(editor.published[uri].diagnostics)) == wanted)
    return list(editor.published[uri].diagnostics)


def test_a_notebook_is_linted_as_one_program(tmp_path: Path, editors: list[Editor]) -> None:
    folder = project(tmp_path)
    editor = Editor(folder)
    editors.append(editor)
    assert editor.answer.capabilities.notebook_document_sync is not None
    texts = ["# A title", "%matplotlib inline\nimport torch\nx = torch.ones(3)", "x.to('cuda')\nprint(x)\n"]
    cells, items = zip(*(_cell(number, text) for number, text in enumerate(texts)), strict=True)
    book = types.NotebookDocument((folder / "book.ipynb").as_uri(), "jupyter-notebook", 1, list(cells))
    opened = types.DidOpenNotebookDocumentParams(book, list(items))
    editor.say(editor.client.notebook_document_did_open, opened)
    last = items[2].uri
    [shown] = _wait(editor, last, ["DEV101"])
    assert shown.range == types.Range(types.Position(0, 0), types.Position(0, 12))
    assert shown.related_information is not None
    [made] = shown.related_information
    assert (made.location.uri, made.location.range.start.line) == (items[1].uri, 2)
    assert editor.published[items[1].uri].diagnostics == ()
    fixed = after(editor.resolve(editor.actions(last, shown.range)[0]), last, texts[2])
    assert fixed == "x = x.to('cuda')\nprint(x)\n"
    told = editor.hover(last, 1, 6)
    assert told.startswith("`x`: tensor on cpu")
    # What tells the cells apart stands behind the `#` already.
    assert f"([cell 2:3]({items[1].uri}))" in told

    # A key in another cell, and a cell that goes.
    at = types.Position(2, 14)
    typed = types.TextDocumentContentChangePartial(types.Range(at, at), ".cuda().cpu()")
    changed = types.NotebookDocumentCellContentChanges(types.VersionedTextDocumentIdentifier(2, items[1].uri), [typed])
    _change_book(editor, book, 2, types.NotebookDocumentCellChanges(text_content=[changed]))
    _wait(editor, last, ["DEV101"])
    gone = types.NotebookDocumentCellChangeStructure(
        types.NotebookCellArrayChange(2, 1), did_close=[types.TextDocumentIdentifier(last)]
    )
    _change_book(editor, book, 3, types.NotebookDocumentCellChanges(structure=gone))
    _wait(editor, last, [])


def _change_book(
    editor: Editor, book: types.NotebookDocument, version: int, cells: types.NotebookDocumentCellChanges
) -> None:
    change = types.NotebookDocumentChangeEvent(cells=cells)
    identifier = types.VersionedNotebookDocumentIdentifier(version, book.uri)
    params = types.DidChangeNotebookDocumentParams(identifier, change)
    editor.say(editor.client.notebook_document_did_change, params)


def test_without_pygls_one_line_says_what_to_install(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['pygls'] = None; from devlint.cli import main; sys.argv = ['devlint', 'server']; main()"
    run = subprocess.run(
        [sys.executable, "-P", "-c", hidden], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.returncode == 2
    assert run.stderr.splitlines() == [
        "error: `devlint server` needs pygls, which isn't installed here: pip install 'devlint[lsp]'"
    ]


def test_an_editor_that_goes_away_ends_the_server(tmp_path: Path) -> None:
    editor = Editor(project(tmp_path), can=ALL)
    process = editor.process
    assert process.stdin is not None
    editor._loop.call_soon_threadsafe(process.stdin.close)
    assert editor._wait_for(process.wait()) is not None
    editor._loop.call_soon_threadsafe(editor._loop.stop)
