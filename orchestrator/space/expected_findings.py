"""Checks that the sweeps of a search space can answer its ``expects:``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from orchestrator.space.expectations import Expectation, expectations_of
from orchestrator.space.spaces import Space
from orchestrator.space.spec import SweepSpec
from orchestrator.system.did_you_mean import unknown
from orchestrator.system.errors import UserError
from trainables.contract.arms import as_named
from trainables.probes.base import BUILT_IN, load_probe


def resolve_expectations(space: Space, specs: Sequence[SweepSpec]) -> tuple[Expectation, ...]:
    """Return the statements of a space with their mixes named as in its sweeps.

    Raises:
        UserError: If the space has no statements, or no sweep can answer one of them.
    """
    file = space.files[0]
    expected = expectations_of(file)
    if not expected:
        raise UserError(f"{file.source} has no expected findings (`expects:`) to compare with its answer")
    return tuple(_resolve(statement, specs, f"{file.source}, expects") for statement in expected)


def check_expectations(
    space: Space,
    specs: Sequence[SweepSpec],
    variant: str | None,
    overrides: Iterable[str],
    load_profile: Callable[[str], Sequence[SweepSpec]],
) -> None:
    """Check the names in the ``expects:`` of a space that is planned.

    Args:
        space: The space.
        specs: The planned sweeps.
        variant: The only variant that is planned, or None if all are.
        overrides: The user's changes of the space, as ``KEY=VALUE``.
        load_profile: Returns the space's sweeps in another profile.

    Raises:
        UserError: For a mix, probe or variant that no profile has.
    """
    # The statements are not about a plan with other mixes, recipes or probes than the file's.
    if any(re.match(r"(mixes|probes|recipes)\b", override) for override in overrides):
        return
    for statement in expectations_of(space.files[0]):
        if variant is not None and not statement.is_about(variant):
            continue
        try:
            _resolve(statement, specs, f"{space.source}, expects")
        except UserError:
            # A profile may omit mixes that the statement is about, so look in the other profiles too.
            others = [spec for profile in space.profiles for spec in load_profile(profile)]
            _resolve(statement, [*specs, *others], f"{space.source}, expects")


def _resolve(expected: Expectation, specs: Sequence[SweepSpec], where: str) -> Expectation:
    """Return a statement with its mixes named as in the sweeps. Raises ``UserError`` if no sweep can answer it."""
    mixes = tuple(dict.fromkeys(name for spec in specs for name in spec.plain_mixes))
    mix, control = (as_named(name, mixes) for name in (expected.mix, expected.control))
    for name in (mix, control):
        if name not in ("*", "", *mixes):
            raise unknown("mix", name, mixes, where=where)
    if mix == mixes[0] and not expected.than and expected.finds in ("fewer", "no fewer", "higher", "lower"):
        raise UserError(f"{where}: {mix} is the baseline of the comparison: name another mix")
    if not any(expected.is_about(spec.variant) for spec in specs):
        raise unknown("variant", expected.variant, [spec.variant for spec in specs], where=where)
    probes = [*BUILT_IN, *(load_probe(name).name for spec in specs for name in spec.probes)]
    for name in expected.probes:
        if name not in probes:
            raise unknown("probe", name, dict.fromkeys(probes), where=where)
    return expected.model_copy(update={"mix": mix, "control": control})
