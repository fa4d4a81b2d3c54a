"""Slim trees: nodes of `ast` in every way that anybody asks about."""

import ast
import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

import devlint
from devlint.source.slim import by_kind, kinds, slimmed
from devlint.source.trees import children, own_nodes, walk

EVERYTHING = """
import a.b as c, d
from . import e
from f import *
@g(1, *h, k=2, **l)
async def m(n, /, o: int = 1, *p, q, r=None, **s) -> t:
    global u
    async with v as w, x: pass
    async for y in z: break
    else: continue
    await (yield), (yield from aa)
    return
def bare(): return None
class A(B, metaclass=C):
    D: int
    E: str = u"text"
    F = lambda *a, b=1: {**a, 1: 2, "c": [*d]}
try: raise G from H
except (I, J) as K: raise
except: assert L, f"{M!r:>{N}} {O=}"
finally: del P[Q:R, ::S, ...]
for i, (j, *k) in [l for l in m if n if o]: p += {q for q in r} | (s := t) - (not u and v or w < x <= y)
while a if b else c: d[e] = f.g = ~h ** 2
match i:
    case {"j": k, **l} | [1, *_] | M(n, o=None) if p: nonlocal_ = b"q"
    case None | _: pass
"""
TEXTS = [EVERYTHING, "", *(p.read_text(encoding="utf-8") for p in sorted(Path(devlint.__file__).parent.rglob("r*.py")))]


def both() -> Iterator[tuple[ast.Module, ast.Module]]:
    for text in TEXTS:
        yield ast.parse(text), slimmed(ast.parse(text))


def test_a_slim_tree_says_what_the_plain_one_says() -> None:
    for plain, slim in both():
        assert ast.dump(slim, include_attributes=True) == ast.dump(plain, include_attributes=True)
        assert ast.unparse(slim) == ast.unparse(plain)


def test_walks_come_to_the_same_nodes() -> None:
    def shown(nodes: list[ast.AST]) -> list[str]:
        return [ast.dump(node) for node in nodes]

    for plain, slim in both():
        assert shown(walk(slim)) == shown(walk(plain))
        assert shown(own_nodes(slim)) == shown(own_nodes(plain))
        assert shown(children(slim)) == shown(children(plain))


def test_copies_say_the_same() -> None:
    for plain, slim in both():
        assert ast.dump(copy.deepcopy(slim), include_attributes=True) == ast.dump(plain, include_attributes=True)


def test_nodes_are_of_the_kinds_of_ast() -> None:
    name = slimmed(ast.parse("x")).body[0].value  # type: ignore[attr-defined]
    assert isinstance(name, ast.Name)
    assert type(name) in kinds(ast.Name)
    assert by_kind({ast.Name: "a name", ast.Load: "a context"})[type(name)] == "a name"
    name.told = 1  # what is worked out of a node may be kept on it
    assert name.told == 1


@pytest.mark.parametrize("text", ["if a: pass\n" + "elif b: pass\n" * 2000, "x" + ".a" * 900])
def test_what_nests_deeply_is_a_tree_as_well(text: str) -> None:
    try:
        tree = ast.parse(text)
    except (RecursionError, MemoryError, SyntaxError):
        pytest.skip("Python's parser doesn't read it")
    assert len(walk(slimmed(tree))) == len(walk(ast.parse(text)))
