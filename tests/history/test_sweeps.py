"""Sweeps in a home: their order, and reading them when files are damaged or the family now refuses them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.api import load, sweeps
from orchestrator.catalog.reading import StoredSweep, read_known
from orchestrator.history.sweeps import UnreadableError, create_sweep, load_sweep
from orchestrator.home.directories import Home
from orchestrator.space import strict_yaml
from tests.catalog.fabricated import write_sweep
from tests.cli.program import command
from tests.families import LogisticSettings
from tests.sweep.sweeps import spec
from trainables.base import SettingsError


def test_a_sweep_whose_family_now_refuses_its_settings_reports_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    sweep = write_sweep(home)
    before = read_known(home, sweep.id)

    def refuse(settings: LogisticSettings) -> None:
        raise SettingsError("haste is no longer allowed", key="haste")

    monkeypatch.setattr(LogisticSettings, "__post_init__", refuse)
    after = read_known(home, sweep.id)
    assert isinstance(before, StoredSweep)
    assert isinstance(after, UnreadableError)
    assert "settings.haste: haste is no longer allowed" in str(after)


def test_python_reads_what_it_can_and_reports_the_rest(tmp_path: Path) -> None:
    home = Home(tmp_path)
    whole, torn, orphan, hurt = (write_sweep(home).id for _ in range(4))
    home.sweep(torn).spec.write_text("name: [")
    spec = home.sweep(orphan).spec
    spec.write_text(spec.read_text().replace("tests.families", "gone.away"))
    journal = home.sweep(hurt).journal
    journal.write_text(journal.read_text().replace('"kind":"ended"', '"kind":"eaten"', 1))
    listed = sweeps(tmp_path).set_index("sweep")
    readable = dict.fromkeys((whole, hurt), "finished")
    assert dict(listed["state"]) == readable | dict.fromkeys((torn, orphan), "unreadable")
    runs = len(load(whole, tmp_path).runs)
    assert dict(listed["runs"].dropna()) == {whole: runs, hurt: runs - 1}
    assert listed["unreadable"][whole] == ""
    assert "not valid YAML" in listed["unreadable"][torn]
    assert "no module named 'gone.away' was found" in listed["unreadable"][orphan]
    for sweep_id in (torn, orphan):
        with pytest.raises(UnreadableError, match=sweep_id):
            load(sweep_id, tmp_path)
    with pytest.warns(UserWarning, match="line 3, is damaged"):
        assert len(load(hurt, tmp_path).runs) == runs - 1


@pytest.mark.parametrize(
    ("mixes", "reason"),
    [
        (
            ["add", {"name": "z", "phases": [{"mix": "add"} for _ in range(1500)]}],
            "z: there are 1,500 phases; an arm may have at most 50",
        ),
        (
            ["add", "add+prod x1e308"],
            "the budget of add+prod x1e+308 is 1e+308; it must be a number from 1e-09 to 1e+09",
        ),
    ],
)
def test_a_sweep_with_an_absurd_arm_is_listed_as_unreadable_and_can_be_deleted(
    tmp_path: Path, mixes: list[object], reason: str
) -> None:
    home = Home(tmp_path)
    whole, absurd = (write_sweep(home, runs=()).id for _ in range(2))
    files = home.sweep(absurd)
    written = strict_yaml.read(files.spec.read_text(), "space.yaml").data
    files.spec.write_text(strict_yaml.write(written | {"mixes": mixes}))
    listed = command("sweeps", "--home", tmp_path).succeeded()
    assert f"unreadable: {absurd}" in listed
    assert reason in " ".join(listed.split())
    assert whole in listed
    assert f"deleted {absurd}" in command("rm", absurd, "--yes", "--home", tmp_path).succeeded()
    assert home.sweep_ids() == [whole]


@pytest.mark.parametrize("key", ["name", "variant"])
def test_a_sweep_of_another_space_than_its_id_says_is_unreadable(tmp_path: Path, key: str) -> None:
    """Its record would go to the experiment of the other space."""
    home = Home(tmp_path)
    sweep = write_sweep(home, runs=())
    files = home.sweep(sweep.id)
    written = strict_yaml.read(files.spec.read_text(), "space.yaml").data
    files.spec.write_text(strict_yaml.write(written | {key: "others"}))
    after = read_known(home, sweep.id)
    assert isinstance(after, UnreadableError)
    other = "others" if key == "name" else f"{written['name']}-others"
    assert f"it is the space {other}, which the id of the sweep does not name" in str(after)


def test_a_sweep_whose_family_cannot_compute_with_its_settings_is_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    sweep = write_sweep(home, runs=())

    def divide(settings: LogisticSettings) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(LogisticSettings, "__post_init__", divide)
    with pytest.raises(UnreadableError, match=r"cannot be used: division by zero"):
        load_sweep(home, sweep.id)


def test_sweeps_created_in_the_same_second_are_ordered_newest_first(tmp_path: Path) -> None:
    home = Home(tmp_path)
    begun = [create_sweep(spec(name=name), home).id for name in ("b", "a", "c", "a", "b", "a")]
    assert home.sweep_ids() == begun[::-1]
    (tmp_path / "sweeps" / "photo.png").write_bytes(b"PNG")
    for other in (".hidden", "zebra-from-the-zoo"):  # Not sweeps.
        (tmp_path / "sweeps" / other).mkdir()
    assert home.sweep_ids() == begun[::-1]
    assert all(re.fullmatch(r"[abc]-\d{8}-\d{6}-[0-9a-f]{4}", item) for item in begun)
