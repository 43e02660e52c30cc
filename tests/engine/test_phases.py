"""Arms of several phases, through the program: each phase is a run that continues the previous one."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from orchestrator.home.directories import Home
from orchestrator.space.parsing import InvalidDataError
from tests.cli.program import command, separate, started
from tests.scripted import FAMILY, trained
from tests.sweep.sweeps import ended, spec

MAX_FIRST = {"name": "max first", "phases": [{"mix": "max"}, {"mix": "add"}]}


def write(path: Path, mixes: list[object], **settings: object) -> Path:
    """Write a search space of the scripted family with two sizes and two seeds."""
    wanted_spec = {
        "name": path.stem,
        "question": "Does MAX before ADD help?",
        "family": FAMILY,
        "target": "add",
        "mixes": mixes,
        "sizes": [32, 40],
        "seeds": 2,
        "search": {"method": "grid"},
        "settings": {"log": str(path.parent / "trained.txt"), "steps": 6} | settings,
    }
    path.write_text(json.dumps(wanted_spec), encoding="utf-8")  # JSON is YAML.
    return path


def run(space: Path, *words: str) -> str:
    """Run a sweep that succeeds, in this process or with Ray in a separate one. Return its output."""
    given = ["run", str(space), "--home", str(space.parent), *words]
    done = command(*given) if "--engine=local" in words else separate(*given, within_s=600)
    assert done.code == 0, done.out + done.err
    return done.out


def scores(home: Path, space: str) -> dict[tuple[str, int, int, int], float]:
    """Return the last accuracy of every run of a sweep by mix, size, seed and phase."""
    [sweep] = [item for item in Home(home).sweep_ids() if item.startswith(space)]
    return {
        (entry.request.mix, entry.request.size, entry.request.seed, entry.request.phase): max(
            entry.outcome.accuracy.values()
        )
        for entry in ended(home, sweep)
    }


@pytest.mark.parametrize("engine", [["--engine=local"], pytest.param([], marks=pytest.mark.night)])
def test_a_later_phase_continues_from_the_weights_of_the_previous_one(engine: list[str], tmp_path: Path) -> None:
    out = run(write(tmp_path / "first.yaml", ["add", MAX_FIRST]), *engine)
    result = scores(tmp_path, "first")
    assert trained(tmp_path / "trained.txt") == {
        f"{mix} {size} {seed}": 2 if mix == "add" else 1
        for mix in ("add", "max")
        for size in (32, 40)
        for seed in (0, 1)
    }
    for size in (32, 40):
        for seed in (0, 1):
            assert result["max first", size, seed, 0] > result["add", size, seed, 0]
            assert ("max first", size, seed, 1) in result
    assert "\nmax first " in out
    assert "max first, phase 1" not in out.partition(": size at")[2]


def test_every_command_counts_only_whole_runs_and_equal_first_phases_are_trained_once(tmp_path: Path) -> None:
    run(write(tmp_path / "one.yaml", ["add", MAX_FIRST]), "--engine=local")
    status = json.loads(command("status", "--json", "--home", tmp_path).out)
    assert status["cost"]["runs"] == sum(mix["done"] for mix in status["mixes"]) == 8
    assert len(scores(tmp_path, "one")) == 12
    for words, output in (
        (("status",), "8 runs trained for "),
        (("sweeps",), " finished, 8 runs, "),
        (("explain", "one"), "Found, from 8 runs: "),
    ):
        assert output in " ".join(command(*words, "--home", tmp_path).out.split()), words
    both_then = {"name": "both then", "phases": [{"mix": "max"}, {"mix": "add+max"}]}
    out = run(write(tmp_path / "two.yaml", ["add", MAX_FIRST, both_then]), "--engine=local")
    assert "Reused 12 runs" in out  # 4 runs of ADD, 4 of the first phase, 4 of the second phase.
    assert [trained(tmp_path / "trained.txt")[f"max 32 {seed}"] for seed in (0, 1)] == [1, 1]


TRANSFORMERS = """
like: add_vs_add_prod
name: {name}
mixes: [{{name: easy first, phases: [{{mix: max+med, share: 0.5}}, {{mix: add, share: 0.5}}]}}]
sizes: [8]
seeds: 2
probes: []
search: {{method: grid}}
settings: {{training: {{steps: 1200, evaluate_every: 20, stop_when_solved: false}}}}
resources: {{checkpoint_every_s: 0.000001, max_stack: 2}}
"""


@pytest.mark.slow
def test_transformers_killed_in_their_second_phase_continue_exactly(tmp_path: Path) -> None:
    for name in ("killed", "whole"):
        (tmp_path / f"{name}.yaml").write_text(TRANSFORMERS.format(name=name))
    words = ["run", str(tmp_path / "killed.yaml"), "--profile", "smoke", "--home", str(tmp_path), "--engine=local"]
    process = started(*words)
    ended = 2  # Runs of the first phase, both in one stack.
    while not (outcomes(tmp_path) == ended and list(tmp_path.glob("sweeps/killed-*/checkpoints/*.[3-9]"))):
        assert process.poll() is None, process.communicate()
        assert outcomes(tmp_path) <= ended, "it was too late to kill it in this phase"
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    run(tmp_path / "killed.yaml", "--profile", "smoke", "--engine=local", "--resume")
    run(tmp_path / "whole.yaml", "--profile", "smoke", "--engine=local", "--fresh")
    result = scores(tmp_path, "killed")
    assert len(result) == 4
    assert scores(tmp_path, "whole") == result


def outcomes(home: Path) -> int:
    return len(list(home.glob("runs/[0-9a-f]*/outcome.json")))


@pytest.mark.parametrize(
    ("arm", "output"),
    [
        ({"name": "x", "phases": [{"mix": "max", "share": 0.7}, {"mix": "add", "share": 0.7}]}, "must sum to 1"),
        ({"name": "x", "phases": [{"mix": "max"}, {"mix": "add", "takes": "heads"}]}, "the part 'heads'"),
        ({"name": "x", "phases": [{"mix": "add"}, {"mix": "max"}]}, "must contain the target"),
        ({"name": "x", "phases": [{"mix": "min"}, {"mix": "add"}]}, "'min'"),
        ({"name": "x", "phases": []}, "either a mix or phases"),
        ({"name": "x", "phases": [{"mix": "max", "takes": "body"}, {"mix": "add"}]}, "no phase comes before it"),
    ],
)
def test_arms_that_cannot_be_trained_are_refused(arm: dict[str, object], output: str) -> None:
    with pytest.raises((ValueError, InvalidDataError)) as refused:
        spec(mixes=["add", arm])
    assert output in str(refused.value)
