"""HTML from the templates in this package."""

from __future__ import annotations

from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from orchestrator.system.printing import clean
from orchestrator.transition.types import CONFIDENCE


def render(template: str, package: str = __name__, /, *, nonce: str = "", **values: object) -> str:
    """Return a rendered template, with its values escaped. A missing value is an error.

    Args:
        template: Name of the template's file.
        package: Package of the template. It may use the templates of this package.
        nonce: Nonce of scripts that the policy of a served page allows. Empty for a page in a file.
        values: Values of the template's variables, by name.
    """
    return clean(_templates(package).get_template(template).render(nonce=nonce, **values))


@cache
def _templates(package: str) -> Environment:
    """Return the templates. They are cached, because compiling them takes longer than rendering them."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name, ".") for name in dict.fromkeys((package, __name__))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["confidence"] = f"{CONFIDENCE:.0%}"
    return environment
