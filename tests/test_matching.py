"""Shapes of our own mean what those of `libcst.matchers` mean."""

import subprocess
import sys
from pathlib import Path

import libcst as cst
import libcst.matchers as theirs
import pytest

from devlint.lazy import m as ours
from devlint.matching import Shape, among, original, preorder
from devlint.rule import Rule, load_registry


@pytest.fixture(scope="module")
def tree() -> cst.Module:
    pieces = []
    for path in (Path(__file__), Path(__file__).parents[1] / "rules/devlint_rules/hot_loops/dev501.py"):
        pieces.append(path.read_text())
    body = [s for text in [*pieces, _EXTRA] for s in cst.parse_module(text).body]
    return cst.Module(body)


_EXTRA = """
f(1, *a, num_workers=2, **k)
f("a" % b, f"cuda:{0}", "cuda:1", x.cuda().to(d), float(x))
x: int = 3
self.a = b = 4
if not a in b or c: pass
torch.cuda.is_available
"""
_SHAPES = {
    rule.code: rule for rule in load_registry().rules() if not rule.hears_only()
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(_SHAPES))
def test_the_rules_shapes(code: str, tree: cst.Module) -> None:
    rule: type[Rule] = _SHAPES[code]
    shape = rule().shape()
    assert isinstance(shape, Shape)
    found = among(preorder(tree), shape, tree)
    assert found == theirs.findall(tree, original(shape))
    assert found == ours.findall(tree, shape)


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.Call(args=[m.ZeroOrMore(), m.Arg(keyword=m.Name("num_workers")), m.ZeroOrMore()]),
        lambda m: m.Call(args=[m.AtLeastN(m.Arg(keyword=None), n=2), m.DoNotCare()]),
        lambda m: m.Call(m.Name(), [m.Arg(star="*") | m.Arg(m.Integer()), m.AtLeastN(n=1)]),
        lambda m: m.Name(m.MatchIfTrue(lambda text: len(text) == 1)),
        lambda m: m.OneOf(m.Name("a"), m.Name("b")) | m.Integer("3"),
        # What isn't ours.
        lambda m: m.Call(func=m.TypeOf(m.Name, m.Attribute)),
        lambda m: m.AllOf(m.Name(), m.Name("a")),
        lambda m: m.Call(args=[m.AtMostN(m.Arg(), n=1)]),
        lambda m: m.Arg(~m.Integer()),
    ],
)
def test_other_shapes(make, tree: cst.Module) -> None:
    found = ours.findall(tree, make(ours))
    assert found == theirs.findall(tree, make(theirs))
    assert found
    assert [n for n in found if ours.matches(n, make(ours))] == found


def test_parts_are_extracted(tree: cst.Module) -> None:
    call = ours.findall(tree, ours.Call(func=ours.Name("f")))[0]
    shape = ours.Call(func=ours.SaveMatchedNode(ours.Name(), "called"))
    assert ours.extract(call, shape) == {"called": call.func}


def test_a_finding_is_told_without_theirs(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('import torch\n\nx = torch.ones(3)\nx.to("cuda")\n')
    script = (
        "import sys\nfrom devlint.cli import main\nsys.argv = ['devlint', 'a.py', '--output-format', 'concise']\n"
        "try:\n    main()\nfinally:\n    print('libcst' in sys.modules, 'libcst.matchers' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "DEV101" in run.stdout
    assert run.stdout.splitlines()[-1] == "True False"


def test_pack_annotations_are_theirs() -> None:
    assert ours.BaseMatcherNode is theirs.BaseMatcherNode
