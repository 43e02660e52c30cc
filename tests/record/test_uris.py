"""Homes with any name have their own record in their own files."""

from __future__ import annotations

import shutil
import string
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mlflow import MlflowClient
from sqlalchemy.engine import make_url

from orchestrator.record.store import DATABASE, check, choose, sqlite_path, sqlite_uri

NAMES = st.text(st.sampled_from(string.printable.replace("/", "") + "é"), min_size=1, max_size=12)


@given(NAMES)
@example("job_feature%2Fx")
@example("a?b")
@example("%")
def test_the_uri_of_a_path_is_parsed_back_to_that_path(name: str) -> None:
    path = Path("/data") / name / DATABASE
    uri = sqlite_uri(path)
    assert make_url(uri).database == str(path)
    assert sqlite_path(uri) == path
    # MLflow creates the parent of this text, which must be the home or the existing working directory.
    assert Path(uri.removeprefix("sqlite:///")).parent in (path.parent, Path())


@pytest.mark.parametrize("name", ["job_feature%2Fx", "a?b", "é;&=@[x]:\\'\"%#"])
def test_a_home_contains_its_runs_and_artifacts(
    name: str, empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    home = tmp_path / "homes" / name
    home.mkdir(parents=True)
    shutil.copyfile(empty, home / DATABASE)
    store = choose(home, {})
    check(store)
    client = MlflowClient(store.uri)
    run_id = client.create_run(client.create_experiment("ours", store.location_of("ours"))).info.run_id
    client.log_text(run_id, "answer", "answer.txt")
    assert (home / "artifacts" / "ours" / run_id / "artifacts" / "answer.txt").read_text() == "answer"
    assert [path.name for path in home.parent.iterdir()] == [name]
    assert list((tmp_path / "here").iterdir()) == []
