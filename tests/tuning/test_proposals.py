"""Which values Optuna's part of a study suggests."""

from __future__ import annotations

import math

from orchestrator.space.tuning import Tune
from orchestrator.tuning.halving import rungs_of
from orchestrator.tuning.objective import TuningRun
from orchestrator.tuning.proposals import propose
from orchestrator.tuning.results import TuningTrial

RATE, DECAY = "training.learning_rate", "training.weight_decay"
ASKED = Tune.model_validate(
    {"settings": {RATE: {"from": 5e-4, "to": 2e-2, "scale": "log"}, DECAY: {"from": 0.0, "to": 0.4}}, "trials": 9}
)
FIRST = rungs_of((9, 14), ASKED.seed_list)[0]


def trial(rate: float, learned_at: float | None) -> TuningTrial:
    runs = tuple(TuningRun(cell.size, cell.seed, learned_at, 0.3, 3000) for cell in FIRST)
    return TuningTrial({RATE: rate, DECAY: 0.1}, runs)


def share_of(rate: float) -> float:
    return math.log(rate / 5e-4) / math.log(40)


def test_the_first_values_cover_every_part_of_every_range() -> None:
    found = propose(ASKED, [trial(2e-3, 2000.0)], FIRST, 4)
    assert sorted(int(4 * share_of(values[RATE])) for values in found) == [0, 1, 2, 3]
    assert sorted(int(4 * values[DECAY] / 0.4) for values in found) == [0, 1, 2, 3]
    assert found == propose(ASKED, [trial(2e-3, 2000.0)], FIRST, 4)
    other = ASKED.model_copy(update={"seed": 5})
    assert found != propose(other, [trial(2e-3, 2000.0)], FIRST, 4)


def test_the_later_ones_come_from_where_it_went_well() -> None:
    rates = [5e-4 * 40 ** (place / 11) for place in range(12)]
    means = []
    for learns in (range(3), range(9, 12)):  # The lowest rates are learned, then the highest.
        known = [trial(rate, 1500.0 if place in learns else None) for place, rate in enumerate(rates)]
        asked = [ASKED.model_copy(update={"seed": seed}) for seed in range(5)]
        found = [values[RATE] for each in asked for values in propose(each, known, FIRST, 8)]
        assert len(set(found)) == 40
        means.append(sum(map(share_of, found)) / 40)
    # Drawn evenly, each would be .5, give or take .05.
    assert means[0] < 0.4
    assert means[1] > 0.6


def test_settings_as_written_outside_the_ranges_do_no_harm() -> None:
    found = propose(ASKED, [trial(0.5, 2000.0), trial(1e-3, None)], FIRST, 3)
    assert all(5e-4 <= values[RATE] <= 2e-2 for values in found)
