"""A model that fits a line to each sample by solving for it, trained."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Fit(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.embed = nn.Linear(width, width)
        self.turn = nn.Parameter(torch.eye(width))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        features = self.embed(x)
        squared = features.mT @ features + torch.eye(features.shape[-1], device=x.device)
        weights = torch.linalg.solve(squared, features.mT @ y)
        back, _ = torch.linalg.inv_ex(self.turn)
        return features @ back @ self.turn.inverse() @ weights


def train(steps: int) -> float:
    device = torch.device("cuda")
    model = Fit().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(steps * 2, 6, 4), torch.randn(steps * 2, 6, 1))
    loader = DataLoader(data, batch_size=2, pin_memory=True)
    total = torch.zeros((), device=device)
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = (model(x, y) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total.item() / steps
