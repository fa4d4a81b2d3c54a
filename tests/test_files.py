"""Which files are found, and that they are written back as they were."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from devlint.disk import FileError
from devlint.files import Missing, Source, discover, read_source, write_source
from devlint.settings import Settings
from devlint.textmap import split_lines


def found(*paths: Path, exclude: tuple[str, ...] = (), force_exclude: bool = False, root: Path | None = None):
    settings = Settings(root or paths[0], exclude=exclude)
    return [item.display for item in discover(paths, lambda _: settings, force_exclude=force_exclude)]


def tree(root: Path, *names: str) -> Path:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    return root


@pytest.fixture
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_suffixes_usual_excludes_and_display(inside):
    tree(
        inside, "b.py", "a/x.pyi", "a/n.ipynb", "a/readme.md", ".venv/v.py", "build/c.py", "env/pyvenv.cfg", "env/e.py"
    )
    assert found(Path()) == ["a/n.ipynb", "a/x.pyi", "b.py"]
    assert found(Path("a")) == ["a/n.ipynb", "a/x.pyi"]
    assert found(inside / "a") == [f"{inside.as_posix()}/a/n.ipynb", f"{inside.as_posix()}/a/x.pyi"]


def test_named_files_are_taken_whatever_they_are(inside):
    tree(inside, "script", "build/c.py")
    assert found(Path("script"), Path("build/c.py"), root=inside) == ["script", "build/c.py"]
    assert found(Path("build"), root=inside) == ["build/c.py"]
    assert found(Path("build/c.py"), Path("build"), root=inside, force_exclude=True) == []


def test_exclude_patterns(inside):
    tree(inside, "a/gen/x.py", "a/y.py", "gen.py", "b/gen_pb2.py")
    assert found(Path(), exclude=("gen", "*_pb2.py"), root=inside) == ["a/y.py", "gen.py"]
    assert found(Path(), exclude=("/a/y.py",), root=inside) == ["a/gen/x.py", "b/gen_pb2.py", "gen.py"]
    assert found(Path("a/gen/x.py"), exclude=("gen",), root=inside, force_exclude=True) == []


def test_a_named_folder_is_entered_though_it_is_excluded(inside):
    tree(inside, ".git/x", "gen/deep/x.py", "gen/drop.py", "out/y.py")
    (inside / ".gitignore").write_text("/out\n")
    assert found(Path("gen"), exclude=("gen", "drop.py"), root=inside) == ["gen/deep/x.py"]
    assert found(Path("gen/deep"), exclude=("gen",), root=inside) == ["gen/deep/x.py"]
    assert found(Path("out"), root=inside) == ["out/y.py"]
    assert found(Path(), exclude=("gen",), root=inside) == []
    assert found(Path("gen"), exclude=("gen",), root=inside, force_exclude=True) == []


def test_gitignore(inside):
    tree(inside, ".git/x", "out/a.py", "sub/keep.py", "sub/drop.py", "sub/deep/drop.py", "top.py", "local.py")
    (inside / ".gitignore").write_text("/out\ndrop.py\n# a comment\n!\n")
    (inside / "sub" / "deep" / ".gitignore").write_text("!drop.py\n")
    (inside / ".git" / "info").mkdir()
    (inside / ".git" / "info" / "exclude").write_text("local.py\n")
    assert found(Path(), root=inside) == ["sub/deep/drop.py", "sub/keep.py", "top.py"]
    # The files above a named folder hold too.
    assert found(Path("sub"), root=inside) == ["sub/deep/drop.py", "sub/keep.py"]
    assert found(Path("sub/drop.py"), root=inside) == ["sub/drop.py"]


def test_links(inside):
    tree(inside, "real/a.py")
    (inside / "real" / "loop").symlink_to(inside / "real", target_is_directory=True)
    (inside / "alias.py").symlink_to(inside / "real" / "a.py")
    (inside / "dangling.py").symlink_to(inside / "nowhere.py")
    (inside / "other.py").symlink_to("/dev/null")
    assert found(Path(), root=inside) == ["real/a.py"]
    assert found(Path("alias.py"), root=inside) == ["alias.py"]


def test_each_file_once_and_missing_paths(inside):
    tree(inside, "a/x.py")
    assert found(Path("a"), Path("a/x.py"), Path("a/../a"), root=inside) == ["a/x.py"]
    assert list(discover([Path("nope")], lambda _: Settings(inside))) == [Missing("nope", "no such file or folder")]


def test_nested_settings(inside):
    tree(inside, "a/x.py", "a/deep/y.py", "b/z.py", "a/pyproject.toml")

    def settings_for(folder: Path) -> Settings:
        return Settings(folder)

    roots = {item.display: item.settings.root for item in discover([Path()], settings_for)}
    assert roots == {"a/x.py": inside / "a", "a/deep/y.py": inside / "a", "b/z.py": inside}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"x = 1",
        b"x = 1\r\ny = 2\n\rz = 3\x0c\n",
        b"\xef\xbb\xbfx = '\xc3\xa9'\r\n",
        b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
        b"#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n",
        "# coding: shift_jis\nx = '日本'\n".encode("shift_jis"),
        "x = '\x85\u2028'\n".encode(),
    ],
)
def test_bytes_survive(tmp_path, raw):
    file = tmp_path / "f.py"
    file.write_bytes(raw)
    source = read_source(file, "f.py")
    assert "".join(source.lines) == source.text
    write_source(source.with_text(source.text + "# end"), source)
    assert file.read_bytes() == raw + b"# end"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"x = 1\ny = '\xe9'\n", "line 2 isn't valid utf-8"),
        (b"# coding: nonsense\n", "can't be decoded: unknown encoding: nonsense"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "can't be decoded"),
        (b"# coding: utf-7\nx = '+AGE-'\n", "can't be written back unchanged"),
    ],
)
def test_unreadable_files(tmp_path, raw, message):
    file = tmp_path / "f.py"
    file.write_bytes(raw)
    with pytest.raises(FileError, match=message) as caught:
        read_source(file, "f.py")
    assert "\n" not in str(caught.value)


def test_folder_or_missing_file(tmp_path):
    with pytest.raises(FileError, match="can't be read: Is a directory"):
        read_source(tmp_path, "x")
    with pytest.raises(FileError, match="can't be read: No such file"):
        read_source(tmp_path / "x.py", "x.py")


def test_lines_are_pythons():
    assert split_lines("a\x0cb\x85c\u2028d\n\re\r\nf\r") == ["a\x0cb\x85c\u2028d\n", "\r", "e\r\n", "f\r"]


def test_mode_and_links_survive_a_write(tmp_path):
    real = tmp_path / "real.py"
    real.write_text("x\n")
    real.chmod(0o751)
    link = tmp_path / "link.py"
    link.symlink_to("real.py")
    source = read_source(link, "link.py")
    write_source(source.with_text("y\n"), source)
    assert link.is_symlink()
    assert real.read_text() == "y\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o751
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link.py", "real.py"]


def test_a_failed_write_leaves_the_file(tmp_path):
    file = tmp_path / "f.py"
    file.write_bytes(b"# coding: latin-1\nx = 1\n")
    source = read_source(file, "f.py")
    with pytest.raises(FileError, match="which iso-8859-1 can't write"):
        write_source(source.with_text("x = '日'"), source)
    assert file.read_bytes() == b"# coding: latin-1\nx = 1\n"
    gone = Source(tmp_path / "gone" / "f.py", "f.py", "x")
    with pytest.raises(FileError, match="can't be written"):
        write_source(gone.with_text("y"), gone)
    assert [file.name for file in tmp_path.iterdir()] == ["f.py"]
