"""The report as one page for a browser: findings with their trails drawn on the source, and filters. It loads nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template

from devlint.escapes import printable
from devlint.files import Source
from devlint.findings import Finding
from devlint.reports import Run, Sources, place_of, spell_place, summary
from devlint.reports.anchors import advice

# Lines that are shown before and after each step.
_AROUND = 2
# A span of more lines is marked on its first ones.
_MOST_LINES = 12
# A longer line is cut.
_WIDEST = 400


def render(run: Run) -> str:
    """The whole page."""
    page = files("devlint.reports") / "page"
    found = list(run.findings)
    sources = Sources(run.results)
    also = f'<pre class="also">{escape(run.also)}</pre>\n' if run.also else ""
    return Template((page / "page.html").read_text("utf-8")).substitute(
        summary=escape(summary(run.results, safety=run.safety, failed=run.failed) or "not all was looked at"),
        style=(page / "page.css").read_text("utf-8"),
        script=(page / "page.js").read_text("utf-8"),
        rules=_choices((f.code, f"{f.code} {f.name}") for f, _ in found),
        files=_choices((f.path, f.path) for f, _ in found),
        severities=_choices((f.severity, f.severity) for f, _ in found),
        confidences=_choices((f.confidence, f.confidence) for f, _ in found),
        findings="".join(_card(finding, source, sources, run.page_of(finding)) for finding, source in found),
        also=also,
    )


def _choices(values: Iterable[tuple[str, str]]) -> str:
    """The options of a filter, sorted, each with how many findings it lets through."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for choice in values:
        counts[choice] += 1
    return "".join(
        f'<option value="{_text(value)}">{_text(label)} ({count})</option>'
        for (value, label), count in sorted(counts.items())
    )


def _text(text: str) -> str:
    return escape(printable(text))


@dataclass(frozen=True, slots=True)
class _Stop:
    """A step of a trail, or the finding at its end, on a line of a text."""

    number: int
    line: int
    said: str


def _card(finding: Finding, source: Source | None, sources: Sources, url: str) -> str:
    """One finding: what is wrong, its trail on the source, and what mends it."""
    code = f'<span class="code">{_text(finding.code)}</span>'
    linked = f'<a href="{escape(url)}">{code}</a>' if url else code
    badges = [f'<span class="badge">{_text(finding.name)}</span>']
    badges += ['<span class="badge">likely</span>'] if finding.confidence == "likely" else []
    badges += [f'<span class="badge seen">{_text(str(finding.seen))}</span>'] if finding.seen else []
    facts = {"rule": finding.code, "file": finding.path, "severity": finding.severity, "confidence": finding.confidence}
    data = " ".join(f'data-{name}="{_text(value)}"' for name, value in facts.items())
    helps = "".join(f"<li>{escape(line)}</li>" for line in advice(finding))
    return (
        f'<article class="finding" {data}>\n<h2>{linked} {_text(finding.message)} {" ".join(badges)}</h2>\n'
        + "".join(_figures(finding, source, sources))
        + (f'<ul class="help">{helps}</ul>\n' if helps else "")
        + "</article>\n"
    )


def _figures(finding: Finding, source: Source | None, sources: Sources) -> Iterator[str]:
    """The texts that a trail leads through, in its order, each with the lines around its steps."""
    stops: dict[str, list[_Stop]] = defaultdict(list)
    for number, note in enumerate(finding.notes, 1):
        stops[note.path].append(_Stop(number, note.line, note.message))
    end = _Stop(len(finding.notes) + 1, finding.span.line, "")
    stops[finding.path].append(end)
    # The finding's own file comes last: a trail ends there.
    for path in [*(p for p in stops if p != finding.path), finding.path]:
        text = source if path == finding.path and source is not None else sources.get(path)
        first = stops[path][-1] if path == finding.path else stops[path][0]
        column = finding.span.column if path == finding.path else 1
        caption = spell_place(path, place_of(text, first.line, column))
        rows = "".join(_rows(text, stops[path], finding if path == finding.path else None))
        yield f'<figure><figcaption>{escape(caption)}</figcaption><div class="lines">{rows}</div></figure>\n'


def _rows(source: Source | None, stops: Sequence[_Stop], finding: Finding | None) -> Iterator[str]:
    """The lines around stops; a text that can't be read has those of the stops alone."""
    lines = source.lines if source is not None else []
    at: dict[int, list[_Stop]] = defaultdict(list)
    for stop in stops:
        at[stop.line].append(stop)
    wanted = {n for stop in stops for n in range(stop.line - _AROUND, stop.line + _AROUND + 1) if 1 <= n <= len(lines)}
    marked = (
        range(finding.span.line, min(finding.span.end_line, finding.span.line + _MOST_LINES) + 1) if finding else ()
    )
    wanted |= {n for n in marked if n <= len(lines)} | set(at)
    before = min(wanted) - 1
    for number in sorted(wanted):
        if number > before + 1:
            yield _row("gap", "⋯", "", "")
        before = number
        text = lines[number - 1].rstrip("\r\n") if number <= len(lines) else ""
        body = _marked(text, number, finding) if finding and number in marked else _text(_cut(text))
        here = at.get(number, ())
        steps = "".join(f'<b data-step="{stop.number}">{stop.number}</b>' for stop in here)
        kind = "here" if finding and number in marked else "step" if here else ""
        yield _row(kind, str(place_of(source, number, 1).line), steps, body)
        for stop in here:
            if stop.said:
                yield _row("note", "", "", f"{stop.number}: {_text(stop.said)}")


def _row(kind: str, number: str, mark: str, body: str) -> str:
    classes = f"row {kind}".strip()
    return (
        f'<div class="{classes}"><span class="number">{number}</span><span class="mark">{mark}</span>'
        f"<code>{body}</code></div>"
    )


def _marked(text: str, number: int, finding: Finding) -> str:
    """A line with the finding's stretch of it marked."""
    span = finding.span
    start = span.column - 1 if number == span.line else len(text) - len(text.lstrip())
    end = span.end_column - 1 if number == span.end_line else len(text)
    return f"{_text(text[:start])}<mark>{_text(text[start:end])}</mark>{_text(_cut(text[end:]))}"


def _cut(text: str) -> str:
    text = text.expandtabs(4)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
