"""Every search space that comes with the project, from its file to its rows among the results, for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.catalogue.lookup import space_of, variant_of
from orchestrator.home.files import Home
from orchestrator.space.expected import LAW, expectations_of
from orchestrator.space.files import names
from orchestrator.space.spaces import open_space, variant_names
from tests.cli.program import command

CONTROL = ("shuffled_add", "relabelled")
"""A variant of which nothing is expected."""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def asked() -> list[str]:
    """The search spaces of which anything is expected."""
    found = [name for name in names() if open_space(name).files[0].expects and "smoke" in open_space(name).profiles]
    assert len(found) >= 10
    return found


def few(name: str) -> tuple[str, ...]:
    """The variants without which nothing can be said of a space: the first, and all where something is expected of all
    together; ``""`` of a space without variants."""
    variants = variant_names(name, "smoke") or ("",)
    return variants if any(each.finds in LAW for each in expectations_of(open_space(name).files[0])) else variants[:1]


def swept() -> set[tuple[str, str]]:
    """Spaces and variants with a sweep."""
    return {(space_of(each), variant_of(each)) for each in Home(Path("results")).sweep_ids()}


def rows() -> list[tuple[str, str, str]]:
    """Experiment, what a row is about, and verdict."""
    text = Path("results", "reproduce", "smoke", "table.md").read_text()
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [(row[0], row[1], row[-1]) for row in cells[2:]]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_smoke_profile_ends_in_its_rows() -> None:
    """Of a space with variants one stands for all where that can be: they differ in a setting or two."""
    wanted = {(name, variant) for name in asked() for variant in few(name)}
    for name, variant in sorted(wanted):
        of = ("--variant", variant) if variant else ()
        ended = command("run", name, *of, "--profile", "smoke", "--engine=local", "--quiet")
        assert ended.code == 0, ended.err
    assert swept() == wanted
    ended = command("reproduce", "--profile", "smoke", "--budget", "0s")
    assert ended.code == 0, ended.err
    assert {space for space, _, _ in rows()} == set(asked())
    judged = [(space, about) for space, about, verdict in rows() if verdict != "not run"]
    for name, variant in swept():  # A law is about all variants together.
        assert any(space == name and (variant in about or "(" not in about) for space, about in judged), (name, variant)


@pytest.mark.night
@pytest.mark.timeout(1500)
def test_every_variant_of_every_smoke_profile_ends_in_its_rows() -> None:
    ended = command("reproduce", "--profile", "smoke", "--engine=local")
    assert ended.code == 0, ended.err
    wanted = {(name, variant) for name in asked() for variant in variant_names(name, "smoke") or ("",)}
    assert swept() <= wanted
    assert wanted - swept() == {CONTROL}
    assert {space for space, _, _ in rows()} == set(asked())
    assert "not run" not in {verdict for _, _, verdict in rows()}
