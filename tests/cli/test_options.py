"""Options that several commands have."""

from __future__ import annotations

from inspect import signature
from typing import Any, get_args, get_type_hints

import pytest

from orchestrator.cli.run import reproduce_command, run_command


def described(command: Any) -> dict[str, tuple[str, str]]:
    """Return help and placeholder of a command's options, by the name of the parameter."""
    hints = get_type_hints(command, include_extras=True)
    known = {}
    for name, parameter in signature(command).parameters.items():
        written = get_args(hints.get(name, parameter.annotation))
        if len(written) > 1:
            known[name] = (written[1].help, written[1].metavar)
    return known


@pytest.mark.parametrize("option", ["home", "address", "engine"])
def test_an_option_of_two_commands_is_described_once(option: str) -> None:
    in_run, in_reproduce = described(run_command)[option], described(reproduce_command)[option]
    assert in_run[0]
    assert in_run == in_reproduce
