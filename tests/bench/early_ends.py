"""Would runs that were trained to their end have ended the same if they had ended once they were settled?

    python -m tests.bench.early_ends HOME... [--learned .9 --hopeless .4 --after .75]

Reads the sweeps of these homes, trains nothing, and applies the rule of ``settings.training.settle`` to the learning
curves of full runs. For each space, profile and mix it prints the share of the steps that the rule needs, the learners
that it gives up, and the runs that it calls learned although their final score is below the bar.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.catalog.reading import read_sweep
from orchestrator.home.directories import Home
from orchestrator.transition.evidence import has_learned
from trainables.base import Evaluation, Outcome, Status
from trainables.transformer.training_settings import SettleSettings

HEAD = "| space | mix | runs | steps | learned | given up | called learned |\n" + "|---" * 7 + "|"


@dataclass(frozen=True)
class Ended:
    """What the rule says of a full run: the steps it needs, as a share of the run's, and whether the task was learned
    (None if the rule leaves that to the end)."""

    steps: float
    verdict: bool | None


def ended(curve: Iterable[Evaluation], floor: dict[str, float], target: str, rule: SettleSettings, steps: int) -> Ended:
    """Apply the rule to a learning curve, whose run ends once every task with a ``floor`` is settled."""
    best, settled = dict.fromkeys(floor, 0.0), dict[str, bool]()
    for point in curve:
        for task, least in floor.items():
            score = (point.accuracy[task] - least) / max(1 - least, 1e-9)
            best[task] = max(best[task], score)
            if score >= rule.learned:
                settled.setdefault(task, True)
            elif best[task] < rule.hopeless and point.step >= rule.after * steps:
                settled.setdefault(task, False)
        if len(settled) == len(floor):
            return Ended(point.step / steps, settled[target])
    return Ended(1.0, settled.get(target))


@dataclass(frozen=True)
class Checked:
    """A full run under the rule: what the rule says, and whether it learned in fact."""

    by_rule: Ended
    learned: bool


def checked(home: Home, rule: SettleSettings) -> dict[tuple[str, str], dict[str, Checked]]:
    """Return the full runs of a home under the rule, by space with profile, mix and key."""
    by_mix: dict[tuple[str, str], dict[str, Checked]] = defaultdict(dict)
    for sweep_id in home.sweep_ids():
        sweep = read_sweep(home, sweep_id)
        family, target = sweep.spec.make_family(), sweep.spec.target
        for run in sweep.runs:
            steps = family.steps(run.config)
            if not is_full(run.outcome, target):
                continue
            by_rule = ended(run.outcome.curve, run.outcome.floor, target, rule, steps)
            learned = has_learned(run.outcome.accuracy[target], run.outcome.floor[target])
            by_mix[f"{sweep.spec.name} {sweep.spec.profile}", run.config.label][run.key] = Checked(by_rule, learned)
    return by_mix


def is_full(outcome: Outcome, target: str) -> bool:
    """Return True if a run was trained until it ended or was solved, not until the rule itself ended it."""
    is_scored = outcome.status is Status.FINISHED and target in outcome.floor and bool(outcome.curve)
    return is_scored and outcome.settled(target) is None


def row(space: str, mix: str, runs: Sequence[Checked]) -> str:
    learners = [run for run in runs if run.learned]
    given_up = sum(run.by_rule.verdict is False for run in learners)
    called = sum(run.by_rule.verdict is True for run in runs if not run.learned)
    share = sum(run.by_rule.steps for run in runs) / len(runs)
    others = len(runs) - len(learners)
    return (
        f"| {space} | {mix} | {len(runs)} | {share:.0%} | {len(learners)} | {given_up} of {len(learners)} "
        f"| {called} of {others} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "homes", nargs="+", type=Path, help="directories of sweeps whose runs were trained to their end"
    )
    for name, value in vars(SettleSettings()).items():
        parser.add_argument(f"--{name}", type=float, default=value, help=f"default {value:g}")
    options = parser.parse_args(arguments)
    rule = SettleSettings(options.learned, options.hopeless, options.after)
    print(rule.text(), HEAD, sep="\n")
    runs: dict[tuple[str, str], dict[str, Checked]] = defaultdict(dict)
    for home in options.homes:
        for place, own in checked(Home(home), rule).items():
            runs[place] |= own
    for (space, mix), own in sorted(runs.items()):
        print(row(space, mix, list(own.values())))


if __name__ == "__main__":
    main()
