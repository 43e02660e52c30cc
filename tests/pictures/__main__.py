"""Draws the README's pictures anew, from sweeps of homes that are there and from a sweep that is run for it:

    python -m tests.pictures HOME...

Figures are of the newest finished sweep of their search space and profile in any of the homes; the pages show a copy of
the first one. The live view is that of the laptop sweep, resumed in a copy of its home without the last third of its
runs, which takes a minute or two. Needs Debian's chromium and chromium-driver.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from orchestrator.catalogue.reading import State, StoredSweep, read_sweep, read_sweeps
from orchestrator.report.main_figure import main_figure
from orchestrator.report.style import save
from orchestrator.store.files import Home
from tests.browser.chromium import browsing
from tests.pictures.pages import picture_drawing, picture_index, picture_transitions, served
from tests.pictures.terminal import filmed, window

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / ".github" / "assets"
FIGURES = {
    "add_vs_add_prod": ("add_vs_add_prod", "laptop"),
    "evening": ("add_vs_add_prod", "evening"),
    "recipes": ("add_vs_add_prod_recipes", "laptop"),
}
"""Search space and profile of each figure."""
PICTURES = (*FIGURES, "live", "sweeps", "mlflow")
LIVE = "add_vs_add_prod"
"""The figure whose sweep the live view shows."""
KEPT = 2 / 3
"""Of its runs."""
COLUMNS = 80
WITHIN_S = 1800.0


def draw_figure(name: str, homes: Sequence[Path]) -> None:
    """One figure of a sweep."""
    _, stored = find_sweep(name, homes)
    save(main_figure(stored.spec, stored.answer), ASSETS / f"{name}.png")


def find_sweep(name: str, homes: Sequence[Path]) -> tuple[Path, StoredSweep]:
    """The newest finished sweep that a figure shows, and its home. Raises ``LookupError`` where no home has one."""
    space, profile = FIGURES[name]
    for home in homes:
        for found in read_sweeps(Home(home.resolve())):
            if not isinstance(found, StoredSweep) or found.state is not State.FINISHED:
                continue
            if (found.spec.name, found.spec.profile) == (space, profile):
                return home.resolve(), found
    raise LookupError(f"no finished sweep of {space}, profile {profile}, in {', '.join(map(str, homes))}")


def take_back(home: Home, sweep_id: str, kept: float) -> None:
    """Leave only this share of a sweep's runs, the first to end, as if it had been stopped then."""
    files, runs = home.sweep(sweep_id), read_sweep(home, sweep_id).runs
    header, *lines = files.journal.read_text().splitlines(keepends=True)
    ended = [line for line in lines if json.loads(line)["kind"] == "ended"]
    there = ended[: round(kept * len(ended))]
    files.journal.write_text("".join([header, *there]))
    gone = {json.loads(line)["key"] for line in ended[len(there) :]}
    for run in runs:
        if run.key in gone:
            shutil.rmtree(run.directory)


def is_under_way(screen: str) -> bool:
    """Whether a live view has a bar of time, verdicts of two mixes, and runs in training that were scored."""
    has_bar = re.search(r"^[█░]+ +\d+%", screen, re.M) is not None
    verdicts = len(re.findall(r"^add\S*: ", screen, re.M))
    scored = re.search(r"\d+/\d+ +\d+% .* \d\.\d\d", screen) is not None
    return screen.lstrip().startswith("mix ") and has_bar and verdicts >= 2 and scored


def film_live(homes: Sequence[Path], scratch: Path) -> str:
    """The live view of a sweep in the middle, as SVG."""
    home, stored = find_sweep(LIVE, homes)
    copy = Home(scratch / "live")
    shutil.copytree(home, copy.root)
    take_back(copy, stored.id, KEPT)
    words = ["run", stored.spec.name, "--profile", stored.spec.profile, "--resume"]
    command = [sys.executable, "-m", "orchestrator", *words, stored.id, "--home", str(copy.root)]
    frame = filmed(command, COLUMNS, is_under_way, cwd=ROOT, within_s=WITHIN_S)
    return window(frame, COLUMNS, " ".join(["python -m orchestrator", *words]))


def draw_pages(names: Sequence[str], homes: Sequence[Path], scratch: Path) -> None:
    """Those of the pictures that a browser takes."""
    live = film_live(homes, scratch) if "live" in names else ""
    with browsing(scratch / "profile") as page:
        if live:
            picture_drawing(page, live, ASSETS / "live.png", scratch)
        if not {"sweeps", "mlflow"} & set(names):
            return
        copy = scratch / "results"
        shutil.copytree(homes[0], copy)
        subprocess.run([sys.executable, "-m", "orchestrator", "sync", "--home", str(copy)], cwd=ROOT, check=True)
        with served(copy, ROOT) as address:
            if "sweeps" in names:
                picture_index(page, address, ASSETS / "sweeps.png")
            if "mlflow" in names:
                picture_transitions(page, address, ASSETS / "mlflow.png")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("homes", nargs="+", type=Path, metavar="HOME")
    asked.add_argument("--only", nargs="+", choices=PICTURES, default=PICTURES, help="these alone")
    given = asked.parse_args()
    for name in FIGURES:
        if name in given.only:
            draw_figure(name, given.homes)
    with tempfile.TemporaryDirectory(prefix="pictures-") as scratch:
        draw_pages(given.only, given.homes, Path(scratch))
    for name in given.only:
        print(ASSETS / f"{name}.png")


if __name__ == "__main__":
    main()
