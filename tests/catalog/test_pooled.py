"""Several sets of seeds as one answer: ``o.load([...])`` and ``compare --pooled``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import orchestrator as o
from orchestrator.catalog.pooled import pool
from orchestrator.catalog.reading import StoredSweep, read_sweep
from orchestrator.history.export_archive import export_home
from orchestrator.history.import_archive import import_home
from orchestrator.home.directories import Home
from orchestrator.search.results import learned_runs
from orchestrator.system.errors import UserError
from orchestrator.transition.comparison import compare
from orchestrator.transition.evidence import LEARNED, Block, Direction, counted_pairs
from tests.catalog.fabricated import failed, runs_of, write_sweep
from tests.cli.program import Program
from tests.sweep.sweeps import spec

SIZES = (32, 36, 64)
"""ADD alone is learned at 64 units only, with PROD at all three sizes."""


def stored(home: Home, seed: int = 0, seeds: int = 2, **changes: object) -> StoredSweep:
    """Write a sweep of these seeds and read it."""
    fields: dict[str, object] = {"seed": seed, "seeds": seeds, "sizes": SIZES, "search": {"method": "pairs"}}
    sweep_spec = spec(**fields | changes)
    return read_sweep(home, write_sweep(home, sweep_spec).id)


def test_disjoint_seeds_add_their_runs_and_pairs(home: Home) -> None:
    first, second = stored(home), stored(home, 2, 3)
    pooled = pool([second, first])
    assert [sweep.id for sweep in pooled.sweeps] == [first.id, second.id], "in the order in which they began"
    assert len(pooled.runs) == 2 * 3 * 5
    assert pooled.answer.mix("add").runs == 15
    comparison = pooled.answer.mix("add+prod").comparison
    assert comparison is not None
    results = {run.request: run.point("add") for sweep in (first, second) for run in sweep.runs}
    pairs = counted_pairs((*first.blocks, *second.blocks), learned_runs(results, LEARNED))
    assert (len(pairs), comparison) == (15, compare(pairs, first.spec.make_family().parameters))
    assert comparison.decided is Direction.MIX_AHEAD
    alone = [sweep.answer.mix("add+prod").comparison for sweep in pooled.sweeps]
    assert all(one is not None and comparison.evidence > one.evidence for one in alone)
    assert str(pooled) == "Pooled from 2 sweeps: 30 runs"


def test_a_run_or_pair_of_two_sweeps_counts_once(home: Home) -> None:
    """One continues the other's seeds, and the third repeats one seed."""
    first, longer, overlapping = stored(home, 0, 2), stored(home, 0, 4), stored(home, 3, 2)
    pooled = pool([first, longer, overlapping])
    assert len(pooled.runs) == 2 * 3 * 5
    comparison, plain = (answer.mix("add+prod").comparison for answer in (pooled.answer, stored(home, 0, 5).answer))
    assert comparison is not None
    assert plain is not None
    assert comparison.pairs == 15
    assert comparison.evidence == pytest.approx(plain.evidence)
    assert str(pooled) == "Pooled from 3 sweeps: 30 runs, 18 repetitions not counted"
    assert [len(sweep.runs) for sweep in pooled.distinct()] == [12, 12, 6]


def test_runs_of_this_user_come_before_imported_ones(home: Home, tmp_path: Path) -> None:
    """The author of an archive chooses when its sweep began."""
    theirs = Home(tmp_path / "theirs")
    imported = write_sweep(theirs, spec(seed=0, seeds=2)).id
    own = write_sweep(home, spec(seed=0, seeds=2), outcomes={0: failed()}).id
    export_home(theirs, tmp_path / "theirs.tar.gz")
    import_home(home, tmp_path / "theirs.tar.gz", pytest.fail)
    sweeps = {sweep_id: read_sweep(home, sweep_id) for sweep_id in (imported, own)}
    assert sweeps[imported].begun <= sweeps[own].begun
    for order in ((imported, own), (own, imported)):
        assert [sweep.id for sweep in pool([sweeps[sweep_id] for sweep_id in order]).sweeps] == [own, imported]


def test_a_pair_with_one_known_run_does_not_count(home: Home) -> None:
    first, second = stored(home), stored(home, 2)
    # The first sweep also has a run of the second one's last pair, for example to locate a transition.
    known = next(run for run in second.runs if (run.config.label, run.config.size, run.config.seed) == ("add", 64, 3))
    first = replace(first, runs=(*first.runs, known))
    comparison = pool([first, second]).answer.mix("add+prod").comparison
    assert comparison is not None
    assert comparison.pairs == 11


def test_each_sweep_counts_up_to_its_own_first_incomplete_pair(home: Home) -> None:
    first, second = stored(home), stored(home, 2)
    waiting = Block("add+prod", "add", 36, 36, 7)
    first = replace(first, blocks=(first.blocks[0], waiting, *first.blocks[1:]))
    comparison = pool([first, second]).answer.mix("add+prod").comparison
    assert comparison is not None
    assert comparison.pairs == 1 + 6


def test_a_run_that_failed_in_one_sweep_only_did_not_fail(home: Home) -> None:
    sweep_spec = spec(sizes=SIZES)
    broken = read_sweep(home, write_sweep(home, sweep_spec, outcomes={1: failed()}).id)
    assert pool([broken, stored(home, 2, search={"method": "bisection"})]).answer.mix("add").failed == 1
    whole = read_sweep(home, write_sweep(home, sweep_spec).id)
    assert pool([broken, whole]).answer.mix("add").failed == 0
    assert len(runs_of(sweep_spec)) == len(pool([broken, whole]).runs)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"settings": {"haste": 0.5}}, "settings.haste (0.5 against 3.0)"),
        ({"sizes": (32, 36)}, "sizes"),
        ({"mixes": ["add", "add+max"]}, "mixes"),
        ({"question": "Does it?"}, "question ('Does it?' against 'Does PROD help ADD?')"),
        ({"search": {"method": "pairs", "learned": 0.9}}, "search.learned (0.9 against 0.8)"),
    ],
)
def test_settings_that_differ_are_refused_by_name(home: Home, changes: dict[str, object], named: str) -> None:
    one = stored(home)
    fields: dict[str, object] = {"seed": 2, "sizes": SIZES, "search": {"method": "pairs"}}
    other = read_sweep(home, write_sweep(home, spec(**fields | changes)).id)
    with pytest.raises(UserError, match="cannot be pooled") as refused:
        pool([one, other])
    assert named in str(refused.value)
    limits = spec(**fields | {"search": {"method": "pairs", "max_runs": 7}})
    assert len(pool([one, read_sweep(home, write_sweep(home, limits).id)]).runs) == 24


def test_one_sweep_is_not_a_pool(home: Home) -> None:
    one = stored(home)
    for sweeps, message in (((one,), "at least two"), ((), "none was named"), ((one, one), "named twice")):
        with pytest.raises(UserError, match=message):
            pool(sweeps)


def test_pooled_sweeps_from_python(home: Home) -> None:
    ids = [stored(home).id, stored(home, 1).id]
    pooled = o.load(ids, home.root)
    assert pooled.ids == tuple(ids)
    assert len(pooled.runs) == pooled.answer.runs == 18
    assert set(pooled.runs["sweep"]) == set(pooled.curves["sweep"]) == set(ids)
    assert not pooled.runs.duplicated(["mix", "size", "seed"]).any()
    assert list(pooled.transitions["runs"]) == [9, 9, 9]
    assert set(pooled.posterior["mix"]) <= {"add", "add+prod"}
    assert len(pooled.figure().axes) == 2
    assert "18 runs" in repr(pooled)
    with pytest.raises(UserError, match="sweep=7 cannot be used"):
        o.load([ids[0], 7], home.root)  # type: ignore[list-item]


def test_pooled_sweeps_on_the_command_line(run: Program, home: Home, tmp_path: Path) -> None:
    first, second = stored(home).id, stored(home, 2).id
    out = run("compare", "--pooled", second, first, "--home", home.root, "--output", tmp_path / "a.svg").succeeded()
    lines = out.splitlines()
    assert lines[:3] == ["Pooled from 2 sweeps: 24 runs.", f"  {first}", f"  {second}"]
    assert any(line.startswith("add+prod needs fewer parameters than add") for line in lines)
    assert (tmp_path / "a.svg").stat().st_size > 5000
    assert "named twice" in run("compare", "--pooled", first, first, "--home", home.root).refused()
    other = write_sweep(home, spec(sizes=SIZES, seed=5)).id
    assert "search.method" in run("compare", "--pooled", first, other, "--home", home.root).refused()
