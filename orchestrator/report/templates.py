"""HTML from the templates beside this module."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.report.prose import whole_numbers


def render(template: str, **values: object) -> str:
    """A template with its values, escaped. A name that the template uses and that is not given is an error. Where it
    says ``|whole``, no line breaks within a number."""
    environment = Environment(
        loader=PackageLoader("orchestrator.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["whole"] = whole_numbers
    return environment.get_template(template).render(**values)
