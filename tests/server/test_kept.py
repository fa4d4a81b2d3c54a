"""What is kept between keystrokes, and what isn't."""

from __future__ import annotations

import gc
from pathlib import Path

from server.test_editing import NET, TRAIN, project

from devlint.files import Source
from devlint.rule import load_registry
from devlint.server.kept import KeptLinter
from devlint.settings import load_settings
from devlint.source.modules import SourceModule


def test_texts_that_were_typed_over_are_forgotten(tmp_path: Path) -> None:
    folder = project(tmp_path, net=NET)
    registry = load_registry()
    linter = KeptLinter(load_settings(folder, config=None, isolated=False, registry=registry), registry, {})
    path = folder / "train.py"
    # A class of its own, so that what is known of classes is asked for too.
    text = TRAIN + NET.replace("Net", "Other")
    for number in range(4):
        typed = Source(path, str(path), f"{text}note = {number}\n")
        assert "DEV501" in [finding.code for finding in linter.check(typed, range(7, 16))]
        assert "DEV501" in [finding.code for finding in linter.check(typed)]
    gc.collect()
    kept = [module for module in gc.get_objects() if isinstance(module, SourceModule) and module.path == str(path)]
    assert len(kept) == 1
