"""Measures the trained classifier on images that it hasn't seen."""

import torch

from data import CLASSES, make_loader
from model import StripeNet
from train import CHECKPOINT


@torch.no_grad()
def predict(model, loader, device):
    """Predictions and labels of all batches, on the host."""
    model.eval()
    predictions, targets = [], []
    for images, labels in loader:
        logits = model(images.to(device))
        predictions.append(logits.argmax(dim=1).cpu())
        targets.append(labels)
    return torch.cat(predictions), torch.cat(targets)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = StripeNet(len(CLASSES))
    model.load_state_dict(torch.load(CHECKPOINT))
    model.to(device)

    predictions, targets = predict(model, make_loader(size=256, seed=2, shuffle=False), device)
    print(f"accuracy: {(predictions == targets).float().mean():.1%}")
    for index, name in enumerate(CLASSES):
        seen = targets == index
        print(f"  {name}: {(predictions[seen] == index).float().mean():.1%} of {seen.sum()}")


if __name__ == "__main__":
    main()
