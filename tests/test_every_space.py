"""Every shipped search space, from its file to its rows in the results, with real sweeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.catalog.reading import space_of, variant_of
from orchestrator.home.directories import Home
from orchestrator.space.expectations import LAW_FINDINGS, expectations_of
from orchestrator.space.spaces import names, open_space, variant_names
from tests.cli.program import command

pytestmark = pytest.mark.usefixtures("workplace")

CONTROL = ("shuffled_add", "relabelled")
"""A variant without expectations."""
FEW = ("--profile", "smoke", "--set", "seeds=1")


def spaces_with_statements() -> list[str]:
    """Return the search spaces with expectations."""
    spaces = [
        name
        for name in names()
        if open_space(name).files[0].data.get("expects") and "smoke" in open_space(name).profiles
    ]
    assert len(spaces) >= 10
    return spaces


def few(name: str) -> tuple[str, ...]:
    """Return the fewest variants that decide a space's statements: the first one, or all if a statement is about all
    of them; ``""`` for a space without variants."""
    variants = variant_names(name, "smoke") or ("",)
    statements = expectations_of(open_space(name).files[0])
    return variants if any(statement.finds in LAW_FINDINGS for statement in statements) else variants[:1]


def swept() -> set[tuple[str, str]]:
    """Return spaces and variants with a sweep."""
    return {(space_of(sweep_id), variant_of(sweep_id)) for sweep_id in Home(Path("results")).sweep_ids()}


def rows() -> list[tuple[str, str, str]]:
    """Return experiment, subject and verdict of each row."""
    [table] = Path("results", "reproduce").glob("smoke*/table.md")
    text = table.read_text()
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [(row[0], row[1], row[-1]) for row in cells[2:]]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_smoke_profile_gives_its_rows() -> None:
    """Where possible a single variant stands for all, because variants differ only in a setting or two."""
    wanted = {(name, variant) for name in spaces_with_statements() for variant in few(name)}
    whole = [name for name in spaces_with_statements() if few(name) == (variant_names(name, "smoke") or ("",))]
    command("run", *whole, *FEW, "--engine=local", "--quiet").succeeded()
    for name, variant in sorted(wanted):
        if name not in whole:
            command("run", name, "--variant", variant, *FEW, "--engine=local", "--quiet").succeeded()
    assert swept() == wanted
    command("reproduce", *FEW, "--only-table").succeeded()
    assert {space for space, _, _ in rows()} == set(spaces_with_statements())
    judged = [(space, about) for space, about, verdict in rows() if verdict != "not run"]
    for name, variant in swept():  # A law is about all variants together.
        assert any(space == name and (variant in about or "(" not in about) for space, about in judged), (name, variant)


@pytest.mark.night
@pytest.mark.timeout(1500)
def test_every_variant_of_every_smoke_profile_gives_its_rows() -> None:
    command("reproduce", "--profile", "smoke", "--engine=local").succeeded()
    wanted = {(name, variant) for name in spaces_with_statements() for variant in variant_names(name, "smoke") or ("",)}
    assert swept() <= wanted
    assert wanted - swept() == {CONTROL}
    assert {space for space, _, _ in rows()} == set(spaces_with_statements())
    assert "not run" not in {verdict for _, _, verdict in rows()}
