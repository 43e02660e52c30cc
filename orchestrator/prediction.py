"""Scores of mixes before any training, from the tables of their tasks alone: which partner should help the target?

Higher means that the partner should help more. No score was fitted to any result. All probabilities are over tuples of
items drawn evenly.

Shape legend: a table is an int64 array [N] * k of codes, k arguments (:class:`trainables.contract.tables.TaskTables`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.space.spec import SweepSpec
from trainables.contract.tables import TaskTables, group_of, respects

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """A score by its name. ``says`` describes it in a line; ``of(target, partner, tables)`` returns a number, in [0, 1]
    unless it is a count, or None if it is undefined for these tables."""

    name: str
    says: str
    of: Callable[[str, str, TaskTables], float | None]


def output_entropy(task: str, tables: TaskTables) -> float:
    """Entropy of a task's values, in nats; at most ln N over N items."""
    return _entropy(tables.values[task])


def shared_groupings(target: str, partner: str, tables: TaskTables) -> float:
    """Number of groupings that both tasks respect: the group of a task's value depends on the groups of its arguments
    alone (a quotient of Z_n for ADD and PROD), and differs between arguments."""
    return float(len(_shared(target, partner, tables)))


def shared_structure(target: str, partner: str, tables: TaskTables) -> float:
    """Share of the target's output entropy that the shared groupings determine together: H(groups) / H."""
    groups = _joined(
        [group_of(tables.values[target], labels, tables.items) for labels in _shared(target, partner, tables)]
    )
    entropy = _entropy(tables.values[target])
    return 0.0 if groups is None or entropy == 0 else _entropy(groups) / entropy


def mutual_information(target: str, partner: str, tables: TaskTables) -> float:
    """I(target; partner) / H(target), for the same arguments."""
    one, other = tables.values[target], tables.values[partner]
    entropy = _entropy(one)
    both = _joined([one, other])
    assert both is not None
    return 0.0 if entropy == 0 else max(0.0, (entropy + _entropy(other) - _entropy(both)) / entropy)


def partner_ease(target: str, partner: str, tables: TaskTables) -> float:
    """Unevenness of the partner's outputs: 1 - H(partner) / ln N."""
    return 1 - _entropy(tables.values[partner]) / float(np.log(tables.items))


def partner_peak(target: str, partner: str, tables: TaskTables) -> float:
    """Probability of the partner's most frequent output: the score of a constant answer."""
    return float(_shares(tables.values[partner]).max())


def fourier_overlap(target: str, partner: str, tables: TaskTables) -> float | None:
    """Overlap of two tasks' Fourier power over (Z_n)^k: sum of sqrt(p q) (Bhattacharyya 1943). p is the power of the
    target's output indicators at each frequency but 0, summed over outputs and scaled to 1; q the partner's. None
    unless items are numbers modulo N."""
    if not tables.in_order:
        return None
    return float(np.sqrt(_power(tables.values[target]) * _power(tables.values[partner])).sum())


def chance(target: str, partner: str, tables: TaskTables) -> float:
    """A number without information, from a hash of both names: the control."""
    digest = hashlib.sha256(f"{target}, {partner}, {tables.items}".encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32


SCORES = (
    Score("shared_groupings", "groupings of the items that both tasks respect", shared_groupings),
    Score("shared_structure", "share of the target's entropy those groupings determine", shared_structure),
    Score("mutual_information", "information the partner's value gives about the target's", mutual_information),
    Score("partner_ease", "how uneven the partner's values are, by entropy", partner_ease),
    Score("partner_peak", "frequency of the partner's most frequent value", partner_peak),
    Score("fourier_overlap", "Fourier power that both tasks have in common", fourier_overlap),
    Score("chance", "a number without information: the control", chance),
)
"""All scores, in the order they are printed."""


def mix_scores(target: str, partners: Sequence[str], tables: TaskTables) -> dict[str, float]:
    """The scores of a mix, each the mean over its partners. Undefined scores are left out."""
    found = {}
    for score in SCORES:
        each = [score.of(target, partner, tables) for partner in partners]
        known = [value for value in each if value is not None]
        if known and len(known) == len(each):
            found[score.name] = float(np.mean(known))
    return found


def predicted(spec: SweepSpec) -> dict[str, dict[str, float]]:
    """Scores of every mix except the baseline, by the mix's name without recipe; empty if the family has no tables for
    its tasks. Partners are the tasks of all phases but the target."""
    partners = {
        arm.composition: sorted({task for phase in arm.phases for task in phase.mix.tasks} - {spec.target})
        for arm in spec.mixes
    }
    asked = {name: tasks for name, tasks in partners.items() if tasks}
    tasks = sorted({spec.target, *(task for each in asked.values() for task in each)})
    tables = spec.make_family().tables(tasks, spec.seed) if asked else None
    return {} if tables is None else {name: mix_scores(spec.target, each, tables) for name, each in asked.items()}


def entropies(spec: SweepSpec) -> dict[str, float]:
    """Entropy of every task's values in nats; empty if the family has no tables."""
    tasks = sorted({spec.target, *(task for arm in spec.mixes for phase in arm.phases for task in phase.mix.tasks)})
    tables = spec.make_family().tables(tasks, spec.seed)
    return {} if tables is None else {task: output_entropy(task, tables) for task in tasks}


def _shared(target: str, partner: str, tables: TaskTables) -> list[Integers]:
    """The labels [N] of every grouping that both tasks respect."""
    kept = []
    for labels in tables.groupings.values():
        grouped = np.asarray(labels, dtype=np.int64)
        if all(respects(tables.values[task], grouped, tables.items) for task in (target, partner)):
            kept.append(grouped)
    return kept


def _joined(tables: Sequence[Integers]) -> Integers | None:
    """One code for the values of several tables together; None without any."""
    joined: Integers | None = None
    for table in tables:
        codes = table if joined is None else joined * (int(table.max()) + 1) + table
        joined = np.unique(codes, return_inverse=True)[1].reshape(table.shape)
    return joined


def _shares(table: Integers) -> Floats:
    counts = np.unique(table, return_counts=True)[1]
    shares: Floats = counts / counts.sum()
    return shares


def _entropy(table: Integers) -> float:
    """In nats."""
    shares = _shares(table)
    return float(-(shares * np.log(shares)).sum())


def _power(table: Integers) -> Floats:
    """Power [N] * k at each frequency but 0, scaled to a sum of 1; all 0 for a constant table."""
    power = np.zeros(table.shape)
    for value in np.unique(table):
        power += np.abs(np.fft.fftn(table == value)) ** 2
    power.reshape(-1)[0] = 0.0
    total = power.sum()
    scaled: Floats = power / total if total > 0 else power
    return scaled
