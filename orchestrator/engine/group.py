"""Several campaigns that share the slots of an engine. For the engine, they are one :class:`Work`.

Each sweep is a generator (:data:`SweepCampaigns`). It yields a campaign, waits until the campaign has been trained, and
then continues. A sweep has at most two: tuning, then the search. A sweep begins only when no campaign can use an idle
slot. So the sweeps that began first have their answers first, and no slot is idle while a sweep could use it.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.messages import StackJob, StackReport
from orchestrator.engine.work import Work
from orchestrator.jobs.plan import Job, Stack
from orchestrator.jobs.resources import Resources

SweepCampaigns = Generator[Campaign, None, None]
"""The campaigns of one sweep, one after another. All have the sweep's id."""
SLACK = 1e-9
"""Rounding error to allow, because shares of a machine such as 1/3 do not sum to exactly 1."""


@dataclass(frozen=True)
class OwnStack(Stack):
    """A stack of one of several sweeps. Two sweeps may have stacks with the same runs, so the id names the sweep."""

    sweep_id: str

    @property
    def id(self) -> str:
        return f"{self.sweep_id}/{super().id}"


@dataclass(eq=False)
class _Member:
    """A sweep that has begun.

    Attributes:
        campaign: The campaign that is being trained.
        stacks: The campaign's ids of its stacks whose workers have not ended.
        turn: When the campaign got its last slot.
    """

    sweep: SweepCampaigns
    campaign: Campaign
    stacks: set[str] = field(default_factory=set)
    turn: int = 0


class Group(Work):
    """Campaigns that share an engine's slots. Among the campaigns that can use an idle slot, the campaign that uses the
    smallest share of the machine gets it. If two shares are equal, the campaign that has waited longer gets it.

    Campaigns may have stacks with different resources. If a stack needs more than an idle slot has, its campaign waits
    until enough of the machine is idle at the same time. That may take until the other campaigns end.

    A campaign that stops, for example because its family broke its contract, does not stop the others. If the engine
    stops, all of them do.
    """

    def __init__(self, sweeps: Iterable[SweepCampaigns], slots: Callable[[Resources], int]) -> None:
        """Make a group of sweeps that begin in this order. ``slots`` is the engine's function."""
        self._coming = deque(sweeps)
        self._members: dict[str, _Member] = {}
        """Sweeps that have begun, by id."""
        self._slots = slots
        self._turns = itertools.count(1)
        self._interrupted = False

    @property
    def campaigns(self) -> list[Campaign]:
        """The campaigns that are being trained."""
        return [member.campaign for member in list(self._members.values())]

    def begin(self) -> bool:
        """Resume every sweep whose campaign has ended. If no campaign is training then, start the next sweep. Return
        True if there is something to train. Call this before and after each ``execute`` of the engine."""
        self._advance_ended()
        while self._coming and not (self._members or self._interrupted):
            self._begin_next()
            self._advance_ended()
        return bool(self._members)

    def interrupt(self) -> None:
        """Stop all campaigns, and start no further sweep. A signal handler may call this at any moment."""
        self._interrupted = True
        for campaign in self.campaigns:
            campaign.stopping = True

    def throw(self, error: Exception | KeyboardInterrupt) -> bool:
        """Raise the engine's exception inside every running sweep, so that each can clean up, and start no further
        sweep. Return False if no sweep was running."""
        self._interrupted = True
        members, self._members = self._members, {}
        for member in members.values():
            try:
                member.sweep.throw(error)
            except StopIteration:
                continue
        return bool(members)

    def _begin_next(self) -> None:
        self._advance(self._coming.popleft())

    def _advance_ended(self) -> None:
        """Resume the sweeps whose campaigns are done and have no workers left."""
        for sweep_id, member in list(self._members.items()):
            if member.campaign.done and not member.stacks:
                del self._members[sweep_id]
                self._advance(member.sweep)

    def _advance(self, sweep: SweepCampaigns) -> None:
        """Run a sweep until it yields its next campaign, and train that campaign with the others."""
        campaign = next(sweep, None)
        if campaign is None:
            return
        member = _Member(sweep, campaign)
        campaign.slots = lambda resources: self._slots_of(member, resources)
        self._members[campaign.setup.sweep_id] = member
        if self._interrupted:  # Checked last, because a signal may arrive at any moment.
            campaign.stopping = True

    def _slots_of(self, member: _Member, resources: Resources) -> int:
        """Return the number of slots that a campaign can have now: the idle ones, and those that it uses."""
        # Shares, not counts, because stacks of other campaigns may have other sizes. Two stacks of half a GPU occupy
        # one slot, not two, of a campaign whose stacks need a whole GPU.
        others = sum(self._share(other) for other in self._members.values() if other is not member)
        return int(self._slots(resources) * (1 - others) + SLACK)

    def _share(self, member: _Member) -> float:
        """Return the share of the machine that the stacks of a campaign use."""
        return len(member.stacks) / self._slots(member.campaign.resources)

    @property
    def done(self) -> bool:
        return self.stopping or not (self._members or self._coming)

    @property
    def stopping(self) -> bool:
        if self._interrupted:
            return True
        return bool(self._members) and not self._coming and all(campaign.stopping for campaign in self.campaigns)

    @property
    def machine_error(self) -> str:
        errors = (campaign.machine_error for campaign in self.campaigns)
        return next(filter(None, errors), "") if self.stopping else ""

    @property
    def stacks(self) -> list[str]:
        return [f"{sweep_id}/{own_id}" for sweep_id, member in self._members.items() for own_id in member.stacks]

    def next_stack(self) -> Stack | None:
        self._advance_ended()
        while not self.stopping:
            for member in sorted(self._members.values(), key=self._order):
                if (stack := member.campaign.next_stack()) is not None:
                    member.turn = next(self._turns)
                    member.stacks.add(stack.id)
                    return OwnStack(stack.jobs, member.campaign.setup.sweep_id)
            # Every campaign has refused the slot. Only now may another sweep begin: with fewer sweeps at the same time,
            # the first answers come sooner. If none of the campaigns has a slot left, the new sweep would get none.
            if not (self._coming and self._has_idle_slot()):
                break
            self._begin_next()
        return None

    def _order(self, member: _Member) -> tuple[float, int]:
        return self._share(member), member.turn

    def _has_idle_slot(self) -> bool:
        """Return True if a stack like those of any campaign could start."""
        members = self._members.values()
        return not members or any(len(member.stacks) < member.campaign.at_once for member in members)

    def job(self, stack: Stack) -> StackJob:
        member, _ = self._owner(stack.id)
        return member.campaign.job(Stack(stack.jobs))

    def likely_next(self, stack: Stack) -> Iterator[Job]:
        member, _ = self._owner(stack.id)
        return member.campaign.likely_next(Stack(stack.jobs))

    def poll(self) -> None:
        self._advance_ended()
        for campaign in self.campaigns:
            campaign.poll()

    def should_end(self, stack_id: str) -> bool:
        member, own_id = self._owner(stack_id)
        return member.campaign.should_end(own_id)

    def may_be_killed(self, stack_id: str) -> bool:
        member, own_id = self._owner(stack_id)
        return member.campaign.may_be_killed(own_id)

    def handle_report(self, stack_id: str, report: StackReport) -> None:
        member, own_id = self._owner(stack_id)
        member.campaign.handle_report(own_id, report)

    def stack_ended(self, stack_id: str) -> None:
        campaign, own_id = self._without_worker(stack_id)
        campaign.stack_ended(own_id)

    def stack_failed(self, stack_id: str, error: str, *, retries: int = 0) -> None:
        campaign, own_id = self._without_worker(stack_id)
        campaign.stack_failed(own_id, error, retries=retries)

    def stack_moved(self, stack_id: str, reason: str) -> None:
        campaign, own_id = self._without_worker(stack_id)
        campaign.stack_moved(own_id, reason)

    def stack_met_machine_error(self, stack_id: str, error: str, *, can_retry: bool = True) -> None:
        campaign, own_id = self._without_worker(stack_id)
        campaign.stack_met_machine_error(own_id, error, can_retry=can_retry)

    def engine_met_machine_error(self, error: str) -> None:
        for member in self._members.values():
            member.stacks.clear()
        # Campaigns without a stack in training lost nothing and continue. If no campaign has a stack in training, the
        # error ended no stack, so a retry would not help, and all campaigns stop.
        training = [campaign for campaign in self.campaigns if campaign.stacks]
        for campaign in training or self.campaigns:
            campaign.engine_met_machine_error(error)

    def stop(self, error: str) -> None:
        self._interrupted = True
        for campaign in self.campaigns:
            campaign.stop(error)

    def _owner(self, stack_id: str) -> tuple[_Member, str]:
        """Return the sweep of a stack, and the id of the stack in the sweep's campaign."""
        sweep_id, _, own_id = stack_id.partition("/")
        return self._members[sweep_id], own_id

    def _without_worker(self, stack_id: str) -> tuple[Campaign, str]:
        """Note that a stack no longer has a worker. Return its campaign and its id there."""
        member, own_id = self._owner(stack_id)
        member.stacks.discard(own_id)
        return member.campaign, own_id
