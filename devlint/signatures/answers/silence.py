"""Code that is meant for the host: what a function by itself would be told for is right there."""

from __future__ import annotations

import ast
import re

from devlint.placement.sources import FunctionModel, dotted

# Functions that run before anything is moved, or that are about files and other forms of a model.
_HOST_FUNCTIONS = re.compile(
    r"__init__|__new__|__setstate__|__getitem__|__iter__|__len__|__repr__|__post_init__|_?(?:re)?init(?:_.*|ialize.*)?|reset_parameters|post_init|setup|prepare_data"
    r"|_?(?:load|save|convert|export|dump|read|write|parse|plot|draw|show|visuali[sz]e|collate|preprocess|make|fuse|trace|onnx|script)(?:_.*)?"
    r"|.*_(?:cpu|np|numpy|host|to_pil|pil|ref|reference|onnx|init|collate|fn_init|export|checkpoint)|.*collate.*|.*(?:numpy|_from_list).*"
    r"|test_.*|from_.*|build_.*|create_.*|get_parser|main|.*dataset.*|.*transform|tokenize.*|_?compute_stats.*"
)  # fmt: skip
_HOST_CLASSES = re.compile(
    r".*(?:Dataset|Sampler|Collat\w*|Transform|Reader|Loader|Tokenizer|TestCase|Tests?|Mixer|Config|DataModule)"
)
_HOST_FOLDERS = re.compile(r"/(?:tests?|data|datasets?|scripts|tools|preprocess\w*)/")


def is_host_code(function: FunctionModel | None) -> bool:
    """Whether a function is meant for the host, going by its name and its class."""
    scope = function
    while scope is not None:
        if _HOST_FUNCTIONS.fullmatch(scope.name) and not _is_forward(scope):
            return True
        if scope.cls is not None and _is_host_class(scope.cls):
            return True
        scope = scope.parent
    return False


def _is_forward(function: FunctionModel) -> bool:
    return function.cls is not None and function.name in ("forward", "__call__")


def _is_host_class(cls: ast.ClassDef) -> bool:
    names = [cls.name, *(dotted(b) or "" for b in cls.bases)]
    return any(_HOST_CLASSES.fullmatch(name.rsplit(".", 1)[-1]) for name in names)


def is_host_file(path: str) -> bool:
    """Whether a file is about data or tests, going by its folders."""
    return _HOST_FOLDERS.search(path) is not None
