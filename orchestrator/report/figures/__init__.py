"""Figures of answers. This package imports matplotlib without the settings of a shell."""

import importlib.util
import os
from pathlib import Path


def _import_matplotlib() -> None:
    """Import matplotlib without the user's backend and settings file, because the import fails if they are unusable."""
    spec = importlib.util.find_spec("matplotlib")
    assert spec is not None, "a dependency of this package"
    assert spec.origin is not None, "matplotlib is a package with an __init__.py"
    users = {name: os.environ.pop(name, None) for name in ("MPLBACKEND", "MATPLOTLIBRC")}
    os.environ["MATPLOTLIBRC"] = str(Path(spec.origin).parent / "mpl-data" / "matplotlibrc")
    try:
        import matplotlib  # noqa: F401
    finally:
        del os.environ["MATPLOTLIBRC"]
        os.environ.update({name: value for name, value in users.items() if value is not None})


_import_matplotlib()
