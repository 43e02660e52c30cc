"""Checks of a machine (`doctor`) and of a family of models (`check-family`)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from orchestrator.cli.options import HomeOption, resolve, with_options
from orchestrator.cli.status import wide_console
from orchestrator.doctor.finding import Finding, Verdict
from orchestrator.doctor.machine import examined, machine_checks
from orchestrator.errors import SweepError, UserError, unknown
from orchestrator.space import hardware
from orchestrator.sweep.run_options import HOME, SpaceOptions

if TYPE_CHECKING:
    from trainables.base import Family


COLORS = {Verdict.OK: "green", Verdict.SLOW: "yellow", Verdict.WRONG: "bold red"}
NAME_WIDTH = 14


def doctor_command(
    home: HomeOption = HOME,
) -> None:
    """Test everything that a sweep needs from this machine.

    Prints one line per part. Exit code 1 means that something is wrong.
    """
    console, place, here = wide_console(), home.resolve(), hardware.detect()
    place.mkdir(parents=True, exist_ok=True)
    checks = machine_checks(place)
    if here.gpus:
        from orchestrator.doctor.gpu import gpu_checks  # torch takes two seconds.

        checks += gpu_checks(place)
    findings = []
    for finding in examined(checks):
        findings.append(finding)
        _print_finding(finding, console)
    verdicts = [finding.verdict for finding in findings]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in Verdict)
    typer.echo(f"{here}: {counts}, in {sum(finding.seconds for finding in findings):.0f} s")
    if Verdict.WRONG in verdicts:
        raise typer.Exit(1)


def _print_finding(finding: Finding, console: Console) -> None:
    """Print a finding on a line, and its remedy on a second line."""
    line = Text.assemble(
        (f"{finding.verdict:<6}", COLORS[finding.verdict]), f"{finding.name:<{NAME_WIDTH}} {finding.text}"
    )
    console.print(line, highlight=False, soft_wrap=True)
    if finding.todo:
        console.print(Text(f"{'':6}{'':{NAME_WIDTH}} -> {finding.todo}"), highlight=False, soft_wrap=True)


@with_options(SpaceOptions)
def check_family_command(
    options: SpaceOptions,
    family: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:CLASS", help="A family's class or short name, or a search space with its settings."
        ),
    ],
    size: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Train at this size (repeatable); by default at two sizes of the family."),
    ] = None,
    device: Annotated[str, typer.Option(help="The torch device to train on: cpu, cuda.")] = "cpu",
) -> None:
    """Check whether a family of models satisfies its contract, part by part.

    The check trains some runs of the smallest size to their end, so choose fast settings.

    Examples:

      check-family my_models.graphs:GraphNetwork

      check-family my_space.yaml --profile smoke
    """
    import torch

    from trainables.contract.conformance import case_of, findings
    from trainables.contract.report_validator import BrokenFamilyError

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # A stack's default: small models are slower with more.
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(f"--device {device}: torch finds no GPU on this machine; run `doctor` for details")
    made = _family(family, options)
    failed = passed = 0
    with tempfile.TemporaryDirectory(prefix="check-family-") as directory:
        try:
            case = case_of(made, size or (), device, Path(directory))
        except BrokenFamilyError as error:
            raise SweepError(f"the family {made.name!r} does not satisfy its contract: {error}") from error
        arms = ", ".join(arm.name for arm in case.arms)
        typer.echo(f"{made.name}: {arms} at {made.size_axis} {', '.join(map(str, case.sizes))}")
        for finding in findings(case):
            word = "wrong" if finding.wrong else "skipped" if finding.skipped else "ok"
            typer.echo(f"{word:8}{finding.name}")
            for line in (finding.wrong or finding.skipped).splitlines():
                typer.echo(f"        {line}")
            failed += bool(finding.wrong)
            passed += not (finding.wrong or finding.skipped)
    if failed:
        raise SweepError(
            f"the family {made.name!r} does not satisfy its contract: {failed} of {failed + passed} checks failed"
        )
    typer.echo(f"the family {made.name!r} passed all {passed} checks of its contract")


def _family(name: str, options: SpaceOptions) -> Family:
    from orchestrator.space.files import is_path, names
    from orchestrator.space.mistakes import InvalidDataError, dotted, parse
    from trainables.base import BUILT_IN, load_family

    if ":" not in name and name not in BUILT_IN:
        if not is_path(name) and name not in names():
            raise unknown("family or search space", name, [*BUILT_IN, *names()])
        return resolve(name, options).make_family()
    if options.words():
        raise UserError(
            "--profile, --variant and --set apply only to a search space: name a space instead of the class"
        )
    kind = load_family(name)
    if missing := sorted(kind.__abstractmethods__):
        raise UserError(f"{name!r} is not a complete family: it lacks {', '.join(missing)}")
    try:
        return kind(parse(kind.Settings, {}))
    except InvalidDataError as error:
        mistakes = "; ".join(f"{dotted(mistake.key)}: {mistake.message}" for mistake in error.mistakes)
        raise UserError(f"{name!r} needs settings ({mistakes}): name a search space that contains them") from error
