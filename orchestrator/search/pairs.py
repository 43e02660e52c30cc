"""The statistical searcher: pairs of runs that decide a comparison and raise its factor, then runs that locate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from orchestrator.search.base import (
    EvidenceSettings,
    MixProgress,
    Problem,
    Request,
    Results,
    Searcher,
    SearchSettings,
    check_range,
    requests_of,
)
from orchestrator.search.duel import Duel
from orchestrator.search.locating import Location
from orchestrator.search.results import by_mix, cost_model, learned_runs
from orchestrator.transition.evidence import Block

MOST_RUNS = 1_000_000
LEAST_COST_S = 1e-3
"""The least a mix may cost: less would ask for nothing."""
RAISING = 2 / 3
"""If transitions are to be located too, a factor is raised while a mix has used less than this share of its budget."""


@dataclass(frozen=True)
class PairsSettings(EvidenceSettings):
    """Settings under ``search:`` with ``method: pairs``."""

    aim: Literal["decide", "factor", "locate"] = "locate"
    """``decide`` ends once each comparison is decided; ``factor`` then raises the certified factor; ``locate`` then
    also places every mix's transition."""
    max_runs: int = 48
    """Most runs of a mix; a baseline has them once for each mix compared with it."""
    max_cost: float | None = None
    """Most seconds of training for a mix, of one core if cores train; a baseline has them once for each mix compared
    with it."""

    @property
    def most_spent(self) -> float:
        """``max_cost``, infinite if there is none."""
        return math.inf if self.max_cost is None else self.max_cost

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("max_runs", self.max_runs, 1, MOST_RUNS)
        check_range("max_cost", self.most_spent, LEAST_COST_S, math.inf)


class Pairs(Searcher):
    """Asks for blocks where each comparison's own pairs let its evidence grow most for the cost, then for the runs that
    say most about each transition. The mix with the fewest pending runs, then the fewest runs, is served next."""

    Settings: ClassVar[type[SearchSettings]] = PairsSettings
    settings: PairsSettings

    def __init__(self, problem: Problem, **settings: Any) -> None:
        super().__init__(problem, **settings)
        self.locations: dict[str, tuple[object, Location]] = {}
        self.duels: dict[str, tuple[object, Duel]] = {}

    def choose(self, results: Results, pending: Sequence[Request], limit: int) -> Sequence[Request | Block]:
        turn = _Turn(self, results, pending)
        wanted: list[Request | Block] = list(turn.unfinished()[:limit])
        turn.start(wanted)
        while turn.started < limit and (found := turn.next(limit - turn.started)):
            turn.start(found)
            wanted += found
        return wanted

    def progress(self) -> list[MixProgress]:
        turn = _Turn(self, self.results, ())
        return [self.as_stopped(turn.progress(mix)) for mix in self.problem.mixes]


class _Turn:
    """One decision: what is known and pending, and what was chosen so far."""

    def __init__(self, searcher: Pairs, results: Results, pending: Sequence[Request]) -> None:
        self._searcher, self._settings, self._problem = searcher, searcher.settings, searcher.problem
        self._results = results
        self._known = by_mix(self._problem, results)
        self._costs = cost_model(results)
        self._learned = learned_runs(results, self._settings.learned)
        self._seconds = {
            (run.mix, run.size, run.seed): seen.cost for run, seen in results.items() if run.is_evidence and seen
        }
        self._taken = dict.fromkeys(pending)
        self._blocks: dict[tuple[str, str], list[Block]] = {pair: [] for pair in self._problem.comparisons}
        for block in searcher.blocks:
            if (block.mix, block.baseline) in self._blocks:
                self._blocks[block.mix, block.baseline].append(block)
        self._offers: dict[tuple[str, str], list[Block]] = {}
        self.started = 0

    def unfinished(self) -> list[Request]:
        """Return the runs of blocks asked for earlier that are neither known nor pending, as after a resume."""
        sizes, seeds = set(self._problem.sizes), set(self._problem.seeds)
        runs = [
            run
            for (mix, baseline), blocks in self._blocks.items()
            if not {mix, baseline} & self._searcher.stopped
            for block in blocks
            for run in requests_of(block)
            if run.size in sizes and run.seed in seeds  # A sweep that extends another may ask for fewer.
        ]
        return [run for run in dict.fromkeys(runs) if run not in self._results and run not in self._taken]

    def next(self, room: int) -> list[Request | Block]:
        """Return what is wanted next, of the mix whose turn it is; empty if nothing is."""
        pending = {mix: sum(run.mix == mix for run in self._taken) for mix in self._problem.mixes}
        order = sorted(self._problem.mixes, key=lambda mix: (pending[mix], len(self._known[mix])))
        return next((found for mix in order if (found := self._wanted(mix, room))), [])

    def start(self, wanted: Sequence[Request | Block]) -> None:
        """Count chosen runs as pending."""
        for item in wanted:
            runs = requests_of(item) if isinstance(item, Block) else (item,)
            for run in runs:
                if run not in self._results and run not in self._taken:
                    self._taken[run] = None
                    self.started += 1
            if isinstance(item, Block):
                self._blocks[item.mix, item.baseline].append(item)
        self._offers.clear()

    def progress(self, mix: str) -> MixProgress:
        """Return the state of the search for a mix."""
        settings = self._settings
        under, over = self._location(mix).bracket
        waiting = sum(run.mix == mix for run in self.unfinished())
        open_ = any(self._offer(pair) for pair in self._problem.comparisons if mix in pair)
        done = not (waiting or open_ or self._wanted(mix, 1))
        cells = len(self._problem.sizes) * len(self._problem.seeds)
        left = 0 if done else max(min(settings.max_runs * self._share(mix), cells) - len(self._known[mix]), waiting)
        return MixProgress(mix, under, over, left, done, self._note(mix))

    def _note(self, mix: str) -> str:
        notes = [str(self._location(mix))]
        for pair in self._problem.comparisons:
            if pair[0] == mix:
                comparison = self._duel(pair).comparison
                decided = "" if comparison.decided is None else f", decided: {comparison.decided}"
                notes.insert(0, f"evidence {comparison.highest:.3g}:1{decided}")
        return "; ".join(notes)

    def _wanted(self, mix: str, room: int) -> list[Request | Block]:
        """What one mix wants next."""
        mine = [pair for pair in self._problem.comparisons if mix in pair]
        for pair in mine:
            if pair[0] == mix and (blocks := self._offer(pair)):
                return list(blocks[: max(1, room // 2)])
        if (self._settings.aim != "locate" and mine) or any(self._offer(pair) for pair in mine):
            return []
        if mix in self._searcher.stopped or not self._has_budget(mix):
            return []
        runs = self._settings.max_runs * self._share(mix) - self._used(mix)[0]
        most = min(self._searcher.stack, room, int(runs))
        return list(self._location(mix).next_runs(self._results, self._taken, self._costs, most))

    def _offer(self, pair: tuple[str, str]) -> list[Block]:
        """The next blocks of a comparison."""
        if pair not in self._offers:
            self._offers[pair] = self._place(pair)
        return self._offers[pair]

    def _place(self, pair: tuple[str, str]) -> list[Block]:
        if set(pair) & self._searcher.stopped or not all(map(self._has_budget, pair)):
            return []
        duel, aim = self._duel(pair), self._settings.aim
        raises = aim == "factor" or (aim == "locate" and self._has_budget(pair[0], RAISING))
        if duel.comparison.decided is not None and not raises:
            return []
        runs = min(self._settings.max_runs * self._share(mix) - self._used(mix)[0] for mix in pair)
        return duel.place(self._blocks[pair], max(1, min(self._searcher.stack // 2, int(runs))))

    def _has_budget(self, mix: str, share: float = 1.0) -> bool:
        runs, cost = self._used(mix)
        share *= self._share(mix)
        return runs < share * self._settings.max_runs and cost < share * self._settings.most_spent

    def _share(self, mix: str) -> int:
        """How many times the budget of one mix a mix has."""
        return max(sum(baseline == mix for _, baseline in self._problem.comparisons), 1)

    def _used(self, mix: str) -> tuple[int, float]:
        """Runs of a mix that ended or are pending, and their cost, as far as it is known."""
        flying = [self._costs.cost(run.size) for run in self._taken if run.mix == mix]
        spent = sum(seen.cost for _, seen in self._known[mix] if seen is not None)
        return len(self._known[mix]) + len(flying), spent + sum(flying)

    def _duel(self, pair: tuple[str, str]) -> Duel:
        """The comparison as its own blocks show it. The last one is reused while nothing of it has changed."""
        blocks = self._blocks[pair]
        outcomes = [tuple(self._learned.get(run, "open") for run in block.runs) for block in blocks]
        state = [(block, outcome) for block, outcome in zip(blocks, outcomes, strict=True) if "open" not in outcome]
        kept = self._searcher.duels.get(pair[0])
        if kept is None or kept[0] != state:
            duel = Duel(self._problem, *pair, blocks, self._learned, self._seconds, self._settings.error)
            kept = self._searcher.duels[pair[0]] = state, duel
        return kept[1]

    def _location(self, mix: str) -> Location:
        """The mix's transition as all of its runs show it. The last one is reused while they are the same."""
        state = [(run, outcome) for run, outcome in self._learned.items() if run[0] == mix]
        kept = self._searcher.locations.get(mix)
        if kept is None or kept[0] != state:
            kept = self._searcher.locations[mix] = state, Location(self._problem, mix, dict(state))
        return kept[1]
