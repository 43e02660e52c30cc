"""The options that ``run`` alone has."""

from __future__ import annotations

from typing import Annotated

import typer

Address = Annotated[str | None, typer.Option(help="Use the Ray cluster at this address.")]
Resume = Annotated[
    str | None,
    typer.Option(metavar="[SWEEP]", help="Continue a sweep; without an id, the newest unfinished one."),
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="With --resume: train runs that failed again.")]
Extend = Annotated[
    str | None, typer.Option(metavar="SWEEP", help="Start a new sweep that begins with this one's finished runs.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Train every run anew, also those that lie in the home already.")]
LocalDebug = Annotated[
    bool, typer.Option("--local-debug", help="Train in this process, without Ray, to step through in a debugger.")
]
Dashboard = Annotated[
    bool, typer.Option("--dashboard", help="Start Ray's dashboard as well, reachable from this machine only.")
]
Watch = Annotated[
    bool, typer.Option("--watch", help="Serve the page of all sweeps while this runs, for a browser on this machine.")
]
MaxTime = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Stop after this time, 2h or 45min, as Ctrl-C does: --resume goes on."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer alone, when it is there.")]
