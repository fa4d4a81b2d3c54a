"""How fast the placement model is, on real sources, on generated ones, and on absurd ones.

    python benchmarks/model_speed.py PATH...            # MB/s over the files that speak of torch, memory, the slowest
    python benchmarks/model_speed.py --generated 5 50   # MB of generated project code: the time per MB should stay
    python benchmarks/model_speed.py --absurd           # single files that no person would write

Every scope of every file is modelled, on one core, whether or not a rule would ask for it.
"""

from __future__ import annotations

import argparse
import gc
import resource
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from devlint.placement.model import build
from devlint.source.project import Project, parse

_MODULE = """\
import torch
from torch import nn


class Net{i}(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Sequential(nn.ReLU(), nn.Linear(width, 2))

    def forward(self, x, mask=None):
        x = self.first(x)
        if mask is not None:
            x = x * mask.unsqueeze(-1)
        return self.second(x)


def train{i}(loader, device, epochs=3):
    net = Net{i}().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    total = 0.0
    for epoch in range(epochs):
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
    return net, total
"""


def modelled(files: Iterable[Path]) -> tuple[float, int, list[tuple[float, str]]]:
    """(seconds, bytes, (seconds, file) of each) of the model over files."""
    project, took, size = Project([]), [], 0
    gc.disable()
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        if "torch" not in text:
            continue
        start = time.perf_counter()
        # As the linter does before each file.
        project.forget_if_full()
        try:
            model = build(file, text, parse(text), project)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        model.ensure_all()
        model.close()
        # While something refers to it, the collector would put it among what lives long.
        del model
        gc.collect(0)
        took.append((time.perf_counter() - start, str(file)))
        size += len(text)
    gc.enable()
    return sum(seconds for seconds, _ in took), size, sorted(took, reverse=True)


def generated(folder: Path, megabytes: float) -> Iterator[Path]:
    """Files of about 50 kB each that hold generated classes and training loops."""
    per_file = 50_000 // len(_MODULE)
    for i in range(max(int(megabytes * 1e6 / 50_000), 1)):
        file = folder / f"part{i}.py"
        file.write_text("\n\n".join(_MODULE.format(i=f"{i}_{k}") for k in range(per_file)))
        yield file


def absurd() -> dict[str, str]:
    """Name -> text of files that try the model's limits."""
    head = "import torch\n\nx = torch.ones(3).cuda()\n"
    return {
        "12,000 functions": head + "".join(f"\n\ndef f{i}(a):\n    b = a + {i}\n    return b\n" for i in range(12_000)),
        "2,000 branches in a row": head + "".join(f"if x.sum() > {i}:\n    y = x + {i}\n" for i in range(2_000)),
        "900 elifs": head
        + "if x is None:\n    y = 0\n"
        + "".join(f"elif x.sum() > {i}:\n    y = x + {i}\n" for i in range(900)),
        "19 nested loops": head + "".join("    " * i + f"for v{i} in x:\n" for i in range(19)) + "    " * 19 + "pass\n",
        "5,000 dicts": head + "".join(f"d{i} = {{'a': x, 'b': {i}}}\n" for i in range(5_000)),
        "calls 2,000 deep": head + "".join(f"def g{i}(a):\n    return g{i + 1}(a)\n" for i in range(2_000)),
    }


def _say(title: str, seconds: float, size: int) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(
        f"{title}: {seconds:.1f} s for {size / 1e6:.2f} MB, {size / 1e6 / max(seconds, 1e-9):.2f} MB/s, peak {peak:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="The speed of the placement model.")
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--generated", nargs="*", type=float, default=[], metavar="MB")
    parser.add_argument("--absurd", action="store_true")
    options = parser.parse_args()
    for path in options.paths:
        seconds, size, took = modelled(sorted(path.rglob("*.py")) if path.is_dir() else [path])
        _say(str(path), seconds, size)
        for slow, file in took[:5]:
            print(f"    {slow:.2f} s  {file}")
    with tempfile.TemporaryDirectory() as folder:
        for megabytes in options.generated:
            seconds, size, _ = modelled(generated(Path(folder), megabytes))
            _say(f"generated, {megabytes:g} MB", seconds, size)
        for title, text in absurd().items() if options.absurd else ():
            file = Path(folder) / "absurd.py"
            file.write_text(text)
            seconds, size, took = modelled([file])
            _say(title if took else f"{title} (not parsed by Python)", seconds, size)


if __name__ == "__main__":
    main()
