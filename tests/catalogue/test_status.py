"""How far a sweep is: numbers, words and the table of them."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from orchestrator.catalogue.listings import run_view, status_view, sweeps_view
from orchestrator.catalogue.reading import find_run, read_sweep
from orchestrator.catalogue.status import status_of
from orchestrator.cost import cost_of, run_seconds
from orchestrator.home.files import Home
from orchestrator.home.sweeps import RunRecord
from orchestrator.report.rows import targets
from orchestrator.report.words.explanation import explain
from orchestrator.report.words.findings import sentences
from orchestrator.search.base import Request
from tests.catalogue.fabricated import diverged, failed, leave_stack, outcome_of, runs_of, write_sweep
from tests.sweep.sweeps import spec


def shown(view: RenderableType, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_finished_sweep_says_what_it_found_and_what_it_saved(tmp_path: Path) -> None:
    home = Home(tmp_path)
    asked = spec()
    runs = [run for run in runs_of(asked) if run.size in (16, 24, 48, 64)]
    status = status_of(read_sweep(home, write_sweep(home, asked, runs=runs).id))
    add, mixed = status.mixes
    assert (add.done, add.learned, mixed.done, mixed.learned) == (8, 3, 8, 6)
    assert add.verdict == "found"
    assert (add.left, add.training) == (None, 0)
    # Seconds are a tenth of the size, so the grid is known exactly: 300 units, 2 mixes, 2 seeds.
    assert status.cost.spent_s == pytest.approx(4 * (16 + 24 + 48 + 64) / 10)
    assert status.cost.grid_s == pytest.approx(4 * 300 / 10)
    text = shown(status_view(status))
    assert add.transition in text
    assert "finished, begun 20" in text
    # The bar of what is known: sizes that fail, where the transition may lie, sizes that learn.
    assert re.search(r"add +·+[▁-█░]+━* ", text)
    assert "▁ to █ how probable the transition is there" in text
    assert "units where accuracy of add is 80% of its asymptote, with 90% intervals" in text
    assert "how probable" not in shown(status_view(status, width=80)), "there is no bar to read"
    censored = replace(status, mixes=(replace(add, parameters="11.7 [below 9, 17.5]"), mixed))
    assert "11.7 [below 9, 17.5]" in shown(status_view(censored)), "no markup of rich's"
    assert sum(add.posterior) == pytest.approx(1)
    assert len(add.posterior) == len(status.sizes) + 1
    assert "1 min 01 s of training in 16 runs; the whole grid: about 2 min 00 s in 32 runs, 2.0 times as much" in text


def test_a_running_sweep_shows_what_trains_and_what_is_left(tmp_path: Path) -> None:
    home = Home(tmp_path)
    runs = runs_of(spec())
    sweep = write_sweep(home, runs=runs[:2], answered=False)
    (key,) = leave_stack(home, sweep, [runs[4]], evaluations=3)
    with home.sweep(sweep.id).driving():
        stored = read_sweep(home, sweep.id)
        status = status_of(stored)
        assert status.mixes[0].training == 1
        assert status.mixes[0].left
        text = shown(status_view(status))
        assert "running, begun" in text
        assert f"training {key}: add 16 seed 0: step 3, 0.30" in text
        assert "training" in shown(run_view(*find_run(home, key)))
    assert "`run --resume` goes on" in shown(run_view(*find_run(home, key)))
    interrupted = status_of(read_sweep(home, sweep.id))
    assert [mix.training for mix in interrupted.mixes] == [0, 0], "nothing trains now"


def test_nothing_ended_is_no_cost(tmp_path: Path) -> None:
    home = Home(tmp_path)
    status = status_of(read_sweep(home, write_sweep(home, runs=[], answered=False).id))
    assert (status.cost.spent_s, status.cost.grid_s, status.cost.share) == (0, None, None)
    assert "0 s of training in 0 runs; the whole grid has 32" in shown(status_view(status))


def test_json_holds_what_the_table_says(tmp_path: Path) -> None:
    home = Home(tmp_path)
    runs = runs_of(spec())
    outcomes = {0: failed(), 1: diverged(runs[1])}
    status = status_of(read_sweep(home, write_sweep(home, runs=runs, outcomes=outcomes).id))
    data = json.loads(json.dumps(status.to_json()))
    assert data["state"] == "finished"
    assert [mix["mix"] for mix in data["mixes"]] == ["add", "add+prod"]
    assert (data["mixes"][0]["failed"], data["mixes"][0]["diverged"]) == (1, 1)
    stored = read_sweep(home, status.id)
    done = sum(mix["done"] for mix in data["mixes"])
    assert done == stored.counted == sum(row.answer.runs for row in targets(stored.answer)) == len(runs) - 1, (
        "one count"
    )
    assert len(data["runs"]) == len(runs)
    assert data["runs"][0]["accuracy"] is None
    assert data["cost"]["runs"] == len(runs)
    assert "add: 1 diverged, 1 failed" in shown(status_view(status))


@pytest.mark.parametrize("width", [60, 80, 160])
def test_every_row_fits_the_terminal(tmp_path: Path, width: int) -> None:
    home = Home(tmp_path)
    asked = (spec(), spec(name="a_search_space_of_a_longer_name", mixes=["add", "add:2+prod:3"]))
    for stored in [read_sweep(home, write_sweep(home, each).id) for each in asked]:
        status = status_of(stored)
        views = status_view(status, runs=True, width=width), sweeps_view([stored], width)
        lines = [shown(view, width).splitlines() for view in views]
        assert max(len(line) for view in lines for line in view) <= width
        assert any(stored.id in line for line in lines[1])
        for mix in status.mixes if width >= 80 else ():
            cells = (mix.mix, mix.transition, mix.parameters, str(mix.done))
            assert any(all(cell in line for cell in cells) for line in lines[0]), "no cell is folded"


def test_a_failed_run_shows_its_traceback(tmp_path: Path) -> None:
    home = Home(tmp_path)
    stored = read_sweep(home, write_sweep(home, runs=runs_of(spec())[:1], outcomes={0: failed()}, answered=False).id)
    assert sentences(stored.answer) == ("Every run so far failed.",)
    assert [each.text for each in explain(stored.spec, stored.answer, "failed")][1:] == ["Every run so far failed."]
    text = shown(run_view(*find_run(home, stored.runs[0].key)))
    assert "ZeroDivisionError: by zero" in text
    assert "files" in text
    assert "none" in text


def test_a_run_shows_settings_and_curve_and_where_it_was_trained(tmp_path: Path) -> None:
    home = Home(tmp_path)
    stored = read_sweep(home, write_sweep(home, runs=runs_of(spec())[-1:]).id)
    text = shown(run_view(*find_run(home, stored.runs[0].key)))
    assert "curve.midpoint" in text
    assert text.isascii()
    assert "test accuracy of prod" in text
    assert str(stored.runs[0].directory) in text


def test_unmeasured_sizes_follow_the_power_law(tmp_path: Path) -> None:
    home = Home(tmp_path)
    runs = [run for run in runs_of(spec()) if run.size in (16, 64)]
    cost = cost_of(spec(), read_sweep(home, write_sweep(home, runs=runs).id).runs)
    assert cost.grid_s == pytest.approx(4 * 300 / 10, rel=0.01)


def test_earlier_phases_cost_what_they_took(tmp_path: Path) -> None:
    phases = [{"mix": "prod", "share": 0.9}, {"mix": "add", "share": 0.1}]
    asked = spec(mixes=[{"name": "prod first", "phases": phases}], sizes=[16, 64], seeds=1)
    family = asked.make_family()
    whole = [phase for size in asked.sizes for phase in asked.config(Request("prod first", size, 0)).phases]
    seconds = {"seconds": 7.0}
    runs = [RunRecord(family.key(each), each, replace(outcome_of(each), measures=seconds), tmp_path) for each in whole]
    cost = cost_of(asked, runs)
    assert (cost.spent_s, cost.grid_s) == (28.0, 28.0)
    assert run_seconds(asked)[16] == run_seconds(spec(mixes=["add"], sizes=[16, 64], seeds=1))[16]
