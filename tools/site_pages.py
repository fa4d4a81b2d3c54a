"""What mkdocs asks when it builds the site (mkdocs.yml): the pages that are made, and where the site will live.

Made are the rules' pages, of their docstrings and of a run of their examples; the table of fields of the JSON report, of its
schema; and the pages that stand at the repository's root. Nothing of it is written into docs/.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from devlint import addresses
from devlint.rule import META_RULES, Rule, load_registry

ROOT = Path(__file__).resolve().parent.parent
# Pages of the repository's root, by what they are called in the site.
FROM_ROOT = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md"}
FIXES = {
    "S": "safe",
    "U": "unsafe",
    "D": "a suggestion",
    "S/U": "safe or unsafe",
    "S/D": "safe, or a suggestion",
    "U/D": "unsafe, or a suggestion",
    "S/U/D": "safe, unsafe, or a suggestion",
    "-": "none",
}
# Where a page has the table of the report's fields, and those of a class's attributes.
FIELDS = "<!-- fields of findings.schema.json -->"
ATTRIBUTES = re.compile(r"<!-- attributes of (\S+\.py):(\w+) -->")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Says where the site and the repository are."""
    config.site_url = f"{addresses.DOCUMENTATION}/"
    config.repo_url = addresses.REPOSITORY
    config.repo_name = "devlint"
    config.edit_uri = None
    # Pages that nobody has given a place yet stand behind the others.
    named = json.dumps(config.nav)
    pages = (path.relative_to(ROOT / "docs").as_posix() for path in sorted((ROOT / "docs").rglob("*.md")))
    if others := [page for page in pages if f'"{page}"' not in named]:
        config.nav = [*(config.nav or []), {"More": others}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made."""
    rules = load_registry().rules()
    ran = _runs(rules) if config.extra.get("runs") in (True, "true", "1") else {}
    for rule in rules:
        text = rule_page(rule, ran.get(rule.code, []))
        files.append(File.generated(config, f"rules/{rule.code}.md", content=text))
    files.append(File.generated(config, "rules/index.md", content=index(rules)))
    for name, source in FROM_ROOT.items():
        files.append(File.generated(config, name, content=_from_root(ROOT / source)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Puts tables where a page asks for them."""
    if FIELDS in markdown:
        schema = json.loads((ROOT / "docs" / "findings.schema.json").read_text(encoding="utf-8"))
        markdown = markdown.replace(FIELDS, fields(schema))
    return ATTRIBUTES.sub(lambda match: attributes(ROOT / match[1], match[2]), markdown)


def attributes(path: Path, name: str) -> str:
    """The attributes of a class as a table: type, default, and the comment above."""
    text = path.read_text(encoding="utf-8")
    (found,) = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == name)
    rows = ["| attribute | type | default | |", "| --- | --- | --- | --- |"]
    for node in found.body:
        if isinstance(node, ast.AnnAssign):
            target, kind = ast.unparse(node.target), ast.unparse(node.annotation)
        elif isinstance(node, ast.Assign):
            target, kind = ast.unparse(node.targets[0]), ""
        else:
            continue
        if match := re.fullmatch(r"ClassVar\[(.*)\]", kind):
            kind = match[1]
        cells = [target, kind, ast.unparse(node.value) if node.value is not None else ""]
        quoted = [f"`{cell}`".replace("|", "\\|") if cell else "" for cell in cells]
        rows.append(f"| {' | '.join(quoted)} | {_comment_above(text.splitlines(), node.lineno)} |")
    return "\n".join(rows)


def _comment_above(lines: list[str], number: int) -> str:
    comment = itertools.takewhile(lambda line: line.strip().startswith("#"), reversed(lines[: number - 1]))
    return " ".join(line.strip().removeprefix("#").strip() for line in reversed(list(comment)))


def index(rules: list[type[Rule]]) -> str:
    """The page with all rules, by family."""
    lines = [
        "# Rules",
        "",
        "`devlint rule CODE` prints a rule's page. Rules that are *opt-in* run when they are selected.",
    ]
    for family in sorted({rule.code[:4] for rule in rules}):
        of_it = [rule for rule in rules if rule.code.startswith(family)]
        lines += ["", f"## {_title(family, of_it[0])}", ""]
        lines += ["| code | name | severity | finds | fix |", "| --- | --- | --- | --- | --- |"]
        for rule in of_it:
            name = rule.name if rule.default else f"{rule.name} (opt-in)"
            lines.append(
                f"| [{rule.code}]({rule.code}.md) | {name} | {rule.severity} | {rule.summary()} | {FIXES[rule.fix]} |"
            )
    return "\n".join(lines) + "\n"


def _title(family: str, rule: type[Rule]) -> str:
    """What a family is about, in the words of its package."""
    if rule in META_RULES:
        return f"{family}: about the run itself"
    package = sys.modules[rule.__module__.rpartition(".")[0]]
    return (package.__doc__ or family).splitlines()[0].rstrip(".")


def rule_page(rule: type[Rule], ran: list[str]) -> str:
    """A rule's page: its docstring, and what running its examples showed."""
    on = "on by default" if rule.default else f'opt-in: `extend-select = ["{rule.code}"]` turns it on'
    lines = rule.page().splitlines()
    # The line with the severity gives way to one that says more.
    at = next(i for i, line in enumerate(lines) if line.startswith("Severity: "))
    lines[at] = f"*{rule.severity.capitalize()}; {on}; fix: {FIXES[rule.fix]}.*"
    if ran:
        lines += ["", "## What running it shows", "", f"`devlint rule {rule.code} --run`, when this page was made:", ""]
        lines += ["```text", *ran, "```"]
    return "\n".join(lines) + "\n"


def _runs(rules: list[type[Rule]]) -> dict[str, list[str]]:
    """What running the examples of rules showed, by code; in a process of its own, which PyTorch may warn in."""
    shown = [rule.code for rule in rules if rule.effect is not None]
    done = subprocess.run([sys.executable, "-c", _RUN, *shown], capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


_RUN = """
import json, sys
from devlint.rule import load_registry
from devlint.runtime.pages import run_page
ran = {}
for code in sys.argv[1:]:
    ran[code] = [f"{each.title}: {each.told}" for each in run_page(load_registry().find(code))]
print(json.dumps(ran))
"""


def fields(schema: dict[str, Any]) -> str:
    """The fields of a finding as a table, those of its parts below it."""
    rows = ["| field | type | |", "| --- | --- | --- |"]
    rows += list(_rows(schema["$defs"]["findings"]["items"], schema, ""))
    return "\n".join(rows)


def _rows(part: dict[str, Any], schema: dict[str, Any], owner: str) -> list[str]:
    rows = []
    for name, field in part["properties"].items():
        optional = "" if name in part.get("required", ()) else " Not always there."
        rows.append(f"| `{owner}{name}` | {_type_of(field)} | {field.get('description', '')}{optional} |")
        inner = field.get("items", field)
        if "properties" in inner:
            rows += _rows(inner, schema, f"{owner}{name}{'[]' if 'items' in field else ''}.")
    return rows


def _type_of(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    types = field["type"] if isinstance(field["type"], list) else [field["type"]]
    return " or ".join(types)


def _from_root(path: Path) -> str:
    """A page of the root, with its links as they are in the site."""
    text = path.read_text(encoding="utf-8")
    names = {source: name for name, source in FROM_ROOT.items()}
    text = re.sub(r"\]\(docs/", "](", text)
    text = re.sub(r"\]\((\w+\.md)", lambda m: f"]({names.get(m[1], m[1])}", text)
    return re.sub(
        r"\]\(((?:benchmarks|examples|tools|tests)/[^)]*)\)", rf"]({addresses.REPOSITORY}/tree/main/\1)", text
    )
