"""An engine that serves requests: each step schedules, runs the model and samples."""

import torch
from torch import nn

from devlint.runtime import sync_allowed


class Model(nn.Module):
    def __init__(self, vocabulary: int = 32, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        longest = int(lengths.max())
        positions = torch.arange(longest, device=tokens.device)
        keep = positions[None, :] < lengths[:, None]
        pooled = (hidden[:, :longest] * keep[..., None]).sum(1) / lengths[:, None]
        return self.head(pooled)


class Runner:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.model = Model().to(device)
        self.staging = torch.zeros(4, 8, dtype=torch.long, pin_memory=True)
        self.finished = 0

    def execute_model(self, requests: list[list[int]]) -> list[int]:
        tokens = self.prepare(requests)
        lengths = torch.tensor([len(r) for r in requests], device=self.device)
        logits = self.model(tokens, lengths)
        return self.sample(logits)

    def prepare(self, requests: list[list[int]]) -> torch.Tensor:
        for row, request in enumerate(requests):
            self.staging[row, : len(request)] = torch.as_tensor(request)
        return self.staging.to(self.device, non_blocking=True)

    def sample(self, logits: torch.Tensor) -> list[int]:
        chosen = logits.argmax(-1)
        if (chosen == 0).any():
            self.finished += 1
        with sync_allowed("the scheduler needs the tokens"):
            return chosen.tolist()


class Engine:
    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.requests = [[1, 2, 3], [4, 5], [6], [7, 8, 9, 10]]

    def step(self) -> None:
        for request, token in zip(self.requests, self.runner.execute_model(self.requests), strict=True):
            request.append(token)
            del request[:-4]


def serve(steps: int) -> None:
    engine = Engine(Runner(torch.device("cuda")))
    for _ in range(steps):
        engine.step()
