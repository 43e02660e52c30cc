"""Checks of a process's surroundings: figures, the user's directories, names in the working directory."""

from __future__ import annotations

import io

from orchestrator import environment
from orchestrator.doctor.finding import Finding, ok, slow, wrong
from orchestrator.errors import UserError
from orchestrator.report.drawn import drawn


def drawing() -> Finding:
    """Check that a figure can be drawn as page and picture with this machine's matplotlib settings."""
    warnings: list[str] = []

    def draw() -> int:
        from orchestrator.report.figures import style

        figure = style.new_figure(1.0)
        figure.subplots().set_title("1")
        style.title(figure, "figure")
        figure.savefig(picture := io.BytesIO(), format="png")
        return len(picture.getvalue()) + len(style.inline_svg(figure, "doctor", "a figure"))

    if (size := drawn("a figure", draw, warnings.append)) is None:
        return wrong(warnings[0], "sweeps have no figures and pages: check matplotlibrc here and in MPLCONFIGDIR")
    return ok(f"a figure can be drawn, in {size} bytes")


def directories() -> Finding:
    """Check that Ray has a directory for its token, and a temporary directory with a short enough path for sockets."""
    try:
        from orchestrator.engine.ray.temporary_directory import TMPDIR, temporary_directory, usual_directory
        from orchestrator.engine.ray.token import token_file

        temporary, private, token = temporary_directory(), environment.private_directory(), token_file()
    except UserError as error:
        return wrong(str(error), "Ray cannot start until this is fixed")
    text = f"Ray's files are in {temporary}, its token in {token}"
    if temporary != (usual := usual_directory()):
        return slow(f"{text}; {usual} cannot be used", f"set {TMPDIR} to choose another directory with a short name")
    if token.is_relative_to(private):
        return slow(text, "there is no writable home directory: set HOME to store the token elsewhere")
    return ok(text)


def names() -> Finding:
    """Check that no module in the working directory has the name of a package of this program."""
    here = environment.working_directory() or ""
    hiding = {name: other for name in environment.PACKAGES if (other := environment.hiding(name, [here])) is not None}
    if not hiding:
        return ok("no module in this directory hides a package of this program")
    text = f"{', '.join(hiding.values())} in this directory hides a package of this program"
    if "orchestrator" in hiding:
        instead = "rename it, or start this program as `orchestrator`, which is in the same directory as Python"
        return wrong(text, f"in this directory, `python -m orchestrator` runs that module: {instead}")
    return slow(text, "sweeps ignore it, except that --address is refused: rename it")
