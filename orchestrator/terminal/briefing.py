"""The briefing printed before a sweep starts."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.cost import Plan
from orchestrator.report.words import numbers
from orchestrator.report.words.numbers import number, rough_duration
from orchestrator.space.hardware import Hardware
from orchestrator.space.spaces import Space
from orchestrator.space.spec import SweepSpec
from orchestrator.tuning import asked_text, found_text
from trainables.transformer.native import TORCH, missing


def print_spaces(spaces: list[Space], console: Console) -> None:
    """The search spaces there are, with their questions and profiles."""
    table = Table(box=None, pad_edge=False)
    for header in ("search space", "question", "profiles"):
        table.add_column(header, overflow="fold", no_wrap=header == "search space")
    for space in spaces:
        table.add_row(space.name, Text(str(space.top.get("question", ""))), ", ".join(space.profiles))
    console.print(table)


def print_briefing(spec: SweepSpec, hardware: Hardware, plan: Plan, console: Console) -> None:
    """The sweep about to start: mixes, sizes, seeds, method, profile and why, devices, estimate, warnings."""
    idle = "; the GPUs stay idle" if hardware.gpus and spec.resources.device == "cpu" else ""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in (
        *numbers.asked(spec).items(),
        *([("tune", asked_text(spec.tune))] if spec.tune is not None else []),
        *(("tuned", found_text(mix, found, spec.tune)) for mix, found in spec.tuned.items()),
        ("profile", f"{spec.profile} ({spec.profile_reason})" if spec.profile else "none"),
        ("devices", f"{hardware}; {_stacks(spec, plan)}{idle}"),
        *_training_step(spec),
        ("estimate", cost_line(plan)),
    ):
        table.add_row(label, Text(value))
    console.print(Text(f"{spec.title}: {spec.question}", style="bold"))
    console.print(table)
    for warning in [*spec.warnings(), *_memory(spec, hardware, plan)]:
        console.print(Text(f"note: {warning}", style="yellow"))


def print_plan(spec: SweepSpec, plan: Plan, console: Console) -> None:
    """The cost of each size."""
    table = Table(box=None, pad_edge=False)
    counted = spec.family_class.words.parameters
    for header in (spec.size_axis, counted, "FLOPs a run", "time a run", "stack", "runs expected"):
        table.add_column(header, justify="right")
    for size in plan.sizes:
        table.add_row(
            str(size.size),
            number(size.parameters),
            f"{size.flops:.1e}",
            rough_duration(size.seconds),
            str(size.stack),
            f"{size.runs:.1f}",
        )
    console.print(table)


def cost_line(plan: Plan) -> str:
    """The cost of the whole sweep: ``about 26 runs (worst case 30, hard limit 96), ...``."""
    worst = "" if plan.runs_at_worst == plan.runs_at_most else f"worst case {plan.runs_at_worst}, "
    return (
        f"about {plan.runs:.0f} runs ({worst}hard limit {plan.runs_at_most}), {rough_duration(plan.seconds)} "
        f"(worst case {rough_duration(plan.seconds_at_worst)}), {plan.flops:.1e} FLOPs, "
        f"{plan.disk_bytes / 1e6:.0f} MB of disk{_before(plan)}; times at typical rates: expect a factor of three"
    )


def _training_step(spec: SweepSpec) -> list[tuple[str, str]]:
    """The code that trains, and why it is not the fast one; nothing for a family that has no choice."""
    device = spec.resources.device
    step = spec.make_family().training_step(device)
    why = missing() if step == TORCH and device == "cpu" else None
    return [("training", step if why is None else f"{why[0]}: {why[1]}")] if step else []


def _before(plan: Plan) -> str:
    """The tuning before the sweep, as a clause."""
    if not plan.tuning_runs:
        return ""
    at_most = rough_duration(plan.tuning_seconds)
    return f"; tuning takes at most {at_most} of it ({plan.tuning_runs} runs)"


def _memory(spec: SweepSpec, hardware: Hardware, plan: Plan) -> list[str]:
    """A warning if the largest runs do not fit into a stack's share of this machine's memory."""
    there = 1e9 * hardware.memory_gb / plan.stacks_at_once
    if spec.resources.device != "cpu" or not there:
        return []
    family = spec.make_family()
    large = [size for size in spec.sizes if family.memory(size) > there]
    if not large:
        return []
    return [
        f"runs from {spec.size_axis} {large[0]} on will not fit into memory: one of {large[-1]} needs "
        f"{family.memory(large[-1]) / 1e9:.0f} GB, a stack has {there / 1e9:.0f}; drop these sizes or lower the batch"
    ]


def _stacks(spec: SweepSpec, plan: Plan) -> str:
    least, most = (pick(size.stack for size in plan.sizes) for pick in (min, max))
    runs = "1 run" if most == 1 else f"up to {most} runs" + (f" ({least} at the largest size)" if least < most else "")
    stacks = "1 stack" if plan.stacks_at_once == 1 else f"{plan.stacks_at_once} stacks"
    return f"{stacks} of {runs} at a time on {spec.resources.device}"
