"""Every example is killed at random moments, under both engines: its scores stay those of an undisturbed sweep.

``EXAMPLE_KILLS`` is the number of kills of each sweep, ``EXAMPLE_SEED`` the seed of their moments.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.cli.program import line, process
from tests.examples.disturbed import Disturbed, outcomes, scripts_in
from tests.examples.running import configuration, copied
from tests.sweep.sweeps import only_sweep
from tests.waiting import wait_for

__all__ = ["configuration"]
# Some minutes each; kills of workers and groups are in tests/trainables/script/test_process.py, too.
pytestmark = [pytest.mark.night, pytest.mark.timeout(1800)]
KILLS = int(os.environ.get("EXAMPLE_KILLS", "5"))
GRID, OFTEN = "search={method: grid}", "resources.checkpoint_every_s=0.2"
SMALL = {
    "nanogpt_script": ("sizes=[3, 6]", "seeds=1", "settings.steps=1000"),
    "config_file": ("sizes=[12, 100]", "seeds=2", "settings.steps=30000"),
    "digits": ("sizes=[2, 12]", "seeds=1", "settings.steps=4000", GRID, "tune=null", OFTEN),
}
"""Settings with which each example has four runs of some seconds."""
KINDS = {
    ("script", "local"): ["script", "driver", "group", "guard"],
    ("script", "ray"): ["worker", "script", "driver", "group", "guard", "raylet"],
    ("model", "local"): ["driver"],
    ("model", "ray"): ["worker", "driver", "raylet"],
}


@pytest.mark.parametrize("engine", ["local", "ray"])
@pytest.mark.parametrize("name", SMALL)
def test_kills_at_random_moments_lose_and_double_nothing(name: str, engine: str, workplace: Path) -> None:
    folder = copied(name, workplace)
    words = (*(word for change in SMALL[name] for word in ("--set", change)), "--home", "results")

    def finish(engine: str, *more: str) -> None:
        command = line("run", "space.yaml", f"--engine={engine}", *words, *more)
        process(command, cwd=folder, within_s=900).succeeded()

    finish("local")
    expected = outcomes(folder / "results")
    assert len(expected) == 4
    (folder / "results").rename(folder / "undisturbed")
    kinds = KINDS["script" if (folder / "train.py").exists() else "model", engine]
    seed = int(os.environ.get("EXAMPLE_SEED", "0"))
    sweep = Disturbed(folder, engine, words, random.Random(seed))
    killed = list(sweep.run((kinds * KILLS)[:KILLS]))
    if sweep.driver.wait(timeout=900):  # Killed parts of Ray end a sweep, which then says how to continue it.
        assert "--resume" in sweep.log(), sweep.log()
        finish(engine, "--resume", only_sweep(folder / "results").id)
    print(f"{name}, {engine}: killed {killed}")
    assert len(killed) >= 2, sweep.log()
    assert outcomes(folder / "results") == expected
    wait_for(lambda: not scripts_in(folder), 35)
