"""Text about the question of a sweep, as labeled lines: target, mixes, sizes, seeds, search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.space.settings import difference
from orchestrator.space.spec import SweepSpec
from orchestrator.space.written_arms import phases_text
from orchestrator.system.text import quoted


def asked(spec: SweepSpec) -> dict[str, str]:
    """Return a sweep's question by label: target, mixes, recipes, budget, sizes, seeds, searcher."""
    family = spec.family_class
    first, *others = [quoted(mix) for mix in spec.plain_mixes]
    subject = spec.make_family().subject()
    words = family.words
    phased = dict.fromkeys(f"{arm.plain_name}: {phases_text(arm)}" for arm in spec.mixes if len(arm.phases) > 1)
    examples = " and examples" if family.compares_mixes else ""
    as_much = f"as many examples of {spec.target} as {spec.baseline}"
    learned = spec.search.settings.get("learned")
    way = "of the way from the best constant answer's score to a perfect score"
    return {
        "target": f"{spec.target}, {subject}" if subject else spec.target,
        "mixes": ", ".join([f"{first} (baseline)" if family.compares_mixes and others else first, *others]),
        **({"phases": "; ".join(phased)} if phased else {}),
        **{f"recipe {name}": difference(spec.settings, recipe) for name, recipe in spec.recipe_settings.items()},
        "budget": {
            "total": f"the same steps{examples} for every mix",
            "target": f"for every mix {as_much}",
            "both": f"every mix with the same steps{examples}, and with {as_much}",
        }[spec.budget],
        spec.size_axis: " ".join(map(str, spec.sizes)),
        "seeds": " ".join(map(str, spec.seed_list)),
        **({words.learned: f"a {words.run} {learned:.0%} {way}"} if learned is not None else {}),
        "search": _search(spec.search.method, spec.search.settings),
    }


def _search(method: str, settings: Mapping[str, Any]) -> str:
    """Return a searcher with its settings: ``pairs (aim locate, max_cost 420 s per mix)``."""
    units = {"max_runs": " per mix", "max_cost": " s per mix"}
    named = [
        f"{name} {f'{value:g}' if isinstance(value, float) else value}{units.get(name, '')}"
        for name, value in settings.items()
        if value is not None and name != "learned"  # This setting has a separate line.
    ]
    return f"{method} ({', '.join(named)})" if named else method
