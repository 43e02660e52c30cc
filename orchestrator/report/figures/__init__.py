"""Figures of answers. Importing any of them imports matplotlib, here, with the settings of a shell left out."""

import importlib.util
import os
from pathlib import Path


def _import_matplotlib() -> None:
    """Import matplotlib as if neither a backend nor a settings file had been chosen: a backend of a notebook that is
    not installed, or a file that cannot be read, would make the import fail."""
    spec = importlib.util.find_spec("matplotlib")
    assert spec is not None, "a dependency of this package"
    assert spec.origin is not None, "matplotlib is a package with an __init__.py"
    chosen = {name: os.environ.pop(name, None) for name in ("MPLBACKEND", "MATPLOTLIBRC")}
    os.environ["MATPLOTLIBRC"] = str(Path(spec.origin).parent / "mpl-data" / "matplotlibrc")
    try:
        import matplotlib  # noqa: F401
    finally:
        del os.environ["MATPLOTLIBRC"]
        os.environ.update({name: value for name, value in chosen.items() if value is not None})


_import_matplotlib()
