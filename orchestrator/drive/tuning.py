"""Tunes a sweep's settings, mix by mix, before the sweep itself begins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from rich.console import Console

from orchestrator.drive.stopping import stop_on_interrupt
from orchestrator.engine.base import Engine
from orchestrator.engine.campaign import Campaign
from orchestrator.engine.study import Study, study_key
from orchestrator.search.base import Problem
from orchestrator.search.bisection import Bisection
from orchestrator.space.search import Search
from orchestrator.space.searching import observe_validation
from orchestrator.space.spec import SweepSpec
from orchestrator.stacks.sizing import Sizing
from orchestrator.store import lifecycle
from orchestrator.store.damage import mend_journal
from orchestrator.store.files import Home, write_whole
from orchestrator.store.journal import Journal
from orchestrator.store.records import Sweep
from orchestrator.tuning.places import sizes_around
from orchestrator.tuning.results import Tuning, TuningTrial
from orchestrator.tuning.wording import chosen_text, trial_text
from trainables.arms import Arm


def tuned(sweep: Sweep, home: Home, engine: Engine, sizing: Sizing, console: Console) -> Sweep:
    """The sweep with tuned settings, also on disk. One that asks for no tuning, or is tuned already, stays as it is.

    Raises ``KeyboardInterrupt`` after an interruption; finished runs are kept, and a resumed sweep goes on from there.
    """
    if sweep.spec.tune is None or sweep.spec.tuned:
        return sweep

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    driver = _Tuner(sweep.spec, home, engine, sizing, say)
    with stop_on_interrupt(driver.stop):
        found = driver.run()
    if found is None:
        say(f"Stopped while tuning; what finished is kept. Continue with the same command and --resume {sweep.id}")
        raise KeyboardInterrupt
    spec = sweep.spec.model_copy(update={"tuned": {tuning.mix: tuning.best for tuning in found}})
    files = home.sweep(sweep.id)
    write_whole(files.tunings, json.dumps([tuning.to_json() for tuning in found]))
    write_whole(files.spec, spec.to_yaml())
    return replace(sweep, spec=spec, tunings=found)


class _Tuner:
    """Tunes in this process, mix by mix. :meth:`stop` may be called at any time, from a signal handler."""

    def __init__(self, spec: SweepSpec, home: Home, engine: Engine, sizing: Sizing, say: Callable[[str], None]) -> None:
        self._spec = spec
        self._home = home
        self._engine = engine
        self._sizing = sizing
        self._say = say
        self._stopping = False
        self._stop_now: Callable[[], None] = lambda: None

    def stop(self) -> None:
        """Start no more runs."""
        self._stopping = True
        self._stop_now()

    def run(self) -> tuple[Tuning, ...] | None:
        """What was found for each mix; None after :meth:`stop`."""
        sizes = self._sizes()
        found = []
        for mix in self._spec.mixes:
            if self._stopping:
                return None
            study = Study(self._spec, mix, sizes[mix], self._home, self._sizing.most)
            self._stop_now = partial(setattr, study, "stopping", True)
            self._train(study)
            if self._stopping:
                return None
            found.append(study.result())
            self._say(chosen_text(found[-1]))
        return tuple(found)

    def _train(self, study: Study) -> None:
        at = f"{self._spec.size_axis} {' and '.join(map(str, study.sizes))}"

        def heard(place: int, trial: TuningTrial) -> None:
            self._say(f"tuning {study.mix}, trial {place + 1} of {study.asked.trials}: {trial_text(trial)}")

        with study.driving():
            if study.done:
                return
            self._say(f"tuning {study.mix} at {at}: up to {study.asked.trials} trials")
            study.listen(heard)
            self._engine.tune(study)

    def _sizes(self) -> dict[Arm, tuple[int, ...]]:
        """The sizes to tune at, for each mix."""
        asked = self._spec.tune
        if asked is None:
            raise ValueError("the search space asks for no tuning")
        if asked.sizes != "auto":
            return dict.fromkeys(self._spec.mixes, asked.sizes)
        return self._estimated(asked.seed)

    def _estimated(self, seed: int) -> dict[Arm, tuple[int, ...]]:
        """Two sizes around each mix's transition, from a bisection with one of tuning's seeds and untuned settings, on
        the validation tuples."""
        search = Search.model_validate({"method": "bisection"})
        spec = self._spec.model_copy(update={"tune": None, "seed": seed, "seeds": 1, "search": search})
        keys = "|".join(study_key(self._spec, mix, self._spec.sizes) for mix in self._spec.mixes)
        name = f"tuning-{hashlib.sha256(keys.encode()).hexdigest()[:12]}"
        files = self._home.sweep(name)
        pilot = Sweep(name, spec, files.directory, "", {})
        searcher = Bisection(Problem(tuple(mix.name for mix in spec.mixes), spec.sizes, spec.seed_list))
        with lifecycle.driving(files):
            mend_journal(files, spec, self._say)
            journal = Journal(files.journal)
            try:
                known = list(lifecycle.recall(files).ended)
                known += lifecycle.adopt_outcomes(pilot, journal, [entry.key for entry in known], self._say)
                for entry in known:
                    searcher.tell(entry.request, observe_validation(entry.outcome, spec.target))
                campaign = Campaign(
                    pilot, searcher, journal, slots=self._engine.slots, sizing=self._sizing, seen=observe_validation
                )
                self._stop_now = partial(setattr, campaign, "stopping", True)
                if not campaign.done:
                    self._say("tuning: a first estimate of each transition, with untuned settings")
                    self._engine.execute(campaign)
            finally:
                journal.close()
        progress = zip(spec.mixes, searcher.progress(), strict=True)
        return {mix: sizes_around(spec.sizes, at.low, at.high) for mix, at in progress}
