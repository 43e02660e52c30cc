"""Several campaigns that share the slots of an engine. For the engine, they are one :class:`Work`.

A sweep is a *course*: a generator that yields the campaigns that it needs trained, one after another, and continues
when each has ended. A course begins when no campaign can use an idle slot. So the sweeps that began first have their
answers first, and no slot is idle while a sweep could use it.
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

Course = Generator[Campaign, None, None]
"""The campaigns of one sweep. All have the sweep's id."""
SLACK = 1e-9
"""Shares of a machine such as 1/3 do not sum to 1 exactly."""


@dataclass(frozen=True)
class OwnStack(Stack):
    """A stack of one of several sweeps, which may have stacks of the same runs."""

    sweep_id: str

    @property
    def id(self) -> str:
        return f"{self.sweep_id}/{super().id}"


@dataclass(eq=False)
class _Member:
    """A course that has begun.

    Attributes:
        campaign: What it needs trained now.
        taken: Ids in the campaign of the stacks whose workers have not ended.
        turn: When the campaign got its last slot.
    """

    course: Course
    campaign: Campaign
    taken: set[str] = field(default_factory=set)
    turn: int = 0


class Group(Work):
    """Campaigns that share an engine's slots. An idle slot goes to the campaign that uses the smallest share of the
    machine, among those that can use it. Of two with equal shares, the one that has waited longer gets it.

    Campaigns may have stacks of different resources. If a stack needs more than an idle slot has, its campaign waits
    until enough of the machine is idle at once, which may be when the others end.

    A campaign that stops, for example because its family broke its contract, does not stop the others. If the engine
    stops, all of them do.
    """

    def __init__(self, courses: Iterable[Course], slots: Callable[[Resources], int]) -> None:
        """Make a group of sweeps that begin in this order. ``slots`` is that of the engine."""
        self._coming = deque(courses)
        self._members: dict[str, _Member] = {}
        """Courses that have begun, by the id of the sweep."""
        self._slots = slots
        self._turns = itertools.count(1)
        self._interrupted = False

    @property
    def campaigns(self) -> list[Campaign]:
        """The campaigns that are being trained."""
        return [member.campaign for member in list(self._members.values())]

    def begin(self) -> bool:
        """Go on with the courses whose campaigns have ended. If none is being trained, begin the next. Return True if
        there is something to train. Call this before and after each ``execute`` of the engine."""
        self._go_on()
        while self._coming and not (self._members or self._interrupted):
            self._begin_next()
            self._go_on()
        return bool(self._members)

    def interrupt(self) -> None:
        """Stop all campaigns, and begin no other. A signal may call this at any moment."""
        self._interrupted = True
        for campaign in self.campaigns:
            campaign.stopping = True

    def throw(self, error: Exception) -> bool:
        """Raise the exception with which the engine ended in every course, and begin no other. Return False if there
        was no course to raise it in."""
        self._interrupted = True
        members, self._members = self._members, {}
        for member in members.values():
            try:
                member.course.throw(error)
            except StopIteration:
                continue
        return bool(members)

    def _begin_next(self) -> None:
        self._advance(self._coming.popleft())

    def _go_on(self) -> None:
        """Go on with the courses whose campaigns are done and have no worker any more."""
        for sweep_id, member in list(self._members.items()):
            if member.campaign.done and not member.taken:
                del self._members[sweep_id]
                self._advance(member.course)

    def _advance(self, course: Course) -> None:
        campaign = next(course, None)
        if campaign is None:
            return
        member = _Member(course, campaign)
        campaign.slots = lambda resources: self._slots_of(member, resources)
        self._members[campaign.setup.sweep_id] = member
        if self._interrupted:  # Looked at last, because a signal may arrive at any moment.
            campaign.stopping = True

    def _slots_of(self, member: _Member, resources: Resources) -> int:
        """Return the number of slots that a campaign can have now: those that are idle, and its own."""
        others = sum(self._share(other) for other in self._members.values() if other is not member)
        return int(self._slots(resources) * (1 - others) + SLACK)

    def _share(self, member: _Member) -> float:
        """Return the share of the machine that the stacks of a campaign use."""
        return len(member.taken) / self._slots(member.campaign.resources)

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
        return [f"{sweep_id}/{own_id}" for sweep_id, member in self._members.items() for own_id in member.taken]

    def next_stack(self) -> Stack | None:
        self._go_on()
        while not self.stopping:
            for member in sorted(self._members.values(), key=self._order):
                if (stack := member.campaign.next_stack()) is not None:
                    member.turn = next(self._turns)
                    member.taken.add(stack.id)
                    return OwnStack(stack.jobs, member.campaign.setup.sweep_id)
            if not (self._coming and self._has_idle_slot()):
                break
            self._begin_next()
        return None

    def _order(self, member: _Member) -> tuple[float, int]:
        return self._share(member), member.turn

    def _has_idle_slot(self) -> bool:
        """Return True if a stack like those of any campaign could start."""
        members = self._members.values()
        return not members or any(len(member.taken) < member.campaign.at_once for member in members)

    def job(self, stack: Stack) -> StackJob:
        member, _ = self._owner(stack.id)
        return member.campaign.job(Stack(stack.jobs))

    def foresee(self, stack: Stack) -> Iterator[Job]:
        member, _ = self._owner(stack.id)
        return member.campaign.foresee(Stack(stack.jobs))

    def poll(self) -> None:
        self._go_on()
        for campaign in self.campaigns:
            campaign.poll()

    def is_over(self, stack_id: str) -> bool:
        member, own_id = self._owner(stack_id)
        return member.campaign.is_over(own_id)

    def may_be_killed(self, stack_id: str) -> bool:
        member, own_id = self._owner(stack_id)
        return member.campaign.may_be_killed(own_id)

    def take_in(self, stack_id: str, report: StackReport) -> None:
        member, own_id = self._owner(stack_id)
        member.campaign.take_in(own_id, report)

    def stack_ended(self, stack_id: str) -> None:
        campaign, own_id = self._freed(stack_id)
        campaign.stack_ended(own_id)

    def stack_failed(self, stack_id: str, error: str, *, retries: int = 0) -> None:
        campaign, own_id = self._freed(stack_id)
        campaign.stack_failed(own_id, error, retries=retries)

    def stack_left(self, stack_id: str, why: str) -> None:
        campaign, own_id = self._freed(stack_id)
        campaign.stack_left(own_id, why)

    def stack_met_machine_error(self, stack_id: str, error: str, *, can_retry: bool = True) -> None:
        campaign, own_id = self._freed(stack_id)
        campaign.stack_met_machine_error(own_id, error, can_retry=can_retry)

    def engine_met_machine_error(self, error: str) -> None:
        for member in self._members.values():
            member.taken.clear()
        training = [campaign for campaign in self.campaigns if campaign.stacks]
        for campaign in training or self.campaigns:
            campaign.engine_met_machine_error(error)

    def stop(self, error: str) -> None:
        self._interrupted = True
        for campaign in self.campaigns:
            campaign.stop(error)

    def _owner(self, stack_id: str) -> tuple[_Member, str]:
        """Return the sweep of a stack, and the stack's id in it."""
        sweep_id, _, own_id = stack_id.partition("/")
        return self._members[sweep_id], own_id

    def _freed(self, stack_id: str) -> tuple[Campaign, str]:
        """Note that a stack has no worker any more. Return its campaign and its id there."""
        member, own_id = self._owner(stack_id)
        member.taken.discard(own_id)
        return member.campaign, own_id
