"""Words claim no more than the runs show; test_sentences.py recomputes whole sentences."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from orchestrator.report.words.verdicts import caveats, saving, sentence, sentences

from orchestrator.catalogue.reading import read_sweep
from orchestrator.home.files import Home
from orchestrator.record.transition_content import answer_content
from orchestrator.report.answer import Answer, RecipeText, answer
from orchestrator.report.figures.comparisons import main_figure
from orchestrator.report.figures.paper import caption
from orchestrator.report.side_by_side import (
    Compared,
    comparison_sentences,
    recipes_of,
)
from orchestrator.report.table import answer_table, plain
from orchestrator.report.words import numbers
from orchestrator.report.words.next_step import judged, next_step
from orchestrator.search.base import Request
from orchestrator.site.pages import SweepPages
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.run import run_sweep
from orchestrator.sweep.run_options import RunOptions
from orchestrator.transition.comparison import synergy as ratio
from orchestrator.transition.types import Doubt, Estimate, Synergy, Verdict
from tests.golden.test_answers import LEARNED, SMALLER, SYNERGIES, VERDICTS
from tests.report.samples import SIZES, bracketed, config, make_answer, make_spec
from tests.sweep.sweeps import printed, quiet, spec
from trainables.base import Outcome, RunConfig, Status

SPEC = make_spec()
LISTED = ", ".join(map(str, SIZES))


def outcomes(runs: list[tuple[str, int, int, float]]) -> list[tuple[RunConfig, Outcome]]:
    ended = []
    for mix, size, seed, accuracy in runs:
        asked = config(mix, size, seed)
        tasks = asked.mix.tasks
        ended.append((asked, Outcome(Status.FINISHED, 2, dict.fromkeys(tasks, accuracy), dict.fromkeys(tasks, 0.1))))
    return ended


@pytest.mark.parametrize(("first", "second"), list(product(Verdict, Verdict)))
def test_no_pair_of_verdicts_claims_more_than_is_known(first: Verdict, second: Verdict) -> None:
    compared = ratio(VERDICTS[first], VERDICTS[second], lambda size: 10 * size)
    (said,) = sentences(make_answer(VERDICTS[first], VERDICTS[second], compared))
    assert bool(re.match(r"\S+ needs (at least )?[\d.]+x (fewer|more) ", said)) == compared.decided
    assert not ("parameters" in said and "units" in said), "sizes and parameters stay apart"


@pytest.mark.parametrize("doubt", [Doubt.LEVELS_OFF, Doubt.FALLS, Doubt.FEW, Doubt.CHANCE, Doubt.CRITERION])
def test_the_reason_for_an_undecided_comparison_is_named(doubt: Doubt) -> None:
    found = Synergy(None, 2.8, None, decided=False, doubt=doubt)
    assert saving(found) == f"undecided: at least 2.8x fewer; {doubt}"
    (said,) = sentences(make_answer(LEARNED, SMALLER, found))
    assert said == f"Undecided: add+prod needs at least 2.8x fewer parameters than add, but {doubt}."


def with_verdicts(*verdicts: Verdict, decided: bool = True) -> Answer:
    """An answer whose mixes have these verdicts."""
    found = answer(SPEC, bracketed())
    mixes = []
    for mix, verdict in zip(found.mixes, verdicts, strict=True):
        target = replace(mix.target, transition=replace(mix.target.transition, verdict=verdict))
        synergy = mix.synergy_total and replace(mix.synergy_total, decided=decided)
        mixes.append(replace(mix, tasks=(target, *mix.tasks[1:]), synergy_total=synergy))
    return replace(found, mixes=tuple(mixes))


TUNED = {"haste": 2.0}
OPEN_QUESTION = with_verdicts(Verdict.FOUND, Verdict.FOUND, decided=False)


@pytest.mark.parametrize(
    ("found", "asked", "overrides"),
    [
        (with_verdicts(Verdict.FOUND, Verdict.FOUND), SPEC, None),
        (with_verdicts(Verdict.ABOVE, Verdict.FOUND), SPEC, (f"sizes=[{LISTED}, 256]",)),
        (with_verdicts(Verdict.FOUND, Verdict.BELOW), SPEC, (f"sizes=[4, {LISTED}]",)),
        (with_verdicts(Verdict.FOUND, Verdict.BELOW), make_spec(sizes=(6, 16, 32)), ()),  # Units must be even.
        (with_verdicts(Verdict.PLATEAU, Verdict.FOUND), SPEC, ("mixes=[add x2, add+prod x2]",)),
        (with_verdicts(Verdict.PLATEAU, Verdict.FOUND), make_spec(budget="target"), ()),
        (with_verdicts(Verdict.PLATEAU, Verdict.FOUND), make_spec(tuned={"add": TUNED, "add+prod": TUNED}), ()),
        (with_verdicts(Verdict.NEAR_FLOOR, Verdict.FOUND), SPEC, ()),
        (
            with_verdicts(Verdict.UNDECIDED, Verdict.FOUND),
            SPEC,
            ("seeds=6", "search.precision=0.165", "sizes=[8, 12, 16, 20, 24, 32, 40, 44, 48, 64, 96, 128]"),
        ),
        (OPEN_QUESTION, make_spec(search={"method": "grid"}), ("seeds=6",)),
        (
            OPEN_QUESTION,
            make_spec(search={"method": "bayes", "max_cost": 420, "precision": 0.06, "max_runs": 22}),
            (
                "seeds=6",
                "search.precision=0.05",
                "sizes=[8, 12, 16, 20, 22, 24, 32, 40, 44, 48, 64, 96, 128]",
                "search.max_runs=44",
                "search.max_cost=1680",
            ),
        ),
    ],
)
def test_the_next_step(found: Answer, asked: SweepSpec, overrides: tuple[str, ...] | None) -> None:
    step = next_step(asked, found)
    assert (None if step is None else step.overrides) == overrides


def test_a_lost_race_is_not_run_for_longer() -> None:
    found = with_verdicts(Verdict.PLATEAU, Verdict.FOUND)
    early = replace(found, mixes=tuple(replace(mix, spent=False) for mix in found.mixes))
    step = next_step(SPEC, early)
    assert step is not None
    assert step.overrides == (f"sizes=[{LISTED}, 256]",)
    runs = [("add", 8, 0, 0.1), ("add", 16, 0, 0.97), ("add", 16, 1, 0.1)]
    for steps, spent in ((3, True), (2, False)):
        ended = [(asked, replace(outcome, steps=steps)) for asked, outcome in outcomes(runs)]
        assert answer(SPEC, ended).mixes[0].spent is spent


def test_a_mix_without_a_run_needs_one() -> None:
    step = next_step(SPEC, answer(SPEC, [each for each in bracketed() if each[0].label == "add"]))
    assert step is not None
    assert "the comparison of add+prod with add is undecided" in step.why


def test_an_arm_of_one_recipe_keeps_it_when_it_trains_for_longer() -> None:
    recipes = {"slow": {"haste": 2.0}, "fast": {"haste": 9.0}}
    asked = make_spec(recipes=recipes, mixes=("add", "add+prod @ fast"))
    found = answer(
        asked, [(asked.config(Request(arm.name, 128, seed)), failed_at(0.1)) for arm in asked.mixes for seed in (0, 1)]
    )
    step = next_step(asked, found)
    assert step is not None
    assert step.overrides == ("mixes=[add x2, add+prod x2 @ fast]",)


def failed_at(accuracy: float) -> Outcome:
    """The outcome of a run that used its three steps."""
    tasks = ("add", "prod")
    return Outcome(Status.FINISHED, 3, dict.fromkeys(tasks, accuracy), dict.fromkeys(tasks, 0.1))


def test_a_size_without_an_interval_is_none_to_learn_from_on() -> None:
    found = with_verdicts(Verdict.FOUND, Verdict.FOUND)
    target = found.mixes[0].target
    bare = replace(target, transition=replace(target.transition, relative=Estimate(30.7, None, None)))
    alone = replace(found.mixes[0], tasks=(bare,))
    assert sentence(found, alone) == "add is undecided, about 30.7."


def test_the_command_can_be_pasted() -> None:
    command = RunOptions(space="x.yaml", overrides=["seeds=2"])
    assert command.resumed("x-1") == "python -m orchestrator run x.yaml --set seeds=2 --resume x-1"
    longer = command.asking("n5", ["mixes=[add x2]"])
    assert longer == "python -m orchestrator run x.yaml --set seeds=2 --set 'mixes=[add x2]'"
    several = replace(command, several=True)
    assert several.resumed("x-1").endswith(" --resume")
    assert " --variant n5 --set 'sizes=[8, 16]' --extend x-1" in several.asking("n5", ["sizes=[8, 16]"], "x-1")


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (("fewer", "at_least_fewer"), "fewer in 2 of 2 recipes."),
        (("fewer", "undecided", "more"), "fewer in 1 (a), more in 1 (c), undecided in 1 (b) of 3 recipes."),
        (("undecided", "no_interval"), "undecided in 2 of 2 recipes."),
    ],
)
def test_a_sentence_over_recipes_counts_them(kinds: tuple[str, ...], said: str) -> None:
    compared = [
        Compared(label, make_answer(LEARNED, SMALLER, SYNERGIES[kind]))
        for label, kind in zip("abc", kinds, strict=False)
    ]
    assert comparison_sentences(compared, "recipe") == [f"add+prod against add, parameters needed: {said}"]


def test_sweeps_of_one_variant_are_told_apart_by_their_labels() -> None:
    compared = [
        Compared(label, make_answer(LEARNED, SMALLER, SYNERGIES[kind]), variant="mod6")
        for label, kind in (("first", "fewer"), ("second", "more"))
    ]
    said = "add+prod against add, parameters needed: fewer in 1 (first), more in 1 (second) of 2 sweeps."
    assert comparison_sentences(compared, "sweep") == [said]


def test_words_over_a_row_of_a_figure_leave_room_for_its_recipe() -> None:
    found = Synergy(7.0, 3.9, 11.0, decided=False, doubt=Doubt.FEW)
    first = replace(make_answer(LEARNED, SMALLER, found), recipes=(RecipeText("start_0.02", "as written"),))
    given = replace(first, mixes=tuple(replace(mix, recipe="start_0.02", plain=mix.mix) for mix in first.mixes))
    (axes,) = main_figure(SPEC, given).axes
    assert axes.get_title(loc="right") == "add+prod: undecided: between 11x fewer and 3.9x fewer"


@pytest.fixture(scope="module", name="twice")
def asked_under_two_recipes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answer, str, Path]:
    """A sweep of the outside family whose mix helps under one recipe and not under the other."""
    home, console = tmp_path_factory.mktemp("home"), quiet()
    asked = spec(recipes={"helps": {}, "alone": {"curve": {"help": 0.0}}}, search={"method": "bayes"}, seeds=3)
    return run_sweep(asked, RunOptions(home=home, local_debug=True), console), printed(console), home


def test_an_answer_over_recipes(twice: tuple[Answer, str, Path]) -> None:
    found, said, home = twice
    sentence = "add+prod against add, parameters needed: fewer in 1 (helps), undecided in 1 (alone) of 2 recipes."
    assert sentence in said
    assert [row.cells[:2] for row in answer_table(found).rows] == [
        (recipe, mix) for recipe in ("helps", "alone") for mix in ("add", "add+prod")
    ]
    (page,) = home.glob("sweeps/*/report.html")
    assert page.read_text().count(sentence) > 1, "in the answer, and in the words about its figure"
    assert "the shade its posterior" not in page.read_text()
    (stored,) = (read_sweep(Home(home), name) for name in Home(home).sweep_ids())
    for told in (SweepPages(Home(home)).index(), caption(stored.sweep, found)):
        assert sentence in told
        assert "needs" not in told, "no recipe speaks for the others"
    assert answer_content(stored.sweep, found, "finished").tags["answer"].startswith(sentence)
    figure = main_figure(spec(recipes={"helps": {}, "alone": {"curve": {"help": 0.0}}}), found)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["helps", "alone"]
    assert ["fewer [" in axes.get_title(loc="right") for axes in figure.axes] == [True, False]
    assert recipes_of(found.under("helps")) == []


def test_nothing_that_any_recipe_learned_is_one_finding() -> None:
    asked = make_spec(recipes={"slow": {"haste": 2.0}, "fast": {"haste": 9.0}})
    runs = [(asked.config(Request(arm.name, 128, seed)), failed_at(0.1)) for arm in asked.mixes for seed in (0, 1)]
    assert answer_table(answer(asked, runs)).sentences == ("Nothing was learned up to units 128.",)


def test_seeds_that_disagree_everywhere_are_told_in_a_line() -> None:
    asked = make_spec(recipes={name: {"haste": haste} for haste, name in enumerate(("a", "b", "c", "d"), start=2)})
    arms = asked.mixes[:5]
    runs = [
        (asked.config(Request(arm.name, 128, seed)), failed_at(0.1 + 0.85 * seed)) for arm in arms for seed in (0, 1)
    ]
    for some, told in (
        (8, [f"{arm.name}: seeds disagree" for arm in arms[:4]]),
        (10, ["Seeds disagree at some sizes in 5 of 8 mixes."]),
    ):
        said = [line for line in caveats(answer(asked, runs[:some])) if "isagree" in line]
        assert [line.replace('"', "")[: len(start)] for line, start in zip(said, told, strict=True)] == told
    assert judged(asked, answer(asked, runs), "finished")[0].text.endswith(" Runs: 10, 0 to 2 a mix.")


def test_recipes_of_one_mix_are_drawn_without_a_comparison(tmp_path: Path) -> None:
    asked = spec(mixes=["add"], recipes={"helps": {}, "alone": {"curve": {"help": 0.0}}}, sizes=[16], seeds=2)
    found = run_sweep(asked, RunOptions(home=tmp_path, local_debug=True), quiet())
    assert [axes.get_title(loc="left") for axes in main_figure(asked, found).axes] == ["helps", "alone"]
    assert "alone" in plain(answer_table(found))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            numbers.number,
            {7.254: "7.25", 371.2: "371", 999.9: "1,000", 19_621: "19,600", 0.0: "0", 0.1234: "0.123", 40: "40"},
        ),
        (numbers.duration, {0: "0 s", 59.4: "59 s", 60: "1 min 00 s", 200: "3 min 20 s", 3930: "1 h 05 min"}),
        (numbers.bare, {0.5: "0.5", 1.94: "1.9", 12.4: "12", 0.07: "0.07"}),
        (numbers.size_on_disk, {0: "0 kB", 350_000: "350 kB", 1_300_000_000: "1.3 GB", 12e6: "12 MB"}),
    ],
)
def test_numbers_as_people_read_them(words: Callable[[float], str], said: dict[float, str]) -> None:
    assert {value: words(value) for value in said} == said
