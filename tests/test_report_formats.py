"""The reports for services and programs, of real runs, read by what reads them elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlparse
from xml.etree import ElementTree

import jsonschema
import pytest
from test_cli import BAD, BROKEN, CLEAN, FIXED, devlint, write

from devlint.addresses import rule_page

SCHEMAS = Path(__file__).parent / "schemas"
SCHEMA = json.loads((SCHEMAS / "sarif-2.1.0.json").read_text("utf-8"))
# Two places of one bug, with a trail through another file, and what is likely.
LOOP = """\
import torch
from parts.net import Net

model = Net().cuda()
total = 0
for batch in torch.utils.data.DataLoader([1, 2], pin_memory=True):
    loss = model(batch.cuda(non_blocking=True)).sum()
    total += loss.item()
    loss.backward()
print(total)
"""
NET = "import torch\n\n\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(1, 1)\n"
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# One\n", "two"], "metadata": {}},
        {"cell_type": "code", "source": ["import torch\n", "x = torch.ones(3)\n", 'x.to("cuda")'], "metadata": {}},
    ],
    "metadata": {},
}
# A name with what URIs and workflow commands spell in another way, and control characters in a message.
ODD = "a b,c:100%.py"


@pytest.fixture(autouse=True)
def repository(tmp_path, monkeypatch):
    """A repository with findings in files of all kinds; devlint is called in a folder of it."""
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    folder = tmp_path / "sub"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write("bad.py", BAD)
    write(ODD, "import torch\n\ny = torch.ones(3, device='é')\nx = torch.ones(1)\nx.to('c\x1b[2Juda')\n")
    write("loop.py", LOOP)
    write("parts/net.py", NET)
    write("broken.py", BROKEN)
    write("clean.py", CLEAN)
    write("n.ipynb", json.dumps(NOTEBOOK, indent=1))
    return tmp_path


def report(form: str, *arguments: str) -> str:
    done = devlint("--output-format", form, *arguments)
    assert done.returncode == (2 if not arguments or "broken.py" in arguments else 1)
    assert "Traceback" not in done.stderr
    return done.stdout


def expected(*arguments: str) -> list[tuple[str, str]]:
    """Path from the repository's top, and code, of all findings."""
    found = json.loads(report("json", *arguments))
    assert found
    return [(f"sub/{entry['path']}", entry["code"]) for entry in found]


def run_of(text: str) -> dict:
    log = json.loads(text)
    jsonschema.validate(log, SCHEMA)
    (run,) = log["runs"]
    return run


def test_sarif_is_valid_and_whole(repository):
    run = run_of(report("sarif"))
    results = run["results"]

    def place(result):
        artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert artifact["uriBaseId"] == "SRCROOT"
        return unquote(artifact["uri"])

    assert [(place(r), r["ruleId"]) for r in results] == [e for e in expected() if e[1] != "DEV000"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[r["ruleIndex"]]["id"] == r["ruleId"] for r in results)
    by_code = {rule["id"]: rule for rule in rules}
    assert "## What it does" in by_code["DEV101"]["help"]["markdown"]
    assert by_code["DEV101"]["helpUri"] == rule_page("DEV101")
    levels = {r["ruleId"]: r["level"] for r in results}
    assert (levels["DEV101"], levels["DEV501"]) == ("error", "warning")
    # What couldn't be parsed is told of the run, and isn't among the results.
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    (failure,) = invocation["toolExecutionNotifications"]
    assert failure["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "sub/broken.py"
    base = Path(unquote(urlparse(run["originalUriBaseIds"]["SRCROOT"]["uri"]).path))
    assert base == repository
    assert all((base / place(result)).is_file() for result in results)
    assert run_of(report("sarif", "bad.py"))["invocations"][0]["executionSuccessful"] is True


def test_a_trail_is_a_code_flow():
    (result,) = run_of(report("sarif", "loop.py"))["results"]
    (flow,) = result["codeFlows"]
    steps = [step["location"] for step in flow["threadFlows"][0]["locations"]]
    (told,) = json.loads(report("json", "loop.py"))
    lines = [step["physicalLocation"]["region"]["startLine"] for step in steps]
    assert lines == [*(note["line"] for note in told["notes"]), told["line"]]
    assert [step["message"]["text"] for step in steps[:-1]] == [note["message"] for note in told["notes"]]
    assert len(steps) > 2


def test_a_sarif_fix_mends_the_file():
    (result,) = run_of(report("sarif", "bad.py"))["results"]
    (change,) = result["fixes"][0]["artifactChanges"]
    text = Path("bad.py").read_text()
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    for replacement in sorted(change["replacements"], key=lambda r: -r["deletedRegion"]["startLine"]):
        region = replacement["deletedRegion"]
        start = starts[region["startLine"] - 1] + region["startColumn"] - 1
        end = starts[region["endLine"] - 1] + region["endColumn"] - 1
        text = text[:start] + replacement["insertedContent"]["text"] + text[end:]
    assert text == FIXED


@pytest.mark.parametrize("form", ["sarif", "gitlab"])
def test_fingerprints_outlive_lines_that_move_and_are_unique(form):
    def marks():
        text = report(form, "bad.py", ODD)
        if form == "sarif":
            return [r["partialFingerprints"]["devlint/v1"] for r in run_of(text)["results"]]
        return [issue["fingerprint"] for issue in json.loads(text)]

    write("bad.py", BAD + 'x.to("cuda")\n')
    before = marks()
    assert len(before) == len(set(before)) == 3
    write("bad.py", "# a new line\n" + BAD + 'x.to("cuda")\n')
    assert marks() == before


def test_what_a_baseline_holds_is_left_out_and_the_rest_is_new():
    assert "baselineState" not in run_of(report("sarif", "bad.py"))["results"][0]
    assert devlint("baseline", "bad.py").returncode == 0
    write("bad.py", BAD + 'y = torch.ones(2)\ny.to("cuda")\n')
    (result,) = run_of(report("sarif", "bad.py"))["results"]
    assert result["baselineState"] == "new"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 6


def test_github_annotates_lines():
    commands = report("github").splitlines()
    pattern = re.compile(r"::(error|warning) ([^:]+)::(.+)")

    def unescaped(text):
        for escape, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            text = text.replace(escape, character)
        return text

    found = []
    for command in commands:
        level, properties, message = pattern.fullmatch(command).groups()
        named = {key: unescaped(value) for key, value in (p.split("=", 1) for p in properties.split(","))}
        code = named["title"].split()[0]
        found.append((named["file"], code))
        assert level == ("error" if code in ("DEV000", "DEV101", "DEV610") else "warning")
        assert unescaped(message).splitlines()[-1] == f"see {rule_page(code)}"
    assert found == expected()
    assert any("\\x1b[2J" in command for command in commands)
    bad = next(command for command in commands if "file=sub/bad.py" in command)
    assert "line=4,endLine=4,col=1,endColumn=12::" in bad


def test_gitlab_code_quality():
    issues = json.loads(report("gitlab"))
    assert [(issue["location"]["path"], issue["check_name"]) for issue in issues] == expected()
    severities = {issue["check_name"]: issue["severity"] for issue in issues}
    assert (severities["DEV000"], severities["DEV101"], severities["DEV501"]) == ("blocker", "major", "minor")
    for issue in issues:
        assert {"description", "check_name", "fingerprint", "severity", "location"} <= issue.keys()
        assert issue["location"]["lines"]["begin"] >= 1
        assert rule_page(issue["check_name"]) in issue["content"]["body"]


def test_junit_counts_files_that_pass():
    junitparser = pytest.importorskip("junitparser")
    text = report("junit")
    suites = junitparser.JUnitXml.fromstring(text.encode())
    cases = [(case.classname, case) for suite in suites for case in suite]
    failed = [(name, case) for name, case in cases if case.result]
    assert [(name, case.name.split()[0]) for name, case in failed] == expected()
    assert {name for name, case in cases if not case.result} == {"sub/clean.py", "sub/parts/net.py"}
    assert (suites.tests, suites.errors, suites.failures) == (len(cases), 1, len(failed) - 1)
    assert "note: " in ElementTree.fromstring(text).find(".//*[@classname='sub/loop.py']/failure").text


def test_rdjson_counts_columns_in_bytes():
    told = json.loads(report("rdjson"))
    jsonschema.validate(told, json.loads((SCHEMAS / "rdjson.json").read_text(encoding="utf-8")))
    diagnostics = told["diagnostics"]
    assert [(d["location"]["path"], d["code"]["value"]) for d in diagnostics] == expected()
    assert all(d["code"]["url"] == rule_page(d["code"]["value"]) for d in diagnostics)
    write("wide.py", "import torch\nx = torch.ones(1)\nprint('é'); x.to('cuda')\n")
    (wide,) = json.loads(report("rdjson", "wide.py"))["diagnostics"]
    line = Path("wide.py").read_bytes().splitlines()[2]
    start, end = (wide["location"]["range"][edge]["column"] - 1 for edge in ("start", "end"))
    assert line[start:end] == b"x.to('cuda')"
    assert wide["suggestions"][0]["text"]


def test_pylint_lines():
    pattern = re.compile(r"(?P<path>.+?):(?P<line>\d+): \[(?P<code>\w+)\((?P<name>[\w-]+)\), \] (?P<message>.+)")
    lines = [pattern.fullmatch(line) for line in report("pylint").splitlines()]
    assert [(line["path"], line["code"]) for line in lines] == expected()
    assert all(rule_page(line["code"]) in line["message"] for line in lines)


@pytest.mark.parametrize("form", ["sarif", "github", "gitlab", "rdjson", "pylint"])
def test_a_notebook_s_finding_is_on_the_line_of_its_json(form):
    lines = Path("n.ipynb").read_text().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if "x.to(" in line)
    text = report(form, "n.ipynb")
    if form == "sarif":
        (result,) = run_of(text)["results"]
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == number
        assert "fixes" not in result
    assert str(number) in re.findall(r"\d+", text)
    assert "cell 2, line 3" in text
    # One string holds the whole cell: then all of it is on one line.
    as_text = json.loads(Path("n.ipynb").read_text())
    as_text["cells"][1]["source"] = "".join(as_text["cells"][1]["source"])
    write("n.ipynb", json.dumps(as_text, indent=1))
    assert "cell 2, line 3" in report(form, "n.ipynb")


def test_paths_count_from_the_checkout_of_a_job(monkeypatch, repository):
    monkeypatch.setenv("GITHUB_WORKSPACE", str(repository / "sub"))
    assert "file=bad.py," in report("github", "bad.py")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(repository / "elsewhere"))
    assert "file=sub/bad.py," in report("github", "bad.py")
    assert "file=sub/bad.py," in report("github", str(Path("bad.py").absolute()))


def test_several_reports_at_once():
    forms = {"sarif": "r.sarif", "html": "r.html", "junit": "r.xml", "json": "r.json"}
    asked = [word for form, file in forms.items() for word in ("--output-format", f"{form}={file}")]
    done = devlint("bad.py", "--output-format", "concise", *asked)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[0].startswith("bad.py:4:1: DEV101")
    assert [f["code"] for f in json.loads(Path("r.json").read_text())] == ["DEV101"]
    assert Path("r.sarif").read_text() == report("sarif", "bad.py")
    assert devlint("bad.py", *asked).stdout == ""
    assert oct(Path("r.sarif").stat().st_mode & 0o777) == oct(0o666 & ~_umask())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_report_is_written_whole_or_not_at_all(tmp_path):
    done = devlint("bad.py", "--output-format", "text", "--output-format", "sarif=gone/r.sarif")
    assert done.returncode == 2
    assert "bad.py:4:1: DEV101" in done.stdout
    assert done.stderr == "error: --output-format sarif=gone/r.sarif: can't be written: No such file or directory\n"
    write("old.json", "what was there")
    limited = f"ulimit -f 0; exec {os.sys.executable} -m devlint bad.py --output-format html=old.json"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert Path("old.json").read_text() == "what was there"
    assert not list(Path().glob(".devlint-*"))
    assert devlint("bad.py", "--output-format", "json=/dev/stdout").stdout.startswith("[\n")


def test_requests_that_make_no_sense():
    for arguments, said in (
        (["--output-format", "sarfi"], "'sarfi' is none of text, concise,"),
        (["--output-format", "sarif="], "names no file behind '='"),
        (["--output-format", "text", "--output-format", "json"], "two reports for one place"),
        (["--output-format", "json=a", "-o", "b"], "--output-file has no report left to write"),
        (["--statistics", "--output-format", "sarif"], "--statistics is told as text or JSON"),
        (["--diff", "--output-format", "sarif=r"], "--diff shows a diff"),
    ):
        done = devlint("bad.py", *arguments)
        assert done.returncode == 2
        assert said in done.stderr
    assert "did you mean 'sarif'?" in devlint("--output-format", "sarfi").stderr


def test_a_clean_run_is_a_report_too():
    for form, start in (("sarif", "{"), ("gitlab", "[]"), ("junit", "<?xml"), ("html", "<!doctype"), ("github", "")):
        done = devlint("clean.py", "--output-format", form)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(start)


def test_the_settings_name_a_form_too():
    write("devlint.toml", 'output-format = "github"\n')
    assert devlint("bad.py").stdout.startswith("::error")
