"""What a project says of portability: the table `portable`, comments of other checks, and families that are opt-in."""

from __future__ import annotations

from pathlib import Path

import pytest

from devlint.engine import Linter
from devlint.files import read_source
from devlint.portable import Layer, Portable, layer_of, marks_cuda_only
from devlint.rule import load_registry
from devlint.settings import Settings, SettingsError, load_settings

REGISTRY = load_registry()


def loaded(folder: Path, text: str) -> Settings:
    (folder / "devlint.toml").write_text(text, encoding="utf-8")
    return load_settings(folder, config=None, isolated=False, registry=REGISTRY)


def test_the_table(tmp_path):
    settings = loaded(
        tmp_path,
        'portable.replace = { "torch.cuda" = "pkg.accelerator.get()" }\n'
        'portable.cuda-only = ["kernels/**"]\nportable.accept = ["rocm"]\n',
    )
    assert settings.portable.is_cuda_only(tmp_path, tmp_path / "kernels" / "a.py")
    assert not settings.portable.is_cuda_only(tmp_path, tmp_path / "a.py")
    assert settings.portable.accept == ("rocm",)
    assert settings.portable.layer("torch.cuda.nvtx") == Layer("get().nvtx", "from pkg.accelerator import get")
    assert settings.portable.layer("torch.cudart") is None


def test_the_longest_name_wins():
    layers = ("torch.cuda", Layer("a", "from p import a")), ("torch.cuda.nvtx", Layer("b", "from p import b"))
    portable = Portable(layers)
    assert portable.layer("torch.cuda.nvtx.mark") == Layer("b.mark", "from p import b")
    assert portable.layer("torch.cuda.seed") == Layer("a.seed", "from p import a")


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("pkg.platform.current", Layer("current", "from pkg.platform import current")),
        ("pkg.get().device_name()", Layer("get().device_name()", "from pkg import get")),
        ("torch.get_device_module()", Layer("torch.get_device_module()", "import torch")),
        ("pkg", None),
        ("get()", None),
        ("pkg.get(1)", None),
        ("pkg..get", None),
    ],
)
def test_layers(text, layer):
    assert layer_of(text) == layer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("portable = 1", "portable: must be a table with the keys replace, cuda-only, accept"),
        ("portable.replaces = {}", "portable: unknown key 'replaces'; did you mean 'replace'?"),
        ('portable.replace = "a.b"', 'portable.replace: must be a table such as { "torch.cuda" = "mypkg.platform.current" }'),
        (
            'portable.replace = { "torch.cudax" = "a.b" }',
            "portable.replace.'torch.cudax': must be 'torch.cuda', a name in it, 'torch.Tensor.cuda', 'torch.Tensor.is_cuda' or 'cuda'",
        ),
        (
            'portable.replace = { "torch.cuda" = "a" }',
            "portable.replace.'torch.cuda': must be a dotted name such as \"mypkg.platform.current()\", not 'a'",
        ),
        ('portable.accept = ["rcm"]', "portable.accept: 'rcm' isn't one of rocm; did you mean 'rocm'?"),
        ('portable.cuda-only = "a"', 'portable.cuda-only: must be a list of strings, such as portable.cuda-only = ["..."]'),
        ("extra-suppressions = []", 'extra-suppressions: must be a table such as { "#ignore-cuda" = ["DEV7"] }'),
        (
            'extra-suppressions = { "ignore-cuda" = ["DEV1"] }',
            "extra-suppressions.'ignore-cuda': must be a comment, '#' before its text",
        ),
        (
            'extra-suppressions = { "#ok" = ["DEV999"] }',
            "extra-suppressions.'#ok': no rule is called 'DEV999'; see `devlint rules`",
        ),
    ],
)  # fmt: skip
def test_what_is_amiss_is_told(tmp_path, text, message):
    with pytest.raises(SettingsError) as error:
        loaded(tmp_path, text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_comments_of_other_checks(tmp_path):
    (tmp_path / "m.py").write_text(
        "import torch\n"
        "x = torch.ones(3)\n"
        "x.cuda()  #ignore-cuda\n"
        "x.cuda()  # Ignore-CUDA: there is one\n"
        "x.cuda()  #ignore-cuda-not\n"
        "x.cuda()  # devlint: ignore[DEV101] #ignore-cuda\n"
        "y = 1  #ignore-cuda\n",
        encoding="utf-8",
    )
    settings = loaded(tmp_path, 'extra-suppressions = { "#ignore-cuda" = ["DEV1"] }\n')
    found = Linter(settings, REGISTRY).check(read_source(tmp_path / "m.py", "m.py"))
    # A comment that another check needs isn't ours to call unused.
    assert [(f.code, f.span.line) for f in found] == [("DEV101", 5)]


def test_a_mark_of_a_function():
    assert marks_cuda_only("def f(x):  # devlint: cuda-only")
    assert not marks_cuda_only("def f(x):  # devlint: cuda-only-ish")
