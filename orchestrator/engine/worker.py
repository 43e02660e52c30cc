"""Trains one stack and reports its results to the driver. It runs in a Ray actor or, without Ray, in the driver."""

from __future__ import annotations

import enum
import errno
import os
import platform
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import torch
from safetensors.numpy import load, save

from orchestrator.engine.device import device_bytes, prepare_device, slowness
from orchestrator.engine.device_errors import is_out_of_memory, lost_device
from orchestrator.engine.distant_checkpoints import Depot, DistantCheckpoints
from orchestrator.engine.messages import DeviceLostError, FarewellError, RunReport, StackJob, StackReport
from orchestrator.engine.probe_result import run_probe
from orchestrator.home.array_files import packed_arrays
from orchestrator.home.checkpoints import (
    LEARNER_DIRECTORY,
    MEMBERS,
    Checkpoints,
    note_progress,
    read_members,
    read_progress,
)
from orchestrator.home.directories import SweepDirectory
from orchestrator.home.run_files import ARRAYS, OUTPUT, WEIGHTS, result_files
from orchestrator.home.seals import CONTENTS
from orchestrator.jobs.plan import SweepSetup, stack_id
from orchestrator.jobs.resources import FULL
from orchestrator.system.environment import scratch
from orchestrator.system.machine_errors import is_damage, machine_errno, machine_error_text
from trainables.base import Evaluation, Learner, Outcome, Report, Status
from trainables.contract.finder import MAIN
from trainables.contract.report_validator import BrokenFamilyError, ReportValidator
from trainables.contract.torch_checkpoints import OtherStepError
from trainables.contract.unknown_files import end_watch
from trainables.probes.base import load_probe

SHORTEST_REPORT_S = 0.1
"""Minimum seconds of training between two reports: enough for some steps."""
LONGEST_REPORT_S = 1.0
"""Maximum seconds of training between two reports if evaluations are further apart. A user who stops a sweep waits for
the next report, and so may an idle slot (jobs/timetable.py)."""


class Departure(enum.Enum):
    """The reason for which a worker left a stack with unfinished runs."""

    NONE = enum.auto()  # It has not left. If it is closed now, it saves a checkpoint.
    HALVED = enum.auto()  # The stack did not fit into memory. Two smaller stacks have its checkpoint.
    FAILED = enum.auto()  # An error ended the stack, so the learner's state cannot be saved.
    MOVED = enum.auto()  # The worker saved a checkpoint, and the stack continues on another machine.


class StackWorker:
    """A stack in training, continued from its checkpoint if there is one.

    A stack that needs more memory than its share of the device is halved: two halves continue from its last checkpoint.
    A run that reaches its ``until`` ends, and the others continue as a smaller stack with a new learner. A machine
    error (a full disk, a single run too large for memory) is not an outcome: the worker reports it and stops. If the
    GPU fails, the worker raises :class:`DeviceLostError`, because its process can no longer train anything.

    The driver has handled the last report when it calls :meth:`advance` or :meth:`close` again. The worker writes
    checkpoints only then, so they never contain more than the driver knows. If evaluations are far apart, the worker
    sends empty reports between them. They let the driver stop the stack, and let the worker write checkpoints.

    On a machine that does not have the sweep's directory, checkpoints are in its scratch, with copies in the ``depot``.
    """

    def __init__(self, job: StackJob, depot: Depot | None = None) -> None:
        self._setup = setup = job.setup
        self._resources = job.resources
        self._job = job
        self._family = setup.family.make()
        self._configs = job.runs
        self._keys = [self._family.key(config) for config in self._configs]
        self._messages: list[str] = []
        self._code_difference = self._find_code_difference()
        self._checkpoints = _checkpoints_for(setup, depot, self._messages.append)
        self._probes = [load_probe(name) for name in setup.probes]
        self._scratch = scratch(self._resources.scratch)
        self._open = list(job.wanted)
        """Indices in the job of the unfinished runs."""
        self._in_learner: list[int] = []
        """Indices in the job of the runs in the learner."""
        self._learner: Learner | None = None
        self._shrinks = False
        """True if the remaining runs need a new learner."""
        self._validator = ReportValidator(self._family, ())
        self._seconds = [0.0] * len(self._configs)
        """Each run's share of the seconds that its stack has trained here."""
        self._curves: dict[str, tuple[Evaluation, ...]] = {}
        """Evaluations of runs with an ``until``, by key."""
        self._saved_at = time.monotonic()
        self._departure = Departure.NONE

    @property
    def done(self) -> bool:
        """True if all runs have ended or the worker has left the stack."""
        return not self._open or self._departure is not Departure.NONE

    def advance(self) -> StackReport:
        """Train to the next evaluation and report it. Raises :class:`DeviceLostError` if the GPU cannot be used."""
        if self._code_difference:
            return self._fail(broken=self._code_difference)
        report: StackReport | None = None  # It stays None if the stack must be halved.
        try:
            report = self._train()
        except BrokenFamilyError as error:
            report = self._fail(broken=f"{error}; `check-family` checks the whole family")
        except SystemExit as error:  # It would end the whole program under the local engine, with any exit code.
            self.end_learner()
            raise RuntimeError(f"training called sys.exit({error.code!r})") from error
        except Exception as error:
            if not (is_out_of_memory(error) and len(self._open) > 1):
                report = self._report_on_machine(error)
                if report is None:
                    self.end_learner()  # The exception interrupted a step, so the learner's state cannot be saved.
                    if lost := lost_device(error):
                        raise DeviceLostError(lost) from error
                    raise
        except BaseException:  # Such as KeyboardInterrupt: nothing that a learner started may outlive it.
            self.end_learner()
            raise
        # Only now, because an except block keeps the failed step's tensors in memory. The halves, and other workers on
        # this GPU, may need that memory before this process ends.
        if report is None:
            try:
                report = self._halve()
            except OSError as error:
                report = self._fail(machine_error=self._machine_error(error) or str(error))
        if self._departure is Departure.FAILED:
            torch.cuda.empty_cache()
        if self.done:
            self.end_learner()  # Before the last report, so that the driver gets its messages.
        if any(run.outcome is not None for run in report.runs):
            text = end_watch((self._setup.family.name, *self._setup.probes))
            self._messages += [text] if text else []
        messages = tuple(self._messages)
        self._messages.clear()  # Not replaced, because other objects append to this list.
        return replace(report, messages=messages)

    def _report_on_machine(self, error: Exception) -> StackReport | None:
        """Leave the stack if an exception is the machine's fault, and return the report. Otherwise return None."""
        # A run that is alone cannot be halved. It gets a larger share of its GPU if there is one.
        if is_out_of_memory(error) and (needs_gpus := self._larger_share()):
            return self._fail(needs_gpus=needs_gpus)
        if machine_error := self._machine_error(error):
            return self._fail(machine_error=machine_error)
        return None

    def _fail(self, *, needs_gpus: float = 0.0, machine_error: str = "", broken: str = "") -> StackReport:
        """Leave the stack because of an error, and return the report on it."""
        self._departure = Departure.FAILED
        self.end_learner()
        return StackReport(needs_gpus=needs_gpus, machine_error=machine_error, broken=broken)

    def _train(self) -> StackReport:
        """Train for a moment or to the next evaluation, and return the evaluation. Save a checkpoint first if one is
        due."""
        # Also before the learner shrinks, because the smaller one continues from this checkpoint.
        if self._shrinks or time.monotonic() - self._saved_at >= self._resources.checkpoint_every_s:
            self._save()
        if self._learner is None or self._shrinks:
            self._shrinks = False
            self.end_learner()  # Frees its memory before the next one is made.
            self._learner = self._begin()
        begun = time.perf_counter()
        if self._learner.train_for(self._moment_s()):
            return self._reported(self._validator.check(self._learner.advance()), begun)
        # No evaluation yet, but the driver may want to stop the stack.
        self._count(self._in_learner, begun)
        return StackReport(steps=self._learner.steps_so_far())

    def leave(self, reason: str) -> NoReturn:
        """Save a checkpoint and leave the stack, which continues elsewhere. Call this instead of :meth:`advance`.

        Raises:
            FarewellError: always, with the reason.
        """
        self._departure = Departure.MOVED
        try:
            self._save()
        except OSError as error:  # This machine will go away anyway, so the stack continues from an earlier checkpoint.
            reason += f" (without a new checkpoint: {error})"
        self.end_learner()
        raise FarewellError(reason)

    def close(self) -> None:
        """Stop work on the stack. If runs are unfinished, save a checkpoint. Otherwise delete the stack's checkpoints.

        Do not delete checkpoints in the sweep's directory. The driver deletes them after it has stored every run,
        because its disk may fill up first.
        """
        try:
            if not self.done:
                self._save()
        finally:
            self.end_learner()
        if self._departure is Departure.HALVED or not (self._open or self._checkpoints.beside_journal):
            self._checkpoints.drop(self._job.stack_id)

    def end_learner(self) -> None:
        """Close the learner, if there is one. If the family raises an exception, report it as a message, because the
        reason why the stack ended matters more."""
        learner = self._learner
        self._learner = None  # First, so that no second call closes it again.
        if learner is None:
            return
        try:
            learner.close()
        except Exception as error:  # noqa: BLE001 - the family is foreign code and may raise anything
            self._messages.append(
                f"{self._setup.family.name} could not end its training ({type(error).__name__}: {error})"
            )

    def _find_code_difference(self) -> str:
        """Return how the family's code differs from the driver's, or an empty string if it does not. Other code would
        store results under wrong keys.

        If only the source differs and the space permits it, report the difference as a message instead.
        """
        setup = self._setup
        version = self._family.version
        here = f"{setup.family.name} on {platform.node()}"
        driver = "the process that started the sweep"
        if tuple(self._keys) != self._job.keys:
            if version != setup.version:
                return f"{here} has version {version}, but {driver} has {setup.version}. Install the same version there"
            remedy = "Install the same code there and restart that process"
            return f"{here} computes different run keys than {driver}. {remedy}"
        if setup.family.hash not in ("", setup.source) and setup.source:  # An unknown source counts as equal.
            where = f" (in {setup.family.folder})" if setup.family.folder else ""
            difference = f"the code of {here}{where} differs from the code in {driver}"
        elif {name: load_probe(name).source for name in setup.probes} != setup.probe_sources:
            difference = (
                f"the code of the probes {', '.join(setup.probes)} on {platform.node()} differs from {driver}'s"
            )
        else:
            return ""
        if setup.accepts_other_code:
            self._messages.append(difference)
            return ""
        if setup.family.name.startswith(f"{MAIN}:"):
            return f"{difference}: a cell has changed the class"
        return f"{difference}: it was changed in the meantime, or that machine has another copy"

    def _larger_share(self) -> float:
        """Return a larger share of the GPU for a run that is alone in its stack. Return 0 if it has a whole GPU, or if
        it is not alone."""
        # Doubled, not raised to the memory that the run needs, because this is unknown. A share does not limit how much
        # memory a script uses, so several scripts may fill a GPU together although each would fit.
        gpus = self._resources.gpus
        return min(1.0, 2 * gpus) if len(self._open) == 1 and 0 < gpus < 1 else 0.0

    def _machine_error(self, error: Exception) -> str:
        """Return the machine error that caused an exception, or an empty string if training itself raised it."""
        if message := machine_error_text(error, self._setup.directory):
            return message
        if isinstance(error, OtherStepError):
            return str(error)
        if is_out_of_memory(error):
            where = f"{self._family.size_axis} {self._configs[0].size}"
            return f"even one run at {where} does not fit in memory: use a machine with more memory, or a smaller batch"
        return ""

    def _reported(self, checked: Sequence[Report], begun: float) -> StackReport:
        """Convert a learner's reports for the driver, and note which runs have ended.

        Args:
            checked: Reports that the validator accepted.
            begun: Time at which the training for these reports began, in seconds.
        """
        reports = {self._in_learner[report.index]: report for report in checked}
        self._count(reports, begun)
        for index, report in reports.items():
            if self._configs[index].until is not None and report.evaluation is not None:
                key = self._keys[index]
                self._curves[key] = (*self._curves.get(key, ()), report.evaluation)
        runs = [self._run_report(index, report) for index, report in reports.items()]
        ended = {index for index, run in zip(reports, runs, strict=True) if run.outcome is not None}
        # A learner drops the runs that it ended. It does not know about `until`, so it would train these runs further.
        self._shrinks = any(reports[index].outcome is None for index in ended)
        self._open = [index for index in self._open if index not in ended]
        return StackReport(tuple(runs))

    def _moment_s(self) -> float:
        """Return the seconds to train until the next report or checkpoint, whichever is first."""
        left = self._resources.checkpoint_every_s - (time.monotonic() - self._saved_at)
        return max(SHORTEST_REPORT_S, min(LONGEST_REPORT_S, left))

    def _count(self, runs: Collection[int], begun: float) -> None:
        """Add the time since ``begun`` to these runs of the job, in equal shares."""
        seconds = (time.perf_counter() - begun) / max(len(runs), 1)
        for index in runs:
            self._seconds[index] += seconds

    def _run_report(self, index: int, report: Report) -> RunReport:
        """Return a run's report for the driver. A run with an ``until`` ends when it reaches that accuracy, and has no
        files."""
        key = self._keys[index]
        config = self._configs[index]
        until = config.until
        outcome = report.outcome
        evaluation = report.evaluation
        files = dict[str, bytes]()
        if until is not None:  # Only the step at which it is reached matters, so the model is not kept.
            if outcome is None and evaluation is not None and until.reached(evaluation):
                measures = {"seconds": self._seconds[index]}
                outcome = Outcome(Status.FINISHED, evaluation.step, {}, {}, self._curves[key], measures)
        elif outcome is not None:
            if report.arrays:
                files[ARRAYS] = packed_arrays(report.arrays)
            if report.output:
                files[OUTPUT] = report.output.encode()
            if report.weights:
                files[WEIGHTS] = save(dict(report.weights))
            for probe in self._probes if outcome.status is Status.FINISHED else ():
                probed = run_probe(probe, self._family, config, report.arrays, report.weights, self._scratch)
                files |= result_files(*probed)
        return RunReport(key, report.evaluation, outcome, files)

    def _save(self) -> None:
        """Save a checkpoint, if there is a learner."""
        if self._learner is None:
            return
        # A learner keeps no state of runs that ended. A retry that still wants one of them, because its outcome was
        # lost, cannot use this checkpoint (see `_checkpoint`).
        ended = set(range(len(self._keys))) - set(self._open)
        with self._checkpoints.put(self._job.stack_id, self._job.members, ended) as directory:
            self._learner.save(directory / LEARNER_DIRECTORY)
            note_progress(directory, [(key, point) for key, curve in self._curves.items() for point in curve])
        self._saved_at = time.monotonic()

    def _begin(self) -> Learner:
        """Return a learner of the unfinished runs, at their checkpoint or at step 0. Raises ``MemoryError`` if it
        cannot fit into memory."""
        checkpoint = self._checkpoint()
        prepare_device(self._resources)
        self._messages += slowness(self._family, self._resources)
        self._in_learner = list(self._open)
        configs = [self._configs[index] for index in self._in_learner]
        needed = len(configs) * self._family.memory(configs[0].size)
        available = device_bytes(self._resources)
        # Raised now, so that the stack is halved before it has trained. Later, the device would run out of memory in
        # the middle of a step, and the training since the last checkpoint would be lost.
        if len(configs) > 1 and available and needed > FULL * available:
            raise MemoryError(f"the stack needs {needed:.2g} bytes of memory, but only {available:.2g} are available")
        if checkpoint is not None and (restored := self._restored(checkpoint)) is not None:
            return restored
        learner = self._learner = self._new_learner()  # Assigned now, so that it is closed if taking over fails.
        # A learner counts its own runs, not those of the job.
        starts = [self._configs[index].start for index in self._in_learner]
        donors = {run: self._family.key(start.donor) for run, start in enumerate(starts) if start is not None}
        if donors:
            learner.take_over({run: load(self._job.donors[donor]) for run, donor in donors.items()})
        return learner

    def _checkpoint(self) -> Path | None:
        """Return the learner's directory in the stack's checkpoint, or None if there is no usable checkpoint."""
        newest = self._checkpoints.newest(self._job.stack_id)
        if newest is None:
            return None
        if damage := self._checkpoints.check(self._job.stack_id):
            self._messages.append(damage)
            return None
        _, ended = read_members(newest)
        # The checkpoint was written after these runs had ended, so it lacks their state. Their outcomes were lost with
        # the worker, so they must be trained again.
        if missing := ended.intersection(self._open):
            flaw = f"it lacks the state of {', '.join(self._keys[index] for index in sorted(missing))}"
            self._messages.append(self._checkpoints.drop_damaged(self._job.stack_id, flaw))
            return None
        return newest / LEARNER_DIRECTORY if (newest / LEARNER_DIRECTORY).is_dir() else None

    def _restored(self, checkpoint: Path) -> Learner | None:
        """Return the learner at its checkpoint. If the checkpoint cannot be read, drop it and return None."""
        learner = self._new_learner()
        try:
            learner.restore(checkpoint)
            self._curves = read_progress(checkpoint.parent)
        except Exception as error:
            learner.close()
            is_of_device = is_out_of_memory(error) or lost_device(error) or isinstance(error, OtherStepError)
            if is_of_device or not is_damage(error) or machine_errno(error) not in (None, errno.EIO):
                raise  # The file is not at fault.
            flaw = f"{type(error).__name__}: {error}".partition("\n")[0]
            self._messages.append(self._checkpoints.drop_damaged(self._job.stack_id, flaw))
            return None
        return learner

    def _new_learner(self) -> Learner:
        """Return a learner of the unfinished runs at step 0, and a validator of its reports in ``_validator``."""
        configs = [self._configs[index] for index in self._in_learner]
        self._validator = ReportValidator(self._family, configs)
        self._curves = {}  # A learner begins at step 0, or at a checkpoint that has the curves up to there.
        learner = self._family.learner(configs, device=self._resources.device, cache=self._scratch)
        learner.work_in(self._checkpoints.work(self._job.stack_id))
        return learner

    def _halve(self) -> StackReport:
        """Leave this stack and prepare two that continue from its last checkpoint."""
        self.end_learner()
        torch.cuda.empty_cache()  # The first half starts in this process, or in another process on the same GPU.
        # The state at the failed step cannot be saved, because the step was interrupted. So the halves repeat the
        # training since the last checkpoint.
        newest = self._checkpoints.newest(self._job.stack_id)
        middle = (len(self._open) + 1) // 2
        halves = [self._open[:middle], self._open[middle:]]
        keys = [[self._keys[index] for index in half] for half in halves]
        for half, half_keys in zip(halves, keys, strict=True):
            # The ids that the campaign computes for the halves, so that their workers find these checkpoints.
            smaller = stack_id(self._family.shape(self._configs[half[0]]), half_keys)
            members = [self._job.members[index] for index in half]
            with self._checkpoints.put(smaller, members) as directory:
                # Both halves get the state of all runs. A learner restores only the state of its own runs.
                if newest is not None and not self._checkpoints.check(self._job.stack_id):
                    # `put` writes these two files for the half.
                    of_whole = shutil.ignore_patterns(MEMBERS, CONTENTS)
                    shutil.copytree(newest, directory, ignore=of_whole, dirs_exist_ok=True)
        self._departure = Departure.HALVED
        return StackReport(halves=keys)


def _checkpoints_for(setup: SweepSetup, depot: Depot | None, report: Callable[[str], None]) -> Checkpoints:
    """Return the checkpoints of stacks that this machine uses.

    If this machine has the sweep's directory, they are there, so that a killed sweep can continue from them. Otherwise
    they are in this machine's scratch, with copies in the depot.
    """
    sweep = SweepDirectory(Path(setup.directory))
    if sweep.journal.is_file() and os.access(sweep.directory, os.W_OK):
        return Checkpoints(sweep.checkpoints)
    directory = scratch(setup.resources.scratch) / "checkpoints" / setup.sweep_id
    return Checkpoints(directory) if depot is None else DistantCheckpoints(directory, depot, report)
