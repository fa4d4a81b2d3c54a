"""A sampler that takes noise away step by step."""

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, sample: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
        scaled = self.layers(sample / sigma)
        scale = torch.tensor([0.5, 2.0]).to(sample.device, non_blocking=True)
        return scaled * scale[0]


class Scheduler:
    def __init__(self, steps: int, device: torch.device) -> None:
        self.sigmas = torch.linspace(1.0, 0.1, steps, device=device)

    def step(self, output: torch.Tensor, index: int, sample: torch.Tensor) -> torch.Tensor:
        sigma = self.sigmas[index]
        if sigma > 0.5:
            sample = sample + 0.1 * torch.randn_like(sample)
        strong = output[output.abs() > 0.1]
        return sample - sigma * output + strong.sum()


@torch.no_grad()
def sample(steps: int) -> torch.Tensor:
    device = torch.device("cuda")
    model, scheduler = Denoiser().to(device), Scheduler(steps, device)
    noise = torch.randn(4, 8, device=device)
    for index in range(steps):
        output = model(noise, scheduler.sigmas[index])
        noise = scheduler.step(output, index, noise)
    return noise
