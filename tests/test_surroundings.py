"""Settings of shells, notebooks, servers and builds, three at a time: a sweep prints the undisturbed table, or is
refused before anything starts."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweep.sweeps import table_of

LISTED = """
MPLBACKEND=module://matplotlib_inline.backend_inline MPLBACKEND=nonsense MPLBACKEND=TkAgg MPLCONFIGDIR=/proc
MATPLOTLIBRC=/no/such MATPLOTLIBRC=matplotlibrc SOURCE_DATE_EPOCH=now SOURCE_DATE_EPOCH=0 DISPLAY=:77
MLFLOW_STATIC_PREFIX=/x MLFLOW_SERVER_ALLOWED_HOSTS=x MLFLOW_SQLALCHEMYSTORE_POOLCLASS=x MLFLOW_RUN_ID=7
MLFLOW_EXPERIMENT_ID=7 MLFLOW_EXPERIMENT_NAME=x MLFLOW_LOGGING_LEVEL=LOUD MLFLOW_HTTP_REQUEST_TIMEOUT=x
MLFLOW_REGISTRY_URI=nowhere:// MLFLOW_TRACKING_URI=http://127.0.0.1:99999 MLFLOW_TRACKING_URI=file:/tmp/mlruns
MLFLOW_ENABLE_ASYNC_LOGGING=true MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING=true MLFLOW_ARTIFACT_LOCATION_MAX_LENGTH=1
TUNE_RESULT_DIR=/no/such TUNE_MAX_LEN_IDENTIFIER=x TUNE_RESULT_BUFFER_LENGTH=1000 RAY_AIR_NEW_OUTPUT=1
RAY_TRAIN_V2_ENABLED=1 RAY_CHDIR_TO_TRIAL_DIR=1 RAY_ADDRESS=127.0.0.1:9 RAY_COLOR_PREFIX=0 RAY_DEDUP_LOGS=x
RAY_memory_monitor_refresh_ms=0 RAY_BACKEND_LOG_LEVEL=debug
TORCH_LOGS=nonsense TORCH_NUM_THREADS=x OMP_NUM_THREADS=x MKL_NUM_THREADS=7 CUDA_VISIBLE_DEVICES=7 PYTORCH_JIT=0
TERM=nonsense TERM=dumb COLUMNS=x LINES=x NO_COLOR=1 FORCE_COLOR=1 PYTHONWARNINGS=error PYTHONWARNINGS=nonsense
PYTHONOPTIMIZE=2 PYTHONUTF8=0 PYTHONIOENCODING=ascii PYTHONSAFEPATH=1 PYTHONHASHSEED=7 PYTHONDONTWRITEBYTECODE=1
PYTHONUNBUFFERED=1 PYTHONINTMAXSTRDIGITS=640 PYTHONDEVMODE=1 LC_ALL=C LANG=nonsense TZ=Nowhere/Land
GIT_DIR=/no/such PYTHONPATH=/no/such TORCH_COMPILE_DISABLE=1 http_proxy=http://127.0.0.1:9
SHELL=/bin/false LINES=0 COLUMNS=0
TMPDIR=/no/such HOME=/no/such HOME=/proc XDG_CACHE_HOME=/proc XDG_CONFIG_HOME=/proc USER= EDITOR=x WEB_CONCURRENCY=x
"""
SETTINGS = LISTED.split()
WORDS = ("run", "add_vs_add_prod", "--profile", "smoke", "--home", "home")


def sweep(place: Path, settings: dict[str, str], *words: str) -> tuple[int, list[str], str]:
    """Exit code, table and errors of a sweep in a directory with a matplotlibrc of the user's own."""
    place.mkdir()
    (place / "matplotlibrc").write_text("text.usetex: True\nfont.family: cursive\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "PYTEST_"))}
    line = [sys.executable, "-m", "orchestrator", *WORDS, *words]
    done = subprocess.run(line, cwd=place, env=kept | settings, capture_output=True, text=True, timeout=600)
    # Where colours are forced, the live view comes before the table.
    table = [" ".join(row.split()) for row in table_of(done.stdout)[-2:]]
    return done.returncode, table, done.stderr


@pytest.fixture(scope="module", name="undisturbed")
def undisturbed_table(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    code, table, errors = sweep(tmp_path_factory.mktemp("plain") / "place", {}, "--engine", "local")
    assert (code, len(table)) == (0, 2), errors
    return table


@pytest.mark.night
@pytest.mark.timeout(3600 * 6)
@pytest.mark.parametrize(("count", "words"), [(200, ["--engine", "local"]), (20, [])], ids=["here", "ray"])
def test_foreign_settings_change_no_answer(
    count: int, words: list[str], undisturbed: list[str], tmp_path: Path
) -> None:
    draws, wrong = random.Random(count), []
    for place in range(count):
        settings = dict(setting.split("=", 1) for setting in draws.sample(SETTINGS, 3))
        code, table, errors = sweep(tmp_path / str(place), settings, *words)
        begun = (tmp_path / str(place) / "home" / "sweeps").exists()
        if not (code == 0 and table == undisturbed) and not (code == 2 and not begun):
            wrong.append((settings, code, table, errors[-500:]))
    assert wrong == []
