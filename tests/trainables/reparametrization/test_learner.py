"""Stacks of races: each run as if alone, and exact checkpoints."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.trainables.reparametrization.racing import EVERY, finish, heat, learner, runs
from trainables.base import Learner, Outcome
from trainables.reparametrization import moments
from trainables.reparametrization.heat import HeatInstance

SETTINGS: dict[str, dict[str, Any]] = {"race": {"steps": 400, "tolerance": 1e-2, "evaluate_every": 50, "patience": 3.0}}


def numbers(outcome: Outcome) -> dict[str, float]:
    """What of an outcome is no time."""
    return {name: value for name, value in outcome.measures.items() if not name.startswith("seconds")}


def curve(outcome: Outcome) -> list[dict[str, float]]:
    """What of its points is no time."""
    return [
        {name: value for name, value in point.measures.items() if not name.startswith("seconds")}
        for point in outcome.curve
    ]


def same(mine: Outcome, theirs: Outcome) -> None:
    assert numbers(mine) == pytest.approx(numbers(theirs), rel=1e-9)
    assert (mine.accuracy, mine.steps, mine.data) == (theirs.accuracy, theirs.steps, theirs.data)
    assert [point.step for point in mine.curve] == [point.step for point in theirs.curve]
    for one, other in zip(curve(mine), curve(theirs), strict=True):
        assert one == pytest.approx(other, rel=1e-6)


def test_a_stack_of_seeds_equals_each_alone() -> None:
    family = heat(**SETTINGS)
    configs = runs(family, EVERY, 64, [0, 1, 2, 3])
    together = finish(learner(family, configs))
    assert len({outcome.steps for outcome in together.values()}) > 1  # Some end before others, and leave the stack.
    for index, config in enumerate(configs):
        same(together[index], finish(learner(family, [config]))[0])


def test_runs_of_other_rates_share_a_stack() -> None:
    slow, fast = (heat(rates={"adam": rate}, **SETTINGS) for rate in (0.003, 0.03))
    configs = [*runs(slow, "adam", 64, [0]), *runs(fast, "adam", 64, [0])]
    assert slow.shape(configs[0]) == fast.shape(configs[1])
    together = finish(learner(slow, configs))
    assert together[0].measures["spent_adam"] > together[1].measures["spent_adam"]
    same(together[1], finish(learner(fast, configs[1:]))[0])


def test_it_goes_on_from_a_checkpoint_and_from_a_part_of_one(tmp_path: Path) -> None:
    family = heat(**SETTINGS)
    configs = runs(family, EVERY, 64, [0, 1, 2, 3])
    whole = learner(family, configs)
    first: dict[int, Outcome] = {}
    for _ in range(2):
        first |= {report.index: report.outcome for report in whole.advance() if report.outcome is not None}
    whole.save(tmp_path)
    rest = finish(whole)
    assert rest, "the checkpoint must lie in the middle"
    again = learner(family, configs)
    again.restore(tmp_path)
    resumed = finish(again)
    assert resumed.keys() == rest.keys()
    for index, outcome in rest.items():
        assert numbers(resumed[index]) == numbers(outcome)
        assert curve(resumed[index]) == curve(outcome)
    last = max(rest)
    part = learner(family, configs[last:])
    part.restore(tmp_path)
    same(finish(part)[0], rest[last])
    with pytest.raises(ValueError, match="belongs to another stack"):
        learner(family, runs(family, EVERY, 64, [9])).restore(tmp_path)
    with pytest.raises(FileNotFoundError):
        again.restore(tmp_path / "nowhere")


def test_keys_know_what_changes_the_mathematics() -> None:
    family = heat()
    (run,) = runs(family, "adam", 64, [0])
    other = replace(run, settings=heat(race={"tolerance": 1e-3}).settings)
    assert family.key(run) != family.key(other)


def test_planning_needs_no_torch() -> None:
    code = (
        "import sys\nfrom trainables.base import Arm, Mix\nfrom trainables.named import load_family\n"
        "kind = load_family('heat_diffusion'); family = kind(kind.Settings())\n"
        "run = family.config(Arm.of(Mix.parse('hessian+adam')), 64, 0)\n"
        "family.key(run), family.shape(run), family.flops(run), family.parameters(64), family.memory(64)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.slow
def test_a_hundred_thousand_nodes_fit_into_two_gigabytes() -> None:
    """The solution, every method and its matrices; resident memory at its peak, torch itself included."""
    code = (
        "import resource\nfrom tests.trainables.reparametrization.racing import EVERY, heat, learner, runs\n"
        "family = heat(race={'steps': 60, 'evaluate_every': 30})\n"
        "race = learner(family, runs(family, EVERY, 100_000, [0]))\n"
        "gaps = [report.evaluation.measures for _ in range(2) for report in race.advance()]\n"
        "assert 0 < gaps[1]['gap_lbfgs'] < gaps[0]['gap_lbfgs'] < 1, gaps\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 2e9


def arrays(race: Learner) -> dict[int, dict[str, NDArray[Any]]]:
    """Go on to the end; what is kept of each run."""
    kept: dict[int, dict[str, NDArray[Any]]] = {}
    while reports := race.advance():
        kept |= {report.index: dict(report.arrays) for report in reports if report.outcome is not None}
    return kept


def test_states_are_kept_for_pictures_through_checkpoints(tmp_path: Path) -> None:
    race_settings = SETTINGS["race"] | {"steps": 3000, "evaluate_every": 20, "patience": 1000.0}
    family = heat(race=race_settings, rates={"adam": 0.01})
    configs = runs(family, "adam+lbfgs", 64, [0, 1])
    race = learner(family, configs)
    while race.advance()[0].evaluation.measures["gap_lbfgs"] > 1e-2:  # type: ignore[union-attr]
        pass
    race.save(tmp_path)  # L-BFGS has left the stack, and Adam goes on.
    kept = arrays(race)
    again = learner(family, configs)
    again.restore(tmp_path)
    for index, found in arrays(again).items():
        assert found.keys() == kept[index].keys()
        for name, array in found.items():
            assert np.array_equal(array, kept[index][name])
    for index, run in enumerate(configs):
        one = family.instance(run.size, run.seed)
        assert isinstance(one, HeatInstance)
        for name in ("adam", "lbfgs"):
            nodes, edges, gaps = (kept[index][f"{what}_{name}"] for what in ("nodes", "edges", "gaps"))
            assert nodes.shape == (3, 64, 3)
            assert gaps[0] == 1
            assert gaps[2] <= 1e-2 < gaps[0]
            assert gaps[2] <= gaps[1] <= 0.1
            assert np.count_nonzero(nodes[0, :, 2]) == 4  # At the start all but the held ones are at 0.
            assert nodes[2, one.free, 2] == pytest.approx(one.solution[:, 0], abs=0.5)
            assert set(edges[:, 0]) == {0, 1, 2}
            assert (np.abs(nodes[0, edges[:, 1], :2] - nodes[0, edges[:, 2], :2]).sum(axis=1) == 1).all()  # Of a grid.


def test_of_large_graphs_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "PICTURED", 63)
    family = heat(**SETTINGS)
    assert arrays(learner(family, runs(family, "lbfgs", 64, [0]))) == {0: {}}
