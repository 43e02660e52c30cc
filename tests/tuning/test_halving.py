"""Successive halving: what is wanted next, what it costs at most, and that it makes no transition worse."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.space.tuning import Tune
from orchestrator.tuning.halving import WRITTEN, TuningCell, chosen, dearest, next_step, rungs_of
from orchestrator.tuning.objective import TuningRun, learned_of
from orchestrator.tuning.places import sizes_around
from orchestrator.tuning.proposals import propose
from orchestrator.tuning.results import TuningTrial
from tests.tuning import learning
from tests.tuning.learning import Law

RATE = "rate"
SIZES = (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 32, 48, 64)
DRAWS = 300


def asked(trials: int = 6, seeds: int = 4) -> Tune:
    span = {"from": 5e-4, "to": 2e-2, "scale": "log"}
    return Tune.model_validate({"settings": {RATE: span}, "trials": trials, "seeds": seeds})


def tune(
    train: Callable[[int, TuningCell], TuningRun], count: int, sizes: tuple[int, ...], seeds: int
) -> tuple[list[TuningTrial], list[Counter[int]], tuple[int, ...]]:
    """The trials, the runs of each step by size, and the finalists."""
    rungs = rungs_of(sizes, range(seeds))
    trials: list[TuningTrial] = []
    steps: list[Counter[int]] = []
    while not (step := next_step(trials, count, rungs, 2.0)).done:
        trials += [TuningTrial({RATE: float(len(trials) + place)}) for place in range(step.begin)]
        if step.runs:
            steps.append(Counter(cell.size for _, cell in step.runs))
        for number, cell in step.runs:
            trials[number] = replace(trials[number], runs=(*trials[number].runs, train(number, cell)))
    return trials, steps, step.finalists


def outcome(cell: TuningCell, learned: bool) -> TuningRun:
    return TuningRun(cell.size, cell.seed, 1000.0 if learned else None, 0.9 if learned else 0.3, 3000)


def test_a_trial_climbs_from_half_of_the_seeds_to_all_sizes() -> None:
    cells = [[(cell.size, cell.seed) for cell in rung] for rung in rungs_of((9, 11, 14), (5, 6, 7))]
    assert cells == [[(9, 5), (9, 6)], [(9, 7)], [(11, 5), (11, 6), (11, 7)], [(14, 5), (14, 6), (14, 7)]]
    assert [len(rung) for rung in rungs_of((9, 14), (5,))] == [1, 1]


@given(count=st.integers(2, 20), seeds=st.integers(1, 5), sizes=st.integers(2, 4), seed=st.integers(0, 2**32 - 1))
def test_no_step_is_dearer_than_what_the_plan_says(count: int, seeds: int, sizes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    good = rng.random(count)
    at = tuple(range(10, 10 + sizes))
    trials, steps, finalists = tune(lambda number, cell: outcome(cell, rng.random() < good[number]), count, at, seeds)
    bound = list(dearest(count, at, seeds))
    assert len(steps) <= len(bound)
    # Waves of trials and rungs come in the same order; one that was not needed is left out.
    assert all(any(step <= most for most in bound) for step in steps)
    assert sum(steps, Counter()) <= sum(bound, Counter())
    assert len(trials[WRITTEN].runs) == sizes * seeds
    assert all(len(trials[number].runs) == sizes * seeds for number in finalists)
    assert len(trials) in (1, count)


def test_by_default_a_mix_costs_26_runs_at_most_and_no_more_where_all_goes_on() -> None:
    trials, steps, finalists = tune(lambda number, cell: outcome(cell, number > 0), 6, (9, 14), 4)
    assert steps == list(dearest(6, (9, 14), 4))
    assert [step.total() for step in steps] == [8, 6, 4, 4, 4]
    assert len(finalists) == 1
    assert chosen(trials, finalists) == finalists[0]


def test_settings_that_leave_no_room_are_not_compared_with_others() -> None:
    trials, steps, finalists = tune(lambda number, cell: outcome(cell, cell != TuningCell(9, 2)), 6, (9, 14), 4)
    assert (len(trials), len(steps), finalists) == (1, 1, ())
    assert chosen(trials, finalists) == WRITTEN


def test_who_cannot_win_any_more_goes_no_further() -> None:
    # As written six of eight learn: who fails once cannot be told from luck, whatever comes.
    def train(number: int, cell: TuningCell) -> TuningRun:
        return outcome(cell, cell.seed > 0 if number else cell.size == 14 or cell.seed < 2)

    trials, _, finalists = tune(train, 6, (9, 14), 4)
    assert finalists == ()
    assert [len(trial.runs) for trial in trials] == [8, 2, 2, 2, 2, 2]


def test_who_learned_nothing_goes_no_further() -> None:
    trials, _, finalists = tune(lambda number, cell: outcome(cell, number == 0 and cell.size == 14), 6, (9, 14), 4)
    assert finalists == ()
    assert [len(trial.runs) for trial in trials] == [8, 2, 2, 2, 2, 2]


def test_what_is_not_better_by_more_than_luck_changes_nothing() -> None:
    # Five of eight learn, and ten times sooner, where four do as written.
    def train(number: int, cell: TuningCell) -> TuningRun:
        run = outcome(cell, cell.seed < (2 if cell.size == 9 else 3) if number else cell.size == 14)
        return replace(run, learned_at=100.0) if number and run.learned_at else run

    trials, _, finalists = tune(train, 6, (9, 14), 4)
    assert [learned_of(trials[number].runs) for number in (WRITTEN, *finalists)] == [4, 5]
    assert chosen(trials, finalists) == WRITTEN


def tuned_rate(law: Law, sizes: tuple[int, ...], rng: np.random.Generator) -> tuple[float, int]:
    """ln of the rate that tuning chooses, with Optuna's suggestions, and the runs it took."""
    wanted = asked()
    rungs = rungs_of(sizes, wanted.seed_list)
    trials: list[TuningTrial] = []
    while not (step := next_step(trials, wanted.trials, rungs, wanted.penalty)).done:
        if step.begin and not trials:
            trials.append(TuningTrial({RATE: math.exp(learning.WRITTEN)}))
        elif step.begin:
            seeded = wanted.model_copy(update={"seed": int(rng.integers(2**31))})
            trials += map(TuningTrial, propose(seeded, trials, rungs[0], step.begin))
        for number, cell in step.runs:
            run = law.run(cell.size, cell.seed, math.log(trials[number].values[RATE]), rng)
            trials[number] = replace(trials[number], runs=(*trials[number].runs, run))
    best = trials[chosen(trials, step.finalists)]
    return math.log(best.values[RATE]), sum(len(trial.runs) for trial in trials)


def pilot(law: Law, rng: np.random.Generator) -> tuple[int, ...]:
    """The sizes to tune at, from a bisection with one seed and the rate as written."""
    low, high = -1, len(SIZES)
    while high - low > 1:
        place = len(SIZES) - 1 if high == len(SIZES) else (low + high) // 2
        learned = law.run(SIZES[place], 0, learning.WRITTEN, rng).learned_at is not None
        if not learned and place == len(SIZES) - 1:
            return sizes_around(SIZES, SIZES[place], None)
        low, high = (low, place) if learned else (place, high)
    return sizes_around(SIZES, None if low < 0 else SIZES[low], SIZES[high])


def soonest_rate(law: Law, sizes: tuple[int, ...], rng: np.random.Generator) -> float:
    """The objective there was before: of six rates the one with the fewest mean steps to learn on two seeds."""
    rates = [learning.WRITTEN, *rng.uniform(learning.LOW, learning.HIGH, 5)]

    def mean(rate: float) -> float:
        return float(np.mean([law.run(size, seed, rate, rng).score(2.0) for size in sizes for seed in (0, 1)]))

    return float(min(rates, key=mean))


@dataclass(frozen=True)
class Moved:
    """What tuning did to the true transitions of made-up tasks, in ln size: ``by`` with the rate chosen, ``soonest``
    with the one that learned soonest, ``could`` with the best there is; each less that of the rate as written. ``runs``
    is what choosing took."""

    by: list[float]
    soonest: list[float]
    could: list[float]
    runs: list[int]


def moved(draw: Callable[[np.random.Generator], Law], count: int, seed: int) -> Moved:
    rng = np.random.default_rng(seed)
    all_rates = np.linspace(learning.LOW, learning.HIGH, 40)
    found = Moved([], [], [], [])
    while len(found.by) < count:
        law = draw(rng)
        written = law.transition(learning.WRITTEN)
        if not math.log(5) < written < math.log(50):
            continue
        sizes = pilot(law, rng)
        rate, runs = tuned_rate(law, sizes, rng)
        found.by.append(law.transition(rate) - written)
        found.soonest.append(law.transition(soonest_rate(law, sizes, rng)) - written)
        found.could.append(min(law.transition(float(each)) for each in all_rates) - written)
        found.runs.append(runs)
    return found


def worse(changes: list[float]) -> float:
    """The share of transitions that moved up by more than a sweep's own noise."""
    return float(np.mean(np.array(changes) > learning.NOISE))


def far_off(rng: np.random.Generator) -> Law:
    """A task for which the rate as written is two to five times too low."""
    law = Law.drawn(rng)
    return replace(law, reliable=learning.WRITTEN + rng.uniform(0.8, 1.6), toll=rng.uniform(0.3, 0.6))


def test_tuning_makes_no_transition_worse_where_the_soonest_rate_does() -> None:
    # 1 in 40 may be: two runs more of eight are luck once in a while.
    found = moved(Law.drawn, DRAWS, seed=20)
    assert worse(found.by) <= 1 / 40
    assert worse(found.soonest) >= 1 / 20
    assert np.mean(found.by) < 0
    assert np.mean(found.runs) < 26


def test_where_there_is_much_to_gain_some_of_it_is_gained() -> None:
    found = moved(far_off, DRAWS // 3, seed=21)
    assert worse(found.by) <= 1 / 40
    assert np.mean(found.could) < -learning.NOISE
    assert np.mean(found.by) < np.mean(found.could) / 3


def print_figures() -> None:
    """What the two tests above hold, in figures."""
    for kind, found in (("any", moved(Law.drawn, DRAWS, 20)), ("far off", moved(far_off, DRAWS // 3, 21))):
        for name, changes in (("fair", found.by), ("soonest", found.soonest), ("best there is", found.could)):
            print(
                f"{kind:8} {name:14} mean {np.mean(changes):+.3f}, largest {max(changes):+.2f}, worse by more than "
                f"noise {worse(changes):.1%}, better by more {worse([-each for each in changes]):.1%}"
            )
        print(f"{kind:8} runs {np.mean(found.runs):.1f} in the mean, {max(found.runs)} at most")


if __name__ == "__main__":
    print_figures()
