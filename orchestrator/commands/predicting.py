"""Before any training: which mixes should help, from the tasks' tables alone; and how well that did so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from orchestrator.commands.looking import warn, wide_console
from orchestrator.commands.options import (
    DEFAULT_HOME,
    Debug,
    HomeOption,
    Override,
    Profile,
    SpaceName,
    VariantOption,
    load_variants,
)
from orchestrator.errors import UserError

if TYPE_CHECKING:
    from orchestrator.prediction.measured import Pair

CONFIDENCE = 0.9
SEED = 0
"""Intervals are drawn: the same sweeps say the same each time."""


def predict_command(
    space: SpaceName,
    profile: Profile = None,
    variant: VariantOption = None,
    override: Override = None,
    measured: Annotated[
        bool, typer.Option(help="Set predictions beside what the sweeps of the home measured, of all spaces.")
    ] = True,
    home: HomeOption = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Print, before any training, scores of which mixes should help; and how well they did in the home's sweeps.

    The scores come from the tables of the tasks alone. A sweep writes its own down before its first run.
    """
    from orchestrator.prediction.registered import predicted
    from orchestrator.prediction.scores import SCORES

    specs, _ = load_variants(space, profile, override or [], variant, None)
    rows = {
        f"{mix} ({spec.variant})" if spec.variant else mix: scores
        for spec in specs
        for mix, scores in predicted(spec).items()
    }
    if not rows:
        raise UserError(
            f"{space}: nothing can be predicted, because the family {specs[0].family!r} has no tables for its tasks, "
            "or no mix has a task beside the target"
        )
    console = wide_console()
    console.print(Text(f"{space}: scores before any training, higher for mixes that should help more", style="bold"))
    console.print(_score_table(rows))
    for score in SCORES:
        console.print(Text(f"{score.name}: {score.says}", style="dim"))
    if measured:
        from orchestrator.catalogue.predictions import measured_pairs
        from orchestrator.catalogue.reading import State, StoredSweep, read_sweeps
        from orchestrator.store.files import Home

        sweeps = [
            each
            for each in read_sweeps(Home(home.resolve()))
            if isinstance(each, StoredSweep)
            and each.state is State.FINISHED
            and (profile is None or each.spec.profile == profile)
        ]
        for said in (said for each in sweeps for said in each.damage):
            warn(said)
        _print_measured(measured_pairs(sweeps))


def _score_table(rows: Mapping[str, Mapping[str, float]]) -> Table:
    names = list(dict.fromkeys(name for scores in rows.values() for name in scores))
    table = Table(box=None, pad_edge=False)
    table.add_column("mix", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    for mix, scores in rows.items():
        table.add_row(Text(mix), *(f"{scores[name]:.2f}" if name in scores else "-" for name in names))
    return table


def _print_measured(pairs: Sequence[Pair]) -> None:
    from orchestrator.prediction.measured import FEWEST, merits
    from orchestrator.prediction.wording import merit_words, saving_words

    console = wide_console()
    console.print(Text(f"\nmeasured so far: {len(pairs)} mixes", style="bold"))
    table = Table("mix", "smaller by", "written down before", "sweeps", box=None, pad_edge=False)
    for pair in sorted(pairs, key=lambda each: -each.saving.mean):
        table.add_row(
            Text(pair.about),
            saving_words(pair.saving, CONFIDENCE),
            "yes" if pair.before else "no",
            str(len(pair.sweeps)),
        )
    if pairs:
        console.print(table)
    found = merits(pairs, CONFIDENCE, np.random.default_rng(SEED))
    if not found:
        console.print(Text(f"too few to say how well any score does: {FEWEST} are needed"))
    for merit in found:
        console.print(Text(merit_words(merit)))
