"""Comments that switch findings off, and what is said about those that don't."""

from __future__ import annotations

import pytest

from devlint.files import split_lines
from devlint.findings import Finding, Span
from devlint.rule import Registry, Rule
from devlint.suppressions import read_suppressions


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
    assert left("x  # devlint: ignore[E501, DEV002]\n") == []
    assert codes("x  # noqa: DEV110\n", enabled=frozenset({"DEV101"})) == []
