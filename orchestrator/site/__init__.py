"""The page of `ui`: every sweep of a home, with links into MLflow's page."""

from __future__ import annotations

from orchestrator.report import page


def render(template: str, *, nonce: str = "", **values: object) -> str:
    """Return a rendered template of this package, as :func:`orchestrator.report.page.render` does."""
    return page.render(template, __name__, nonce=nonce, **values)
