"""Settings of an environment change nothing: drawn at random three at a time, a sweep prints the table that it prints
without them, or is refused before anything starts. Nothing "should not happen"."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from tests.chaos.program import ROOT
from tests.chaos.rounds import answer_in
from tests.cli.program import line

SETTINGS = (
    # matplotlib: a Jupyter kernel, a desktop, a thesis template.
    "MPLBACKEND=module://matplotlib_inline.backend_inline",
    "MPLBACKEND=TkAgg",
    "MPLBACKEND=nonsense",
    "MPLCONFIGDIR=/nonexistent",
    "MATPLOTLIBRC={rc}/usetex",
    "MATPLOTLIBRC={rc}/nonsense",
    # MLflow: other work's experiment, run, server and stores.
    "MLFLOW_EXPERIMENT_NAME=others",
    "MLFLOW_EXPERIMENT_ID=99",
    "MLFLOW_RUN_ID=0123456789abcdef",
    "MLFLOW_REGISTRY_URI=http://127.0.0.1:9",
    "MLFLOW_S3_ENDPOINT_URL=http://127.0.0.1:9",
    "MLFLOW_ENABLE_ASYNC_LOGGING=true",
    "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING=true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT=1",
    "MLFLOW_LOGGING_LEVEL=DEBUG",
    "MLFLOW_CONFIGURE_LOGGING=0",
    "MLFLOW_STATIC_PREFIX=/mlflow",
    # Ray: a cluster of others, a directory, its own logs.
    "RAY_ADDRESS=10.77.0.1:6379",
    "RAY_NAMESPACE=others",
    "RAY_DEDUP_LOGS=0",
    "RAY_AIR_NEW_OUTPUT=1",
    "RAY_LOG_TO_STDERR=1",
    "RAY_CHDIR_TO_TRIAL_DIR=0",
    "RAY_memory_monitor_refresh_ms=0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=1",
    "TUNE_GLOBAL_CHECKPOINT_S=0",
    # torch and the libraries below it.
    "OMP_NUM_THREADS=64",
    "OMP_NUM_THREADS=nonsense",
    "MKL_NUM_THREADS=2",
    "CUDA_VISIBLE_DEVICES=99",
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    "TORCH_LOGS=+dynamo",
    "TORCH_HOME=/nonexistent",
    "TORCH_COMPILE_DISABLE=1",
    "TORCH_DEVICE_BACKEND_AUTOLOAD=0",
    "PYTORCH_JIT=0",
    # rich and the terminal.
    "COLUMNS=0",
    "LINES=0",
    "FORCE_COLOR=1",
    "NO_COLOR=1",
    "TTY_COMPATIBLE=1",
    "TERM=dumb",
    "TERM=nonsense",
    # Python.
    "PYTHONWARNINGS=error::DeprecationWarning",
    "PYTHONOPTIMIZE=1",
    "PYTHONOPTIMIZE=2",
    "PYTHONDEVMODE=1",
    "PYTHONUTF8=0",
    "PYTHONIOENCODING=ascii",
    "PYTHONSAFEPATH=1",
    "PYTHONHASHSEED=1",
    "PYTHONUNBUFFERED=1",
    "PYTHONPATH=/nonexistent",
    # The shell, git and the system.
    "LC_ALL=C",
    "LC_ALL=de_DE.UTF-8",
    "LANG=nonsense",
    "TZ=nonsense",
    "HOME=/nonexistent",
    "GIT_DIR=/nonexistent",
    "http_proxy=http://127.0.0.1:9",
    "SHELL=/bin/false",
    "SOURCE_DATE_EPOCH=0",
)
"""Each as a shell exports it; ``{rc}`` is a directory with files of matplotlib."""
TOGETHER = 3
LOCAL, RAY = 200, 20
"""Draws of sweeps in one process, and under Ray."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for homes, with files of matplotlib."""
    made = tmp_path_factory.mktemp("environment")
    (made / "rc").mkdir()
    (made / "rc" / "usetex").write_text("text.usetex: True\nfont.family: serif\n")
    (made / "rc" / "nonsense").write_text("backend: nonsense\naxes.grid: perhaps\n")
    return made


def sweep(place: Path, *settings: str, local: bool = True) -> subprocess.CompletedProcess[str]:
    """A smoke sweep with these settings exported, in a home of its own within ``place``."""
    exported = dict(each.format(rc=place / "rc").split("=", 1) for each in settings)
    home = place / "-".join([str(len(list(place.iterdir()))), "home"])
    words = ["run", "add_vs_add_prod", "--profile", "smoke", "--set", "seeds=1", "--home", str(home)]
    return subprocess.run(
        line(*words, *(["--engine=local"] if local else [])),
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "200"} | exported,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=600,
    )


@pytest.fixture(scope="module")
def undisturbed(place: Path) -> str:
    """The table of a sweep without any of the settings."""
    done = sweep(place)
    assert done.returncode == 0, done.stderr
    return answer_in(done.stdout)


def assert_same_table(done: subprocess.CompletedProcess[str], undisturbed: str, settings: tuple[str, ...]) -> None:
    said = f"{settings}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert "should not happen" not in done.stderr, said
    if done.returncode == 2:
        assert "sweep add_vs_add_prod-" not in done.stdout, said
        return
    assert done.returncode == 0, said
    assert answer_in(done.stdout) == undisturbed, said


def test_the_settings_are_enough() -> None:
    assert len(set(SETTINGS)) >= 60


@pytest.mark.night
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("count", "local"), [(LOCAL, True), (RAY, False)], ids=["local", "ray"])
def test_drawn_settings_change_no_table(count: int, local: bool, place: Path, undisturbed: str) -> None:
    for number in range(count):
        settings = tuple(random.Random(number).sample(SETTINGS, TOGETHER))
        assert_same_table(sweep(place, *settings, local=local), undisturbed, settings)
