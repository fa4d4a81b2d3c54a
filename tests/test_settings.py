"""Settings files and the choice of rules."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from devlint.engine import Linter
from devlint.files import read_source
from devlint.rule import Registry, Rule, load_registry
from devlint.settings import Selection, Settings, SettingsError, check_selectors, load_settings, nearest


def _rule(code: str, name: str, default: bool = True) -> type[Rule]:
    return type(code, (Rule,), {"code": code, "name": name, "default": default, "__doc__": name})


REGISTRY = Registry(
    [
        _rule("DEV000", "unreadable"),
        _rule("DEV001", "unused-suppression"),
        _rule("DEV101", "discarded-move"),
        _rule("DEV102", "moved-parameter"),
        _rule("DEV501", "item-in-hot-loop"),
        _rule("DEV507", "blocking-copy", default=False),
        _rule("DEV701", "cuda-only-api", default=False),
        _rule("DEV702", "cuda-literal", default=False),
    ]
)


def selected(**choices: object) -> set[str]:
    settings = Settings(Path("/p"), **choices)
    return {rule.code for rule in REGISTRY.rules() if settings.selects(rule, REGISTRY)}


@pytest.mark.parametrize(
    ("choices", "codes"),
    [
        ({}, {"DEV000", "DEV001", "DEV101", "DEV102", "DEV501"}),
        ({"select": ("DEV5",)}, {"DEV000", "DEV501"}),
        ({"select": ("DEV507",)}, {"DEV000", "DEV507"}),
        ({"select": ("DEV7",)}, {"DEV000", "DEV701", "DEV702"}),
        ({"select": ("DEV70",), "ignore": ("DEV702",)}, {"DEV000", "DEV701"}),
        ({"select": ("DEV",)}, {"DEV000", "DEV001", "DEV101", "DEV102", "DEV501"}),
        ({"select": ("blocking-copy",)}, {"DEV000", "DEV507"}),
        ({"select": ("ALL",)}, {"DEV000", "DEV001", "DEV101", "DEV102", "DEV501", "DEV507", "DEV701", "DEV702"}),
        ({"select": ()}, {"DEV000"}),
        ({"select": ("DEV1",), "ignore": ("DEV102",)}, {"DEV000", "DEV101"}),
        ({"select": ("DEV102",), "ignore": ("DEV1",)}, {"DEV000", "DEV102"}),
        ({"select": ("DEV1",), "ignore": ("DEV1",)}, {"DEV000"}),
        ({"ignore": ("DEV0",)}, {"DEV101", "DEV102", "DEV501"}),
        ({"select": ("DEV101",), "extend_select": ("DEV5",)}, {"DEV000", "DEV101", "DEV501"}),
        ({"extend_select": ("DEV507",)}, {"DEV000", "DEV001", "DEV101", "DEV102", "DEV501", "DEV507"}),
        ({"ignore": ("discarded-move",)}, {"DEV000", "DEV001", "DEV102", "DEV501"}),
    ],
)
def test_selection(choices, codes):
    assert selected(**choices) == codes


@pytest.mark.parametrize(
    ("overrides", "codes"),
    [
        (Selection(select=("DEV101",)), {"DEV000", "DEV101"}),
        (Selection(ignore=("DEV5",)), {"DEV000", "DEV102"}),
        (Selection(extend_select=("DEV1",)), {"DEV000", "DEV101", "DEV102", "DEV501"}),
    ],
)
def test_the_command_line_beats_the_file(overrides, codes):
    file = {"select": ("DEV1", "DEV501"), "ignore": ("DEV101",)}
    assert selected(**file, overrides=overrides) == codes


def test_per_file_ignores(tmp_path):
    settings = Settings(tmp_path, per_file_ignores=(("tests/**", ("DEV5",)), ("conf.py", ("ALL",))))
    assert "DEV501" not in settings.codes_for(tmp_path / "tests" / "a" / "test_x.py", REGISTRY)
    assert "DEV501" in settings.codes_for(tmp_path / "src" / "tests.py", REGISTRY)
    assert settings.codes_for(tmp_path / "docs" / "conf.py", REGISTRY) == frozenset()


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def load(start: Path, config: Path | None = None, isolated: bool = False) -> Settings:
    return load_settings(start, config=config, isolated=isolated, registry=REGISTRY)


def test_all_keys(tmp_path):
    origin = write(
        tmp_path / "pyproject.toml",
        """
        [tool.devlint]
        select = ["DEV1"]
        ignore = ["DEV102"]
        extend-select = ["blocking-copy"]
        exclude = ["vendored"]
        src = ["lib"]
        confidence = "certain"
        loader-names = ["*_dl"]
        hot-functions = ["process_batch"]
        torch-version = "2.6"
        behaves-like = { "mylib.Stream" = "torch.utils.data.DataLoader" }
        [tool.devlint.per-file-ignores]
        "tests/*" = ["DEV101"]
        """,
    )
    assert load(tmp_path / "deep" / "er") == Settings(
        root=tmp_path,
        origin=origin,
        select=("DEV1",),
        ignore=("DEV102",),
        extend_select=("blocking-copy",),
        per_file_ignores=(("tests/*", ("DEV101",)),),
        exclude=("vendored",),
        src=(tmp_path / "lib",),
        confidence="certain",
        loader_names=("*_dl",),
        hot_functions=("process_batch",),
        torch_version=(2, 6),
        behaves_like=(("mylib.Stream", "torch.utils.data.DataLoader"),),
    )


def test_the_nearest_file_with_our_table_wins(tmp_path):
    write(tmp_path / "pyproject.toml", '[tool.devlint]\nselect = ["DEV1"]')
    write(tmp_path / "a" / "pyproject.toml", '[project]\nname = "devlint-less"')
    own = write(tmp_path / "a" / "b" / "devlint.toml", 'select = ["DEV5"]')
    assert load(tmp_path / "a").origin == tmp_path / "pyproject.toml"
    assert load(tmp_path / "a" / "b").select == ("DEV5",)
    assert load(tmp_path / "a", config=own).select == ("DEV5",)


def test_no_file_or_isolated(tmp_path):
    write(tmp_path / "pyproject.toml", '[tool.devlint]\nselect = ["NONSENSE"]')
    settings = load(tmp_path, isolated=True)
    assert settings == Settings(root=tmp_path, src=(tmp_path, tmp_path / "src"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('torch-version = "two"', "torch-version: must be a release of torch such as \"2.6\", not 'two'"),
        ("torch-version = 2.6", 'torch-version: must be a release of torch such as "2.6", not 2.6'),
        ('selct = ["DEV1"]', "unknown key 'selct'; did you mean 'select'?"),
        ('select = ["DEV110"]', "select: no rule is called 'DEV110'; did you mean 'DEV101'?"),
        ('ignore = ["discarded-moves"]', "ignore: no rule is called 'discarded-moves'; did you mean 'discarded-move'?"),
        ('select = [""]', "select: no rule is called ''"),
        ('select = "DEV1"', 'select: must be a list of strings, such as select = ["..."]'),
        ('confidence = "sure"', "confidence: must be one of 'certain', 'likely', not 'sure'"),
        ("confidence = 3", "confidence: must be one of 'certain', 'likely', not 3"),
        ('per-file-ignores = ["x"]', "per-file-ignores: must be a table from a path pattern to a list of codes"),
        ('[per-file-ignores]\n"a" = ["DEV9"]', "per-file-ignores.'a': no rule is called 'DEV9'; did you mean"),
        ('behaves-like = ["x"]', "behaves-like: must be a table such as"),
        (
            'behaves-like = { "a.Loader" = "torch.utils.data.Dataloader" }',
            "behaves-like.'a.Loader': nothing is known of 'torch.utils.data.Dataloader'; "
            "did you mean 'torch.utils.data.DataLoader'?",
        ),
        ('exclude = ["!"]', "exclude: '!' is no path pattern"),
        ("select = [", "not valid TOML"),
    ],
)
def test_errors_name_file_key_and_nearest(tmp_path, text, message):
    origin = write(tmp_path / "devlint.toml", text)
    with pytest.raises(SettingsError) as caught:
        load(tmp_path)
    assert str(caught.value).startswith(f"{origin}: {message}")
    assert "\n" not in str(caught.value)


def test_config_that_is_not_there_or_not_ours(tmp_path):
    with pytest.raises(SettingsError, match=r"nope\.toml: no such settings file"):
        load(tmp_path, config=tmp_path / "nope.toml")
    empty = write(tmp_path / "pyproject.toml", "[project]\n")
    with pytest.raises(SettingsError, match=r"no \[tool.devlint\] table"):
        load(tmp_path, config=empty)


def test_selectors_and_nearest():
    assert check_selectors(["DEV1", "ALL", "moved-parameter"], REGISTRY, "--select")
    assert nearest("DEV51", ["DEV101", "DEV501"]) == "; did you mean 'DEV501'?"
    assert nearest("qqqq", ["DEV101"]) == ""


def test_hints_speak_of_torch_accelerator_where_every_release_has_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text('import torch\n\nx = torch.ones(3, device="gpu")\n')

    def hints(release):
        settings = Settings(root=tmp_path, torch_version=release)
        return [f.hint for f in Linter(settings, load_registry()).check(read_source(program, "program.py"))]

    assert hints(None) == hints((2, 5)) == [None]
    assert "torch.accelerator.current_accelerator()" in hints((2, 6))[0]


@pytest.mark.parametrize(
    ("name", "alike", "program", "code"),
    [
        (
            "acme.Stream",
            "torch.utils.data.DataLoader",
            """
            from acme import Stream

            model = torch.nn.Linear(4, 2).cuda()
            for images in Stream():
                model(images)
            """,
            "DEV202",
        ),
        (
            "acme.to_gpu",
            "torch.Tensor.cuda",
            "import acme\nprint(torch.ones(3) + acme.to_gpu(torch.ones(3)))",
            "DEV201",
        ),
        (
            "ours.to_gpu",
            "torch.Tensor.cuda",
            "import ours\nprint(torch.ones(3) + ours.to_gpu(torch.ones(3)))",
            "DEV201",
        ),
        (
            "acme.load_checkpoint",
            "torch.load",
            "from acme import load_checkpoint\nprint(load_checkpoint('net.pt'))",
            "DEV301",
        ),
        (
            "ours.Parallel",
            "torch.nn.DataParallel",
            "from ours import Parallel\nmodel = Parallel(torch.nn.Linear(4, 2))\nprint(model.in_features)",
            "DEV401",
        ),
    ],
)
def test_what_behaves_like_something_known_is_taken_for_it(tmp_path, name, alike, program, code):
    write(tmp_path / "ours.py", "def to_gpu(x):\n    return x\n\nclass Parallel:\n    pass\n")
    file = write(tmp_path / "program.py", f"import torch\n{textwrap.dedent(program)}\n")

    def codes(**given):
        settings = Settings(root=tmp_path, src=(tmp_path,), **given)
        return [f.code for f in Linter(settings, load_registry()).check(read_source(file, "program.py"))]

    assert codes() == []
    assert codes(behaves_like=((name, alike),)) == [code]
