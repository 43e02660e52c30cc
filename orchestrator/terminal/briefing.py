"""Prints a sweep before it starts: its question, cost, caveats and warnings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from orchestrator.forecast.cost_estimate import CostEstimate, estimate_cost
from orchestrator.report.answer_table import labeled, plain_table
from orchestrator.report.sentences.changes import changed_text
from orchestrator.report.sentences.question import asked
from orchestrator.space.spec import SweepSpec
from orchestrator.space.stack_sizes import choose_stacks
from orchestrator.space.tuning_settings import tuned_text
from orchestrator.system.hardware import Hardware
from orchestrator.system.text import number, rough_duration

MOST_NUMBERS = 12
"""Maximum number of sizes or seeds that are listed individually."""


def print_start(spec: SweepSpec, hardware: Hardware, console: Console, details: str, *, is_local: bool) -> None:
    """Print a sweep before it starts: its mixes, sizes, seeds, devices, cost and problems.

    Args:
        spec: The sweep.
        hardware: Hardware that trains it.
        console: The console.
        details: Command that prints more.
        is_local: True for the local engine, which trains one stack at a time.
    """
    spec = choose_stacks(spec, hardware)
    cost = estimate_cost(spec, hardware, most_at_once=1 if is_local else math.inf)
    # `details` shows these rows. Most users do not change them.
    omitted = {"search", spec.family_class.words.learned, *(["budget"] if spec.budget == "total" else [])}
    rows = {label: value for label, value in asked(spec).items() if label not in omitted}
    rows |= {spec.size_axis: _span(spec.sizes), "seeds": _span(spec.seed_list), **_tuning(spec)}
    if spec.profile:
        rows["profile"] = spec.profile
    rows["devices"] = f"{hardware}{_idle_gpus(spec, hardware)}"
    if slow := _slow_training(spec):
        rows["training"] = slow
    rows["estimate"] = f"{_runs_and_time(cost)} (simulated). Times may be off by a factor of 3"
    _print_rows(spec, rows, console)
    console.print(Text(f"All settings, caveats and costs: {details}"), soft_wrap=True)
    # Only for families of the user, which may not do what their author expects.
    for caveat in spec.warnings() if spec.source else ():
        console.print(Text(f"caveat: {caveat}", style="yellow"), soft_wrap=True)
    _print_notes(spec, hardware, cost, console)


def print_plan(spec: SweepSpec, hardware: Hardware, console: Console) -> None:
    """Print all details of a sweep before it starts: its settings, its answer's caveats, and the cost by size."""
    spec = choose_stacks(spec, hardware)
    cost = estimate_cost(spec, hardware)
    step = spec.make_family().training_step(spec.resources.device)
    rows = {
        **asked(spec),
        **_tuning(spec),
        "profile": f"{spec.profile} ({spec.profile_reason})" if spec.profile else "none",
        "devices": f"{hardware}; {_stacks(spec, cost)}{_idle_gpus(spec, hardware)}",
        **({"training": _slow_training(spec) or step} if step else {}),
        "estimate": _cost(cost),
    }
    _print_rows(spec, rows, console)
    for caveat in spec.warnings():
        console.print(Text(f"caveat: {caveat}", style="yellow"))
    _print_notes(spec, hardware, cost, console)
    parameters = spec.family_class.words.parameters
    table = plain_table(spec.size_axis, parameters, "FLOPs per run", "time per run", "stack", "runs expected")
    for column in table.columns:
        column.justify = "right"
    for size in cost.sizes:
        work = (number(size.parameters), f"{size.flops:.1e}", rough_duration(size.seconds))
        table.add_row(str(size.size), *work, str(size.stack), f"{size.runs:.1f}")
    console.print(table)


def _print_rows(spec: SweepSpec, rows: Mapping[str, str], console: Console) -> None:
    console.print(Text(f"{spec.title}: {spec.question}", style="bold"))
    if changes := changed_text(spec):
        console.print(Text(changes))
    console.print(labeled(rows))


def _print_notes(spec: SweepSpec, hardware: Hardware, cost: CostEstimate, console: Console) -> None:
    share = 1e9 * hardware.memory_gb / cost.stacks_at_once
    family = spec.make_family()
    large = [size for size in spec.sizes if family.memory(size) > share]
    if spec.resources.device == "cpu" and share and large:
        note = (
            f"runs at {spec.size_axis} {large[0]} and above will not fit in memory: a run at {large[-1]} needs "
            f"{family.memory(large[-1]) / 1e9:.0f} GB, but a stack has {share / 1e9:.0f} GB; "
            "remove these sizes or lower the batch size"
        )
        console.print(Text(f"note: {note}", style="yellow"))


def _cost(cost: CostEstimate) -> str:
    """Return the cost of the whole sweep as text, such as ``10 to 40 runs in 1 to 9 min (simulated), ...``."""
    limit = "" if cost.runs_at_worst == cost.runs_at_most else f"; the search stops at {cost.runs_at_most:,} runs"
    most = rough_duration(cost.tuning_seconds)
    tuning = f"; tuning takes at most {most} of the time ({cost.tuning_runs} runs)" if cost.tuning_runs else ""
    return (
        f"{_runs_and_time(cost)} (simulated{limit}); on average {cost.runs:,.0f} runs, {cost.flops:.1e} FLOPs, "
        f"{cost.disk_bytes / 1e6:.0f} MB of disk{tuning}. Times may be off by a factor of 3"
    )


def _runs_and_time(cost: CostEstimate) -> str:
    """Return the ranges over all rehearsals as text, such as ``10 to 40 runs in 1 min to 9 min``."""
    runs = [f"{count:,}" for count in (cost.runs_at_best, cost.runs_at_worst)]
    times = [rough_duration(seconds) for seconds in (cost.seconds_at_best, cost.seconds_at_worst)]
    return f"{' to '.join(dict.fromkeys(runs))} runs in {' to '.join(dict.fromkeys(times))}"


def _tuning(spec: SweepSpec) -> dict[str, str]:
    """Return rows about the tuning of a sweep, by label."""
    tuned = "; ".join(tuned_text(mix, values, spec.tune) for mix, values in spec.tuned.items())
    texts = {"tune": "" if spec.tune is None else str(spec.tune), "tuned": tuned}
    return {label: text for label, text in texts.items() if text}


def _span(values: Sequence[int]) -> str:
    """Return values as text: a few values individually, many as a range such as ``8 to 256 (46)``."""
    if len(values) <= MOST_NUMBERS:
        return " ".join(map(str, values))
    return f"{values[0]} to {values[-1]} ({len(values)})"


def _idle_gpus(spec: SweepSpec, hardware: Hardware) -> str:
    return "; the GPUs stay idle" if hardware.gpus and spec.resources.device == "cpu" else ""


def _slow_training(spec: SweepSpec) -> str:
    """Return why this machine trains slowly, with the remedy, or an empty string if it does not."""
    # Only for CPUs, because GPUs are often in another machine, whose workers report the same.
    device = spec.resources.device
    return spec.make_family().slowness(device) if device == "cpu" else ""


def _stacks(spec: SweepSpec, cost: CostEstimate) -> str:
    """Return a text about the stacks that train at the same time."""
    stacks_by_size = [size.stack for size in cost.sizes]
    least = min(stacks_by_size)
    most = max(stacks_by_size)
    runs = "1 run" if most == 1 else f"up to {most} runs" + (f" ({least} at the largest size)" if least < most else "")
    stacks = "1 stack" if cost.stacks_at_once == 1 else f"{cost.stacks_at_once} stacks"
    return f"{stacks} of {runs} at a time on {spec.resources.device}"
