"""The defects of the GPU path that were found and mended, each with what puts it back and the test that then fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("orchestrator", "trainables", "search_spaces", "tests", "pyproject.toml")
STEP = "tests/emulation/test_step.py::"


@dataclass(frozen=True)
class Defect:
    """``now`` stands once in ``path``; with ``then`` in its place ``test`` fails and prints what ``says`` matches."""

    name: str
    path: str
    now: str
    then: str
    test: str
    says: str

    def put_back(self, root: Path) -> None:
        """In a copy of the repository."""
        path = root / self.path
        text = path.read_text()
        assert text.count(self.now) == 1, f"{self.path} has changed: this defect can no longer be put back like that"
        path.write_text(text.replace(self.now, self.then))


EMULATED = (
    Defect(
        "two layout kernels a block",
        "trainables/transformer.py",
        "each_SNC.view(stack, rows, tokens // rows, n_head, -1).flatten(0, 1).transpose(1, 2)\n"
        "        for each_SNC in qkv_SNK.chunk(3, dim=-1)",
        "each_BTHD.transpose(1, 2) for each_BTHD in\n"
        "        qkv_SNK.view(stack * rows, tokens // rows, 3, n_head, width3 // 3 // n_head).unbind(2)",
        f"{STEP}test_a_compiled_step_is_recorded_whole[0]",
        r"assert 193 <= 189",
    ),
    Defect(
        "more rows than a grid has room for",
        "trainables/transformer.py",
        "MOST_ROWS = 65_535",
        "MOST_ROWS = 10**9",
        f"{STEP}test_no_number_of_rows_is_too_large_for_a_grid[0-65536]",
        r"CUDA error: invalid configuration argument",
    ),
    Defect(
        "two recordings held at once",
        "trainables/stack.py",
        "        self._drop_recording()\n        self.state.keep(rows)",
        "        self.state.keep(rows)",
        f"{STEP}test_a_stack_that_loses_a_run_never_holds_two_recordings",
        r"assert \d+ < \(1\.1 \* \d+\)",
    ),
    Defect(
        "tests marked gpu that cannot end",
        "tests/trainables/test_stack_capture.py",
        "    before = torch.backends.cuda.matmul.allow_tf32\n    yield\n"
        "    torch.backends.cuda.matmul.allow_tf32 = before",
        "    with pytest.MonkeyPatch.context() as patch:\n"
        '        patch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)\n        yield',
        "tests/emulation/test_device.py::test_tests_marked_gpu_end_without_an_error",
        r"'error' is contained here",
    ),
    Defect(
        "weight gradients summed in bf16",
        "trainables/learner.py",
        "allow_bf16_reduced_precision_reduction = False",
        "allow_bf16_reduced_precision_reduction = True",
        "tests/emulation/test_device.py::test_a_learner_sums_its_weights_gradients_in_float32",
        r"assert not True",
    ),
    Defect(
        "stacks timed beside others that train",
        "orchestrator/engine/timing.py",
        "timing_on(gpu_of(resources))",
        'timing_on("")',
        "tests/emulation/test_device.py::test_a_stack_is_timed_when_nothing_trains_on_its_gpu",
        r"assert False",
    ),
    Defect(
        "stacks that train beside one that is timed",
        "orchestrator/engine/worker.py",
        "training_on(gpu_of(self._spec.resources))",
        'training_on("")',
        "tests/emulation/test_device.py::test_a_stack_trains_when_nothing_is_timed_on_its_gpu",
        r"assert False",
    ),
)
"""What only a device shows."""

PLAIN = (
    Defect(
        "float32 where bf16 is fast",
        "trainables/transformer_family.py",
        '"bf16" if fast_bf16 else "float32"',
        '"float32"',
        "tests/space/test_suited.py",
        r"assert 'float32' == 'bf16'",
    ),
    Defect(
        "compiled for whichever stack came first",
        "trainables/stack.py",
        "        if self._compiled and len(self._settings) > 1:\n            self._compile_first()\n",
        "",
        "tests/trainables/test_stack_compiled.py::test_what_is_compiled_does_not_depend_on_which_stack_came_first",
        r"assert \[2, 5\] == \[8, 2, 5\]",
    ),
    Defect(
        "no room for contexts",
        "orchestrator/engine/device.py",
        "max(mine - CONTEXT_BYTES, mine / 10)",
        "mine",
        "tests/engine/test_memory.py::test_processes_on_one_gpu_leave_room_for_each_others_contexts",
        r"assert \d+\.0 < ",
    ),
    Defect(
        "more than two processes a device that take turns",
        "orchestrator/stacks/choice.py",
        "MOST_STACKS_A_GPU, MOST_WITH_MPS = 2, 8",
        "MOST_STACKS_A_GPU, MOST_WITH_MPS = 8, 8",
        "tests/stacks/test_choice.py::test_a_gpu_is_shared_by_as_many_stacks_as_fill_it",
        r"assert 0\.12 == ",
    ),
    Defect(
        "as many compilers a worker as there are cores",
        "trainables/compiled.py",
        "min(threads, MOST_COMPILERS)",
        "threads",
        "tests/trainables/test_stack_compiled.py::test_a_worker_compiles_with_few_processes",
        r"assert 64 <= 4",
    ),
    Defect(
        "a width compiled by every worker at once",
        "trainables/compiled.py",
        "        fcntl.flock(lock, fcntl.LOCK_EX)\n",
        "",
        "tests/trainables/test_stack_compiled.py::test_one_process_of_a_machine_compiles_a_form_at_a_time",
        r"assert \['32', '16'\] == \['32'\]",
    ),
    Defect(
        "steps that run uncompiled without a word",
        "orchestrator/engine/device.py",
        "    _SAID.add(missing)\n    return (f",
        "    _SAID.add(missing)\n    return () and (f",
        "tests/engine/test_memory.py::test_steps_that_run_uncompiled_on_a_gpu_are_said_once_a_process",
        r"not enough values to unpack",
    ),
    Defect(
        "memory's end hidden behind the error of a recording",
        "orchestrator/engine/device.py",
        "seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)",
        "seen.__cause__",
        "tests/engine/test_memory.py::test_running_out_of_memory_is_found_behind_what_came_of_it",
        r"assert False",
    ),
    Defect(
        "a torch older than what it is asked for",
        "pyproject.toml",
        '"torch>=2.10"',
        '"torch>=2.4"',
        "tests/doctor/test_checks.py::test_the_oldest_torch_allowed_knows_the_limits_that_compiling_sets",
        r"assert not ",
    ),
)
"""What every machine shows."""


def copied(to: Path) -> Path:
    """A copy of what the tests need of the repository."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__", "data"))
        else:
            shutil.copy(ROOT / name, to / name)
    return to


def run(test: str, root: Path) -> tuple[int, str]:
    """Exit code and output of one test in a copy of the repository."""
    environment = os.environ | {"PYTHONPATH": str(root), "STUB_LOG": str(root / "log")}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--tb=short",
        test,
    ]
    done = subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=800)
    return done.returncode, done.stdout + done.stderr


def fails(defect: Defect, root: Path) -> str:
    """The lines in which a defect's test says what is wrong, with the defect put back in a copy of the repository. An
    ``AssertionError`` where it passes, or fails for another reason."""
    defect.put_back(copied(root))
    code, said = run(defect.test, root)
    assert code == 1, f"{defect.name}: {defect.test} ends with exit code {code}\n{said[-2000:]}"
    found = re.search(defect.says, said)
    assert found is not None, f"{defect.name}: {defect.test} fails, but without {defect.says!r}\n{said[-2000:]}"
    return found[0]
