"""A small network that tells two spirals apart, in numpy. It is configured by a file and by KEY=VALUE, as with Hydra:

python train.py --config config.yaml optimizer.lr=0.01 resume=true
"""

import argparse
import json
from pathlib import Path

import numpy as np
import yaml


def configuration() -> dict:
    """Return the values of the file, with those of the command line in place of theirs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    config = yaml.safe_load(arguments.config.read_text())
    for override in arguments.overrides:
        path, _, value = override.partition("=")
        *outer, name = path.split(".")
        place = config
        for key in outer:
            place = place[key]
        if name not in place:
            raise SystemExit(f"there is no setting {path}")
        place[name] = yaml.safe_load(value)
    return config


def spirals(count: int, noise: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return points [count, 2] of two spirals that wind around each other, and which spiral each is on."""
    labels = rng.integers(0, 2, count)
    angle = rng.uniform(0.5, 2.5, count) * np.pi
    turned = angle + np.pi * labels
    points = np.stack([np.cos(turned), np.sin(turned)], 1) * angle[:, None] / 3
    return points + rng.normal(0, noise, points.shape), labels


def outputs(weights: dict, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return hidden values [n, width] and the logits [n] of the second spiral."""
    hidden = np.tanh(points @ weights["w1"] + weights["b1"])
    return hidden, hidden @ weights["w2"] + weights["b2"]


def gradients(weights: dict, points: np.ndarray, labels: np.ndarray) -> tuple[float, dict]:
    """Return the mean cross-entropy and its gradients."""
    hidden, logits = outputs(weights, points)
    loss = np.logaddexp(0, -np.where(labels == 1, logits, -logits)).mean()
    error = (1 / (1 + np.exp(-logits)) - labels) / len(labels)
    back = np.outer(error, weights["w2"]) * (1 - hidden**2)
    return float(loss), {"w1": points.T @ back, "b1": back.sum(0), "w2": hidden.T @ error, "b2": error.sum()}


def main() -> None:
    config = configuration()
    rng = np.random.default_rng(config["seed"])
    width, lr = config["model"]["width"], config["optimizer"]["lr"]
    points, labels = spirals(config["data"]["examples"], config["data"]["noise"], rng)
    test_points, test_labels = spirals(2000, config["data"]["noise"], rng)
    shapes = {"w1": (2, width), "b1": (width,), "w2": (width,), "b2": ()}
    weights = {name: rng.normal(0, 1.0 if name in ("w1", "b1") else 0.1, shape) for name, shape in shapes.items()}
    first, second = ({name: np.zeros(shape) for name, shape in shapes.items()} for _ in range(2))
    checkpoint = Path(config["checkpoints"], "last.npz")
    begun = 0
    if config["resume"] and checkpoint.exists():
        with np.load(checkpoint) as saved:
            begun = int(saved["step"])
            for part, values in (("weights", weights), ("first", first), ("second", second)):
                values.update({name: saved[f"{part}.{name}"] for name in values})
    for step in range(begun + 1, config["optimizer"]["steps"] + 1):
        loss, slopes = gradients(weights, points, labels)
        for name, slope in slopes.items():  # Adam.
            first[name] = 0.9 * first[name] + 0.1 * slope
            second[name] = 0.999 * second[name] + 0.001 * slope**2
            mean, square = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
            weights[name] = weights[name] - lr * mean / (np.sqrt(square) + 1e-8)
        if step % 100 == 0:
            right = (outputs(weights, test_points)[1] > 0) == test_labels
            line = {"step": step, "train": {"loss": loss}, "test": {"accuracy": float(right.mean())}}
            with open(config["metrics"], "a") as file:
                file.write(json.dumps(line) + "\n")
            # After the metrics: a script that is killed in between writes them again, but never leaves them out.
            parts = {"weights": weights, "first": first, "second": second}
            arrays = {f"{part}.{name}": one for part, values in parts.items() for name, one in values.items()}
            with (checkpoint.parent / "next.npz").open("wb") as file:
                np.savez(file, step=step, **arrays)
            (checkpoint.parent / "next.npz").replace(checkpoint)


if __name__ == "__main__":
    main()
