"""A sweep explained in paragraphs: question, findings, certainty, caveats and next step."""

from __future__ import annotations

from typing import NamedTuple

from orchestrator.report.answer import Answer
from orchestrator.report.sentences.changes import changed_text
from orchestrator.report.sentences.findings import (
    by_size_lines,
    caveats,
    evidence_text,
    factor_estimate_text,
    sentences,
)
from orchestrator.report.sentences.next_step import next_step
from orchestrator.report.sentences.transitions import MOST_LISTED, called, disagreement_text, verdict_line
from orchestrator.search.base import BY_HAND
from orchestrator.space.spec import SweepSpec
from orchestrator.space.tuning_settings import NOTHING_BETTER
from orchestrator.system.text import counted, exact, listed
from orchestrator.transition.types import LEVEL

WAITING = {"interrupted": "Resume the sweep: it was interrupted.", "running": "Let the sweep finish."}
"""The next step of a sweep that has not ended."""
PAIR = (
    "A pair is one model of each mix, of one size, with the same seed, so that both are tested on the same questions; "
    "initial weights and the order of training data differ. Only pairs count as evidence."
)
BY_SIZE = (
    "The decision uses all sizes together. Here is the evidence within each range of sizes, for more often and for "
    "less often:"
)


class Paragraph(NamedTuple):
    """A few sentences under a ``label``, and ``points`` on separate lines."""

    label: str
    text: str
    points: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n  - ".join((f"{self.label}: {self.text}".rstrip(), *self.points))


def explain(spec: SweepSpec, answer: Answer, state: str, failure: str = "") -> tuple[Paragraph, ...]:
    """Return an explanation of a sweep. ``state`` is its state in one word, and ``failure`` why it failed."""
    ends = dict.fromkeys(exact(count.size) for count in (answer.counts[0], answer.counts[-1]))
    sizes = f"{answer.size_axis} {' to '.join(ends)}"
    changes = "; ".join(filter(None, (sizes, changed_text(spec))))
    mixes = listed([called(mix) for mix in answer.mixes])
    question = Paragraph(
        "Asked",
        f"{spec.question} Target {answer.target}; mixes {mixes}; {changes}. "
        f"The transition is the size at which mean {answer.words.score} reaches {LEVEL:.0%} of its asymptote.",
    )
    if not answer.runs:
        suffix = "" if state == "failed" else f" The sweep is {state}."
        nothing_yet = Paragraph("Found", f"{sentences(answer)[0]}{suffix}")
        logs = f"See the error of a run with `logs {answer.failed_run}`."
        retry = Paragraph("Next", f"{logs} Once you have fixed it, resume with --retry-failed.")
        if state != "failed":
            return question, nothing_yet
        after = retry if answer.failed else next_paragraph(spec, answer, state, failure=failure)
        return (question, nothing_yet, *_failed(failure), after)
    is_state = "has failed" if state == "failed" else f"is {state}"
    so_far = "" if state == "finished" else f" (so far: the sweep {is_state})"
    own = [] if answer.nothing_learned else [f"{verdict_line(answer, mix)}." for mix in answer.mixes if mix.runs]
    findings = " ".join(sentences(answer) if answer.compared or answer.nothing_learned else ())
    lines = all_caveats(answer)
    sure, *more = how_sure(answer)
    return (
        question,
        Paragraph(f"Found, from {counted(answer.runs, 'run')}{so_far}", findings, tuple(own)),
        sure._replace(text=f"{sure.text} {PAIR}") if evidence_text(answer) else sure,
        *more,
        *([Paragraph("Caveats", "", lines)] if lines else []),
        *_failed(failure),
        next_paragraph(spec, answer, state, failure=failure),
    )


def all_caveats(answer: Answer) -> tuple[str, ...]:
    """Return the caveats and how the recipe was chosen. The latter is omitted before the first run has ended, and if
    recipes are compared."""
    if answer.recipes or not answer.runs:
        return caveats(answer)
    one_recipe = "All runs used one training recipe; another recipe may give another answer."
    is_tuned = any(not line.endswith(NOTHING_BETTER) for line in answer.tuned)
    return (*caveats(answer), "Settings were tuned for each mix." if is_tuned else one_recipe)


def how_sure(answer: Answer) -> tuple[Paragraph, ...]:
    """Return the evidence, also by range of sizes, and the seeds that disagree. Return nothing if no run has ended."""
    if not answer.runs:
        return ()
    shown = [mix for mix in answer.mixes if mix.runs or mix.stopped]
    counts = [mix.runs for mix in answer.mixes]
    runs = [f"{mix.runs} of {called(mix)}{f' ({BY_HAND})' if mix.stopped else ''}" for mix in shown]
    if len(runs) > MOST_LISTED:
        per_mix = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else str(min(counts))
        runs = [f"{sum(counts)}, {per_mix} per mix"]
    parts = [evidence_text(answer), factor_estimate_text(answer), f"Runs: {listed(runs)}."]
    sure = Paragraph("How sure", " ".join(part for part in parts if part))
    by_size = by_size_lines(answer)
    disagreement = disagreement_text(answer)
    return (
        sure,
        *([Paragraph("By size", BY_SIZE, by_size)] if by_size else ()),
        *([Paragraph("Where seeds disagree", f"{disagreement}.")] if disagreement else ()),
    )


def _failed(failure: str) -> tuple[Paragraph, ...]:
    return (Paragraph("Failed", failure),) if failure else ()


def next_paragraph(spec: SweepSpec, answer: Answer, state: str, *, failure: str = "") -> Paragraph:
    """Return the next step, without its command."""
    if failure:
        return Paragraph("Next", "Correct the cause of the failure, then resume the sweep.")
    step = None if state in WAITING else next_step(spec, answer)
    reached = "No further run is recommended." if step is None else step.why
    return Paragraph("Next", WAITING.get(state, reached))
