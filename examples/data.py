"""Synthetic images of three kinds of stripes, in place of a download."""

import torch
from torch.utils.data import DataLoader, Dataset

CLASSES = ("horizontal", "vertical", "diagonal")


class Stripes(Dataset):
    """Grey images of 16 x 16 pixels; `vertical` is twice as frequent as the other two."""

    def __init__(self, size: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.tensor([0, 1, 1, 2])[torch.randint(4, (size,), generator=generator)]
        self.phases = torch.rand(size, generator=generator)
        self.noise = 0.5 * torch.randn(size, 1, 16, 16, generator=generator)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows, columns = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
        label = self.labels[index]
        ramp = (rows, columns, rows + columns)[label]
        image = torch.sin(ramp / 1.5 + 6.28 * self.phases[index])
        return image.unsqueeze(0) + self.noise[index], label


def class_weights(labels: torch.Tensor) -> torch.Tensor:
    """A weight for each class: the rarer, the heavier."""
    counts = torch.bincount(labels, minlength=len(CLASSES))
    return counts.sum() / (len(CLASSES) * counts)


def make_loader(size: int, seed: int, *, shuffle: bool) -> DataLoader:
    return DataLoader(Stripes(size, seed), batch_size=32, shuffle=shuffle)
