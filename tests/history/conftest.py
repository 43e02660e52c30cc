"""Setup of tests of stored sweeps: the same as of homes."""

from tests.home.conftest import without_figures_and_record

__all__ = ["without_figures_and_record"]
