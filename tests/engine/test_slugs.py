"""Shapes are text of a family, and become names of directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.home.checkpoints import Checkpoints
from orchestrator.jobs.plan import stack_id
from tests.families import LogisticFamily
from tests.sweep.sweeps import ended, interrupt_after, only_sweep, run_here, spec
from trainables.base import RunConfig

pytestmark = pytest.mark.usefixtures("undrawn")

SHAPES = ["width/depth-8", "../../x-8", ".hidden-8", "a\nb-8", "\u5bbd\u5ea6-8", "w" * 400, "50%-8", "C:\\x"]


class SlashedFamily(LogisticFamily):
    """A family whose sizes are named by a path, and whose shapes begin with that name."""

    name = "slashed"
    size_axis = "width/depth"

    def shape(self, run: RunConfig) -> str:
        return f"{self.size_axis}-{run.size}"


class HiddenFamily(SlashedFamily):
    name = "hidden"
    size_axis = ".units"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_checkpoint_of_any_shape_is_found_again(shape: str, tmp_path: Path) -> None:
    checkpoints, stack = Checkpoints(tmp_path / "checkpoints"), stack_id(shape, ["one", "two"])
    for _ in range(2):
        with checkpoints.put(stack, ()) as directory:
            (directory / "file").write_text("x")
    assert checkpoints.stacks() == [stack]
    newest = checkpoints.newest(stack)
    assert newest is not None
    assert newest.parent == tmp_path / "checkpoints"


def test_ids_of_earlier_versions_stay() -> None:
    assert stack_id("n_embed-16-1f2e3d4c", ["key"]).startswith("n_embed-16-1f2e3d4c-x1-")
    assert stack_id("hidden units (ReLU)-16", ["key"]).startswith("hidden units (ReLU)-16-x1-")


@pytest.mark.parametrize("family", [SlashedFamily, HiddenFamily])
def test_an_interrupted_sweep_continues_from_its_checkpoints(
    family: type[LogisticFamily], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = spec(
        family=f"{__name__}:{family.__name__}", settings={"steps": 4}, sizes=[8, 16], search={"method": "grid"}
    )
    with monkeypatch.context() as patch:
        interrupt_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            run_here(wanted, tmp_path)
    files = only_sweep(tmp_path)
    [stack] = Checkpoints(files.checkpoints).stacks()
    assert "/" not in stack
    assert len(list(files.stacks.iterdir())) == 1
    steps: list[int] = []
    restore = type(wanted.make_family().learner([], device="cpu", cache=tmp_path)).restore

    def noting(learner: object, directory: Path) -> None:
        restore(learner, directory)  # type: ignore[arg-type]
        steps.append(learner.step)  # type: ignore[attr-defined]

    monkeypatch.setattr("tests.families.LogisticLearner.restore", noting)
    run_here(wanted, tmp_path, resume=files.id)
    assert steps == [2]
    assert len(ended(tmp_path)) == 8
