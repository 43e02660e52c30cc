"""From the reparametrized problem to the plain one, where a run stalls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.trainables.reparametrization.racing import finish, heat, learner, runs
from trainables.base import Outcome
from trainables.errors import SettingsError
from trainables.reparametrization.diffusion import HeatDiffusion
from trainables.reparametrization.settings import NetworkSettings

NETWORK = {"depth": 8, "residual": "halves", "train_weights": False}
"""It smooths so much that what is rough takes it for ever."""
RATES = {"adam": 0.02, "hessian": 0.05}


def family(switch_after: int, **race: Any) -> HeatDiffusion:
    settings = {"steps": 3000, "tolerance": 1e-3, "evaluate_every": 50} | race
    return heat(network=NETWORK | {"switch_after": switch_after, "switch_share": 0.3}, rates=RATES, race=settings)


def outcomes(switch_after: int, seeds: list[int], **race: Any) -> dict[int, Outcome]:
    mine = family(switch_after, **race)
    return finish(learner(mine, runs(mine, "hessian", 64, seeds)))


def test_a_run_that_stalls_goes_on_with_the_unknowns() -> None:
    stuck, switched = outcomes(0, [0])[0].measures, outcomes(10, [0])[0].measures
    assert not stuck["arrived_hessian"]
    assert switched["arrived_hessian"]
    # Steps after the switch cost what plain ones do, a tenth of the network's.
    each = stuck["spent_hessian"] / stuck["steps_hessian"]
    assert switched["spent_hessian"] < 0.5 * each * switched["steps_hessian"]


def test_runs_that_switch_at_other_times_share_a_stack() -> None:
    together = outcomes(10, [0, 1, 2])
    assert len({outcome.measures["spent_hessian"] for outcome in together.values()}) == 3
    for index in together:
        alone = outcomes(10, [index])[0].measures
        for name in ("spent_hessian", "steps_hessian", "arrived_hessian"):
            assert together[index].measures[name] == pytest.approx(alone[name], rel=1e-9)


@pytest.mark.parametrize("evaluations", [1, 6])
def test_a_checkpoint_knows_who_has_switched(evaluations: int, tmp_path: Path) -> None:
    """Before anybody has, and after."""
    mine = family(10)
    configs = runs(mine, "hessian", 64, [0, 1])
    whole = learner(mine, configs)
    for _ in range(evaluations):
        whole.advance()
    whole.save(tmp_path)
    rest = finish(whole)
    assert rest, "the checkpoint must lie before the end"
    again = learner(mine, configs)
    again.restore(tmp_path)
    for index, outcome in finish(again).items():
        assert outcome.measures["spent_hessian"] == rest[index].measures["spent_hessian"]


def test_without_a_switch_keys_stay_what_they_were() -> None:
    described = heat().described(heat().settings)
    assert not {"switch_after", "switch_share"} & described["network"].keys()
    assert "switch_after" in family(10).described(family(10).settings)["network"]


def test_a_switch_that_cannot_be_is_refused() -> None:
    with pytest.raises(SettingsError, match="must be 0 or more"):
        NetworkSettings(switch_after=-1)
    with pytest.raises(SettingsError, match="must be in"):
        NetworkSettings(switch_share=1.0)
