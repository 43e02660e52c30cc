"""Trains one stack and reports its results to the driver, in a Ray actor or, without Ray, in the driver."""

from __future__ import annotations

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

from orchestrator.engine.device_errors import is_out_of_memory, lost_device
from orchestrator.engine.distant_checkpoints import Depot, DistantCheckpoints
from orchestrator.engine.messages import DeviceLostError, FarewellError, RunReport, StackJob, StackReport
from orchestrator.engine.probe_result import run_probe
from orchestrator.home.checkpoints import CHECKPOINT, MEMBERS, Checkpoints, note_progress, read_members, read_progress
from orchestrator.home.directories import SweepDirectory
from orchestrator.home.run_files import ARRAYS, OUTPUT, WEIGHTS, packed_arrays, result_files
from orchestrator.home.seals import CONTENTS
from orchestrator.jobs.plan import Setup, stack_id
from orchestrator.jobs.resources import FULL, Resources, stack_bytes
from orchestrator.system import hardware
from orchestrator.system.environment import scratch
from orchestrator.system.machine_errors import is_damage, trouble_in, trouble_words
from trainables.base import Evaluation, Family, Learner, Outcome, Report, Status
from trainables.contract.checkpoints import OtherStepError
from trainables.contract.report_validator import BrokenFamilyError, ReportValidator
from trainables.probes.base import load_probe

SHORTEST_S = 0.1
"""Minimum seconds of training between two reports: enough for some steps."""
LONGEST_S = 1.0
"""Maximum seconds of training between two reports if evaluations are further apart. A user who stops a sweep waits for
the next report, and so may an idle slot (jobs/timetable.py)."""


class StackWorker:
    """A stack in training, continued from its checkpoint if there is one.

    A stack that needs more memory than its share of the device is halved: two halves continue from its last checkpoint.
    A run that reaches its ``until`` ends, and the others continue as a smaller stack with a new learner. A machine
    error (a full disk, a single run too large for memory) is not an outcome: the worker reports it and stops. If the
    GPU fails, the worker raises :class:`DeviceLostError`, because nothing can train in its process any more.

    The driver has processed the last report when it calls :meth:`advance` or :meth:`close` again. Checkpoints are
    written only then, so they never contain more than the driver knows. If evaluations are far apart, empty reports
    between them let the driver stop the stack, and let the worker write checkpoints.

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
        self._places: list[int] = []
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
        # Why the worker has left its stack with unfinished runs. Without one of these, close() writes a checkpoint.
        self._halved = False
        self._failed = False
        self._left = False

    @property
    def done(self) -> bool:
        """True if all runs have ended or the worker has left the stack."""
        return not self._open or self._halved or self._failed or self._left

    def advance(self) -> StackReport:
        """Train to the next evaluation and report it. Raises :class:`DeviceLostError` if the GPU cannot be used."""
        if self._code_difference:
            self._failed = True
            return StackReport(broken=self._code_difference)
        too_large = False
        needs_gpus = 0.0
        machine_error = broken = ""
        try:
            report = self._train()
        except BrokenFamilyError as error:
            broken = f"{error}; `check-family` checks the whole family"
        except SystemExit as error:  # It would end the whole program under the local engine, with any exit code.
            self.end_learner()
            raise RuntimeError(f"training called sys.exit({error.code!r})") from error
        except Exception as error:
            if is_out_of_memory(error):
                # A stack of several runs is halved. A run that is alone gets more of its GPU, if there is more.
                too_large = len(self._open) > 1
                needs_gpus = self._larger_share()
            machine_error = "" if too_large or needs_gpus else self._machine_error(error)
            if not (too_large or needs_gpus or machine_error):
                self.end_learner()  # The exception interrupted a step, so the learner's state cannot be saved.
                if lost := lost_device(error):
                    raise DeviceLostError(lost) from error
                raise
        except BaseException:  # Such as KeyboardInterrupt: nothing that a learner started may outlive it.
            self.end_learner()
            raise
        if too_large:  # The except block would keep the failed step's tensors in memory.
            try:
                report = self._halve()
            except OSError as error:
                machine_error = self._machine_error(error) or str(error)
        if needs_gpus or machine_error or broken:
            self._failed = True
            self.end_learner()
            torch.cuda.empty_cache()  # Other workers on this GPU may need the memory before this process ends.
            report = StackReport(needs_gpus=needs_gpus, machine_error=machine_error, broken=broken)
        if self.done:
            self.end_learner()  # Before the last report, so that the driver gets its messages.
        messages = tuple(self._messages)
        self._messages.clear()  # In place, because others append to it.
        return replace(report, messages=messages)

    def _train(self) -> StackReport:
        """Train for a moment or to the next evaluation, and return the evaluation. Write a checkpoint first if one is
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
        self._count(self._places, begun)
        return StackReport(steps=self._learner.steps_so_far())

    def leave(self, why: str) -> NoReturn:
        """Write a checkpoint and leave the stack, which continues elsewhere. Call it in place of :meth:`advance`.
        Raises :class:`FarewellError`."""
        self._left = True
        try:
            self._save()
        except OSError as error:  # An earlier checkpoint must do, because this machine goes away anyway.
            why += f" (without a new checkpoint: {error})"
        self.end_learner()
        raise FarewellError(why)

    def close(self) -> None:
        """Stop work on the stack. If runs are unfinished, save a checkpoint; otherwise delete the stack's checkpoints.
        The driver deletes those in the sweep's directory after it has stored every run: its disk may fill up before."""
        try:
            if self._open and not (self._halved or self._failed or self._left):
                self._save()
        finally:
            self.end_learner()
        if self._halved or not (self._open or self._checkpoints.beside_journal):
            self._checkpoints.drop(self._job.stack_id)

    def end_learner(self) -> None:
        """Close the learner, if there is one. If the family raises an exception, log it as a message: the reason why
        the stack ended matters more."""
        learner, self._learner = self._learner, None
        if learner is None:
            return
        try:
            learner.close()
        except Exception as error:  # noqa: BLE001 - the family is foreign code and may raise anything
            self._messages.append(
                f"{self._setup.family.name} could not end its training ({type(error).__name__}: {error})"
            )

    def _find_code_difference(self) -> str:
        """Return how the family's code differs from the driver's, or "". Results would be stored under wrong keys. If
        only the source differs and the space permits it, leave a message instead."""
        setup = self._setup
        version = self._family.version
        here = f"{setup.family.name} on {platform.node()}"
        driver = "in the process that started the sweep"
        if tuple(self._keys) != self._job.keys:
            if version != setup.version:
                return f"{here} has version {version}, but version {setup.version} {driver}: make both equal"
            return f"{here} has other keys of runs than {driver}: make its code equal, and restart that process"
        if setup.family.hash in ("", setup.source) or not setup.source:  # An unknown source counts as equal.
            return ""
        difference = f"the code of {here} (in {setup.family.folder}) differs from that {driver}"
        if setup.accepts_other_code:
            self._messages.append(difference)
            return ""
        return f"{difference}: it was changed in the meantime, or that machine has another copy"

    def _larger_share(self) -> float:
        """Return a larger share of the GPU for a run that is alone in its stack, or 0 if it has a whole GPU. A share
        does not limit how much memory a script uses, so scripts may fill a GPU together."""
        gpus = self._resources.gpus
        return min(1.0, 2 * gpus) if len(self._open) == 1 and 0 < gpus < 1 else 0.0

    def _machine_error(self, error: Exception) -> str:
        """Return the machine error behind an exception, or "" if training raised it."""
        if message := trouble_words(error, self._setup.directory):
            return message
        if isinstance(error, OtherStepError):
            return str(error)
        if is_out_of_memory(error):
            where = f"{self._family.size_axis} {self._configs[0].size}"
            return f"even one run at {where} does not fit in memory: give it more memory, or use a smaller batch"
        return ""

    def _reported(self, checked: Sequence[Report], begun: float) -> StackReport:
        """Convert a learner's reports for the driver. Their training began at ``begun``, in seconds."""
        reports = {self._places[report.index]: report for report in checked}
        self._count(reports, begun)
        for place, report in reports.items():
            if self._configs[place].until is not None and report.evaluation is not None:
                key = self._keys[place]
                self._curves[key] = (*self._curves.get(key, ()), report.evaluation)
        runs = [self._run_report(place, report) for place, report in reports.items()]
        ended = {place for place, run in zip(reports, runs, strict=True) if run.outcome is not None}
        # A learner drops the runs that it ended itself. It does not know of runs that ended by their `until`.
        self._shrinks = any(reports[place].outcome is None for place in ended)
        self._open = [place for place in self._open if place not in ended]
        return StackReport(tuple(runs))

    def _moment_s(self) -> float:
        """Return the seconds to train before the driver hears from the stack or a checkpoint is due."""
        left = self._resources.checkpoint_every_s - (time.monotonic() - self._saved_at)
        return max(SHORTEST_S, min(LONGEST_S, left))

    def _count(self, places: Collection[int], begun: float) -> None:
        """Add the time since ``begun`` to these runs, in equal shares."""
        seconds = (time.perf_counter() - begun) / max(len(places), 1)
        for place in places:
            self._seconds[place] += seconds

    def _run_report(self, place: int, report: Report) -> RunReport:
        """Return a run's report for the driver. A run with an ``until`` has no files, and ends when it is reached."""
        key = self._keys[place]
        config = self._configs[place]
        until = self._configs[place].until
        outcome = report.outcome
        end = report.evaluation
        files = dict[str, bytes]()
        if until is not None:  # What counts is when it is reached, so the model is not kept.
            if outcome is None and end is not None and until.reached(end):
                measures = {"seconds": self._seconds[place]}
                outcome = Outcome(Status.FINISHED, end.step, {}, {}, self._curves[key], measures)
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
        if self._learner is None:
            return
        # The learner keeps no state of these. A retry that still wants one begins without this checkpoint.
        ended = set(range(len(self._keys))) - set(self._open)
        with self._checkpoints.put(self._job.stack_id, self._job.members, ended) as directory:
            self._learner.save(directory / CHECKPOINT)
            note_progress(directory, [(key, point) for key, curve in self._curves.items() for point in curve])
        self._saved_at = time.monotonic()

    def _begin(self) -> Learner:
        """Return a learner of the unfinished runs, at the checkpoint or at step 0. Raises ``MemoryError`` if it cannot
        fit."""
        checkpoint = self._checkpoint()
        prepare_device(self._resources)
        self._messages += slowness(self._family, self._resources)
        self._places = list(self._open)
        configs = [self._configs[place] for place in self._places]
        needed = len(configs) * self._family.memory(configs[0].size)
        available = device_bytes(self._resources)
        # Halving the stack now is cheaper than after the device has run out of memory.
        if len(configs) > 1 and available and needed > FULL * available:
            raise MemoryError(f"the stack needs {needed:.2g} bytes of memory, but only {available:.2g} are available")
        if checkpoint is not None and (restored := self._restored(checkpoint)) is not None:
            return restored
        learner = self._learner = self._new_learner()  # Known from now on, so that it is closed if taking over fails.
        starts = {index: self._configs[place].start for index, place in enumerate(self._places)}
        if donors := {index: self._family.key(start.donor) for index, start in starts.items() if start is not None}:
            learner.take_over({index: load(self._job.donors[donor]) for index, donor in donors.items()})
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
        # The outcomes of these runs were lost with the worker, and the checkpoint was written without their state.
        if missing := ended.intersection(self._open):
            flaw = f"it lacks the state of {', '.join(self._keys[place] for place in sorted(missing))}"
            self._messages.append(self._checkpoints.drop_damaged(self._job.stack_id, flaw))
            return None
        return newest / CHECKPOINT if (newest / CHECKPOINT).is_dir() else None

    def _restored(self, checkpoint: Path) -> Learner | None:
        """Return the learner at its checkpoint, or None after dropping a checkpoint that cannot be read."""
        learner = self._new_learner()
        try:
            learner.restore(checkpoint)
            self._curves = read_progress(checkpoint.parent)
        except Exception as error:
            learner.close()
            is_of_device = is_out_of_memory(error) or lost_device(error) or isinstance(error, OtherStepError)
            if is_of_device or not is_damage(error) or trouble_in(error) not in (None, errno.EIO):
                raise  # The file is not at fault.
            why = f"{type(error).__name__}: {error}".partition("\n")[0]
            self._messages.append(self._checkpoints.drop_damaged(self._job.stack_id, why))
            return None
        return learner

    def _new_learner(self) -> Learner:
        configs = [self._configs[place] for place in self._places]
        self._validator = ReportValidator(self._family, configs)
        self._curves = {}  # A learner begins at step 0, or at a checkpoint that has the curves up to there.
        learner = self._family.learner(configs, device=self._resources.device, cache=self._scratch)
        learner.work_in(self._checkpoints.work(self._job.stack_id))
        return learner

    def _halve(self) -> StackReport:
        """Leave this stack and prepare two that continue from its last checkpoint."""
        self.end_learner()
        torch.cuda.empty_cache()  # The first half starts in this process or another on the same GPU.
        newest = self._checkpoints.newest(self._job.stack_id)
        middle = (len(self._open) + 1) // 2
        halves = [self._open[:middle], self._open[middle:]]
        keys = [[self._keys[place] for place in half] for half in halves]
        for half, own_keys in zip(halves, keys, strict=True):
            smaller = stack_id(self._family.shape(self._configs[half[0]]), own_keys)
            members = [self._job.members[place] for place in half]
            with self._checkpoints.put(smaller, members) as directory:
                # Both halves get the state of all runs: a learner restores those that it has.
                if newest is not None and not self._checkpoints.check(self._job.stack_id):
                    own = shutil.ignore_patterns(MEMBERS, CONTENTS)
                    shutil.copytree(newest, directory, ignore=own, dirs_exist_ok=True)
        self._halved = True
        return StackReport(halves=keys)


def _checkpoints_for(setup: Setup, depot: Depot | None, report: Callable[[str], None]) -> Checkpoints:
    """Return a stack's checkpoints: in the sweep's directory if this machine has it, so that a killed sweep can
    continue from them, otherwise in this node's scratch, with copies in the depot."""
    sweep = SweepDirectory(Path(setup.directory))
    if sweep.journal.is_file() and os.access(sweep.directory, os.W_OK):
        return Checkpoints(sweep.checkpoints)
    own = scratch(setup.resources.scratch) / "checkpoints" / setup.sweep_id
    return Checkpoints(own) if depot is None else DistantCheckpoints(own, depot, report)


def prepare_device(resources: Resources) -> None:
    """Set the threads of a CPU, and limit this process to the stack's share of the GPU's memory."""
    torch.set_num_threads(resources.threads_per_stack)
    if _on_gpu(resources):
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(device_bytes(resources) / total)


def slowness(family: Family, resources: Resources) -> tuple[str, ...]:
    """Return why a family trains slowly on the GPU of this machine, with its name, or nothing. The driver has said the
    same about CPUs before the sweep."""
    why = family.slowness(resources.device) if _on_gpu(resources) else ""
    return (f"{platform.node()}: {why}",) if why else ()


def device_bytes(resources: Resources) -> float:
    """Return the memory in bytes that a stack may use on this machine, or 0 if unknown."""
    if resources.device == "cuda" and not _on_gpu(resources):
        return 0.0
    return stack_bytes(resources, hardware.detect())


def _on_gpu(resources: Resources) -> bool:
    """Return True if torch can use the GPU. Families without torch may use a GPU that torch cannot."""
    return resources.device == "cuda" and torch.cuda.is_available()
