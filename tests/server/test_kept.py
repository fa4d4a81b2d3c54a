"""What is kept between keystrokes, and what isn't."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from server.test_editing import NET, TRAIN, project

from devlint.files import Source, source_from_bytes
from devlint.inspection import Inspection
from devlint.rule import load_registry
from devlint.screen import Screen
from devlint.server.kept import KeptLinter, StaleError
from devlint.settings import Settings, load_settings
from devlint.signatures.reading.reader import Reader
from devlint.source.modules import SourceModule


def test_texts_that_were_typed_over_are_forgotten(tmp_path: Path) -> None:
    folder = project(tmp_path, net=NET)
    registry = load_registry()
    linter = KeptLinter(load_settings(folder, config=None, isolated=False, registry=registry), registry, {})
    path = folder / "train.py"
    reading = "        total += loss.item()\n"
    # Amid the step, where it is told by default; a class of its own, so that what is known of classes is asked for too.
    text = TRAIN.replace(reading, "").replace("        loss.backward()\n", f"{reading}        loss.backward()\n")
    text += NET.replace("Net", "Other")
    for number in range(4):
        typed = Source(path, str(path), f"{text}note = {number}\n")
        assert "DEV501" in [finding.code for finding in linter.check(typed, range(7, 16))]
        assert "DEV501" in [finding.code for finding in linter.check(typed)]
    gc.collect()
    kept = [module for module in gc.get_objects() if isinstance(module, SourceModule) and module.path == str(path)]
    assert len(kept) == 1


def test_a_screen_searches_again_what_has_changed() -> None:
    before = Screen(b"import torch\nx.item()\n")
    assert before.holds(r"\.item\(")
    assert not before.holds(r"\.cuda\(")
    after = Screen(b"import torch\ny.cuda()\n", before, b"y.cuda()\n")
    assert after.holds(r"\.cuda\(")
    # Nobody asked for it before: all is searched.
    assert after.holds(r"\bimport\b")
    assert not after.holds(r"\.cpu\(")
    assert not Screen(b"import torch\ny.cuda()\n", before, b"").holds(r"\.cuda\(")


def test_a_first_look_hears_of_a_trigger_that_is_typed(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    text = "import torch\n\n\ndef f():\n    x = torch.ones(3)\n    return x\n"
    linter = KeptLinter(Settings(root=tmp_path, select=("DEV101",)), load_registry(), {})
    assert linter.check(source_from_bytes(text.encode(), file, "a.py")) == []
    typed = text.replace("    return x", "    x.cuda()\n    return x")
    [found] = linter.check(source_from_bytes(typed.encode(), file, "a.py"), range(4, 8))
    assert (found.code, found.span.line) == ("DEV101", 6)


def test_a_first_look_at_a_long_function_finds_what_is_typed(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    filling = "".join(f"    note_{number} = {number}\n" for number in range(100))
    head = "import torch\n\n\ndef train(loader):\n    model = torch.nn.Linear(4, 2).cuda()\n"
    loop = "    for batch in loader:\n        loss = model(batch.cuda()).sum()\n        loss.backward()\n"
    text = head + filling + loop
    linter = KeptLinter(Settings(root=tmp_path, select=("DEV501",)), load_registry(), {})
    assert linter.check(source_from_bytes(text.encode(), file, "a.py")) == []
    typed = source_from_bytes(f"{text}        print(loss.item())\n".encode(), file, "a.py")
    last = len(typed.lines)
    first = linter.check(typed, range(last, last + 1))
    assert [(f.code, f.span.line) for f in first] == [("DEV501", last)]
    assert first == linter.check(typed)


def test_a_look_that_is_not_wanted_any_more_ends_between_two_functions(tmp_path: Path) -> None:
    step = "def f{0}(x):\n    return torch.ones(3).cuda() + torch.ones(3)\n\n\n"
    text = "import torch\n\n\n" + "".join(step.format(number) for number in range(20))
    source = source_from_bytes(text.encode(), tmp_path / "a.py", "a.py")
    linter = KeptLinter(Settings(root=tmp_path, select=("DEV201",)), load_registry(), {})
    wanted = linter.check(source)
    assert len(wanted) == 20
    linter.forget()
    asked = 0

    def is_stale() -> bool:
        nonlocal asked
        asked += 1
        return asked > 5

    linter.is_stale = is_stale
    with pytest.raises(StaleError):
        linter.check(source)
    reader = linter.project().memory["reader"]
    assert isinstance(reader, Reader)
    read = {function.name for frames in reader.frames.values() for frame in frames if (function := frame.function)}
    assert 0 < len(read) < 20
    # What it leaves behind takes nothing from the next one.
    linter.is_stale = lambda: False
    assert linter.check(source) == wanted


class Watched(KeptLinter):
    """A linter that tells which functions its last look read."""

    read_last: frozenset[str] = frozenset()

    def leave(self, inspection: Inspection) -> None:
        self.read_last = frozenset(scope.name for scope in inspection.model._read if scope is not None)
        super().leave(inspection)


def test_a_first_look_at_an_import_leaves_functions_alone(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import torch\n\nnet = torch.nn.DataParallel(torch.nn.Linear(3, 3)).cuda()\n")
    text = "from net import net\n\n\ndef size():\n    return net.in_features\n"
    source = source_from_bytes(text.encode(), tmp_path / "a.py", "a.py")
    linter = Watched(Settings(root=tmp_path, src=(tmp_path,), select=("DEV401",)), load_registry(), {})
    assert linter.check(source, range(1, 4)) == []
    assert linter.read_last == frozenset()
    assert [(f.code, f.span.line) for f in linter.check(source)] == [("DEV401", 5)]
    assert linter.read_last == {"size"}
