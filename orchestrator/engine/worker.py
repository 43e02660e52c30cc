"""Trains one stack and leaves what it finished on disk. Runs in a Ray actor, or in the driver for debugging."""

from __future__ import annotations

import contextlib
import errno
import shutil
import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from orchestrator.engine.device import (
    device_bytes,
    drawbacks,
    free_memory,
    is_out_of_memory,
    prepare_device,
)
from orchestrator.engine.leaving import StackRuns
from orchestrator.engine.reports import RunReport, StackJob, StackReport
from orchestrator.space.spec import SweepSpec
from orchestrator.stacks import FULL, stack_id
from orchestrator.store.checkpoints import Checkpoints
from orchestrator.store.remains import CHECKPOINT, PROGRESS, note_progress, read_halvings, read_progress
from orchestrator.store.scratch import scratch
from orchestrator.store.storage import storage_at
from orchestrator.store.trouble import LastingTroubleError, trouble_in, trouble_words
from trainables.base import Evaluation, Learner, Outcome, Report, Status
from trainables.contract import Border, BrokenFamilyError


class StackWorker:
    """A stack in training, continued from its checkpoint where there is one.

    Where every run's outcome is on disk already (an earlier worker died before it could report), nothing is trained.
    Where the stack needs more memory than its share of the device, two halves of it are made ready to go on from its
    last checkpoint, and reported instead. A run that has come to where it is wanted ``until`` ends there, and those
    that are left go on as a smaller stack: the learner, which knows nothing of such an end, is made anew for them.
    Where the machine is in trouble (a full disk, say, or a single run needs more memory than there is), that is
    reported, and the stack given up for now: it is no outcome.
    """

    def __init__(self, job: StackJob) -> None:
        self._spec = SweepSpec.model_validate(job.space)
        self._job = job
        self._checkpoints = Checkpoints(storage_at(job.checkpoints))
        self._family = self._spec.make_family()
        self._configs = [self._spec.config(request) for request in job.requests]
        self._runs = StackRuns(job, self._spec, self._family, self._configs)
        self._halvings = 0
        self._said: list[str] = []
        self._learner: Learner | None = None
        self._places: list[int] = []
        """The runs that the learner trains, by their places in the job."""
        self._border = Border(self._family, ())
        self._seconds = [0.0] * len(self._configs)
        """Each run's share of the time that its stack has taken here."""
        self._curves: dict[int, dict[int, Evaluation]] = {}
        """What runs that end before their budget have reported, by their places and by step."""
        self._saved_at = time.monotonic()
        self.done = False

    def advance(self) -> StackReport:
        """Train to the next evaluation; sets ``done`` when every run has ended, or the stack is given up: for two
        halves, for trouble of the machine, or as its family does not keep its contract. What ended is on disk, with
        what probes found in it, before it is reported."""
        trouble, broken, lasting = "", "", False
        try:
            report = self._advance()
        except BrokenFamilyError as error:
            broken = str(error)
        except Exception as error:
            trouble, lasting = self._trouble(error), isinstance(error, LastingTroubleError)
            if not trouble:
                raise
        if trouble or broken:  # Out here nothing holds the failed step's tensors any more.
            report = StackReport(self._give_up(), trouble=trouble, lasting=lasting, broken=broken)
        said, self._said = tuple(self._said), []
        return replace(report, said=said)

    def save(self) -> None:
        """Write a checkpoint now."""
        if self._learner is not None:
            with self._checkpoints.put(self._job.stack_id, self._job.requests, self._halvings) as directory:
                self._learner.save(directory / CHECKPOINT)
                points = [
                    (self._runs.keys[at], point) for at, curve in self._curves.items() for point in curve.values()
                ]
                note_progress(directory, points)
            self._saved_at = time.monotonic()

    @cached_property
    def _scratch(self) -> Path:
        return scratch(self._spec.resources.scratch)

    def _advance(self) -> StackReport:
        if self._learner is None and not self._runs.unfinished:
            return self._answer_from_disk()
        try:
            return self._train()
        except Exception as error:
            if not is_out_of_memory(error) or len(self._runs.unfinished) < 2:
                raise
        # Out here nothing holds the failed step's tensors any more.
        return self._halve()

    def _trouble(self, error: Exception) -> str:
        """What is wrong with the machine where it is that, ``""`` where it is the training itself."""
        if isinstance(error, LastingTroubleError):
            return str(error)
        if said := trouble_words(error, self._runs.storage):
            return said
        if is_out_of_memory(error):
            where = f"{self._family.size_axis} {self._configs[0].size}"
            return f"a run at {where} needs more memory than there is, alone: give it more"
        return ""

    def _give_up(self) -> tuple[RunReport, ...]:
        """Leave the stack for another try; what has ended so far."""
        self._learner = None
        free_memory()
        self.done = True
        with contextlib.suppress(
            OSError, LastingTroubleError
        ):  # What cannot be read now is found when its run is asked for again.
            return tuple(self._runs.known())
        return ()

    def _train(self) -> StackReport:
        known = self._runs.known() if self._learner is None else []
        self._learner = self._learner or self._begin()
        reports = self._to_next_evaluation(self._learner)
        outcomes = {place: self._outcome(place, report) for place, report in reports.items()}
        ended = {
            place: self._runs.leave(place, reports[place], each, self._halvings)
            for place, each in outcomes.items()
            if each is not None
        }
        for place, outcome in ended.items():
            self._runs.look_inside(place, outcome)
        self.done = len(ended) == len(reports)
        if self.done:
            self._checkpoints.drop(self._job.stack_id)
        elif any(reports[place].outcome is None for place in ended):
            self.save()
            self._learner = None
        elif time.monotonic() - self._saved_at >= self._spec.resources.checkpoint_every_s:
            self.save()
        runs = [RunReport(self._runs.keys[place], each.evaluation, ended.get(place)) for place, each in reports.items()]
        return StackReport((*known, *runs))

    def _to_next_evaluation(self, learner: Learner) -> dict[int, Report]:
        """Train to the next evaluation; the reports by place."""
        begun = time.perf_counter()
        reports = {self._places[report.index]: report for report in self._border.check(learner.advance())}
        seconds = time.perf_counter() - begun
        for place, report in reports.items():
            self._seconds[place] += seconds / len(reports)
            if self._configs[place].until is not None and report.evaluation is not None:
                self._curves.setdefault(place, {})[report.evaluation.step] = report.evaluation
        return reports

    def _outcome(self, place: int, report: Report) -> Outcome | None:
        """What a run came to: its family's word, or its curve up to where it is wanted until; None while it goes on."""
        until, end = self._configs[place].until, report.evaluation
        if report.outcome is not None or until is None or end is None or not until.reached(end):
            return report.outcome
        curve = self._curves[place]
        so_far = tuple(curve[step] for step in sorted(curve))
        return Outcome(Status.FINISHED, end.step, {}, {}, so_far, {"seconds": self._seconds[place]})

    def _begin(self) -> Learner:
        """A learner of the runs that have not ended, at its checkpoint or at step 0. Raises ``MemoryError`` where it
        cannot fit."""
        left = self._left()
        prepare_device(self._spec.resources)
        self._said += drawbacks(self._spec.resources)
        self._places = self._runs.unfinished
        configs = [self._configs[place] for place in self._places]
        needed = len(configs) * self._family.memory(configs[0].size)
        there = device_bytes(self._spec.resources)
        if len(configs) > 1 and there and needed > FULL * there:
            raise MemoryError(f"a stack that needs {needed:.2g} bytes does not fit into {there:.2g}")
        if left is not None and (restored := self._restored(left)) is not None:
            return restored
        learner = self._new_learner()
        inherited = {index: self._runs.inherited(place) for index, place in enumerate(self._places)}
        if taken := {index: weights for index, weights in inherited.items() if weights is not None}:
            learner.take_over(taken)
        return learner

    def _left(self) -> Path | None:
        """What an earlier worker left to go on from; None where there is nothing, or nothing that can be read."""
        left = self._checkpoints.newest(self._job.stack_id)
        if left is None:
            return None
        try:
            self._halvings = read_halvings(left)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._put_aside(error)
            return None
        return left / CHECKPOINT if (left / CHECKPOINT).is_dir() else None

    def _restored(self, left: Path) -> Learner | None:
        """The learner at its checkpoint; None where that cannot be read: it lies aside then."""
        learner = self._new_learner()
        try:
            learner.restore(left)
            curves = read_progress(left.parent)
        except Exception as error:  # noqa: BLE001 - whatever a family raises at what a crash or a disk has spoiled
            self._put_aside(error)
            return None
        for place in self._places:
            if self._configs[place].until is not None:
                self._curves[place] = {point.step: point for point in curves.get(self._runs.keys[place], ())}
        return learner

    def _put_aside(self, error: Exception) -> None:
        """Put a checkpoint aside that cannot be read for this reason; raise it where that is no fault of the file."""
        if is_out_of_memory(error) or trouble_in(error) not in (None, errno.EIO):
            raise error
        aside = self._checkpoints.put_aside(self._job.stack_id)
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
        self._said.append(f"a checkpoint cannot be read ({why}): it lies in {aside} now, and its runs begin anew")

    def _new_learner(self) -> Learner:
        configs = [self._configs[place] for place in self._places]
        self._border = Border(self._family, configs)
        return self._family.learner(configs, device=self._spec.resources.device, cache=self._scratch)

    def _answer_from_disk(self) -> StackReport:
        self.done = True
        known = self._runs.known()
        self._checkpoints.drop(self._job.stack_id)
        return StackReport(tuple(known))

    def _halve(self) -> StackReport:
        """Make two stacks ready to go on from this one's last checkpoint, and give this one up."""
        self._learner = None
        free_memory()
        unfinished, left = self._runs.unfinished, self._checkpoints.newest(self._job.stack_id)
        middle = (len(unfinished) + 1) // 2
        halves = [unfinished[:middle], unfinished[middle:]]
        requests = tuple(tuple(self._job.requests[place] for place in half) for half in halves)
        for half, asked in zip(halves, requests, strict=True):
            shape = self._family.shape(self._configs[half[0]])
            smaller = stack_id(shape, [self._runs.keys[place] for place in half])
            with self._checkpoints.put(smaller, asked, self._halvings + 1) as directory:
                if left is not None and (left / CHECKPOINT).is_dir():
                    shutil.copytree(left / CHECKPOINT, directory / CHECKPOINT)
                    if (left / PROGRESS).exists():
                        shutil.copyfile(left / PROGRESS, directory / PROGRESS)
        self._checkpoints.drop(self._job.stack_id)
        self.done = True
        return StackReport(tuple(self._runs.known()), halves=requests)
