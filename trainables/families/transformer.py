"""Transformers of any width on text: the part of a family that does not depend on the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from trainables.base import Arm, Family, Learner, Mix, Parameters, RunConfig, SettingsError, Speed, Start
from trainables.contract.settings import described_fields, digest_of, require
from trainables.contract.tables import Integers
from trainables.tasks.expression_task import ExpressionTask
from trainables.tasks.texts import load_dataset
from trainables.transformer.architecture import (
    MODEL_PARTS,
    ModelSettings,
    count_parameters,
    flops_per_token,
    training_bytes,
)
from trainables.transformer.datasets import Dataset
from trainables.transformer.initialization import scale_warning
from trainables.transformer.native import NATIVE, SPEED, TORCH, can_train, missing, supports
from trainables.transformer.training_settings import TrainingSettings

if TYPE_CHECKING:
    from trainables.transformer.generation import TrainedTransformer

OWN_TRAINING = ("learning_rate", "learning_rate_end", "weight_decay")
"""Training settings that may differ between the runs of one stack."""


@dataclass(frozen=True)
class TransformerSettings:
    """All settings except mix, size and seed. Subclasses choose the task. The longest text must fit ``model.block``."""

    task: ExpressionTask
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        needed = self.task.longest_text
        block = self.model.block
        if block < needed:
            texts = f"expressions of depth {self.task.depth} with up to {self.task.max_arguments} arguments"
            message = f"{texts} are up to {needed} tokens long; raise it to at least {needed}"
            raise SettingsError(f"model.block is {block}, but {message}", key="model.block", given=str(block))
        fits = self.task.training_examples * needed > block
        require(fits, "task.train_examples", self.task.training_examples, f"more, to fill a window of {block} tokens")


class TransformerFamily(Family):
    """Transformers of the width ``n_embed``. Subclasses set name, version, words and ``Settings`` (with their task)."""

    size_axis = "n_embed"
    tunable = (
        "training.learning_rate",
        "training.learning_rate_end",
        "training.warmup_steps",
        "training.weight_decay",
        "training.beta1",
        "training.beta2",
        "training.clip",
        "model.init.std",
        "model.init.gain",
    )
    probes = ("similarity",)
    parts = MODEL_PARTS
    resizable = ("embedding",)
    settings: TransformerSettings

    def tasks(self) -> tuple[str, ...]:
        return self.settings.task.tasks()

    def check(self, mix: Mix, size: int) -> None:
        self.settings.task.check_mix(mix)
        heads = self.settings.model.n_head
        if size < 1 or size % heads:
            allowed = "at least 1" if heads == 1 else f"a multiple of n_head ({heads})"
            raise SettingsError(f"size {size} cannot be trained; it must be {allowed}", key="sizes", given=str(size))

    def tables(self, tasks: Sequence[str], seed: int) -> dict[str, Integers] | None:
        return self.settings.task.tables(tasks, seed)

    def warnings(self, sizes: Sequence[int]) -> list[str]:
        start = scale_warning(self.settings.model.init, sizes)
        settle = self.settings.training.settle
        lines = self.settings.task.warnings() + ([start] if start else [])
        return lines if settle is None else [*lines, settle.text()]

    def parameters(self, size: float) -> Parameters:
        return count_parameters(self.settings.model, size, self._vocabulary_size)

    def scaled(self, steps: float, examples: float) -> TransformerSettings:
        task = self.settings.task
        training = self.settings.training
        if steps != 1:
            training = replace(training, steps=max(1, round(training.steps * steps)))
        return replace(self.settings, task=task.with_examples(examples), training=training)

    def config(self, arm: Arm, size: int, seed: int, tuned: Mapping[str, float] | None = None) -> RunConfig:
        run = super().config(arm, size, seed, tuned)
        return run if run.start is None else replace(run, start=_trained_in_full(run.start))

    def adjusted(self, values: Mapping[str, float]) -> Any:
        """Return the settings with other values. A new learning rate also scales the end rate, unless that is set too.

        The ratio of the two rates, and with it the decay, then stays the same.
        """
        rate = "training.learning_rate"
        end = "training.learning_rate_end"
        if rate in values and end not in values:
            training = self.settings.training
            values = {**values, end: training.learning_rate_end * values[rate] / training.learning_rate}
        return super().adjusted(values)

    def steps(self, run: RunConfig) -> int:
        return int(run.settings.training.steps)

    def flops(self, run: RunConfig) -> float:
        settings: TransformerSettings = run.settings
        tokens = settings.training.steps * settings.training.batch * settings.model.block
        return tokens * flops_per_token(settings.model, run.size, self._vocabulary_size)

    def shape(self, run: RunConfig) -> str:
        settings: TransformerSettings = run.settings
        training = described_fields(settings.training)
        shared = {name: value for name, value in training.items() if name not in OWN_TRAINING}
        described = [run.size, settings.task.stackable(), settings.model.stackable(), shared]
        return f"{self.size_axis}-{run.size}-{digest_of(described)[:8]}"

    def check_device(self, device: str) -> None:
        precision = self.settings.training.precision
        # A CPU would train in float32, and store the result under the key of a tf32 run.
        can_train = device.startswith("cuda") or precision != "tf32"
        require(can_train, "training.precision", precision, "float32 or bf16 on a CPU")

    def training_step(self, device: str) -> str:
        return NATIVE if can_train(self.settings.model, self.settings.training, device) else TORCH

    def slowness(self, device: str) -> str:
        if device.startswith("cuda"):
            from trainables.transformer.gpu_step import lacking  # Imports torch.

            tools = ", ".join(lacking())
            return f"training on a GPU is not compiled, so it is slower: install {tools}" if tools else ""
        why = missing() if self.training_step(device) == TORCH else None
        return "" if why is None else f"{why[0]}: {why[1]}"

    def speed(self, device: str) -> Speed | None:
        return SPEED if self.training_step(device) == NATIVE else None

    def typical_speed(self, device: str) -> Speed | None:
        return SPEED if supports(self.settings.model, self.settings.training, device) else None

    def compiles(self, device: str) -> bool:
        if not device.startswith("cuda"):
            return False
        import torch  # Plans and reports do not need it.

        from trainables.transformer.gpu_step import can_compile

        return can_compile(torch.device(device))

    def memory(self, size: int) -> float:
        item = 2 if self.settings.training.precision == "bf16" else 4
        return training_bytes(self.settings.model, size, self._vocabulary_size, self.settings.training.batch, item)

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        from trainables.transformer.learner import TransformerLearner  # Plans and reports do not need torch.

        type(self)(runs[0].settings).check_device(device)
        return TransformerLearner(self, runs, device, cache)

    def load(self, run: RunConfig, weights: Mapping[str, NDArray[Any]]) -> TrainedTransformer:
        from trainables.transformer.generation import TrainedTransformer

        return TrainedTransformer(run.settings.model, run.size, self._vocabulary_size, weights)

    def data(self, run: RunConfig, cache: Path) -> Dataset:
        return load_dataset(run.settings.task, run.mix, run.seed, cache)

    @property
    def _vocabulary_size(self) -> int:
        return len(self.settings.task.vocabulary())


def _trained_in_full(start: Start) -> Start:
    """Return a start whose donors do not end once they are settled, so that later phases continue from fully trained
    models."""
    donor = start.donor
    training = replace(donor.settings.training, settle=None)
    earlier = None if donor.start is None else _trained_in_full(donor.start)
    return replace(start, donor=replace(donor, settings=replace(donor.settings, training=training), start=earlier))
