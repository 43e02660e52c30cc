"""The progress of a sweep in numbers, words and a table."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from orchestrator.catalog.listings import run_view, status_view, sweeps_view
from orchestrator.catalog.reading import StoredSweep, find_run, read_sweep
from orchestrator.catalog.summary import run_rows, status_json, summarize
from orchestrator.forecast.cost_estimate import run_seconds
from orchestrator.home.directories import Home
from orchestrator.report.cost_so_far import cost_of
from orchestrator.report.rows import targets
from orchestrator.report.sentences.changes import changed_text
from orchestrator.report.sentences.explanation import explain
from orchestrator.report.sentences.findings import sentences
from orchestrator.search.base import Request
from orchestrator.space.runs import Run
from orchestrator.space.spaces import load_space
from tests.catalog.fabricated import diverged, failed, leave_stack, outcome_of, runs_of, write_sweep
from tests.sweep.sweeps import spec


def shown(view: RenderableType, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def status_of(stored: StoredSweep) -> dict[str, Any]:
    return status_json(summarize(stored), run_rows(stored))


def test_the_status_of_a_finished_sweep_has_findings_and_savings(home: Home) -> None:
    sweep_spec = spec()
    runs = [run for run in runs_of(sweep_spec) if run.size in (16, 24, 48, 64)]
    stored = read_sweep(home, write_sweep(home, sweep_spec, runs=runs).id)
    status = status_of(stored)
    add, mixed = status["mixes"]
    assert (add["done"], add["learned"], mixed["done"], mixed["learned"]) == (8, 3, 8, 6)
    assert (add["verdict"], add["training"]) == ("found", 0)
    # Seconds are a tenth of the size, so the cost of the grid is known exactly: 300 units, 2 mixes, 2 seeds.
    assert status["cost"]["spent_s"] == pytest.approx(4 * (16 + 24 + 48 + 64) / 10)
    assert status["cost"]["grid_s"] == pytest.approx(4 * 300 / 10)
    text = shown(status_view(summarize(stored)))
    assert add["transition"] in text, "no markup of rich's"
    assert "finished, started 20" in text
    cost = "16 runs trained for 1 min 01 s; every size with 2 seeds (32 runs) would take about 2 min 00 s"
    assert f"{cost}, 2.0 times as long" in text
    assert (
        "No difference between add+prod and add has been shown yet: at units 16 to 64, 6 of 8 add+prod models" in text
    )
    assert f"add+prod {mixed['transition']}, no difference shown (1:1)" in shown(sweeps_view([summarize(stored)]))


def test_the_status_of_a_running_sweep_has_runs_in_training(home: Home) -> None:
    runs = runs_of(spec())
    sweep = write_sweep(home, runs=runs[:2], answered=False)
    (key,) = leave_stack(home, sweep, [runs[4]], evaluations=3)
    with home.sweep(sweep.id).driving():
        stored = read_sweep(home, sweep.id)
        assert status_of(stored)["mixes"][0]["training"] == 1
        text = shown(status_view(summarize(stored)))
        assert "running, started" in text
        assert f"training {key}: add 16 seed 0: step 3, 0.30" in text
        assert "training" in shown(run_view(*find_run(home, key)))
    assert "`run --resume` continues the run" in shown(run_view(*find_run(home, key)))
    interrupted = status_of(read_sweep(home, sweep.id))
    assert [mix["training"] for mix in interrupted["mixes"]] == [0, 0], "nothing trains now"


def test_no_cost_is_shown_before_a_run_has_ended(home: Home) -> None:
    text = shown(status_view(summarize(read_sweep(home, write_sweep(home, runs=(), answered=False).id))))
    assert "No run has ended yet." in text
    assert "every size" not in text


def test_the_json_status_has_the_values_of_the_table(home: Home) -> None:
    runs = runs_of(spec())
    outcomes = {0: failed(), 1: diverged(runs[1])}
    stored = read_sweep(home, write_sweep(home, runs=runs, outcomes=outcomes).id)
    data = json.loads(json.dumps(status_of(stored)))
    assert data["state"] == "finished"
    assert [mix["mix"] for mix in data["mixes"]] == ["add", "add+prod"]
    assert (data["mixes"][0]["failed"], data["mixes"][0]["diverged"]) == (1, 1)
    done = sum(mix["done"] for mix in data["mixes"])
    assert done == stored.answer.runs == sum(row.answer.runs for row in targets(stored.answer)) == len(runs) - 1
    assert len(data["runs"]) == data["cost"]["runs"] == len(runs)
    assert data["runs"][0]["accuracy"] is None
    assert "add: 1 diverged, 1 failed" in shown(status_view(summarize(stored)))


@pytest.mark.parametrize("width", [60, 80])
def test_every_row_fits_the_terminal(home: Home, width: int) -> None:
    specs = (spec(), spec(name="a_search_space_of_a_longer_name", mixes=["add", "add:2+prod:3"]))
    for stored in [read_sweep(home, write_sweep(home, sweep_spec).id) for sweep_spec in specs]:
        lines = shown(status_view(summarize(stored), run_rows(stored)), width).splitlines()
        listed = shown(sweeps_view([summarize(stored)]), width).splitlines()
        assert max(map(len, [*lines, *listed])) <= width
        assert any(stored.id in line for line in listed)
        for row in targets(stored.answer) if width >= 80 else ():
            cells = (row.mix, row.size_text, row.count_text, str(row.answer.runs))
            assert any(all(cell in line for cell in cells) for line in lines), "no cell is folded"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ([], ""),
        (["settings.training.steps=50"], "changed: steps 50"),
        (["seeds=9", "sizes=[8, 12, 16]", "settings.training.steps=50"], "changed: sizes 8 to 16, seeds 9, steps 50"),
    ],
)
def test_sweeps_of_one_space_are_distinguished_by_their_changes(
    tmp_path: Path, overrides: list[str], words: str
) -> None:
    sweep_spec, home = load_space("add_vs_add_prod", "smoke", overrides), Home(tmp_path)
    assert changed_text(sweep_spec) == words
    stored = read_sweep(home, write_sweep(home, sweep_spec, runs=[]).id)
    assert words in shown(sweeps_view([summarize(stored)]))
    assert words in shown(status_view(summarize(stored)))
    assert changed_text(spec(name="add_vs_add_prod")) == "", "it only has the name of a shipped space"


def test_runs_show_settings_scores_and_files_or_their_traceback(home: Home) -> None:
    stored = read_sweep(home, write_sweep(home, runs=runs_of(spec())[-1:]).id)
    text = shown(run_view(*find_run(home, stored.runs[0].key)))
    assert text.isascii()
    assert all(part in text for part in ("curve.midpoint", "test accuracy of prod", str(stored.runs[0].directory)))
    stored = read_sweep(home, write_sweep(home, runs=runs_of(spec())[:1], outcomes={0: failed()}, answered=False).id)
    assert sentences(stored.answer) == ("Every run so far failed.",)
    _, found, then = explain(stored.spec, stored.answer, "failed")
    assert found.text == "Every run so far failed."
    assert then.text.endswith("Once you have fixed it, resume with --retry-failed.")
    assert "ZeroDivisionError: by zero" in shown(run_view(*find_run(home, stored.runs[0].key)))


def test_earlier_phases_count_with_their_own_seconds(tmp_path: Path) -> None:
    phases = [{"mix": "prod", "share": 0.9}, {"mix": "add", "share": 0.1}]
    sweep_spec = spec(mixes=[{"name": "prod first", "phases": phases}], sizes=[16, 64], seeds=1)
    requests = [phase for size in sweep_spec.sizes for phase in sweep_spec.chain(Request("prod first", size, 0))]
    assert len(requests) == 4
    configs = [(request, sweep_spec.config(request)) for request in requests]
    seconds = {"seconds": 7.0}
    runs = [Run(request, run, replace(outcome_of(run), measures=seconds)) for request, run in configs]
    cost = cost_of(sweep_spec, runs)
    assert (cost.spent_s, cost.grid_s) == (28.0, 28.0)
    assert run_seconds(sweep_spec)[16] == run_seconds(spec(mixes=["add"], sizes=[16, 64], seeds=1))[16]
