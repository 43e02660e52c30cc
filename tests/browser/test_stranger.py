"""What somebody who never saw the project finds in the browser: what was asked, what was found, how sure that is, which
runs disagree, and what models hold below and above the transition.

Screenshots are left in ``$SCREENSHOTS`` where that names a directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

pytest.importorskip("selenium", reason='the browser extra is not installed: pip install -e ".[browser]"')

from orchestrator.catalogue.reading import StoredSweep, read_sweep
from orchestrator.report.looks import looks
from orchestrator.report.table import answer_table
from orchestrator.site.server import serving
from orchestrator.site.shelf import Shelf
from orchestrator.store.files import Home
from tests.browser.chromium import BROWSER, DRIVER, Page, browsing
from tests.catalogue.fabricated import outcome_of, runs_of, write_sweep
from tests.drive.sweeps import spec
from tests.families import FLOOR

UNLUCKY = ("add", 64, 3)
"""The one seed of four that does not learn at a size: mix, size, seed."""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        BROWSER is None or DRIVER is None, reason="no chromium and chromedriver here: apt-get install chromium-driver"
    ),
    pytest.mark.timeout(600),
]


@dataclass(frozen=True)
class Told:
    """The page of all sweeps of a home with one, and that sweep."""

    address: str
    sweep: StoredSweep


@pytest.fixture(scope="module", name="told")
def served_sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    home, asked = Home(tmp_path_factory.mktemp("home")), spec(seeds=4)
    runs = runs_of(asked)
    place = [(run.mix.name, run.size, run.seed) for run in runs].index(UNLUCKY)
    unlucky = replace(outcome_of(runs[place]), accuracy=dict.fromkeys(runs[place].mix.tasks, FLOOR))
    sweep = write_sweep(home, asked, outcomes={place: unlucky})
    with serving(Shelf(home), 0) as address:
        yield Told(address, read_sweep(home, sweep.id))


@pytest.fixture(scope="module", name="page")
def opened_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("profile")) as page:
        page.resize(1280, 900)
        yield page


@pytest.fixture(autouse=True)
def _look(page: Page, request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if directory := os.environ.get("SCREENSHOTS"):
        page.screenshot(Path(directory) / f"{request.node.name}.png")


def is_on_the_first_screen(page: Page, element: str) -> None:
    page.wait_for(f"{element} && {element}.getBoundingClientRect().bottom < window.innerHeight")
    page.wait_for(f"{element}.getBoundingClientRect().height > 0")


def test_what_was_asked_and_found_is_on_the_first_screen(told: Told, page: Page) -> None:
    said = answer_table(told.sweep.answer)
    page.open(told.address)
    shown = page.wait(told.sweep.spec.question, said.conclusions[0], "finished")
    mix, size, _ = UNLUCKY
    assert f"{mix} at {told.sweep.spec.size_axis} {size} (3 of 4 learned)" in shown
    page.wait_for("document.querySelector('.said details')")
    page.click("document.querySelector('.said summary')")
    shown = page.wait("learned by")
    assert all(" ".join(line.split()) in " ".join(shown.split()) for line in said.learned)
    page.click("document.querySelector('.said summary')")
    assert "below" not in said.conclusions[0], "an answer that refers to what the page does not show"
    page.wait_for("document.images[0].complete && document.images[0].naturalHeight > 0")
    for element in ("h2", ".answer", ".said", "figure img", ".links"):
        is_on_the_first_screen(page, f"document.querySelector('{element}')")


def test_how_sure_and_which_runs_disagree_is_one_click_on(told: Told, page: Page) -> None:
    page.open(told.address)
    page.click("document.querySelector('article h2 a')")
    mix, size, seed = UNLUCKY
    shown = " ".join(page.wait(told.sweep.spec.question, "How sure").split())
    assert f"{mix} at {told.sweep.spec.size_axis} {size} (3 of 4 learned, not seed {seed})" in shown
    for told_in in ("needs", "Runs that disagree", "What could change it", "Next"):
        assert told_in in shown
    for label in ("How sure", "Runs that disagree"):
        told_in = f"[...document.querySelectorAll('#answer dt')].find(each => each.textContent.startsWith('{label}'))"
        is_on_the_first_screen(page, f"{told_in}.nextElementSibling")
    is_on_the_first_screen(page, "document.querySelector('#curves .roomy svg')")


def test_what_models_hold_below_and_above_is_seen_for_every_mix(told: Told, page: Page) -> None:
    page.open(f"{told.address}sweep/{told.sweep.id}")
    page.click("document.querySelector('nav a[href=\"#similarities\"]')")
    page.wait_for("document.querySelector('#similarities svg').getBoundingClientRect().top < window.innerHeight / 2")
    titles = str(page.run("return document.querySelector('#similarities svg').outerHTML"))
    for mix in told.sweep.answer.mixes:
        found = mix.target.transition.relative
        assert found.value is not None
        sizes = [size for size in told.sweep.spec.sizes if f"{told.sweep.spec.size_axis} {size}" in titles]
        assert min(sizes) < found.value < max(sizes)
        assert mix.mix in titles
    page.wait("What models hold", "at the nearest sizes tried outside the transition's interval")


def test_a_mix_has_one_colour_in_figures_and_in_what_the_script_draws(told: Told, page: Page) -> None:
    page.open(f"{told.address}sweep/{told.sweep.id}")
    page.wait_for("!document.getElementById('explore').hidden")
    colours = [look.colour for look in looks(told.sweep.answer).values()]
    figure = str(page.run("return document.querySelector('#curves svg').outerHTML")).lower()
    assert all(colour.lower() in figure for colour in colours)
    for drawn in (".dot", ".curve", "#explore-posterior text.label.end"):
        found = page.run(
            f"return [...document.querySelectorAll('#explore {drawn}, {drawn}')]"
            ".map(each => each.getAttribute('stroke') || each.getAttribute('fill'))"
        )
        assert isinstance(found, list)
        assert set(found) == set(colours), drawn


def test_without_its_script_the_report_says_and_shows_the_same(told: Told, page: Page) -> None:
    with page.without_script():
        page.open(f"{told.address}sweep/{told.sweep.id}")
        page.wait(answer_table(told.sweep.answer).conclusions[0], "How sure", "Runs that disagree")
        page.wait_for("document.getElementById('explore').hidden")
        for section in ("curves", "similarities", "learning"):
            page.wait_for(f"document.querySelector('#{section} svg').getBoundingClientRect().height > 100")
