"""The learner of a stack of transformers: steps, evaluations, early ends, exact checkpoints."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.base import Evaluation, Family, Learner, Outcome, Report, RunConfig, Status
from trainables.contract.clock import computing_s
from trainables.contract.runs import settled_measure
from trainables.contract.torch_checkpoints import OtherStepError, read_checkpoint, write_checkpoint
from trainables.transformer.architecture import ModelSettings, layout_of, named
from trainables.transformer.datasets import Dataset, Examples
from trainables.transformer.generation import accuracies
from trainables.transformer.initialization import resized
from trainables.transformer.model import initialize
from trainables.transformer.native import NATIVE, TORCH, can_train
from trainables.transformer.native.trainer import NativeTrainer
from trainables.transformer.optimizer import StackState
from trainables.transformer.stack import StackTrainer, Trainer
from trainables.transformer.training_settings import PROBATION, SOLVED, SOLVED_EVALUATIONS, TrainingSettings

CHECKPOINT = "stack.safetensors"
"""File of a checkpoint."""
CALL_S = 1.0
"""Seconds of training between two readings of the clock, in :meth:`TransformerLearner.train_for`."""


@dataclass
class _Progress:
    """Progress of one run."""

    curve: list[Evaluation] = field(default_factory=list)
    solved: int = 0
    """Number of consecutive evaluations at which every task was solved."""
    best: dict[str, float] = field(default_factory=dict)
    """Largest score of each task: the share of the way from the best constant answer to a perfect accuracy."""
    settled: dict[str, bool] = field(default_factory=dict)
    """Whether each settled task was learned (True) or given up (False)."""
    seconds: float = 0.0
    """The run's share of its stack's computing time (:func:`trainables.contract.clock.computing_s`)."""
    wall_seconds: float = 0.0
    """The run's share of its stack's wall time, which also includes waiting for other programs."""


def run_seed(purpose: str, config: RunConfig) -> int:
    """Return a signed 64-bit seed that depends only on purpose, mix, size and seed."""
    text = f"{purpose}|{config.mix.name}|{config.size}|{config.seed}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def _check_steps(evaluated: object, step: object, most: int) -> None:
    """Raise ``ValueError`` unless a checkpoint's numbers of steps are possible. Someone else may have written it."""
    if type(evaluated) is not int or type(step) is not int or not 0 <= evaluated <= step <= most:
        raise ValueError(f"the steps {evaluated!r:.40} and {step!r:.40} are not possible in a run of {most:,} steps")


class TransformerLearner(Learner):
    """Trains a stack of transformers of one width.

    The runs share everything that shapes a step (architecture, batch, steps, schedule of evaluations, betas, clip,
    decay, loss, precision). They may differ in mix, seed, initial weights, learning rates and weight decay.
    """

    def __init__(self, family: Family, runs: Sequence[RunConfig], device: str, cache: Path) -> None:
        # Runs of one stack may have different tasks, for example other numbers of examples.
        data = {(run.settings.task, run.mix, run.seed): family.data(run, cache) for run in runs}
        self._runs = tuple(runs)
        self._keys = [family.key(run) for run in runs]
        self._data: list[Dataset] = [data[run.settings.task, run.mix, run.seed] for run in runs]
        self._model: ModelSettings = runs[0].settings.model
        self._training: list[TrainingSettings] = [run.settings.training for run in runs]
        self._vocabulary = family.settings.task.vocabulary()
        self._device = torch.device(device)
        self._layout = layout_of(self._model, runs[0].size, len(self._vocabulary))
        self._active = list(range(len(runs)))
        self._progress = [_Progress() for _ in runs]
        self._step = 0
        self._evaluated = 0
        """Step of the last evaluation."""
        self._steps_per_s = 0.0
        """Speed of the last steps, which only limits the length of calls."""
        self._training_step = NATIVE if self._can_train() else TORCH
        # Do not correct this spelling: the word seeds every run's initial weights.
        generators = [torch.Generator().manual_seed(run_seed("initialisation", run)) for run in runs]
        pairs = zip(runs, generators, strict=True)
        parameters = [initialize(run.settings.model, self._layout, generator) for run, generator in pairs]
        self._trainer = self._make_trainer(StackState.start(torch.stack(parameters).to(self._device)))

    def train_for(self, seconds: float) -> bool:
        if not self._active:
            return True
        until = time.perf_counter() + seconds
        while self._step < self._due and (left := until - time.perf_counter()) > 0:
            # Longer calls than this would overrun the time, shorter ones would wait for a GPU too often.
            steps = int(self._steps_per_s * min(left, CALL_S))
            self._train_to(min(self._due, self._step + max(1, steps)))
        return self._step >= self._due

    def steps_so_far(self) -> int:
        return self._step

    def advance(self) -> list[Report]:
        if not self._active:
            return []
        self._train_to(self._due)
        with self._timed():
            evaluations = self._evaluate()
            ended = [index for index, evaluation in evaluations.items() if evaluation is None or self._has_ended(index)]
            scores = self._test_scores(ended)
        reports = [
            self._final_report(index, evaluation, scores[index]) if index in ended else Report(index, evaluation)
            for index, evaluation in evaluations.items()
        ]
        self._evaluated = self._step
        if ended:
            rows = [row for row, index in enumerate(self._active) if index not in ended]
            self._active = [self._active[row] for row in rows]
            self._continue(self._trainer.state.tensors(), rows, self._trainer.state.loss_steps)
        return reports

    @property
    def _due(self) -> int:
        """The step of the next evaluation."""
        settings = self._training[0]
        return min(settings.steps, (self._evaluated // settings.evaluate_every + 1) * settings.evaluate_every)

    def _train_to(self, step: int) -> None:
        if (steps := step - self._step) > 0:
            begun = time.perf_counter()
            with self._timed():
                self._trainer.run(self._step, step)
            self._step = step
            self._steps_per_s = steps / max(time.perf_counter() - begun, 1e-9)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Add the time of the block to the times of the active runs, in equal shares."""
        begun = computing_s(self._device)
        begun_wall = time.perf_counter()
        yield
        took = computing_s(self._device) - begun
        took_wall = time.perf_counter() - begun_wall
        for index in self._active:
            self._progress[index].seconds += took / len(self._active)
            self._progress[index].wall_seconds += took_wall / len(self._active)

    def take_over(self, weights: Mapping[int, Mapping[str, NDArray[Any]]]) -> None:
        views = self._layout.views(self._trainer.state.parameters_SP)
        for index, donor in weights.items():
            start = self._runs[index].start
            for name in named(views, () if start is None else start.takes):
                view = views[name][index]
                values = np.array(donor[name], np.float32)
                if values.shape != tuple(view.shape):  # The donor has another width.
                    rng = np.random.default_rng(abs(run_seed("resized", self._runs[index])))
                    values = resized(values, view.shape[-1], rng)
                view.copy_(torch.from_numpy(values))

    def save(self, directory: Path) -> None:
        notes = {
            "keys": self._keys,
            "training_step": self._training_step,
            "active": self._active,
            "step": self._step,
            "evaluated": self._evaluated,
            "loss_steps": self._trainer.state.loss_steps,
            "progress": [asdict(progress) for progress in self._progress],
        }
        write_checkpoint(directory / CHECKPOINT, self._trainer.state.tensors(), notes)

    def restore(self, directory: Path) -> None:
        tensors, notes = read_checkpoint(directory / CHECKPOINT, self._keys)
        self._training_step = notes["training_step"]
        if self._training_step == NATIVE and not self._can_train():
            where = f"a {self._device.type} device without it cannot continue them"
            remedy = "resume on a CPU (--gpu-fraction 0) where `doctor` does not say that it is missing"
            raise OtherStepError(f"the native step began these runs, and {where}: {remedy}")
        self._step = notes["step"]
        self._evaluated = notes.get("evaluated", self._step)  # Older checkpoints were all written at an evaluation.
        _check_steps(self._evaluated, self._step, self._training[0].steps)
        # The checkpoint may be of a larger stack, so find this stack's runs in it.
        saved_index = [notes["keys"].index(key) for key in self._keys]
        self._active = [index for index, saved in enumerate(saved_index) if saved in notes["active"]]
        progress = [notes["progress"][saved] for saved in saved_index]
        curves = [[Evaluation(**point) for point in saved["curve"]] for saved in progress]
        self._progress = [_Progress(**saved | {"curve": curve}) for saved, curve in zip(progress, curves, strict=True)]
        rows = [notes["active"].index(saved_index[index]) for index in self._active]
        self._continue(tensors, rows, notes["loss_steps"])

    def _can_train(self) -> bool:
        """Return True if the native step can train this stack."""
        return can_train(self._model, self._training[0], self._device.type)

    def _continue(self, tensors: Mapping[str, Tensor], rows: Sequence[int], loss_steps: int) -> None:
        """Continue the active runs from these rows of a stack's tensors."""
        # Free the memory of a recorded step first, so that a GPU never needs room for two.
        del self._trainer
        torch.cuda.empty_cache()
        if rows:
            self._trainer = self._make_trainer(StackState.of(tensors, rows, loss_steps, self._device))

    def _make_trainer(self, state: StackState) -> Trainer:
        runs = [self._runs[index] for index in self._active]
        return (NativeTrainer if self._training_step == NATIVE else StackTrainer)(
            state,
            self._model,
            self._layout,
            [self._training[index] for index in self._active],
            [self._data[index] for index in self._active],
            [run_seed("data order", run) for run in runs],
            frozen=[named(self._layout.shapes, run.frozen) for run in runs],
        )

    def _evaluate(self) -> dict[int, Evaluation | None]:
        """Append a point to the curve of every active run, and return the points by index. A point is None if the loss
        is not finite."""
        state = self._trainer.state
        losses = (state.loss_S / max(1, state.loss_steps)).tolist()
        state.loss_S.zero_()
        state.loss_steps = 0
        questions = [list(self._data[index].validation.values()) for index in self._active]
        scores = self._accuracies(questions, f"decoding of step {self._step}")
        evaluations: dict[int, Evaluation | None] = dict.fromkeys(self._active)
        for index, loss, score in zip(self._active, losses, scores, strict=True):
            if math.isfinite(loss):
                accuracy = dict(zip(self._data[index].validation, score, strict=True))
                progress = self._progress[index]
                evaluations[index] = evaluation = Evaluation(self._step, loss, accuracy)
                progress.curve.append(evaluation)
                progress.solved = progress.solved + 1 if min(score) >= SOLVED else 0
                self._settle(index, accuracy)
        return evaluations

    def _settle(self, index: int, accuracy: Mapping[str, float]) -> None:
        """Mark the tasks of a run that are settled at this evaluation, if its settings have such a rule."""
        settings = self._training[index]
        progress = self._progress[index]
        rule = settings.settle
        if rule is None:
            return
        for task, examples in self._data[index].validation.items():
            score = (accuracy[task] - examples.floor) / max(1 - examples.floor, 1e-9)
            best = progress.best[task] = max(score, progress.best.get(task, score))
            if score >= rule.learned:
                progress.settled.setdefault(task, True)
            elif best < rule.hopeless and self._step >= rule.after * settings.steps:
                progress.settled.setdefault(task, False)

    def _accuracies(self, questions: Sequence[Sequence[Examples]], purpose: str) -> list[list[float]]:
        runs = [self._runs[index] for index in self._active]
        sampled = runs[0].settings.task.decoding == "sampled"
        keys = [run_seed(purpose, run) for run in runs] if sampled else None
        return accuracies(self._trainer.write, questions, self._vocabulary, self._device, keys)

    def _has_ended(self, index: int) -> bool:
        settings = self._training[index]
        progress = self._progress[index]
        solved = settings.stop_when_solved and progress.solved >= SOLVED_EVALUATIONS
        settled = len(progress.settled) == len(self._data[index].validation)
        if settled and not all(progress.settled.values()):
            # A few given-up runs train on, to show how many would have learned late. The key chooses them, so the
            # choice is the same in every stack and after a resume.
            settled = int(self._keys[index], 16) % PROBATION != 0
        return solved or settled or self._step >= settings.steps

    def _test_scores(self, ended: Sequence[int]) -> dict[int, list[float]]:
        """Return the test accuracies of runs that end now: for each task, then for the mixed expressions if any."""
        if not ended:
            return {}
        data = {index: self._data[index] for index in self._active}
        sets = {
            index: [*dataset.test.values(), *([] if dataset.mixed is None else [dataset.mixed])]
            for index, dataset in data.items()
        }
        questions = [sets[index] if index in ended else [] for index in self._active]
        return dict(zip(self._active, self._accuracies(questions, "decoding of the test"), strict=True))

    def _final_report(self, index: int, evaluation: Evaluation | None, scores: Sequence[float]) -> Report:
        data = self._data[index]
        progress = self._progress[index]
        settings = self._training[index]
        passes = self._step * settings.batch * self._model.block / len(data.tokens)
        measures = {"seconds": progress.seconds, "wall_seconds": progress.wall_seconds, "passes_over_data": passes}
        measures["native_step"] = float(self._training_step == NATIVE)
        for task, examples in data.test.items():
            measures |= {f"test_examples_{task}": len(examples.answers), f"test_cases_{task}": data.cases[task]}
            measures[f"nodes_seen_{task}"] = passes * data.nodes[task]
        measures |= {settled_measure(task): float(learned) for task, learned in progress.settled.items()}
        accuracy = floor = {task: examples.floor for task, examples in data.test.items()}
        if evaluation is not None:
            accuracy = dict(zip(data.test, scores, strict=False))
            measures |= {} if data.mixed is None else {"accuracy_mixed": scores[-1]}
        status = Status.DIVERGED if evaluation is None else Status.FINISHED
        outcome = Outcome(status, self._step, accuracy, floor, tuple(progress.curve), measures, data=data.digest)
        if evaluation is None:
            return Report(index, None, outcome)
        weights = self._weights(index)
        return Report(index, evaluation, outcome, {"embedding": weights["token"][: self._vocabulary.items]}, weights)

    def _weights(self, index: int) -> dict[str, NDArray[Any]]:
        row = self._active.index(index)
        views = self._layout.views(self._trainer.state.parameters_SP[row : row + 1].cpu())
        return {name: view[0].numpy().copy() for name, view in views.items()}
