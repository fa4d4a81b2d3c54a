"""Blocks of Python in Markdown and reStructuredText pages: found, told on their lines, fixed in place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from test_cli import devlint, write

from devlint.disk import FileError
from devlint.files import source_from_bytes
from devlint.markup import read_page

MARKDOWN = """\
# Use

```python
import torch

x = torch.ones(3)
x.to("cuda")  # <-
```

> ```py title="quoted.py"
>
> y = torch.ones(2)
> y.to("cuda")  # <-
> ```

- in a list

  ```{.python .numberLines}
  if x is not None:
      z = torch.ones(2)
      z.to("cuda")  # <-
  ```

```{code-block} python
:linenos:
v = torch.ones(1)
v.to("cuda")  # <-
```

```pycon
>>> w = torch.ones(2)
>>> w.to("cuda")  # <-
tensor([1., 1.])
>>> for i in [1]:
...     w.cuda()
```

```python
this is no Python of torch's
```

```console
x.to("cuda")
```

    x.to("cuda")  # an indented block names no language
"""
RESTRUCTURED = """\
Use
===

.. code-block:: python
   :linenos:
   :caption: a.py

   import torch

   def f():
       x = torch.ones(3)

       x.to("cuda")  # <-

.. note::

   .. code:: python3

      y = torch.ones(2)
      y.to("cuda")  # <-

.. code-block:: c

   x.to("cuda");

.. highlight:: console

.. code::

   $ x.to("cuda")

.. testcode:: python

\tz = torch.ones(1)
\tz.to("cuda")  # <-"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def found(*arguments: str) -> list[tuple[int, int]]:
    """Line and column of all findings, each a dropped move."""
    entries = json.loads(devlint(*arguments, "--output-format", "json").stdout)
    assert {entry["code"] for entry in entries} <= {"DEV101"}
    return [(entry["line"], entry["column"]) for entry in entries]


def marked(text: str) -> list[tuple[int, int]]:
    """Line and column of the calls that a page marks as bugs."""
    calls = (
        (at, re.search(r"\w\.(?:to|cuda)\(", line)) for at, line in enumerate(text.splitlines(), 1) if "# <-" in line
    )
    return [(at, call.start() + 1) for at, call in calls]


def test_findings_stand_on_the_lines_and_columns_of_the_page():
    for name, text in (("page.md", MARKDOWN), ("page.rst", RESTRUCTURED)):
        write(name, text)
        assert found(name) == marked(text)
    assert (len(marked(MARKDOWN)), len(marked(RESTRUCTURED))) == (5, 3)


def test_notes_and_text_reports_speak_of_the_page_too():
    write("page.md", MARKDOWN)
    report = devlint("page.md").stdout
    assert 'page.md:13:3: DEV101 [discarded-move] `y.to("cuda")`' in report
    assert '13 | y.to("cuda")' in report
    assert "note: created on cpu by `torch.ones` (page.md:12:7)" in report
    assert devlint("where", "page.md:13").stdout.startswith('page.md:13\n13 | y.to("cuda")')
    assert devlint("where", "page.md:2").stderr == "error: page.md:2: no line of Python is there\n"


def test_folders_are_searched_for_pages_when_it_is_asked_for():
    write("docs/page.md", MARKDOWN)
    write("docs/page.rst", RESTRUCTURED)
    write("docs/notes.markdown", MARKDOWN)
    assert devlint("docs").stdout == "All checks passed!\n"
    assert devlint("docs", "--markdown", "--show-files").stdout.split() == [
        "docs/notes.markdown",
        "docs/page.md",
        "docs/page.rst",
    ]
    assert len(found("docs", "--markdown")) == 5 + 3 + 5
    write("devlint.toml", "markdown = true")
    assert len(found("docs")) == 13


def test_a_fix_changes_its_lines_alone():
    for name, text in (("page.md", MARKDOWN), ("page.rst", RESTRUCTURED), ("dos.md", MARKDOWN.replace("\n", "\r\n"))):
        write(name, text)
        devlint(name, "--fix")
        # All that is marked, but for sessions.
        expected = re.sub(r"(?<!>>> )(\w)(\.to\(.*# <-)", r"\1 = \1\2", text)
        assert Path(name).read_bytes().decode() == expected


def test_lines_that_a_fix_adds_stand_as_the_others_do():
    before = (
        "> - quoted\n>\n>   ```python\n>   import torch\n>   from torch import nn\n>\n"
        ">   class Net(nn.Module):\n>       def __init__(self):\n>           super().__init__()\n"
        ">           self.scale = torch.ones(1)\n>\n>       def forward(self, x):\n>           return x * self.scale\n"
        ">   ```\n\nmore\n\n```python\nx = torch.ones(3)\nx.to('cuda')\n```\n"
    )
    write("page.md", before)
    devlint("page.md", "--fix", "--unsafe-fixes", "--config", "extend-unsafe-fixes=['DEV103']")
    after = Path("page.md").read_text()
    assert "x = x.to('cuda')\n" in after
    assert "\n>           self.register_buffer(" in after
    quoted = after.split("\n\nmore")[0].splitlines()
    assert all(line.startswith(">   ") or not line.strip("> -quoted") for line in quoted)


def test_a_session_is_told_and_not_fixed():
    write("page.md", "```pycon\n>>> import torch\n>>> x = torch.ones(1)\n>>> x.to('cuda')\n```\n")
    done = devlint("page.md", "--fix")
    assert done.stdout.endswith("Found 1 error in 1 file\n")
    assert Path("page.md").read_text().count(">>> x.to") == 1


def test_what_says_that_it_is_python_and_is_not_is_told():
    write("page.md", MARKDOWN)
    line = MARKDOWN.splitlines().index("this is no Python of torch's") + 1
    assert devlint("page.md").stderr == (
        f"warning: page.md: what isn't valid Python in its blocks of code was passed over (line {line})\n"
    )


def test_comments_suppress_and_the_standard_input_may_be_a_page():
    text = MARKDOWN.replace("# <-", "# noqa: DEV101", 1)
    done = devlint("-", "--stdin-filename", "page.md", "--output-format", "json", stdin=text)
    assert json.loads(done.stdout)[0]["line"] == 13
    fixed = devlint("-", "--stdin-filename", "page.md", "--fix", stdin=text).stdout
    assert '> y = y.to("cuda")' in fixed


@pytest.mark.parametrize(
    "text", ["", "no code\n", "```python\n```\n", "```python\n\n\n```\n", "```python\nx = 1", "\ufeff# a\n"]
)
@pytest.mark.parametrize("name", ["p.md", "p.rst"])
def test_pages_without_code_come_back_as_they_were(name, text):
    source = source_from_bytes(text.encode(), None, name)
    assert source.to_bytes() == text.encode()
    assert len(source.lines) <= len(text.removeprefix("\ufeff").splitlines())


def test_an_edit_outside_of_the_blocks_is_refused():
    page, code = read_page(MARKDOWN, "page.md")
    assert page.with_code(code) == MARKDOWN
    with pytest.raises(FileError, match="cross the blocks"):
        page.with_code("import os\n" + code)
    with pytest.raises(FileError, match="cross the blocks"):
        page.with_code(code.replace("# %% devlint block 1", ""))
