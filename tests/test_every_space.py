"""Every search space that comes with the project, from its file to its rows among the results, for real."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from orchestrator.catalogue.lookup import space_of, variant_of
from orchestrator.space.files import names
from orchestrator.space.spaces import open_space, variant_names
from orchestrator.store.files import Home
from tests.test_outside_family import command


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_every_smoke_profile_ends_in_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    ended = command("reproduce", "--profile", "smoke", "--local-debug")
    assert ended.code == 0, ended.err
    home = Home(tmp_path / "results")
    asked = [name for name in names() if open_space(name).files[0].expects and "smoke" in open_space(name).profiles]
    assert len(asked) >= 10
    wanted = {(name, variant) for name in asked for variant in variant_names(name, "smoke") or ("",)}
    run = {(space_of(each), variant_of(each)) for each in home.sweep_ids()}
    assert run <= wanted
    assert wanted - run == {("shuffled_add", "relabelled")}  # A control, of which nothing is expected.
    with (home.root / "reproduce" / "smoke" / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["experiment"] for row in rows} == set(asked)
    assert "not run" not in {row["verdict"] for row in rows}
