"""The native step built in other ways: the same bits from every build, and nothing for the sanitizers to find."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.trainables.test_native import native_trainer
from tests.trainables.trainers import MODEL, TRAINING
from trainables.transformer.native import trainer

ROOT = Path(__file__).resolve().parents[2]
COMPILER = shutil.which("g++") or shutil.which("c++") or ""
MODELS = {
    "two heads, gelu, tied, biases": replace(MODEL, n_head=2, activation="gelu", tied=True, bias=True, block=9),
    "two layers": replace(MODEL, n_layer=2),
}

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")]


def built(directory: Path, name: str, *flags: str) -> Path:
    """A library of the step, built with the flags of pyproject.toml and these."""
    [extension] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    path = directory / f"{name}.so"
    sources = [str(ROOT / source) for source in extension["sources"]]
    command = [COMPILER, "-shared", "-fPIC", *extension["extra-compile-args"], *flags, "-o", str(path), *sources]
    subprocess.run(command, check=True)
    return path


def trained() -> dict[str, torch.Tensor]:
    """Parameters after some steps, by the names of the models."""
    ends = {}
    for name, model in MODELS.items():
        runs = native_trainer([3, 1], n_embed=12, model=model, training=replace(TRAINING, loss="answer"))
        runs.run(0, 20)
        ends[name] = runs.state.parameters_SP
    return ends


@pytest.mark.parametrize("flags", ["-march=native", "-O1"])
def test_every_build_gives_the_same_bits(flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``-march=native`` uses AVX-512 where there is some."""
    expected = trained()
    library = ctypes.CDLL(str(built(tmp_path, "other", flags)))
    monkeypatch.setattr(trainer, "library", lambda: library)
    for name, parameters in trained().items():
        assert torch.equal(parameters, expected[name]), name


def test_the_sanitizers_find_nothing(tmp_path: Path) -> None:
    library = built(tmp_path, "sanitized", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    names = [
        subprocess.check_output([COMPILER, f"-print-file-name=lib{name}.so"], text=True) for name in ("asan", "ubsan")
    ]
    preload = os.pathsep.join(name.strip() for name in names)
    program = (
        "import ctypes\n"
        "from tests.trainables import test_native_builds as tests\n"
        f"library = ctypes.CDLL({str(library)!r})\n"
        "tests.trainer.library = lambda: library\n"
        "tests.trained()\n"
    )
    environment = os.environ | {"LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
