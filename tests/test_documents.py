"""Documents: their links are valid and their examples run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import ROOT, process
from trainables import SimpleSettings
from trainables.contract.conformance import case_of, findings

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def documents() -> list[Path]:
    output = process(["git", "ls-files", "*.md"]).succeeded()
    return [ROOT / name for name in output.split() if (ROOT / name).is_file()]


def code_blocks(document: str, language: str) -> list[str]:
    """Return the code blocks of a language in a document."""
    return re.findall(rf"^```{language}\n(.+?)^```", (ROOT / document).read_text(encoding="utf-8"), re.S | re.M)


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_answer_in_the_readme_is_worded_as_the_program_words_it() -> None:
    """The sample has its own numbers; its sentences are those of a golden answer with a decided comparison."""
    golden = (ROOT / "tests/golden/__snapshots__/test_answers.ambr").read_text(encoding="utf-8")
    sample = re.search(
        r"^    add\+prod needs fewer .*\n.*\n.*$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M
    )
    printed = re.search(r"^  add\+prod needs fewer parameters than add\. .*\n.*\n  Best estimate.*$", golden, re.M)
    assert sample is not None
    assert printed is not None
    words = [re.sub(r"[\d.,]+( to [\d.,]+)?|n_embed|units|(?m:^ +)", "", match[0]) for match in (sample, printed)]
    assert words[0] == words[1]


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_point_to_existing_targets(document: Path) -> None:
    broken = []
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (document.parent / path).resolve() if path else document
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            broken.append(target)
    assert broken == []


def test_the_first_page_links_to_every_other_document() -> None:
    targets = LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    linked = {(ROOT / target.partition("#")[0]).resolve() for target in targets if not re.match(r"\w+:", target)}
    pages = {path for path in documents() if ROOT / "tests" not in path.parents and path != ROOT / "README.md"}
    assert pages - linked == set()


def test_the_training_without_a_sweep_runs(tmp_path: Path) -> None:
    [program] = [code for code in code_blocks("CONTRIBUTING.md", "python") if "/tmp/data" in code]
    assert program.count('Path("/tmp/data")') == 1
    program = program.replace("/tmp/data", str(tmp_path)) + "assert learner.advance()\n"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=120)


@pytest.mark.slow
def test_the_example_of_a_list_of_jobs_trains_and_records_each_once(tmp_path: Path) -> None:
    program = ROOT / "tests" / "examples" / "job_list.py"
    for _ in range(2):  # The second time, every run is in the home.
        printed = process([sys.executable, str(program)], cwd=tmp_path, within_s=280).succeeded()
        assert [line.partition(" {'add': ")[0] for line in printed.splitlines()] == ["8", "16", "32"]
    lines = [json.loads(line) for line in (tmp_path / "results" / "runs.jsonl").read_bytes().splitlines()]
    assert sorted(line["params"]["size"] for line in lines if line["kind"] == "run") == ["16", "32", "8"]
    assert lines[-1]["state"] == "finished"


def test_the_model_of_the_first_page_keeps_the_contract(tmp_path: Path) -> None:
    [program] = [code for code in code_blocks("README.md", "python") if "SimpleFamily" in code]
    names: dict[str, Any] = {"__name__": "my_models"}
    exec(program, names)
    family = names["Board"](SimpleSettings(steps=3))
    assert [finding for finding in findings(case_of(family, (2, 4), "cpu", tmp_path)) if finding.wrong] == []


@pytest.fixture
def own_model(tmp_path: Path) -> Path:
    """A user's folder with the two files from trainables/README.md."""
    program, *_ = code_blocks("trainables/README.md", "python")
    space, *_ = code_blocks("trainables/README.md", "yaml")
    assert program.startswith("# my_models.py")
    assert space.startswith("# my_space.yaml")
    (tmp_path / "my_models.py").write_text(program, encoding="utf-8")
    (tmp_path / "my_space.yaml").write_text(space, encoding="utf-8")
    return tmp_path


def in_folder(folder: Path, *words: str) -> str:
    """Run the program in a user's folder. Return its output."""
    command = [sys.executable, "-m", "orchestrator", *words]
    return process(command, cwd=folder, within_s=280).succeeded()


@pytest.mark.slow
def test_the_example_of_an_own_model_keeps_the_contract(own_model: Path) -> None:
    printed = in_folder(own_model, "check-family", "my_space.yaml")
    assert printed.startswith("my_models:Board: checkers, checkers+disc at width 8, 16")
    assert "passed all 5 checks of its contract" in printed


def test_the_example_of_a_lasting_model_continues_exactly(tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "my_models"}
    for program in code_blocks("trainables/README.md", "python"):
        exec(program, names)
    family = names["LastingBoard"](SimpleSettings(steps=200))
    results = {finding.name: finding for finding in findings(case_of(family, (2, 4), "cpu", tmp_path))}
    assert [finding for finding in results.values() if finding.wrong] == []
    note = "stopped after step 100, continued at step 150, with the same numbers as an undisturbed run"
    assert results["a run continues from its checkpoint"].notes == note


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["--set", "seeds=1", "--engine=local"], pytest.param([], marks=pytest.mark.night)], ids=["local", "ray"]
)
def test_the_example_of_an_own_model_runs_the_first_time(own_model: Path, words: list[str]) -> None:
    in_folder(own_model, "run", "my_space.yaml", *words)
    runs = json.loads(in_folder(own_model, "status", "my_space", "--json"))["runs"]
    assert {(run["mix"], run["status"], run["step"]) for run in runs} == {
        ("checkers", "finished", 300),
        ("checkers+disc", "finished", 300),
    }


@pytest.mark.slow
def test_the_modules_of_a_search_space_are_found_from_any_folder(own_model: Path) -> None:
    elsewhere = own_model / "elsewhere"
    elsewhere.mkdir()
    assert "width" in in_folder(elsewhere, "plan", str(own_model / "my_space.yaml"))
