"""Checks of what surrounds a process: figures, the user's directories, names in the working directory."""

from __future__ import annotations

import io

from orchestrator import environment
from orchestrator.doctor.finding import Finding, ok, slow, wrong
from orchestrator.errors import UserError
from orchestrator.report.drawn import drawn


def drawing() -> Finding:
    """A figure can be drawn as page and picture, with the settings that matplotlib has here."""
    warnings: list[str] = []

    def draw() -> int:
        from orchestrator.report.figures import style

        figure = style.new_figure(1.0)
        figure.subplots().set_title("1")
        style.title(figure, "figure")
        figure.savefig(picture := io.BytesIO(), format="png")
        return len(picture.getvalue()) + len(style.inline_svg(figure, "doctor", "a figure"))

    if (size := drawn("a figure", draw, warnings.append)) is None:
        return wrong(warnings[0], "sweeps go without figures and pages: look at matplotlibrc here and in MPLCONFIGDIR")
    return ok(f"a figure is drawn, in {size} bytes")


def directories() -> Finding:
    """The user has a home directory for Ray's token, and a temporary one whose name leaves room for Ray's sockets."""
    from orchestrator.engine.ray.places import TMPDIR, temporary_directory, token_file, usual_directory

    try:
        temporary, private, token = temporary_directory(), environment.private_directory(), token_file()
    except UserError as error:
        return wrong(str(error), "Ray cannot start before that")
    said = f"Ray's files are in {temporary}, its token in {token}"
    if temporary != (usual := usual_directory()):
        return slow(f"{said}; {usual} cannot be used", f"set {TMPDIR} to choose another directory with a short name")
    if token.is_relative_to(private):
        return slow(said, "there is no home directory that can be written: set HOME to keep the token elsewhere")
    return ok(said)


def names() -> Finding:
    """No module in the working directory has the name of a package of this program."""
    here = environment.working_directory() or ""
    hiding = {name: other for name in environment.PACKAGES if (other := environment.hiding(name, [here])) is not None}
    if not hiding:
        return ok("no module in this directory has a name of this program's packages")
    said = f"in this directory there is {', '.join(hiding.values())}, named as a package of this program"
    if "orchestrator" in hiding:
        instead = "rename it, or start this program as `orchestrator`, which is next to that python"
        return wrong(said, f"`python -m orchestrator` runs that one here: {instead}")
    return slow(said, "this program's own is taken all the same, but --address is refused: rename it")
