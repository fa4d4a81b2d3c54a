"""Trains the classifier and saves its weights."""

from pathlib import Path

import torch
from torch import nn

from data import CLASSES, class_weights, make_loader
from model import StripeNet

CHECKPOINT = Path(__file__).with_name("stripes.pt")
EPOCHS = 5


def train_one_epoch(model, loader, criterion, optimizer, device):
    model.train()
    total = 0.0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = make_loader(size=512, seed=1, shuffle=True)

    model = StripeNet(len(CLASSES)).to(device)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    print(f"training {model.count_parameters()} parameters on {device}")

    weights = class_weights(loader.dataset.labels)
    weights.to(device)
    criterion = nn.CrossEntropyLoss(weight=weights)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    for epoch in range(EPOCHS):
        loss = train_one_epoch(model, loader, criterion, optimizer, device)
        print(f"epoch {epoch + 1}: loss {loss:.3f}")

    bare = model.module if isinstance(model, nn.DataParallel) else model
    torch.save(bare.state_dict(), CHECKPOINT)
    print(f"saved {CHECKPOINT.name}")


if __name__ == "__main__":
    main()
