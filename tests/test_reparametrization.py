"""Races from a search space to the report: no output about them mentions ListOps or transformers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import orchestrator as o
from orchestrator.space.spaces import load_space
from tests.cli.program import Program
from tests.test_outside_family import runs_in_mlflow

FOREIGN = re.compile(
    r"accura|(?<!scikit-)learn(?:s|ed)?\b|examples|held-out|operation|n_embed|embedd|transformer|listops|token|models?\b|"
    r"number line|core parameters|baseline|fewer unknowns",  # These mixes have no baseline.
    re.IGNORECASE,
)
SPACE = """
like: reparametrization_heat
name: races
mixes: [hessian+adam, hessian+adam+lbfgs]
variants: {work: {settings: {race: {counted: work}}}, steps: {settings: {race: {counted: steps}}}}
"""


def test_every_output_about_races_uses_their_own_words(run: Program, tmp_path: Path) -> None:
    Path("races.yaml").write_text(SPACE)
    started = run("run", "races.yaml", "--profile", "smoke", "--variant", "work", "--engine=local").succeeded()
    (sweep,) = re.findall(r"^sweep (races-\S+)$", started, re.MULTILINE)
    texts = {"run": started}
    for words in (
        ("plan", "races.yaml", "--profile", "smoke", "--variant", "work"),
        ("report", sweep, "--output", "report.html"),
        ("status", sweep),
        ("explain", sweep),
        ("compare", sweep),
    ):
        texts[words[0]] = run(*words).succeeded()
    texts["page"] = re.sub(r"<script.*?</script>", "", Path("report.html").read_text(encoding="utf-8"), flags=re.DOTALL)
    texts["page"] = texts["page"].replace("learned: 0.8", "")  # Name of a setting in the resolved space.
    for name, text in texts.items():
        assert not FOREIGN.search(text), (name, set(FOREIGN.findall(text)))
    assert "nodes" in texts["run"]
    assert "unknowns" in texts["plan"]  # In a table of results they would repeat the nodes.
    assert "unknowns" in texts["status"]
    assert '<section id="races">' in texts["page"]

    runs = o.load(sweep).runs
    assert set(runs["size"]) <= {16, 64, 144}
    assert (runs["spent_hessian"] > 0).all()
    assert (runs["steps_adam"] > 0).all()
    _, recorded = runs_in_mlflow(tmp_path, "races")
    assert len(recorded) == len(runs)
    assert all("arrived_hessian" in run.data.metrics for run in recorded)
    # Name of a metric.
    notes = [run.data.tags["mlflow.note.content"].replace("`accuracy/...`", "") for run in recorded]
    assert all("One race of `" in note and not FOREIGN.search(note) for note in notes), notes


ASKED = ("work", "steps", "work_10x", "steps_10x")


@pytest.mark.parametrize("variant", ASKED)
@pytest.mark.parametrize("space", ["reparametrization_heat", "reparametrization_homology", "reparametrization_sync"])
def test_tuned_values_are_written_in_the_space(space: str, variant: str) -> None:
    """The rates of all methods are the same in every profile, and no sweep uses the seeds used to choose them."""
    written = [load_space(space, profile, variant=variant) for profile in ("smoke", "laptop", "paper")]
    assert len({str(spec.settings.rates) for spec in written}) == 1
    assert len({str(spec.settings.network) for spec in written}) == 1
    assert not {100, 101, 102} & {seed for spec in written for seed in spec.seed_list}
