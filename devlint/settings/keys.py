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
        "Another settings file (a pyproject.toml with a `[tool.devlint]` table, or a TOML file of its own) that this one "
        "builds on. What is said here replaces what is said there, key by key; `ignore` and `extend-select` add to it, and "
        "`select` starts anew. Its patterns are read from the folder of the file that extends it, its folders and files from "
        "its own. It may extend a further file.",
        about_reading=True,
    ),
    Key(
        "required-version",
        Versions(),
        "",
        '">=0.1,<0.3"',
        "The versions of devlint that these settings are for, as in a requirement; a bare version is that one alone. "
        "Another devlint ends with an error before it reads the rest.",
        about_reading=True,
    ),
    Key(
        "select",
        Codes(),
        "",
        '["DEV1", "DEV3", "item-in-hot-loop"]',
        "The rules to run: codes, their beginnings, or names, in any case. A beginning takes the rules that are on by "
        "default; `ALL` takes opt-in rules too. The most specific choice wins.",
        unset="all rules that are on by default, those of installed packs too",
    ),
    Key("ignore", Codes(), "[]", '["DEV502"]', "Rules to leave out. Wins over `select` where both are as specific."),
    Key("extend-select", Codes(), "[]", '["DEV507"]', "Rules to run beside those of `select`, or of the defaults."),
    Key(
        "per-file-ignores",
        CodesByGlob(),
        "{}",
        '{ "tests/**" = ["DEV5"] }',
        "Rules to leave out in the files that a pattern takes in, written as in a .gitignore file.",
    ),
    Key(
        "severity",
        WordByCode(OneOf(get_args(Severity))),
        "{}",
        '{ DEV5 = "error", hard-coded-device = "warning" }',
        "The severity of rules, in place of the one that their pages name. The most specific choice wins.",
    ),
    Key(
        "fail-on",
        OneOf(get_args(Severity)),
        '"warning"',
        '"error"',
        "The least severity that makes a run exit with 1. As `--fail-on`.",
    ),
    Key("fixable", Codes(), '["ALL"]', '["DEV1"]', "The rules whose findings `--fix` may mend."),
    Key(
        "unfixable",
        Codes(),
        "[]",
        '["DEV105"]',
        "Rules whose findings `--fix` leaves alone, and which are shown as having no fix. Wins over `fixable` where both "
        "are as specific.",
    ),
    Key(
        "extend-safe-fixes",
        Codes(),
        "[]",
        '["DEV301"]',
        "Rules whose fixes `--fix` applies, though they are unsafe or suggestions.",
    ),
    Key(
        "extend-unsafe-fixes",
        Codes(),
        "[]",
        '["DEV203"]',
        "Rules whose fixes `--fix` applies with `--unsafe-fixes` only: safe ones wait for it, and suggestions, which it leaves "
        "to you otherwise, go with it. Wins over `extend-safe-fixes` where both are as specific.",
    ),
    Key(
        "baseline",
        File(),
        '".devlint-baseline.json"',
        '"ci/devlint-baseline.json"',
        "The file with the findings that were there before, which `devlint baseline` writes and runs leave out.",
    ),
    Key(
        "cache-dir",
        File(),
        '".devlint_cache"',
        '"build/devlint-cache"',
        "The folder that results are kept in from run to run; `devlint clean` removes it, `--no-cache` leaves it alone. As "
        "`--cache-dir`.",
    ),
    Key(
        "exclude",
        Globs(),
        "[]",
        '["third_party"]',
        "Files and folders to leave out, by patterns as in .gitignore, beside those that .gitignore itself and common "
        "sense leave out (`.venv`, `build`, `node_modules`, ...). `devlint --show-files` shows what is left, and warns of "
        "patterns that name nothing.",
    ),
    Key(
        "src",
        Folders(),
        '[".", "src"]',
        '["src"]',
        "Folders that absolute imports start from; one that isn't there is a warning.",
    ),
    Key(
        "confidence",
        OneOf(get_args(Confidence)),
        '"likely"',
        '"certain"',
        "The least confidence that is reported. As `--confidence`.",
    ),
    Key(
        "output-format",
        OneOf(get_args(OutputFormat)),
        '"text"',
        '"concise"',
        "The form of the report, of runs that start in this project. As `--output-format`.",
    ),
    Key(
        "loader-names",
        Strings(),
        "[]",
        '["*_stream"]',
        "Names that mean a loader, beside the usual ones; `*` is anything.",
    ),
    Key(
        "hot-functions",
        Strings(),
        "[]",
        '["run_batch", "Engine.step*"]',
        "Functions, and methods with their class, that run once per batch; `*` is anything.",
    ),
    Key(
        "allow-sync",
        Strings(),
        "[]",
        '["mypkg.debug.gpu_sync_allowed"]',
        "Contexts and decorators of the project's own in which waiting for the accelerator is meant, as in "
        "`devlint.runtime.sync_allowed`.",
    ),
    Key(
        "preview",
        Flag(),
        "false",
        "true",
        "Tells what is new and not yet judged on enough code as well: waits in code that is hot by its role, with no loop "
        "in sight, on the way that each step takes (DEV511 and DEV512 are on). As `--preview`; selecting `ALL` does it too, and "
        "tells of all other ways.",
    ),
    Key(
        "behaves-like",
        KnownNames(),
        "{}",
        '{ "acme.to_gpu" = "torch.Tensor.cuda" }',
        "What devlint doesn't know by itself: each name on the left, of a library or of your own, is taken for the one of "
        "PyTorch on the right.",
    ),
    Key(
        "torch-version",
        Release("torch", "2.6"),
        "",
        '"2.6"',
        "The oldest PyTorch that the code must run with: hints name nothing newer.",
    ),
    Key(
        "extra-suppressions",
        CodesByComment(),
        "{}",
        '{ "#ignore-cuda" = ["DEV7"] }',
        "Comments of other checks, each with the rules that it switches off on its line.",
    ),
    Key(
        "portable",
        PortableTable(),
        "{}",
        '{ replace = { "torch.cuda" = "mypkg.platform.current" }, cuda-only = ["kernels/**"], accept = ["rocm"] }',
        "What code that is meant for any accelerator may say of CUDA, for DEV7. `replace` names the project's own layer: "
        "what stands for `torch.cuda`, a name in it, `torch.Tensor.cuda`, `torch.Tensor.is_cuda` or `cuda`. `cuda-only` "
        "are patterns of files that are about CUDA (the comment `# devlint: cuda-only` says it of one function or "
        "class). `accept` takes code under a test for ROCm, which answers to `torch.cuda` too.",
    ),
    Key(
        "markdown",
        Flag(),
        "false",
        "true",
        "Lints the blocks of Python in the Markdown and reStructuredText files of folders too. As `--markdown`. A file that "
        "is named itself is linted anyway.",
    ),
    Key(
        "target-version",
        Release("Python", "3.14"),
        "",
        '"3.14"',
        "The newest Python that the code is written for. devlint reads code with the Python that it runs on: where that is "
        "older, a file with newer syntax is told as such, and not as one that isn't Python.",
    ),
    Key(
        "max-file-size",
        Size(),
        '"4 MB"',
        '"10 MB"',
        "Larger files are told and passed over (notebooks: ten times that).",
    ),
)

KEYS: Mapping[str, Key] = {key.name: key for key in _ALL}
