"""``check-family`` and ``doc``: families that keep and break the contract, and every setting with its docstring."""

from __future__ import annotations

import re

import pytest
import torch

from orchestrator.space.settings import flatten
from orchestrator.space.settings_documentation import entries
from orchestrator.space.spaces import load_space
from tests.cli.program import Program
from trainables.families import BUILT_IN as FAMILIES
from trainables.probes.base import BUILT_IN, load_probe


def test_a_family_that_keeps_its_contract_passes(run: Program) -> None:
    output = run("check-family", "tests.families:LogisticFamily").succeeded()
    assert "logistic: add, add+max at units 8, 16" in output
    assert output.count("ok      ") == 7


@pytest.mark.parametrize(
    ("family", "part", "message"),
    [
        ("PercentFamily", "a run trains to its end, and its seed determines it", "divide percentages by 100"),
        ("EndlessFamily", "a run trains to its end, and its seed determines it", "so the sweep would never end"),
        ("ForgetfulFamily", "a run continues from its checkpoint", "it continued with 1, 2, 3 and"),
    ],
)
def test_every_broken_part_is_reported(run: Program, family: str, part: str, message: str) -> None:
    ended = run("check-family", f"tests.sweep.broken:{family}")
    assert ended.code == 1
    assert f"wrong   {part}" in ended.out
    assert message in ended.out
    assert f"the family {family.removesuffix('Family').lower()!r} does not satisfy its contract" in ended.err


def test_settings_can_come_from_a_search_space(run: Program) -> None:
    quick = ("--set", "settings.training.steps=30", "--set", "settings.training.evaluate_every=10", "--size", "8")
    short = ("--set", "settings.training.warmup_steps=0", "--set", "settings.task.train_examples=200")
    output = run("check-family", "add_vs_add_prod", "--profile", "smoke", *quick, *short).succeeded()
    assert "ok      a run in a stack equals the run alone" in output
    assert "ok      a run continues from its checkpoint" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tests.families:LogisticFamly"], "has no 'LogisticFamly'. Did you mean 'tests.families:LogisticFamily'?"),
        (["tests.sweep.broken:NamelessFamily"], "must define `name`, which is part of its runs' keys"),
        (["tests.families:UnfinishedFamily"], "is not a complete family: it lacks flops"),
        (["tests.families:LogisticFamily", "--set", "seed=1"], "name a space instead of the class"),
        (["lsitops"], "Did you mean"),
    ],
)
def test_mistakes_in_arguments_of_check_family_are_explained(run: Program, words: list[str], message: str) -> None:
    assert message in run("check-family", *words).refused()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_missing_device_is_not_blamed_on_the_family(run: Program) -> None:
    message = run("check-family", "tests.families:LogisticFamily", "--device", "cuda").refused()
    assert "--device cuda: torch finds no GPU on this machine" in message


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
        ("search.max_runs", "a whole number (method pairs); by default 48"),
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
