"""HTML from the templates in this package."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.system.printing import clean
from orchestrator.transition.types import CONFIDENCE


def render(template: str, *, nonce: str = "", **values: object) -> str:
    """Return a rendered template, with its values escaped. A missing value is an error.

    ``nonce`` is the nonce of scripts that the policy of a served page allows. It is empty for a page in a file.
    """
    return clean(_templates().get_template(template).render(nonce=nonce, **values))


@cache
def _templates() -> Environment:
    """Return the templates. They are cached, because compiling them takes longer than rendering them."""
    environment = Environment(
        loader=PackageLoader("orchestrator.report.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["confidence"] = f"{CONFIDENCE:.0%}"
    return environment
