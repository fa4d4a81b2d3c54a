"""What is installed, read off folders: as `importlib.metadata` tells it."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest

from devlint import installed


@pytest.mark.parametrize("group", ["devlint.rules", "console_scripts", "pytest11", "nobody.has.it"])
def test_entry_points_are_those_that_python_tells(group):
    ours = {(e.name, e.value, e.distribution().version) for e in installed.entry_points(group)}
    assert ours == {(e.name, e.value, e.dist.version) for e in metadata.entry_points(group=group)}


def test_versions_are_those_that_python_tells():
    for name in ("libcst", "devlint", "pytest"):
        assert installed.version(name) == metadata.version(name)
    with pytest.raises(metadata.PackageNotFoundError):
        installed.version("nobody-has-it")


def test_the_first_one_counts_and_attributes_are_followed(tmp_path, monkeypatch):
    for version in ("2", "1"):
        folder = tmp_path / version
        (folder / f"my_pack-{version}.dist-info").mkdir(parents=True)
        text = f"[other]\nx = y\n\n[ devlint.rules ]\n# none\nmine = os.path:join{version} [extra]\n"
        (folder / f"my_pack-{version}.dist-info" / "entry_points.txt").write_text(text)
        (folder / f"my_pack-{version}.dist-info" / "METADATA").write_text(f"Name: my-pack\nVersion: {version}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "2"), str(tmp_path / "1"), str(tmp_path / "gone")])
    (mine,) = installed.entry_points("devlint.rules")
    assert (mine.name, mine.distribution().name, mine.distribution().version) == ("mine", "my-pack", "2")
    with pytest.raises(AttributeError):
        mine.load()
    import os

    assert installed.EntryPoint("j", "os.path:join", mine.distribution).load() is os.path.join


def test_archives_are_left_to_python(tmp_path, monkeypatch):
    import zipfile

    archive = tmp_path / "app.pyz"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("packed-3.dist-info/METADATA", "Name: packed\nVersion: 3\n")
        file.writestr("packed-3.dist-info/entry_points.txt", "[devlint.rules]\npacked = packed\n")
    monkeypatch.setattr(sys, "path", [str(archive), *sys.path])
    found = {(e.name, e.distribution().version) for e in installed.entry_points("devlint.rules")}
    assert ("packed", "3") in found
    assert len(found) > 1
