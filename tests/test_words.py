"""Words that a text must have for an expression to match it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devlint.rule import load_registry
from devlint.words import Vocabulary, alternatives

ROOT = Path(__file__).parent.parent
PATTERNS = sorted(
    {p for rule in load_registry().rules() for p in (rule.trigger, rule.alias, *rule.needs) if p and p != r"(?!)"}
)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"\.to\s*\(", [" to "]),
        (r"load_state_dict|\bcuda\b", ["load_state_dict", " cuda "]),
        (r"torch\.(?:cuda|xpu)\.item", ["torch "]),
        (r"(?:is_available|device_count)\(", ["device_count ,is_available "]),
        (r"foo(?:bar)", ["foobar"]),
        (r"foo(bar)?baz", ["foo"]),
        (r"(?:abc)*x", [None]),
        (r"(?:abc){2,3}", ["abc"]),
        (r"(?:abc){0,3}", [None]),
        (r"(?:abc){,3}", [None]),
        (r"abc?|longer+", ["ab", "longe"]),
        (r"[abc]+\d\w", [None]),
        (r"(?:one|[xy])z", [None]),
        (r"(?P<name>word)\s(?P=name)", ["word "]),
        (r"(a)?(?(1)yes|no)", [None]),
        (r"pin(?=_memory)", ["pin"]),
        (r"(?<!\w)half(?!_)\b", ["half "]),
        (r"no(?!)way", [""]),
        (r"MiXed", ["mixed"]),
        (r"a_\_b", ["a__b"]),
        (r"[|(]x|yy", [None, "yy"]),
        (r"\(item\)", [" item "]),
        (r"(?#note)word", ["word"]),
        (r"\b(?:np|numpy|\w*pd)\.\w", [" np , numpy ,pd "]),
        (r"(?:[(=]|\belse\s)\s*(?:cpu|meta)\d*\s*\)", [" cpu, meta"]),
        (r"^import\b|from$", [" import ", "from "]),
        (r"=?word=?|=?\bword\b=?", ["word", " word "]),
        (r"(?:one|two=)(?:,\s*)+three", [" three"]),
        (r"(?:=one)+|(?:=word=){2}", [" one", " word "]),
        (r"[^=]one[=-z]|[=\w]two[\s,]", ["one", "two "]),
        (r"(?x)one two", ["one"]),
    ],
)
def test_words_are_read_off_an_expression(pattern, words):
    re.compile(pattern)
    found = [part.words for part in alternatives(pattern)]
    assert found == [None if w is None else frozenset(filter(None, w.encode().split(b","))) for w in words]


@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("pattern", PATTERNS)
@given(data=st.data())
def test_what_an_expression_matches_has_one_of_its_words(pattern, data):
    for part in alternatives(pattern):
        if part.words is not None:
            expression = re.compile(part.expression.pattern.decode(), re.ASCII)
            text = data.draw(st.from_regex(expression, alphabet=st.characters(codec="ascii")))
            assert Vocabulary(text.encode()).has_one(part.words)


def test_nothing_private_of_re_is_used():
    modules = [*ROOT.glob("devlint/**/*.py"), *ROOT.glob("rules/**/*.py")]
    private = re.compile(r"from re import _|\bre\._[a-z]|\bsre_(?:parse|constants|compile)\b")
    assert [m for m in modules if private.search(m.read_text("utf-8"))] == []
