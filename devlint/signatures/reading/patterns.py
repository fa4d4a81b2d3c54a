"""Patterns of `match`: when a subject has one, and what it binds."""

from __future__ import annotations

import ast

from devlint.signatures.reading import comparing, types_asked
from devlint.signatures.reading.expressions import evaluate
from devlint.signatures.state.frame import Frame
from devlint.signatures.values.conditions import FALSE, TRUE, Condition
from devlint.signatures.values.values import (
    NOTHING,
    Value,
    constant,
)


def condition_of(frame: Frame, subject: Value, pattern: ast.pattern) -> Condition:
    """The condition that a subject has a pattern."""
    match pattern:
        case ast.MatchAs(pattern=None):
            return TRUE
        case ast.MatchAs(pattern=inner) if inner is not None:
            return condition_of(frame, subject, inner)
        case ast.MatchValue(value=value):
            return comparing.compared(frame, "==", subject, evaluate(frame, value))
        case ast.MatchSingleton(value=value):
            return comparing.compared(frame, "==", subject, constant(value))
        case ast.MatchOr(patterns=patterns):
            result = FALSE
            for one in patterns:
                result = frame.atoms.either(result, condition_of(frame, subject, one))
            return result
        case ast.MatchClass(cls=cls, patterns=[], kwd_patterns=[]):
            return types_asked.instance_of(frame, subject, (evaluate(frame, cls),))
    return frame.atoms.literal(("pattern", id(pattern), frame.reader.turn()))


def bind(frame: Frame, subject: Value, pattern: ast.pattern) -> None:
    """Binds what a pattern captures."""
    if isinstance(pattern, ast.MatchAs) and pattern.name is not None:
        frame.env[pattern.name] = subject
        return
    for inner in ast.walk(pattern):
        name = getattr(inner, "name", None) or getattr(inner, "rest", None)
        if name:
            frame.env[name] = NOTHING
