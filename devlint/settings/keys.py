"""The table of all settings: each key with the shape of its value and what the reference says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from devlint.findings import Confidence, OutputFormat, Severity
from devlint.settings.shapes import (
    Codes,
    CodesByComment,
    CodesByGlob,
    File,
    Flag,
    Folders,
    Globs,
    KnownNames,
    OneOf,
    PortableTable,
    Release,
    Shape,
    Size,
    Strings,
    Versions,
    WordByCode,
)


@dataclass(frozen=True)
class Key:
    """One key. The field of Settings that holds its value has the same name, with underscores."""

    name: str
    shape: Shape
    # The value that holds where nobody says another, as TOML; "" where there is none.
    default: str
    # A value as TOML.
    example: str
    # What it does, as Markdown.
    text: str
    # Says how the settings are read, and is no part of them.
    about_reading: bool = False
    # What it means that nobody says a value and none holds.
    unset: str = ""


_ALL = (
    Key(
        "extend",
        File(),
        "",
        '"../devlint.toml"',
        "Another settings file to build on (a pyproject.toml with a `[tool.devlint]` table, or a TOML file of its own). The "
        "keys of this file replace those of the other one; `ignore` and `extend-select` add to them, and `select` starts "
        "anew. The other file's patterns count from the folder of this file, its folders and files from its own. It may "
        "extend a further file.",
        about_reading=True,
    ),
    Key(
        "required-version",
        Versions(),
        "",
        '">=0.1,<0.3"',
        "The versions of devlint that these settings are for, written as in a requirement; a bare version means exactly that "
        "one. Any other version of devlint ends with an error.",
        about_reading=True,
    ),
    Key(
        "select",
        Codes(),
        "",
        '["DEV1", "DEV3", "item-in-hot-loop"]',
        "The rules to run: codes, prefixes of codes, or names, in upper or lower case. A prefix selects the rules that are on "
        "by default; `ALL` selects opt-in rules too. The most specific choice wins.",
        unset="all rules that are on by default, those of installed packs too",
    ),
    Key("ignore", Codes(), "[]", '["DEV502"]', "Rules to leave out. Wins over `select` if both are equally specific."),
    Key(
        "extend-select",
        Codes(),
        "[]",
        '["DEV507"]',
        "Rules to run in addition to those of `select`, or to the default ones.",
    ),
    Key(
        "per-file-ignores",
        CodesByGlob(),
        "{}",
        '{ "tests/**" = ["DEV5"] }',
        "Rules to leave out in the files that a pattern matches. Patterns are written as in a .gitignore file.",
    ),
    Key(
        "severity",
        WordByCode(OneOf(get_args(Severity))),
        "{}",
        '{ DEV5 = "error", hard-coded-device = "warning" }',
        "The severity of rules, instead of the one on their pages. The most specific choice wins.",
    ),
    Key(
        "fail-on",
        OneOf(get_args(Severity)),
        '"warning"',
        '"error"',
        "The lowest severity that makes a run exit with 1. As `--fail-on`.",
    ),
    Key("fixable", Codes(), '["ALL"]', '["DEV1"]', "The rules whose findings `--fix` may mend."),
    Key(
        "unfixable",
        Codes(),
        "[]",
        '["DEV105"]',
        "Rules whose findings `--fix` leaves alone, and which are shown as having no fix. Wins over `fixable` if both "
        "are equally specific.",
    ),
    Key(
        "extend-safe-fixes",
        Codes(),
        "[]",
        '["DEV301"]',
        "Rules whose fixes `--fix` applies even if they are unsafe or suggestions.",
    ),
    Key(
        "extend-unsafe-fixes",
        Codes(),
        "[]",
        '["DEV203"]',
        "Rules whose fixes count as unsafe: `--fix` applies them with `--unsafe-fixes` only, whether they are safe otherwise, "
        "or suggestions, which it would leave to you. Wins over `extend-safe-fixes` if both are equally specific.",
    ),
    Key(
        "baseline",
        File(),
        '".devlint-baseline.json"',
        '"ci/devlint-baseline.json"',
        "The file with the old findings, which `devlint baseline` writes and later runs leave out.",
    ),
    Key(
        "cache-dir",
        File(),
        '".devlint_cache"',
        '"build/devlint-cache"',
        "The folder in which results are kept between runs; `devlint clean` removes it, and `--no-cache` doesn't use it. As "
        "`--cache-dir`.",
    ),
    Key(
        "exclude",
        Globs(),
        "[]",
        '["third_party"]',
        "Files and folders to leave out, by patterns as in .gitignore, in addition to those that .gitignore excludes and the "
        "usual ones (`.venv`, `build`, `node_modules`, ...). `devlint --show-files` shows what is left, and warns of "
        "patterns that match nothing.",
    ),
    Key(
        "src",
        Folders(),
        '[".", "src"]',
        '["src"]',
        "Folders in which absolute imports are looked up; one that isn't there is a warning.",
    ),
    Key(
        "confidence",
        OneOf(get_args(Confidence)),
        '"likely"',
        '"certain"',
        "The lowest confidence that is reported. As `--confidence`.",
    ),
    Key(
        "output-format",
        OneOf(get_args(OutputFormat)),
        '"text"',
        '"concise"',
        "The format of the report, for runs that start in this project. As `--output-format`.",
    ),
    Key(
        "loader-names",
        Strings(),
        "[]",
        '["*_stream"]',
        "Names that mean a data loader, in addition to the usual ones; `*` stands for anything.",
    ),
    Key(
        "hot-functions",
        Strings(),
        "[]",
        '["run_batch", "Engine.step*"]',
        "Functions, and methods with their class, that run once per batch; `*` stands for anything.",
    ),
    Key(
        "allow-sync",
        Strings(),
        "[]",
        '["mypkg.debug.gpu_sync_allowed"]',
        "Your own context managers and decorators that mark code in which waiting for the accelerator is intended, like "
        "`devlint.runtime.sync_allowed`.",
    ),
    Key(
        "preview",
        Flag(),
        "false",
        "true",
        "Also reports what is new and hasn't been judged on enough code yet: waits in code that is hot by its role, with no "
        "loop in sight, if every step runs it (DEV511 and DEV512 are on). As `--preview`. Selecting `ALL` does the same, and "
        "also reports waits that only some steps run.",
    ),
    Key(
        "behaves-like",
        KnownNames(),
        "{}",
        '{ "acme.to_gpu" = "torch.Tensor.cuda" }',
        "Functions and classes that devlint doesn't know, of a library or your own: each name on the left is treated like "
        "PyTorch's on the right.",
    ),
    Key(
        "torch-version",
        Release("torch", "2.6"),
        "",
        '"2.6"',
        "The oldest PyTorch that the code must run with: hints and fixes use nothing newer.",
    ),
    Key(
        "extra-suppressions",
        CodesByComment(),
        "{}",
        '{ "#ignore-cuda" = ["DEV7"] }',
        "Comments of other tools, each with the rules that it switches off on its line.",
    ),
    Key(
        "portable",
        PortableTable(),
        "{}",
        '{ replace = { "torch.cuda" = "mypkg.platform.current" }, cuda-only = ["kernels/**"], accept = ["rocm"] }',
        "For DEV7: how code that is meant for any accelerator may use CUDA. `replace` names the project's own layer: what "
        "to use instead of `torch.cuda`, a name in it, `torch.Tensor.cuda`, `torch.Tensor.is_cuda` or `cuda`. `cuda-only` "
        "are patterns of files that are about CUDA (the comment `# devlint: cuda-only` marks one function or class). With "
        "`accept`, a test for ROCm, which uses `torch.cuda` too, counts as one for CUDA.",
    ),
    Key(
        "markdown",
        Flag(),
        "false",
        "true",
        "Also lints the Python blocks in the Markdown and reStructuredText files of folders. As `--markdown`. A file that "
        "you name yourself is always linted.",
    ),
    Key(
        "target-version",
        Release("Python", "3.14"),
        "",
        '"3.14"',
        "The newest Python that the code is written for. devlint parses code with the Python that it runs on. If that is "
        "older, a file with newer syntax is reported as such, and not as invalid Python.",
    ),
    Key(
        "max-file-size",
        Size(),
        '"4 MB"',
        '"10 MB"',
        "Larger files are reported and skipped (for notebooks, the limit is ten times that).",
    ),
)

KEYS: Mapping[str, Key] = {key.name: key for key in _ALL}
