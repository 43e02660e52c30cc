"""Which runs are trained together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.search.base import Request
from orchestrator.stacks.stacking import Stack, Ticket, next_stack
from trainables.base import Mix, RunConfig


def ticket(size: int, seed: int) -> Ticket:
    return Ticket(
        Request("add", size, seed), RunConfig(Mix.parse("add"), size, seed, None), f"{size}-{seed}", f"n-{size}"
    )


TICKETS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), min_size=1, max_size=20, unique=True).map(
    lambda pairs: [ticket(*pair) for pair in pairs]
)


@given(wanted=TICKETS, free=st.integers(1, 5), most=st.integers(1, 6))
def test_a_stack_holds_the_most_urgent_run_and_only_its_shape(wanted: list[Ticket], free: int, most: int) -> None:
    stack = next_stack(wanted, free, most)
    assert stack.tickets[0] == wanted[0]
    assert {one.shape for one in stack.tickets} == {wanted[0].shape}
    assert 1 <= len(stack.tickets) <= most


@given(wanted=TICKETS, free=st.integers(1, 5), most=st.integers(1, 6))
def test_no_slot_idles_while_another_could_share_its_runs(wanted: list[Ticket], free: int, most: int) -> None:
    """Handing out stacks to every free slot leaves one idle only when there are fewer runs than slots."""
    left, used = list(wanted), 0
    while left and used < free:
        stack = next_stack(left, free - used, most)
        left = [one for one in left if one not in stack.tickets]
        used += 1
    assert used == min(free, len(wanted))


def test_six_runs_of_one_size_fill_two_slots_evenly() -> None:
    wanted = [ticket(64, seed) for seed in range(6)]
    assert len(next_stack(wanted, free=2, max_stack=4).tickets) == 3
    assert len(next_stack(wanted, free=1, max_stack=4).tickets) == 4


def test_a_stack_is_known_by_its_runs_in_their_order() -> None:
    first, second = ticket(8, 0), ticket(8, 1)
    assert Stack((first, second)).id == Stack((first, second)).id
    assert Stack((first, second)).id != Stack((second, first)).id
    assert Stack((first,)).id.startswith("n-8-x1-")
