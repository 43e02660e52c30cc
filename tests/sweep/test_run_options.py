"""Options of a run as Python values: converted, or refused with an example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import orchestrator as o
from orchestrator.sweep.run_options import RunOptions, from_python
from orchestrator.system.errors import UserError


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"overrides": {"seeds": 5, "search.method": "grid"}}, ["--set", "seeds=5", "--set", 'search.method="grid"']),
        ({"overrides": "seeds=5"}, ["--set", "seeds=5"]),
        ({"overrides": ("seeds=5",)}, ["--set", "seeds=5"]),
        ({"max_time": 3600}, ["--max-time", "3600.000s"]),
        ({"max_time": "2h", "profile": None, "home": None}, ["--max-time", "2h"]),
        ({"stack": 2, "gpu_fraction": 0.5}, ["--stack", "2", "--gpu-fraction", "0.5"]),
        ({"engine": "local", "fresh": False}, ["--engine", "local"]),
    ],
)
def test_options_take_python_values(options: dict[str, Any], words: list[str]) -> None:
    assert RunOptions(**from_python(options)).checked().words() == words


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1.5h", 5400), ("1h30m", 5400), ("1h 30min", 5400), ("2d", 172_800), (" 1d 12 h ", 129_600)],
)
def test_a_time_limit_may_have_several_units(text: str, seconds: float) -> None:
    assert RunOptions(max_time=text).checked().limit_s == seconds


@pytest.mark.parametrize("text", ["", "5", "1h 30", "h", "-1h", "1h-30min", "2 weeks", "1e3s"])
def test_other_text_is_not_a_time_limit(text: str) -> None:
    with pytest.raises(UserError, match="write a time such as"):
        RunOptions(max_time=text).checked()


@pytest.mark.parametrize(("given", "meant"), [(True, ""), (False, None), ("", ""), ("add-1", "add-1"), (None, None)])
def test_resume_may_be_true(given: Any, meant: str | None) -> None:
    assert RunOptions(**from_python({"resume": given})).checked().resume == meant


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ({"max_time": True}, "max_time=True cannot be used: write .*7200 .seconds."),
        ({"max_time": -5}, "--max-time '-5.000s': write a time"),
        ({"home": 5}, "home=5 cannot be used: write .*a Path"),
        ({"profile": 5}, "profile=5 cannot be used: write text"),
        ({"quiet": "no"}, "quiet='no' cannot be used: write True or False"),
        ({"address": 6379}, "address=6379 cannot be used"),
        ({"overrides": [("seeds", 1)]}, "overrides=.* cannot be used: write"),
        ({"overrides": {"seeds": object()}}, "overrides: seeds is <object"),
        ({"resume": 5}, "resume=5 cannot be used: write True"),
        ({"profil": 5}, "unknown option 'profil'. Did you mean 'profile'?"),
    ],
)
def test_options_of_a_wrong_type_are_refused_with_an_example(options: dict[str, Any], output: str) -> None:
    with pytest.raises(UserError, match=output):
        o.run("add_vs_add_prod", **options)


def test_a_missing_space_is_refused_with_a_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="space=None cannot be used"):
        o.run(None, home=tmp_path)  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    assert o.sweeps(home=None).empty
