"""HTML from the templates in this package."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.system.printing import clean


def render(template: str, *, nonce: str = "", **values: object) -> str:
    """Return a rendered template, with its values escaped. A missing value is an error. Scripts have the ``nonce``, if
    given, that the policy of a served page allows."""
    return clean(_templates().get_template(template).render(nonce=nonce, **values))


@cache
def _templates() -> Environment:
    """Return the templates, which take longer to compile than to render."""
    return Environment(
        loader=PackageLoader("orchestrator.report.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
