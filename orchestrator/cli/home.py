"""The command `home`: a home as one file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import HomeOption
from orchestrator.cli.status import warn
from orchestrator.errors import UserError
from orchestrator.sweep.run_options import HOME


class Direction(StrEnum):
    """Directions of a copy."""

    EXPORT = "export"
    IMPORT = "import"


def home_command(
    direction: Annotated[Direction, typer.Argument(metavar="export|import", help="Write the file, or read it.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file, such as home.tar.gz.")],
    home: HomeOption = HOME,
) -> None:
    """Copy a home to one file, or a file into a home.

    The file contains runs, sweeps and checkpoints. `sync` records them in MLflow. Runs are merged by key,
    so a file can be imported twice. `run ... --resume` continues a stopped sweep.

    Examples:

      home export home.tar.gz

      home import home.tar.gz --home results
    """
    from orchestrator.home.archive import export_home, import_home
    from orchestrator.home.files import Home
    from orchestrator.report.words.numbers import counted, size_on_disk

    place = Home(home.resolve())
    if direction is Direction.EXPORT:
        if file.is_dir() or not file.absolute().parent.is_dir():
            raise UserError(f"{file} cannot be written: name a file in a directory that exists, such as home.tar.gz")
        written = export_home(place, file, warn)
        size = size_on_disk(file.stat().st_size)
        typer.echo(f"wrote {file}: {counted(written.sweeps, 'sweep')}, {counted(written.runs, 'run')}, {size}")
        return
    read = import_home(place, file, warn)
    typer.echo(
        f"imported {counted(read.sweeps, 'sweep')} and {counted(read.runs, 'run')} into {place.root}; "
        f"{counted(read.known_sweeps, 'sweep')} and {counted(read.known_runs, 'run')} already existed"
    )
    if read.runs or read.sweeps:
        typer.echo(f"next: python -m orchestrator sync --home {place.root}, to record them in MLflow")
