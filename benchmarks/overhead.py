"""What watching and virtual CUDA cost: time ratios to the plain CPU, in one process.

    python benchmarks/overhead.py [--rounds N]

Two programs: a training step of a ResNet-18, and a loop of a thousand small operations. Each kind of run takes turns
with the others, and the median counts, so that a busy machine disturbs all alike. Exits with 1 where a limit is
passed: 1.3 for the training step, 6 for the small operations.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from devlint.runtime import virtual_cuda, watch_devices

LIMITS = {"ResNet-18 training step": 1.3, "1,000 small operations": 6.0}


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


def small_operations(device: str) -> Callable[[], None]:
    x, y = torch.randn(32, device=device), torch.randn(32, device=device)

    def loop() -> None:
        z = x
        for _ in range(250):
            z = torch.tanh(z * y + x)
            z = z[:]

    return loop


PROGRAMS = {"ResNet-18 training step": training, "1,000 small operations": small_operations}
KINDS: dict[str, tuple[str, Callable[[], AbstractContextManager[object]]]] = {
    "plain": ("cpu", nullcontext),
    "watch": ("cpu", watch_devices),
    "virtual": ("cuda", virtual_cuda),
}


def measure(program: Callable[[str], Callable[[], None]], rounds: int) -> dict[str, float]:
    """Median seconds of a call, for each kind of run."""
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind, (device, context) in KINDS.items():
            with context():
                call = program(device)
                call()
                for _ in range(3):
                    start = time.perf_counter()
                    call()
                    times[kind].append(time.perf_counter() - start)
    return {kind: statistics.median(found) for kind, found in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    failed = False
    print(f"{'program':26}{'plain':>10}{'watch':>9}{'virtual':>9}{'limit':>7}")
    for name, program in PROGRAMS.items():
        found = measure(program, rounds)
        ratios = {kind: found[kind] / found["plain"] for kind in ("watch", "virtual")}
        failed |= max(ratios.values()) > LIMITS[name]
        print(
            f"{name:26}{found['plain'] * 1e3:8.2f}ms{ratios['watch']:8.2f}x{ratios['virtual']:8.2f}x{LIMITS[name]:6.1f}x"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
