"""Environment variables that Ray cannot read are reported before a sweep starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.engine.ray.variables import check_readable, set_by_user
from orchestrator.errors import UserError
from tests.cli.program import line, process
from tests.engine.nodes import PLAIN


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("RAY_NUM_REDIS_GET_RETRIES", "ValueError: invalid literal for int"),
        ("RAY_CGRAPH_get_timeout", "ValueError: invalid literal for int"),
        ("RAY_memory_usage_threshold", "its process ends with SIG"),
    ],
)
def test_a_variable_that_breaks_the_import_of_ray_is_named(name: str, problem: str) -> None:
    """Ray's core would end this process."""
    with pytest.raises(UserError, match=rf"^Ray cannot read {name} in .* unset it \({problem}") as refused:
        check_readable(PLAIN | {name: "x", "RAY_memory_monitor_refresh_ms": "0"})
    assert "refresh_ms" not in str(refused.value)


def test_variables_that_ray_can_read_are_accepted() -> None:
    check_readable(PLAIN | {"RAY_memory_usage_threshold": "0.9", "RAY_NUM_REDIS_GET_RETRIES": "7"})
    assert set_by_user({"RAY_TMPDIR": "/tmp", "RAY_AUTH_MODE": "token", "RAY_ADDRESS": "auto", "PATH": "/bin"}) == []


def test_variables_set_by_ray_itself_do_not_count_as_set_by_the_user() -> None:
    """They are present when a process starts Ray a second time."""
    assert set_by_user({"RAY_CLIENT_MODE": "0", "RAY_USAGE_STATS_ENABLED": "1"}) == []
    assert set_by_user({"RAY_USAGE_STATS_ENABLED": "yes"}) == ["RAY_USAGE_STATS_ENABLED"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_sweep_with_an_unreadable_ray_variable_is_refused_before_it_begins(tmp_path: Path) -> None:
    words = line("run", "add_vs_add_prod", "--profile", "smoke", "--home", tmp_path / "home")
    refused = process(words, environment=PLAIN | {"RAY_OVERRIDE_RESOURCES": "x"}, within_s=580).refused()
    assert "RAY_OVERRIDE_RESOURCES in this environment: correct or unset it" in refused.splitlines()[-1]
    assert not (tmp_path / "home" / "sweeps").exists()
