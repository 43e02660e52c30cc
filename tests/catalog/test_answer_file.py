"""The answer of a sweep in one file, and ``verify``, which checks it without the sweep's home."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import orchestrator as o
from orchestrator.catalog.answer_file import LARGEST_ANSWER_FILE, read_answer
from orchestrator.catalog.reading import read_sweep
from orchestrator.catalog.verified_answer import check, outcome_differences
from orchestrator.home.directories import Home
from orchestrator.system import reading_time
from orchestrator.system.errors import SweepError, UserError
from tests.catalog.fabricated import diverged, failed, runs_of, write_sweep
from tests.cli.program import Program
from tests.sweep.sweeps import FAMILY, spec
from tests.training_scripts import GOOD, script_spec
from trainables.transformer.native import library

RECORDED = Path(__file__).parents[1] / "data" / "homes" / "schema-2-pairs"
"""A sweep of transformers, trained in another home by an earlier version."""
SIZES = (16, 32, 36, 64)
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module", name="recorded")
def recorded_answer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded")
    shutil.copytree(RECORDED, path / "home")
    return o.load(home=path / "home").export(path / "answer.json")[0]


@pytest.fixture(scope="module", name="logistic")
def logistic_answer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The answer of a family outside this repository, with a failed and a diverged run."""
    path = tmp_path_factory.mktemp("logistic")
    sweep_spec = spec(sizes=SIZES, seeds=3, search={"method": "pairs"})
    write_sweep(Home(path), sweep_spec, outcomes={0: failed(), 1: diverged(runs_of(sweep_spec)[1])})
    return o.load(home=path).export(path / "answer.json")[0]


def changed(path: Path, to: Path, change: Change) -> Path:
    """Write a changed copy of a file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    to.write_text(json.dumps(data), encoding="utf-8")
    return to


def test_files_that_a_space_of_somebody_else_names_are_not_read(tmp_path: Path) -> None:
    """They may be of any size, or the modules of a whole environment."""
    code = f"import needed_elsewhere\n{GOOD}"
    files = write_sweep(Home(tmp_path / "own"), script_spec(tmp_path, code, script={"code": None}), runs=[]).files
    shutil.copytree(tmp_path / "own", tmp_path / "copy")
    caution = "The script needs needed_elsewhere, found neither near it nor installed."
    for home, is_said in (("own", True), ("copy", False)):
        cautions = read_sweep(Home(tmp_path / home), files.id).answer.cautions
        assert any(text.startswith(caution) for text in cautions) is is_said
    written = o.load(home=tmp_path / "own").export(tmp_path / "answer.json")[0]
    named = changed(
        written, tmp_path / "named.json", lambda data: data["space"]["script"].update(directory=str(tmp_path))
    )
    assert not any(text.startswith(caution) for text in check(read_answer(named)).answer.cautions)


def test_a_file_whose_keys_take_long_to_compute_is_refused(logistic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = read_answer(logistic)
    monkeypatch.setattr(reading_time, "LONGEST_READING_S", -1.0)
    with pytest.raises(SweepError, match=r"reading what others may have written took more than -1 s$"):
        check(file, [FAMILY])


def test_an_answer_is_computed_again_from_its_file(logistic: Path) -> None:
    checked = check(read_answer(logistic), [FAMILY])
    stored = read_sweep(Home(logistic.parent), None)
    assert checked.differences == ()
    assert checked.answer == stored.answer
    assert checked.answer.mix("add").failed == 1
    assert checked.answer.mix("add").diverged == 1
    comparison = checked.answer.mix("add+prod").comparison
    assert comparison is not None
    assert comparison.pairs == 12


def test_a_file_names_no_path_machine_or_traceback(logistic: Path, tmp_path: Path) -> None:
    text = logistic.read_text(encoding="utf-8")
    for private in (str(logistic.parent), "Traceback", "resources", "probes", "hardware", "platform", "git"):
        assert private not in text
    assert max(map(len, text.splitlines())) < 1_500
    assert len(text) < 60_000
    write_sweep(
        Home(tmp_path), spec(family="tests.scripted:ScriptedFamily", settings={"log": str(tmp_path / "log")}), runs=()
    )
    with pytest.raises(UserError, match=r"settings\.log is a path"):
        o.load(home=tmp_path).export(tmp_path / "answer.json")


def _set(*path: str | int, to: object) -> Change:
    def change(data: dict[str, Any]) -> None:
        inner: Any = data
        for part in path[:-1]:
            inner = inner[part]
        inner[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_set("claims", "transitions", 1, "evidence", to=80.0), "evidence of add in add+prod"),
        (_set("claims", "transitions", 0, "transition", to=20.0), "transition of add in add"),
        (_set("claims", "transitions", 0, "transition", to=10**400), "transition of add in add"),
        (_set("claims", "transitions", 0, "verdict", to="below"), "verdict of add in add"),
        (
            _set("claims", "answer", 0, to="PROD helps."),
            "the file contains a line that the recomputed answer does not: PROD helps.",
        ),
        (lambda data: data["claims"]["answer"].reverse(), "another order"),
        (lambda data: data["claims"]["transitions"].pop(), "the table of transitions is about"),
        (_set("claims", "transitions", 0, "saved_runs", to=900), "has no column saved_runs for add in add"),
        # Outcomes that were made nicer, and pairs that were left out.
        (_set("runs", 9, "accuracy", to={"add": 0.1}), "evidence of add in add+prod"),
        (lambda data: data["pairs"].pop(0), "pairs of add in add+prod is 11, but 12 in the file"),
        (_set("runs", 4, "key", to="0123456789abcdef"), "its settings have the key"),
        (_set("space", "settings", "haste", to=1.0), "its settings have the key"),
        (_set("space", "search", "error", to=0.2), "that the recomputed answer does not"),
    ],
)
def test_claims_that_do_not_follow_are_named(logistic: Path, tmp_path: Path, change: Change, named: str) -> None:
    differences = check(read_answer(changed(logistic, tmp_path / "a.json", change)), [FAMILY]).differences
    assert named in "\n".join(differences)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_set("kind", to="home"), "is not the answer of a sweep"),
        (_set("layout", to=2), "has layout 2"),
        (_set("more", to=1), "more: there is no such key"),
        (_set("runs", 2, "accuracy", "add", to=1.5), "runs[2].accuracy.add"),
        (_set("runs", 2, "accuracy", "add", to="0.5"), "runs[2].accuracy.add"),
        (_set("runs", 2, "seed", to=True), "runs[2].seed"),
        (_set("runs", 2, "steps", to=-1), "runs[2].steps"),
        (_set("runs", 2, "status", to="solved"), "runs[2].status"),
        (_set("runs", 2, "mix", to="add+mul"), "unknown mix 'add+mul' in runs[2]"),
        (_set("runs", 2, "size", to=40), "runs[2]: 40 is not one of the sizes"),
        (_set("runs", 2, "seed", to=3), "runs[2]: seed 3 is not one of 0 to 2"),
        (_set("runs", 2, "accuracy", to={}), "runs[2].accuracy has the tasks []"),
        (_set("runs", 0, "accuracy", to={"add": 1.0}), "runs[0].accuracy has the tasks ['add']; it must have []"),
        (lambda data: data["runs"].append(data["runs"][2]), "occurs twice"),
        (lambda data: data["pairs"].append(data["pairs"][2]), "its evidence would count twice"),
        (_set("pairs", 0, to=["add", "add+prod", 16, 16, 0]), "'add' is not compared with 'add+prod'"),
        (_set("pairs", 0, to=["add+prod", "add", 16, 17, 0]), "pairs[0]: 17 is not one of the sizes"),
        (_set("pairs", 0, to=["add+prod", "add", 16, 16]), "pairs[0]"),
        (_set("stopped", to=["prod"]), "unknown mix 'prod' in stopped"),
        (_set("space", "sizes", to=[64, 16]), "space: sizes: sizes must be ascending"),
        (_set("space", "mixes", 1, to={"name": "z", "phases": [{"mix": "add"}] * 1500}), "z: there are 1,500 phases"),
        (_set("space", "mixes", 1, to="add+prod x1e308"), "the budget of add+prod x1e+308 is 1e+308; it must be"),
        (_set("space", "probes", to=["os:system"]), "space.probes does not belong"),
        (_set("space", "resources", to={"scratch": "/"}), "space.resources does not belong"),
        (_set("sweep", to="\x1b[2Jagrees"), "control characters"),
        (_set("sweep", to="agrees \u202e"), "control characters"),
        (_set("space", "name", to="a" * 3000), "more than 2,000 characters"),
        (_set("claims", "transitions", 0, "words", to=[]), "claims.transitions[0].words"),
        (_set("runs", 0, "steps", to=10**400), "runs[0].steps"),
        (_set("space", "settings", to=json.loads("[" * 50 + "]" * 50)), "nested brackets"),
    ],
)
def test_files_that_cannot_be_used_are_refused(
    run: Program, logistic: Path, tmp_path: Path, change: Change, named: str
) -> None:
    path = changed(logistic, tmp_path / "a.json", change)
    with pytest.raises(UserError) as refused:
        check(read_answer(path), [FAMILY])
    assert named in str(refused.value)


def many_runs(data: dict[str, Any]) -> None:
    """Give a file 5,001 different scores, of runs that its search space contains."""
    data["space"]["seeds"] = 1_000
    data["space"]["sizes"] = [8, 16, 24, 32, 40, 48]
    like = {**data["runs"][2], "mix": "add", "floor": {"add": 0.0}}
    data["runs"] = [
        {**like, "size": 8 + 8 * (number % 6), "seed": number // 6, "accuracy": {"add": number / 10_000}}
        for number in range(5_001)
    ]
    data["pairs"] = []


def many_mixes(data: dict[str, Any]) -> None:
    """Give a file runs for 1,001 tasks of mixes."""
    weights = range(2, 502)
    data["space"]["mixes"] = ["add", *(f"add:{weight}+prod" for weight in weights)]
    like = {**data["runs"][2], "size": 16, "seed": 0}
    scores = dict.fromkeys(("add", "prod"), 0.5)
    mixed = {"accuracy": scores, "floor": dict.fromkeys(scores, 0.1)}
    alone = {"accuracy": {"add": 0.5}, "floor": {"add": 0.1}}
    data["runs"] = [{**like, "mix": "add", **alone}]
    data["runs"] += [{**like, "mix": f"add:{weight}+prod:1", **mixed} for weight in weights]
    data["pairs"] = []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (many_runs, "it has 5,001 different scores, and at most 5,000 are checked"),
        (many_mixes, "it has runs for 1,001 tasks of mixes, and the transitions of at most 1,000 are checked"),
    ],
)
def test_a_file_whose_answer_would_take_minutes_is_refused(
    logistic: Path, tmp_path: Path, change: Change, named: str
) -> None:
    begun = time.process_time()
    with pytest.raises(UserError) as refused:
        check(read_answer(changed(logistic, tmp_path / "a.json", change)), [FAMILY])
    assert str(refused.value) == f"{tmp_path / 'a.json'} cannot be used: {named}"
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe{}", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"kind": NaN}', "NaN is not a number"),
        (b'{"kind": 1, "kind": 2}', "a key is written twice"),
        (b"[1]", "is not the answer of a sweep"),
        (b" " * (LARGEST_ANSWER_FILE + 1), "more than 5,000,000 bytes"),
    ],
)
def test_other_files_are_refused(run: Program, tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert named in run("verify", path).refused()


def test_a_pipe_or_missing_file_is_refused(run: Program, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in run("verify", tmp_path / "pipe").refused()
    assert "there is no file" in run("verify", tmp_path / "none.json").refused()


@pytest.mark.parametrize("family", ["trap:Family", "os:system", 7, None])
def test_the_family_in_a_file_is_not_imported(
    run: Program, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: object
) -> None:
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    path = changed(recorded, tmp_path / "a.json", _set("space", "family", to=family))
    for words in ((), ("--retrain", 1)):
        error = run("verify", path, *words).refused()
        assert "is not part of this program" in error or "unknown family" in error
    assert "trap" not in sys.modules


def test_an_outside_family_needs_a_search_space_of_ones_own(run: Program, logistic: Path, tmp_path: Path) -> None:
    assert "--space FILE.yaml" in run("verify", logistic).refused()
    other, own = tmp_path / "other.yaml", tmp_path / "own.yaml"
    other.write_text("question: Does it?\nfamily: listops\n", encoding="utf-8")
    own.write_text(f"question: Does it?\nfamily: {FAMILY}\n", encoding="utf-8")
    assert "is not part of this program" in run("verify", logistic, "--space", other).refused()
    out = run("verify", logistic, "--space", own).succeeded()
    assert out.splitlines()[-1].startswith("agrees  evidence, estimates and sentences of logistic-")


@pytest.mark.skipif(library() is None, reason="the native step trained these runs, and torch's rounds differently")
def test_recorded_runs_are_trained_again_bit_for_bit(run: Program, recorded: Path, tmp_path: Path) -> None:
    """Runs of another home and version, trained in stacks. Their numbers must not depend on that."""
    out = run("verify", recorded, "--retrain", 3, "--seed", 5).succeeded()
    assert re.search(r"train   3 of 8 runs \(at most about \d+ s\), chosen by --seed 5", out)
    assert out.count("the same bits") == 3
    assert out == run("verify", recorded, "--retrain", 3, "--seed", 5).succeeded()
    for field, value in (("accuracy", {"add": 0.5, "prod": 0.5}), ("curve", "0" * 16)):
        false = changed(recorded, tmp_path / "a.json", _set("runs", 0, field, to=value))
        ended = run("verify", false, "--retrain", 8)
        assert ended.code == 1
        assert ended.out.count("the same bits") == 7
        assert "add+prod, size 8, seed 0 (key 51e956149f5b9dcb): differs" in ended.out
        assert "does not follow from its 8 runs and 4 pairs" in ended.err


def test_runs_that_do_not_fit_into_memory_are_not_trained_again(run: Program, recorded: Path, tmp_path: Path) -> None:
    path = changed(recorded, tmp_path / "a.json", _set("space", "settings", "training", "batch", to=2**20))
    refused = run("verify", path, "--retrain", 1, "--seed", 5).refused()
    assert re.search(r"n_embed \d+: training needs \d+ GB of memory, and this machine has \d+ GB", refused)


def test_a_chain_of_phases_is_trained_again(run: Program, tmp_path: Path) -> None:
    overrides = ["--profile", "smoke", "--engine", "local", "--home", tmp_path / "home", "--set", "sizes=[4]"]
    run("run", "curriculum", *overrides, "--set", "seeds=1").succeeded()
    run("export", "curriculum", "--home", tmp_path / "home", "--output", tmp_path / "a.json").succeeded()
    out = run("verify", tmp_path / "a.json", "--retrain", 100).succeeded()
    assert out.count("the same bits") == len(read_answer(tmp_path / "a.json").runs) > 1


def test_differences_of_an_outcome_are_named(logistic: Path) -> None:
    file = read_answer(logistic)
    stored = read_sweep(Home(logistic.parent), None)
    for given, run in zip(file.runs[1:], stored.runs[1:], strict=True):
        assert outcome_differences(given, run.outcome) == []
    [difference, _] = outcome_differences(file.runs[3], stored.runs[4].outcome)
    assert difference.startswith("accuracy is {'add': ")
