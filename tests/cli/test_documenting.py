"""``doc``: every setting, with the docstring of its owner."""

from __future__ import annotations

import re

import pytest

from orchestrator.space.settings import flatten
from orchestrator.space.settings_documentation import entries
from orchestrator.space.spaces import load_space
from tests.cli.program import Program
from trainables.base import BUILT_IN as FAMILIES
from trainables.probes.base import BUILT_IN, load_probe


def test_every_value_of_a_resolved_space_is_documented() -> None:
    paths = {entry.path for entry in entries()}
    shown = flatten(load_space("add_vs_add_prod", "smoke").to_dict()).keys()
    chosen = {"profile", "profile_reason"}
    inside = ("recipes", "tuned")
    assert {path for path in shown if path.split(".")[0] not in inside} - chosen - paths == set()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_setting_is_described(family: str) -> None:
    assert [entry.path for entry in entries(family) if not entry.text and entry.form != "a mapping"] == []


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("settings.task.held_out", "ordered, unordered; by default ordered\n  Kind of held-out tuples."),
        ("held_out_fraction", "settings.task.held_out_fraction: a number; by default 0.05\n  Share of all tuples"),
        ("search.max_runs", "a whole number (method pairs); by default 48"),
        ("tune.trials", "a whole number; by default 6\n  Maximum number of trials of a mix"),
        ("phases", "mixes.phases.takes: a list or text; by default all\n  Parts of the model taken over"),
        ("resources", "resources.retries: a whole number; by default 1"),
    ],
)
def test_doc_describes_a_setting(run: Program, setting: str, text: str) -> None:
    assert text in run("doc", setting).succeeded()


def test_doc_describes_another_family_and_corrects_misspelled_settings(run: Program) -> None:
    assert "settings.curve.midpoint: a number; by default 40.0" in run("doc", "--family", FAMILY).out
    assert "unknown setting 'seds'. Did you mean 'seeds'?" in run("doc", "seds").refused()
    assert "unknown setting 'lr'. Did you mean 'learning_rate'?" in run("doc", "lr").err
    assert run("doc", "--family", "lsitops").code == 2


FAMILY = "tests.families:LogisticFamily"


def test_doc_prints_the_docstring_of_every_probe(run: Program) -> None:
    text = run("doc", "probes").out
    assert text.startswith("probes: a list")
    for name in BUILT_IN:
        (own,) = re.findall(rf"^probes\.{name}: a probe\n(.+?)\n*(?=^probes|\Z)", text, re.MULTILINE | re.DOTALL)
        words = " ".join(own.replace("`", "").split())
        assert words == " ".join((type(load_probe(name)).__doc__ or "").replace("`", "").split())
    separation = run("doc", "separation").out
    assert separation.strip() in text
    assert "`GROUPING.p`" in separation
    assert "Did you mean 'probes.separation'?" in run("doc", "probes.seperation").err
