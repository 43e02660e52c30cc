"""Summary of a sweep as plain values, for `sweeps`, `status` and the page of all sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from orchestrator.catalog.reading import StoredSweep
from orchestrator.home.run_files import directory_bytes
from orchestrator.jobs.state import State
from orchestrator.report.answer import Answer
from orchestrator.report.answer_table import head_of
from orchestrator.report.cost_so_far import cost_of
from orchestrator.report.rows import targets
from orchestrator.report.sentences.changes import changed_text
from orchestrator.report.sentences.costs import cost
from orchestrator.report.sentences.explanation import Paragraph, how_sure
from orchestrator.report.sentences.findings import evidence_text
from orchestrator.report.sentences.origin import origin_text
from orchestrator.report.sentences.transitions import verdict_line, verdict_lines
from orchestrator.report.side_by_side import finding
from trainables.base import RunConfig


@dataclass(frozen=True)
class MixSummary:
    """One mix of a sweep.

    Attributes:
        done: Number of runs behind its transition.
        verdict, value, low, high: Its transition on the size axis.
        transition, parameters: The same as text, and in parameters.
        words: Its own answer in a line.
        compared: Its comparison with the baseline as text. Empty if it is not compared.
        tested: The smallest and the largest size with a run.
        has_points: True if a run counts for the transition.
    """

    mix: str
    done: int
    learned: int
    diverged: int
    failed: int
    verdict: str
    transition: str
    parameters: str
    value: int | float | None
    low: int | float | None
    high: int | float | None
    words: str
    compared: str
    tested: tuple[int, int]
    has_points: bool


@dataclass(frozen=True)
class PlainParagraph:
    """A paragraph of an explanation (:class:`~orchestrator.report.sentences.explanation.Paragraph`)."""

    label: str
    text: str
    points: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """One sweep.

    Attributes:
        begun, changed: Times in ISO 8601, in UTC.
        state, failure: State of the sweep in a word and, if it failed, the reason.
        is_imported: True if it came with an archive, or continued from an archive.
        imported_runs: Number of its runs that came with archives.
        offered: The smallest and the largest size on the axis of its answer.
        training: Number of runs that train now, by mix.
        unfinished: A line for each run in training or interrupted.
        runs: Number of runs behind the transitions.
        ended: Number of all runs that ended.
        cost: Cost so far by name.
        cost_words: Cost so far as text. Empty if there are no runs.
        run_bytes: Bytes of the runs on disk.
        directory_bytes: Bytes of the sweep's directory.
        head: A line above the table of transitions.
        parameters, learned: Headings of columns of that table.
        findings, evidence, verdicts, paragraphs: Its answer as text.
        about: A few words below its question on the page of all sweeps.
        resume: The command that resumes the sweep if it was interrupted, otherwise empty.
    """

    id: str
    space: str
    question: str
    profile: str
    changes: str
    state: str
    is_imported: bool
    imported_runs: int
    failure: str
    begun: str
    changed: str
    size_axis: str
    sizes: tuple[int, ...]
    offered: tuple[int, int]
    target: str
    mixes: tuple[MixSummary, ...]
    training: dict[str, int]
    unfinished: tuple[str, ...]
    damage: tuple[str, ...]
    runs: int
    ended: int
    cost: dict[str, int | float | None]
    cost_words: str
    run_bytes: int
    directory_bytes: int
    head: str
    parameters: str
    learned: str
    findings: tuple[str, ...]
    evidence: str
    verdicts: tuple[str, ...]
    paragraphs: tuple[PlainParagraph, ...]
    about: str
    resume: str

    @property
    def state_text(self) -> str:
        """The state, what was imported and, if the sweep failed, the reason: ``failed: ValueError: no data``."""
        state = origin_text(self.state, self.is_imported, self.imported_runs)
        return f"{state}: {self.failure}" if self.failure else state

    @property
    def is_running(self) -> bool:
        return self.state == State.RUNNING.value

    @property
    def begun_at(self) -> datetime:
        return datetime.fromisoformat(self.begun)

    @property
    def changed_at(self) -> datetime:
        return datetime.fromisoformat(self.changed)

    @property
    def disk_bytes(self) -> int:
        """Bytes of its directory and its runs (which sweeps may share), without MLflow and training data."""
        return self.run_bytes + self.directory_bytes

    @property
    def words(self) -> str:
        """Each mix with its transition and its comparison with its baseline, in one line."""
        return mixes_text(self.mixes)


def summarize(stored: StoredSweep) -> Summary:
    """Return the summary of a sweep."""
    spec = stored.spec
    answer = stored.answer
    total = cost_of(stored.spec, stored.runs)
    changes = changed_text(spec)
    return Summary(
        id=stored.id,
        space=spec.name,
        question=spec.question,
        profile=spec.profile,
        changes=changes,
        state=stored.state.value,
        is_imported=stored.is_imported,
        imported_runs=stored.imported_runs,
        failure=stored.failure,
        begun=stored.begun.isoformat(timespec="seconds"),
        changed=stored.changed.isoformat(timespec="seconds"),
        size_axis=spec.size_axis,
        sizes=tuple(spec.sizes),
        offered=(answer.counts[0].size, answer.counts[-1].size),
        target=spec.target,
        mixes=mixes_of(answer),
        training=dict(Counter(run.config.label for run in stored.training) if stored.state is State.RUNNING else {}),
        unfinished=tuple(_unfinished_line(row) for row in _unfinished_rows(stored)),
        damage=stored.warnings,
        runs=answer.runs,
        ended=len(stored.runs),
        cost=asdict(total) | {"share": total.share},
        cost_words=cost(total) if stored.runs else "",
        run_bytes=sum(map(directory_bytes, {run.directory for run in stored.runs})),
        directory_bytes=directory_bytes(stored.sweep.files.directory),
        head=head_of(answer),
        parameters=answer.words.parameters,
        learned=answer.words.learned,
        findings=finding(answer),
        evidence=evidence_text(answer),
        verdicts=verdict_lines(answer),
        paragraphs=tuple(map(_plain, how_sure(answer))),
        about=", ".join(filter(None, (spec.title, spec.profile, answer.subject, changes))),
        resume=stored.command() if stored.state is State.INTERRUPTED else "",
    )


def mixes_of(answer: Answer) -> tuple[MixSummary, ...]:
    """Return a summary of each mix of an answer."""
    return tuple(
        MixSummary(
            mix=row.mix,
            done=row.answer.runs,
            learned=row.answer.learned,
            diverged=row.answer.diverged,
            failed=row.answer.failed,
            verdict=row.task.transition.verdict.value,
            transition=row.size_text,
            parameters=row.count_text,
            value=row.task.transition.relative.value,
            low=row.task.transition.relative.low,
            high=row.task.transition.relative.high,
            words=verdict_line(answer, row.answer),
            compared=row.compared,
            tested=(row.smallest.size, row.largest.size),
            has_points=bool(row.task.transition.points),
        )
        for row in targets(answer)
    )


def mixes_text(mixes: Iterable[MixSummary]) -> str:
    """Return each mix with its transition and its comparison with its baseline, in one line."""
    parts = ([f"{mix.mix} {mix.transition}", mix.compared] for mix in mixes)
    return "; ".join(", ".join(filter(None, words)) for words in parts)


def run_rows(stored: StoredSweep) -> list[dict[str, Any]]:
    """Return a row for each run that ended, is in training or was interrupted, in that order, as plain JSON values.

    ``accuracy`` is the accuracy on the target at the last step, or None before the first evaluation.
    """
    target = stored.spec.target
    ended = [
        _row(run.key, run.config, run.outcome.status.value, run.outcome.steps, run.outcome.accuracy.get(target))
        for run in stored.runs
    ]
    return ended + _unfinished_rows(stored)


def _unfinished_rows(stored: StoredSweep) -> list[dict[str, Any]]:
    status = "training" if stored.state is State.RUNNING else "interrupted"
    target = stored.spec.target
    return [_row(run.key, run.config, status, run.step, run.accuracy(target)) for run in stored.training]


def _row(key: str, config: RunConfig, status: str, step: int, accuracy: float | None) -> dict[str, Any]:
    cell = {"key": key, "mix": config.label, "size": config.size, "seed": config.seed}
    return cell | {"status": status, "step": step, "accuracy": accuracy}


def _unfinished_line(row: dict[str, Any]) -> str:
    accuracy = row["accuracy"]
    score = "no evaluation yet" if accuracy is None else f"step {row['step']}, {accuracy:.2f}"
    return f"{row['status']} {row['key']}: {row['mix']} {row['size']} seed {row['seed']}: {score}"


def status_json(summary: Summary, rows: Sequence[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return the progress of a sweep and, if passed, the rows of its runs (:func:`run_rows`) as plain JSON values.

    Names do not change between versions. Times are ISO 8601 in UTC.
    """
    return {
        "id": summary.id,
        "question": summary.question,
        "profile": summary.profile,
        "changes": summary.changes,
        "state": summary.state,
        "imported": summary.is_imported,
        "imported_runs": summary.imported_runs,
        "begun": summary.begun,
        "changed": summary.changed,
        "size_axis": summary.size_axis,
        "sizes": list(summary.sizes),
        "target": summary.target,
        "mixes": [_mix_json(summary, mix) for mix in summary.mixes],
        **({} if rows is None else {"runs": list(rows)}),
        "cost": summary.cost,
        "failure": summary.failure,
        "damage": list(summary.damage),
        "disk_bytes": summary.disk_bytes,
    }


def _mix_json(summary: Summary, mix: MixSummary) -> dict[str, Any]:
    shown = ("verdict", "transition", "parameters", "value", "low", "high", "words")
    counts = {name: getattr(mix, name) for name in ("mix", "done", "learned", "diverged", "failed")}
    return {**counts, "training": summary.training.get(mix.mix, 0), **{name: getattr(mix, name) for name in shown}}


def _plain(paragraph: Paragraph) -> PlainParagraph:
    return PlainParagraph(paragraph.label, paragraph.text, paragraph.points)
