"""Scores for a pair of tasks, from their tables alone: how much might learning one help with the other?

Every score is one that somebody could believe in, and higher always means that the partner should help more. None was
fitted to any result. All probabilities are over tuples of items drawn evenly.

Shape legend: a table is an int64 array [N] * k of codes, k arguments (:class:`trainables.tables.TaskTables`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainables.tables import TaskTables, group_of, respects

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """A score by its name. ``says`` is a line for people; ``of(target, partner, tables)`` gives a number, in [0, 1]
    but for counts, or None where it means nothing for these tables."""

    name: str
    says: str
    of: Callable[[str, str, TaskTables], float | None]


def output_entropy(task: str, tables: TaskTables) -> float:
    """The entropy of what a task gives, in nats: low where few values are frequent, at most ln N over N items."""
    return _entropy(tables.values[task])


def shared_groupings(target: str, partner: str, tables: TaskTables) -> float:
    """How many of the groupings both tasks respect: the group of what the task makes of items depends on the groups of
    the items alone (a quotient of Z_n for ADD and PROD), and is not the same for all."""
    return float(len(_shared(target, partner, tables)))


def shared_structure(target: str, partner: str, tables: TaskTables) -> float:
    """The share of the target's output entropy that the groupings both respect determine together: H(groups) / H."""
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
    """1 - H(partner) / ln N: how far the partner's outputs are from evenly spread."""
    return 1 - _entropy(tables.values[partner]) / float(np.log(tables.items))


def partner_peak(target: str, partner: str, tables: TaskTables) -> float:
    """The probability of the partner's most frequent output: what a constant answer scores."""
    return float(_shares(tables.values[partner]).max())


def fourier_overlap(target: str, partner: str, tables: TaskTables) -> float | None:
    """How much of the Fourier power over (Z_n)^k two tasks have in common: sum of sqrt(p q) (Bhattacharyya 1943), where
    p is the power of the target's output indicators at each frequency but 0, summed over outputs and scaled to 1, and q
    the partner's. None where items are no numbers modulo N."""
    if not tables.in_order:
        return None
    return float(np.sqrt(_power(tables.values[target]) * _power(tables.values[partner])).sum())


def chance(target: str, partner: str, tables: TaskTables) -> float:
    """A number that knows nothing, from a hash of both names: the yardstick."""
    digest = hashlib.sha256(f"{target}, {partner}, {tables.items}".encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32


SCORES = (
    Score("shared_groupings", "groupings of the items that both tasks respect", shared_groupings),
    Score("shared_structure", "share of the target's entropy those groupings determine", shared_structure),
    Score("mutual_information", "information the partner's value gives about the target's", mutual_information),
    Score("partner_ease", "how uneven the partner's values are, by entropy", partner_ease),
    Score("partner_peak", "frequency of the partner's most frequent value", partner_peak),
    Score("fourier_overlap", "Fourier power that both tasks have in common", fourier_overlap),
    Score("chance", "a number that knows nothing", chance),
)
"""All scores, in the order they are printed."""


def mix_scores(target: str, partners: Sequence[str], tables: TaskTables) -> dict[str, float]:
    """The scores of a mix: for several partners the mean over them. Scores that mean nothing here are left out."""
    found = {}
    for score in SCORES:
        each = [score.of(target, partner, tables) for partner in partners]
        known = [value for value in each if value is not None]
        if known and len(known) == len(each):
            found[score.name] = float(np.mean(known))
    return found


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
