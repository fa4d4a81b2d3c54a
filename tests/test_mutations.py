"""Real files and settings, spoilt at random: whatever they hold, a run ends in findings or one clear line."""

from __future__ import annotations

import ast
import contextlib
import sysconfig
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from devlint.batch import Plan, Worker
from devlint.causes import merged
from devlint.disk import FileError
from devlint.evidence import EvidenceError, read_evidence
from devlint.files import source_from_bytes
from devlint.notebooks import read_notebook
from devlint.rule import load_registry
from devlint.settings import Selection, Settings, SettingsError, load_settings
from devlint.settings.keys import KEYS as SETTINGS
from devlint.settings.loading import _table_of
from devlint.suppressions import read_suppressions
from devlint.testing import read_cases

HERE = Path(__file__).parent
TEXTS = [
    *(file.text for path in sorted((HERE / "cases").glob("*.md")) for case in read_cases(path) for file in case.files),
    *(path.read_text("utf-8") for path in sorted((HERE / "runtime").glob("*.py"))),
]
# What is put into a text: pieces that open, close, continue, or aren't text.
PIECES = [
    "(", ")", "[", "]", "{", "}", '"""', "'", "\\", "\n", "\r", "\t", "    ", ":", ",", ";", "#", "=", "*", "**", "@", ".",
    " = self", "lambda: ", "if ", "else", "for x in x:\n", "while True:\n", "del x", "global x", "nonlocal x", "return ",
    "yield ", "await ", "async ", "import *", "from . import x", "class A(A):\n", "match x:\n    case ", "\x0c", "\x00", "\ufeff",
    "\u2028", "日本", "é", "\U0001f600", "x.to(x)", ".cuda()", "x = x", "f'{x!r:{x}}'", "# noqa", "# devlint: ignore[", "# devlint: skip-file",
    "0xfffffffffffffffffffffffff", "1e999", "torch.device('cuda:99999999999')", "'cuda' 'cpu'", "# coding: hex\n",
]  # fmt: skip


@st.composite
def spoilt(draw: st.DrawFn) -> str:
    """A real text with a few pieces put in, taken out, doubled or exchanged."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 5, 40, 400])))
        how = draw(st.sampled_from(["in", "in", "in", "out", "twice", "other"]))
        if how == "in":
            text = text[:start] + draw(st.sampled_from(PIECES)) + text[start:]
        elif how == "out":
            text = text[:start] + text[end:]
        elif how == "twice":
            text = text[:end] + text[start:end] + text[end:]
        else:
            other = draw(st.sampled_from(TEXTS))
            at = draw(st.integers(0, len(other)))
            text = text[:start] + other[at : at + 200] + text[end:]
    return text


@pytest.fixture(scope="module")
def worker() -> Worker:
    return Worker(Plan(), load_registry())


@pytest.fixture(scope="module")
def fixer() -> Worker:
    return Worker(Plan(diff=True, safety="unsafe"), load_registry())


def one_line(error: Exception, start: str = "") -> None:
    assert "\n" not in str(error)
    assert str(error).startswith(start)


def lint(worker: Worker, raw: bytes, name: str = "x.py") -> None:
    """Lints what a file of these bytes would hold, with every rule; an error inside fails the test."""
    every_rule = Settings(root=HERE / "cases", src=(), overrides=Selection(select=("ALL",)))
    try:
        source = source_from_bytes(raw, None, name)
    except FileError as error:
        one_line(error)
        return
    result, fixed = worker.run_source(source, every_rule)
    messages = [f.message for f in result.findings]
    assert not [m for m in messages if "internal error" in m], messages
    assert (
        all(1 <= f.span.line <= len(source.lines) + 1 for f in merged(result.findings, source.text)) or worker.plan.diff
    )
    if fixed is not source:
        ast.parse(fixed.text)


# The short form is for each run of the tests, the long one for `pytest -m slow`.
FEW = settings(max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
MANY = settings(max_examples=5_000, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))


@FEW
@given(text=spoilt())
def test_spoilt_files(worker, text):
    lint(worker, text.encode("utf-8", "surrogatepass"))


@FEW
@given(text=spoilt())
def test_spoilt_files_fixed(fixer, text):
    lint(fixer, text.encode("utf-8", "surrogatepass"))


@FEW
@given(raw=st.binary(max_size=200), text=st.sampled_from(TEXTS), at=st.integers(0, 2_000))
def test_files_with_bytes_that_are_no_text(worker, raw, text, at):
    whole = text.encode()
    lint(worker, whole[:at] + raw + whole[at:])


@pytest.mark.exhaustive
@MANY
@given(text=spoilt())
def test_many_spoilt_files(worker, text):
    lint(worker, text.encode("utf-8", "surrogatepass"))


@pytest.mark.exhaustive
@MANY
@given(text=spoilt())
def test_many_spoilt_files_fixed(fixer, text):
    lint(fixer, text.encode("utf-8", "surrogatepass"))


def about_torch(text: str) -> str:
    """A text with what makes each rule look, before and after it."""
    head = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
    tail = 'x = torch.ones(3).to("cuda")\nfor x in DataLoader(x):\n    x.cuda().item()\nmodel = nn.DataParallel(x).device\n'
    return f"{head}{text}\n{tail}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("of_the_grammar", [True, False])
def test_generated_programs(worker, fixer, of_the_grammar):
    """Programs that no person would write, of Python's whole grammar or of LibCST's nodes; they are never run."""
    # Imported here: what it knows of the grammar takes seconds.
    import hypothesmith

    programs = hypothesmith.from_grammar() if of_the_grammar else hypothesmith.from_node()

    @settings(MANY, max_examples=400)
    @given(program=programs)
    def check(program: str) -> None:
        lint(worker, about_torch(program).encode("utf-8", "surrogatepass"))
        lint(fixer, about_torch(program).encode("utf-8", "surrogatepass"))

    check()


@pytest.mark.exhaustive
def test_pythons_own_library_as_if_it_were_about_torch(worker):
    """Every module of the standard library, with what makes each rule look."""
    for file in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in file.parts:
            continue
        with contextlib.suppress(UnicodeDecodeError):
            lint(worker, about_torch(file.read_text("utf-8")).encode())


@FEW
@given(text=spoilt())
def test_suppressions_of_spoilt_files(text):
    suppressions = read_suppressions(text)
    assert suppressions.apply([], path="x.py", enabled=frozenset(), registry=load_registry()) == []


@FEW
@given(cell=spoilt(), spoil=st.text(max_size=5), at=st.integers(0, 400))
def test_notebooks(cell, spoil, at):
    """A notebook's code comes out, and goes back as it was, whatever is in its cells."""
    import json

    text = json.dumps({"cells": [{"cell_type": "code", "metadata": {}, "source": cell}], "metadata": {}})
    notebook, code = read_notebook(text)
    assert notebook.with_code(code) == text
    try:
        read_notebook(text[:at] + spoil + text[at:])
    except FileError as error:
        one_line(error)


VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(["DEV1", "ALL", "certain", "2.6", "4 MB", "**", "!", "a[", "torch.load"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip
KEYS = st.sampled_from([*SETTINGS, "slect", ""])


def toml(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + "".join(c if c.isalnum() or c in " .*![-" else f"\\U{ord(c):08X}" for c in value) + '"'
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(str(key))} = {toml(item)}" for key, item in value.items()) + "}"
    return str(value)


@FEW
@given(table=st.dictionaries(KEYS, VALUES, max_size=4))
def test_settings_of_any_shape(tmp_path_factory, table):
    """Settings are usable, or one line says what isn't."""
    folder = tmp_path_factory.mktemp("settings")
    text = "".join(f"{toml(key)} = {toml(value)}\n" for key, value in table.items())
    (folder / "devlint.toml").write_text(text.encode("utf-8", "replace").decode(), encoding="utf-8")
    _table_of.cache_clear()
    registry = load_registry()
    try:
        loaded = load_settings(folder, config=None, isolated=False, registry=registry)
    except SettingsError as error:
        one_line(error, str(folder))
        return
    loaded.codes_for(folder / "x.py", registry)
    loaded.excludes(folder / "x.py")
    source = source_from_bytes(b'import torch\nx = torch.ones(3)\nx.to("cuda")\n', folder / "x.py", "x.py")
    result, _ = Worker(Plan(), registry).run_source(source, loaded)
    assert not [f for f in result.findings if "internal error" in f.message]


@FEW
@given(raw=st.binary(max_size=300))
def test_settings_of_any_bytes(tmp_path_factory, raw):
    file = tmp_path_factory.mktemp("settings") / "devlint.toml"
    file.write_bytes(raw)
    try:
        load_settings(file.parent, config=None, isolated=False, registry=load_registry())
    except SettingsError as error:
        one_line(error, str(file))


@FEW
@given(events=VALUES, schema=st.sampled_from([1, 1, 1, 2, "1", None]))
def test_evidence_of_any_shape(tmp_path_factory, events, schema):
    import json

    file = tmp_path_factory.mktemp("evidence") / "report.json"
    file.write_text(json.dumps({"tool": "devlint", "schema": schema, "events": events}))
    with contextlib.suppress(EvidenceError):
        read_evidence(file)
