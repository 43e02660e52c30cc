"""The project around a script."""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path

from trainables.contract.finder import is_open_to_all

REPOSITORY = ".git"
"""Directory or file in the folder of a repository."""
PROJECT_MARKS = ("pyproject.toml", "setup.py")
"""Files in the folder of a project. A repository may contain several."""


def folders_above(directory: Path) -> list[Path]:
    """Return the folders above a directory up to that of its project, which scripts often put on the search path.

    The project is the nearest repository around the directory or, without a repository, the outermost folder with a
    file of a project. Return an empty list if the directory is that folder, or if it is in no project. The search ends
    below a folder that everyone can write, where others could put such a file.
    """
    here = Path(os.path.abspath(directory))
    around = [here, *takewhile(_is_closed, here.parents[:-1])]  # Not the root of the disk.
    marked = [folder for folder in around if (folder / REPOSITORY).exists()][:1]
    marked = marked or [folder for folder in around if any((folder / mark).exists() for mark in PROJECT_MARKS)][-1:]
    return around[1 : around.index(marked[0]) + 1] if marked else []


def _is_closed(folder: Path) -> bool:
    return not is_open_to_all(str(folder))


def project_of(directory: Path) -> Path:
    """Return the folder of the project around a directory, or the directory itself if no project is near."""
    return [Path(os.path.abspath(directory)), *folders_above(directory)][-1]
