"""What watching and virtual CUDA cost: time ratios to the plain CPU, in one process.

    python benchmarks/overhead.py [--rounds N]

Training steps of a transformer, a ResNet-18 and an MLP, and loops of `x * y` and of `torch.relu(x)` with 32 elements.
Each kind of run takes turns with the others, on one thread, and the least of its CPU's time counts, so that a busy
machine disturbs little. `mode` is a function mode of PyTorch that does nothing: what a call of a function under virtual
CUDA can't go below. Exits with 1 where a limit is passed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from devlint.runtime import virtual_cuda, watch_devices

# For virtual CUDA; the watch may cost what it costs.
LIMITS = {
    "transformer step": 1.03,
    "ResNet-18 step": 1.15,
    "MLP step": 1.6,
    "small operators": 1.7,
    "small functions": 2.8,
}


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        same = before == after and stride == 1
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.path(x) + self.shortcut(x))


def resnet18(classes: int = 10) -> nn.Module:
    """The 18-layer residual network for 224x224 images."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    widths = (64, 64, 128, 256, 512)
    for stage in range(4):
        layers.append(Block(widths[stage], widths[stage + 1], 1 if stage == 0 else 2))
        layers.append(Block(widths[stage + 1], widths[stage + 1], 1))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


class Nothing(TorchFunctionMode):
    """Passes everything on."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def transformer(device: str) -> Callable[[], None]:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(16, 64, 128, device=device)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def mlp(device: str) -> Callable[[], None]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batch, labels = torch.randn(64, 64, device=device), torch.randint(10, (64,), device=device)

    def steps() -> None:
        for _ in range(20):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batch), labels).backward()
            optimizer.step()

    return steps


def training(device: str) -> Callable[[], None]:
    torch.manual_seed(0)
    model = resnet18().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    images, labels = torch.randn(4, 3, 96, 96, device=device), torch.randint(10, (4,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def small_operators(device: str) -> Callable[[], None]:
    x, y = torch.randn(32, device=device), torch.randn(32, device=device)

    def loop() -> None:
        for _ in range(1000):
            x * y

    return loop


def small_functions(device: str) -> Callable[[], None]:
    x = torch.randn(32, device=device)

    def loop() -> None:
        for _ in range(1000):
            torch.relu(x)

    return loop


PROGRAMS = {
    "transformer step": transformer,
    "ResNet-18 step": training,
    "MLP step": mlp,
    "small operators": small_operators,
    "small functions": small_functions,
}
KINDS: dict[str, tuple[str, Callable[[], AbstractContextManager[object]]]] = {
    "plain": ("cpu", nullcontext),
    "mode": ("cpu", Nothing),
    "watch": ("cpu", watch_devices),
    "virtual": ("cuda", virtual_cuda),
}


def measure(program: Callable[[str], Callable[[], None]], rounds: int) -> dict[str, float]:
    """The least seconds of a call, for each kind of run."""
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind, (device, context) in KINDS.items():
            with context():
                call = program(device)
                call()
                for _ in range(3):
                    start = time.process_time()
                    call()
                    times[kind].append(time.process_time() - start)
    return {kind: min(found) for kind, found in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    failed = False
    torch.set_num_threads(1)
    print(f"{'program':20}{'plain':>10}{'mode':>9}{'watch':>9}{'virtual':>9}{'limit':>8}")
    for name, program in PROGRAMS.items():
        found = measure(program, rounds)
        ratios = {kind: found[kind] / found["plain"] for kind in KINDS}
        failed |= ratios["virtual"] > LIMITS[name]
        shown = "".join(f"{ratios[kind]:8.2f}x" for kind in ("mode", "watch", "virtual"))
        print(f"{name:20}{found['plain'] * 1e3:8.2f}ms{shown}{LIMITS[name]:7.2f}x")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
