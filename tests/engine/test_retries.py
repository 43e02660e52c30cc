"""How often a stack is tried again, and when."""

from __future__ import annotations

import pytest

from orchestrator.engine.retries import WAITS_S, Retries


def test_a_stack_is_tried_again_as_often_as_the_engine_says() -> None:
    own = Retries()
    assert [own.count_failure("stack", 2) for _ in range(4)] == [True, True, False, False]
    assert own.count_failure("other", 2)
    assert not own.count_failure("third", 0)


def test_machine_errors_in_a_row_wait_longer_and_then_end() -> None:
    own = Retries()
    assert [own.count_machine_error("stack", 0) for _ in range(7)] == [*WAITS_S, None, None]
    assert own.count_machine_error("other", 0) == WAITS_S[0]


def test_a_stack_that_got_further_starts_over() -> None:
    own = Retries()
    steps = (100, 100, 50, 200, 150, 200)
    assert [own.count_machine_error("stack", step) for step in steps] == [*WAITS_S[:3], *WAITS_S[:3]]


def test_failures_and_machine_errors_are_counted_apart() -> None:
    own = Retries()
    own.count_failure("stack", 1)
    assert own.count_machine_error("stack", 0) == WAITS_S[0]
    assert not own.count_failure("stack", 1)


def test_no_stack_starts_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("orchestrator.engine.retries.time.monotonic", lambda: now)
    own = Retries()
    assert not own.are_paused
    own.pause(5.0)
    assert own.are_paused
    now = 104.9
    assert own.are_paused
    now = 105.0
    assert not own.are_paused
