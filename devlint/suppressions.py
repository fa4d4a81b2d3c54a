"""Comments that switch findings off: `# noqa`, `# devlint: ignore[CODE] reason`, `# devlint: skip-file`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from devlint.files import split_lines
from devlint.findings import Edit, Finding, Fix, Span
from devlint.settings import nearest

if TYPE_CHECKING:
    from devlint.rule import Registry

# Whether a text could hold a marker at all; tokenizing is only worth its time then.
_HINT = re.compile(r"#\s*(?:noqa|devlint)", re.IGNORECASE)

_NOQA = re.compile(r"#\s*noqa\b(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?", re.IGNORECASE)
_IGNORE = re.compile(r"#\s*devlint:\s*ignore(?![\w-])(?:\[(?P<codes>[^\]#]*)\])?", re.IGNORECASE)
_SKIP_FILE = re.compile(r"#\s*devlint:\s*skip-file(?![\w-])", re.IGNORECASE)
_OUR_CODE = re.compile(r"DEV\d+")

# Findings that no comment switches off: the file couldn't be linted, or a fix failed.
_NOT_SUPPRESSED = frozenset({"DEV000", "DEV003"})
# Codes that are switched off with others: what was one rule once.
_WITH = {"DEV107": frozenset({"DEV105", "created-then-moved"})}
# What is reported about markers themselves.
_ABOUT_MARKERS = frozenset({"DEV001", "DEV002"})


@dataclass(slots=True)
class _Marker:
    """One suppression comment."""

    # An `extra` one is another check's comment, which the settings name.
    kind: Literal["noqa", "ignore", "extra"]
    # None takes all codes.
    codes: tuple[str, ...] | None
    # The lines whose findings it takes.
    lines: range
    # The comment from its `#` to the next one or the end, and what goes when it is removed.
    span: Span
    removal: Span
    # The text between `:` or `[` and the end of the codes.
    codes_span: Span | None
    codes_text: str
    used: set[str] = field(default_factory=set)

    def takes(self, finding: Finding, last_line: int) -> bool:
        """Whether it switches the finding off. `last_line`: where the statement of the finding ends."""
        if self.codes is not None and not self._named(finding):
            return False
        return last_line in self.lines or (
            self.lines.start <= finding.span.end_line and finding.span.line <= self.lines.stop - 1
        )

    def _named(self, finding: Finding) -> set[str]:
        """The codes and names in it that stand for a finding."""
        return {finding.code, finding.name, *_WITH.get(finding.code, ())}.intersection(self.codes or ())


class Suppressions:
    """The suppression comments of one source."""

    def __init__(self, markers: Sequence[_Marker], statement_ends: dict[int, int], *, skip_file: bool) -> None:
        self.skip_file = skip_file
        self._markers = markers
        self._statement_ends = statement_ends

    def apply(
        self, findings: Iterable[Finding], *, path: str, enabled: frozenset[str], registry: Registry
    ) -> list[Finding]:
        """The findings without those that a comment switches off, with DEV001 and DEV002 for comments that are amiss.

        To be called with the findings of every confidence, or comments would look unused. `path` is the display path
        for new findings; `enabled` holds the codes that this run reports.
        """
        if not self._markers:
            return list(findings)
        for marker in self._markers:
            marker.used.clear()
        kept = [finding for finding in findings if not self._suppress(finding)]
        for marker in self._markers:
            if marker.kind == "extra":
                continue
            about = [*_unknown(marker, path, registry), *_unused(marker, path, enabled, registry)]
            kept += [f for f in about if f.code in enabled and not (marker.codes and f.code in marker.codes)]
        return kept

    def _suppress(self, finding: Finding) -> bool:
        """Whether a comment takes the finding; each one that does is marked as used."""
        if finding.code in _NOT_SUPPRESSED:
            return False
        last_line = self._statement_ends.get(finding.span.line, finding.span.end_line)
        takers = [marker for marker in self._markers if marker.takes(finding, last_line)]
        for marker in takers:
            marker.used |= {finding.code, finding.name, *_WITH.get(finding.code, ())}
        return bool(takers)


def read_suppressions(source_text: str, extra: Sequence[tuple[str, tuple[str, ...]]] = ()) -> Suppressions:
    """The suppression comments of a Python text; those before the first token that can't be read, if there is one.

    `extra` holds the comments of other checks that count as well, each with its codes.
    """
    others = [(_pattern_of(comment), codes) for comment, codes in extra]
    if not _HINT.search(source_text) and not any(pattern.search(source_text) for pattern, _ in others):
        return Suppressions((), {}, skip_file=False)
    comments, statements, code_lines = _tokens_of(source_text)
    statement_ends = {line: last for first, last in statements for line in range(first, last + 1)}
    skip_file = any(_SKIP_FILE.search(comment.text) for comment in comments)
    markers = [marker for comment in comments for marker in _markers_in(comment, statement_ends, code_lines)]
    markers += [marker for comment in comments for marker in _extra_in(comment, others)]
    return Suppressions(markers, statement_ends, skip_file=skip_file)


@dataclass(frozen=True, slots=True)
class _Comment:
    text: str
    line: int
    # From 0, as tokenize counts.
    column: int
    # What stands before it on its line.
    before: str
    # Whether the text ends with it, without a line end.
    final: bool

    @property
    def alone(self) -> bool:
        return not self.before.strip()


def _tokens_of(text: str) -> tuple[list[_Comment], list[tuple[int, int]], list[int]]:
    """Comments, first and last line of each statement (or statement's head), and the lines that code begins on."""
    import io
    import tokenize

    comments: list[_Comment] = []
    statements: list[tuple[int, int]] = []
    code_lines: list[int] = []
    first: int | None = None
    final_line = None if text.endswith(("\n", "\r")) else len(split_lines(text))
    layout = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    try:
        # StringIO with newline=None would give each line end as \n: that keeps the line numbers for all three kinds.
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            line, column = token.start
            if token.type == tokenize.COMMENT:
                comments.append(_Comment(token.string, line, column, token.line[:column], line == final_line))
            elif token.type == tokenize.NEWLINE:
                if first is not None:
                    statements.append((first, line))
                first = None
            elif token.type not in layout:
                first = line if first is None else first
                if not code_lines or code_lines[-1] != line:
                    code_lines.append(line)
    except (tokenize.TokenError, SyntaxError):
        # The parser reports it.
        pass
    return comments, statements, code_lines


def _markers_in(comment: _Comment, ends: dict[int, int], code_lines: list[int]) -> Iterable[_Marker]:
    kinds: tuple[tuple[Literal["noqa", "ignore"], re.Pattern[str]], ...] = (("noqa", _NOQA), ("ignore", _IGNORE))
    for kind, pattern in kinds:
        for match in pattern.finditer(comment.text):
            lines = range(comment.line, comment.line + 1)
            if kind == "ignore" and comment.alone:
                lines = _next_statement(comment.line, ends, code_lines)
            text = match["codes"]
            codes = None if text is None else tuple(_canonical(code) for code in re.split(r"[,\s]+", text) if code)
            yield _Marker(kind, codes, lines, *_spans(comment, match), text or "")


def _extra_in(comment: _Comment, others: Iterable[tuple[re.Pattern[str], tuple[str, ...]]]) -> Iterable[_Marker]:
    for pattern, codes in others:
        if match := pattern.search(comment.text):
            span, removal, _ = _spans(comment, match)
            yield _Marker("extra", codes, range(comment.line, comment.line + 1), span, removal, None, "")


def _pattern_of(comment: str) -> re.Pattern[str]:
    """Where another check's comment stands, with or without blanks behind its `#`, and not as part of a longer word."""
    return re.compile(rf"#\s*(?P<codes>){re.escape(comment.lstrip('# '))}(?![\w-])", re.IGNORECASE)


def _canonical(code: str) -> str:
    return code.upper() if _OUR_CODE.fullmatch(code.upper()) else code


def _next_statement(line: int, ends: dict[int, int], code_lines: list[int]) -> range:
    """The lines that a comment alone on `line` speaks of: the next one with code, or the statement it begins."""
    first = next((code_line for code_line in code_lines if code_line > line), None)
    if first is None:
        return range(line, line + 1)
    inside_a_statement = ends.get(line) is not None
    return range(first, first + 1) if inside_a_statement else range(first, ends.get(first, first) + 1)


def _spans(comment: _Comment, match: re.Match[str]) -> tuple[Span, Span, Span | None]:
    """Where a marker stands, what goes with it when it is removed, and where its codes stand."""
    line, zero = comment.line, comment.column + 1
    following = comment.text.find("#", match.end())
    end = len(comment.text) if following < 0 else following
    span = Span(line, zero + match.start(), line, zero + len(comment.text[:end].rstrip()))
    codes = Span(line, zero + match.start("codes"), line, zero + match.end("codes")) if match["codes"] else None
    whole = match.start() == 0 and following < 0
    if whole and comment.alone and not comment.final:
        removal = Span(line, 1, line + 1, 1)
    elif following >= 0:
        removal = Span(line, span.column, line, zero + end)
    else:
        kept = (comment.before + comment.text[: match.start()]).rstrip()
        removal = Span(line, len(kept) + 1, line, span.end_column)
    return span, removal, codes


def _unknown(marker: _Marker, path: str, registry: Registry) -> Iterable[Finding]:
    """DEV002 for each code of ours that no rule has."""
    rule = registry.find("DEV002")
    for code in marker.codes or ():
        ours = marker.kind == "ignore" or _OUR_CODE.fullmatch(code)
        if rule is None or not ours or registry.find(code) is not None:
            continue
        known = [word for known in registry.rules() for word in (known.code, *[known.name] * (marker.kind == "ignore"))]
        message = f"no rule is called '{code}', so this comment switches nothing off for it"
        hint = nearest(code, known).removeprefix("; ") or None
        yield Finding(rule.code, rule.name, message, path, marker.codes_span or marker.span, hint=hint)


def _unused(marker: _Marker, path: str, enabled: frozenset[str], registry: Registry) -> Iterable[Finding]:
    """DEV001 for a comment of which all or some codes take no finding."""
    rule = registry.find("DEV001")
    if rule is None:
        return
    if marker.codes is None:
        # A bare noqa is for all linters; a bare ignore may be for a rule that isn't on in this run.
        everything = {known.code for known in registry.rules() if known.default} <= enabled
        if marker.kind == "ignore" and not marker.used and everything:
            fix = Fix("remove the comment", "safe", (Edit(marker.removal, ""),))
            yield Finding(rule.code, rule.name, "this comment switches nothing off", path, marker.span, fix=fix)
        return
    unused: list[str] = []
    kept: list[str] = []
    for code in marker.codes:
        known = registry.find(code)
        idle = known is not None and known.code in enabled - _ABOUT_MARKERS and code not in marker.used
        twice = known is not None and code in kept
        (unused if idle or twice else kept).append(code)
    if marker.codes and not unused:
        return
    names = f"nothing of {', '.join(unused)}" if unused else "nothing: it names no code"
    if kept and marker.codes_span:
        separator = ", " if ", " in marker.codes_text else "," if "," in marker.codes_text else " "
        fix = Fix(f"keep only {', '.join(kept)}", "safe", (Edit(marker.codes_span, separator.join(kept)),))
    else:
        fix = Fix("remove the comment", "safe", (Edit(marker.removal, ""),))
    yield Finding(rule.code, rule.name, f"this comment switches off {names}", path, marker.span, fix=fix)
