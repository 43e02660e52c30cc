"""Settings of shells, notebooks, servers and builds, three at a time: a sweep prints the same table as without them,
or is refused before anything starts."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from tests.cli.program import process
from tests.sweep.sweeps import table_of

LISTED = """
matplotlibrc=backend:nonsense matplotlibrc=backend:TkAgg matplotlibrc=nonsense matplotlibrc=axes.prop_cycle:nonsense
MPLBACKEND=module://matplotlib_inline.backend_inline MPLBACKEND=nonsense MPLBACKEND=TkAgg MPLCONFIGDIR=/proc
MATPLOTLIBRC=/no/such MATPLOTLIBRC=matplotlibrc SOURCE_DATE_EPOCH=now SOURCE_DATE_EPOCH=0 DISPLAY=:77
MLFLOW_STATIC_PREFIX=/x MLFLOW_SERVER_ALLOWED_HOSTS=x MLFLOW_SQLALCHEMYSTORE_POOLCLASS=x MLFLOW_RUN_ID=7
MLFLOW_EXPERIMENT_ID=7 MLFLOW_EXPERIMENT_NAME=x MLFLOW_LOGGING_LEVEL=LOUD MLFLOW_HTTP_REQUEST_TIMEOUT=x
MLFLOW_REGISTRY_URI=nowhere:// MLFLOW_TRACKING_URI=http://127.0.0.1:99999 MLFLOW_TRACKING_URI=file:/tmp/mlruns
MLFLOW_ENABLE_ASYNC_LOGGING=true MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING=true MLFLOW_ARTIFACT_LOCATION_MAX_LENGTH=1
DATABRICKS_RUNTIME_VERSION=15.4 DATABRICKS_HOST=x
TUNE_RESULT_DIR=/no/such TUNE_MAX_LEN_IDENTIFIER=x TUNE_RESULT_BUFFER_LENGTH=1000 RAY_AIR_NEW_OUTPUT=1
RAY_TRAIN_V2_ENABLED=1 RAY_CHDIR_TO_TRIAL_DIR=1 RAY_ADDRESS=127.0.0.1:9 RAY_COLOR_PREFIX=0 RAY_DEDUP_LOGS=x
RAY_memory_monitor_refresh_ms=0 RAY_BACKEND_LOG_LEVEL=debug RAY_NAMESPACE=x
RAY_JOB_CONFIG_JSON_ENV_VAR={} RAY_ENABLE_UV_RUN_RUNTIME_ENV=x RAY_LOG_TO_DRIVER=x
TORCH_LOGS=nonsense TORCH_NUM_THREADS=x OMP_NUM_THREADS=x MKL_NUM_THREADS=7 CUDA_VISIBLE_DEVICES=7 PYTORCH_JIT=0
TORCH_COMPILE_DISABLE=1 TORCH_EXTENSIONS_DIR=/proc TORCHINDUCTOR_CACHE_DIR=/proc PYTORCH_CUDA_ALLOC_CONF=nonsense
OMP_PROC_BIND=true OMP_THREAD_LIMIT=1 CXX=/no/such CXXFLAGS=-nonsense LD_PRELOAD=/no/such.so
TERM=nonsense TERM=dumb COLUMNS=x LINES=x NO_COLOR=1 FORCE_COLOR=1 LINES=0 COLUMNS=0 COLORTERM=x TTY_COMPATIBLE=1
TTY_INTERACTIVE=1 JUPYTER_COLUMNS=x JPY_PARENT_PID=1 COLUMNS=-5
PYTHONWARNINGS=error PYTHONWARNINGS=nonsense PYTHONPATH=/no/such PYTHONNOUSERSITE=1 PYTHONPYCACHEPREFIX=/proc
PYTHONOPTIMIZE=2 PYTHONUTF8=0 PYTHONIOENCODING=ascii PYTHONSAFEPATH=1 PYTHONHASHSEED=7 PYTHONDONTWRITEBYTECODE=1
PYTHONUNBUFFERED=1 PYTHONINTMAXSTRDIGITS=640 PYTHONDEVMODE=1 PYTHONBREAKPOINT=no.such PYTHONASYNCIODEBUG=1
LC_ALL=C LC_ALL=tr_TR.UTF-8 LANG=nonsense TZ=Nowhere/Land SHELL=/bin/false EDITOR=x TMPDIR=/no/such
HOME=/no/such HOME=/proc XDG_CACHE_HOME=/proc XDG_CONFIG_HOME=/proc XDG_RUNTIME_DIR=/no/such USER= LOGNAME= PWD=/no/such
GIT_DIR=/no/such http_proxy=http://127.0.0.1:9 all_proxy=socks5://127.0.0.1:9 SSL_CERT_FILE=/no/such
VIRTUAL_ENV=/no/such CONDA_PREFIX=/no/such SLURM_CPUS_PER_TASK=x SLURM_JOB_ID=x CI=true WEB_CONCURRENCY=x
"""
SETTINGS = LISTED.split()
"""Environment variables, or the contents of a user's matplotlibrc."""
WORDS = ("run", "add_vs_add_prod", "--profile", "smoke", "--home", "home")


def sweep(place: Path, settings: dict[str, str], *words: str) -> tuple[int, list[str], str]:
    """Run a sweep in a directory with a user's matplotlibrc. Return exit code, table and errors."""
    place.mkdir()
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "PYTEST_"))}
    variables |= settings
    drawing = variables.pop("matplotlibrc", "text.usetex: True\nfont.family: cursive")
    (place / "matplotlibrc").write_text(f"{drawing}\n")
    line = [sys.executable, "-m", "orchestrator", *WORDS, *words]
    done = process(line, cwd=place, environment=variables, within_s=1800)
    # With forced colors, the live view precedes the table.
    table = [" ".join(row.split()) for row in table_of(done.out)[-2:]]
    return done.code, table, done.err


@pytest.fixture(scope="module", name="undisturbed")
def undisturbed_table(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    code, table, errors = sweep(tmp_path_factory.mktemp("plain") / "place", {}, "--engine", "local")
    assert (code, len(table)) == (0, 2), errors
    return table


@pytest.mark.night
@pytest.mark.timeout(3600 * 3)
@pytest.mark.parametrize(
    ("engine", "count", "part"),
    [("local", 10, part) for part in range(20)] + [("ray", 5, part) for part in range(4)],
    ids=lambda value: str(value),
)
def test_foreign_settings_do_not_change_the_answer(
    engine: str, count: int, part: int, undisturbed: list[str], tmp_path: Path
) -> None:
    draws, wrong = random.Random(f"{engine} {part}"), []
    for place in range(count):
        settings = dict(setting.split("=", 1) for setting in draws.sample(SETTINGS, 3))
        code, table, errors = sweep(tmp_path / str(place), settings, "--engine", engine)
        begun = (tmp_path / str(place) / "home" / "sweeps").exists()
        if not (code == 0 and table == undisturbed) and not (code == 2 and not begun):
            wrong.append((settings, code, table, errors[-500:]))
    assert wrong == []
