"""Sentences claim no more than the runs show; test_sentences.py recomputes whole sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import fisher_exact

from orchestrator.catalog.export import page_of
from orchestrator.home.directories import Home
from orchestrator.record.content import answer_content
from orchestrator.report.answer import Answer, answer
from orchestrator.report.answer_table import answer_table, plain
from orchestrator.report.figures.comparisons import caption, main_figure
from orchestrator.report.rows import targets
from orchestrator.report.sentences.explanation import explain, how_sure
from orchestrator.report.sentences.findings import difference_text, two_levels
from orchestrator.report.sentences.next_step import next_step
from orchestrator.report.side_by_side import LabeledAnswer, comparison_sentences, finding, recipes_of
from orchestrator.search.base import Request
from orchestrator.site.pages import SweepPages
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.comparison import odds
from orchestrator.transition.trend import is_rarer_with_size
from orchestrator.transition.types import SizeShare, Verdict
from tests.golden.test_answers import COMPARISONS, LEARNED, SMALLER
from tests.report.samples import SIZES, bracketed, config, make_answer, make_spec, run_of, scored, written
from tests.sweep.sweeps import spec
from trainables.base import RunConfig

SPEC = make_spec()
LISTED = ", ".join(map(str, SIZES))


@cache
def plain_answer() -> Answer:
    """Return the answer of :data:`SPEC`. It is cached, because pytest needs many answers for its parameters."""
    return answer(SPEC, bracketed())


def with_verdicts(*verdicts: Verdict, comparison: str = "fewer") -> Answer:
    """Return an answer whose mixes have these verdicts and this comparison."""
    plain = plain_answer()
    mixes = []
    for mix, verdict in zip(plain.mixes, verdicts, strict=True):
        target = replace(mix.target, transition=replace(mix.target.transition, verdict=verdict))
        compared = COMPARISONS[comparison] if mix.is_compared else None
        mixes.append(replace(mix, tasks=(target, *mix.tasks[1:]), comparison=compared))
    return replace(plain, mixes=tuple(mixes))


def never_learned(spent: bool = True) -> Answer:
    above = with_verdicts(Verdict.ABOVE, Verdict.ABOVE, comparison="neither")
    nothing = tuple(SizeShare(size, 0, 2) for size in SIZES)
    return replace(above, mixes=tuple(replace(mix, shares=nothing, spent=spent) for mix in above.mixes))


TUNED = {"haste": 2.0}
TWO = {"slow": {"haste": 2.0}, "fast": {"haste": 9.0}}
OPEN_QUESTION = with_verdicts(Verdict.FOUND, Verdict.FOUND, comparison="alike")


@pytest.mark.parametrize(
    ("result", "spec", "overrides"),
    [
        (with_verdicts(Verdict.FOUND, Verdict.FOUND), SPEC, None),
        (with_verdicts(Verdict.ABOVE, Verdict.FOUND), SPEC, (f"sizes=[{LISTED}, 256]", "search.max_runs=96")),
        (with_verdicts(Verdict.FOUND, Verdict.BELOW), SPEC, (f"sizes=[4, {LISTED}]", "search.max_runs=96")),
        (with_verdicts(Verdict.FOUND, Verdict.BELOW), make_spec(sizes=(6, 16, 32)), ()),  # Units must be even.
        (with_verdicts(Verdict.FOUND, Verdict.BELOW), make_spec(sizes=(1, 16), settings={"multiple_of": 1}), ()),
        (never_learned(), SPEC, ("mixes=[add x2, add+prod x2]",)),
        (never_learned(), make_spec(budget="target"), ()),
        (never_learned(), make_spec(tuned={"add": TUNED, "add+prod": TUNED}), ()),
        (
            never_learned(spent=False),
            SPEC,
            (f"sizes=[{LISTED}, 256]", "search.max_runs=96"),
        ),  # More steps do not help a lost race.
        (with_verdicts(Verdict.NEAR_FLOOR, Verdict.FOUND), SPEC, ()),
        (
            with_verdicts(Verdict.UNDECIDED, Verdict.FOUND),
            SPEC,
            ("seeds=6", "sizes=[8, 12, 16, 20, 24, 32, 40, 44, 48, 64, 96, 128]", "search.max_runs=96"),
        ),
        (with_verdicts(Verdict.FOUND, Verdict.FOUND, comparison="no_pairs"), SPEC, ("search.method=pairs",)),
        (
            with_verdicts(Verdict.ABOVE, Verdict.FOUND),
            make_spec(search={"method": "pairs", "aim": "decide"}),
            ("search.aim=locate", "seeds=6", "search.max_runs=96"),
        ),
        (
            with_verdicts(Verdict.FOUND, Verdict.FOUND),
            make_spec(search={"method": "pairs", "aim": "decide", "max_runs": 8}),  # Each mix has more than 4 runs.
            ("search.aim=locate", "seeds=6", "search.max_runs=16"),
        ),
        (
            with_verdicts(Verdict.FOUND, Verdict.FOUND),
            make_spec(search={"method": "pairs", "aim": "factor"}),
            ("search.aim=locate", "seeds=6", "search.max_runs=96"),
        ),
        (OPEN_QUESTION, make_spec(sizes=(22, 24, 46, 48), search={"method": "grid"}), ("seeds=6",)),
        (
            OPEN_QUESTION,
            make_spec(search={"method": "pairs", "max_cost": 420, "max_runs": 22}),
            (
                *("seeds=6", "sizes=[8, 12, 16, 20, 22, 24, 32, 40, 44, 48, 64, 96, 128]"),
                *("search.max_runs=44", "search.max_cost=840"),
            ),
        ),
    ],
)
def test_the_next_step_follows_from_the_answer(
    result: Answer, spec: SweepSpec, overrides: tuple[str, ...] | None
) -> None:
    step = next_step(spec, result)
    assert (None if step is None else step.overrides) == overrides


def test_what_was_not_learned_is_found_also_without_a_comparison() -> None:
    one = make_spec(mixes=("add",))
    nothing = answer(one, [run_of(run, scored(run, 0.1)) for run in (config("add", 8), config("add", 128))])
    assert explain(one, nothing, "finished")[1].text == "Nothing was learned up to units 128."


def test_a_run_that_used_all_its_steps_spent_its_budget() -> None:
    runs = [(config("add", 8), 0.1), (config("add", 16), 0.97), (config("add", 16, 1), 0.1)]
    for steps, spent in ((3, True), (2, False)):
        assert answer(SPEC, [run_of(run, scored(run, score, steps)) for run, score in runs]).mixes[0].spent is spent


def test_an_arm_keeps_its_recipe_when_it_trains_longer() -> None:
    step = next_step(*unlearned(recipes=TWO, mixes=("add", "add+prod @ fast")))
    assert step is not None
    assert step.overrides == ("mixes=[add x2 @ slow, add x2 @ fast, add+prod x2 @ fast]",)


def unlearned(**changes: object) -> tuple[SweepSpec, Answer]:
    """Return a sweep of several recipes, and its answer if no run of the largest size learns."""
    swept = make_spec(**changes)
    runs = [swept.config(Request(arm.name, 128, seed)) for arm in swept.mixes[:5] for seed in (0, 1)]
    return swept, answer(swept, [run_of(run, scored(run, 0.1)) for run in runs])


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        (19.99, "19:1"),
        (47.6, "47:1"),
        (3.29, "3.2:1"),
        (1.0, "1:1"),
        (0.3, "1:3.3"),
        (1 / 12345, "1:12,345"),
        (1e9, "over 1,000,000:1"),
        (0.0, "1:1,000,000"),
    ],
)
def test_odds_are_rounded_toward_weaker_evidence(evidence: float, text: str) -> None:
    assert odds(evidence) == text


def test_learning_becomes_rarer_with_size_only_if_chance_cannot_explain_it() -> None:
    def shares(*learned: int, tried: int = 4) -> list[SizeShare]:
        return [SizeShare(8 * place, count, tried) for place, count in enumerate(learned, start=1)]

    assert is_rarer_with_size(shares(0, 4, 4, 0, 0))
    assert not is_rarer_with_size(shares(0, 4, 4, 3, 4))
    assert not is_rarer_with_size(shares(0, 0, 2, 4))
    assert not is_rarer_with_size(shares(1, 0, tried=1))
    rng = np.random.default_rng(0)
    for _ in range(300):
        learned, most = [int(count) for count in rng.integers(0, 13, 3)], 12
        risen = learned[next((place for place, count in enumerate(learned) if count), 3) :]
        splits = [(sum(risen[:k]), most * k, sum(risen[k:]), most * (len(risen) - k)) for k in range(1, len(risen))]
        tables = [[[good, few - good], [late, many - late]] for good, few, late, many in splits]
        expected = any(fisher_exact(table, alternative="greater").pvalue <= 0.01 for table in tables)
        assert is_rarer_with_size(shares(*learned, tried=most)) == expected


@pytest.mark.parametrize(
    ("kinds", "counts"),
    [
        (("fewer", "at_least"), "fewer parameters in 2 of 2 recipes."),
        (
            ("fewer", "alike", "more"),
            "fewer parameters in 1 (a), learned less often in 1 (c), no difference shown in 1 (b) of 3 recipes.",
        ),
        (("leaning", "alike"), "no difference shown in 2 of 2 recipes."),
    ],
)
def test_a_sentence_about_several_recipes_counts_them(kinds: tuple[str, ...], counts: str) -> None:
    assert comparison_sentences(several("abc", kinds), "recipe") == [f"add+prod against add: {counts}"]


def several(labels: Iterable[str], kinds: Iterable[str], variant: str = "") -> list[LabeledAnswer]:
    return [
        LabeledAnswer(label, make_answer(LEARNED, SMALLER, COMPARISONS[kind]), variant=variant)
        for label, kind in zip(labels, kinds, strict=False)
    ]


def test_sweeps_of_one_variant_are_named_by_their_labels() -> None:
    sentence = "add+prod against add: fewer parameters in 1 (first), learned less often in 1 (second) of 2 sweeps."
    assert comparison_sentences(several(("first", "second"), ("fewer", "more"), "mod6"), "sweep") == [sentence]


def test_an_answer_about_several_recipes_is_worded_the_same_everywhere(tmp_path: Path) -> None:
    """The mix helps under one of two recipes."""
    stored = written(tmp_path, spec(recipes={"helps": {}, "alone": {"curve": {"help": 0.0}}}, seeds=5))
    result = stored.answer
    sentence = "add+prod against add: fewer parameters in 1 (helps), no difference shown in 1 (alone) of 2 recipes."
    assert [row[:2] for row in answer_table(result).rows] == [
        (recipe, mix) for recipe in ("helps", "alone") for mix in ("add", "add+prod")
    ]
    page = page_of(stored)
    assert page.count(sentence) > 1, "in the answer, and in the words about its figure"
    assert "the shading shows" not in page
    for content in (plain(result), SweepPages(Home(tmp_path)).index(), caption(stored.sweep, result)):
        assert sentence in content
        assert not re.search("needs (fewer|more)", content), "no recipe speaks for the others"
    assert answer_content(stored.sweep, result, "finished", stored.sweep.created).tags["answer"].startswith(sentence)
    texts = [text.get_text() for text in main_figure(result).axes[0].texts]
    assert [name for name in texts if name in ("helps", "alone")] == ["helps", "alone"]
    assert sum("fewer" in text for text in texts) == 1
    assert recipes_of(result.under("helps")) == []


def test_nothing_learned_under_any_recipe_is_reported_once() -> None:
    assert finding(unlearned(recipes=TWO)[1]) == ("Nothing was learned up to units 128.",)


def test_runs_of_many_mixes_are_counted_in_one_line() -> None:
    recipes = {name: {"haste": haste} for haste, name in enumerate("abcd", start=2)}
    assert how_sure(unlearned(recipes=recipes)[1])[0].text.endswith("Runs: 10, 0 to 2 per mix.")


def bad(seeds: int, sizes: Iterable[int] = (16,)) -> Answer:
    """Return an answer in which no run of ADD learned."""
    return of([(config("add", size, seed), 0.2) for size in sizes for seed in range(seeds)])


def of(runs: Iterable[tuple[RunConfig, float]]) -> Answer:
    """Return the answer of finished runs with these accuracies."""
    return answer(SPEC, [run_of(run, scored(run, accuracy)) for run, accuracy in runs])


@pytest.mark.parametrize(
    ("result", "words", "parameters"),
    [
        (bad(1), "not learned at 16 (1 run)", "not learned at"),
        (bad(1, (16, 24)), "not learned from 16 to 24 (2 runs)", "not learned from"),
        (bad(4), "at least 16", "at least"),
    ],
)
def test_a_bound_from_few_runs_is_said_with_them(result: Answer, words: str, parameters: str) -> None:
    row = targets(result)[0]
    assert row.size_text == words
    assert row.count_text.startswith(parameters)


def test_the_two_meanings_of_eighty_percent_are_told_apart() -> None:
    """Runs that level off have a transition, although none of them learned."""
    runs = [(config("add", size, seed), 0.7 if size > 32 else 0.15) for size in SIZES for seed in range(4)]
    assert two_levels(of(runs)) == ()  # It says already that it levels off.
    found = with_verdicts(Verdict.FOUND, Verdict.FOUND, comparison="alike")
    none = tuple(SizeShare(share.size, 0, share.tried) for share in found.mixes[0].shares)
    mixes = (replace(found.mixes[0], shares=none), *found.mixes[1:])
    [line] = two_levels(replace(found, mixes=mixes))
    assert line == (
        "add has a transition, at 80% of the accuracy that the largest models reach, but no model learned, which takes "
        "80% of the way from the best constant answer to a perfect accuracy."
    )


def test_evidence_by_size_tells_the_mean_difference_of_scores() -> None:
    """Seed 2 of the baseline is not paired, so that it does not count."""
    scores = {("add", 0): 0.2, ("add", 1): 0.3, ("add", 2): 0.9, ("add+prod", 0): 0.9, ("add+prod", 1): 0.8}
    result = of([(config(mix, 16, seed), score) for (mix, seed), score in scores.items()])
    assert difference_text(result, result.mixes[1], (16,)) == "; accuracy .60 higher on average"
    assert difference_text(result, result.mixes[1], (24,)) == ""


ALIKE = COMPARISONS["alike"]


def test_a_continuation_says_when_every_seed_was_used() -> None:
    wanted = make_spec(seeds=2)
    runs = [(config(mix, size, seed), 0.5) for mix in ("add", "add+prod") for size in (16, 24) for seed in range(2)]
    result = replace(of(runs), mixes=tuple(replace(mix, comparison=ALIKE) for mix in of(runs).mixes))
    used = next_step(wanted, result)
    assert used is not None
    assert used.why.endswith("has been shown yet, and every seed was used.")
    more = next_step(SPEC, result)
    assert more is not None
    assert more.why.endswith("has been shown yet.")
