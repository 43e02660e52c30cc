"""Each check tries the real thing and reports a fault if there is one."""

from __future__ import annotations

import math
import os
import stat
import threading
from importlib import metadata
from pathlib import Path

import pytest

from orchestrator.cli import set_up
from orchestrator.doctor import gpu, machine
from orchestrator.doctor.machine import CheckResult, Grade, SmallTraining, examined, ok
from orchestrator.home.directories import Home
from orchestrator.home.ownership import HOME_ID_FILE, trust_home
from orchestrator.record.tracker import StoreError
from orchestrator.sweep.starting import check_room
from orchestrator.system import hardware
from orchestrator.system.errors import UserError
from orchestrator.system.hardware import CgroupLimits
from tests.catalog.fabricated import write_sweep
from tests.cli.program import command
from tests.sweep.sweeps import spec


@pytest.mark.slow
def test_this_machine_passes_all_checks(tmp_path: Path) -> None:
    output = command("doctor", "--home", tmp_path).succeeded()
    names = ["software", "machine", "home", "files", "training", "MLflow", "Ray"]
    lines = [line.split()[:2] for line in output.splitlines()]
    assert [line[1] for line in lines if line[0] in tuple(Grade)] == names
    assert list(tmp_path.iterdir()) == [tmp_path / HOME_ID_FILE]


def test_an_unreachable_store_is_wrong_and_gives_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setattr(set_up, "machine_checks", lambda home: [("MLflow", lambda: machine.record(home))])
    ended = command("doctor", "--home", tmp_path)
    assert ended.code == 1
    assert "wrong MLflow" in ended.out


def test_a_check_that_raises_is_reported_as_wrong_and_others_still_run() -> None:
    def broken() -> CheckResult:
        raise OSError("the cable\nis out")

    cable, lamp = examined([("cable", broken), ("lamp", lambda: ok("it burns"))])
    assert (cable.name, cable.grade, cable.text) == ("cable", Grade.WRONG, "OSError: the cable")
    assert cable.todo
    assert (lamp.name, lamp.grade) == ("lamp", Grade.OK)


def test_a_container_with_few_resources_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "limits", lambda: CgroupLimits(memory_bytes=9e8, cpus=0.5))
    part = machine.machine_part()
    assert part.grade is Grade.SLOW
    assert part.text.startswith("1 CPU core and 0.9 GB of memory, of ")
    monkeypatch.setattr(hardware, "limits", CgroupLimits)
    assert machine.machine_part().grade is Grade.OK


def test_a_gpu_that_torch_cannot_use_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "GPU_DRIVERS", (str(tmp_path),))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    part = machine.machine_part()
    assert part.grade is Grade.SLOW
    assert "a GPU driver is installed, but torch finds no GPU" in part.text
    with pytest.raises(UserError, match=r"no GPU was found here \(a driver is installed, but torch cannot use it"):
        check_room(spec(resources={"gpu_per_stack": 1}), hardware.detect(), None)


def test_packages_with_unsupported_versions_are_named() -> None:
    installed = {"torch": "2.9.1+cpu", "numpy": "2.4.0", "ray": "2.50.0"}
    requirements = ["torch>=2.10", "numpy<3,>=1.26", "ray[tune]<3,>=2.50", "pyte>=0.8; extra == 'test'", "scipy>=1.13"]
    assert machine.unmet(requirements, installed) == ["torch 2.9.1+cpu is not >=2.10", "scipy is missing"]
    part = machine.software()
    assert part.grade is not Grade.WRONG, part.text


@pytest.mark.parametrize(
    ("losses", "resumed", "grade", "words"),
    [
        ((1.0, 0.9), "same", Grade.WRONG, "falls from 1.00 to 0.90"),
        ((1.0, 0.5), "other", Grade.WRONG, "final weights differ"),
        ((1.0, 0.5), "same", Grade.OK, "final weights are identical"),
    ],
)
def test_a_stack_that_does_not_learn_or_resumes_inexactly_is_wrong(
    losses: tuple[float, ...],
    resumed: str,
    grade: Grade,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trained(*given: object, **options: object) -> SmallTraining:
        return SmallTraining(losses, resumed if options.get("resumed") else "same")

    monkeypatch.setattr(machine, "apart", trained)
    monkeypatch.setattr(machine, "missing", tuple)  # The compiled step of a checkout may be older than its source.
    part = machine.training(tmp_path)
    assert (part.grade, words in part.text) == (grade, True)


@pytest.mark.night
def test_the_gpu_checks_pass_with_a_cpu_in_place_of_a_gpu(tmp_path: Path) -> None:
    assert gpu.compiling(tmp_path, "cpu").text.startswith("6 kinds of steps are compiled in ")
    assert gpu.two_processes(tmp_path, "cpu", gpu_share=1.0).grade is Grade.OK
    part = gpu.side_by_side(tmp_path, "cpu")
    assert part.grade is Grade.OK, part.text
    assert part.text.startswith("differences from the losses on the CPU: 37 float32 0, 37 bf16 ")
    assert "64 float32 0, 64 bf16 0.0" in part.text


def test_without_mlflow_a_machine_is_slow_and_not_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = list(metadata.distributions())
    without = [package for package in installed if not package.metadata["Name"].startswith("mlflow")]
    assert len(without) < len(installed)
    monkeypatch.setattr(metadata, "distributions", lambda: without)
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    assert machine.software().grade is not Grade.WRONG
    part = machine.record(tmp_path)
    assert part.grade is Grade.SLOW
    assert "sync" in part.todo


@pytest.mark.parametrize("name", ["multiprocessing", "pickle"])
def test_a_process_of_its_own_imports_nothing_from_the_working_directory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    assert machine.apart(math.gcd, 4, 6) == 2
    assert not (tmp_path / "marker").exists()
    assert "PYTHONSAFEPATH" not in os.environ


def test_parallel_checks_keep_their_order() -> None:
    meeting = threading.Barrier(2, timeout=30)

    def meet(name: str) -> CheckResult:
        meeting.wait()
        return ok(name)

    def broken() -> CheckResult:
        raise OSError("no cable")

    checks = machine.at_once([("left", lambda: meet("left")), ("right", lambda: meet("right")), ("cable", broken)])
    assert [(result.name, result.text) for result in examined(checks)] == [
        ("left", "left"),
        ("right", "right"),
        ("cable", "OSError: no cable"),
    ]


def test_links_pipes_and_foreign_names_in_a_home_are_named(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    sweep = write_sweep(home, spec(sizes=[8], seeds=1))
    assert machine.files_of_home(home.root).grade is Grade.OK
    (sweep.files.directory / "notes").symlink_to("/etc/passwd")
    result = machine.files_of_home(home.root)
    assert (result.grade, f"{sweep.files.directory / 'notes'} is a link" in result.text) == (Grade.WRONG, True)
    (sweep.files.directory / "notes").unlink()
    os.mkfifo(home.runs / "pipe")
    assert "is a pipe, socket or device" in machine.files_of_home(home.root).text
    (home.runs / "pipe").unlink()
    (home.root / "sweeps" / "\x1b[2J").mkdir()
    assert "has a name that no sweep has" in machine.files_of_home(home.root).text


def test_unreadable_sweeps_and_homes_that_others_can_write_are_named(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    sweep = write_sweep(home, spec(sizes=[8], seeds=1))
    sweep.files.spec.write_text("no: [space")
    result = machine.files_of_home(home.root)
    assert (result.grade, "not valid YAML" in result.text) == (Grade.SLOW, True)
    home.root.chmod(0o777)
    assert f"other users can write {home.root}" in machine.files_of_home(home.root).text


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_nothing_is_trained_in_a_home_that_others_can_write(mode: int, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(mode)
    assert machine.place_of_tests(home) != home
    assert stat.S_IMODE(machine.place_of_tests(home).stat().st_mode) == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to another user")
@pytest.mark.parametrize("owner", [65534, 12345])
def test_nothing_is_tried_in_a_home_of_another_user(owner: int, tmp_path: Path) -> None:
    """They could put a link in the place of what is written there."""
    home = tmp_path / "home"
    home.mkdir()
    assert machine.place_of_tests(home) == home
    os.chown(home, owner, owner)
    assert machine.place_of_tests(home).stat().st_uid == 0
    for check in (machine.home_directory, machine.record):
        assert "not in your list" in check(home).text
    assert list(home.iterdir()) == []
    trust_home(home)
    assert machine.place_of_tests(home) != home
    with pytest.raises(StoreError, match="belongs to another user"):
        machine.record(home)
    assert [path.name for path in home.iterdir()] == [HOME_ID_FILE]
