"""Scores of mixes before any training."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from orchestrator.cli.options import Debug, SpaceName, hardware_at, load_variants, with_options
from orchestrator.cli.status import wide_console
from orchestrator.errors import UserError
from orchestrator.sweep.options import SpaceOptions


@with_options(SpaceOptions)
def predict_command(space: SpaceName, options: SpaceOptions, debug: Debug = False) -> None:
    """Print scores of the mixes from the tables of their tasks alone: which partner should help the target?"""
    from orchestrator.prediction import SCORES, predicted

    specs = load_variants(space, options, hardware_at(None))
    rows = {
        f"{mix} ({spec.variant})" if spec.variant else mix: scores
        for spec in specs
        for mix, scores in predicted(spec).items()
    }
    if not rows:
        raise UserError(
            f"{space}: nothing can be predicted, because the family {specs[0].family!r} has no tables for its tasks, "
            "or no mix has a task besides the target"
        )
    names = list(dict.fromkeys(name for scores in rows.values() for name in scores))
    table = Table(box=None, pad_edge=False)
    table.add_column("mix", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    for mix, scores in rows.items():
        table.add_row(Text(mix), *(f"{scores[name]:.2f}" if name in scores else "-" for name in names))
    console = wide_console()
    console.print(Text(f"{space}: scores before any training, higher for mixes that should help more", style="bold"))
    console.print(table)
    for score in SCORES:
        console.print(Text(f"{score.name}: {score.says}", style="dim"))
