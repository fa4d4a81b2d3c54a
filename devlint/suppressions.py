"""Comments that switch findings off: `# noqa: CODE`, and those of our own.

`# devlint: ignore[CODE] reason` speaks of its line or of the next statement, `# devlint: off[CODE]` of what follows up to
`# devlint: on`, `# devlint: skip-file[CODE]` of the whole file. CODE is a code, its beginning, or a name; without any, all
are meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from devlint.findings import Edit, Finding, Fix, Span
from devlint.records import record
from devlint.regexes import regex
from devlint.settings import nearest
from devlint.textmap import split_lines

if TYPE_CHECKING:
    from devlint.rule import Registry, Rule

# Whether a text could hold a marker at all; tokenizing is only worth its time then.
_HINT = regex(r"#\s*(?:noqa|devlint)|DEV\d{3}", re.IGNORECASE)

_NOQA = regex(r"#\s*noqa\b(?:\s*:\s*(?P<codes>[A-Z]+[0-9]\w*(?:[,\s]+[A-Z]+[0-9]\w*)*))?", re.IGNORECASE)
_OURS = regex(r"#\s*devlint\s*:\s*(?P<form>[\w-]+)(?:\[(?P<codes>[^\]#]*)\])?", re.IGNORECASE)
_OUR_CODE = regex(r"DEV\d\w*")
_ANY_CODE = regex(r"[A-Z]+\d*", re.IGNORECASE)
# The forms of our own; `cuda-only` is no suppression, but what rules about portability ask for.
_FORMS = ("ignore", "off", "on", "skip-file", "cuda-only")
# What others call them.
_MEANT = {
    **dict.fromkeys(
        ("disable", "disable-line", "ignore-line", "noqa", "nolint", "suppress", "allow", "skip"), "ignore"
    ),
    **dict.fromkeys(("disable-next-line", "ignore-next-line", "disable-next", "ignore-next"), "ignore"),
    **dict.fromkeys(("disable-file", "ignore-file", "file-ignore", "noqa-file", "skipfile", "exclude"), "skip-file"),
    **dict.fromkeys(("enable", "end", "stop", "resume"), "on"),
    **dict.fromkeys(("begin", "start", "pause", "disable-begin"), "off"),
}
# Codes where the brackets should be: `ignore DEV101`, `ignore=DEV101`, `ignore[DEV101`.
_UNBRACKETED = regex(r"\s*[=:(\[]|\s+DEV\d")
# A noqa without its colon, which other linters take for a bare one; and words that look like it.
_BARE_NOQA = regex(r"#\s*noqa(?:\s|\s?[\[(=-]|:\s?[\[(])\s?(?P<codes>DEV\d+)", re.IGNORECASE)
_ALMOST_NOQA = regex(r"#\s*(?P<form>[\w-]{3,6})\s?:\s?(?P<codes>DEV\d+)", re.IGNORECASE)
# Beyond the last line of any file.
_END = 1 << 60
# Up to so many lines, each of them is looked up.
_A_FEW_LINES = 8

# Findings that no comment switches off: the file couldn't be linted, or a fix failed.
_NOT_SUPPRESSED = frozenset({"DEV000", "DEV003"})
# Codes that are switched off with others: what was one rule once.
_WITH = {"DEV107": frozenset({"DEV105", "created-then-moved"})}
# What is reported about markers themselves.
_ABOUT_MARKERS = frozenset({"DEV001", "DEV002"})


@record(slots=True)
class _Marker:
    """One suppression comment."""

    # An `extra` one is another check's comment, which the settings name.
    kind: Literal["noqa", "ignore", "off", "skip-file", "extra"]
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
    # Where it ends for some of its codes; "" is all of them.
    ends: dict[str, int] = field(default_factory=dict)
    # What goes with it: the comment that ends it alone.
    also_removed: tuple[Span, ...] = ()
    # The codes that have taken a finding.
    used: set[str] = field(default_factory=set)

    def takes(self, finding: Finding, last_line: int) -> bool:
        """Whether it switches the finding off, which is noted. `last_line`: where the statement of the finding ends."""
        named = ("",) if self.codes is None else tuple(code for code in self.codes if _names(code, finding))
        takers = [code for code in named if self._reaches(code, finding, last_line)]
        self.used |= set(takers)
        return bool(takers)

    def _reaches(self, code: str, finding: Finding, last_line: int) -> bool:
        end = min(self.lines.stop, self.ends.get(code, _END))
        return self.lines.start <= last_line < end or (
            self.lines.start <= finding.span.end_line and finding.span.line < end
        )


def _names(code: str, finding: Finding) -> bool:
    """Whether a word in a comment speaks of a finding: its code, the beginning of it, or its name."""
    if code == finding.name or code in _WITH.get(finding.code, ()):
        return True
    return finding.code.startswith(code) and _ANY_CODE.fullmatch(code) is not None


@record(frozen=True, slots=True)
class _Amiss:
    """A comment that is no form of ours, though it was meant for one; or one that ends nothing."""

    code: Literal["DEV001", "DEV002"]
    span: Span
    message: str
    hint: str | None = None
    removal: Span | None = None


class Suppressions:
    """The suppression comments of one source."""

    def __init__(
        self,
        markers: Sequence[_Marker],
        statement_ends: dict[int, int],
        *,
        skip_file: bool = False,
        amiss: Sequence[_Amiss] = (),
    ) -> None:
        self.skip_file = skip_file
        self._markers = markers
        # By the lines of those that take a few: a file may have as many comments as findings.
        self._by_line: dict[int, list[_Marker]] = {}
        self._wide = [marker for marker in markers if len(marker.lines) > _A_FEW_LINES]
        for marker in markers:
            for line in marker.lines if len(marker.lines) <= _A_FEW_LINES else ():
                self._by_line.setdefault(line, []).append(marker)
        self._amiss = amiss
        self._statement_ends = statement_ends

    def apply(
        self, findings: Iterable[Finding], *, path: str, enabled: frozenset[str], registry: Registry
    ) -> list[Finding]:
        """The findings without those that a comment switches off, with DEV001 and DEV002 for comments that are amiss.

        To be called with the findings of every confidence, or comments would look unused. `path` is the display path
        for new findings; `enabled` holds the codes that this run reports.
        """
        for marker in self._markers:
            marker.used.clear()
        kept = [finding for finding in findings if not self._suppress(finding)]
        for marker in self._markers:
            if marker.kind == "extra":
                continue
            about = [*_unknown(marker, path, registry), *_unused(marker, path, enabled, registry)]
            kept += [f for f in about if f.code in enabled and not (marker.codes and f.code in marker.codes)]
        return kept + [f for amiss in self._amiss if (f := _told(amiss, path, registry)) and f.code in enabled]

    def _suppress(self, finding: Finding) -> bool:
        """Whether a comment takes the finding; each one that does is marked as used."""
        if finding.code in _NOT_SUPPRESSED:
            return False
        last_line = self._statement_ends.get(finding.span.line, finding.span.end_line)
        lines = {*range(finding.span.line, finding.span.end_line + 1), last_line}
        near = {id(m): m for line in lines for m in self._by_line.get(line, ())}
        return bool([marker for marker in (*self._wide, *near.values()) if marker.takes(finding, last_line)])


def read_suppressions(source_text: str, extra: Sequence[tuple[str, tuple[str, ...]]] = ()) -> Suppressions:
    """The suppression comments of a Python text; those before the first token that can't be read, if there is one.

    `extra` holds the comments of other checks that count as well, each with its codes.
    """
    others = [(_pattern_of(comment), codes) for comment, codes in extra]
    if not _HINT.search(source_text) and not any(pattern.search(source_text) for pattern, _ in others):
        return Suppressions((), {})
    comments, statements, code_lines = _tokens_of(source_text)
    statement_ends = {line: last for first, last in statements for line in range(first, last + 1)}
    ours = [form for comment in comments for form in _forms_in(comment)]
    markers = [marker for comment in comments for marker in _noqa_in(comment)]
    markers += [marker for form in ours if (marker := _marker_of(form, statement_ends, code_lines)) is not None]
    markers += [marker for comment in comments for marker in _extra_in(comment, others)]
    amiss = [*_misspelt(comments, ours), *_end_ranges(markers, ours)]
    skip_file = any(form.is_proper and form.form == "skip-file" and form.match["codes"] is None for form in ours)
    return Suppressions(markers, statement_ends, skip_file=skip_file, amiss=amiss)


@record(frozen=True, slots=True)
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


class _Form(NamedTuple):
    """What stands behind `# devlint:` in a comment."""

    comment: _Comment
    match: re.Match[str]
    form: str
    is_proper: bool


def _forms_in(comment: _Comment) -> Iterable[_Form]:
    for match in _OURS.finditer(comment.text):
        form = match["form"].lower()
        codes_elsewhere = match["codes"] is None and _UNBRACKETED.match(comment.text, match.end()) is not None
        yield _Form(comment, match, form, form in _FORMS and not codes_elsewhere)


def _noqa_in(comment: _Comment) -> Iterable[_Marker]:
    for match in _NOQA.finditer(comment.text):
        lines = range(comment.line, comment.line + 1)
        yield _Marker("noqa", _codes_of(match["codes"]), lines, *_spans(comment, match), match["codes"] or "")


def _marker_of(form: _Form, ends: dict[int, int], code_lines: list[int]) -> _Marker | None:
    """The suppression that a comment of our own is; None for what is none, or isn't one of some codes."""
    comment, match, kind, is_proper = form
    codes = _codes_of(match["codes"])
    if not is_proper or kind not in ("ignore", "off", "skip-file") or (kind == "skip-file" and codes is None):
        return None
    lines = range(1, _END) if kind == "skip-file" else range(comment.line, _END if kind == "off" else comment.line + 1)
    if kind == "ignore" and comment.alone:
        lines = _next_statement(comment.line, ends, code_lines)
    # mypy doesn't narrow a string to one of a few.
    named: Any = kind
    return _Marker(named, codes, lines, *_spans(comment, match), match["codes"] or "")


def _codes_of(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(_canonical(code) for code in re.split(r"[,\s]+", text) if code)


def _end_ranges(markers: Iterable[_Marker], ours: Iterable[_Form]) -> Iterable[_Amiss]:
    """Ends each range of `off` at its `on`, which is amiss where it ends none."""
    ranges = [marker for marker in markers if marker.kind == "off"]
    for comment, match, form, is_proper in ours:
        if form != "on" or not is_proper:
            continue
        codes = _codes_of(match["codes"])
        span, removal, _ = _spans(comment, match)
        ended = [m for m in ranges if m.lines.start < comment.line and _is_ended(m, codes, comment.line)]
        if len(ended) == 1:
            ended[0].also_removed += (removal,)
        if not ended:
            yield _Amiss("DEV001", span, "this comment ends nothing: no `# devlint: off` is open", removal=removal)


def _is_ended(marker: _Marker, codes: tuple[str, ...] | None, line: int) -> bool:
    """Whether a range is open still, of the codes of an `on`, which then ends it there."""
    own = marker.codes or ("",)
    open_ones = [code for code in own if code not in marker.ends and (codes is None or code in codes)]
    marker.ends |= dict.fromkeys(open_ones, line)
    return bool(open_ones)


def _misspelt(comments: Iterable[_Comment], ours: Iterable[_Form]) -> Iterable[_Amiss]:
    """DEV002 for what was meant for a suppression and is none, with the form that it was meant for."""
    for form in ours:
        if not form.is_proper:
            span = _spans(form.comment, form.match)[0]
            written = form.comment.text[form.match.start() : span.end_column - 1 - form.comment.column]
            yield _Amiss("DEV002", span, f"`{written}` is no suppression that devlint knows", _meant_by(form, written))
    for comment in comments:
        for pattern in (_BARE_NOQA, _ALMOST_NOQA):
            match = pattern.search(comment.text)
            if match is None or (pattern is _ALMOST_NOQA and not _is_almost_noqa(match["form"])):
                continue
            said = (
                f"this comment switches off all codes, not {match['codes']} alone"
                if pattern is _BARE_NOQA
                else f"`{match[0]}` is no suppression that devlint knows"
            )
            yield _Amiss("DEV002", _spans(comment, match)[0], said, f"did you mean '# noqa: {match['codes'].upper()}'?")


def _is_almost_noqa(word: str) -> bool:
    import difflib

    return word.lower() != "noqa" and difflib.SequenceMatcher(None, word.lower(), "noqa").ratio() > 0.7


def _meant_by(form: _Form, written: str) -> str:
    """The form that a comment was meant for, as advice."""
    import difflib

    plain = form.form.replace("_", "-")
    word = next(iter(difflib.get_close_matches(plain, [*_FORMS, *_MEANT], n=1, cutoff=0.75)), "")
    meant = "off" if word == "disable" and form.comment.alone else _MEANT.get(word, word)
    if not meant:
        return "write '# devlint: ignore[CODE]', 'off[CODE]' and 'on', or 'skip-file[CODE]'"
    codes = ", ".join(code.upper() for code in re.findall(r"\bDEV\d+", written, re.IGNORECASE))
    return f"did you mean '# devlint: {meant}{f'[{codes}]' if codes else ''}'?"


def _told(amiss: _Amiss, path: str, registry: Registry) -> Finding | None:
    rule = registry.outline(amiss.code)
    if rule is None:
        return None
    fix = Fix("remove the comment", "safe", (Edit(amiss.removal, ""),)) if amiss.removal else None
    return Finding(rule.code, rule.name, amiss.message, path, amiss.span, hint=amiss.hint, fix=fix)


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


# Where another comment begins behind one; `#12` is an issue that a reason names.
_ANOTHER = regex(r"(?<=\s)#(?!\d)|#(?=\s)")


def _spans(comment: _Comment, match: re.Match[str]) -> tuple[Span, Span, Span | None]:
    """Where a marker stands, what goes with it when it is removed, and where its codes stand."""
    line, zero = comment.line, comment.column + 1
    found = _ANOTHER.search(comment.text, match.end())
    following = found.start() if found is not None else -1
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


def _rules_of(code: str, registry: Registry) -> list[type[Rule]]:
    """The rules that a code, the beginning of one, or a name in a comment speaks of."""
    found = registry.outline(code)
    if found is not None:
        return [found]
    is_code = _ANY_CODE.fullmatch(code) is not None
    return [rule for rule in registry.outlines() if is_code and rule.code.startswith(code)]


def _unknown(marker: _Marker, path: str, registry: Registry) -> Iterable[Finding]:
    """DEV002 for each code of ours that no rule has."""
    rule = registry.outline("DEV002")
    for code in marker.codes or ():
        ours = marker.kind != "noqa" or _OUR_CODE.fullmatch(code)
        if rule is None or not ours or _rules_of(code, registry):
            continue
        known = [
            word for known in registry.outlines() for word in (known.code, *[known.name] * (marker.kind != "noqa"))
        ]
        message = f"no rule is called '{code}', so this comment switches nothing off for it"
        hint = nearest(code, known).removeprefix("; ") or None
        yield Finding(rule.code, rule.name, message, path, marker.codes_span or marker.span, hint=hint)


def _unused(marker: _Marker, path: str, enabled: frozenset[str], registry: Registry) -> Iterable[Finding]:
    """DEV001 for a comment of which all or some codes take no finding."""
    rule = registry.outline("DEV001")
    if rule is None:
        return
    removal = tuple(Edit(span, "") for span in (marker.removal, *marker.also_removed))
    if marker.codes is None:
        # A bare noqa is for all linters; a bare ignore may be for a rule that isn't on in this run.
        everything = {known.code for known in registry.outlines() if known.default} <= enabled
        if marker.kind != "noqa" and not marker.used and everything:
            fix = Fix("remove the comment", "safe", removal)
            yield Finding(rule.code, rule.name, "this comment switches nothing off", path, marker.span, fix=fix)
        return
    unused: list[str] = []
    kept: list[str] = []
    for code in marker.codes:
        rules = _rules_of(code, registry)
        # The beginning of a code may be there for opt-in rules, too.
        looked_for = {r.code for r in rules if r.default} or {r.code for r in rules}
        looked_for -= _ABOUT_MARKERS | _NOT_SUPPRESSED
        idle = bool(looked_for) and looked_for <= enabled and code not in marker.used
        twice = bool(rules) and code in kept
        (unused if idle or twice else kept).append(code)
    if marker.codes and not unused:
        return
    names = f"nothing of {', '.join(unused)}" if unused else "nothing: it names no code"
    if kept and marker.codes_span:
        separator = ", " if ", " in marker.codes_text else "," if "," in marker.codes_text else " "
        fix = Fix(f"keep only {', '.join(kept)}", "safe", (Edit(marker.codes_span, separator.join(kept)),))
    else:
        fix = Fix("remove the comment", "safe", removal)
    yield Finding(rule.code, rule.name, f"this comment switches off {names}", path, marker.span, fix=fix)
