"""Output of a sweep before it starts: its question, cost and warnings."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.cost import Plan
from orchestrator.report.table import plain_table
from orchestrator.report.words import numbers
from orchestrator.report.words.changes import changed_words
from orchestrator.report.words.numbers import number, rough_duration
from orchestrator.space.hardware import Hardware
from orchestrator.space.spaces import Space
from orchestrator.space.spec import SweepSpec
from orchestrator.tuning import asked_text, found_text
from trainables.transformer.native import TORCH, missing


def print_spaces(spaces: list[Space], console: Console) -> None:
    """Print the search spaces with their questions and profiles."""
    table = plain_table("search space", "question", "profiles")
    table.columns[0].no_wrap = True
    for space in spaces:
        table.add_row(space.name, Text(str(space.top.get("question", ""))), ", ".join(space.profiles))
    console.print(table)


def print_briefing(spec: SweepSpec, hardware: Hardware, plan: Plan, console: Console) -> None:
    """Print the sweep about to start: mixes, sizes, seeds, method, profile, devices, estimate, warnings."""
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
    if changes := changed_words(spec):
        console.print(Text(changes))
    console.print(table)
    for warning in [*spec.warnings(), *_memory(spec, hardware, plan)]:
        console.print(Text(f"note: {warning}", style="yellow"))


def print_plan(spec: SweepSpec, plan: Plan, console: Console) -> None:
    """Print the cost of each size."""
    counted = spec.family_class.words.parameters
    table = plain_table(spec.size_axis, counted, "FLOPs a run", "time a run", "stack", "runs expected")
    for column in table.columns:
        column.justify = "right"
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
    """Return the cost of the whole sweep: ``about 26 runs (worst case 30, hard limit 96), ...``."""
    worst = "" if plan.runs_at_worst == plan.runs_at_most else f"worst case {plan.runs_at_worst}, "
    most = rough_duration(plan.tuning_seconds)
    tuning = f"; tuning takes at most {most} of it ({plan.tuning_runs} runs)" if plan.tuning_runs else ""
    return (
        f"about {plan.runs:.0f} runs ({worst}hard limit {plan.runs_at_most}), {rough_duration(plan.seconds)} "
        f"(worst case {rough_duration(plan.seconds_at_worst)}), {plan.flops:.1e} FLOPs, "
        f"{plan.disk_bytes / 1e6:.0f} MB of disk{tuning}; times at typical rates: expect a factor of three"
    )


def _training_step(spec: SweepSpec) -> list[tuple[str, str]]:
    """Return the code that trains, and why it is not the fast one; nothing for a family without a choice."""
    device = spec.resources.device
    step = spec.make_family().training_step(device)
    why = missing() if step == TORCH and device == "cpu" else None
    return [("training", step if why is None else f"{why[0]}: {why[1]}")] if step else []


def _memory(spec: SweepSpec, hardware: Hardware, plan: Plan) -> list[str]:
    """Return a warning if the largest runs do not fit into a stack's share of this machine's memory."""
    share, family = 1e9 * hardware.memory_gb / plan.stacks_at_once, spec.make_family()
    large = [size for size in spec.sizes if family.memory(size) > share]
    if spec.resources.device != "cpu" or not share or not large:
        return []
    return [
        f"runs from {spec.size_axis} {large[0]} on will not fit into memory: one of {large[-1]} needs "
        f"{family.memory(large[-1]) / 1e9:.0f} GB, a stack has {share / 1e9:.0f}; drop these sizes or lower the batch"
    ]


def _stacks(spec: SweepSpec, plan: Plan) -> str:
    least, most = (pick(size.stack for size in plan.sizes) for pick in (min, max))
    runs = "1 run" if most == 1 else f"up to {most} runs" + (f" ({least} at the largest size)" if least < most else "")
    stacks = "1 stack" if plan.stacks_at_once == 1 else f"{plan.stacks_at_once} stacks"
    return f"{stacks} of {runs} at a time on {spec.resources.device}"
