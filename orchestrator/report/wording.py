"""How numbers, estimates and synergies are said in words: the same everywhere a person reads them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.cost.spent import Cost
from orchestrator.report.fairness import Standing
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import Doubt, Estimate, SizeShare, Synergy, Transition, Verdict
from trainables.words import Words

COMMON = Words()
"""Those of a family that has none of its own."""
NO_SIZE = (Verdict.PLATEAU, Verdict.NEAR_FLOOR)
"""Verdicts that name no size, so that there is no count of parameters to give either."""


def number(value: float) -> str:
    """Three significant digits, thousands apart: ``7.25``, ``37.1``, ``19 600``."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    if abs(rounded) >= 1000:
        return f"{rounded:,.0f}".replace(",", " ")
    return f"{rounded:.{max(digits, 0)}f}".rstrip("0").rstrip(".") if digits > 0 else f"{rounded:.0f}"


def exact(value: float) -> str:
    """A tested size in its own unit, unrounded: ``14 736``."""
    return f"{value:,.0f}".replace(",", " ") if float(value).is_integer() else number(value)


def estimate(found: Estimate, smallest: float, largest: float, verdict: Verdict, asymptote: float | None) -> str:
    """An estimate with its interval, or why there is none.

    ``smallest`` and ``largest`` are the ends of what was tested, in the estimate's unit; ``asymptote`` is the level
    a plateau is said to lie at. A value beyond what was tested is not said:
    nothing was seen there.
    """
    if verdict is Verdict.ABOVE:
        return f"above {exact(largest)}"
    if verdict is Verdict.BELOW:
        return f"below {exact(smallest)}"
    if verdict is Verdict.PLATEAU:
        return "plateau" if asymptote is None else f"plateau at {asymptote:.2f}"
    if verdict is Verdict.NEAR_FLOOR:
        return "too near to tell"
    if verdict is Verdict.FALLS:
        first = estimate(found, smallest, largest, Verdict.FOUND, asymptote)
        return f"{first}, falls again"
    if verdict is Verdict.UNDECIDED or found.value is None:
        return f"undecided{_bounds(found)}"
    if found.value < smallest:
        at_most = None if found.high is None or found.high <= smallest else found.high
        return f"below {exact(smallest)}{_bounds(Estimate(None, None, at_most))}"
    if found.value > largest:
        at_least = None if found.low is None or found.low >= largest else found.low
        return f"above {exact(largest)}{_bounds(Estimate(None, at_least, None))}"
    low = f"below {exact(smallest)}" if found.low is None else number(found.low)
    high = f"above {exact(largest)}" if found.high is None else number(found.high)
    return f"{number(found.value)} [{low}, {high}]"


def _bounds(found: Estimate) -> str:
    """What is known of an undecided estimate: an interval, or the one side that is."""
    if found.low is not None and found.high is not None:
        return f" [{number(found.low)}, {number(found.high)}]"
    if found.low is not None:
        return f", at least {number(found.low)}"
    return "" if found.high is None else f", at most {number(found.high)}"


def learned(name: str, found: Transition, words: Words = COMMON) -> str:
    """How many of the seeds tried learned, from the last size that none did to the first that all do from there on, and
    where half of all seeds learn; ``""`` where that is not known.

    ``add: learned by 0/2 at 8 (none below), 1/4 at 10, 5/5 at 14 (all above); half of all seeds learn at 10.4 [9.2,
    11.9]``
    """
    if not found.shares:
        return ""
    told = _telling(found.shares)
    tried = [f"{each.learned}/{each.tried} at {exact(each.size)}" for each in told]
    tried[0] += "" if told[0] is found.shares[0] else " (none below)"
    tried[-1] += "" if told[-1] is found.shares[-1] else " (all above)"
    counts = ", ".join(tried)
    half = _half(found.half)
    said = f"{name}: {words.learned} by {counts}" + (f"; half of all seeds {words.learn} {half}" if half else "")
    return f"{said}; single runs {words.learn} or do not, with little in between" if found.bimodal else said


def _telling(shares: Sequence[SizeShare]) -> Sequence[SizeShare]:
    """The sizes without those under the last one, of the smallest, that nobody learned, and those beyond the first one,
    of the largest, that everybody did."""
    start, end = 0, len(shares)
    while start + 1 < end and shares[start + 1].learned == 0:
        start += 1
    while end - 2 >= start and all(share.learned == share.tried for share in shares[end - 2 : end]):
        end -= 1
    return shares[start:end]


def _half(found: Estimate) -> str:
    if found.value is not None:
        low = "below" if found.low is None else number(found.low)
        high = "above" if found.high is None else number(found.high)
        return f"at {number(found.value)} [{low}, {high}]"
    if found.low is not None and found.high is not None:
        return f"between {number(found.low)} and {number(found.high)}"
    if found.low is not None:
        return f"above {exact(found.low)}"
    return "" if found.high is None else f"below {exact(found.high)}"


def near_floor(name: str, found: Transition) -> str:
    """Why nothing is said of a task whose best constant answer is nearly good enough; ``""`` for the others."""
    if found.verdict is not Verdict.NEAR_FLOOR or found.floor is None or found.level is None:
        return ""
    return (
        f"{name}: its best constant answer scores {found.floor:.2f}, and {found.level:.2f} counts as learned: "
        "too near to tell"
    )


def synergy(mix: str, baseline: str, found: Synergy, kind: str = "parameters", standing: Standing | None = None) -> str:
    """What a mix saves against the baseline, in one sentence that claims no more than is known: at one recipe.

    ``standing`` says how far "no reduction" carries; without it, only to this budget.
    """
    times_so, span = _decided(found)
    compares = f"{kind} than {baseline}{span}"
    if times_so.endswith("fewer"):
        return f"{mix} needs {times_so} {compares} at this recipe"
    if times_so:
        return _no_less(mix, f"{times_so} {compares}", standing)
    if found.low is None and found.high is None and found.value is None:
        return f"undecided: there is no transition by which to compare {mix} with {baseline}"
    if found.low is not None and found.high is not None and found.low < 1 < found.high:
        fewer, more = times(found.high), times(1 / found.low)
        return f"undecided: {mix} may need up to {fewer} fewer or up to {more} more {compares}"
    return f"undecided: {mix} needs {_left_open(found, f' {compares}')}"


def saving(found: Synergy) -> str:
    """The same where mix and baseline are named beside it: ``2.9x fewer [2.0, 4.9]``, ``undecided: 5.6x fewer to 1.5x
    more``."""
    times_so, span = _decided(found)
    if not times_so and found.low is None and found.high is None and found.value is None:
        return "undecided: no transition to compare"
    return f"{times_so}{span}" if times_so else f"undecided: {_left_open(found)}"


def _decided(found: Synergy) -> tuple[str, str]:
    """How many times more or fewer, and the interval in brackets (``""`` where a side is open): ``2.9x fewer`` and
    `` [2.0, 4.9]``; nothing where nothing is decided."""
    if found.decided and found.low is not None and found.low >= 1:
        if found.value is None or found.high is None:
            return f">= {times(found.low)} fewer", ""
        return f"{times(found.value)} fewer", f" [{bare(found.low)}, {bare(found.high)}]"
    if found.decided and found.high is not None and found.high <= 1:
        if found.value is None or found.low is None:
            return f">= {times(1 / found.high)} more", ""
        return f"{times(1 / found.value)} more", f" [{bare(1 / found.high)}, {bare(1 / found.low)}]"
    return "", ""


def _left_open(found: Synergy, what: str = "") -> str:
    """What a comparison that decides nothing leaves possible, of ``what``: ``5.6x fewer to 1.5x more parameters``."""
    if found.low is None and found.high is None:
        assert found.value is not None, "who calls this has looked"
        return f"{compared(found.value)}{what}, without an interval"
    if found.low is not None and found.high is not None:
        span = f"{compared(found.high)} to {compared(found.low)}"
    elif found.low is not None:
        span = f"{'at most' if found.low < 1 else 'at least'} {compared(found.low)}"
    else:
        assert found.high is not None
        span = f"{'at least' if found.high < 1 else 'at most'} {compared(found.high)}"
    one_sided = (found.low is not None and found.low > 1) or (found.high is not None and found.high < 1)
    return f"{span}{what}{f'; {found.doubt or Doubt.CRITERION}' if one_sided else ''}"


def _no_less(mix: str, more: str, standing: Standing | None) -> str:
    if standing is None:
        return f"{mix} needs {more} at this budget"
    if standing.agreed:
        return f"{mix}: no reduction {standing.budget}, it needs {more}"
    return f"{mix} needs {more} {standing.budget}"


def budget_limited(mix: str, limited: bool | None) -> str:
    """What the run with more steps says about a mix's transition; ``""`` where none was made."""
    if limited is None:
        return ""
    if limited:
        return (
            f"{mix} is budget-limited: with twice the steps a smaller size learned, so its size is one of this budget"
        )
    return f"{mix}: the largest size that failed did not learn with twice the steps either"


def compared(ratio: float) -> str:
    """``1.8x more`` for a ratio of 0.55, ``3.6x fewer`` for one of 3.6."""
    return f"{times(1 / ratio)} more" if ratio < 1 else f"{times(ratio)} fewer"


def times(ratio: float) -> str:
    """``2.8x``."""
    return f"{bare(ratio)}x"


def bare(ratio: float) -> str:
    """A ratio with two significant digits, or one decimal from ten on: ``0.83``, ``2.8``, ``12``."""
    if ratio >= 10:
        return f"{ratio:.0f}"
    return f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"


def search(method: str, settings: Mapping[str, Any]) -> str:
    """A searcher with what is set of it: ``bayes (precision 0.33, max_cost 420 s a mix)``."""
    said = {"max_runs": " a mix", "max_cost": " s a mix"}
    given = ((name, value) for name, value in settings.items() if value is not None)
    values = ((name, f"{value:g}" if isinstance(value, float) else value) for name, value in given)
    listed = ", ".join(f"{name} {value}{said.get(name, '')}" for name, value in values)
    return f"{method} ({listed})" if listed else method


def mixes(spec: SweepSpec) -> str:
    """The mixes of a sweep, and which of them the others are compared with: ``add (baseline), add+prod``."""
    first, *others = spec.plain_mixes
    return ", ".join([f"{first} (baseline)" if spec.family_class.compares_mixes and others else first, *others])


def cost(found: Cost) -> str:
    """``3 min 54 s of training in 8 runs; the whole grid: about 12 min in 24 runs, 3.0 times as much``. Where runs were
    there: ``8 s of training in 2 runs, 22 more were there already (3 min 40 s when they were trained); ...``."""
    said = f"{duration(found.spent_s)} of training in {found.runs} runs"
    if found.found:
        said += f", {found.found} more were there already ({duration(found.found_s)} when they were trained)"
    if found.grid_s is None or found.share is None:
        return f"{said}; the whole grid has {found.grid_runs}"
    saved = "" if found.share >= 1 else f", {bare(1 / found.share)} times as much"
    return f"{said}; the whole grid: about {duration(found.grid_s)} in {found.grid_runs} runs{saved}"


def found_runs(sweeps: Sequence[str]) -> str:
    """Which runs of a sweep were trained for others: ``12 runs were there already, trained for ID (8) and ID (4)``.
    ``sweeps`` has the other sweep's id once for each run, at least one."""
    counts = Counter(sweeps)
    named = " and ".join(f"{sweep} ({count})" for sweep, count in counts.most_common())
    return f"{len(sweeps)} run{'s were' if len(sweeps) > 1 else ' was'} there already, trained for {named}"


def duration(seconds: float) -> str:
    """``45 s``, ``3 min 20 s``, ``1 h 05 min``."""
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def time_range(low: float, middle: float, high: float) -> str:
    """Seconds as a range in the unit of their middle: ``about 6 min (4 to 14)``, ``about 40 s (20 to 95)``,
    ``about 2.5 h (1.8 to 4)``."""
    unit, word = next(
        ((seconds, name) for seconds, name, most in ((1.0, "s", 90.0), (60.0, "min", 5400.0)) if middle < most),
        (3600.0, "h"),
    )
    sides = [side / unit for side in (middle, low, high)]
    whole = word != "h"
    said = [f"{side:.0f}" if whole else f"{side:.1f}".removesuffix(".0") for side in sides]
    return f"about {said[0]} {word} ({said[1]} to {said[2]})"
