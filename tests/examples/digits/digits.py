"""Networks with one hidden layer that read scikit-learn's handwritten digits, and say whether they are even."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

from trainables import SimpleFamily, SimpleSettings

CLASSES = {"digit": 10, "parity": 2}


class Digits(SimpleFamily):
    task_names = tuple(CLASSES)
    size_axis = "hidden units"
    floor = {"digit": 0.11, "parity": 0.52}  # Accuracy of the best constant answer.
    tunable = ("learning_rate",)

    @dataclass(frozen=True)
    class Settings(SimpleSettings):
        steps: int = 200
        batch: int = 128
        learning_rate: float = 0.03

    def parameter_count(self, size):
        return 65 * size + 11 * size + 10  # The hidden layer and the output for digits, which every mix has.

    def groupings(self):
        return {"parity": tuple(digit % 2 for digit in range(10))}

    def train(self, tasks, size, seed, settings, resume=None):
        torch.manual_seed(seed)
        images, labels = data(seed)
        hidden = torch.nn.Sequential(torch.nn.Linear(64, size), torch.nn.ReLU())
        outputs = torch.nn.ModuleDict({task: torch.nn.Linear(size, CLASSES[task]) for task in tasks})
        parts = torch.nn.ModuleDict({"hidden": hidden, "outputs": outputs})
        optimizer = torch.optim.Adam(parts.parameters(), settings.learning_rate)
        begun = 0
        if resume is not None:
            begun = resume["step"]
            parts.load_state_dict(resume["parts"])
            optimizer.load_state_dict(resume["optimizer"])
            torch.set_rng_state(resume["random"])
        for step in range(begun + 1, settings.steps + 1):
            chosen = torch.randint(0, 1297, (settings.batch,))
            features = hidden(images[chosen])
            loss = sum(
                share * cross_entropy(outputs[task](features), labels[task][chosen]) for task, share in tasks.items()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 50 == 0:
                state = {"parts": parts.state_dict(), "optimizer": optimizer.state_dict()}
                self.save({"step": step, "random": torch.get_rng_state(), **state})
                with torch.no_grad():
                    features = hidden(images[1297:])
                    right = {task: outputs[task](features).argmax(1) == labels[task][1297:] for task in tasks}
                yield step, loss, {task: right[task].float().mean() for task in tasks}
        self.keep(weights=parts.state_dict(), arrays={"embedding": outputs[next(iter(tasks))].weight})


load_once = cache(load_digits)


def data(seed):
    """Return images [1797, 64] in an order of their own for each seed, and their labels. The last 500 are the test."""
    digits = load_once()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images = torch.tensor(digits.data[order] / 16, dtype=torch.float32)
    digit = torch.tensor(digits.target[order])
    return images, {"digit": digit, "parity": digit % 2}
