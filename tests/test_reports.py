"""The output formats, character for character."""

from __future__ import annotations

import dataclasses
import json as standard_json
from pathlib import Path

import click
import pytest

from devlint.files import Source, read_source
from devlint.findings import Cost, Edit, Finding, Fix, Note, Safety, Seen, Span
from devlint.reports import FileResult, Run, concise, json, statistics, summary, text


def finding(span: Span, *, path: str = "f.py", safety: str | None = "safe", **more: object) -> Finding:
    fix = Fix("assign the result", safety, (Edit(Span(span.line, 1, span.line, 1), "x = "),)) if safety else None
    return Finding("DEV101", "discarded-move", "the move is dropped", path, span, fix=fix, **more)


def shown(source_text: str, *findings: Finding, safety: Safety = "safe") -> str:
    result = FileResult("f.py", findings, Source(None, "f.py", source_text))
    return click.unstyle(text.render(Run([result], safety=safety)))


def test_text_with_notes_hint_and_fix(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data.py").write_text("\n" * 99 + "    y = torch.ones(3)\n")
    notes = (Note("made here", "f.py", 1, 5), Note("moved here", "data.py", 100, 9), Note("gone", "none.py", 3, 1))
    found = finding(Span(2, 1, 2, 8), confidence="likely", notes=notes, hint="tensors don't move in place")
    assert shown("x = torch.ones(3)\nx.to(d)\n", found) == (
        "f.py:2:1: DEV101 [discarded-move] the move is dropped (likely)\n"
        "    |\n"
        "  2 | x.to(d)\n"
        "    | ^^^^^^^\n"
        "note: made here (f.py:1:5)\n"
        "  1 | x = torch.ones(3)\n"
        "note: moved here (data.py:100:9)\n"
        "100 |     y = torch.ones(3)\n"
        "note: gone (none.py:3:1)\n"
        "help: tensors don't move in place\n"
        "help: assign the result ([*] fixable with --fix)\n"
        "\n"
        "Found 1 error in 1 file (1 fixable with --fix)\n"
    )


def test_an_unsafe_fix_names_its_option():
    found = finding(Span(1, 1, 1, 2), safety="unsafe")
    assert "help: assign the result (fixable with --fix --unsafe-fixes)\n" in shown("x\n", found)
    assert "help: assign the result ([*] fixable with --fix)\n" in shown("x\n", found, safety="unsafe")


def test_a_suggestion_is_left_to_the_reader():
    found = finding(Span(1, 1, 1, 2), safety="display")
    for safety in ("safe", "unsafe"):
        report = shown("x\n", found, safety=safety)
        assert "help: assign the result (a suggestion, which --fix leaves to you)\n" in report
        assert report.endswith("Found 1 error in 1 file\n")


@pytest.mark.parametrize(
    ("line", "span", "expected"),
    [
        ("\tx.to(d)", (2, 9), ["1 |     x.to(d)", "  |     ^^^^^^^"]),
        ("a\tx", (3, 4), ["1 | a   x", "  |     ^"]),
        ("f('日本', x)", (9, 10), ["1 | f('日本', x)", "  |           ^"]),
        ("f('日本')", (3, 7), ["1 | f('日本')", "  |   ^^^^^^"]),
        ("e\u0301 = x", (6, 7), ["1 | e\u0301 = x", "  |     ^"]),
        ("x\x1b[31m", (1, 2), ["1 | x\\x1b[31m", "  | ^"]),
        ("x", (2, 2), ["1 | x", "  |  ^"]),
    ],
)
def test_carets_stand_below_their_text(line, span, expected):
    lines = shown(line + "\n", finding(Span(1, span[0], 1, span[1]))).splitlines()
    assert lines[2:4] == expected


def test_spans_of_several_lines():
    lines = shown("f(\n    x,\n)\n", finding(Span(1, 1, 3, 2))).splitlines()
    assert lines[2:8] == ["1 | f(", "  | ^^", "2 |     x,", "  |     ^^", "3 | )", "  | ^"]
    many = "f(\n" + "    x,\n" * 20 + ")\n"
    lines = shown(many, finding(Span(1, 1, 22, 2))).splitlines()
    assert [line.split("|")[0].strip() for line in lines[2:9]] == ["1", "", "2", "", "...", "22", ""]


def test_long_lines_are_cut():
    long = "a" * 500 + "x.to(d)" + "b" * 500
    lines = shown(long, finding(Span(1, 501, 1, 508))).splitlines()
    assert len(lines[2]) < 180
    start = lines[3].index("^")
    assert lines[2][start : start + 7] == "x.to(d)"
    assert lines[3].count("^") == 7


def test_a_file_that_could_not_be_read():
    failed = Finding("DEV000", "unreadable-file", "can't be read", "gone.py", Span(1, 1, 1, 1))
    report = text.render(Run([FileResult("gone.py", (failed,))], safety="safe"))
    assert click.unstyle(report).splitlines()[0] == "gone.py:1:1: DEV000 [unreadable-file] can't be read"


def test_concise():
    results = [FileResult("f.py", (finding(Span(2, 3, 2, 4)), finding(Span(3, 1, 3, 2), safety="unsafe")))]
    assert click.unstyle(concise.render(Run(results, safety="safe"))) == (
        "f.py:2:3: DEV101 [*] the move is dropped\n"
        "f.py:3:1: DEV101 the move is dropped\n"
        "Found 2 errors in 1 file (1 fixable with --fix, 1 more with --unsafe-fixes)\n"
    )


def test_json():
    notes = (Note("made here", "g.py", 1, 5),)
    costly = finding(Span(2, 3, 2, 4), notes=notes, cost=Cost("slow", 2))
    results = [FileResult("f.py", (costly, finding(Span(3, 1, 3, 2), safety=None)))]
    first, second = standard_json.loads(json.render(Run(results)))
    places = ["path", "line", "column", "end_line", "end_column"]
    judged = ["severity", "confidence", "cost"]
    assert list(first) == ["code", "name", "message", *places, *judged, "notes", "hint", "fix", "url"]
    assert first == {
        "code": "DEV101",
        "name": "discarded-move",
        "message": "the move is dropped",
        "path": "f.py",
        "line": 2,
        "column": 3,
        "end_line": 2,
        "end_column": 4,
        "severity": "error",
        "confidence": "certain",
        "cost": {"effect": "slow", "loops": 2},
        "notes": [{"message": "made here", "path": "g.py", "line": 1, "column": 5}],
        "hint": None,
        "fix": {
            "title": "assign the result",
            "safety": "safe",
            "edits": [{"line": 2, "column": 1, "end_line": 2, "end_column": 1, "text": "x = "}],
        },
        "url": None,
    }
    assert second["fix"] is None
    hinted = standard_json.loads(
        json.render(Run([FileResult("f.py", (dataclasses.replace(costly, hint="say which"),))]))
    )
    assert hinted[0]["hint"] == "say which"
    assert json.render(Run([])) == "[]\n"


def test_notebook_places(tmp_path):
    cells = [{"cell_type": "markdown", "source": "#"}, {"cell_type": "code", "source": "x = 1\nx.to(d)"}]
    file = tmp_path / "n.ipynb"
    file.write_text(standard_json.dumps({"cells": cells}))
    source = read_source(file, "n.ipynb")
    line = source.lines.index("x.to(d)\n") + 1
    found = finding(Span(line, 1, line, 8), path="n.ipynb", notes=(Note("made", "n.ipynb", line - 1, 1),))
    results = [FileResult("n.ipynb", (found,), source)]
    report = click.unstyle(text.render(Run(results, safety="safe")))
    assert report.startswith("n.ipynb:cell 2:2:1: DEV101")
    assert "2 | x.to(d)" in report
    assert "note: made (n.ipynb:cell 2:1:1)\n1 | x = 1" in report
    (entry,) = standard_json.loads(json.render(Run(results)))
    assert (entry["cell"], entry["line"], entry["notes"][0]["cell"], entry["fix"]["edits"][0]["cell"]) == (2, 2, 2, 2)


@pytest.mark.parametrize(
    ("safeties", "fixed", "asked", "line"),
    [
        ([], 0, "safe", "All checks passed!"),
        ([None], 0, "safe", "Found 1 error in 1 file"),
        (["safe", "unsafe", "unsafe"], 0, "safe", "Found 3 errors in 1 file (1 fixable with --fix, 2 more with --unsafe-fixes)"),
        (["unsafe"], 0, "safe", "Found 1 error in 1 file (1 fixable with --unsafe-fixes)"),
        (["safe", "unsafe"], 0, "unsafe", "Found 2 errors in 1 file (2 fixable with --fix --unsafe-fixes)"),
        ([], 2, "safe", "Found 2 errors in 1 file (2 fixed, 0 remaining)"),
        ([None], 2, "safe", "Found 3 errors in 1 file (2 fixed, 1 remaining)"),
    ],
)  # fmt: skip
def test_summary(safeties, fixed, asked, line):
    findings = tuple(finding(Span(1, 1, 1, 2), safety=safety) for safety in safeties)
    gone = (finding(Span(1, 1, 1, 2)),) * fixed
    assert summary([FileResult("f.py", findings, fixed=gone)], safety=asked) == line


def test_warnings_are_no_errors():
    stall = dataclasses.replace(finding(Span(1, 1, 1, 2), safety=None), severity="warning", confidence="likely")
    crash = finding(Span(2, 1, 2, 2), safety=None)
    results = [FileResult("f.py", (stall, stall, crash), fixed=(stall,))]
    assert summary(results, safety="safe") == "Found 1 error and 3 warnings in 1 file (1 fixed, 3 remaining)"
    assert summary([FileResult("f.py", (stall,))], safety="safe") == "Found 1 warning in 1 file"
    lines = click.unstyle(concise.render(Run(results, safety="safe"))).splitlines()
    assert [line.endswith(" (likely)") for line in lines] == [True, True, False, False]
    assert statistics.render(results, "text", safety="safe") == "3  DEV101  warning      discarded-move\n"


def test_statistics_promise_only_what_fix_does():
    results = [FileResult("f.py", tuple(finding(Span(1, 1, 1, 2), safety=s) for s in ("safe", "unsafe", None)))]
    assert statistics.render(results, "text", safety="safe") == "3  DEV101  error    [*] discarded-move\n"

    def fixable(safety):
        (row,) = standard_json.loads(statistics.render(results, "json", safety=safety))
        return row["count"], row["fixable"], row["fixable_unsafely"]

    assert fixable("safe") == (3, 1, 1)
    assert fixable("unsafe") == (3, 2, 0)
    unsafe = [FileResult("f.py", (finding(Span(1, 1, 1, 2), safety="unsafe"),))]
    assert "[*]" not in statistics.render(unsafe, "text", safety="safe")
    assert "[*]" in statistics.render(unsafe, "text", safety="unsafe")


STALL = ("DEV501", "item-in-hot-loop")
CRASH = ("DEV201", "cross-device-op")
WASTE = ("DEV105", "created-then-moved")


def costing(*rows: tuple[tuple[str, str], Cost, int]) -> list[FileResult]:
    """Findings of a file, one below the other: so many of each rule and cost."""
    rules = [(rule, cost) for rule, cost, count in rows for _ in range(count)]
    found = [
        Finding(
            *rule, "!", "f.py", Span(i, 1, i, 2), cost=cost, severity="error" if cost.effect == "error" else "warning"
        )
        for i, (rule, cost) in enumerate(rules, 1)
    ]
    return [FileResult("f.py", tuple(found))]


def test_the_summary_ranks_errors_then_stalls_by_their_loops():
    results = costing(
        (WASTE, Cost("slow"), 4),
        (STALL, Cost("slow", 1), 11),
        (STALL, Cost("slow", 2), 1),
        (("DEV604", "legacy-cuda-type"), Cost("other"), 1),
        (CRASH, Cost("error"), 2),
    )
    report = click.unstyle(text.render(Run(results, safety="safe"))).split("\n\n")
    assert report[-2] == (
        "Costliest first:\n"
        "  error                              2  DEV201 cross-device-op     f.py:18:1 and 1 more\n"
        "  warning, each step, 2 loops deep   1  DEV501 item-in-hot-loop    f.py:16:1\n"
        "  warning, each step                11  DEV501 item-in-hot-loop    f.py:5:1 and 10 more\n"
        "  warning                            4  DEV105 created-then-moved  f.py:1:1 and 3 more\n"
        "  warning                            1  DEV604 legacy-cuda-type    f.py:17:1"
    )
    assert report[-1] == "Found 2 errors and 17 warnings in 1 file\n"
    assert "Costliest" not in text.render(Run(results, safety="safe", quiet=True))


def test_few_findings_and_findings_of_one_kind_are_not_ranked():
    one_kind = costing((STALL, Cost("slow", 1), 50))
    few = costing((CRASH, Cost("error"), 2), (STALL, Cost("slow", 1), 3))
    for results in (one_kind, few, []):
        assert "Costliest" not in text.render(Run(results, safety="safe"))


def test_the_ranking_stays_short():
    results = costing(*((STALL, Cost("slow", loops), 2) for loops in range(1, 13)))
    lines = click.unstyle(text.render(Run(results, safety="safe"))).split("\n\n")[-2].splitlines()
    assert lines[1].split()[:6] == ["warning,", "each", "step,", "12", "loops", "deep"]
    assert lines[9:] == ["  ... and 8 more of 4 kinds"]


def test_what_was_seen_ranks_before_what_is_expected():
    (result,) = costing((CRASH, Cost("error"), 3), (STALL, Cost("slow", 1), 3))
    seen = tuple(dataclasses.replace(f, seen=Seen(620)) if f.code == STALL[0] else f for f in result.findings)
    lines = click.unstyle(text.render(Run([FileResult("f.py", seen)], safety="safe"))).split("\n\n")[-2].splitlines()
    assert lines[1:] == [
        "  seen 1,860 times  3  DEV501 item-in-hot-loop  f.py:4:1 and 2 more",
        "  error             3  DEV201 cross-device-op   f.py:1:1 and 2 more",
    ]
