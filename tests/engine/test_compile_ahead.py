"""The local engine compiles the next size while the current one trains."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.compile_ahead import AheadCompiler
from orchestrator.engine.local_engine import LocalEngine
from orchestrator.history.journal import Journal
from orchestrator.history.sweeps import create_sweep
from orchestrator.home.directories import Home
from orchestrator.search.base import Request
from orchestrator.space.problem import searcher_of
from orchestrator.space.spaces import load_space
from orchestrator.space.stack_sizes import StackSizes
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.system.hardware import Hardware
from tests.engine.test_campaign import plan_of, start
from tests.families import LogisticFamily
from tests.sweep.sweeps import spec
from tests.waiting import wait_for
from trainables.base import Family, Learner, RunConfig
from trainables.families.listops import ListOps
from trainables.transformer import learner as learner_module
from trainables.transformer import stack as stack_module

SUMS = {
    "task": {"modulus": 4, "depth": 1, "max_arguments": 3, "nesting": 0.0, "held_out_fraction": 0.25},
    "model": {"block": 18, "n_recurrence": 1},
    "training": {"steps": 20, "batch": 4, "evaluate_every": 10, "warmup_steps": 0, "loss": "answer"},
}


class CompiledSums(ListOps):
    """Sums whose stacks compile their step on a CPU, as other stacks do on a GPU."""

    name = "compiled_sums"

    def compiles(self, device: str) -> bool:
        return True

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        compiles = patch.object(stack_module, "can_compile", lambda device: True)
        with compiles, patch.object(learner_module, "can_train", lambda *settings: False):  # Not the native step.
            return super().learner(runs, device=device, cache=cache)


class Waits(LogisticFamily):
    """A family whose runs at size 8 train until another process has created a learner of size 16."""

    name = "waits"

    def compiles(self, device: str) -> bool:
        return True

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        (cache / f"{runs[0].size}-{os.getpid()}").touch()
        if runs[0].size == 8:
            wait_for(lambda: any(cache.glob("16-*")), 200)
        return super().learner(runs, device=device, cache=cache)


def campaign_of(family: type[Family], directory: Path, **changes: object) -> Campaign:
    """Return a campaign of two sizes with two runs each."""
    fields = {
        "family": f"{family.__module__}:{family.__name__}",
        "sizes": [8, 16],
        "seeds": 1,
        "search": {"method": "grid"},
        "resources": {"max_stack": 2, "scratch": str(directory / "scratch")},
    }
    sweep = create_sweep(spec(**(fields | changes)), Home(directory / "home"))
    sizing = StackSizes(sweep.spec, Hardware(2, 8))
    plan = StudyPlan(sweep, searcher_of(sweep.spec), Journal(sweep.files.journal))
    return Campaign(sweep.files, sweep.setup, plan, slots=lambda _: 1, sizing=sizing)


@pytest.mark.slow
def test_the_next_size_is_compiled_while_the_current_one_trains(tmp_path: Path) -> None:
    campaign = campaign_of(Waits, tmp_path)
    LocalEngine().execute(campaign)
    assert [record.config.size for record in plan_of(campaign).runs] == [8, 8, 16, 16]
    made = [path.name.split("-") for path in (tmp_path / "scratch").iterdir()]
    own = str(os.getpid())
    assert sorted((size, process == own) for size, process in made) == [("16", False), ("16", True), ("8", True)]


@pytest.mark.slow
def test_the_compiling_process_finds_a_family_without_searching_its_folder(tmp_path: Path) -> None:
    (tmp_path / "compiled_here.py").write_text(
        "import json, os, sys\nfrom compiled_parts import NAME\nfrom tests.engine.test_compile_ahead import Waits\n\n\n"
        "class Here(Waits):\n    name = NAME\n\n"
        "    def learner(self, runs, *, device, cache):\n"
        "        (cache.parent / f'{runs[0].size}-{os.getpid()}').write_text(json.dumps(sys.path))\n"
        "        return super().learner(runs, device=device, cache=cache)\n"
    )
    (tmp_path / "compiled_parts.py").write_text("NAME = 'here'\n")
    space = {"question": "Q?", "family": "compiled_here:Here", "target": "add", "mixes": ["add"], "sizes": [8, 16]}
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(space | {"seeds": 1}))
    family = load_space(str(tmp_path / "space.yaml")).family_class
    LocalEngine().execute(campaign_of(family, tmp_path))
    searched = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("16-*")}
    [elsewhere] = [paths for name, paths in searched.items() if name != f"16-{os.getpid()}"]
    assert str(tmp_path) not in elsewhere
    assert str(tmp_path) not in sys.path


@pytest.mark.night
@pytest.mark.timeout(1800)
def test_a_step_compiled_ahead_is_read_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiler"))
    campaign = campaign_of(CompiledSums, tmp_path, settings=SUMS)
    with AheadCompiler(campaign) as ahead:
        ahead.compile_next(start(campaign), campaign.setup)
        assert ahead._process is not None
        assert ahead._process.wait(1500) == 0
    plan = plan_of(campaign)
    sweep_spec = plan.sweep.spec
    misses_and_hits = []
    for size in (8, 16):  # Only size 16 was compiled ahead; what this process compiled before does not matter.
        before = counters["inductor"]["fxgraph_cache_miss"], counters["inductor"]["fxgraph_cache_hit"]
        config = plan.job(Request(sweep_spec.baseline.name, size, sweep_spec.seed)).run
        CompiledSums(config.settings).learner([config, config], device="cpu", cache=tmp_path / "scratch")
        after = counters["inductor"]["fxgraph_cache_miss"], counters["inductor"]["fxgraph_cache_hit"]
        misses_and_hits.append((after[0] - before[0], after[1] - before[1]))
    assert misses_and_hits == [(2, 0), (0, 2)]  # Of the forward and the backward pass.


def test_a_family_that_does_not_compile_starts_no_process(tmp_path: Path) -> None:
    campaign = campaign_of(LogisticFamily, tmp_path)
    with AheadCompiler(campaign) as ahead:
        ahead.compile_next(start(campaign), campaign.setup)
        assert ahead._process is None


def test_a_process_that_cannot_start_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr("subprocess.Popen", fails)
    campaign = campaign_of(Waits, tmp_path)
    with AheadCompiler(campaign) as ahead:
        ahead.compile_next(start(campaign), campaign.setup)
        assert ahead._process is None


@pytest.mark.slow
def test_the_compiling_process_ends_with_the_engine(tmp_path: Path) -> None:
    campaign = campaign_of(Waits, tmp_path)
    with AheadCompiler(campaign) as ahead:
        ahead.compile_next(start(campaign), campaign.setup)
        process = ahead._process
    assert process is not None
    assert process.returncode
