"""Notebooks as code and back."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from random import Random

import pytest

from devlint.disk import FileError
from devlint.engine import Linter
from devlint.files import Source, read_source, write_source
from devlint.findings import Span
from devlint.notebooks import read_notebook
from devlint.rule import load_registry
from devlint.settings import Settings

NOTEBOOK = r"""{
 "cells": [
  {"cell_type": "markdown", "metadata": {}, "source": ["# Training"]},
  {
   "cell_type": "code",
   "execution_count": 3,  "metadata": {"é": "\u00e9"},
   "outputs": [{"text": "kept   as is"}],
   "source": [
    "%matplotlib inline\n",
    "import torch\n",
    "x = torch.ones(3)  # \u00e9\n",
    "if x is not None:\n",
    "    !ls \\\n",
    "       -l\n",
    "files = !ls\n",
    "z = ('a %s'\n",
    "  % 3)\n",
    "torch?\n",
    "s = '''\n",
    "%no magic\n",
    "'''\n",
    "x.to('cpu')"
   ]
  },
  {"cell_type": "code", "source": "%%bash\nls", "metadata": {}},
  {"cell_type": "code", "source": [], "metadata": {}},
  {"cell_type": "code", "source": "%%time\nx.to('\u00e9')\n", "metadata": {}}
 ],
 "metadata": {"kernelspec": {"language": "python"}},
 "nbformat": 4
}
"""


def open_notebook(folder: Path, text: str = NOTEBOOK) -> Source:
    file = folder / "n.ipynb"
    file.write_bytes(text.encode())
    return read_source(file, "n.ipynb")


def cells(text: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]


def test_code_is_python_and_goes_back_unchanged(tmp_path):
    source = open_notebook(tmp_path)
    ast.parse(source.text)
    assert "%no magic" in source.text
    assert "  % 3)" in source.text
    assert "!ls" not in source.text
    assert "bash" not in source.text
    assert source.to_bytes() == NOTEBOOK.encode()


def test_lines_are_located_in_their_cells(tmp_path):
    source = open_notebook(tmp_path)
    assert source.notebook is not None

    def where(text: str) -> tuple[int, int]:
        return source.notebook.locate(next(n for n, line in enumerate(source.lines, 1) if text in line))

    assert where("import torch") == (2, 2)
    assert where("x.to('cpu')") == (2, 14)
    assert where("x.to('é')") == (5, 2)


def test_only_the_edited_lines_change(tmp_path):
    source = open_notebook(tmp_path)
    write_source(source.with_text(source.text.replace("x.to('cpu')", "x = x.to('cpu')")), source)
    assert (tmp_path / "n.ipynb").read_bytes() == NOTEBOOK.replace("x.to('cpu')", "x = x.to('cpu')").encode()


def test_added_and_removed_lines(tmp_path):
    source = open_notebook(tmp_path)
    edited = "import os\n" + source.text.replace("x.to('cpu')\n", "").replace("x.to('é')", "x = 1\ny = 2")
    text = source.with_text(edited).to_bytes().decode()
    before, after = cells(NOTEBOOK), cells(text)
    assert after[1] == "import os\n" + before[1].removesuffix("\nx.to('cpu')")
    assert after[4] == "%%time\nx = 1\ny = 2\n"
    assert [after[0], *after[2:4]] == [before[0], *before[2:4]]
    assert '"execution_count": 3,  "metadata": {"é": "\\u00e9"},' in text
    assert '   "source": [\n    "import os\\n",\n    "%matplotlib inline\\n",\n' in text


def test_an_edit_may_not_cross_cells(tmp_path):
    source = open_notebook(tmp_path)
    assert source.notebook is not None
    markers = [n for n, line in enumerate(source.lines, 1) if line.startswith("# %% devlint cell")]
    second = markers[1]
    can_edit = source.notebook.can_edit
    assert can_edit(Span(second + 1, 1, second + 2, 1))
    assert can_edit(Span(second - 1, 3, second, 1))
    assert can_edit(Span(1, 1, 1, 1))
    assert not can_edit(Span(second - 1, 3, second + 1, 2))
    assert not can_edit(Span(second, 3, second, 4))
    with pytest.raises(FileError, match="cross the cells"):
        source.with_text("".join(source.lines[: second - 1] + source.lines[second:])).to_bytes()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": 3}', '{"cells": [{}]}', '{"cells": [1]}', "\ufeff"])
def test_what_is_no_notebook(tmp_path, text):
    with pytest.raises(FileError, match="isn't a Jupyter notebook"):
        open_notebook(tmp_path, text)


def test_other_languages_and_no_cells(tmp_path):
    assert open_notebook(tmp_path, NOTEBOOK.replace('"python"', '"julia"')).text == ""
    empty = open_notebook(tmp_path, '{"cells": [ ], "metadata": {}}')
    assert empty.text == ""
    assert empty.to_bytes() == b'{"cells": [ ], "metadata": {}}'


def test_bom_and_windows_line_ends_survive(tmp_path):
    raw = b"\xef\xbb\xbf" + NOTEBOOK.replace("\n", "\r\n").encode()
    (tmp_path / "n.ipynb").write_bytes(raw)
    source = read_source(tmp_path / "n.ipynb", "n.ipynb")
    edited = source.with_text(source.text.replace("x.to('cpu')", "x = x.to('cpu')"))
    assert edited.to_bytes() == raw.replace(b"x.to('cpu')", b"x = x.to('cpu')")


def test_cells_that_hold_our_own_markers(tmp_path):
    ours = NOTEBOOK.replace("import torch", "# %% devlint cell 5").replace("  % 3)", "  % 3)  # devlint magic 0")
    source = open_notebook(tmp_path, ours)
    edited = source.with_text(source.text.replace("x.to('cpu')", "x = x.to('cpu')"))
    assert edited.to_bytes() == source.to_bytes().replace(b"x.to('cpu')", b"x = x.to('cpu')")


def test_any_mixture_of_lines_goes_back_unchanged():
    random = Random(3)
    lines = ["x = 1\n", "%time y\n", "!ls \\\n", "'''\n", "f(\n", ")\n", "  % 3\n", "if x:\n", "  !ls\n", "z = !ls\n"]
    lines += [
        "a?\n",
        "\n",
        "é\n",
        "%%time\n",
        "%%bash\n",
        "x = '\\\n",
        '"\n',
        "x == !y\n",
        "x\x0cy\n",
        "x\u2028\n",
        "a\r\n",
    ]
    for _ in range(1000):
        cells = []
        for _ in range(random.randint(0, 4)):
            code = "".join(random.choices(lines, k=random.randint(0, 6)))
            code = code.removesuffix("\n") if random.random() < 0.3 else code
            source = code if random.random() < 0.5 else code.splitlines(keepends=True)
            cells.append({"cell_type": random.choice(["code", "markdown"]), "source": source})
        text = json.dumps({"cells": cells}, indent=random.choice([None, 1]), ensure_ascii=random.random() < 0.5)
        notebook, code = read_notebook(text)
        assert notebook.with_code(code) == text


def test_an_indented_magic_stays_in_its_block():
    cells = [{"cell_type": "code", "metadata": {}, "source": "if True:\n    x = !ls\n    %time y = 2\n"}]
    notebook, code = read_notebook(json.dumps({"cells": cells, "metadata": {}}))
    compile(code, "cell", "exec")
    assert notebook.with_code(code) == notebook.text


def test_a_notebook_that_says_nothing_of_devices_is_on_the_host(tmp_path: Path) -> None:
    """It holds all that calls its functions: where nothing is moved, nothing meets anything from elsewhere."""
    helper = "import torch\n\ndef smoothed(x):\n    return torch.exp(x) + torch.ones(4)\n"
    shown = {"quiet": "smoothed(torch.zeros(4))", "moved": "smoothed(load().cuda())"}
    found = {}
    for name, last in shown.items():
        cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in (helper, last)]
        path = tmp_path / f"{name}.ipynb"
        path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
        linter = Linter(Settings(root=tmp_path, src=(tmp_path,), select=("DEV203",)), load_registry())
        found[name] = [f.code for f in linter.every_finding(read_source(path, path.name))]
    assert found == {"quiet": [], "moved": ["DEV203"]}


def test_what_a_notebook_loads_to_look_at_is_results(tmp_path: Path) -> None:
    """Of those nobody knows where they are; the state of a model is where it was trained."""
    chosen = "import torch\nfrom torch import nn\n\ndevice = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
    (tmp_path / "train.py").write_text(
        f"{chosen}net = nn.Linear(2, 2).to(device)\ntorch.save(net.state_dict(), 'best.pt')\n"
    )
    shown = {
        "results": "name = 'resnet'\nfound = torch.load(f'{name}_model.pt')\nprint(found['scores'].mean())\n",
        "states": "state_dict = torch.load('best.pt')\nprint(state_dict['weight'].norm())\n",
        "whole": "checkpoint = torch.load('best.pt')\nmodel = checkpoint['model'].to(device)\n",
        "keys": "model = nn.Linear(2, 2).to(device)\nfound = torch.load('best.pt')\nprint(1)\nmodel.load_state_dict(found['net'])\n",
    }
    told = {}
    for name, source in shown.items():
        cells = [{"cell_type": "code", "metadata": {}, "source": chosen + source}]
        path = tmp_path / f"{name}.ipynb"
        path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
        linter = Linter(Settings(root=tmp_path, src=(tmp_path,)), load_registry())
        told[name] = [f.code for f in linter.check(read_source(path, path.name))]
    assert told == {"results": [], "states": ["DEV301"], "whole": ["DEV301"], "keys": ["DEV301"]}


def test_places_hold_after_a_fix_has_added_lines(tmp_path):
    cells = ["import os", "state = 1\nmodel = 2", "x = 3\ny = 4"]
    text = json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells], "metadata": {}})
    source = open_notebook(tmp_path, text)
    changed = source.with_text(source.text.replace("import os\n", "import os\nimport torch\n"))
    line = changed.lines.index("y = 4\n") + 1
    assert changed.notebook.locate(line) == (3, 2)
    assert not changed.notebook.can_edit(Span(line - 2, 1, line, 1))
    assert changed.notebook.can_edit(Span(line - 1, 1, line, 2))


def test_a_cell_that_is_half_written_takes_nothing_from_the_others(tmp_path):
    codes = ["import torch\n", "def f(:\n", "x = torch.ones(3)\nx.cuda()\n", "x.cuda(\n"]
    cells = [{"cell_type": "code", "metadata": {}, "source": code} for code in codes]
    source = open_notebook(tmp_path, json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    found = Linter(Settings(tmp_path), load_registry()).check(source)
    assert sorted((f.code, *source.notebook.locate(f.span.line)) for f in found) == [
        ("DEV000", 2, 1),
        ("DEV000", 4, 1),
        ("DEV101", 3, 2),
    ]
    assert all(f.fix is None for f in found)


def test_a_cell_that_ends_amid_a_statement_takes_nothing_from_those_behind_it(tmp_path):
    codes = ["import torch\n", "if torch.cuda.is_available():\n", "x = torch.ones(3)\nx.cuda()\n", "print(x)\n"]
    cells = [{"cell_type": "code", "metadata": {}, "source": code} for code in codes]
    source = open_notebook(tmp_path, json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    found = Linter(Settings(tmp_path), load_registry()).check(source)
    assert sorted((f.code, *source.notebook.locate(f.span.line)) for f in found) == [("DEV000", 2, 1), ("DEV101", 3, 2)]
    assert next(f.message for f in found if f.code == "DEV000").endswith("on line 1")
