"""The HTML report: what it holds, and how a real browser shows it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from test_cli import BAD, devlint, write
from test_report_formats import LOOP, NET, NOTEBOOK, ODD


@pytest.fixture(autouse=True)
def page(tmp_path, monkeypatch) -> Path:
    """The report of a few files, with evidence of a run."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.chdir(tmp_path)
    write("bad.py", BAD)
    write("loop.py", LOOP)
    write("parts/net.py", NET)
    write("n.ipynb", json.dumps(NOTEBOOK))
    write(ODD, "import torch\n\nx = torch.ones(1)\nx.to('<b>&</b>\x1b[2J')\n")
    event = {"kind": "sync", "operation": "item", "count": 1240, "bytes": 5_000_000}
    events = [{**event, "path": str(tmp_path / "loop.py"), "line": 8}, {**event, "path": "/x/other.py", "line": 1}]
    write("seen.json", json.dumps({"tool": "devlint", "schema": 1, "events": events}))
    assert devlint("--evidence", "seen.json", "--output-format", "html=report.html").returncode == 1
    return tmp_path / "report.html"


def test_the_page_stands_alone(page):
    text = page.read_text("utf-8")
    assert not re.search(r"""(?:src|@import|url\()\s*=?\s*["'(]?https?:""", text)
    assert "&lt;b&gt;&amp;&lt;/b&gt;\\x1b[2J" in text
    assert "\x1b" not in text
    assert text.count("<article") == len(json.loads(devlint("--output-format", "json").stdout))
    assert "Seen at run time, without a finding:\n  /x/other.py:1" in text


@pytest.mark.slow
def test_a_browser_draws_trails_and_filters(page, browser):
    tab = browser.new_page()
    wrong: list[str] = []
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda request: request.url.startswith("file:") or wrong.append(request.url))
    tab.goto(page.as_uri())
    found = json.loads(devlint("--evidence", "seen.json", "--output-format", "json").stdout)
    cards = tab.locator(".finding:visible")
    assert cards.count() == len(found)
    # The costliest first, with what it was seen to cost.
    first = cards.nth(0)
    assert first.get_attribute("data-file") == "loop.py"
    assert "seen 1,240 times, 5.0 MB" in first.inner_text()
    # A line from each step to the next, which starts and ends at their numbers.
    steps, lines = first.locator("[data-step]"), first.locator("svg.trail path")
    assert steps.count() == len(found[0]["notes"]) + 1
    assert lines.count() == steps.count() - 1
    frame = first.bounding_box()
    for at in range(lines.count()):
        numbers = [float(n) for n in re.findall(r"[\d.]+", lines.nth(at).get_attribute("d"))]
        for step, (x, y) in ((at + 1, numbers[:2]), (at + 2, numbers[-2:])):
            box = first.locator(f'[data-step="{step}"]').bounding_box()
            assert abs(frame["y"] + y - (box["y"] + box["height"] / 2)) < 3
            assert abs(frame["x"] + x - box["x"]) < 6
    assert tab.locator("mark").first.inner_text() == "model(batch.cuda()).sum().item()"
    # Filters.
    for name, value in (
        ("rule", "DEV101"),
        ("file", ODD),
        ("severity", "warning"),
        ("confidence", found[0]["confidence"]),
    ):
        key = {"rule": "code", "file": "path"}.get(name, name)
        wanted = [f for f in found if f[key] == value]
        assert wanted
        tab.locator(f"select[name={name}]").select_option(value)
        assert cards.count() == len(wanted)
        assert tab.locator(".shown").inner_text() == f"{len(wanted)} of {len(found)} shown"
        tab.locator(f"select[name={name}]").select_option("")
    # What stands in the linted code is text, and nothing was loaded or went wrong.
    assert tab.locator("main code b").count() == 0
    assert wrong == []
