"""Comments that switch findings off, and what is said about those that don't."""

from __future__ import annotations

import subprocess
import sys

import pytest

from devlint.findings import Finding, Span
from devlint.rule import Registry, Rule
from devlint.suppressions import read_suppressions
from devlint.textmap import split_lines


def _rule(code: str, name: str, default: bool = True) -> type[Rule]:
    return type(code, (Rule,), {"code": code, "name": name, "default": default, "__doc__": name})


REGISTRY = Registry(
    [
        _rule("DEV000", "unreadable"),
        _rule("DEV001", "unused-suppression"),
        _rule("DEV002", "unknown-code"),
        _rule("DEV101", "discarded-move"),
        _rule("DEV301", "load-without-map-location"),
        _rule("DEV507", "blocking-copy", default=False),
    ]
)
ALL = frozenset(rule.code for rule in REGISTRY.rules() if rule.default)


def finding(line: int, end_line: int | None = None, code: str = "DEV101") -> Finding:
    rule = REGISTRY.find(code)
    return Finding(code, rule.name, "", "f.py", Span(line, 1, end_line or line, 5))


def left(text: str, *findings: Finding, enabled: frozenset[str] = ALL) -> list[Finding]:
    return read_suppressions(text).apply(findings, path="f.py", enabled=enabled, registry=REGISTRY)


def codes(text: str, *findings: Finding, enabled: frozenset[str] = ALL) -> list[str]:
    return [found.code for found in left(text, *findings, enabled=enabled)]


def fixed(text: str) -> str:
    """The text after the fixes of all DEV001 findings, which stand on lines of their own here."""
    lines = split_lines(text)
    for found in left(text):
        (edit,) = found.fix.edits
        line = lines[edit.span.line - 1]
        end = len(line) if edit.span.end_line > edit.span.line else edit.span.end_column - 1
        lines[edit.span.line - 1] = line[: edit.span.column - 1] + edit.text + line[end:]
    return "".join(lines)


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "#noqa",
        "# NOQA: some words",
        "# noqa: DEV101",
        "# noqa:dev101",
        "# noqa: E501, DEV101",
        "# noqa: E501 DEV101",
        "# type: ignore # noqa: DEV101",
        "# noqa: E501  # noqa: DEV101",
        "# devlint: ignore",
        "# devlint: ignore[DEV101]",
        "# devlint:ignore[DEV101] moved in place by C++",
        "# devlint: ignore[discarded-move, DEV101]",
        "# why # devlint: ignore[dev101]",
    ],
)
def test_comments_that_take_a_finding(comment):
    assert "DEV101" not in codes(f"x.to(d)  {comment}\n", finding(1))


@pytest.mark.parametrize(
    "comment",
    [
        "# noqas",
        "# see noqa",
        "# noqa: E501",
        "# noqa: DEV301",
        "# noqa: DEV1o1",
        "# devlint: ignored",
        "# devlint: ignore-me",
        "# devlint: ignore[DEV301]",
        "# devlint: ignore[]",
        "'# noqa'",
    ],
)
def test_comments_that_do_not(comment):
    assert "DEV101" in codes(f"x.to(d)  {comment}\n", finding(1))


def test_lines_of_a_statement():
    text = "f(\n    x.to(d),\n    y,  # noqa: DEV101\n)  # noqa: DEV301\nz\n"
    assert codes(text, finding(2, code="DEV301"), finding(3)) == []
    assert codes(text, finding(1, 4), finding(4, code="DEV301")) == []
    # A comment on another line of the statement is not meant.
    assert codes(text, finding(2), finding(3, code="DEV301")) == ["DEV101", "DEV001"]


def test_a_comment_alone_speaks_of_the_next_statement():
    text = "# devlint: ignore[DEV101] why\n# more\n\nf(\n    x.to(d),\n)\nx.to(d)\n"
    assert codes(text, finding(5), finding(7)) == ["DEV101"]
    inside = "f(\n    # devlint: ignore[DEV101]\n    x.to(d),\n    y.to(d),\n)\n"
    assert codes(inside, finding(3), finding(4)) == ["DEV101"]
    assert codes("# noqa: DEV101\nx.to(d)\n", finding(2)) == ["DEV101", "DEV001"]
    assert codes("x.to(d)\n# devlint: ignore[DEV101]\n", finding(1)) == ["DEV101", "DEV001"]


def test_a_head_is_not_its_body():
    text = "for x in y:  # devlint: ignore[DEV101]\n    x.to(d)\n"
    assert codes(text, finding(2)) == ["DEV101", "DEV001"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends(end):
    text = end.join(["x = '''", "# noqa", "'''", "\x0cy.to(d)  # noqa: DEV101", ""])
    assert codes(text, finding(1), finding(4)) == ["DEV101"]


def test_skip_file():
    assert read_suppressions("x\n# devlint: skip-file\n").skip_file
    assert not read_suppressions("x = '# devlint: skip-file'\n").skip_file
    assert not read_suppressions("# devlint: skip-files\n").skip_file
    assert read_suppressions("# devlint: skip-file\nf(\n").skip_file


def test_unreadable_files_are_not_suppressed():
    assert codes("f(  # noqa\n", finding(1, code="DEV000")) == ["DEV000"]


@pytest.mark.parametrize(
    ("text", "enabled", "unused"),
    [
        ("x  # noqa\n", ALL, 0),
        ("x  # noqa: E501\n", ALL, 0),
        ("x  # noqa: DEV101\n", ALL, 1),
        ("x  # noqa: DEV507\n", ALL, 0),
        ("x  # devlint: ignore[DEV101]\n", frozenset({"DEV001", "DEV301"}), 0),
        ("x  # devlint: ignore[DEV101]\n", frozenset({"DEV101"}), 0),
        ("x  # devlint: ignore[DEV101, DEV301]\n", ALL, 1),
        ("x  # devlint: ignore\n", ALL, 1),
        ("x  # devlint: ignore\n", frozenset({"DEV001", "DEV301"}), 0),
        ("x  # devlint: ignore[]\n", ALL, 1),
        ("x  # devlint: ignore[DEV101, DEV001]\n", ALL, 0),
    ],
)
def test_unused(text, enabled, unused):
    assert codes(text, enabled=enabled).count("DEV001") == unused


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x  # noqa: DEV101\n", "x\n"),
        ("x  # noqa: DEV101\r\n", "x\r\n"),
        ("x  # noqa: DEV101", "x"),
        ("x  # noqa: DEV101, E501\n", "x  # noqa: E501\n"),
        ("x  # noqa: E501,DEV101,F401\n", "x  # noqa: E501,F401\n"),
        ("x  # noqa: E501 DEV101\n", "x  # noqa: E501\n"),
        ("x  # keep # noqa: DEV101\n", "x  # keep\n"),
        ("x  # noqa: DEV101  # type: ignore\n", "x  # type: ignore\n"),
        ("x  # devlint: ignore[DEV101] because\n", "x\n"),
        ("if x:\n    # devlint: ignore[DEV101, DEV301]\n    y\n", "if x:\n    y\n"),
        ("x\n# devlint: ignore", "x\n"),
        ("x  # devlint: ignore[DEV101, DEV507]\n", "x  # devlint: ignore[DEV507]\n"),
    ],
)
def test_the_fix_removes_what_is_unused(before, after):
    assert fixed(before) == after
    assert left(after) == []


def test_only_the_unused_code_is_removed():
    text = "x.to(d)  # devlint: ignore[DEV101, DEV301]\n"
    (unused,) = left(text, finding(1))
    assert unused.code == "DEV001"
    assert unused.fix.edits[0].text == "DEV101"


def test_unknown_codes():
    (unknown,) = left("x  # noqa: DEV110, X1\n")
    assert (unknown.code, unknown.hint) == ("DEV002", "did you mean 'DEV101'?")
    assert unknown.span == Span(1, 12, 1, 22)
    (unknown,) = left("x  # devlint: ignore[discarded-mov]\n")
    assert (unknown.code, unknown.hint) == ("DEV002", "did you mean 'discarded-move'?")
    (unknown,) = left("x  # noqa: DEV1o1\n")
    assert (unknown.message.split(",")[0], unknown.hint) == ("no rule is called 'DEV1O1'", "did you mean 'DEV101'?")
    assert left("x  # devlint: ignore[E501, DEV002]\n") == []
    assert codes("x  # noqa: DEV110\n", enabled=frozenset({"DEV101"})) == []


@pytest.mark.parametrize("comment", ["# noqa: DEV1", "# devlint: ignore[dev1]", "# devlint: ignore[DEV]"])
def test_the_beginning_of_a_code(comment):
    assert codes(f"x.to(d)  {comment}\n", finding(1)) == []
    assert codes(f"x.to(d)  {comment}\n") == ["DEV001"]
    assert codes("x.to(d)  # devlint: ignore[DEV3]\n", finding(1)) == ["DEV101", "DEV001"]
    # It may be there for rules that are opt-in, and not on.
    assert codes("x  # devlint: ignore[DEV5]\n") == []
    assert codes("x  # devlint: ignore[DEV5]\n", enabled=ALL | {"DEV507"}) == ["DEV001"]


def test_a_file_without_some_codes():
    text = "x\n# devlint: skip-file[DEV1] all on purpose\ny\nz\n"
    assert not read_suppressions(text).skip_file
    assert codes(text, finding(1), finding(4), finding(4, code="DEV301")) == ["DEV301"]
    assert codes(text) == ["DEV001"]
    assert fixed("x\n# devlint: skip-file[DEV101]\ny\n") == "x\ny\n"
    assert codes("# devlint: skip-file[]\nx\n", finding(2)) == ["DEV101", "DEV001"]


RANGE = """\
a
# devlint: off[DEV1, DEV301] the whole block
b
# devlint: on[DEV301]
c
# devlint: on
d
"""


def test_ranges():
    assert codes(RANGE, finding(1), finding(3), finding(5), finding(7), finding(3, code="DEV301")) == ["DEV101"] * 2
    assert codes(RANGE, finding(3), finding(5, code="DEV301")) == ["DEV301", "DEV001"]
    everything = "a\n# devlint: off\nb\n"
    assert codes(everything, finding(1), finding(3), finding(3, code="DEV301")) == ["DEV101"]
    # To the end of the file, where nothing ends it; a finding that reaches into it is meant.
    assert codes("# devlint: off[DEV101]\nb\nc\n", finding(2), finding(3)) == []
    # Side by side, and one in the other.
    two = "# devlint: off[DEV101]\na\n# devlint: off[DEV301]\nb\n# devlint: on[DEV101]\nc\n# devlint: on\nd\n"
    inside = [finding(2), finding(4, code="DEV301"), finding(6, code="DEV301")]
    assert codes(two, *inside, finding(6)) == ["DEV101"]
    assert codes(two, *inside, finding(8, code="DEV301")) == ["DEV301"]


def test_ranges_that_switch_nothing_off():
    (unused,) = left("a\n# devlint: off[DEV101]\nb\n# devlint: on[DEV101]\nc\n")
    assert unused.code == "DEV001"
    assert [edit.span.line for edit in unused.fix.edits] == [2, 4]
    (ends,) = left("a\n# devlint: on\nb\n")
    assert (ends.code, ends.message) == ("DEV001", "this comment ends nothing: no `# devlint: off` is open")
    assert fixed("a\n# devlint: on\nb\n") == "a\nb\n"


@pytest.mark.parametrize(
    ("comment", "meant"),
    [
        ("# devlint: disable=DEV101", "# devlint: ignore[DEV101]"),
        ("# devlint: disable[DEV101]", "# devlint: ignore[DEV101]"),
        ("# devlint: ignore DEV101", "# devlint: ignore[DEV101]"),
        ("# devlint: ignore=DEV101, DEV301", "# devlint: ignore[DEV101, DEV301]"),
        ("# devlint: ignore[DEV101", "# devlint: ignore[DEV101]"),
        ("# devlint: ignor[DEV101]", "# devlint: ignore[DEV101]"),
        ("# devlint: ignore-next-line[DEV101]", "# devlint: ignore[DEV101]"),
        ("# devlint: noqa", "# devlint: ignore"),
        ("# devlint: skip_file", "# devlint: skip-file"),
        ("# devlint: skipfile[DEV5]", "# devlint: skip-file[DEV5]"),
        ("# devlint: file-ignore", "# devlint: skip-file"),
        ("# devlint: enable=DEV101", "# devlint: on[DEV101]"),
        ("# devlint: of[DEV101]", "# devlint: off[DEV101]"),
        ("# noqa DEV101", "# noqa: DEV101"),
        ("# noqa[DEV101]", "# noqa: DEV101"),
        ("# noqa=DEV101", "# noqa: DEV101"),
        ("# no-qa: DEV101", "# noqa: DEV101"),
        ("# nqa: DEV101", "# noqa: DEV101"),
    ],
)
def test_misspelt_forms(comment, meant):
    (found,) = left(f"x.to(d)  {comment}\n")
    assert (found.code, found.hint) == ("DEV002", f"did you mean '{meant}'?")
    assert found.span == Span(1, 10, 1, 10 + len(comment))
    assert codes(f"x.to(d)  {comment}\n", enabled=frozenset({"DEV101"})) == []


def test_misspelt_forms_switch_nothing_off():
    assert codes("x.to(d)  # devlint: disable=DEV101\n", finding(1)) == ["DEV101", "DEV002"]
    assert codes("x.to(d)  # devlint: ignore DEV101\n", finding(1)) == ["DEV101", "DEV002"]
    (alone,) = left("# devlint: disable=DEV101\nx\n")
    assert alone.hint == "did you mean '# devlint: off[DEV101]'?"
    (unheard_of,) = left("x  # devlint: please\n")
    assert unheard_of.hint.startswith("write '# devlint: ignore[CODE]'")


@pytest.mark.parametrize(
    "comment",
    [
        "# devlint is a linter",
        "# see devlint's DEV101",
        "# note: DEV101 is about this",
        "# devlint: cuda-only",
        "# devlint: ignore[DEV101] for DEV301's sake",
        "# noqa",
        "# noqa: E501",
        "# noqa: some words",
        "# todo: DEV101",
    ],
)
def test_what_is_no_misspelling(comment):
    assert "DEV002" not in codes(f"x.to(d)  {comment}\n", finding(1))


def test_a_reason_that_names_an_issue_goes_with_its_comment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    head = "import torch\n\nw = torch.ones(3)\n"
    (tmp_path / "a.py").write_text(
        head + "w = w.cuda()  # old code  # noqa: DEV101 - until #12\nw.sum()  # noqa: DEV101, see a#3  # kept\n"
    )
    subprocess.run([sys.executable, "-m", "devlint", "--fix", "a.py"], check=False, capture_output=True)
    assert (tmp_path / "a.py").read_text() == head + "w = w.cuda()  # old code\nw.sum()  # kept\n"
