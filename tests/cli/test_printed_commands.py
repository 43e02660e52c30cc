"""Every command that a sweep prints works: it is copied from the output and run."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from orchestrator import api
from orchestrator.cli.main import with_bare_resume
from orchestrator.cli.run import run_command
from orchestrator.home.directories import Home
from orchestrator.sweep.run_options import EXCLUDED, RunOptions
from tests.cli.program import Program
from tests.sweep.sweeps import ended, spec


def printed_command(output: str, after: str) -> list[str]:
    """Return the words of the command on the line after the one that begins with ``after``."""
    [line] = re.findall(rf"^{after}.*\n +orchestrator (.*)$", output, re.MULTILINE)
    return shlex.split(line)


def newest(home: Path) -> str:
    return Home(home).sweep_ids()[0]


PAIRS = {"search": {"method": "pairs"}}


@pytest.mark.parametrize(
    ("changes", "trains"),
    [
        ({"search": {"method": "pairs", "max_runs": 2}}, "seeds=4"),
        ({"sizes": [8, 12]} | PAIRS, "x2"),
        pytest.param({"sizes": [64, 96]} | PAIRS, "sizes=", marks=pytest.mark.night),
        pytest.param({"search": {"method": "bisection"}}, "search.method=pairs", marks=pytest.mark.night),
        pytest.param({"search": {"method": "pairs", "aim": "decide"}}, "search.aim=factor", marks=pytest.mark.night),
        pytest.param({"search": {"method": "pairs", "aim": "factor"}}, "search.aim=locate", marks=pytest.mark.night),
    ],
    ids=["undecided", "nothing learned", "learned at the smallest size", "no pairs", "decided", "factor"],
)
def test_the_printed_next_step_trains_the_announced_runs(
    run: Program, tmp_path: Path, changes: dict[str, object], trains: str
) -> None:
    space, home = tmp_path / "asked.yaml", tmp_path / "home"
    space.write_text(spec(**changes).to_yaml())
    output = run("run", space, "--home", home, "--engine=local").succeeded()
    before, words = newest(home), printed_command(output, "next")
    assert trains in " ".join(words)
    chance = re.findall(r"^chance +In simulations .* with probability (?:under )?(\d\.\d)\.$", output, re.MULTILINE)
    assert [0 < float(share) <= 1 for share in chance] == ([True] if trains == "seeds=4" else [])
    changed_fields = [word.partition("=")[0] for flag, word in pairwise(words) if flag == "--set"]
    assert len(changed_fields) == len(set(changed_fields)), "a value is given twice"
    explained = run("explain", before, "--home", home).out
    [why] = re.findall(r"^next +(.*)$", output, re.MULTILINE)
    assert why in " ".join(explained.split())
    [line] = re.findall(r"^ +orchestrator (.*)$", explained, re.MULTILINE)
    assert set(shlex.split(line)[2:]) <= set(words), "explain gives the same options, and the sweep's own space"
    run(*(words if trains == "x2" else [*shlex.split(line), "--engine=local"])).succeeded()
    assert newest(home) != before
    assert any(not entry.trained_for for entry in ended(home, newest(home)))


OPTIONS = {option.name: option for option in fields(RunOptions) if "option" in option.metadata}
GIVEN: list[dict[str, Any]] = [
    {},
    {"profile": "smoke", "variant": "odd", "overrides": ["seeds=5", "mixes=[add, 'add x2']"], "max_time": "2h"},
    {"stack": "auto", "gpu_fraction": "0.5", "scratch": Path("/tmp/a b"), "address": "10.0.0.1:6379"},
    {"home": Path("else where").absolute(), "engine": "local", "record": "jsonl"},
    {"dashboard": True, "quiet": True, "fresh": True, "extend": "other-1"},
    {"resume": "other-1", "retry_failed": True},
]


def values(options: RunOptions) -> dict[str, object]:
    return {name: getattr(options, name) for name in OPTIONS}


@pytest.mark.parametrize("given", GIVEN)
def test_a_printed_resume_line_is_parsed_as_the_same_options(given: dict[str, Any]) -> None:
    options = RunOptions(space="my space.yaml", **given)
    assert shlex.split(options.resumed("asked-1"))[:2] == ["orchestrator", "run"]
    words = with_bare_resume(shlex.split(options.resumed("asked-1"))[1:])
    program = typer.Typer()
    program.command()(run_command)
    params = typer.main.get_command(program).make_context("run", words[1:]).params
    assert params["spaces"] == ["my space.yaml"]
    again = RunOptions(**{name: params[name] for name in OPTIONS})
    once = {name: option.default for name, option in OPTIONS.items() if option.metadata["once"]}
    wanted = {"overrides": []} | given | once | {"resume": "asked-1"}
    assert values(again) == values(RunOptions(**wanted))


@pytest.mark.parametrize(("first", "second"), [pair[:2] for pair in EXCLUDED])
def test_options_that_exclude_each_other_are_refused(run: Program, first: str, second: str) -> None:
    words = {"resume": ["--resume"], "extend": ["--extend", "x"], "address": ["--address", "x"]}
    words["local"] = ["--engine", "local"]
    given = [word for name in (first, second) for word in words.get(name, [f"--{name.replace('_', '-')}"])]
    ended = run("run", "add_vs_add_prod", *given)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.rstrip().endswith(": use only one")


def test_an_unknown_engine_is_refused(run: Program) -> None:
    refused = run("run", "add_vs_add_prod", "--engine", "locl")
    assert (refused.code, refused.out) == (2, "")
    assert "unknown engine 'locl'. Did you mean 'local'" in refused.err


def test_printed_lines_can_be_pasted_and_a_tilde_is_the_home_directory(
    run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, home = tmp_path / "ann", "~/a home; of mine"
    user.mkdir()
    monkeypatch.setenv("HOME", str(user))
    (user / "asked.yaml").write_text(spec(sizes=[16, 64], seeds=1).to_yaml())
    output = run("run", "~/asked.yaml", f"--home={home}", "--engine=local").succeeded()
    expanded = user / "a home; of mine"
    sweep_id = newest(expanded)
    lines = re.findall(r"(?<![/-])\borchestrator ((?:plan|run|explain|ui)\b[^`\n]*)", output)
    assert [line.split()[0] for line in lines] == ["plan", "run", "explain", "ui"]
    assert run(*shlex.split(lines[0])).code == 0
    lines.append(run("explain", sweep_id, "--home", home).out.strip().splitlines()[-1])
    for line in lines[1:]:
        words = shlex.split(line)
        assert words[words.index("--home") + 1] == str(expanded)
    assert run("report", sweep_id, "--home", home, "--output=~/report.html").code == 0
    assert run("figure", sweep_id, "--home", home, "--output=~/figure.svg").code == 0
    visible = {path.name for path in user.iterdir() if path.name != ".cache"}  # For Matplotlib's fonts.
    assert visible == {"asked.yaml", expanded.name, "report.html", "figure.svg"}
    assert api.load(sweep_id, home=home).id == sweep_id
    assert not (tmp_path / "~").exists()
