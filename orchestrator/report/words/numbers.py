"""Numbers, times, costs and settings as text, the same in terminal, page, figures and record."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from orchestrator.cost import Cost
from orchestrator.space.settings import difference
from orchestrator.space.spec import SweepSpec
from orchestrator.space.written_arms import phases_text


def number(value: float) -> str:
    """Return three significant digits with thousands separators: ``7.25``, ``37.1``, ``19,600``."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    text = f"{round(value, digits):,.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if digits > 0 else text


def exact(value: float) -> str:
    """Return a tested size, unrounded: ``14,736``."""
    return f"{value:,.0f}" if float(value).is_integer() else number(value)


def bare(ratio: float) -> str:
    """Return two significant digits, or an integer from 10 on: ``0.83``, ``2.8``, ``12``."""
    if ratio >= 10:
        return f"{ratio:.0f}"
    if ratio >= 1:
        return f"{ratio:.1f}"
    return f"{ratio:.2f}".removesuffix("0") if ratio >= 0.01 else f"{ratio:.2g}"


def counted(count: int, thing: str) -> str:
    """Return ``1 run`` or ``3 runs``."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def bad_runs(diverged: int, failed: int) -> str:
    """Return ``1 diverged, 2 failed``, or ``""`` without any."""
    return ", ".join(f"{count} {word}" for count, word in ((diverged, "diverged"), (failed, "failed")) if count)


def quoted(name: str) -> str:
    """Return a name, quoted if it has several words: ``"max, then add"``."""
    return f'"{name}"' if " " in name else name


def listed(names: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def duration(seconds: float) -> str:
    """Return ``45 s``, ``3 min 20 s`` or ``1 h 05 min``."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def rough_duration(seconds: float) -> str:
    """Return ``45 s``, ``12 min``, ``3.5 h`` or ``2.1 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 36 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


def scaled(value: float, units: Mapping[str, float], rest: str) -> str:
    """Return a value in the first of these units that it reaches, or ``rest``: ``350 kB``, ``1.3 GB``, ``12M``."""
    for name, unit in units.items():
        if value >= unit:
            return f"{value / unit:.{0 if value >= 10 * unit else 1}f}{name}"
    return rest


def size_on_disk(count: float) -> str:
    """Return ``350 kB``, ``12 MB`` or ``1.3 GB``."""
    return scaled(count, {" GB": 1e9, " MB": 1e6}, f"{count / 1e3:.0f} kB")


def moment(when: datetime) -> str:
    """Return local time: ``2026-01-02 03:04``."""
    return f"{when.astimezone():%Y-%m-%d %H:%M}"


def asked(spec: SweepSpec) -> dict[str, str]:
    """Return a sweep's question by label: target, mixes, recipes, budget, sizes, seeds, searcher."""
    family, (first, *others) = spec.family_class, [quoted(mix) for mix in spec.plain_mixes]
    subject, words = spec.make_family().subject(), family.words
    phased = dict.fromkeys(f"{arm.plain_name}: {phases_text(arm)}" for arm in spec.mixes if len(arm.phases) > 1)
    examples = " and examples" if family.compares_mixes else ""
    as_much = f"as many examples of {spec.target} as {spec.baseline}"
    learned = spec.search.settings.get("learned")
    way = "of the way from the best constant answer's score to a perfect score"
    return {
        "target": f"{spec.target}, {subject}" if subject else spec.target,
        "mixes": ", ".join([f"{first} (baseline)" if family.compares_mixes and others else first, *others]),
        **({"phases": "; ".join(phased)} if phased else {}),
        **{f"recipe {name}": difference(spec.settings, recipe) for name, recipe in spec.recipe_settings.items()},
        "budget": {
            "total": f"the same steps{examples} for every mix",
            "target": f"for every mix {as_much}",
            "both": f"every mix with the same steps{examples}, and with {as_much}",
        }[spec.budget],
        spec.size_axis: " ".join(map(str, spec.sizes)),
        "seeds": " ".join(map(str, spec.seed_list)),
        **({words.learned: f"a {words.run} {learned:.0%} {way}"} if learned is not None else {}),
        "search": _search(spec.search.method, spec.search.settings),
    }


def _search(method: str, settings: Mapping[str, Any]) -> str:
    """Return a searcher with its settings: ``pairs (aim locate, max_cost 420 s per mix)``."""
    units = {"max_runs": " per mix", "max_cost": " s per mix"}
    named = [
        f"{name} {f'{value:g}' if isinstance(value, float) else value}{units.get(name, '')}"
        for name, value in settings.items()
        if value is not None and name != "learned"  # The score that counts as learned has its own line.
    ]
    return f"{method} ({', '.join(named)})" if named else method


def cost(total: Cost) -> str:
    """Return ``8 runs trained for 3 min 54 s; every size with 3 seeds (24 runs) would take about 12 min ...``."""
    spent = "less than a second" if total.spent_s < 1 else duration(total.spent_s)
    text = f"{counted(total.runs, 'run')} trained for {spent}"
    if total.found:
        text += f", and {total.found} reused (trained for {duration(total.found_s)})"
    grid, seeds = counted(total.grid_runs, "run"), counted(total.grid_seeds, "seed")
    if total.grid_s is None or total.share is None or total.grid_s < 1:
        whole = f"; every size with {seeds} would be {grid}"
        return text + whole if total.runs + total.found < total.grid_runs else text
    times = bare(1 / total.share)
    longer = "" if total.share >= 1 or times == "1.0" else f", {times} times as long"
    return f"{text}; every size with {seeds} ({grid}) would take about {duration(total.grid_s)}{longer}"


def found_runs(sweeps: Sequence[str]) -> str:
    """Return ``Reused 12 runs, trained for ID (8) and ID (4)``, given the sweep that trained each run."""
    named = [f"{sweep} ({count})" for sweep, count in Counter(sweeps).most_common()]
    return f"Reused {counted(len(sweeps), 'run')}, trained for {listed(named)}"
