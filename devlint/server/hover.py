"""What the editor shows of what the pointer is on: a value's kind, place and trail, a signature, a rule's page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lsprotocol import types

from devlint.findings import Span
from devlint.regexes import regex
from devlint.reports import place_of
from devlint.rule import Registry
from devlint.server.documents import Snapshot
from devlint.server.positions import uri_of
from devlint.where import Known, known_at

if TYPE_CHECKING:
    from devlint.placement.model import PlacementModel
    from devlint.source.modules import FunctionModel

_CODE = regex(r"\b[A-Z]+[0-9]{3,4}\b", re.IGNORECASE)
# Where a comment begins that may name codes; a `#` in a string before it does no harm here.
_COMMENT = regex(r"#\s*(?:noqa|devlint)\b", re.IGNORECASE)

_BEFORE = "*As it was while the text was valid Python.*"


def rule_at(snapshot: Snapshot, line: int, column: int, registry: Registry) -> tuple[Span, str] | None:
    """The code in a comment at a place, and its rule's page as Markdown."""
    text = snapshot.source.lines[line - 1] if line <= len(snapshot.source.lines) else ""
    comment = _COMMENT.search(text)
    for code in _CODE.finditer(text, comment.start()) if comment is not None else ():
        rule = registry.find(code[0].upper())
        if rule is not None and code.start() < column <= code.end() + 1:
            return Span(line, code.start() + 1, line, code.end() + 1), rule.page()
    return None


def value_at(
    model: PlacementModel, line: int, column: int, snapshot: Snapshot, kept: Mapping[int, int] | None = None
) -> tuple[Span, str] | None:
    """The expression at a place and what is known of it, as Markdown; on a line with `def`, the function's signature.

    `kept` says where the lines of the model's text are in the snapshot's, where that is another one.
    """
    found = known_at(model, line, column)
    if found is not None:
        said = [_shown(one, snapshot, kept) for one in found.known]
        if found.function is not None:
            said += _of_function(found.function, model, snapshot, kept)
        return (found.span, "\n\n".join(said)) if said else None
    signature = model.signature_at(line)
    if not signature:
        return None
    text = snapshot.source.lines[(kept[line] if kept is not None else line) - 1].rstrip("\r\n")
    start = len(text) - len(text.lstrip())
    return Span(line, start + 1, line, len(text) + 1), _as_block(signature)


def _of_function(
    function: FunctionModel, model: PlacementModel, snapshot: Snapshot, kept: Mapping[int, int] | None
) -> list[str]:
    """The signature of a function of the project, and where it stands."""
    place = _link(str(function.source.path), function.node.lineno, snapshot, kept)
    return [_as_block(model.signature_of(function)), f"defined in {place}"]


def _as_block(lines: Iterable[str]) -> str:
    return "```text\n" + "\n".join(lines) + "\n```"


def last_known_at(
    model: PlacementModel, kept: Mapping[int, int], line: int, column: int, snapshot: Snapshot
) -> tuple[Span, str] | None:
    """The same of a text that isn't Python now, as its last sound one had it; `kept` has where lines of that one are now."""
    before = next((old for old, new in kept.items() if new == line), None)
    found = value_at(model, before, column, snapshot, kept) if before is not None else None
    if before is None or found is None:
        return None
    span, text = found
    here = replace(span, line=span.line + line - before, end_line=span.end_line + line - before)
    return here, f"{text}\n\n{_BEFORE}"


def _shown(known: Known, snapshot: Snapshot, kept: Mapping[int, int] | None) -> str:
    steps = [f"- {message} ({_link(path, at, snapshot, kept)})" for message, path, at in known.trail]
    if known.why:
        steps.append(f"- {known.why}")
    return "\n".join([f"`{known.text}`: {known.said}", *([""] if steps else []), *steps])


def _link(path: str, line: int, snapshot: Snapshot, kept: Mapping[int, int] | None) -> str:
    """A line as a link that the editor follows; in a notebook, by its cell."""
    is_here = path == str(snapshot.source.path or snapshot.display) or Path(path).name == snapshot.display
    if is_here and kept is not None:
        if line not in kept:
            return "a line that isn't there now"
        line = kept[line]
    if not is_here or snapshot.source.notebook is None:
        # What was never saved stands in no file.
        uri = uri_of(path) if not is_here or snapshot.path is not None else snapshot.uri
        return f"[{Path(path).name}:{line}]({uri}#L{line})"
    place = place_of(snapshot.source, line, 1)
    uri, _ = snapshot.range(Span(line, 1, line, 1))
    # Most editors tell cells of one notebook apart by what stands behind the `#`, which has no room for a line then.
    at = "" if urlsplit(uri).fragment else f"#L{place.line}"
    return f"[cell {place.cell}:{place.line}]({uri}{at})"


def as_hover(snapshot: Snapshot, found: tuple[Span, str], *, markdown: bool) -> types.Hover:
    """What was found, in the form that the editor can show."""
    span, text = found
    _, range = snapshot.range(span)
    if markdown:
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), range)
    text = text.replace(_BEFORE, _BEFORE.strip("*"))
    plain = re.sub(r"\[([^\]]{0,300})\]\([^)]{0,300}\)", r"\1", text.replace("```text\n", "").replace("\n```", ""))
    return types.Hover(types.MarkupContent(types.MarkupKind.PlainText, plain), range)
