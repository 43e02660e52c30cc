"""The tuning of one mix: what is wanted next, and on disk the trials begun and what their runs came to.

A study lies under the home, by a key that holds everything its result depends on, so that every sweep that asks the
same finds it. Each trial is a file, each finished run another: a driver that is killed loses neither.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from orchestrator.engine.tuning_job import TuningJob, read_run, run_file
from orchestrator.errors import SweepError, UserError
from orchestrator.search.base import Request
from orchestrator.space.plain import plain_settings
from orchestrator.space.spec import SweepSpec
from orchestrator.space.tuning import Tune, Tuned
from orchestrator.stacks.stacking import Ticket, next_stack
from orchestrator.store.files import Home, write_whole
from orchestrator.tuning.halving import WRITTEN, Step, TuningCell, chosen, next_step, rungs_of
from orchestrator.tuning.objective import LEARNED, TuningRun, objective
from orchestrator.tuning.results import Tuning, TuningTrial
from trainables.arms import Arm

KEY_DIGITS = 16


class Study:
    """Used by one driver at a time, under :meth:`driving`. Set ``stopping`` to start no further run.

    ``most`` says how many runs of a size train as one stack, at most.
    """

    def __init__(
        self, spec: SweepSpec, mix: Arm, sizes: tuple[int, ...], home: Home, most: Callable[[int], int]
    ) -> None:
        if spec.tune is None:
            raise ValueError("the search space asks for no tuning")
        self.mix = mix
        self.sizes = sizes
        self.asked: Tune = spec.tune
        self.key = study_key(spec, mix, sizes)
        self.directory = home.study(self.key)
        self.stopping = False
        self._spec = spec
        self._home = home
        self._most = most
        self._family = spec.make_family()
        self._rungs = rungs_of(sizes, self.asked.seed_list)
        self._on_end: Callable[[int, TuningTrial], None] = lambda number, trial: None
        self._heard: frozenset[int] = frozenset()
        self._out: dict[tuple[int, TuningCell], str] = {}
        self._trials = _read_trials(self.directory)

    def listen(self, on_end: Callable[[int, TuningTrial], None]) -> None:
        """Call ``on_end`` with every trial that wants no further run, once what it came to is safe."""
        self._on_end = on_end
        self._heard = self._step.ended

    @property
    def trials(self) -> tuple[TuningTrial, ...]:
        """The trials begun, in their order, at most as many as are asked for."""
        return tuple(self._trials[: self.asked.trials])

    @property
    def done(self) -> bool:
        """True when no trial wants a further run, or the study is stopping."""
        return self.stopping or self._step.done

    def next_job(self, slots: int) -> TuningJob | None:
        """What to train next where ``slots`` stacks train at a time; None to wait for what is training, or because the
        study is :attr:`done`. A slot that is handed a job reports its runs to :meth:`ended`."""
        if self.stopping:
            return None
        self._begin()
        wanted = [run for run in self._step.runs if run not in self._out]
        if not wanted:
            return None
        tickets = {self._ticket(number, cell): (number, cell) for number, cell in wanted}
        free = max(1, slots - len(set(self._out.values())))
        first = next(iter(tickets))
        stack = next_stack(list(tickets), free, self._most(first.config.size))
        runs = tuple(tickets[ticket] for ticket in stack.tickets)
        self._out |= dict.fromkeys(runs, stack.id)
        return self._job(stack.id, runs)

    def ended(self, number: int, run: TuningRun) -> None:
        """Keep what a run of a trial came to. A repeated report changes nothing."""
        cell = TuningCell(run.size, run.seed)
        self._out.pop((number, cell), None)
        trial = self._trials[number]
        if any((known.size, known.seed) == (cell.size, cell.seed) for known in trial.runs):
            return
        runs = (*trial.runs, run)
        self._trials[number] = replace(trial, runs=runs, score=objective(runs, self.asked.penalty))
        self._write(number)
        step = self._step
        for each in sorted(step.ended - self._heard):
            self._on_end(each, self._trials[each])
        self._heard |= step.ended

    def result(self) -> Tuning:
        """The trials and what was chosen. Raises :class:`SweepError` while runs are still wanted."""
        step = self._step
        if not step.done:
            raise SweepError(f"the tuning of {self.mix} has not ended; its files lie in {self.directory}")
        number = chosen(self.trials, step.finalists)
        return Tuning(self.mix.name, self.key, self.sizes, self.trials, self._tuned(number))

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Hold the study's lock. Raises :class:`UserError` while another process tunes the same."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.directory / "driver.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UserError(
                f"{self.mix} is being tuned in the same way by another process; wait for it, its result is shared"
            ) from None
        try:
            self._trials = _read_trials(self.directory)
            self._adopt()
            yield
        finally:
            lock.release()

    @property
    def _step(self) -> Step:
        return next_step(self.trials, self.asked.trials, self._rungs, self.asked.penalty)

    def _begin(self) -> None:
        """Begin the trials that are wanted now: first the one at the space's own values, then what Optuna suggests."""
        if not (wanted := self._step.begin):
            return
        from orchestrator.tuning.proposals import propose  # Optuna takes a second, and few sweeps tune.

        if not self._trials:
            self._trials.append(
                TuningTrial({path: _look_up(self._spec.settings, path) for path in self.asked.settings})
            )
        else:
            self._trials += map(TuningTrial, propose(self.asked, self.trials, self._rungs[0], wanted))
        for number in range(len(self._trials) - wanted, len(self._trials)):
            self._write(number)

    def _adopt(self) -> None:
        """Take in runs that finished without the driver hearing of it."""
        while True:
            there = [(run, self._path(*run)) for run in self._step.runs]
            there = [(run, path) for run, path in there if path.is_file()]
            if not there:
                return
            for (number, _), path in there:
                self.ended(number, read_run(path))

    def _job(self, name: str, runs: Sequence[tuple[int, TuningCell]]) -> TuningJob:
        space = self._spec.model_copy(update={"tune": None, "tuned": {}}).to_dict()
        values = tuple((number, self._tuned(number).model_dump(), cell.seed) for number, cell in runs)
        return TuningJob(space, self.mix.name, runs[0][1].size, values, str(self._home.root), self.key, name)

    def _ticket(self, number: int, cell: TuningCell) -> Ticket:
        spec = self._spec.model_copy(update={"tuned": {self.mix.name: self._tuned(number)}})
        request = Request(self.mix.name, cell.size, cell.seed)
        config = spec.config(request)
        return Ticket(request, config, self._family.key(config), self._family.shape(config))

    def _path(self, number: int, cell: TuningCell) -> Path:
        return run_file(self._home, self.key, self._ticket(number, cell).key)

    def _tuned(self, number: int) -> Tuned:
        """What a trial's runs are trained with: for the settings as written nothing but those."""
        values = {} if number == WRITTEN else self._trials[number].values
        base = math.exp(sum(map(math.log, self.sizes)) / len(self.sizes))
        return Tuned(settings=values, base_size=base, size_power=self.asked.size_power)

    def _write(self, number: int) -> None:
        plain = TypeAdapter(TuningTrial).dump_json(self._trials[number], indent=1).decode()
        write_whole(self.directory / f"trial-{number:04d}.json", plain)


def study_key(spec: SweepSpec, mix: Arm, sizes: tuple[int, ...]) -> str:
    """A hash of everything the trials of a mix depend on but their number: more of them continue a study."""
    if spec.tune is None:
        raise ValueError("the search space asks for no tuning")
    described = {
        "family": spec.family,
        "version": spec.family_class.version,
        "mix": mix.name,
        "target": spec.target,
        "settings": plain_settings(spec.settings),
        "tune": spec.tune.model_dump(mode="json", exclude={"trials", "sizes"}),
        "sizes": sizes,
        "learned": LEARNED,
        "method": "halving over seeds and sizes",
    }
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def _read_trials(directory: Path) -> list[TuningTrial]:
    reader = TypeAdapter(TuningTrial)
    trials = []
    for path in sorted(directory.glob("trial-*.json")):
        try:
            trials.append(reader.validate_json(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise SweepError(f"{path} does not hold a readable trial: {error}") from error
    return trials


def _look_up(settings: Any, path: str) -> float:
    for part in path.split("."):
        settings = getattr(settings, part)
    return float(settings)
