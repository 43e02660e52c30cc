"""Another analysis of runs whose outcomes are known has its odds divided by the number of analyses."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.catalog.answer_file import answer_text, read_answer
from orchestrator.catalog.reading import StoredSweep, read_sweep
from orchestrator.catalog.verified_answer import check
from orchestrator.history import earlier_looks
from orchestrator.history.export_archive import export_home
from orchestrator.history.import_archive import import_home
from orchestrator.home.directories import Home
from orchestrator.report.answer import Answer
from orchestrator.report.sentences.findings import conditions
from orchestrator.space.comparisons import comparisons
from orchestrator.space.parsing import InvalidDataError
from orchestrator.space.spec import SweepSpec
from tests.cli.program import command
from tests.sweep.sweeps import FAMILY, printed, quiet, run_here, spec

HALVED = "An earlier sweep has compared some of these runs of add+prod and add, so the odds are divided by 2"


def asked(*, search: dict[str, object] | None = None, **changes: object) -> SweepSpec:
    """Return a small space whose comparison is made by pairs."""
    limits: dict[str, object] = {"method": "pairs", "aim": "decide", "max_runs": 6}
    return spec(sizes=[16, 24, 32, 48], seeds=4, search=limits | (search or {}), **changes)


def wider(search: dict[str, object] | None = None) -> SweepSpec:
    """Return the same space with more seeds."""
    limits: dict[str, object] = {"method": "pairs", "aim": "decide", "max_runs": 12}
    return spec(sizes=[16, 24, 32, 48], seeds=6, search=limits | (search or {}))


def comparison(answer: Answer) -> Any:
    return answer.mix("add+prod").comparison


def newest(home: Path) -> StoredSweep:
    return read_sweep(Home(home), None)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"sizes": [24, 32, 48]}, "sizes"),
        ({"seeds": 6}, "seeds"),
        ({"search": {"learned": 0.6}}, "bar"),
        ({"search": {"error": 0.01}}, "error"),
    ],
)
def test_another_test_of_known_runs_has_half_the_odds(change: dict[str, Any], what: str, tmp_path: Path) -> None:
    search = {"method": "pairs", "aim": "decide", "max_runs": 6}
    first = asked()
    run_here(first, tmp_path)
    console = quiet()
    fields = {"sizes": [16, 24, 32, 48], "seeds": 4} | change | {"search": search | change.get("search", {})}
    result = run_here(spec(**fields), tmp_path, console=console)
    [earlier] = [one for one in Home(tmp_path).sweep_ids() if one != newest(tmp_path).id]
    assert f"{HALVED} ({earlier})" in printed(console), what
    assert f"{HALVED}." in conditions(result), what
    stored = newest(tmp_path)
    whole = comparisons(stored.spec.substitute(looks={}), stored.blocks, stored.runs)["add+prod"]
    assert comparison(result).looks == 1
    assert math.isclose(comparison(result).evidence, whole.evidence / 2)
    assert math.isclose(comparison(result).highest, whole.highest / 2)


def test_a_third_test_has_a_third_of_the_odds_and_a_repeated_test_keeps_its_own(tmp_path: Path) -> None:
    looks = []
    for learned in (0.8, 0.6, 0.7, 0.6, 0.8):
        looks.append(comparison(run_here(asked(search={"learned": learned}), tmp_path)).looks)
    assert looks == [0, 1, 2, 1, 0]


@pytest.mark.parametrize(
    "change",
    [
        {"search": {"max_runs": 8}},
        {"search": {"max_cost": 1000.0}},
        {"search": {"aim": "locate"}},
        {"seed": 100},
        {"settings": {"haste": 0.3}},
        {"question": "Another way to say it?", "name": "other"},
    ],
)
def test_a_test_of_other_runs_and_the_same_test_with_other_limits_have_all_their_odds(
    change: dict[str, Any], tmp_path: Path
) -> None:
    run_here(asked(), tmp_path)
    assert comparison(run_here(asked(**change), tmp_path)).looks == 0


def test_runs_of_a_fresh_sweep_were_not_seen(tmp_path: Path) -> None:
    run_here(asked(), tmp_path)
    assert comparison(run_here(asked(search={"learned": 0.6}), tmp_path, fresh=True)).looks == 0
    assert comparison(run_here(asked(search={"learned": 0.7}), tmp_path)).looks == 1


def test_a_search_without_pairs_and_a_sweep_about_another_task_are_no_analyses(tmp_path: Path) -> None:
    run_here(spec(sizes=[16, 24, 32, 48], seeds=4, search={"method": "bisection"}), tmp_path)
    run_here(asked(target="prod", mixes=["prod", "add+prod"]), tmp_path)
    assert comparison(run_here(asked(), tmp_path)).looks == 0


def test_an_extended_sweep_continues_its_test(tmp_path: Path) -> None:
    run_here(asked(), tmp_path)
    first = newest(tmp_path).id
    assert comparison(run_here(wider(), tmp_path, extend=first)).looks == 0
    # Both together have made one test.
    assert comparison(run_here(asked(search={"learned": 0.6}), tmp_path)).looks == 1
    # A continued test keeps the divisor with which it began.
    divided = newest(tmp_path).id
    extended = run_here(wider({"learned": 0.6}), tmp_path, extend=divided)
    assert comparison(extended).looks == 1


def test_sweeps_with_too_many_pairs_to_compare_count_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive may bring thousands."""
    run_here(asked(), tmp_path)
    run_here(wider(), tmp_path, extend=newest(tmp_path).id)
    monkeypatch.setattr(earlier_looks, "MOST_BLOCKS_COMPARED", 1)
    assert comparison(run_here(asked(search={"learned": 0.6}), tmp_path)).looks == 2


def test_the_count_is_the_sweeps_own_and_stays_when_earlier_sweeps_are_removed(tmp_path: Path) -> None:
    run_here(asked(), tmp_path)
    first = newest(tmp_path).id
    run_here(asked(search={"learned": 0.6}), tmp_path)
    second = newest(tmp_path).id
    assert command("rm", first, "--yes", "--home", tmp_path).code == 0
    assert comparison(newest(tmp_path).answer).looks == 1
    assert HALVED in command("explain", second, "--home", tmp_path).out.replace("\n", " ")
    # Nobody can see any more what the first analysis was, but the second still counts itself.
    assert comparison(run_here(asked(search={"learned": 0.7}), tmp_path)).looks == 1


def test_a_file_for_others_has_the_count_and_cannot_leave_it_out(tmp_path: Path) -> None:
    run_here(asked(), tmp_path)
    run_here(asked(search={"learned": 0.6}), tmp_path)
    text = answer_text(newest(tmp_path))
    file = tmp_path / "answer.json"
    file.write_text(text)
    assert check(read_answer(file), [FAMILY]).differences == ()
    assert text.count('"looks": {"add+prod": 1}') == 1
    file.write_text(text.replace('"looks": {"add+prod": 1}', '"looks": {}'))
    assert any(HALVED in line for line in check(read_answer(file), [FAMILY]).differences)


@pytest.mark.parametrize(
    ("looks", "says"),
    [
        ({"add+prod": 0}, "greater than or equal to 1"),
        ({"add+prod": -3}, "greater than or equal to 1"),
        ({"add+prod": 10**9}, "less than or equal to 1000"),
        ({"add+prod": 0.5}, "valid integer"),
        ({"add+max": 1}, "add+max"),
    ],
)
def test_a_wrong_count_in_a_file_is_refused(looks: dict[str, Any], says: str) -> None:
    with pytest.raises((InvalidDataError, ValueError), match=says.replace("+", r"\+")):
        asked(looks=looks)


def lose_journal(path: Path) -> None:
    path.unlink()
    path.mkdir()


def leave_hole(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("damage", [leave_hole, lose_journal])
def test_a_sweep_that_cannot_be_read_does_not_stop_another(damage: Callable[[Path], None], tmp_path: Path) -> None:
    run_here(asked(), tmp_path)
    damage(Home(tmp_path).sweep(newest(tmp_path).id).journal)
    assert comparison(run_here(asked(search={"learned": 0.6}), tmp_path)).looks == 0


def test_a_sweep_whose_specification_is_no_mapping_counts_as_another_test(tmp_path: Path) -> None:
    run_here(asked(), tmp_path)
    Home(tmp_path).sweep(newest(tmp_path).id).spec.write_text("[]")
    assert comparison(run_here(asked(), tmp_path)).looks == 1


def test_a_sweep_whose_specification_was_changed_counts_as_another_test(tmp_path: Path) -> None:
    run_here(asked(), tmp_path)
    space = Home(tmp_path).sweep(newest(tmp_path).id).spec
    space.write_text(space.read_text() + "looks: {add+prod: many}\n")
    assert comparison(run_here(asked(), tmp_path)).looks == 1


def test_a_sweep_of_an_archive_does_not_take_a_division_back(tmp_path: Path) -> None:
    """The archive has the same test and counts no earlier looks."""
    own, theirs = tmp_path / "own", tmp_path / "theirs"
    run_here(asked(), own)
    first = run_here(wider(), own)
    assert comparison(first).looks == 1
    run_here(wider(), theirs)
    export_home(Home(theirs), tmp_path / "theirs.tar.gz")
    import_home(Home(own), tmp_path / "theirs.tar.gz", lambda line: None)
    again = comparison(run_here(wider(), own))
    assert again.looks >= 1
    assert again.evidence <= comparison(first).evidence


def test_repeating_a_sweep_of_an_archive_is_another_analysis(tmp_path: Path) -> None:
    run_here(asked(), tmp_path / "theirs")
    export_home(Home(tmp_path / "theirs"), tmp_path / "theirs.tar.gz")
    import_home(Home(tmp_path / "own"), tmp_path / "theirs.tar.gz", pytest.fail)
    assert comparison(run_here(asked(), tmp_path / "own")).looks == 1
