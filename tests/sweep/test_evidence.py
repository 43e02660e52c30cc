"""Evidence over the life of a sweep: blocks are journalled before their runs, and a resumed sweep continues them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.catalog.reading import read_sweep
from orchestrator.catalog.summary import summarize
from orchestrator.history.journal import Asked, Ended, read_journal, recall
from orchestrator.home.directories import Home
from orchestrator.report.sentences.explanation import how_sure
from orchestrator.report.sentences.findings import evidence_text
from orchestrator.search.base import requests_of
from orchestrator.search.reachable_pairs import Shortfall
from orchestrator.space.problem import searcher_of
from orchestrator.system.errors import UserError
from orchestrator.transition.evidence import Block, Direction
from tests.sweep.sweeps import ended, interrupt_after, only_sweep, printed, quiet, run_here, spec

pytestmark = pytest.mark.usefixtures("undrawn")

PAIRS = {"search": {"method": "pairs", "aim": "factor"}, "seeds": 4}


def blocks(home: Path, sweep_id: str = "") -> tuple[Block, ...]:
    return recall(Home(home).sweep(sweep_id) if sweep_id else only_sweep(home)).blocks


def swept(home: Path, **changes: object) -> str:
    """Run a sweep. Return its ID."""
    run_here(spec(**PAIRS | changes), home)
    return Home(home).sweep_ids()[0]


def test_a_block_is_journalled_before_its_runs_and_used_by_the_answer(tmp_path: Path) -> None:
    result = run_here(spec(**PAIRS), tmp_path)
    wanted_spec = set()
    for line in read_journal(only_sweep(tmp_path).journal):
        if isinstance(line, Asked):
            wanted_spec |= {run for block in line.blocks for run in requests_of(block)}
        elif isinstance(line, Ended):
            assert line.request in wanted_spec
    shown = result.mix("add+prod").comparison
    assert shown is not None
    assert shown.decided is Direction.MIX_AHEAD
    assert shown.pairs == len(blocks(tmp_path))


def test_a_resumed_sweep_requests_the_same_blocks_as_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept(tmp_path / "whole")
    interrupt_after(9, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path / "broken")
    before = blocks(tmp_path / "broken")
    run_here(spec(**PAIRS), tmp_path / "broken", resume="")
    after = blocks(tmp_path / "broken")
    assert after == blocks(tmp_path / "whole")
    assert 0 < len(before) < len(after)


def test_an_extension_continues_the_blocks_and_refuses_another_criterion(tmp_path: Path) -> None:
    first = swept(tmp_path, seeds=1)
    run_here(spec(**PAIRS), tmp_path, extend=first)
    second = Home(tmp_path).sweep_ids()[0]
    older, newer = blocks(tmp_path, first), blocks(tmp_path, second)
    assert newer[: len(older)] == older
    assert len(newer) > len(older)
    for name, value, before in (("learned", 0.7, "0.8"), ("error", 0.01, "0.05")):
        with pytest.raises(UserError, match=rf"search\.{name} is {value} but was {before} in logistic.*set seed=1000"):
            run_here(spec(seeds=4, search={"method": "pairs", name: value}), tmp_path, extend=first)


def test_an_extension_must_be_able_to_complete_the_pairs(tmp_path: Path) -> None:
    """Evidence counts up to the first incomplete pair: one that is never completed would end it unnoticed."""
    first = swept(tmp_path, seeds=2)
    paired = max(block.baseline_size for block in blocks(tmp_path, first))
    sizes = [size for size in spec().sizes if size != paired]
    for changes, lacks in (
        ({"sizes": sizes}, f"sizes must include {paired}: {first}"),
        ({"seeds": 1}, "seeds must include 1:"),
    ):
        with pytest.raises(UserError, match=lacks):
            run_here(spec(**PAIRS | changes), tmp_path, extend=first)
    assert Home(tmp_path).sweep_ids() == [first]


def test_old_blocks_outside_the_current_sizes_are_ignored() -> None:
    searcher = searcher_of(
        spec(**PAIRS), blocks=[Block("add+prod", "add", 10, 10, 0), Block("add+prod", "add", 8, 8, 77)]
    )
    assert searcher.ask(2)
    assert {run.size for run in searcher.pending} <= set(spec().sizes)


def test_a_comparison_that_can_not_be_decided_any_more_ends_the_sweep_and_says_so(tmp_path: Path) -> None:
    limits = {"search": {"method": "pairs", "aim": "decide", "max_runs": 7}, "sizes": [8, 12], "seeds": 20}
    console = quiet()
    result = run_here(spec(**limits), tmp_path, console=console)
    mix = result.mix("add+prod")
    assert mix.comparison is not None
    assert mix.comparison.decided is None
    assert mix.shortfall == Shortfall(4, 3)
    assert mix.runs == mix.comparison.pairs == 4
    takes = "it takes 4 more pairs that all agree, but the budget has room for at most 3."
    words = f"20:1 is out of reach for add+prod: {takes}"
    assert words in " ".join(printed(console).split())
    stored = read_sweep(Home(tmp_path), only_sweep(tmp_path).id)
    assert stored.answer == result
    assert words in str(how_sure(stored.answer)[0])
    assert words in summarize(stored).evidence
    assert run_here(spec(**limits), tmp_path, resume=stored.id) == result
    assert len(ended(tmp_path)) == 8


def test_a_budget_that_never_could_decide_is_used_and_says_so(tmp_path: Path) -> None:
    limits = {"search": {"method": "pairs", "aim": "decide"}, "sizes": [8], "seeds": 2}
    result = run_here(spec(**limits), tmp_path)
    assert [mix.runs for mix in result.mixes] == [2, 2]
    assert result.mix("add+prod").shortfall == Shortfall(4, 0, from_start=True)
    assert "it takes 4 more pairs that all agree, but the budget has room for none." in evidence_text(result)
