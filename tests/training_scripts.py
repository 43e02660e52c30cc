"""Training scripts and search spaces of them: one that does everything right, and changes of it that do not."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.space import strict_yaml
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec

GOOD = """
import argparse, json, os, random, sys, time
from pathlib import Path

parser = argparse.ArgumentParser()
for name in ("tasks", "checkpoint", "out", "resume"):
    parser.add_argument(f"--{name}", default="")
for name in ("size", "seed", "steps"):
    parser.add_argument(f"--{name}", type=int)
parser.add_argument("--pace", type=float, default=0.0)
given = parser.parse_args()
tasks = given.tasks.split("+")
noise = random.Random(1000 * given.seed + given.size).gauss(0, 0.02)
last = Path(given.checkpoint, "last.json")
state = {"step": 0, "trained": 0.0}
if given.resume:
    state = json.loads(Path(given.resume).read_text())
    print("resumed at", state["step"])


def evaluate(step):
    learned = 1 / (1 + (12 / (given.size * len(tasks))) ** 6)
    return min(1.0, max(0.0, 0.1 + 0.88 * learned * step / given.steps + noise))


def report(step, **values):
    line = {"iter": step, "val_loss": 1 / step, "n_params": 10 * given.size}
    print(json.dumps(line | {f"acc_{task}": evaluate(step) for task in tasks} | values))


def save():
    last.with_suffix(".new").write_text(json.dumps(state))
    os.replace(last.with_suffix(".new"), last)


# BEGIN
for step in range(state["step"] + 1, given.steps + 1):
    time.sleep(given.pace)
    state["step"], state["trained"] = step, state["trained"] + given.size / step
    # STEP
    if step % 2 == 0:
        report(step, trained=state["trained"])
        save()
"""
"""A script that keeps every rule. Its accuracy is a known logistic curve in the size, as in tests/families.py."""
COMMAND = [sys.executable, "train.py"]
for _name in ("tasks", "size", "seed", "steps", "pace", "checkpoint", "out"):
    COMMAND += [f"--{_name}", f"{{{_name}}}"]
SPACE: dict[str, Any] = {
    "question": "Does PROD help ADD?",
    "script": {
        "command": COMMAND,
        "metrics": {"step": "iter", "loss": "val_loss", "accuracy": {"add": "acc_add", "prod": "acc_prod"}},
        "resume": ["--resume", "{checkpoint}/last.json"],
        "parameters": "n_params",
        "code": ["train.py"],
        "size_axis": "width",
    },
    "floor": 0.1,
    "target": "add",
    "mixes": ["add", "add+prod"],
    "sizes": [8, 16],
    "seeds": 1,
    "search": {"method": "grid"},
    "settings": {"steps": 6, "pace": 0.0},
}


def written_space(folder: Path, code: str = GOOD, **changes: Any) -> Path:
    """Write a script and a search space of it into a folder, and return the search space. ``changes`` replace its keys;
    those of mappings, such as ``script``, replace the keys below, and None removes one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(code)
    space = dict(SPACE)
    for key, value in changes.items():
        space[key] = {**SPACE[key], **value} if isinstance(value, Mapping) and key in SPACE else value
    space["script"] = {key: value for key, value in space["script"].items() if value is not None}
    path = folder / "space.yaml"
    path.write_text(strict_yaml.write({key: value for key, value in space.items() if value is not None}))
    return path


def script_spec(folder: Path, code: str = GOOD, **changes: Any) -> SweepSpec:
    """Return the specification of :func:`written_space`."""
    return load_space(str(written_space(folder, code, **changes)))


def with_lines(lines: str, *, at: str = "BEGIN") -> str:
    """Return the good script with other lines before its first step, or in every step (``STEP``)."""
    indent = "    " if at == "STEP" else ""
    text = textwrap.indent(textwrap.dedent(lines).strip(), indent)
    assert GOOD.count(f"{indent}# {at}") == 1
    return GOOD.replace(f"{indent}# {at}", text)
