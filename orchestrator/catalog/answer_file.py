"""The answer of a sweep as one JSON file that another person can check without the sweep's home.

The file contains the inputs of the answer: search space, pairs in the order of request, outcomes of runs. It also
contains the sweep's claims: the printed answer and the table of transitions. The check
(:mod:`orchestrator.catalog.verified_answer`) shows that the claims follow from the outcomes. Only training shows that
the outcomes are true.

Someone else may have written the file, so :func:`read_answer` limits its bytes, depth and texts, and checks every type.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, Field

from orchestrator.catalog.reading import StoredSweep
from orchestrator.report.answer import Answer
from orchestrator.report.answer_table import plain
from orchestrator.report.rows import rows
from orchestrator.search.base import Request
from orchestrator.space.parsing import InvalidDataError, parse
from orchestrator.space.settings import flatten
from orchestrator.system.commands import DISTRIBUTION
from orchestrator.system.errors import UserError
from orchestrator.system.strict import STRICT
from orchestrator.transition.evidence import Block
from trainables.base import Outcome, Status

ANSWER_LAYOUT = 1
"""Version of the layout. Raise it when this program can no longer read older files."""
FILE_KIND = "transition-sweeps answer"
"""Value of ``kind`` by which a file is recognized."""
LARGEST_ANSWER_FILE = 5_000_000
"""Maximum number of bytes of a file that is read. The file of a sweep of 100 runs has about 30 kB."""
DEEPEST_NESTING = 16
"""Maximum number of nested brackets in a file."""
LONGEST_FILE_TEXT = 2_000
"""Maximum number of characters of a text in a file."""
MOST_FILE_RUNS = 10_000
"""Maximum number of runs in a file."""
MOST_FILE_SCORES = 5_000
"""Maximum number of different scores in a file, counted for each task of a mix and each size. Each takes 4 ms to
check."""
MOST_FILE_TRANSITIONS = 1_000
"""Maximum number of transitions in a file: the tasks of mixes that have runs. Each takes 15 ms to estimate."""
OMITTED_KEYS = ("resources", "probes", "record", "profile_reason", "along")
"""Keys of the search space that do not affect outcomes, and could name paths, machines or code."""

Share = Annotated[float, Field(ge=0, le=1)]
Scalar = str | int | float | bool | None


class FileRun(BaseModel):
    """A run that ended. ``curve`` and ``data`` are hashes of its learning curve (:func:`curve_digest`) and its data."""

    model_config = STRICT

    mix: str
    size: int
    seed: int
    key: str
    status: Literal["finished", "diverged", "failed"]
    steps: int = Field(ge=0, le=10**15)
    accuracy: dict[str, Share]
    floor: dict[str, Share]
    curve: str
    data: str

    @property
    def request(self) -> Request:
        return Request(self.mix, self.size, self.seed)

    @property
    def has_failed(self) -> bool:
        return self.status == "failed"

    @property
    def outcome(self) -> Outcome:
        """The outcome, without its curve and measures."""
        return Outcome(Status(self.status), self.steps, self.accuracy, self.floor, data=self.data)

    def __str__(self) -> str:
        return f"{self.mix}, size {self.size}, seed {self.seed} (key {self.key})"


class Claims(BaseModel):
    """The sweep's claims: the lines of the printed answer, and the rows of the exported table ``transitions``."""

    model_config = STRICT

    answer: list[str]
    transitions: list[dict[str, Scalar]]


class AnswerFile(BaseModel):
    """Content of a file. ``program`` is the version that wrote it, and ``device`` the device that trained the runs.

    ``imported`` is true if the whole sweep came with an archive, and ``imported_runs`` counts such runs, including
    tuning runs. A file without them is of a sweep without imports, or of an earlier version.
    """

    model_config = STRICT

    kind: Literal["transition-sweeps answer"]
    layout: Literal[1]
    program: str
    sweep: str
    imported: bool = False
    imported_runs: int = Field(default=0, ge=0, le=10**9)
    device: Literal["cpu", "cuda"]
    versions: dict[str, str]
    space: dict[str, Any]
    stopped: list[str]
    pairs: list[Annotated[tuple[str, str, int, int, int], Field(strict=False)]]
    runs: Annotated[list[FileRun], Field(max_length=MOST_FILE_RUNS)]
    claims: Claims

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Pairs in the order of request."""
        return tuple(Block(*pair) for pair in self.pairs)


def curve_digest(outcome: Outcome) -> str:
    """Return a hash of a learning curve: step, loss and accuracies of each evaluation, to the last bit."""
    points = [[point.step, point.loss, dict(sorted(point.accuracy.items()))] for point in outcome.curve]
    return hashlib.sha256(json.dumps(points, sort_keys=True).encode()).hexdigest()[:16]


# Writing


def answer_text(stored: StoredSweep) -> str:
    """Return the text of the file with a sweep's answer. Each pair, run and row has its own line.

    Raises:
        UserError: If a setting is a path, or if the text would exceed a limit of :func:`read_answer`.
    """
    spec = stored.spec
    space = {key: value for key, value in spec.to_dict().items() if key not in OMITTED_KEYS}
    if spec.script is not None:
        space["script"]["directory"] = ""
    for name, value in flatten(space).items():
        if isinstance(value, str) and value.startswith(("/", "~", "\\\\")):
            raise UserError(f"{name} is a path ({value!r}), which means nothing on another machine and may be private")
    space["question"] = " ".join(spec.question.split())
    runs = [
        {
            "mix": run.config.label,
            "size": run.config.size,
            "seed": run.config.seed,
            "key": run.key,
            "status": run.outcome.status.value,
            "steps": run.outcome.steps,
            "accuracy": run.outcome.accuracy,
            "floor": run.outcome.floor,
            "curve": curve_digest(run.outcome),
            "data": run.outcome.data,
        }
        for run in stored.runs
        if run.config.label in spec.mix_named  # Earlier phases are not part of the answer.
    ]
    # Left out if nothing was imported, so that earlier versions can read the file.
    imports = {"imported": stored.is_imported, "imported_runs": stored.imported_runs} if stored.origin else {}
    content = {
        "kind": FILE_KIND,
        "layout": ANSWER_LAYOUT,
        "program": version(DISTRIBUTION),
        "sweep": stored.record_id,
        **imports,
        "device": spec.resources.device,
        "versions": stored.sweep.environment.get("versions", {}),
        "space": space,
        "stopped": sorted(stored.stopped),
        "pairs": [astuple(block) for block in stored.blocks],
        "runs": runs,
        "claims": claims_of(stored.answer).model_dump(),
    }
    scores = ((run.config.label, run.config.size, run.outcome.accuracy) for run in stored.runs)
    if flaw := next(_flaws(content), "") or _excess(scores):
        raise UserError(f"the answer of {stored.id} cannot be written: {flaw}")
    return _by_lines(content) + "\n"


def claims_of(result: Answer) -> Claims:
    """Return the claims of an answer as plain values."""
    return Claims(answer=plain(result).splitlines(), transitions=[row.columns() for row in rows(result)])


def _by_lines(value: Any, indent: int = 0) -> str:
    """Return JSON with a line for each key on the two upper levels, and for each entry of a list unless the entries are
    numbers."""
    margin = "\n" + " " * indent
    if isinstance(value, dict) and value and indent < 2:
        keys = (f"{margin} {json.dumps(key)}: {_by_lines(inner, indent + 1)}" for key, inner in value.items())
        return "{" + ",".join(keys) + margin + "}"
    if isinstance(value, list) and any(not isinstance(entry, int) for entry in value):
        return "[" + ",".join(f"{margin} {json.dumps(entry)}" for entry in value) + margin + "]"
    return json.dumps(value)


# Reading


def read_answer(path: Path) -> AnswerFile:
    """Read a file. Raises :class:`UserError` if it is not the answer of a sweep, or if it exceeds a limit."""
    if not path.is_file():  # A pipe or device could block forever.
        raise UserError(f"there is no file {str(path)!r}" if not path.exists() else f"{path} is not a regular file")
    with path.open("rb") as opened:
        content = opened.read(LARGEST_ANSWER_FILE + 1)
    if len(content) > LARGEST_ANSWER_FILE:
        raise UserError(f"{path} has more than {LARGEST_ANSWER_FILE:,} bytes, so it is not the answer of a sweep")
    try:
        data = json.loads(content.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON that can be read: {str(error).partition(chr(10))[0]}") from error
    if not isinstance(data, dict) or data.get("kind") != FILE_KIND:
        raise UserError(f"{path} is not the answer of a sweep: `export SWEEP --output NAME.json` writes one")
    if data.get("layout") != ANSWER_LAYOUT:
        layout = f"{data.get('layout')!r:.20}"
        raise UserError(
            f"{path} has layout {layout}, from another version of the program; this one reads {ANSWER_LAYOUT}"
        )
    if flaw := next(_flaws(data), ""):
        raise UserError(f"{path} cannot be used: {flaw}")
    try:
        file = parse(AnswerFile, data)
    except InvalidDataError as error:
        raise UserError(f"{path} cannot be used: {error}") from error
    if flaw := _excess((run.mix, run.size, run.accuracy) for run in file.runs):
        raise UserError(f"{path} cannot be used: {flaw}")
    return file


def _excess(scores: Iterable[tuple[str, int, Mapping[str, float]]]) -> str:
    """Return a message if it would take minutes to compute the answer, otherwise an empty string.

    Args:
        scores: Mix, size and accuracy by task of each run.
    """
    different = {(mix, task, size, share) for mix, size, shares in scores for task, share in shares.items()}
    if len(different) > MOST_FILE_SCORES:
        return f"it has {len(different):,} different scores, and at most {MOST_FILE_SCORES:,} are checked"
    transitions = {(mix, task) for mix, task, _, _ in different}
    if len(transitions) > MOST_FILE_TRANSITIONS:
        counts = f"it has runs for {len(transitions):,} tasks of mixes"
        return f"{counts}, and the transitions of at most {MOST_FILE_TRANSITIONS:,} are checked"
    return ""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key is written twice")
    return made


def _flaws(data: Any) -> Iterator[str]:
    """Yield a message for each part that is too deep or too long, and for each text with characters that control a
    terminal."""
    waiting = [(data, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > DEEPEST_NESTING:
            yield f"it has more than {DEEPEST_NESTING} nested brackets"
            return
        if isinstance(value, str):
            if len(value) > LONGEST_FILE_TEXT:
                yield f"a text has more than {LONGEST_FILE_TEXT:,} characters: {value[:40]!r}..."
            if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs") for letter in value):
                yield f"a text has control characters: {value!a:.60}"
        elif isinstance(value, dict):
            waiting += [(inner, depth + 1) for pair in value.items() for inner in pair]
        elif isinstance(value, list):
            waiting += [(inner, depth + 1) for inner in value]
