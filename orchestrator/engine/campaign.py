"""A sweep under way: what is wanted, what is training, what has ended. It knows no Ray; engines drive it.

The order of events for a run that ends is always the same: its files are written, the journal
holds it, the searcher is told, everybody who listens hears of it. A crash between any two of them loses nothing. A run
that is wanted and lies in the home already goes the same way without training; one that another sweep is training is
waited for. Of an arm of several phases each is a run, which waits for the one that it goes on from.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from orchestrator.engine.patience import Patience
from orchestrator.engine.queue import Queue
from orchestrator.engine.running import Running, Training
from orchestrator.search.base import BY_HAND, Observation, Request, Searcher
from orchestrator.space.evidence import observe
from orchestrator.stacks import Stack, StackSizes, Ticket
from orchestrator.store.files import SweepFiles
from orchestrator.store.journal import Ended, Journal, Stopped
from orchestrator.store.records import Sweep
from orchestrator.store.runs import SweepRuns
from orchestrator.store.trouble import trouble_words
from orchestrator.store.underway import Underway
from trainables.base import Evaluation, Family, Outcome, Status


def _ignore(entry: Ended) -> None:
    """Nobody listens for ends."""


def _do_nothing() -> None:
    """Nobody listens for changes, or asks for anything."""


def _never() -> bool:
    """Nobody falls behind."""
    return False


class Campaign:
    """Decides which stack starts next and takes in what comes back. Called from the driver's thread only.

    ``limits`` are the largest stacks, by size, where a larger one ran out of memory; they hold for larger sizes, too.
    ``known`` is what the journal holds already; ``say`` is told of damaged files and of trouble; ``seen`` says what the
    searcher learns from an outcome for the target.

    Trouble of the machine is no outcome. A stack that meets it is tried again a few times; after that, and where what
    the driver itself writes meets it, the sweep is stopping, and ``trouble`` says why (``""`` otherwise).
    """

    def __init__(
        self,
        sweep: Sweep,
        searcher: Searcher,
        journal: Journal,
        *,
        slots: int,
        sizing: StackSizes,
        interrupted: Sequence[Sequence[Request]] = (),
        known: Sequence[Ended] = (),
        say: Callable[[str], object] = warnings.warn,
        seen: Callable[[Outcome, str], Observation | None] | None = None,
    ) -> None:
        self.sweep = sweep
        self.searcher = searcher
        self.slots = slots
        self.sizing = sizing
        self.limits: dict[int, int] = {}
        self.stopping = False
        self.trouble = ""
        self.say = say
        self._running = Running()
        self._family: Family = sweep.spec.make_family()
        self._journal = journal
        self._seen = seen or observe
        self._on_end: Callable[[Ended], None] = _ignore
        self._on_change: Callable[[], None] = _do_nothing
        self._behind: Callable[[], bool] = _never
        self._heed: Callable[[], None] = _do_nothing
        self._runs = SweepRuns(SweepFiles(sweep.directory), say)
        self._patience = Patience()
        self._underway = Underway(SweepFiles(sweep.directory))
        self._kept = {entry.key: entry.outcome for entry in known}
        self._queue = Queue(
            self._family,
            self._runs,
            ticket=self.ticket,
            before=sweep.spec.before,
            take=self._take,
            kept=self._kept,
            out=self._running.ticket,
            interrupted=[Stack(tuple(map(self.ticket, requests))) for requests in interrupted],
        )
        self._alone: set[str] = set()
        self._failed: Counter[str] = Counter()

    @property
    def done(self) -> bool:
        """True when nothing is training or waiting and the searcher wants nothing more, or the sweep is stopping."""
        return self.stopping or (not self.training and self._queue.empty and self.searcher.done)

    @property
    def training(self) -> dict[str, Training]:
        """The runs in training, by key."""
        return self._running.runs

    def has_shown(self, stack_id: str) -> bool:
        """Whether a run of this stack has come to an evaluation since the stack was started."""
        return self._running.has_shown(stack_id)

    def given_up(self, stack_id: str) -> bool:
        """Whether nothing that a stack trains is wanted any more."""
        return self._running.given_up(stack_id)

    def listen(
        self,
        on_end: Callable[[Ended], None],
        on_change: Callable[[], None],
        behind: Callable[[], bool] = _never,
        heed: Callable[[], None] = _do_nothing,
    ) -> None:
        """Call ``on_end`` with every run that ends, once it is safe, and ``on_change`` after anything happened; start
        nothing while a listener says that it is ``behind``. ``heed`` is called often: it does what people ask for
        meanwhile."""
        self._on_end, self._on_change, self._behind, self._heed = on_end, on_change, behind, heed

    def heed(self) -> None:
        """Do what people have asked for meanwhile."""
        with self._watched():
            self._heed()

    def stop_mix(self, mix: str) -> None:
        """Want no more runs of a mix. Those in training are given up, but for one that another mix waits for; those
        that ended stay."""
        if mix in self.searcher.stopped:
            return
        self._journal.append(Stopped(mix))
        self.searcher.stop(mix)
        needed = self._queue.drop(mix)
        for key, training in list(self.training.items()):
            if training.ticket.request.mix == mix and key not in needed:
                del self.training[key]
                self._runs.free(key)
        self._on_change()

    def stop_run(self, key: str) -> bool:
        """Give up a run in training: it has failed, by hand. False where none of this key is in training."""
        found = key in self.training
        self.ended(key, Outcome(Status.FAILED, 0, {}, {}, error=BY_HAND))
        return found

    def ticket(self, request: Request) -> Ticket:
        """The run a request means."""
        config = self.sweep.spec.config(request)
        return Ticket(request, config, self._family.key(config), self._family.shape(config))

    def next_stack(self) -> Stack | None:
        """The stack to start on an idle slot; None to wait (or, with :attr:`done`, because all is over)."""
        with self._watched():
            return self._next_stack()
        return None

    def _next_stack(self) -> Stack | None:
        self._heed()
        if self.stopping or self._patience.waiting or self._behind():
            return None
        free = max(1, self.slots - self._running.busy)
        self._queue.look_again()
        self._ask(free)
        if self._queue.waiting:
            self._ask(free * self._most(next(iter(self._queue.waiting.values()))))
        stack = self._queue.choose(free, self._most)
        if stack is None:
            return None
        wanted = [
            ticket
            for ticket in stack.tickets
            if self._queue.waiting.pop(ticket.key, None) is not None or not self._is_stopped(ticket)
        ]
        self._running.begin(stack, [ticket for ticket in wanted if ticket.key not in self._kept])
        self._underway.begin(stack.id, [ticket.request for ticket in stack.tickets])
        self._on_change()
        return stack

    def evaluated(self, key: str, evaluation: Evaluation) -> None:
        """A run in training reached an evaluation."""
        if key in self.training:
            self.training[key].evaluation = evaluation
            with self._watched():
                self._underway.evaluated(self.training[key].stack_id, key, evaluation)
            self._on_change()

    def ended(self, key: str, outcome: Outcome, files: Mapping[str, bytes] | None = None) -> None:
        """A run ended: its directory with ``files``, journal, searcher, listeners, in this order. A repeated report
        changes nothing. None: it failed, and is not kept."""
        training = self.training.pop(key, None)
        if training is None:
            return
        with self._watched():
            trained_for = ""
            if files is not None:
                kept = self._runs.keep(key, outcome, files)
                outcome, trained_for = kept.outcome, kept.trained_for
            self._take(training.ticket, outcome, trained_for)
            self._runs.free(key)

    def donors(self, tickets: Iterable[Ticket]) -> dict[str, bytes]:
        """The weights (safetensors) that runs go on from, by the donors' keys."""
        starts = [ticket.config.start for ticket in tickets if ticket.config.start is not None]
        keys = {self._family.key(start.donor) for start in starts}
        return {key: path.read_bytes() for key in sorted(keys) if (path := self._runs.weights(key)) is not None}

    def stack_ended(self, stack_id: str) -> None:
        """A trial ended well: every run of its stack has been reported, unless it was stopped before."""
        if self._running.ended(stack_id):
            self._underway.end(stack_id)

    def stack_failed(self, stack_id: str, error: str, *, retries: int = 0) -> None:
        """A stack failed: it goes on next, up to ``retries`` times. After that its unfinished runs are tried alone; a
        run that fails alone has failed. Where the sweep is stopping, its runs go on when it is resumed."""
        stack = self._running.over(stack_id)
        if self.stopping:
            self._running.drop(stack.tickets)
        elif self._failed[stack_id] < retries:
            self._failed[stack_id] += 1
            self._queue.go_on_with([stack], self._running.drop(stack.tickets))
        elif len(stack.tickets) == 1:
            self.ended(stack.tickets[0].key, Outcome(Status.FAILED, 0, {}, {}, error=error))
        else:
            for ticket in self._running.drop(stack.tickets):
                self._alone.add(ticket.key)
                self._queue.waiting[ticket.key] = ticket

    def stack_troubled(self, stack_id: str, trouble: str) -> None:
        """A worker gave a stack up for trouble of its machine: it goes on next, whole, after a while; where it was
        tried often enough, the sweep is stopping."""
        stack = self._running.over(stack_id)
        unfinished = self._running.drop(stack.tickets)
        if not unfinished:
            return
        self._queue.go_on_with([stack], unfinished)
        wait_s = self._patience.again_in(stack_id)
        if wait_s is None:
            self._stop(trouble)
        else:
            self.say(f"Machine error (not a result): {trouble}; retrying in {wait_s:g} s")
        self._on_change()

    def stack_broken(self, stack_id: str, why: str) -> None:
        """A family does not keep its contract: no run of it can be believed, so that the sweep is stopping."""
        self._running.drop(self._running.over(stack_id).tickets)
        self._stop(f"{why}; `check-family` looks at all of it")
        self._on_change()

    def stack_halved(self, stack_id: str, halves: Sequence[Sequence[Request]]) -> None:
        """A stack was too large for the memory of its device: its unfinished runs go on next, as these stacks, and no
        stack of this size, or of a larger one, will be larger than they are."""
        stack = self._running.over(stack_id)
        by_request = {ticket.request: ticket for ticket in stack.tickets}
        smaller = [Stack(tuple(by_request[request] for request in half)) for half in halves]
        size = stack.tickets[0].config.size
        self.limits[size] = min(self._limit(size), max(len(half.tickets) for half in smaller))
        with self._watched():
            self._underway.become(stack_id, {half.id: [ticket.request for ticket in half.tickets] for half in smaller})
        self._queue.go_on_with(smaller, self._running.drop(ticket for half in smaller for ticket in half.tickets))
        self._on_change()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """A block in which the driver writes or reads. Where its machine is in trouble, the sweep is stopping: what was
        not journalled is on disk, or trained again, when it goes on."""
        try:
            yield
        except Exception as error:
            said = trouble_words(error, self.sweep.directory)
            if not said:
                raise
            self._stop(said)

    def _stop(self, trouble: str) -> None:
        self.trouble = self.trouble or trouble
        self.stopping = True

    def _most(self, ticket: Ticket) -> int:
        """The most runs to train together with this one."""
        size = ticket.config.size
        return 1 if ticket.key in self._alone else min(self.sizing.most(size), self._limit(size))

    def _limit(self, size: int) -> int:
        """The largest stack that may fit: what ran out of memory at some size does so at every larger one."""
        return min((most for at, most in self.limits.items() if at <= size), default=sys.maxsize)

    def _ask(self, room: int) -> None:
        """Ask the searcher until so many runs wait to be trained, or it wants no more."""
        found = True
        while found and not self._behind():
            found = False
            for request in self.searcher.ask(room - len(self._queue.waiting)):
                found |= self._queue.add(self.ticket(request))

    def _take(self, ticket: Ticket, outcome: Outcome, trained_for: str) -> None:
        """Journal, searcher, listeners, in this order."""
        entry = Ended(ticket.key, ticket.request, outcome, trained_for)
        self._journal.append(entry)
        self._kept[ticket.key] = outcome
        if not entry.request.phase:
            self.searcher.tell(entry.request, self._seen(outcome, self.sweep.spec.target))
        self._on_end(entry)
        self._on_change()

    def _is_stopped(self, ticket: Ticket) -> bool:
        return ticket.request.mix in self.searcher.stopped
