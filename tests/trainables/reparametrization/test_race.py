"""Who is ahead, and how long a race goes on."""

from __future__ import annotations

import pytest

from trainables.errors import SettingsError
from trainables.reparametrization.race import Standing, ahead, is_over, limit
from trainables.reparametrization.settings import RaceSettings

RACE = RaceSettings(steps=1000, patience=20)
TENFOLD = RaceSettings(steps=1000, patience=20, factor=10)


def there(spent: float) -> Standing:
    return Standing(spent=spent, arrived=True)


def on_the_way(spent: float) -> Standing:
    return Standing(spent=spent)


def test_the_first_to_arrive_is_ahead() -> None:
    assert ahead({"a": there(100), "b": there(101), "c": on_the_way(1000)}, RACE) == {"a": 1, "b": 0, "c": 0}


def test_nobody_is_ahead_of_an_equal_or_without_arriving() -> None:
    assert ahead({"a": there(100), "b": there(100)}, RACE) == {"a": 0, "b": 0}
    assert ahead({"a": on_the_way(1000), "b": on_the_way(1000)}, RACE) == {"a": 0, "b": 0}


def test_one_without_rivals_is_ahead_once_it_arrives() -> None:
    assert ahead({"a": there(900)}, RACE) == {"a": 1}
    assert ahead({"a": on_the_way(1000)}, RACE) == {"a": 0}
    assert ahead({"a": there(1001)}, RACE) == {"a": 0}  # A line search that ended beyond the budget.


@pytest.mark.parametrize(("spent", "score"), [(999, 0), (1000, 0), (1001, 1)])
def test_by_ten_times_is_more_than_ten_times(spent: float, score: float) -> None:
    assert ahead({"a": there(100), "b": there(spent)}, TENFOLD)["a"] == score


def test_what_the_budget_leaves_open_is_not_ahead() -> None:
    """The rival may have needed 11 times as much, or 5.1."""
    assert ahead({"a": there(200), "b": on_the_way(1000)}, TENFOLD)["a"] == 0
    assert ahead({"a": there(99), "b": on_the_way(1000)}, TENFOLD)["a"] == 1


def test_rivals_go_on_until_patience_ends() -> None:
    standings = {"a": there(10), "b": on_the_way(150)}
    assert limit(standings, RACE) == 200
    assert not is_over(standings, 199, RACE)
    assert is_over(standings, 200, RACE)
    assert limit({"a": on_the_way(150)}, RACE) == 1000


def test_a_race_is_over_when_all_are_there_or_broken() -> None:
    assert is_over({"a": there(10), "b": Standing(spent=5, broken=True)}, 50, RACE)
    assert ahead({"a": there(10), "b": Standing(spent=5, broken=True)}, RACE) == {"a": 1, "b": 0}


def test_settings_that_cannot_tell_are_refused() -> None:
    with pytest.raises(SettingsError, match="nobody could tell who is ahead"):
        RaceSettings(factor=40)
    with pytest.raises(SettingsError, match="must be in"):
        RaceSettings(tolerance=1.0)
