"""The learner of a stack of transformers: steps, evaluations, early ends, exact checkpoints."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trainables.base import Evaluation, Learner, Outcome, Report, RunConfig, Status
from trainables.checkpoints import computing_s, read_checkpoint, write_checkpoint
from trainables.tasks.datasets import Dataset, Examples
from trainables.tasks.vocabulary import ExpressionVocabulary
from trainables.transformer.architecture import Layout, ModelSettings, layout
from trainables.transformer.generation import accuracies
from trainables.transformer.initialization import resized
from trainables.transformer.model import initialize
from trainables.transformer.native import NATIVE, TORCH, can_train
from trainables.transformer.native.trainer import NativeTrainer
from trainables.transformer.stack import StackState, StackTrainer
from trainables.transformer.training_settings import SOLVED, SOLVED_EVALUATIONS, TrainingSettings
from trainables.transformer.training_windows import WindowSampler

CHECKPOINT = "stack.safetensors"


@dataclass(frozen=True)
class Job:
    """One run of a stack, with its data.

    ``key`` is the run's key. ``taken`` names the parameters that it takes over from another run, and ``frozen`` the
    parameters that do not train.
    """

    key: str
    config: RunConfig
    dataset: Dataset
    taken: frozenset[str] = frozenset()
    frozen: frozenset[str] = frozenset()


@dataclass
class _Progress:
    curve: list[Evaluation] = field(default_factory=list)
    solved: int = 0
    """Number of consecutive evaluations at which every task was solved."""
    seconds: float = 0.0
    """The run's share of its stack's computing time (:func:`trainables.checkpoints.computing_s`)."""
    wall_seconds: float = 0.0
    """The run's share of its stack's wall time, which also includes waiting for other programs."""


def run_seed(purpose: str, config: RunConfig) -> int:
    """Return a signed 64-bit seed that depends only on purpose, mix, size and seed."""
    text = f"{purpose}|{config.mix.name}|{config.size}|{config.seed}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


class TransformerLearner(Learner):
    """Trains a stack of transformers of one width.

    The runs share everything that shapes a step (architecture, batch, steps, schedule of evaluations, betas, clip,
    decay, loss, precision). They may differ in mix, seed, initial weights, learning rates and weight decay.
    """

    def __init__(self, jobs: Sequence[Job], vocabulary: ExpressionVocabulary, device: str) -> None:
        self._jobs = tuple(jobs)
        self._model: ModelSettings = jobs[0].config.settings.model
        self._training: Sequence[TrainingSettings] = [job.config.settings.training for job in jobs]
        self._vocabulary = vocabulary
        self._device = torch.device(device)
        self._where: Layout = layout(self._model, jobs[0].config.size, len(vocabulary))
        self._active = list(range(len(jobs)))
        self._progress = [_Progress() for _ in jobs]
        self._step = 0
        training_step = can_train(self._model, self._training[0], len(vocabulary), self._device.type)
        self._training_step = NATIVE if training_step else TORCH
        self._prepare_gpu()
        parameters = [self._initial_parameters(job) for job in jobs]
        self._trainer = self._make_trainer(StackState.start(torch.stack(parameters).to(self._device)))

    def advance(self) -> list[Report]:
        if not self._active:
            return []
        begun, begun_wall = computing_s(self._device), time.perf_counter()
        settings = self._training[0]
        last = min(settings.steps, (self._step // settings.evaluate_every + 1) * settings.evaluate_every)
        self._trainer.run(self._step, last)
        self._step = last
        evaluations = self._evaluate()
        for index, evaluation in evaluations.items():
            self._note(index, evaluation)
        ended = [index for index, evaluation in evaluations.items() if evaluation is None or self._has_ended(index)]
        scores = self._test_scores(ended)
        took, took_wall = computing_s(self._device) - begun, time.perf_counter() - begun_wall
        for index in self._active:
            self._progress[index].seconds += took / len(self._active)
            self._progress[index].wall_seconds += took_wall / len(self._active)
        reports = [
            self._final_report(index, evaluation, scores[index]) if index in ended else Report(index, evaluation)
            for index, evaluation in evaluations.items()
        ]
        self._keep([index for index in self._active if index not in ended])
        return reports

    def take_over(self, weights: Mapping[int, Mapping[str, NDArray[Any]]]) -> None:
        views = self._where.views(self._trainer.state.parameters_SP)
        for index, theirs in weights.items():
            for name in self._jobs[index].taken:
                mine, taken = views[name][index], np.array(theirs[name], np.float32)
                if taken.shape != tuple(mine.shape):
                    rng = np.random.default_rng(abs(run_seed("resized", self._jobs[index].config)))
                    taken = resized(taken, mine.shape[-1], rng)
                mine.copy_(torch.from_numpy(taken))

    def save(self, directory: Path) -> None:
        notes = {
            "keys": [job.key for job in self._jobs],
            "training_step": self._training_step,
            "active": self._active,
            "step": self._step,
            "loss_steps": self._trainer.state.loss_steps,
            "progress": [asdict(progress) for progress in self._progress],
        }
        write_checkpoint(directory / CHECKPOINT, self._trainer.state.tensors(), notes)

    def restore(self, directory: Path) -> None:
        tensors, notes = read_checkpoint(directory / CHECKPOINT, (job.key for job in self._jobs))
        places = [notes["keys"].index(job.key) for job in self._jobs]
        progress = [notes["progress"][place] for place in places]
        self._training_step = notes.get(
            "training_step", TORCH
        )  # Checkpoints did not name the step when torch's was the only step.
        words, device = len(self._vocabulary), self._device.type
        if self._training_step == NATIVE and not can_train(self._model, self._training[0], words, device):
            raise ValueError(
                "the native step began these runs, and torch cannot continue them: resume on a CPU with the native "
                "step (`python -m orchestrator doctor` checks it)"
            )
        self._step = notes["step"]
        self._active = [index for index, place in enumerate(places) if place in notes["active"]]
        self._progress = [
            _Progress(**one | {"curve": [Evaluation(**point) for point in one["curve"]]}) for one in progress
        ]
        rows = [notes["active"].index(places[index]) for index in self._active]
        mine = {name: tensor[rows] for name, tensor in tensors.items()}
        self._trainer = self._make_trainer(StackState.of(mine, notes["loss_steps"], self._device))

    def _initial_parameters(self, job: Job) -> torch.Tensor:
        # The spelling of this word seeds every run's initial weights.
        generator = torch.Generator().manual_seed(run_seed("initialisation", job.config))
        return initialize(job.config.settings.model, self._where, generator)

    def _make_trainer(self, state: StackState) -> StackTrainer | NativeTrainer:
        jobs = [self._jobs[index] for index in self._active]
        settings = [self._training[index] for index in self._active]
        texts = [job.dataset for job in jobs]
        keys = [run_seed("data order", job.config) for job in jobs]
        frozen = [job.frozen for job in jobs]
        if self._training_step == NATIVE:
            return NativeTrainer(state, self._model, self._where, settings, texts, keys, frozen=frozen)
        sampler = WindowSampler(
            texts,
            keys,
            block=self._model.block,
            batch=settings[0].batch,
            windows=settings[0].windows,
            device=self._device,
        )
        return StackTrainer(state, self._model, self._where, settings, sampler, frozen=frozen)

    def _prepare_gpu(self) -> None:
        if self._device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = self._training[0].precision == "tf32"
            # A weight's gradient sums thousands of tokens, so several blocks that share the sum must add in float32.
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
            # cuDNN plans every new shape of attention, and nearly every pass of an evaluation has a new shape.
            torch.backends.cuda.enable_cudnn_sdp(False)

    def _evaluate(self) -> dict[int, Evaluation | None]:
        """Return every active run's point of its learning curve, or None for a run with a loss that is not finite."""
        losses = self._take_losses()
        questions = [list(self._jobs[index].dataset.validation.values()) for index in self._active]
        scores = self._accuracies(questions, f"decoding of step {self._step}")
        return {
            index: Evaluation(self._step, loss, dict(zip(self._jobs[index].dataset.validation, score, strict=True)))
            if math.isfinite(loss)
            else None
            for index, loss, score in zip(self._active, losses, scores, strict=True)
        }

    def _take_losses(self) -> list[float]:
        state = self._trainer.state
        losses = (state.loss_S / max(1, state.loss_steps)).tolist()
        state.loss_S.zero_()
        state.loss_steps = 0
        return [float(loss) for loss in losses]

    def _accuracies(self, questions: Sequence[Sequence[Examples]], purpose: str) -> list[list[float]]:
        tokens = len(self._active) * self._training[0].batch * self._model.block
        configs = [self._jobs[index].config for index in self._active]
        sampled = configs[0].settings.task.decoding == "sampled"
        keys = [run_seed(purpose, config) for config in configs] if sampled else None
        write = self._trainer.write if isinstance(self._trainer, NativeTrainer) else None
        return accuracies(self._trainer.logits, questions, self._vocabulary, self._device, tokens, keys, write)

    def _note(self, index: int, evaluation: Evaluation | None) -> None:
        if evaluation is not None:
            progress = self._progress[index]
            progress.curve.append(evaluation)
            progress.solved = progress.solved + 1 if min(evaluation.accuracy.values()) >= SOLVED else 0

    def _has_ended(self, index: int) -> bool:
        settings = self._training[index]
        solved = settings.stop_when_solved and self._progress[index].solved >= SOLVED_EVALUATIONS
        return solved or self._step >= settings.steps

    def _test_scores(self, ended: Sequence[int]) -> dict[int, list[float]]:
        """Return the test accuracies of runs that end now: of each task, then of the mixed expressions if any."""
        if not ended:
            return {}
        questions = [_test_sets(self._jobs[index].dataset) if index in ended else [] for index in self._active]
        return dict(zip(self._active, self._accuracies(questions, "decoding of the test"), strict=True))

    def _final_report(self, index: int, evaluation: Evaluation | None, scores: Sequence[float]) -> Report:
        dataset, curve = self._jobs[index].dataset, tuple(self._progress[index].curve)
        floor = {task: examples.floor for task, examples in dataset.test.items()}
        measures = self._measures(index)
        if evaluation is None:
            outcome = Outcome(Status.DIVERGED, self._step, floor, floor, curve, measures, data=dataset.digest)
            return Report(index, None, outcome)
        accuracy = dict(zip(dataset.test, scores, strict=False))
        if dataset.mixed is not None:
            measures["accuracy_mixed"] = scores[-1]
        outcome = Outcome(Status.FINISHED, self._step, accuracy, floor, curve, measures, data=dataset.digest)
        weights = self._weights(index)
        return Report(index, evaluation, outcome, {"embedding": weights["token"][: self._vocabulary.items]}, weights)

    def _measures(self, index: int) -> dict[str, float]:
        dataset, settings = self._jobs[index].dataset, self._training[index]
        passes = self._step * settings.batch * self._model.block / len(dataset.tokens)
        progress = self._progress[index]
        measures = {"seconds": progress.seconds, "wall_seconds": progress.wall_seconds, "passes_over_data": passes}
        measures["native_step"] = float(self._training_step == NATIVE)
        for task, examples in dataset.test.items():
            measures[f"test_examples_{task}"] = len(examples.answers)
            measures[f"test_cases_{task}"] = dataset.cases[task]
            measures[f"nodes_seen_{task}"] = passes * dataset.nodes[task]
        return measures

    def _weights(self, index: int) -> dict[str, NDArray[Any]]:
        row = self._active.index(index)
        mine = self._where.views(self._trainer.state.parameters_SP[row : row + 1].cpu())
        return {name: view[0].numpy().copy() for name, view in mine.items()}

    def _keep(self, indices: Sequence[int]) -> None:
        if len(indices) < len(self._active):
            rows = [self._active.index(index) for index in indices]
            self._trainer.keep(torch.tensor(rows, dtype=torch.int64, device=self._device))
            self._active = list(indices)


def _test_sets(dataset: Dataset) -> list[Examples]:
    return [*dataset.test.values(), *([] if dataset.mixed is None else [dataset.mixed])]
