"""HTML from the templates in this package."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.printing import clean


def render(template: str, **values: object) -> str:
    """Return a rendered template, with its values escaped. A missing value is an error, except ``nonce``: the word by
    which a server allows the scripts of its pages, "" for a file."""
    environment = Environment(
        loader=PackageLoader("orchestrator.report.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return clean(environment.get_template(template).render(**{"nonce": "", **values}))
