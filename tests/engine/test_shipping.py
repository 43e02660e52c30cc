"""Folders of a user's code that travel to the nodes of a cluster: what is packed, what stays, and what is refused."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.engine import shipping
from orchestrator.engine.shipping import NOTHING, Shipment, pack
from orchestrator.space.spaces import load_space
from orchestrator.system.errors import UserError
from tests.cli.program import Program
from tests.sweep.sweeps import run_here, spec
from trainables.contract.user_code import offer
from trainables.families import load_family

MODULE = "from tests.families import LogisticFamily\n\nclass Mine(LogisticFamily):\n    name = 'mine'\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a family, with what must not leave the machine."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    root = tmp_path / "mine"
    written = {
        "shipped_models.py": MODULE,
        "shipped_parts/layers.py": "WIDTH = 3\n",
        "shipped_parts/table.csv": "1,2\n",
        ".env": "SECRET=1\n",
        ".git/config": "[remote]\n",
        "shipped_parts/.hidden": "x",
        "__pycache__/shipped_models.cpython-311.pyc": "x",
        "venv/pyvenv.cfg": "home = /usr/bin\n",
        "venv/lib/big.py": "x",
        "results/runs/one": "x",
    }
    for name, text in written.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (tmp_path / "secret").write_text("SECRET=1\n")
    (root / "linked").symlink_to(tmp_path / "secret")
    offer([str(root)])
    load_family("shipped_models:Mine")
    yield root
    for name in [name for name in sys.modules if name.startswith("shipped_")]:
        del sys.modules[name]


def names(shipment: Shipment) -> list[str]:
    return sorted(name for files in shipment.folders for name in files)


def test_the_folder_of_a_family_is_packed_without_secrets_and_results(folder: Path) -> None:
    packed = pack(("shipped_models:Mine", "shipped_models:Probe", "similarity"), leave_out=folder / "results")
    assert names(packed) == ["shipped_models.py", "shipped_parts/layers.py", "shipped_parts/table.csv"]
    assert packed.folders[0]["shipped_parts/table.csv"] == b"1,2\n"
    assert str(folder) in packed.description
    assert "3 files" in packed.description
    assert ".env" in packed.description


def test_a_node_unpacks_a_folder_once_and_keeps_what_is_in_use(folder: Path) -> None:
    packed = pack(("shipped_models:Mine",), leave_out=folder / "results")
    [first] = packed.unpack()
    assert (first / "shipped_models.py").read_text() == MODULE
    assert sorted(path.name for path in first.rglob("*") if path.is_file()) == [
        "layers.py",
        "shipped_models.py",
        "table.csv",
    ]
    assert first.parent.stat().st_mode & 0o077 == 0
    changed = (first / "shipped_models.py").stat().st_mtime_ns
    assert packed.unpack() == [first]
    assert (first / "shipped_models.py").stat().st_mtime_ns == changed
    (folder / "shipped_models.py").write_text(MODULE + "# other\n")
    old = time.time() - 2 * shipping.KEPT_S
    os.utime(first, (old, old))
    [second] = pack(("shipped_models:Mine",), leave_out=folder / "results").unpack()
    assert second != first
    assert not first.exists()
    assert NOTHING.unpack() == []


def test_a_folder_that_is_too_large_is_refused_with_its_largest_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        with open(folder / f"data{number}.bin", "wb") as file:
            file.truncate(shipping.LARGEST_SHIPMENT // 10 * (number + 1))
    with pytest.raises(UserError, match="more than 50 MB") as refused:
        pack(("shipped_models:Mine",), leave_out=folder / "results")
    assert "data6.bin (35 MB), data5.bin (30 MB)" in str(refused.value)
    assert "data1.bin" not in str(refused.value)
    monkeypatch.setattr(shipping, "MOST_FILES", 5)
    with pytest.raises(UserError, match="more than 5 files"):
        pack(("shipped_models:Mine",), leave_out=folder / "results")


@pytest.mark.parametrize(("name", "why"), [("listops", "part of this program"), ("numpy:ndarray", "numpy is an inst")])
def test_code_that_every_node_has_is_not_shipped(name: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        pack((name,), leave_out=Path("results"))


def test_code_that_is_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "shipped_models.py").rename(tmp_path / "moved.py")
    (folder / "shipped_models.py").symlink_to(tmp_path / "moved.py")
    with pytest.raises(UserError, match=rf"{folder}/shipped_models\.py is a link, and links are not shipped"):
        pack(("shipped_models:Mine",), leave_out=folder / "results")


def test_ship_needs_a_cluster(run: Program, tmp_path: Path) -> None:
    assert "name it with --address" in run("run", "add_vs_add_prod", "--ship", "--home", tmp_path / "home").refused()


@pytest.mark.parametrize(
    ("family", "message"),
    [
        ("tests.families:LogisticFamily", "has more than 3 files"),
        ("shipped_models:Mine", r"has 60 MB, more than 50 MB. Its largest files are data.bin \(60 MB\)"),
    ],
)
def test_a_refusal_leaves_no_home(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, family: str, message: str
) -> None:
    with open(folder / "data.bin", "wb") as file:
        file.truncate(60_000_000)
    monkeypatch.setattr(shipping, "MOST_FILES", 3 if family.startswith("tests") else 1000)
    with pytest.raises(UserError, match=message):
        run_here(spec(family=family), tmp_path / "home", engine="ray", address="127.0.0.1:1", ship=True)
    assert not (tmp_path / "home").exists()


def test_a_script_is_not_shipped(tmp_path: Path) -> None:
    space = tmp_path / "script.yaml"
    space.write_text(
        "question: Q?\nscript: {command: [python, train.py, '{size}'], metrics: {step: s, accuracy: a}}\n"
        "floor: 0.1\ntarget: task\nmixes: [task]\nsizes: [1, 2]\nseeds: 1\nsettings: {steps: 3}\n"
    )
    with pytest.raises(UserError, match="cannot ship a script"):
        run_here(load_space(str(space)), tmp_path / "home", engine="ray", address="127.0.0.1:1", ship=True)
