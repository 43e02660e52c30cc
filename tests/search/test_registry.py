from __future__ import annotations

from dataclasses import fields, is_dataclass

import pytest

from orchestrator.errors import UserError
from orchestrator.search.base import Problem
from orchestrator.search.registry import METHODS, make_searcher, settings_type

PROBLEM = Problem(("add",), (8, 16, 32), (0, 1))


@pytest.mark.parametrize("method", sorted(METHODS))
def test_makes_each_method_with_its_defaults(method: str) -> None:
    searcher = make_searcher(method, PROBLEM)
    assert type(searcher) is METHODS[method]
    assert searcher.problem is PROBLEM
    assert is_dataclass(settings_type(method))
    assert isinstance(searcher.settings, settings_type(method))


def test_an_unknown_method_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"'bisecton'.*Did you mean 'bisection'\?.*Allowed: .*grid"):
        make_searcher("bisecton", PROBLEM)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_an_unknown_setting_is_refused(method: str) -> None:
    with pytest.raises(UserError, match="'nonsense'"):
        make_searcher(method, PROBLEM, nonsense=1)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_settings_refuse_what_they_do_not_know_under_pydantic_too(method: str) -> None:
    settings = settings_type(method)
    assert settings.__pydantic_config__ == {"extra": "forbid"}
    assert settings.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert all(field.default is not None or field.name.startswith("max_") for field in fields(settings))
