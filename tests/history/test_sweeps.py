"""Sweeps in a home: their order, and reading them when files are damaged or the family now refuses them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.api import load, sweeps
from orchestrator.catalog.reading import StoredSweep, read_known
from orchestrator.history.sweeps import UnreadableError, create_sweep
from orchestrator.home.directories import Home
from tests.catalog.fabricated import write_sweep
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


def test_sweeps_created_in_the_same_second_are_ordered_newest_first(tmp_path: Path) -> None:
    home = Home(tmp_path)
    begun = [create_sweep(spec(name=name), home).id for name in ("b", "a", "c", "a", "b", "a")]
    assert home.sweep_ids() == begun[::-1]
    (tmp_path / "sweeps" / "photo.png").write_bytes(b"PNG")
    for other in (".hidden", "zebra-from-the-zoo"):  # Not sweeps.
        (tmp_path / "sweeps" / other).mkdir()
    assert home.sweep_ids() == begun[::-1]
    assert all(re.fullmatch(r"[abc]-\d{8}-\d{6}-[0-9a-f]{4}", item) for item in begun)
