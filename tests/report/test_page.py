"""The report page: self-contained, safe against user text, and consistent with the answer."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from orchestrator.catalog.export import page_of
from orchestrator.catalog.reading import StoredSweep
from orchestrator.report.answer_table import answer_table
from orchestrator.report.sentences.explanation import how_sure, next_paragraph
from orchestrator.report.sentences.findings import caveats
from orchestrator.report.sentences.next_step import next_step
from orchestrator.report.sentences.transitions import verdict_lines
from orchestrator.report.side_by_side import finding
from orchestrator.space.spaces import load_space
from tests.catalog.fabricated import diverged, failed, runs_of
from tests.report.samples import written
from tests.sweep.sweeps import spec

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Outline(HTMLParser):
    """The text of a page, its tags in order and the addresses it refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "svg", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def outline(html: str) -> Outline:
    parsed = Outline()
    parsed.feed(html)
    assert parsed.open == []
    assert len(set(parsed.ids)) == len(parsed.ids)
    return parsed


@pytest.fixture(scope="module", name="whole")
def whole_page(tmp_path_factory: pytest.TempPathFactory) -> tuple[StoredSweep, str]:
    sweep = written(tmp_path_factory.mktemp("page"))
    return sweep, page_of(sweep)


def test_the_page_loads_no_other_resources(whole: tuple[StoredSweep, str]) -> None:
    _, html = whole
    page = outline(html)
    assert not {"iframe", "img", "object"} & set(page.seen)
    assert not re.search(r"<script[^>]*\bsrc\b|\bfetch\(|XMLHttpRequest|\bimport\(", html)
    assert all(address.startswith(("#", "data:image/png;base64,", "data:image/svg+xml,")) for address in page.addresses)
    assert "@import" not in html
    # Every figure refers only to its own definitions.
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert {address[1:] for address in page.addresses if address.startswith("#")} <= set(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(ids)


def test_the_answer_in_words_comes_first(whole: tuple[StoredSweep, str]) -> None:
    sweep, html = whole
    text = outline(html).text
    places = [
        text.index(part) for part in (sweep.sweep.spec.question, finding(sweep.answer)[0], "Every run is a point")
    ]
    assert places == sorted(places)
    for line in (
        *verdict_lines(sweep.answer),
        *finding(sweep.answer),
        *caveats(sweep.answer),
        *(point.text for point in how_sure(sweep.answer)),
        next_paragraph(sweep.sweep.spec, sweep.answer, sweep.state.value).text,
        sweep.command(next_step(sweep.spec, sweep.answer)),
    ):
        assert " ".join(line.split()) in text
    table = answer_table(sweep.answer)
    assert all(cell in text for row in (*table.rows, *table.other_tasks) for cell in row)


def test_the_page_has_every_section(whole: tuple[StoredSweep, str]) -> None:
    sweep, html = whole
    page = outline(html)
    assert page.seen.count("svg") == 4
    for part in ("What models hold", "Learning curves", "How to reproduce it"):
        assert part in page.text
    assert "curve.midpoint" in page.text
    assert re.search(rf"{len(sweep.runs)} runs trained for [^;]*; every size with 2 seeds \(", page.text)
    assert f"python -m orchestrator run {sweep.sweep.spec.name}.yaml" in page.text
    assert "mix units seed status steps seconds add other tasks parameters trained in run" in page.text
    for run in sweep.runs:
        config, scores = run.config, [f"{score:.3f}" for score in run.outcome.accuracy.values()]
        others = [f"{task} {score}" for task, score in zip(run.outcome.accuracy, scores, strict=True) if task != "add"]
        cells = (config.label, config.size, config.seed, "finished", 20, f"{config.size / 10:.0f}", scores[0], *others)
        parameters = f"{sweep.spec.make_family().parameters(config.size).total:,.0f}"
        assert " ".join(map(str, (*cells, parameters, "here", run.key))) in page.text
    assert re.search(r"\bnav \{[^}]*position: sticky", html)
    assert '<nav aria-label="Contents"><a href="#' in html
    assert '<link rel="icon" href="data:' in html, "a browser would ask the server for one"
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert page_of(sweep) == html, "the same sweep gives the same page"


def test_user_text_is_escaped(tmp_path: Path) -> None:
    evil = "Does </script><script>alert(1)</script> & \"quoting\" 'help'?"
    html = page_of(written(tmp_path, spec(question=evil), runs=runs_of(spec())[:2]))
    assert "<script>alert" not in html
    assert evil in outline(html).text


def test_sweeps_without_runs_have_pages(tmp_path: Path) -> None:
    empty = outline(page_of(written(tmp_path, runs=[], answered=False)))
    assert empty.seen.count("svg") == 2
    assert "interrupted" in empty.text


def test_caveats_come_right_after_the_answer(tmp_path: Path, whole: tuple[StoredSweep, str]) -> None:
    recipe = "All runs used one training recipe; another recipe may give another answer."
    assert f"Caveats {recipe} " in outline(whole[1]).text
    runs, quick = runs_of(spec()), load_space("add_vs_add_prod", "smoke")
    for sweep, lines in (
        (
            written(tmp_path, runs=runs[:3], outcomes={0: failed(), 1: diverged(runs[1])}),
            ("1 run diverged and counts as not learned.", "1 run failed and counts as no evidence.", recipe),
        ),
        (written(tmp_path / "begun", quick, runs=[], answered=False), ("This sweep tests only",)),
    ):
        html = page_of(sweep)
        places = [html.index(part) for part in (">Caveats<", *(f"<div>{line}" for line in lines), 'id="curves"')]
        assert places == sorted(places)
