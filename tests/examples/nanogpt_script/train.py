"""A small GPT that learns the larger and the smaller of two numbers, in plain PyTorch.

Nothing in this file knows about sweeps: it reads its arguments, prints one JSON line per evaluation, and writes a
checkpoint from which it continues bit for bit.

    python train.py --tasks max+min --n_embd 8 --seed 0 --max_iters 200
"""

import argparse
import json
import math
import os
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

OPERATIONS = {"max": torch.maximum, "min": torch.minimum}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", default="max", help="tasks with optional weights, such as max:2+min")
    parser.add_argument("--n_embd", type=int, default=32)
    parser.add_argument("--n_layer", type=int, default=1)
    parser.add_argument("--n_head", type=int, default=1)
    parser.add_argument("--numbers", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max_iters", type=int, default=200)
    parser.add_argument("--eval_interval", type=int, default=20)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--weight_decay", type=float, default=0.1)
    parser.add_argument("--checkpoints", type=Path, help="directory for checkpoints")
    parser.add_argument("--resume", type=Path, help="checkpoint to continue from")
    return parser.parse_args()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, length, width, layers, heads):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.apply(self._initialize)

    @staticmethod
    def _initialize(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.1)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))[:, -1]


def make_data(name, numbers):
    """Return questions (a, b, operation) and answers, split into training and test by a fixed shuffle."""
    pairs = torch.cartesian_prod(torch.arange(numbers), torch.arange(numbers))
    answers = OPERATIONS[name](pairs[:, 0], pairs[:, 1])
    operation = torch.full((len(pairs), 1), numbers + list(OPERATIONS).index(name))
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(1))
    questions, answers = torch.cat([pairs, operation], dim=1)[order], answers[order]
    test = len(pairs) // 3
    return (questions[test:], answers[test:]), (questions[:test], answers[:test])


def save(path, step, model, optimizer, losses):
    """Write the whole state, so that a killed run continues as if nothing had happened."""
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}
    state["random"] = torch.get_rng_state()
    torch.save(state, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


@torch.no_grad()
def evaluate(model, tests):
    """Return the share of right answers for each task."""
    model.eval()
    shares = {name: (model(x).argmax(dim=1) == y).float().mean().item() for name, (x, y) in tests.items()}
    model.train()
    return shares


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    weights = {name: float(weight or 1) for name, _, weight in (t.partition(":") for t in arguments.tasks.split("+"))}
    data = {name: make_data(name, arguments.numbers) for name in weights}
    tests = {name: test for name, (_, test) in data.items()}

    model = GPT(arguments.numbers + len(OPERATIONS), 3, arguments.n_embd, arguments.n_layer, arguments.n_head)
    optimizer = torch.optim.AdamW(model.parameters(), arguments.lr, weight_decay=arguments.weight_decay)
    print(json.dumps({"n_params": sum(parameter.numel() for parameter in model.parameters())}))

    begun, losses = 0, []
    if arguments.resume:
        state = torch.load(arguments.resume, weights_only=True)
        begun, losses = state["step"], state["losses"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        print(f"resumed at step {begun}")

    for step in range(begun + 1, arguments.max_iters + 1):
        # A cosine schedule that ends at a tenth of the rate.
        progress = step / arguments.max_iters
        for group in optimizer.param_groups:
            group["lr"] = arguments.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))
        name = list(weights)[torch.multinomial(torch.tensor(list(weights.values())), 1).item()]
        questions, answers = data[name][0]
        chosen = torch.randint(len(questions), (arguments.batch_size,))
        loss = cross_entropy(model(questions[chosen]), answers[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % arguments.eval_interval == 0 or step == arguments.max_iters:
            line = {"iter": step, "loss": sum(losses) / len(losses)}
            print(json.dumps(line | {f"acc_{name}": share for name, share in evaluate(model, tests).items()}))
            losses = []
            if arguments.checkpoints:
                save(arguments.checkpoints / "last.pt", step, model, optimizer, losses)


if __name__ == "__main__":
    main()
