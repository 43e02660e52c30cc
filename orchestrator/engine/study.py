"""The tuning of one mix, on disk: what is asked, the trials begun and what they came to.

A study lies under the home, by a key that holds everything its result depends on, so that every sweep that asks the
same finds it. Each trial is a file, each of its finished runs another: a driver that is killed loses neither.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from orchestrator.engine.files import Home, write_whole
from orchestrator.errors import SweepError, UserError
from orchestrator.plain import plain_settings
from orchestrator.spec import SweepSpec
from orchestrator.tuning.objective import LEARNED, TuningRun, mean_score
from orchestrator.tuning.results import Tuning, TuningTrial, best_trial
from orchestrator.tuning.space import Tune, Tuned
from trainables.base import Mix

KEY_DIGITS = 16


@dataclass(frozen=True)
class TrialJob:
    """Everything that training one trial needs, as plain values that travel between machines.

    In ``space`` the trial's values stand as what was tuned for ``mix``.
    """

    space: dict[str, Any]
    mix: str
    sizes: tuple[int, ...]
    home: str
    study: str
    number: int

    def to_config(self) -> dict[str, Any]:
        """The job as a trial's config."""
        return asdict(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> TrialJob:
        """The inverse of :meth:`to_config`."""
        return cls(**{**config, "sizes": tuple(config["sizes"])})


class Study:
    """Used by one driver at a time, under :meth:`driving`. Set ``stopping`` to start no further trial."""

    def __init__(self, spec: SweepSpec, mix: Mix, sizes: tuple[int, ...], home: Home) -> None:
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
        self._on_end: Callable[[int, TuningTrial], None] = lambda number, trial: None
        self._trials = _read_trials(self.directory)

    def listen(self, on_end: Callable[[int, TuningTrial], None]) -> None:
        """Call ``on_end`` with every trial that ends, once it is safe."""
        self._on_end = on_end

    @property
    def trials(self) -> tuple[TuningTrial, ...]:
        """The trials begun, in their order, at most as many as are asked for."""
        return tuple(self._trials[: self.asked.trials])

    @property
    def done(self) -> bool:
        """True when every trial asked for has ended, or the study is stopping."""
        return self.stopping or (
            len(self.trials) == self.asked.trials and all(trial.score is not None for trial in self.trials)
        )

    @property
    def default(self) -> dict[str, float]:
        """The space's own values where they lie in the ranges: the first trial, which the others have to beat."""
        values = {path: _look_up(self._spec.settings, path) for path in self.asked.settings}
        inside = all(span.low <= values[path] <= span.high for path, span in self.asked.settings.items())
        return values if inside else {}

    def begin(self, values: Mapping[str, float]) -> int:
        """Note that a trial with these values begins, or begins again after an interruption; its number."""
        known = [trial.values for trial in self._trials]
        for number, trial in enumerate(self._trials):
            if trial.score is None and trial.values == dict(values):
                return number
        self._trials.append(TuningTrial(dict(values)))
        self._write(len(known))
        return len(known)

    def job(self, number: int) -> TrialJob:
        """What trains a trial."""
        found = self._tuned(self._trials[number].values)
        space = self._spec.model_copy(update={"tune": None, "tuned": {self.mix.name: found}}).to_dict()
        space["seed"], space["seeds"] = self.asked.seed, self.asked.seeds
        return TrialJob(space, self.mix.name, self.sizes, str(self._home.root), self.key, number)

    def ended(self, number: int, runs: tuple[TuningRun, ...]) -> None:
        """Keep what a trial came to. A repeated report changes nothing."""
        trial = self._trials[number]
        if trial.score is None:
            self._trials[number] = TuningTrial(trial.values, runs, mean_score(runs, self.asked.penalty))
            self._write(number)
            self._on_end(number, self._trials[number])

    def result(self) -> Tuning:
        """The trials and the best of them. Raises :class:`SweepError` where none has ended."""
        best = best_trial(self.trials)
        if best is None:
            raise SweepError(f"no trial of tuning {self.mix} ended; its files lie in {self.directory}")
        return Tuning(self.mix.name, self.key, self.sizes, self.trials, self._tuned(best.values))

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
            yield
        finally:
            lock.release()

    def _tuned(self, values: Mapping[str, float]) -> Tuned:
        base = math.exp(sum(map(math.log, self.sizes)) / len(self.sizes))
        return Tuned(settings=dict(values), base_size=base, size_power=self.asked.size_power)

    def _write(self, number: int) -> None:
        plain = TypeAdapter(TuningTrial).dump_json(self._trials[number], indent=1).decode()
        write_whole(self.directory / f"trial-{number:04d}.json", plain)


def study_key(spec: SweepSpec, mix: Mix, sizes: tuple[int, ...]) -> str:
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
