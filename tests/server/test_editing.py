"""What somebody sees who edits code with the language server behind the editor."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lsprotocol import types
from server.editor import PLAIN, Editor, after, codes

from devlint.rule import load_registry
from devlint.server.documents import Snapshot
from devlint.server.kept import KeptLinter
from devlint.server.lenses import lenses
from devlint.settings import load_settings

DROPPED = """\
import torch

device = torch.device("cuda")
x = torch.ones(3)
x.to(device)
print(x)
"""

LINE_4 = types.Range(types.Position(3, 0), types.Position(4, 0))
INSIDE = "    x = torch.ones(3)\n    x.to(device)\n"

NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)
"""

TRAIN = """\
import torch
from net import Net

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train(model, loader, optimizer):
    total = 0.0
    for images, labels in loader:
        loss = model(images.to(device)).sum()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


model = Net().to(device)
train(model, torch.utils.data.DataLoader([]), torch.optim.SGD(model.parameters(), lr=0.1))
"""


def project(folder: Path, **files: str) -> Path:
    """A folder that is a project of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text("[tool.devlint]\n")
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def editor(root: Path) -> Iterator[Editor]:
    """One server for the module; each test works in a folder of its own."""
    editor = Editor(root)
    yield editor
    assert editor.quit() == 0


@pytest.fixture
def folder(root: Path, request: pytest.FixtureRequest) -> Path:
    return project(root / request.node.name)


def test_a_finding_is_shown_where_the_command_line_tells_it(editor: Editor, folder: Path) -> None:
    file = folder / "a.py"
    file.write_text(DROPPED)
    [shown] = editor.settle(editor.open(file))
    run = [sys.executable, "-P", "-m", "devlint", str(file), "--output-format", "json"]
    [told] = json.loads(subprocess.run(run, capture_output=True, text=True, check=False).stdout)
    assert (shown.code, shown.source, shown.severity) == ("DEV101", "devlint", types.DiagnosticSeverity.Error)
    assert told["message"] in shown.message
    assert shown.range == types.Range(types.Position(4, 0), types.Position(4, 12))
    assert shown.code_description is not None
    assert shown.code_description.href.endswith("/rules/DEV101/")


def test_it_goes_and_comes_back_while_somebody_types(editor: Editor, folder: Path) -> None:
    uri = editor.open(folder / "a.py", DROPPED)
    assert codes(editor.settle(uri)) == ["DEV101"]
    editor.insert(uri, 4, 0, "x = ")
    assert editor.settle(uri) == []
    editor.insert(uri, 0, 0, "# One line more\n")
    editor.edit(
        uri, types.TextDocumentContentChangePartial(types.Range(types.Position(5, 0), types.Position(5, 4)), "")
    )
    [shown] = editor.settle(uri)
    assert shown.range.start == types.Position(5, 0)


def test_what_is_typed_half_is_told_as_such_and_takes_nothing_else_away(editor: Editor, folder: Path) -> None:
    uri = editor.open(folder / "a.py", DROPPED)
    editor.settle(uri)
    editor.insert(uri, 2, 0, "y = torch.ones(\n")
    half, dropped = editor.settle(uri)
    assert half.code == "DEV000"
    assert "isn't valid Python" in half.message
    assert (dropped.code, dropped.range.start.line) == ("DEV101", 5)


def test_what_is_typed_half_leaves_the_findings_of_its_own_function(editor: Editor, folder: Path) -> None:
    text = f"import torch\n\n\ndef f(device):\n{INSIDE}    return x\n"
    uri = editor.open(folder / "a.py", text)
    assert codes(editor.settle(uri)) == ["DEV101"]
    editor.insert(uri, 6, 0, "    for y in (\n")
    assert codes(editor.settle(uri)) == ["DEV101", "DEV000"]
    # It is still no Python, and is asked about, while something is typed above.
    assert editor.hover(uri, 4, 4).startswith("`x`: tensor on cpu")
    editor.insert(uri, 0, 0, "# one more line\n")
    first, half = editor.settle(uri)
    assert (first.code, first.range.start.line, half.code) == ("DEV101", 6, "DEV000")
    # What is typed over goes.
    editor.insert(uri, 6, 4, "y = ")
    assert codes(editor.settle(uri)) == ["DEV000"]


def test_what_a_key_changes_elsewhere_follows_when_nobody_types(editor: Editor, folder: Path) -> None:
    text = (
        "import torch\n\n\ndef made():\n    return torch.ones(3).cuda()\n\n\n"
        "def used():\n    return made() + torch.ones(3)\n\n\nused()\n"
    )
    uri = editor.open(folder / "a.py", text)
    [shown] = editor.settle(uri)
    assert (shown.code, shown.range.start.line) == ("DEV203", 8)
    editor.edit(
        uri, types.TextDocumentContentChangePartial(types.Range(types.Position(4, 24), types.Position(4, 31)), "")
    )
    editor.until(
        lambda: editor.published[uri].version == editor.versions[uri] and not editor.published[uri].diagnostics
    )


def test_after_any_keys_the_editor_shows_what_the_command_line_finds(editor: Editor, folder: Path) -> None:
    project(folder, net=NET, train=TRAIN)
    uri = editor.open(folder / "train.py")
    editor.settle(uri)
    text = TRAIN
    for old, new in (
        ("total += loss.item()", "total += loss.detach()"),
        ("    return total\n", "    print(total)\n    return total\n"),
        ("loss = model(images.to(device)).sum()", "loss = model(images).sum()"),
        ('"cuda" if torch.cuda.is_available() else "cpu"', '"cuda"'),
        ("    loss.backward()\n", "    loss.backward(\n"),
        ("    loss.backward(\n", "    loss.backward()\n        loss.to(device)\n"),
        (
            "from net import Net\n",
            "from net import Net\n\n\nclass Other(Net):\n    def more(self, x):\n        return x\n",
        ),
        ("        return x\n", "        x.cpu()\n        return x\n"),
    ):
        text = text.replace(old, new)
        editor.replace(uri, text)
        editor.settle(uri)
    run = [
        sys.executable,
        "-P",
        "-m",
        "devlint",
        "-",
        "--stdin-filename",
        str(folder / "train.py"),
        "--output-format",
        "json",
    ]
    told = json.loads(subprocess.run(run, input=text, capture_output=True, text=True, check=False).stdout)
    wanted = [(found["line"], found["code"]) for found in told]
    assert wanted
    editor.until(lambda: [(d.range.start.line + 1, d.code) for d in editor.published[uri].diagnostics] == wanted)


def test_columns_are_counted_as_the_editor_counts_them(editor: Editor, folder: Path) -> None:
    text = "import torch\nx = torch.ones(3)\ns = '𝄞é'; x.to('cuda')\nprint(x)\n"
    uri = editor.open(folder / "a.py", text)
    [shown] = editor.settle(uri)
    # The clef is two units of UTF-16.
    assert (shown.range.start.character, shown.range.end.character) == (11, 23)
    editor.insert(uri, 2, 11, "y = ")
    assert editor.settle(uri) == []


def test_lines_end_where_the_protocol_ends_them(editor: Editor, folder: Path) -> None:
    uri = editor.open(folder / "a.py", DROPPED.replace("import torch\n", "import torch\n\x0c\n# a\u2028b\n"))
    [shown] = editor.settle(uri)
    assert shown.range.start.line == 6
    editor.insert(uri, 6, 0, "x = ")
    assert editor.settle(uri) == []


def test_the_trail_is_shown_across_files(editor: Editor, folder: Path) -> None:
    project(folder, net=NET, train=TRAIN)
    [shown] = editor.settle(editor.open(folder / "train.py"))
    assert shown.code == "DEV501"
    assert shown.related_information is not None
    trail = {(Path(one.location.uri).name, one.location.range.start.line) for one in shown.related_information}
    assert {("train.py", 16), ("net.py", 9), ("train.py", 8)} <= trail


def test_the_trail_covers_what_it_speaks_of(editor: Editor, folder: Path) -> None:
    project(folder, net=NET, train=TRAIN)
    [shown] = editor.settle(editor.open(folder / "train.py"))
    lines = {"train.py": TRAIN.splitlines(), "net.py": NET.splitlines()}
    covered = []
    for one in shown.related_information or ():
        range = one.location.range
        assert range.start.line == range.end.line
        line = lines[Path(one.location.uri).name][range.start.line]
        covered.append(line[range.start.character : range.end.character])
    assert "Net().to(device)" in covered
    assert "for images, labels in loader" in covered
    assert "" not in covered


def test_unsaved_text_counts_for_other_files_too(editor: Editor, folder: Path) -> None:
    project(folder, made="import torch\n\n\ndef made():\n    return torch.ones(3).cuda()\n")
    use = "import torch\nfrom made import made\n\nprint(made() + torch.ones(3))\n"
    user = editor.open(folder / "use.py", use)
    assert codes(editor.settle(user)) == ["DEV201"]
    maker = editor.open(folder / "made.py")
    editor.settle(maker)
    before = editor.counts[user]
    editor.replace(maker, "import torch\n\n\ndef made():\n    return torch.ones(3)\n")
    editor.until(lambda: editor.counts[user] > before and not editor.published[user].diagnostics)
    before = editor.counts[user]
    # What isn't saved is gone with the window.
    editor.close(maker)
    editor.until(lambda: editor.counts[user] > before and codes(editor.published[user].diagnostics) == ["DEV201"])


def test_a_file_that_another_program_changes_is_read_again(editor: Editor, folder: Path) -> None:
    project(folder, made="import torch\n\n\ndef made():\n    return torch.ones(3).cuda()\n")
    user = editor.open(folder / "use.py", "import torch\nfrom made import made\n\nprint(made() + torch.ones(3))\n")
    assert codes(editor.settle(user)) == ["DEV201"]
    assert types.WORKSPACE_DID_CHANGE_WATCHED_FILES in editor.registered
    (folder / "made.py").write_text("import torch\n\n\ndef made():\n    return torch.ones(3)\n")
    event = types.FileEvent((folder / "made.py").as_uri(), types.FileChangeType.Changed)
    editor.say(editor.client.workspace_did_change_watched_files, types.DidChangeWatchedFilesParams([event]))
    editor.until(lambda: not editor.published[user].diagnostics)


def test_a_fix_is_offered_and_made(editor: Editor, folder: Path) -> None:
    uri = editor.open(folder / "a.py", DROPPED)
    [shown] = editor.settle(uri)
    fix, suppress, fix_all = editor.actions(uri, shown.range)
    assert (fix.kind, fix.is_preferred) == (types.CodeActionKind.QuickFix, True)
    assert fix.diagnostics is not None
    assert list(fix.diagnostics) == [shown]
    assert "assign the result to `x`" in fix.title
    assert "unsafe" not in fix.title
    assert after(editor.resolve(fix), uri, DROPPED) == DROPPED.replace("x.to", "x = x.to")
    assert (suppress.kind, fix_all.kind) == (types.CodeActionKind.QuickFix, "source.fixAll.devlint")


def test_an_unsafe_fix_says_so_and_is_left_out_of_fix_all(editor: Editor, folder: Path) -> None:
    project(folder, net=NET, train=TRAIN)
    uri = editor.open(folder / "train.py")
    [shown] = editor.settle(uri)
    fix, *others = editor.actions(uri, shown.range)
    assert fix.title.endswith("(unsafe)")
    assert fix.is_preferred is None
    assert [action.kind for action in others] == [types.CodeActionKind.QuickFix]


def test_a_finding_can_be_said_to_be_meant(editor: Editor, folder: Path) -> None:
    uri = editor.open(folder / "a.py", DROPPED)
    [shown] = editor.settle(uri)
    editor.replace(uri, after(editor.resolve(editor.actions(uri, shown.range)[1]), uri, DROPPED))
    assert editor.settle(uri) == []


def test_one_comment_says_it_of_all_that_a_rule_finds_on_a_line(editor: Editor, folder: Path) -> None:
    text = "import torch\n\ny = torch.ones(3)\ny.cuda(); y.cuda(0)\n"
    uri = editor.open(folder / "a.py", text)
    assert codes(editor.settle(uri)) == ["DEV101", "DEV101"]
    action = next(a for a in editor.actions(uri, LINE_4) if "suppress" in a.title)
    assert after(editor.resolve(action), uri, text) == text.rstrip() + "  # noqa: DEV101\n"


def test_what_the_editor_names_is_fixed_wherever_on_its_line_the_cursor_is(editor: Editor, folder: Path) -> None:
    text = "import torch\n\nif True:\n    y = torch.ones(3); y.cuda()\n"
    uri = editor.open(folder / "a.py", text)
    assert codes(editor.settle(uri)) == ["DEV101"]
    at_its_start = types.Range(types.Position(3, 0), types.Position(3, 0))
    assert any("assign the result" in action.title for action in editor.actions(uri, at_its_start))


def test_saving_can_fix_all(editor: Editor, folder: Path) -> None:
    text = DROPPED + "y = torch.ones(3)\ny.to(device)\nprint(y)\n"
    uri = editor.open(folder / "a.py", text)
    assert len(editor.settle(uri)) == 2
    # As editors ask on saving: for this alone, and take the edit as it comes.
    whole = types.Range(types.Position(0, 0), types.Position(9, 0))
    [action] = editor.actions(uri, whole, only=["source.fixAll"])
    assert after(action, uri, text) == text.replace("\nx.to", "\nx = x.to").replace("\ny.to", "\ny = y.to")
    assert editor.actions(uri, whole, only=["refactor"]) == []


def test_an_action_for_a_text_that_has_changed_isnt_made(editor: Editor, folder: Path) -> None:
    uri = editor.open(folder / "a.py", DROPPED)
    [shown] = editor.settle(uri)
    action = editor.actions(uri, shown.range)[0]
    editor.insert(uri, 0, 0, "\n")
    editor.settle(uri)
    assert editor.resolve(action).edit is None
    editor.until(lambda: any("the text has changed" in message for message in editor.messages))


def test_hover_tells_kind_place_and_trail(editor: Editor, folder: Path) -> None:
    project(folder, net=NET, train=TRAIN)
    uri = editor.open(folder / "train.py")
    shown = editor.hover(uri, 12, 18)
    assert shown.startswith("`loss`: tensor on")
    assert "created on cpu by `Net` ([train.py:17](" in shown
    assert "[net.py:10](file://" in shown
    assert editor.hover(uri, 5, 0) == ""


def test_hover_tells_what_was_known_while_something_is_typed_half(editor: Editor, folder: Path) -> None:
    project(folder, net=NET, train=TRAIN)
    uri = editor.open(folder / "train.py")
    editor.settle(uri)
    whole = editor.hover(uri, 12, 18)
    editor.insert(uri, 11, 0, "        total = (\n")
    assert sorted(codes(editor.settle(uri))) == ["DEV000", "DEV501"]
    # All is one line further down by now.
    shown = editor.hover(uri, 13, 18)
    assert shown.splitlines()[0] == whole.splitlines()[0]
    assert "[train.py:18](" in shown
    assert shown.endswith("*As it was while the text was valid Python.*")
    assert editor.hover(uri, 6, 4).startswith("```text\ntrain(")
    # Of what is typed itself, nothing is known.
    assert editor.hover(uri, 11, 10) == ""


def test_hover_and_findings_of_one_line_agree(editor: Editor, folder: Path) -> None:
    text = (
        "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset\n\n"
        "device = torch.device('cuda')\nmodel = nn.Linear(4, 2).to(device)\ncriterion = nn.CrossEntropyLoss()\n"
        "for x, y in DataLoader(TensorDataset(torch.ones(8, 4), torch.zeros(8).long())):\n    x.to(device)\n"
        "    y = y.to(device)\n    logits = model(x)\n    loss = criterion(logits, y)\n"
    )
    uri = editor.open(folder / "a.py", text)
    # What follows from the dropped move isn't told once more, nor does hovering say that it would.
    assert codes(editor.settle(uri)) == ["DEV101"]
    shown = editor.hover(uri, 11, 21)
    assert shown.startswith("`logits`: tensor\n")
    assert "to cuda here" in shown


def test_hover_on_a_def_tells_the_signature(editor: Editor, folder: Path) -> None:
    text = "import torch\n\n\ndef meet(a, b):\n    return a + b.to(a.device)\n\n\ndef add(a, b):\n    return torch.add(a, b)\n"
    (folder / "a.py").write_text(text)
    uri = editor.open(folder / "a.py")
    run = [sys.executable, "-P", "-m", "devlint", "where", f"{folder / 'a.py'}:8"]
    told = subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()
    assert told
    assert told in editor.hover(uri, 7, 6)


def test_hover_on_the_name_of_a_call_tells_what_it_gives(editor: Editor, folder: Path) -> None:
    project(folder, net=NET, train=TRAIN)
    text = (
        "import torch\nimport torch.nn.functional as F\nfrom train import train\n\n\n"
        "def scaled(x):\n    return x.cuda() * 2\n\n\n"
        "x = torch.ones(3, 2, device='cuda')\ny = F.cross_entropy(x, x)\nz = scaled(x)\nprint(z, train)\n"
    )
    (folder / "a.py").write_text(text)
    uri = editor.open(folder / "a.py")
    assert editor.hover(uri, 10, 8).startswith("`F.cross_entropy(x, x)`: tensor on cuda")
    # A function of the project: what the call gives, its signature, and where it stands.
    shown = editor.hover(uri, 11, 6)
    assert shown.startswith("`scaled(x)`: tensor on cuda")
    assert "```text\nscaled(x)\n" in shown
    assert f"defined in [a.py:6]({(folder / 'a.py').as_uri()}#L6)" in shown
    # In an import, too; a parameter is told by its first use; and there is nothing to say of what `print` gives.
    assert "```text\ntrain(model, loader, optimizer)\n" in editor.hover(uri, 2, 20)
    assert editor.hover(uri, 12, 2) == ""
    called = editor.open(folder / "train.py")
    assert editor.hover(called, 6, 12).startswith("`model`: ")


def test_hover_in_a_text_without_a_file_leads_to_that(editor: Editor) -> None:
    uri = "untitled:Untitled-2"
    item = types.TextDocumentItem(uri, types.LanguageKind.Python, 1, DROPPED)
    editor.versions[uri] = 1
    editor.say(editor.client.text_document_did_open, types.DidOpenTextDocumentParams(item))
    assert f"({uri}#L4)" in editor.hover(uri, 4, 0)


def test_hover_on_a_code_in_a_comment_shows_the_rules_page(editor: Editor, folder: Path) -> None:
    uri = editor.open(folder / "a.py", DROPPED.replace("x.to(device)", "x.to(device)  # noqa: E501, DEV101"))
    assert editor.settle(uri) == []
    assert "# discarded-move (DEV101)" in editor.hover(uri, 4, 32)
    assert "DEV101" not in editor.hover(uri, 4, 25)


def test_lenses_count_the_waits_of_hot_functions(editor: Editor, folder: Path) -> None:
    net = NET.replace(
        "return self.fc(x)", "if x.sum() > 0:\n            x = x * x.max().item()\n        return self.fc(x)"
    )
    project(folder, net=net, train=TRAIN)
    assert editor.lenses(editor.open(folder / "train.py")) == [(6, "1 wait per step")]
    [(line, title)] = editor.lenses(editor.open(folder / "net.py"))
    assert (line, title) == (8, "2 waits per call")


def test_lenses_count_the_findings_of_waits_as_well(tmp_path: Path) -> None:
    file = project(tmp_path, net=NET, train=TRAIN) / "train.py"
    registry = load_registry()
    linter = KeptLinter(load_settings(tmp_path, config=None, isolated=False, registry=registry), registry, {})
    snapshot = Snapshot(file.as_uri(), file, 1, file.read_text(), "utf-16")
    [waits] = [f.span.line for f in linter.check(snapshot.source) if f.code == "DEV501"]
    model = linter.model_of(snapshot.source)
    for shown, title in (
        ((), "1 wait per step"),
        ((waits,), "1 wait per step"),
        ((waits, waits - 1), "2 waits per step"),
    ):
        [(_, lens)] = lenses(model, snapshot, shown)
        assert lens.command is not None
        assert lens.command.title == title


def test_settings_files_take_effect_when_they_are_written(editor: Editor, folder: Path) -> None:
    uri = editor.open(folder / "a.py", DROPPED)
    assert codes(editor.settle(uri)) == ["DEV101"]
    (folder / "pyproject.toml").write_text('[tool.devlint]\nignore = ["DEV101"]\n')
    event = types.FileEvent((folder / "pyproject.toml").as_uri(), types.FileChangeType.Changed)
    editor.say(editor.client.workspace_did_change_watched_files, types.DidChangeWatchedFilesParams([event]))
    editor.until(lambda: not editor.published[uri].diagnostics)
    # Nobody tells of this one: it is seen at the next key.
    (folder / ".devlint.toml").write_text('[severity]\nDEV101 = "warning"\n')
    editor.insert(uri, 0, 0, "\n")
    [shown] = editor.settle(uri)
    assert shown.severity == types.DiagnosticSeverity.Warning


def test_settings_that_cant_be_used_are_told_once(editor: Editor, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.devlint]\nselct = ["DEV1"]\n')
    uri = editor.open(folder / "a.py", DROPPED)
    # There were none before: devlint's own hold.
    assert codes(editor.settle(uri)) == ["DEV101"]
    editor.insert(uri, 0, 0, "\n")
    editor.settle(uri)
    told = [message for message in editor.messages if "unknown key 'selct'" in message]
    assert len(told) == 1
    assert "did you mean 'select'?" in told[0]


def test_settings_hold_until_others_can_be_used(editor: Editor, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.devlint]\nignore = ["DEV101"]\n')
    uri = editor.open(folder / "a.py", DROPPED + "y = torch.zeros(2, device='gpu')\n")
    assert codes(editor.settle(uri)) == ["DEV610"]
    (folder / "pyproject.toml").write_text('[tool.devlint]\nignore = ["DEV10\n')
    editor.insert(uri, 0, 0, "\n")
    assert codes(editor.settle(uri)) == ["DEV610"]
    editor.until(lambda: any("until that is mended" in message for message in editor.messages))
    (folder / "pyproject.toml").write_text('[tool.devlint]\nignore = ["DEV610"]\n')
    editor.insert(uri, 0, 0, "\n")
    assert codes(editor.settle(uri)) == ["DEV101"]


def test_what_is_excluded_or_installed_isnt_linted(editor: Editor, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.devlint]\nexclude = ["old.py"]\n')
    assert editor.settle(editor.open(folder / "old.py", DROPPED)) == []
    installed = folder / "site-packages" / "lib.py"
    installed.parent.mkdir()
    assert editor.settle(editor.open(installed, DROPPED)) == []


def test_old_findings_of_a_baseline_arent_shown(editor: Editor, folder: Path) -> None:
    (folder / "a.py").write_text(DROPPED)
    subprocess.run(
        [sys.executable, "-P", "-m", "devlint", "baseline", "."], cwd=folder, capture_output=True, check=True
    )
    uri = editor.open(folder / "a.py")
    assert editor.settle(uri) == []
    editor.replace(uri, DROPPED + "y = torch.ones(3)\ny.to(device)\nprint(y)\n")
    [shown] = editor.settle(uri)
    assert shown.range.start.line == 7


def test_a_text_without_a_file_is_linted(editor: Editor) -> None:
    item = types.TextDocumentItem("untitled:Untitled-1", types.LanguageKind.Python, 1, DROPPED)
    editor.versions[item.uri] = 1
    editor.say(editor.client.text_document_did_open, types.DidOpenTextDocumentParams(item))
    assert codes(editor.settle(item.uri)) == ["DEV101"]


def test_diagnostics_go_when_the_text_is_closed(editor: Editor, folder: Path) -> None:
    uri = editor.open(folder / "a.py", DROPPED)
    editor.settle(uri)
    editor.close(uri)
    editor.until(lambda: not editor.published[uri].diagnostics)


def test_nonsense_is_answered_and_survived(editor: Editor, folder: Path) -> None:
    uri = editor.open(folder / "deep.py", DROPPED + "x = " + "(" * 5_000 + ")" * 5_000 + "\n")
    [shown] = editor.settle(uri)
    assert shown.code == "DEV000"
    editor.versions["file:///nowhere.py"] = 1
    editor.insert("file:///nowhere.py", 3, 9, "x")
    editor.edit(
        uri, types.TextDocumentContentChangePartial(types.Range(types.Position(900, 4), types.Position(901, 0)), "\n")
    )
    editor.replace(uri, DROPPED + "x = '\ud800'\n\x00")
    assert codes(editor.settle(uri)) == ["DEV000"]
    assert editor.hover(uri, 70, 70) == ""
    assert editor.lenses("file:///not/open.py") == []
    assert editor.actions("file:///not/open.py", shown.range) == []
    editor.replace(uri, DROPPED)
    assert codes(editor.settle(uri)) == ["DEV101"]


def test_an_editor_that_can_do_little_gets_it_all_in_plain_words(root: Path) -> None:
    folder = project(root / "plain", net=NET, train=TRAIN)
    editor = Editor(folder, can=PLAIN)
    try:
        uri = editor.open(folder / "train.py")
        [shown] = editor.settle(uri)
        assert shown.related_information is None
        assert "note: hot: each pass iterates `loader` (train.py:9)" in shown.message
        assert all(action.edit is not None for action in editor.actions(uri, shown.range))
        assert "](" not in editor.hover(uri, 12, 18)
    finally:
        assert editor.quit() == 0
