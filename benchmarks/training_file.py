"""A training program of some 1,000 lines, such as people write: data, models, losses, steps, evaluation, a `main`."""

from __future__ import annotations

HEAD = '''\
"""Trains, evaluates and exports a few models."""

import argparse
import logging
import math
import os
import random
import time
from collections import OrderedDict, defaultdict
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

logger = logging.getLogger("train")
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


class AverageMeter:
    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.value = 0.0
        self.sum = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.value = value
        self.sum += value * n
        self.count += n

    @property
    def average(self):
        return self.sum / max(self.count, 1)

'''

# One task: a data set, a model with its blocks, a loss, a step, an evaluation, and a loop around them.
TASK = """\

class {Name}Data(Dataset):
    def __init__(self, root, train=True, size={size}):
        self.root = Path(root)
        self.train = train
        self.size = size
        self.items = sorted(self.root.glob("*.pt"))
        self.mean = torch.tensor([0.485, 0.456, 0.406])
        self.std = torch.tensor([0.229, 0.224, 0.225])

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        item = torch.load(self.items[index], map_location="cpu")
        image, label = item["image"].float(), item["label"]
        if self.train and random.random() < 0.5:
            image = image.flip(-1)
        image = (image - self.mean[:, None, None]) / self.std[:, None, None]
        return image[:, : self.size, : self.size], label


class {Name}Block(nn.Module):
    def __init__(self, width, expansion=4, dropout=0.1):
        super().__init__()
        hidden = width * expansion
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, width))
        self.heads = {heads}

    def attend(self, x, mask=None):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        mixed = F.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x, mask=None):
        x = x + self.attend(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class {Name}Model(nn.Module):
    def __init__(self, classes, width={width}, depth=6, dropout=0.1):
        super().__init__()
        self.patches = nn.Conv2d(3, width, kernel_size=16, stride=16)
        self.blocks = nn.ModuleList([{Name}Block(width, dropout=dropout) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        self.positions = nn.Parameter(torch.zeros(1, 196, width))
        self.register_buffer("scale", torch.ones(1))

    def features(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = x + self.positions[:, : x.size(1)]
        for block in self.blocks:
            x = block(x)
        return self.norm(x).mean(dim=1)

    def forward(self, images):
        return self.head(self.features(images)) * self.scale


def {name}_loss(logits, labels, weights=None, smoothing=0.1):
    log_probs = F.log_softmax(logits, dim=-1)
    nll = -log_probs.gather(1, labels.unsqueeze(1)).squeeze(1)
    smooth = -log_probs.mean(dim=-1)
    loss = (1 - smoothing) * nll + smoothing * smooth
    if weights is not None:
        loss = loss * weights.to(loss.device)[labels]
    return loss.mean()


def {name}_schedule(optimizer, warmup, total):
    def factor(step):
        if step < warmup:
            return step / max(warmup, 1)
        progress = (step - warmup) / max(total - warmup, 1)
        return 0.5 * (1 + math.cos(math.pi * progress))

    return LambdaLR(optimizer, factor)


def train_{name}(model, loader, optimizer, scheduler, scaler, epoch, args):
    model.train()
    losses, speed = AverageMeter("loss"), AverageMeter("speed")
    started = time.perf_counter()
    for step, (images, labels) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast(device.type, enabled=args.amp):
            logits = model(images)
            loss = {name}_loss(logits, labels, smoothing=args.smoothing)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        if args.clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        losses.update(loss.item(), images.size(0))
        if step % args.log_every == 0:
            elapsed = time.perf_counter() - started
            speed.update(images.size(0) / max(elapsed, 1e-6))
            logger.info("epoch %d step %d loss %.4f (%.1f/s)", epoch, step, losses.average, speed.average)
            started = time.perf_counter()
    return losses.average


@torch.no_grad()
def evaluate_{name}(model, loader, classes):
    model.eval()
    confusion = torch.zeros(classes, classes, dtype=torch.long)
    correct = total = 0
    for images, labels in loader:
        logits = model(images.to(device))
        predicted = logits.argmax(dim=1).cpu()
        correct += (predicted == labels).sum().item()
        total += labels.numel()
        for truth, guess in zip(labels, predicted):
            confusion[truth, guess] += 1
    recall = confusion.diag().float() / confusion.sum(dim=1).clamp(min=1)
    return {{"accuracy": correct / max(total, 1), "recall": recall.mean().item()}}


def run_{name}(args):
    seed_everything(args.seed)
    train_data, test_data = {Name}Data(args.root), {Name}Data(args.root, train=False)
    train_loader = DataLoader(train_data, args.batch_size, shuffle=True, num_workers=4, pin_memory=True)
    test_loader = DataLoader(test_data, args.batch_size, num_workers=4)
    model = {Name}Model(args.classes).to(device)
    if args.resume:
        checkpoint = torch.load(args.resume)
        model.load_state_dict(checkpoint["model"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.decay)
    scheduler = {name}_schedule(optimizer, args.warmup, args.epochs * len(train_loader))
    scaler = torch.amp.GradScaler(device.type, enabled=args.amp)
    best = 0.0
    for epoch in range(args.epochs):
        loss = train_{name}(model, train_loader, optimizer, scheduler, scaler, epoch, args)
        scores = evaluate_{name}(model, test_loader, args.classes)
        logger.info("epoch %d: loss %.4f, accuracy %.3f", epoch, loss, scores["accuracy"])
        if scores["accuracy"] > best:
            best = scores["accuracy"]
            state = {{"model": model.state_dict(), "epoch": epoch, "best": best}}
            torch.save(state, Path(args.output) / "{name}.pt")
    return best

"""

TAIL = """\

def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=sorted(TASKS))
    parser.add_argument("--root", default="data")
    parser.add_argument("--output", default="runs")
    parser.add_argument("--resume")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--decay", type=float, default=0.05)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--smoothing", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--amp", action="store_true")
    return parser.parse_args()


def main():
    args = parse_args()
    os.makedirs(args.output, exist_ok=True)
    logging.basicConfig(level=logging.INFO)
    best = TASKS[args.task](args)
    logger.info("best accuracy: %.3f", best)


if __name__ == "__main__":
    main()
"""

NAMES = ("flowers", "signs", "scans", "birds", "dishes", "tickets")


def training_file() -> str:
    """The program."""
    tasks = "".join(
        TASK.format(Name=name.capitalize(), name=name, size=128 + 32 * at, width=192 + 64 * at, heads=4 + at)
        for at, name in enumerate(NAMES)
    )
    table = "\nTASKS = {" + ", ".join(f'"{name}": run_{name}' for name in NAMES) + "}\n\n"
    return HEAD + tasks + table + TAIL
