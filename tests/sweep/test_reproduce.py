"""The ``reproduce`` command: missing sweeps are run, existing ones are read, and verdicts follow from evidence."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from orchestrator.history.export_archive import export_home
from orchestrator.history.import_archive import import_home
from orchestrator.home.directories import Home
from orchestrator.space.expectations import expectations_of
from orchestrator.space.spaces import load_space, open_space
from orchestrator.system.errors import INTERRUPTED
from tests.catalog.fabricated import write_sweep
from tests.cli.program import command
from tests.sweep.sweeps import interrupt_after

pytestmark = pytest.mark.usefixtures("undrawn")

HELPS = """
name: helps
question: Does PROD help?
family: tests.families:LogisticFamily
target: add
mixes: [add, add+prod]
sizes: [4, 8, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128]
seeds: 3
search: {method: grid}
expects:
  - {claim: PROD helps, source: the family's docstring, finds: fewer}
  - {claim: PROD does not help, source: nobody, mix: prod+add, finds: no fewer}
profiles: {tiny: {}}
"""
GROWS = (
    HELPS.replace("helps", "grows").split("expects:")[0]
    + """
expects:
  - {claim: it grows no faster than the midpoint, source: the family's docstring, finds: exponent below, limit: 1.5}
along: settings.curve.midpoint
variants:
  at_12: {settings: {curve: {midpoint: 12}}}
  at_24: {settings: {curve: {midpoint: 24}}}
profiles: {tiny: {}}
"""
)
UNRECORDED = ("--engine=local", "--record=jsonl")


@pytest.fixture
def place(workplace: Path) -> Path:
    (workplace / "helps.yaml").write_text(HELPS)
    (workplace / "grows.yaml").write_text(GROWS)
    return workplace


def reproduce(*words: str) -> str:
    return command("reproduce", "helps.yaml", "grows.yaml", "--profile", "tiny", *UNRECORDED, *words).succeeded()


def table(place: Path) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Return finding and verdict by experiment, mix and statement."""
    text = (place / "results" / "reproduce" / "tiny" / "table.md").read_text()
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {(space, about, claim): (result, verdict) for space, about, claim, result, _, verdict in lines[2:]}


def test_missing_sweeps_are_run_once_and_compared_with_expectations(place: Path) -> None:
    output = reproduce()
    ids = Home(place / "results").sweep_ids()
    assert sorted(item.rsplit("-", 3)[0] for item in ids) == ["grows-at_12", "grows-at_24", "helps"]
    rows = table(place)
    assert len(rows) == 4
    assert rows["helps", "add+prod", "PROD helps"][1] == "agrees"
    assert rows["helps", "add+prod", "PROD does not help"][1] == "contradicted"
    for mix in ("add", "add+prod"):
        result, verdict = rows["grows", mix, "it grows no faster than the midpoint"]
        assert verdict == "agrees"
        assert result.startswith("exponent ")
    assert "4 rows: 3 agree, 1 contradicted. Of the 2 rows decided by evidence, at most 1 in 10 is expected" in output

    assert "repeat this command" not in output
    assert reproduce().count("of 3:") == 0  # All sweeps exist.
    assert Home(place / "results").sweep_ids() == ids


def test_the_sweep_of_an_archive_reproduces_nothing(place: Path) -> None:
    """Whoever wrote it chose its outcomes."""
    helps = load_space("helps.yaml", "tiny", ())
    export_home(write_sweep(Home(place / "theirs"), helps).files.home, place / "theirs.tar.gz")
    import_home(Home(place / "results"), place / "theirs.tar.gz", pytest.fail)
    words = ("reproduce", "helps.yaml", "--profile", "tiny", "--only-table")
    output = command(*words).succeeded()
    assert "came with an archive, so it is not counted as yours" in output
    assert {verdict for _, verdict in table(place).values()} == {"not run"}
    output = command(*words[:-1], *UNRECORDED).succeeded()
    [own] = {*Home(place / "results").sweep_ids()} - {*Home(place / "theirs").sweep_ids()}
    assert f"{own} has 72 runs that came with an archive" in output
    [written] = (place / "results" / "reproduce").rglob("table.md")
    assert f"{own} has 72 runs that came with an archive." in written.read_text()
    import_home(Home(place / "results"), place / "theirs.tar.gz", pytest.fail, mine=True)
    command(*words).succeeded()
    assert {verdict for _, verdict in table(place).values()} == {"agrees", "contradicted"}


SIDES = """
from trainables import SimpleFamily

class Sides(SimpleFamily):
    task_names = ("t", "u")
    floor = 0.05
    version = {version}

    def train(self, tasks, size, seed, settings):
        at = {together} if len(tasks) > 1 else {alone}
        for step in (1, 2):
            yield step, 1.0, 0.9 if size >= at else 0.1
"""
OF_SIDES = """
question: Does u help t?
family: {module}:Sides
target: t
mixes: [t, t+u]
sizes: [1, 2, 4]
seeds: 4
settings: {{steps: 2}}
expects: [{{claim: u helps, source: ours, mix: t+u, finds: fewer}}]
profiles: {{tiny: {{}}}}
"""


def write_sides(place: Path, module: str, *, together: int = 1, alone: int = 4, version: int = 1) -> None:
    """Write a family whose mixes learn from these sizes on, and two spaces of it."""
    (place / f"{module}.py").write_text(SIDES.format(together=together, alone=alone, version=version))
    (place / "sides.yaml").write_text(OF_SIDES.format(module=module))
    (place / "other.yaml").write_text(OF_SIDES.format(module=module) + "seed: 50\n")


def test_an_answer_of_other_code_is_refused_with_two_ways_on(place: Path) -> None:
    """The code changes so that the answer is reversed."""
    write_sides(place, "sides_of_reproduce")
    words = ("reproduce", "sides.yaml", "--profile", "tiny")
    assert "1 row: 1 agrees" in command(*words, *UNRECORDED).succeeded()
    write_sides(place, "sides_of_reproduce", together=4, alone=1)
    [sweep_id] = Home(place / "results").sweep_ids()
    for more in (UNRECORDED, ("--only-table",)):
        message = command(*words, *more).refused()
        assert f"has changed, and {sweep_id} would stand for the present code" in message
        for way in ("version", "run --fresh", "--set code=warn"):
            assert way in message
    warned = command(*words, *UNRECORDED, "--set", "code=warn").succeeded()
    assert f"has changed since {sweep_id} started; its answer" in warned
    assert "1 row: 1 agrees" in warned
    command("run", "sides.yaml", "--profile", "tiny", *UNRECORDED, "--fresh").succeeded()
    assert "1 row: 1 contradicted" in command(*words, *UNRECORDED).succeeded()


def test_an_answer_of_another_version_or_of_changed_fresh_runs_counts_nowhere(place: Path) -> None:
    """Runs of another version have other keys, and so have those of ``--fresh``."""
    write_sides(place, "sides_of_version")
    words = ("sides.yaml", "--profile", "tiny", *UNRECORDED)
    command("reproduce", *words).succeeded()
    write_sides(place, "sides_of_version", together=4, alone=1, version=2)
    output = command("reproduce", *words).succeeded()
    assert "is of another version of sides_of_version:Sides, so it does not count" in output
    assert "1 row: 1 contradicted" in output
    assert len(Home(place / "results").sweep_ids()) == 2

    write_sides(place, "sides_of_version", version=3)
    both = ("run", "sides.yaml", "other.yaml", "--profile", "tiny", *UNRECORDED)
    command(*both, "--fresh").succeeded()
    assert command(*both, "--resume", "").succeeded().count("answered by") == 2
    write_sides(place, "sides_of_version", together=4, alone=1, version=3)
    assert "would stand for the present code" in command(*both, "--resume", "").refused()


def test_an_unfinished_sweep_of_other_code_is_not_continued(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one answer would mix both."""
    write_sides(place, "sides_unfinished")
    words = ("reproduce", "sides.yaml", "--profile", "tiny", *UNRECORDED)
    with monkeypatch.context() as patch:
        interrupt_after(3, patch)
        assert command(*words).code == INTERRUPTED
    write_sides(place, "sides_unfinished", together=4, alone=1)
    assert "would stand for the present code" in command(*words).refused()
    write_sides(place, "sides_unfinished")
    assert "1 row: 1 agrees" in command(*words).succeeded()


@pytest.mark.parametrize("where", ["file", "directory", "above"])
def test_the_table_is_not_written_through_a_link(where: str, place: Path) -> None:
    """A home that was copied from another user may have one."""
    precious = place / "precious"
    precious.mkdir()
    (precious / "table.md").write_text("kept")
    (precious / "tiny").mkdir()
    at = {"file": "reproduce/tiny/table.md", "directory": "reproduce/tiny", "above": "reproduce"}[where]
    link = place / "results" / at
    link.parent.mkdir(parents=True)
    link.symlink_to(precious / "table.md" if where == "file" else precious)
    done = command("reproduce", "helps.yaml", "--profile", "tiny", "--only-table")
    assert [path.name for path in precious.rglob("*") if path.is_file()] == ["table.md"]
    assert (precious / "table.md").read_text() == "kept"
    if where == "file":
        assert done.succeeded()
        assert not link.is_symlink()
    else:
        assert f"{link} is a link, which is not followed" in done.refused()


FAILS = """
name: fails
question: Is it tried again after a bug is fixed?
family: tests.scripted:ScriptedFamily
target: add
mixes: [add]
sizes: [8]
seeds: 2
search: {{method: grid}}
settings: {{log: {log}, trouble: bug, size: 8, times: 2}}
resources: {{max_stack: 1}}
expects: [{{claim: ADD is learned, source: nobody, finds: transition, mix: add}}]
profiles: {{tiny: {{}}}}
variants: {{a: {{seed: 0}}, b: {{seed: 10}}}}
"""


def test_an_interrupted_reproduction_says_how_to_continue(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep itself continues under its own `run` command, and the rest under the same command."""
    interrupt_after(3, monkeypatch)
    done = command("reproduce", "grows.yaml", "--profile", "tiny", "--engine=local", "--set", "seeds=2")
    (sweep,) = Home(place / "results").sweep_ids()
    resumed = f"run grows.yaml --profile tiny --variant at_12 --set seeds=2 --engine local --resume {sweep}"
    assert done.code == INTERRUPTED
    assert resumed in done.out
    assert "missing 2 sweeps; to run them, repeat this command" in done.out
    assert "size at 80%" in command(*shlex.split(resumed)).succeeded()


def test_runs_that_all_failed_are_tried_again(workplace: Path) -> None:
    (workplace / "fails.yaml").write_text(FAILS.format(log=workplace / "log"))
    words = ("reproduce", "fails.yaml", "--profile", "tiny", "--engine=local")
    assert "fails, a failed: " in command(*words).out
    assert "failed: " not in command(*words).succeeded()


def test_failed_runs_of_variants_are_tried_again(workplace: Path) -> None:
    (workplace / "fails.yaml").write_text(FAILS.format(log=workplace / "log").replace("times: 2", "times: 1"))
    words = ("run", "fails.yaml", "--profile", "tiny", "--engine=local")
    assert "(1 failed)" in command(*words).succeeded()
    assert "answered by" in command(*words, "--resume", "").succeeded()
    assert "failed)" not in command(*words, "--resume", "", "--retry-failed").succeeded()


@pytest.mark.night
def test_all_statements_can_be_checked_with_other_settings(place: Path) -> None:
    overridden = ("--set", "seeds=2", "--set", "settings.curve.slope=12.0")
    output = reproduce(*overridden)
    path = Path(output.split("table   ")[1].strip())
    assert path.parent.name.startswith("tiny_")
    assert "tiny, seeds=2, settings.curve.slope=12.0: 3 sweeps" in path.read_text()
    assert not (place / "results" / "reproduce" / "tiny").exists()
    assert "of 3:" not in reproduce(*overridden)


@pytest.mark.parametrize(
    ("wrong", "output"),
    [
        ("expects: 3", "expects: must be a list"),
        ("expects: [{claim: A, source: B, finds: more}]", "expects[0].finds"),
        ("expects: [{claim: A, finds: fewer}]", "expects[0].source"),
        ("expects: [{claim: A, source: B, finds: fewer, mix: add+max}]", "unknown mix 'add+max'"),
        ("expects: [{claim: A, source: B, finds: fewer, control: max}]", "unknown mix 'max'"),
        ("expects: [{claim: A, source: B, finds: fewer, mix: add}]", "add is the baseline"),
        ("expects: [{claim: A, source: B, finds: fewer, variant: prime_*}]", "unknown variant 'prime_*'"),
        ("expects: [{claim: A, source: B, finds: higher, number: separatoin/mod2}]", "unknown probe 'separatoin'"),
    ],
)
def test_invalid_statements_are_named(place: Path, wrong: str, output: str) -> None:
    """They are reported even in a space without profiles."""
    (place / "wrong.yaml").write_text(HELPS.split("expects:")[0] + wrong + "\n")
    for named in ("reproduce", "plan"):
        message = command(named, "wrong.yaml").refused()
        assert "wrong.yaml" in message
        assert output in message


def test_a_plan_with_other_mixes_or_of_another_profile_keeps_the_statements(place: Path) -> None:
    statement = "{claim: A, source: B, finds: fewer, mix: add+max}"
    more = "profiles: {tiny: {}, more: {mixes: [add, add+prod, add+max]}}"
    (place / "two.yaml").write_text(HELPS.split("expects:")[0] + f"expects: [{statement}]\n{more}\n")
    for profile in ("tiny", "more"):
        command("plan", "two.yaml", "--profile", profile).succeeded()
    command("plan", "helps.yaml", "--set", "mixes=[add, add+max]").succeeded()


def test_a_space_does_not_inherit_statements(place: Path) -> None:
    (place / "near.yaml").write_text("like: helps.yaml\n")
    assert expectations_of(open_space(str(place / "near.yaml")).files[0]) == ()
    assert "has no expected findings" in command("reproduce", "near.yaml", "--profile", "tiny").refused()


def test_a_statement_about_a_probe_runs_it_if_missing(place: Path) -> None:
    (place / "helps.yaml").write_text(HELPS)
    command("run", "helps.yaml", "--profile", "tiny", "--engine=local").succeeded()
    statement = "{claim: its size is its size, source: nobody, finds: lower, number: later/size, than: later/size}"
    (place / "helps.yaml").write_text(
        HELPS.split("expects:")[0]
        + f"expects: [{statement}]\nprobes: [tests.families:Later]\nprofiles: {{tiny: {{}}}}\n"
    )
    output = command("reproduce", "helps.yaml", "--profile", "tiny", "--engine=local").succeeded()
    assert "helps, probe later:" in output
    assert "probed" in output
    written = (place / "results" / "reproduce" / "tiny" / "table.md").read_text()
    assert "difference +0.00 [+0.00, +0.00]" in written
    assert "probe later" not in command("reproduce", "helps.yaml", "--profile", "tiny", "--engine=local").out
