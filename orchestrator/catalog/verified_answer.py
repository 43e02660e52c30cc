"""The check of an answer file: its answer is computed again from its pairs and outcomes, and compared with its claims.

No family or probe that only the file names is imported. If the family is not part of this repository, readers pass
their own search space with the same family.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.catalog.answer_file import OMITTED_KEYS, AnswerFile, Claims, FileRun, Scalar, claims_of, curve_digest
from orchestrator.report.answer import Answer, answer
from orchestrator.search.base import Request
from orchestrator.space.parsing import InvalidDataError, parse
from orchestrator.space.problem import problem_of
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.system.did_you_mean import unknown
from orchestrator.system.errors import UserError
from orchestrator.system.reading_time import check_reading_time, reading_limited
from trainables.base import Outcome
from trainables.families import BUILT_IN

NUMBER_TOLERANCE = 5e-3
"""Relative tolerance for numbers. Posteriors have single precision, and processors may round it differently."""


@dataclass(frozen=True)
class VerifiedAnswer:
    """A file with its specification, the recomputed answer, and how the answer differs from the file's claims."""

    file: AnswerFile
    spec: SweepSpec
    answer: Answer
    differences: tuple[str, ...]


def check(file: AnswerFile, allowed: Sequence[str] = ()) -> VerifiedAnswer:
    """Compute a file's answer again from its pairs and outcomes, and compare it with the file's claims.

    Args:
        file: The file.
        allowed: Families outside this program that the file may name.

    Raises:
        UserError: For values that cannot be used, and for any other family.
    """
    with reading_limited(is_foreign=True, remedy=""):
        spec = spec_of(file, allowed)
        family = spec.make_family()
        runs: list[Run] = []
        other: list[str] = []
        for written in file.runs:
            check_reading_time()  # A script may have many settings, which are read for each run.
            run = Run(written.request, spec.config(written.request), written.outcome)
            runs.append(run)
            if (key := family.key(run.config)) != written.key:
                other.append(f"{written}: its settings have the key {key}")
        result = answer(spec, runs, frozenset(file.stopped), file.blocks, is_foreign=True)
        return VerifiedAnswer(file, spec, result, (*other, *_differences(file.claims, claims_of(result))))


def spec_of(file: AnswerFile, allowed: Sequence[str] = ()) -> SweepSpec:
    """Return the specification of a file's sweep.

    Args:
        file: The file.
        allowed: Families outside this program that the file may name. To read a specification imports its family.

    Raises:
        UserError: For values that cannot be used, and for any other family.
    """
    family = file.space.get("family")
    if not isinstance(family, str) or (family not in BUILT_IN and family not in allowed):
        if isinstance(family, str) and ":" in family:
            remedy = "If you have this family, pass your own search space that uses it: --space FILE.yaml"
            raise UserError(
                f"the file's family {family!r} is not part of this program. Code that a file names is not run. {remedy}"
            )
        raise unknown("family", str(family), BUILT_IN, where="the file")
    if left_out := sorted(set(OMITTED_KEYS) & file.space.keys()):
        raise UserError(f"space.{left_out[0]} does not belong in the answer of a sweep")
    resources = {"gpu_per_stack": 1.0} if file.device == "cuda" else {}
    try:
        with reading_limited(is_foreign=True, remedy=""):
            spec = parse(SweepSpec, {**file.space, "resources": resources})
    except InvalidDataError as error:
        raise UserError(f"space: {error}") from error
    _check_runs(file, spec)
    return spec


def _check_runs(file: AnswerFile, spec: SweepSpec) -> None:
    """Raise :class:`UserError` for a run or pair that the search space does not contain, or that occurs twice."""
    mixes = spec.mix_named
    seen = set[Request]()
    for index, run in enumerate(file.runs):
        where = f"runs[{index}]"
        _check_cell(spec, where, run.mix, run.size, run.seed)
        if run.request in seen:
            raise UserError(f"{where}: {run.mix}, size {run.size}, seed {run.seed} occurs twice")
        seen.add(run.request)
        tasks = () if run.has_failed else mixes[run.mix].tasks
        for name, scores in (("accuracy", run.accuracy), ("floor", run.floor)):
            if set(scores) != set(tasks):
                raise UserError(f"{where}.{name} has the tasks {sorted(scores)}; it must have {sorted(tasks)}")
    comparisons = set(problem_of(spec).comparisons)
    for index, block in enumerate(file.blocks):
        where = f"pairs[{index}]"
        if (block.mix, block.baseline) not in comparisons:
            raise UserError(f"{where}: {block.mix!r} is not compared with {block.baseline!r} in this search space")
        for mix, size, seed in block.runs:
            _check_cell(spec, where, mix, size, seed)
    if len(set(file.blocks)) < len(file.blocks):
        raise UserError("a pair occurs twice, so its evidence would count twice")
    if unknown_mixes := sorted(set(file.stopped) - set(mixes)):
        raise unknown("mix", unknown_mixes[0], mixes, where="stopped")


def _check_cell(spec: SweepSpec, where: str, mix: str, size: int, seed: int) -> None:
    if mix not in spec.mix_named:
        raise unknown("mix", mix, spec.mix_named, where=where)
    if size not in spec.sizes:
        raise UserError(f"{where}: {size} is not one of the sizes {', '.join(map(str, spec.sizes))}")
    if seed not in range(spec.seed, spec.seed + spec.seeds):
        raise UserError(f"{where}: seed {seed} is not one of {spec.seed} to {spec.seed + spec.seeds - 1}")


def _differences(claimed: Claims, computed: Claims) -> Iterator[str]:
    """Yield a line for each line of the answer and each value of the table that differs."""
    for line in claimed.answer:
        if line not in computed.answer:
            yield f"the file contains a line that the recomputed answer does not: {line}"
    for line in computed.answer:
        if line not in claimed.answer:
            yield f"the recomputed answer contains a line that the file does not: {line}"
    if claimed.answer != computed.answer and set(claimed.answer) == set(computed.answer):
        yield "the file repeats lines of the answer, or has them in another order"
    computed_rows = {_row_name(row): row for row in computed.transitions}
    if [_row_name(row) for row in claimed.transitions] != list(computed_rows):
        yield f"the table of transitions is about {', '.join(computed_rows)}"
        return
    for row in claimed.transitions:
        computed_row = computed_rows[_row_name(row)]
        if extra := sorted(row.keys() - computed_row.keys()):
            yield f"the table of transitions has no column {', '.join(extra)} for {_row_name(row)}"
        # An earlier version may lack a column, so only the columns of both are compared.
        for column in sorted(row.keys() & computed_row.keys()):
            if not _is_close(row[column], computed_row[column]):
                yield f"{column} of {_row_name(row)} is {computed_row[column]!r}, but {row[column]!r} in the file"


def _row_name(row: Mapping[str, Scalar]) -> str:
    return f"{row.get('task')} in {row.get('mix')}"


def _is_close(one: Scalar, other: Scalar) -> bool:
    numbers = [value for value in (one, other) if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < 2:
        return one == other
    try:
        return math.isclose(*numbers, rel_tol=NUMBER_TOLERANCE, abs_tol=NUMBER_TOLERANCE / 5)
    except OverflowError:  # One is an integer that is larger than every float.
        return one == other


def outcome_differences(run: FileRun, outcome: Outcome) -> list[str]:
    """Return how the outcome of a run that was trained again differs from the file's outcome, to the last bit."""
    ours = {
        "status": outcome.status.value,
        "steps": outcome.steps,
        "accuracy": outcome.accuracy,
        "floor": outcome.floor,
        "learning curve (hash)": curve_digest(outcome),
        "data (hash)": outcome.data,
    }
    theirs = (run.status, run.steps, run.accuracy, run.floor, run.curve, run.data)
    compared = zip(ours.items(), theirs, strict=True)
    return [f"{name} is {mine!r}, but {claimed!r} in the file" for (name, mine), claimed in compared if mine != claimed]
