"""Pairs that several sweeps share count once when the sweeps are compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.catalog.export import compared
from orchestrator.catalog.reading import StoredSweep, read_sweep
from orchestrator.home.directories import Home
from orchestrator.report.side_by_side import comparison_sentences
from orchestrator.site.pages import SweepPages
from tests.catalog.fabricated import write_sweep
from tests.cli.program import Program
from tests.sweep.sweeps import run_here, spec

PAIRS = {"search": {"method": "pairs"}, "seeds": 4}


@pytest.fixture(name="extended", scope="module")
def sweep_and_its_extension(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    home = tmp_path_factory.mktemp("home")
    run_here(spec(**PAIRS), home)
    [first] = Home(home).sweep_ids()
    run_here(spec(**PAIRS | {"seeds": 8}), home, extend=first)
    return home, first, Home(home).sweep_ids()[0]


@pytest.fixture(name="sweeps")
def stored_sweeps(extended: tuple[Path, str, str]) -> list[StoredSweep]:
    home, *ids = extended
    return [read_sweep(Home(home), sweep_id) for sweep_id in ids]


def test_a_sweep_and_its_extension_count_once(extended: tuple[Path, str, str], run: Program) -> None:
    home, first, second = extended
    pages = SweepPages(Home(home))
    for words in ((first, second), (second, first)):
        for text in (run("compare", *words, "--home", home).succeeded(), pages.compare(words)):
            assert "of 1 sweep." in text
            assert "of 2 sweeps" not in text
            assert "is not counted for add+prod" in text


def test_the_same_pairs_count_once_whichever_is_named_first(sweeps: list[StoredSweep]) -> None:
    entries = compared(sweeps)
    twins = [entries[1], replace(entries[1], label="twin")]
    sentences = comparison_sentences(twins, "sweep")
    assert len(sentences) == 2
    assert sentences[0].endswith("of 1 sweep.")
    assert sentences[1].startswith("twin is not counted")


def test_sweeps_with_pairs_of_their_own_all_count(sweeps: list[StoredSweep]) -> None:
    one, two = compared(sweeps)
    own = {"add+prod": frozenset({("only", "here")})}
    [sentence] = comparison_sentences([replace(one, pairs=own), two], "sweep")
    assert sentence.endswith("of 2 sweeps.")


@pytest.mark.parametrize("more", [0, 4], ids=["the same pairs", "more pairs"])
def test_a_sweep_of_ones_own_counts_before_an_imported_one(more: int, tmp_path: Path, run: Program) -> None:
    """The author of an archive may have copied its pairs, and added others."""
    home = Home(tmp_path)
    own = write_sweep(home, spec(**PAIRS))
    theirs = write_sweep(home, spec(**PAIRS | {"seeds": 4 + more}))
    theirs.files.imported.touch()
    for words in ((own.id, theirs.id), (theirs.id, own.id)):
        text = " ".join(run("compare", *words, "--home", home.root).succeeded().split())
        assert text.count("is not counted") == (0 if more else 1)
        assert f" of {2 if more else 1} sweep" in text
        because = "logistic, imported is not counted for add+prod, because logistic has all of its pairs."
        assert (because in text) is (more == 0)


def test_an_imported_sweep_that_another_imported_one_extends_counts_once(sweeps: list[StoredSweep]) -> None:
    first, extension = (replace(entry, is_imported=True) for entry in compared(sweeps))
    [sentence, repeated] = comparison_sentences([first, extension], "sweep")
    assert sentence.endswith("of 1 sweep.")
    assert repeated.startswith(f"{first.label} is not counted")
