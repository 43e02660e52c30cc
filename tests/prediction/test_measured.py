"""Merits of scores on savings whose ranks are known, and predictions written down before a sweep's first run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from orchestrator.catalogue.predictions import measured_pairs
from orchestrator.catalogue.reading import read_sweep
from orchestrator.prediction.measured import FEWEST, Merit, Pair, Saving, mean_saving, merits, saving_of
from orchestrator.prediction.registered import predicted, register, registered
from orchestrator.prediction.wording import merit_words, saving_words
from orchestrator.space.spaces import load_space
from orchestrator.store.files import Home
from orchestrator.store.records import Sweep
from orchestrator.tracking.content import sweep_content
from tests.catalogue.fabricated import write_sweep
from tests.commands.program import program
from tests.drive import sweeps


def pairs(scores: list[float], savings: list[float], spread: float = 0.01) -> list[Pair]:
    return [
        Pair(
            f"mix {place}", {"shared_structure": score, "chance": 0.5}, Saving(saving, spread), ("sweep",), before=True
        )
        for place, (score, saving) in enumerate(zip(scores, savings, strict=True))
    ]


def merit_of(name: str, known: list[Pair]) -> Merit:
    return next(each for each in merits(known, 0.9, np.random.default_rng(0)) if each.score == name)


def test_a_score_that_ranks_savings_is_told_from_one_that_knows_nothing() -> None:
    known = pairs([0.0, 0.1, 0.2, 0.4, 0.8, 1.0], [0.0, 0.1, 0.2, 0.4, 0.8, 1.0])
    good, none = merit_of("shared_structure", known), merit_of("chance", known)
    assert good.rank == pytest.approx(1.0)
    assert good.low > 0.8
    assert good.by_chance < 0.02  # one order in 720
    assert good.error < 0.01 < good.mean_error
    assert (none.rank, none.low, none.high, none.by_chance) == (0.0, 0.0, 0.0, 1.0)
    assert none.error == pytest.approx(none.mean_error)


def test_a_score_that_ranks_the_wrong_way_round_is_said_to() -> None:
    found = merit_of("shared_structure", pairs([0, 1, 2, 3, 4], [4, 3, 2, 1, 0]))
    assert found.rank == pytest.approx(-1.0)
    assert found.by_chance > 0.95
    assert "rank correlation -1.00" in merit_words(found)


def test_uncertain_savings_make_for_wide_intervals() -> None:
    scores, savings = [0.0, 0.1, 0.2, 0.4, 0.8, 1.0], [0.0, 0.1, 0.2, 0.4, 0.8, 1.0]
    sure, unsure = (merit_of("shared_structure", pairs(scores, savings, spread)) for spread in (0.01, 2.0))
    assert unsure.low < 0 < sure.low


def test_too_few_pairs_have_no_merit() -> None:
    assert merits(pairs([0.0] * (FEWEST - 1), [0.0] * (FEWEST - 1)), 0.9, np.random.default_rng(0)) == []


def test_the_mean_of_savings_is_no_surer_than_their_scatter() -> None:
    one, several = mean_saving([Saving(1.0, 0.2)]), mean_saving([Saving(0.0, 0.01), Saving(2.0, 0.01)])
    assert (one.mean, one.spread) == pytest.approx((1.0, 0.2))
    assert (several.mean, several.spread) == pytest.approx((1.0, 1.0))
    assert saving_words(Saving(np.log(2.0), 0.0), 0.9) == "2x [2, 2]"


def test_predictions_are_written_down_and_read_again(tmp_path: Path) -> None:
    spec = load_space("easy_pairs", profile="smoke")
    files = Home(tmp_path).sweep("a")
    files.directory.mkdir(parents=True)
    register(spec, files)
    found = registered(files, pytest.fail)
    assert found is not None
    assert found.scores == predicted(spec)
    assert set(found.scores) == {mix.composition for mix in spec.mixes[1:]}
    sweep = Sweep("a", spec, files.directory, found.at, {})
    recorded = {each.name: each.value for each in sweep_content(sweep).samples}
    assert recorded["prediction/partner_ease/add.max"] == found.scores["add+max"]["partner_ease"]


DAMAGED = {
    "empty": b"",
    "torn": b'{"at": "2026-01-0',
    "no text": b"\xff\xfe\x00",
    "of something else": b'{"scores": 3}',
    "a list": b"[1, 2]",
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_prediction_is_named_and_not_taken_for_none(kind: str, tmp_path: Path) -> None:
    files = Home(tmp_path).sweep("a")
    files.directory.mkdir(parents=True)
    assert registered(files, pytest.fail) is None
    files.prediction.write_bytes(DAMAGED[kind])
    said: list[str] = []
    assert registered(files, said.append) is None
    [flaw] = said
    assert flaw.startswith(f"{files.prediction} is damaged (")
    assert "restore it from a copy, or delete it" in flaw


def test_predict_names_a_damaged_prediction_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(tmp_path)
    files = home.sweep(write_sweep(home, sweeps.spec(profile="smoke")).id)
    files.prediction.write_text("{")
    ended = program(capsys)("predict", "easy_pairs", "--profile", "smoke", "--home", tmp_path)
    assert ended.code == 0
    assert f"{files.prediction} is damaged" in ended.err
    assert "measured so far: 0 mixes" in ended.out


def test_sweeps_of_a_family_without_tables_have_no_pairs(tmp_path: Path) -> None:
    home = Home(tmp_path)
    sweep = write_sweep(home)
    assert predicted(sweep.spec) == {}
    assert measured_pairs([read_sweep(home, sweep.id)]) == []


def test_a_saving_is_the_difference_of_the_posteriors(tmp_path: Path) -> None:
    home = Home(tmp_path)
    answer = read_sweep(home, write_sweep(home).id).answer
    baseline, mix = answer.mixes
    assert saving_of(answer, baseline) is None
    found = saving_of(answer, mix)
    assert found is not None
    one, other = (each.target.transition.relative.value for each in (baseline, mix))
    assert one is not None
    assert other is not None
    assert found.mean == pytest.approx(np.log(one / other), abs=3 * found.spread)


def test_predict_prints_every_mix_and_what_the_scores_mean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = program(capsys)("predict", "prime_modulus", "--profile", "paper", "--home", tmp_path)
    assert ended.code == 0
    assert "add+prod (prime_43)" in ended.out
    assert "shared_structure: share of the target's entropy" in ended.out
    assert "measured so far: 0 mixes" in ended.out


def test_predict_refuses_what_has_no_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "outside.yaml"
    path.write_text(
        json.dumps(
            {
                "name": "outside",
                "question": "?",
                "family": "tests.families:LogisticFamily",
                "target": "add",
                "mixes": ["add", "add+prod"],
                "sizes": [4, 8, 16],
                "seeds": 2,
                "search": {"method": "grid"},
                "settings": {},
            }
        )
    )
    ended = program(capsys)("predict", path, "--home", tmp_path)
    assert ended.code == 2
    assert "has no tables for its tasks" in ended.err
