"""Settings files and the choice of rules."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import jsonschema
import pytest

from devlint import __version__
from devlint.engine import Linter
from devlint.files import read_source
from devlint.rule import Registry, Rule, load_registry
from devlint.settings import Selection, Settings, SettingsError, check_selectors, load_settings, nearest, split_config
from devlint.settings.keys import KEYS
from devlint.settings.loading import _table_of
from devlint.settings.published import schema


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
    # Tests write a file anew.
    _table_of.cache_clear()
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
        ('[per-file-ignores]\n"a" = ["DEV9"]', "per-file-ignores.'a': no rule is called 'DEV9'; see `devlint rules`"),
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


def test_codes_in_any_case(tmp_path):
    write(tmp_path / "devlint.toml", 'select = ["dev1", "Blocking-Copy"]\nignore = ["Dev102"]\nextend-select = []')
    settings = load(tmp_path)
    assert (settings.select, settings.ignore) == (("DEV1", "blocking-copy"), ("DEV102",))
    assert check_selectors(["all", "dev101", "ITEM-IN-HOT-LOOP"], REGISTRY, "") == ("ALL", "DEV101", "item-in-hot-loop")


def test_of_files_in_one_folder_the_hidden_one_holds(tmp_path):
    for name in ("pyproject.toml", "devlint.toml", ".devlint.toml"):
        table = "[tool.devlint]\n" if name == "pyproject.toml" else ""
        write(tmp_path / name, f'{table}hot-functions = ["{name}"]')
        assert load(tmp_path).hot_functions == (name,)


def codes_of(settings: Settings) -> set[str]:
    return {rule.code for rule in REGISTRY.rules() if settings.selects(rule, REGISTRY)}


def test_extend_lays_a_file_over_another(tmp_path):
    write(
        tmp_path / "pyproject.toml",
        '[tool.devlint]\nignore = ["DEV102"]\nextend-select = ["DEV507"]\nsrc = ["lib"]\nconfidence = "certain"\n'
        'exclude = ["gen"]\nper-file-ignores = { "a/**" = ["DEV5"] }',
    )
    write(tmp_path / "base.toml", 'extend = "pyproject.toml"\nexclude = ["made"]')
    write(tmp_path / "sub" / "devlint.toml", 'extend = "../base.toml"\nignore = ["DEV501"]\nconfidence = "likely"')
    settings = load(tmp_path / "sub")
    assert (settings.root, settings.origin) == (tmp_path / "sub", tmp_path / "sub" / "devlint.toml")
    assert (settings.confidence, settings.exclude, settings.src) == ("likely", ("made",), (tmp_path / "lib",))
    assert settings.per_file_ignores == (("a/**", ("DEV5",)),)
    assert codes_of(settings) == {"DEV000", "DEV001", "DEV101", "DEV507"}
    # `select` starts anew.
    write(tmp_path / "anew" / "devlint.toml", 'extend = "../base.toml"\nselect = ["DEV102"]')
    assert codes_of(load(tmp_path / "anew")) == {"DEV000", "DEV102"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('extend = "gone.toml"', "extend: {0}/gone.toml: there is no such file"),
        ('extend = "other/pyproject.toml"', "extend: {0}/other/pyproject.toml: has no [tool.devlint] table"),
        ('extend = "devlint.toml"', "extend: {0}/devlint.toml extends this file in turn; leave one of them out"),
        ("extend = 3", 'extend: must be the path of a file, such as extend = "..."'),
        ('required-version = ">=99"', "required-version: this is devlint {1}, and the project asks for >=99; install that"),
        ('required-version = "99.1"', "required-version: this is devlint {1}, and the project asks for 99.1; install that"),
        ('required-version = "new"', "required-version: must be a version or a range such as \">=0.1,<0.3\", not 'new'"),
        ('severity = { DEV5 = "warn" }', "severity.'DEV5': must be one of 'error', 'warning', not 'warn'; did you mean"),
        ('severity = { DEV9 = "error" }', "severity: no rule is called 'DEV9'"),
        ("severity = []", "severity: must be a table from a code to a word"),
        ('fail-on = "info"', "fail-on: must be one of 'error', 'warning', not 'info'"),
    ],
)  # fmt: skip
def test_what_is_amiss_with_the_files_themselves(tmp_path, text, message):
    write(tmp_path / "other" / "pyproject.toml", "[project]\n")
    origin = write(tmp_path / "devlint.toml", text)
    with pytest.raises(SettingsError) as caught:
        load(tmp_path)
    assert str(caught.value).startswith(f"{origin}: {message.format(tmp_path, __version__)}")


def test_the_required_version_is_looked_at_before_all_else(tmp_path):
    write(tmp_path / "devlint.toml", 'of-a-later-version = 1\nrequired-version = ">=99"')
    with pytest.raises(SettingsError, match="required-version"):
        load(tmp_path)
    write(tmp_path / "devlint.toml", f'required-version = "{__version__}"\nextend = "base.toml"')
    # A range names no build of a commit.
    write(tmp_path / "base.toml", f'required-version = ">={__version__.split("+")[0]}"')
    assert load(tmp_path).origin == tmp_path / "devlint.toml"


def test_severities(tmp_path):
    write(tmp_path / "devlint.toml", 'severity = { DEV1 = "warning", discarded-move = "error", dev5 = "error" }')
    settings = load(tmp_path)
    said = {rule.code: settings.severity_of(rule) for rule in REGISTRY.rules()}
    assert (said["DEV101"], said["DEV102"], said["DEV501"], said["DEV701"]) == ("error", "warning", "error", "error")


@pytest.mark.parametrize(
    ("choices", "fixed"),
    [
        ({}, {"DEV101", "DEV102", "DEV507"}),
        ({"unfixable": ("DEV1",)}, {"DEV507"}),
        ({"fixable": ("DEV5", "discarded-move")}, {"DEV101", "DEV507"}),
        ({"fixable": ("DEV1",), "unfixable": ("DEV101",)}, {"DEV102"}),
        ({"fixable": ("DEV1",), "unfixable": ("DEV1",)}, set()),
    ],
)
def test_what_may_be_fixed(choices, fixed):
    settings = Settings(Path("/p"), **choices)
    assert {c for c in ("DEV101", "DEV102", "DEV507") if settings.fixes(REGISTRY.find(c))} == fixed


def test_config_may_be_a_value(tmp_path):
    write(tmp_path / "devlint.toml", 'select = ["DEV1"]\nsrc = ["lib"]')
    file, inline = split_config([str(tmp_path / "devlint.toml"), "confidence = 'certain'", 'extend-select = ["DEV5"]'])
    settings = load_settings(tmp_path, config=file, isolated=False, registry=REGISTRY, inline=inline)
    assert (settings.confidence, settings.src) == ("certain", (tmp_path / "lib",))
    assert codes_of(settings) == {"DEV000", "DEV101", "DEV102", "DEV501"}
    for values, message in (
        (["a.toml", "b.toml"], "--config: names 2 files"),
        (["selct = []"], "--config: unknown key 'selct'; did you mean 'select'?"),
        (["select = DEV1"], "--config 'select = DEV1': is neither a settings file nor a `key = value` of TOML"),
        (["extend = 'a.toml'"], "--config 'extend = 'a.toml'': extend stands in a file"),
    ):
        with pytest.raises(SettingsError) as caught:
            load_settings(tmp_path, config=None, isolated=True, registry=REGISTRY, inline=split_config(values)[1])
        assert str(caught.value).startswith(message)


def test_the_reference_and_the_schema_are_current():
    tool = Path(__file__).parents[1] / "tools" / "generate_settings.py"
    done = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_default_of_select_is_told_as_what_holds():
    """Whoever wrote `select = ["DEV"]`, as if that were the default, would leave out the rules of packs."""
    key = KEYS["select"]
    assert (key.default, schema()["properties"]["select"].get("default")) == ("", None)
    assert "installed packs too" in schema()["properties"]["select"]["description"]
    packs = Registry([*REGISTRY.rules(), _rule("ACME001", "of-a-pack")])
    settings = Settings(Path("/p"))
    assert "ACME001" in {rule.code for rule in packs.rules() if settings.selects(rule, packs)}


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_the_schema_takes_what_settings_take(key, tmp_path, monkeypatch):
    # A release that the example asks for, whichever this is.
    monkeypatch.setattr("devlint.__version__", "0.1.0")
    values = [tomllib.loads(f"value = {text}")["value"] for text in (key.example, key.default) if text]
    made = schema()
    for value in values:
        jsonschema.validate({key.name: value}, made)
    # What `extend` names stands above, in a folder that no other test is in.
    project = tmp_path / "project"
    write(tmp_path / "devlint.toml", "")
    write(project / "devlint.toml", f"{key.name} = {key.example}\n")
    load_settings(project, config=None, isolated=False, registry=load_registry())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({key.name: 3.5}, made)
    with pytest.raises(SettingsError):
        load_settings(project, config=None, isolated=True, registry=load_registry(), inline=(f"{key.name} = 3.5",))


def test_the_schema_refuses_what_settings_refuse():
    jsonschema.Draft7Validator.check_schema(schema())
    for wrong in ({"selct": []}, {"confidence": "sure"}, {"severity": {"DEV5": "info"}}, {"max-file-size": "4"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema())
