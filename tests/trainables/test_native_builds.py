"""The native step built in other ways: every build gives the same bits, and sanitizers report no errors."""

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

from tests.cli.program import process
from tests.trainables.trainers import MODEL, TRAINING, VOCABULARY, native_trainer
from trainables.transformer.native import trainer

ROOT = Path(__file__).resolve().parents[2]
GCC = shutil.which("g++") or ""
MODELS = {
    "two heads, gelu, tied, biases": replace(MODEL, n_head=2, activation="gelu", tied=True, bias=True, block=9),
    "two layers": replace(MODEL, n_layer=2),
    "windows across lanes": replace(MODEL, block=40),
}

night = pytest.mark.night
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not GCC, reason="needs g++")]


def built(directory: Path, name: str, *flags: str, compiler: str = GCC) -> Path:
    """Build a library of the step with the flags of pyproject.toml and these. Return its path."""
    [extension] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    path = directory / f"{name}.so"
    sources = [str(ROOT / source) for source in extension["sources"]]
    command = [compiler, "-shared", "-fPIC", *extension["extra-compile-args"], *flags, "-o", str(path), *sources]
    subprocess.run(command, check=True)
    return path


def trained() -> dict[str, torch.Tensor]:
    """Return parameters after some steps and texts written with them, by the names of the models."""
    ends: dict[str, torch.Tensor] = {}
    for name, model in MODELS.items():
        runs = native_trainer(
            [3, 1], n_embed=12, model=model, settings=[replace(TRAINING, batch=10, loss="answer")] * 2
        )
        runs.run(0, 20)
        texts = torch.arange(2 * 11 * model.block).reshape(2, 11, -1) % VOCABULARY
        runs.write(texts, torch.arange(2, 13).clamp(max=model.block).repeat(2, 1), end=VOCABULARY - 1)
        ends |= {name: runs.state.parameters_SP, f"texts of {name}": texts}
    return ends


BUILDS = {
    "AVX-512": (GCC, "-mavx512f", "-mavx512vl", "-mavx512dq", "-mprefer-vector-width=512"),
    "AVX2": (GCC, "-mavx2", "-mno-avx512f"),
    "hardly optimized": (GCC, "-O1"),
    "clang": (shutil.which("clang++") or "",),
}
"""Compilers and flags in addition to those of pyproject.toml; the code itself requests AVX2 and FMA."""
EVERYDAY = "hardly optimized"


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == EVERYDAY else night) for name in BUILDS])
def test_every_build_gives_the_same_bits(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, *flags = BUILDS[name]
    if not compiler:
        pytest.skip("needs clang++")
    if name == "AVX-512" and not {"avx512f", "avx512vl", "avx512dq"} <= set(Path("/proc/cpuinfo").read_text().split()):
        pytest.skip("needs a CPU with AVX-512")
    expected = trained()
    path = built(tmp_path, "other", *flags, compiler=compiler)
    if shutil.which("objdump"):
        code = subprocess.check_output(["objdump", "-d", "--no-show-raw-insn", path], text=True)
        assert ("%zmm" in code) == (name == "AVX-512")
    library = ctypes.CDLL(str(path))
    monkeypatch.setattr(trainer, "library", lambda: library)
    for what, tensor in trained().items():
        assert torch.equal(tensor, expected[what]), what


@night
def test_the_sanitizers_report_no_errors(tmp_path: Path) -> None:
    library = built(tmp_path, "sanitized", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    names = [subprocess.check_output([GCC, f"-print-file-name=lib{name}.so"], text=True) for name in ("asan", "ubsan")]
    preload = os.pathsep.join(name.strip() for name in names)
    program = (
        "import ctypes\n"
        "from tests.trainables import test_native_builds as tests\n"
        f"library = ctypes.CDLL({str(library)!r})\n"
        "tests.trainer.library = lambda: library\n"
        "tests.trained()\n"
    )
    environment = os.environ | {"LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(ROOT)}
    process([sys.executable, "-c", program], environment=environment).succeeded()
