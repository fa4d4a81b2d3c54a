"""How the lines of fixes are laid out: no longer than the project lets lines be, and as its formatter lays them out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from devlint.engine import Linter
from devlint.files import read_source
from devlint.fixer import FixOutcome, fix
from devlint.rule import load_registry
from devlint.settings import Settings
from devlint.source.widths import shown_width, told_width

HEAD = "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, inputs, mask):\n"


def fixed(folder: Path, body: str, settings: str = "[tool.ruff]\nline-length = 88\n") -> FixOutcome:
    """What the fixes make of the body of a `forward`."""
    (folder / "pyproject.toml").write_text(settings)
    file = folder / "net.py"
    file.write_text(HEAD + "".join(f"        {line}\n" if line else "\n" for line in body.split("\n")))
    # Selected by its code, so that what is small is mended too.
    linter = Linter(Settings(root=folder, src=(folder,), extend_select=("DEV105",)), load_registry())
    return fix(read_source(file, file.name), linter, safety="unsafe")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return mask + torch.zeros(inputs.size(0), inputs.size(1), 3).to(mask.device)", id="fits"),
        pytest.param(
            "zeros = torch.zeros(inputs.size(0), inputs.size(1), inputs.size(2)).to(mask.device)\nreturn zeros + mask",
            id="its arguments fit a line",
        ),
        pytest.param(
            "zeros = torch.zeros(inputs.size(0), inputs.size(1), inputs.size(2), inputs.size(3)).to(\n"
            "    mask.device\n)\nreturn zeros + mask",
            id="one argument a line",
        ),
        pytest.param(
            "both = torch.cat(\n    [\n        mask,\n        torch.zeros(\n            inputs.size(0), inputs.size(1)).to(mask.device),\n    ]\n)\n"
            "return both",
            id="inside of a list",
        ),
        pytest.param(
            "padded = mask + torch.ones(inputs.size(0), inputs.size(1), inputs.size(2)).to(mask.device)\nreturn padded",
            id="behind an operator",
        ),
        pytest.param(
            "return inputs, mask, torch.zeros(inputs.size(0), inputs.size(1), 3).to(mask.device)", id="a tuple"
        ),
        pytest.param(
            "total = mask * 2 + torch.zeros(inputs.size(0), inputs.size(1)).to(mask.device) + inputs\nreturn total",
            id="two operators",
        ),
        pytest.param(
            "shown = torch.zeros(inputs.size(0), inputs.size(1)).to(mask.device) if mask.any() else inputs\n"
            "return shown",
            id="a choice",
        ),
        pytest.param(
            "zeros = (\n    torch.zeros(inputs.size(0), dtype=torch.long).to(mask.device).fill_(-100.0)\n)\n"
            "return zeros + mask",
            id="a value in brackets of its own",
        ),
        pytest.param(
            "return (\n    torch.zeros(inputs.size(0), dtype=torch.long).to(mask.device).fill_(-10000)\n)",
            id="what is returned in brackets of its own",
        ),
    ],
)
def test_a_formatted_file_stays_formatted(tmp_path, body):
    """ruff itself is asked: it changes nothing of what the fixes made."""
    ruff = [sys.executable, "-m", "ruff", "format", "--no-cache", "--line-length", "88"]
    before = subprocess.run([*ruff, "-"], input=_in_class(body), capture_output=True, text=True, check=True).stdout
    lines = before.removeprefix(HEAD).splitlines()
    outcome = fixed(tmp_path, "\n".join(line.removeprefix("        ") for line in lines))
    assert [finding.code for finding in outcome.applied] == ["DEV105"]
    done = subprocess.run([*ruff, "-"], input=outcome.source.text, capture_output=True, text=True, check=True)
    assert done.stdout == outcome.source.text
    assert max(map(len, outcome.source.text.splitlines())) <= 88


def _in_class(body: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in body.split("\n"))


LONG = "return mask + torch.zeros(inputs.size(0), inputs.size(1), inputs.size(2)).to(mask.device)"


def test_commas_stand_as_the_call_has_them(tmp_path):
    body = "zeros = torch.zeros(inputs.size(0),3).to(mask.device)\nreturn torch.ones((30,30), dtype = torch.long).to(mask.device) + zeros"
    text = fixed(tmp_path, body).source.text
    assert "torch.zeros(inputs.size(0),3,device=mask.device)" in text
    assert "torch.ones((30,30), dtype = torch.long, device = mask.device)" in text


@pytest.mark.parametrize(
    ("settings", "width"),
    [
        ("[tool.black]\n", 88),
        ("[tool.black]\nline-length = 115\n", 115),
        ("[tool.ruff]\nline-length = 79\n", 79),
        ("[tool.yapf]\ncolumn_limit = 80\n", 80),
    ],
)
def test_the_formatter_says_how_long(tmp_path, settings, width):
    outcome = fixed(tmp_path, LONG, settings)
    assert outcome.applied
    longest = max(map(len, outcome.source.text.splitlines()))
    assert 88 < longest <= 115 if width == 115 else longest <= width


def test_other_files_say_it_too(tmp_path):
    assert told_width({"setup.cfg": "[flake8]\nmax-line-length = 79\n"}) == 79
    assert told_width({"tox.ini": "[flake8]\nextend-ignore = E203,E501\n"}) is None
    assert told_width({".style.yapf": "[style]\nbased_on_style = pep8\ncolumn_limit = 80\n"}) == 80
    assert told_width({".pre-commit-config.yaml": "- repo: https://github.com/psf/black\n  rev: 24.1.0\n"}) == 88
    assert told_width({".pre-commit-config.yaml": "- repo: https://github.com/psf/black\n  args: [-l, '100']\n"}) == 100
    assert (
        told_width({".editorconfig": "root = true\n[*]\nmax_line_length = 80\n[*.py]\nmax_line_length = 100\n"}) == 100
    )
    assert told_width({".editorconfig": "[*.{js,py}]\nmax_line_length = off\n[*.md]\nmax_line_length = 70\n"}) is None
    # A formatter counts before a linter.
    assert told_width({"setup.cfg": "[flake8]\nmax-line-length = 79\n", "pyproject.toml": "[tool.black]\n"}) == 88
    # What can't be read says nothing.
    assert told_width({"pyproject.toml": "[tool", "setup.cfg": "no section", "ruff.toml": "line-length = 'x'"}) is None


def test_where_nothing_says_it_the_file_shows_it():
    lines = ["x = 1"] * 60
    assert shown_width("\n".join(lines)) == 88
    assert shown_width("\n".join([*lines, "x" * 95])) == 100
    assert shown_width("\n".join([*lines, "x" * 133])) == 133
    # Where several are, nobody minds if one gets a little longer.
    assert shown_width("\n".join([*lines, "x" * 133, "x" * 130, "x" * 160])) == 184
    assert shown_width("x = 1\n") == 100
    # Many lines that end right before PEP 8's width were broken there.
    assert shown_width("\n".join([*lines, *["x" * 77] * 9])) == 79
    assert shown_width("\n".join([*lines, *["x" * 77] * 9, "x" * 80])) == 80
    assert shown_width("\n".join([*lines, *["x" * 77] * 3])) == 88
    # Some that hold a text are longer, and were not.
    spoken = f'save(net, "{"a" * 40}", delimiter=delimiter, state=state)  '.rstrip()
    assert 80 < len(spoken) <= 88
    assert shown_width("\n".join([*lines, *["x" * 77] * 9, spoken, spoken])) == 88
    # One of more than a hundred got away.
    assert shown_width("\n".join([*lines, *lines, "x" * 110, "x" * 133])) == 120
    assert shown_width("\n".join([*lines, *lines, *["x" * 125] * 5])) == 125


def test_comments_and_texts_show_no_width():
    lines = ["x = 1"] * 60
    help_text = f"parser.add_argument('--rate', help='{'how fast it learns ' * 6}')"
    assert shown_width("\n".join([*lines, f"x = 1  # {'why ' * 40}", help_text, '"""', "page " * 40, '"""'])) == 88
    assert shown_width("\n".join([*lines, f"x = f(y, {'z, ' * 40})"])) > 120


def test_a_file_that_keeps_to_nothing_shows_its_own_width(tmp_path):
    (tmp_path / "setup.cfg").write_text("[flake8]\n")
    file = tmp_path / "main.py"
    linter = Linter(Settings(root=tmp_path, src=(tmp_path,)), load_registry())
    for long, width in ((2, 79), (8, 120)):
        file.write_text("x = 1\n" * 60 + f"y = {'x + ' * 25}x\n" * long)
        assert linter.width_of(read_source(file, file.name)) == width


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["'one'", "'two'", "'three'"], "'cpu'"),
        (["'one'", '"two"', "'three'"], '"cpu"'),
        (["'one'", "'two'", "'three'", "'four'", '"cpu"'], '"cpu"'),
        (["'one'"], "'cpu'"),
        (["1"], '"cpu"'),
    ],
)
def test_texts_stand_in_the_quotes_of_the_file(tmp_path, names, expected):
    file = tmp_path / "main.py"
    head = f"import sys\n\nimport torch\nfrom torch import nn\n\nnames = [{', '.join(names)}]\nnet = nn.Linear(2, 2)\n"
    file.write_text(f"{head}net.load_state_dict(torch.load(sys.argv[1]))\n")
    linter = Linter(Settings(root=tmp_path, src=(tmp_path,)), load_registry())
    outcome = fix(read_source(file, file.name), linter, safety="safe")
    assert outcome.source.text == f"{head}net.load_state_dict(torch.load(sys.argv[1], map_location={expected}))\n"


def test_the_nearest_folder_counts(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.black]\nline-length = 120\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "setup.cfg").write_text("[flake8]\n")
    linter = Linter(Settings(root=tmp_path, src=(tmp_path,)), load_registry())
    for folder, width in ((tmp_path, 120), (inner, 79)):
        file = folder / "main.py"
        file.write_text("x = 1\n")
        assert linter.width_of(read_source(file, file.name)) == width


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(f"called = lambda mask: {LONG.removeprefix('return ')}\nreturn called(mask)", id="a lambda"),
        pytest.param(f"first = 1; {LONG}", id="two statements on a line"),
    ],
)
def test_what_nobody_would_break_so_has_no_fix(tmp_path, body):
    outcome = fixed(tmp_path, body)
    assert not outcome.applied
    assert [finding.code for finding in outcome.remaining] == ["DEV105"]


def test_aligned_arguments_go_on_on_the_next_line(tmp_path):
    body = (
        "mask = torch.ones(1, 1, inputs.size(0),\n                  inputs.size(1), inputs.size(2)).to(inputs.device, inputs.dtype)\n"
        "return mask"
    )
    outcome = fixed(tmp_path, body, "[tool.ruff]\nline-length = 79\n")
    assert outcome.source.text.endswith(
        "        mask = torch.ones(1, 1, inputs.size(0),\n"
        "                          inputs.size(1), inputs.size(2), dtype=inputs.dtype,\n"
        "                          device=inputs.device)\n"
        "        return mask\n"
    )


def test_two_fixes_of_a_line_are_laid_out_together(tmp_path):
    body = (
        "both = torch.zeros(inputs.size(0)).to(mask.device) + torch.ones(inputs.size(1)).to(mask.device)\nreturn both"
    )
    outcome = fixed(tmp_path, body)
    assert [finding.code for finding in outcome.applied] == ["DEV105", "DEV105"]
    assert max(map(len, outcome.source.text.splitlines())) <= 88


def test_a_longer_line_may_stay_as_long(tmp_path):
    """What was longer than the project lets lines be before the fix came is nobody's fault."""
    body = f'name = "{"x" * 80}", torch.zeros(inputs.size(0), inputs.size(1)).to(device=mask.device)\nreturn name, mask'
    outcome = fixed(tmp_path, body)
    assert len(outcome.applied) == 1
    assert max(map(len, outcome.source.text.splitlines())) > 88


def test_what_is_said_to_tools_makes_no_line_longer(tmp_path):
    body = "zeros = torch.zeros(inputs.size(0), 3).to(mask.device)  # type: ignore[no-untyped-call]\nreturn zeros"
    (line,) = (line for line in fixed(tmp_path, body).source.text.splitlines() if "zeros(" in line)
    assert line.strip() == "zeros = torch.zeros(inputs.size(0), 3, device=mask.device)  # type: ignore[no-untyped-call]"


def test_brackets_close_as_those_of_the_file_do(tmp_path):
    body = f"shape = torch.Size((\n    inputs.size(0), inputs.size(1)))\n{LONG}"
    outcome = fixed(tmp_path, body)
    assert outcome.source.text.endswith(
        "        return mask + torch.zeros(\n"
        "            inputs.size(0), inputs.size(1), inputs.size(2), device=mask.device)\n"
    )


WRAPPED = """import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x

    def generate(self, x, *more, **options):
        return x


model = nn.DataParallel(Net())
x = torch.ones(2)
"""


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param(
            "y = model.generate(x,\n                   beams=5,\n                   )\n",
            "y = model.module.generate(x,\n                          beams=5,\n                          )\n",
            id="aligned",
        ),
        pytest.param(
            "y = model.generate(x, dict(one=1,\n                           two=[2,\n                                3]),\n"
            "                   4)\n",
            "y = model.module.generate(x, dict(one=1,\n                                  two=[2,\n"
            "                                       3]),\n                          4)\n",
            id="aligned to several brackets",
        ),
        pytest.param(
            "y = model.generate(x,\n    beams=5)\n", "y = model.module.generate(x,\n    beams=5)\n", id="hanging"
        ),
        pytest.param(
            "y = model.generate(\n    x, beams=5\n)\n", "y = model.module.generate(\n    x, beams=5\n)\n", id="broken"
        ),
        pytest.param(
            'y = model.generate(x, """a\n                   b""",\n                   5)\n',
            'y = model.module.generate(x, """a\n                   b""",\n                   5)\n',
            id="beside a text over several lines",
        ),
    ],
)
def test_lines_that_are_aligned_to_a_bracket_go_with_it(tmp_path, call, expected):
    file = tmp_path / "net.py"
    file.write_text(WRAPPED + call)
    linter = Linter(Settings(root=tmp_path, src=(tmp_path,)), load_registry())
    outcome = fix(read_source(file, file.name), linter, safety="safe")
    assert outcome.source.text == WRAPPED + expected


YAPF = "[tool.yapf]\nbased_on_style = 'pep8'\n"


@pytest.mark.parametrize(
    ("settings", "body", "expected"),
    [
        pytest.param(
            YAPF,
            "label = torch.full((inputs.size(0), ), mask.item()).to(inputs.device)",
            "label = torch.full((inputs.size(0), ),\n                   mask.item(),\n                   device=inputs.device)",
            id="aligned to the bracket",
        ),
        pytest.param(
            YAPF,
            "label = 0 * torch.ones(inputs.size(0), inputs.size(1)).to(mask.device)",
            "label = 0 * torch.ones(\n    inputs.size(0), inputs.size(1), device=mask.device)",
            id="behind an operator",
        ),
        pytest.param(
            f"{YAPF}split_before_expression_after_opening_paren = true\n",
            "zeros = torch.zeros(inputs.size(0), inputs.size(1), 3).to(mask.device)",
            "zeros = torch.zeros(\n    inputs.size(0), inputs.size(1), 3, device=mask.device)",
            id="hanging",
        ),
    ],
)
def test_lines_are_broken_as_yapf_breaks_them(tmp_path, settings, body, expected):
    """What is expected is what yapf 0.30 makes of it."""
    # What nothing reads isn't made cheaper.
    given = f"return mask, {body.split()[0]}"
    outcome = fixed(tmp_path, f"{body}\n{given}", settings)
    wanted = "".join(f"        {line}\n" for line in expected.split("\n"))
    assert outcome.source.text == f"{HEAD}{wanted}        {given}\n"


def test_what_yapf_would_break_in_other_ways_is_left_with_all_like_it(tmp_path):
    plain = "ones = torch.ones(inputs.size(0), 1).to(mask.device, mask.dtype)"
    long = "scale = torch.ones((inputs.size(0), inputs.size(1), 2)).to(mask.device, mask.dtype) * 0.8"
    outcome = fixed(tmp_path, f"{plain}\n{long}\nreturn mask, ones, scale", YAPF)
    assert not outcome.applied
    assert fixed(tmp_path, f"{plain}\nreturn mask, ones", YAPF).applied


def test_a_comment_goes_behind_what_is_broken(tmp_path):
    outcome = fixed(tmp_path, f"{LONG}  # as large as the inputs")
    assert outcome.source.text.endswith(
        "        return mask + torch.zeros(\n"
        "            inputs.size(0), inputs.size(1), inputs.size(2), device=mask.device\n"
        "        )  # as large as the inputs\n"
    )


@pytest.mark.parametrize("lines", [1, 60])
def test_a_call_that_goes_on_is_broken_in_the_one_that_closes(tmp_path, lines):
    file = tmp_path / "main.py"
    head = "import torch\n\n" + f"x = {'1' * 70}\n" * lines + "net = torch.nn.Linear(2, 2)\n"
    start = 'net.load_state_dict(torch.load("models/inpainting/checkpoints/last.ckpt"'
    end = '["state_dict"],\n                    strict=False)\n'
    file.write_text(f"{head}{start}){end}")
    linter = Linter(Settings(root=tmp_path, src=(tmp_path,)), load_registry())
    outcome = fix(read_source(file, file.name), linter, safety="safe")
    assert outcome.source.text == f'{head}{start},\n                               map_location="cpu"){end}'


def test_what_was_broken_stays_broken(tmp_path):
    """Where nobody says how long a line may be, a statement that was broken isn't joined to a longer line than it was."""
    call = "zeros = torch.zeros(inputs.size(0), inputs.size(1), inputs.size(2), inputs.size(3))"
    outcome = fixed(tmp_path, f"{call}.to(\n    mask.device)\nreturn zeros", "")
    assert outcome.applied
    assert max(map(len, outcome.source.text.splitlines())) < len(f"        {call}.to(mask.device)")


@pytest.mark.parametrize(
    ("hook", "width"),
    [
        ("https://github.com/pre-commit/mirrors-yapf\n    rev: v0.30.0", 79),
        ("https://github.com/google/yapf\n    rev: v0.40.0\n    hooks:\n      - id: yapf\n        args: ['--style={column_limit: 100}']", 100),
        ("https://github.com/PyCQA/flake8.git\n    hooks:\n      - id: flake8\n        args: [--max-line-length=110]", 110),
    ],
)  # fmt: skip
def test_hooks_say_how_long(hook, width):
    assert told_width({".pre-commit-config.yaml": f"repos:\n  - repo: {hook}\n"}) == width


@pytest.mark.parametrize(("settings", "mask"), [("", "mask = torch.arange("), ("[tool.black]\n", "mask = (\n")])
def test_a_value_is_put_in_brackets_where_a_formatter_is_used(tmp_path, settings, mask):
    """Who formats by hand breaks no chain for a few columns."""
    usual = "\n".join(f"x{'1' * 70} = {number}" for number in range(80))
    chain = "mask = torch.arange(inputs.size(0)).unsqueeze(-1).repeat(1, 2).to(inputs.device)"
    outcome = fixed(tmp_path, f"{usual}\n{chain}\nreturn mask", settings)
    assert outcome.applied
    assert mask in outcome.source.text


ALIGNED = """import torch
from torch import nn


class Augmented(nn.Module):
    def __init__(self, device, data_dim, augment_dim):
        super().__init__()
        self.dev = device
        self.augment_dim = augment_dim
        self.net = nn.Sequential(nn.Linear(data_dim + augment_dim, data_dim),
                                 nn.ReLU())
        self.scale = nn.Parameter(torch.ones(data_dim + augment_dim,
                                             dtype=torch.float32))
{filler}
    def forward(self, features):
        augmented_part = torch.zeros(features.shape[0], self.augment_dim).to(self.dev)
        return self.net(torch.cat([features, augmented_part], dim=1) * self.scale)
"""


def test_a_line_that_has_to_be_broken_is_broken_as_the_others_of_its_file(tmp_path):
    filler = "".join(
        f"        self.layer_{n} = nn.Linear(data_dim + augment_dim, data_dim + {n})\n" for n in range(100, 160)
    )
    file = tmp_path / "net.py"
    file.write_text(ALIGNED.format(filler=filler))
    linter = Linter(Settings(root=tmp_path, src=(tmp_path,), select=("DEV105",)), load_registry())
    text = fix(read_source(file, file.name), linter, safety="unsafe").source.text
    below = ("self.augment_dim,", "device=self.dev)")
    broken = ["        augmented_part = torch.zeros(features.shape[0],", *(" " * 37 + line for line in below)]
    assert "\n".join(broken) in text


def test_a_line_that_was_longer_than_most_is_broken_for_what_is_new_alone(tmp_path):
    filler = "".join(
        f"        self.layer_{n} = nn.Linear(data_dim + augment_dim, data_dim + {n})\n" for n in range(100, 200)
    )
    load = "torch.load(os.path.join(device.checkpoints_dir, device.dataset_name, 'length_estimator_bigru_256', 'latest.tar')"
    file = tmp_path / "net.py"
    text = ALIGNED.format(filler=f"{filler}        state = {load})\n        self.net.load_state_dict(state['net'])\n")
    file.write_text(f"import os\n{text}")
    linter = Linter(Settings(root=tmp_path, src=(tmp_path,), select=("DEV301",)), load_registry())
    text = fix(read_source(file, file.name), linter, safety="unsafe").source.text
    assert f"        state = {load},\n{' ' * 27}map_location='cpu')\n" in text
