"""``check-family``: families that keep the contract, and families that break it, each with the reason."""

from __future__ import annotations

import pytest
import torch

from tests.cli.program import Program


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
