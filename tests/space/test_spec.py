"""Search spaces: files resolve to the intended values on any machine, and every mistake is named with its location."""

from __future__ import annotations

import os
import pickle
import re
import textwrap
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.home.foreign_files import MOST_SPACE_BYTES
from orchestrator.search.base import Request
from orchestrator.space import strict_yaml
from orchestrator.space.differences import differences
from orchestrator.space.sizes import SizeRange
from orchestrator.space.spaces import PACKAGE, load_space, names, open_space, read_space, variant_names
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import UserError
from orchestrator.system.hardware import Hardware
from tests.families import LogisticFamily, LogisticSettings
from tests.sweep.sweeps import spec as sweep_spec
from trainables.base import Arm, Mix

SMOKE_KEY = "497c3d7b60fe509f"
"""Key of the smoke profile's run of ADD at size 8 with seed 0, from a version without probes and with its steps."""
THEN = [f"settings.training.{setting}" for setting in ("steps=300", "evaluate_every=50", "warmup_steps=20")]
TUNING = {"settings": {"curve": {"slope": {"from": 2.0, "to": 20.0, "scale": "log"}}}, "seeds": 2}
LAPTOP = Hardware(cpus=2, memory_gb=16)
SERVER = Hardware(cpus=16, memory_gb=128, gpus=1, gpu_name="H200")

SPACE = """
name: units
question: Does it work?
family: tests.families:LogisticFamily
target: add
mixes: [add, {prod: 2, add: 1}]
sizes: {from: 8, to: 64, count: 4, multiple_of: 4}
seed: 5
seeds: 3
settings:
  curve: {midpoint: 20, slope: 1e1}
  noise: 0.0
search: {method: bisection}
profiles:
  paper:
    needs: {gpu: true}
    resources: {gpu_per_stack: 0.5}
  laptop:
    settings: {curve: {midpoint: 12}}
    sizes: [8, 16]
  smoke:
    seeds: 1
"""

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_space(text: str) -> str:
        path = tmp_path / "units.yaml"
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write_space


@pytest.fixture
def space(write: Write) -> str:
    return write(SPACE)


def refused(path: str, *overrides: str, profile: str | None = None) -> str:
    """Return the message with which a space is refused, without its directory."""
    with pytest.raises(UserError) as caught:
        load_space(path, profile, overrides, LAPTOP)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(f"{Path(path).parent}/", "")


def test_a_space_resolves_to_typed_values(space: str) -> None:
    spec = load_space(space, "paper", hardware=SERVER)
    assert spec.mixes == (Arm.parse("add"), Arm.parse("add:1+prod:2"))
    assert spec.sizes == (8, 16, 32, 64)
    assert spec.seed_list == (5, 6, 7)
    assert spec.cells[:2] == ((spec.mixes[0], 8), (spec.mixes[0], 16))
    assert isinstance(spec.settings, LogisticSettings)
    assert (spec.settings.curve.midpoint, spec.settings.curve.slope, spec.settings.steps) == (20, 10, 3)
    assert spec.family_class is LogisticFamily
    assert spec.size_axis == "units"
    assert spec.resources.device == "cuda"


@pytest.mark.parametrize(
    "changes",
    [
        {"recipes": {"usual": {}, "hasty": {"haste": 2}}},
        {"budget": "both", "seeds": 3},
        {"tune": TUNING},
        {"tune": TUNING | {"sizes": "auto", "seed": 1_000_000}, "tuned": {"add": {"haste": 2.0}}},
        {"search": {"method": "grid"}, "resources": {"gpu_per_stack": 1, "max_stack": 4, "threads": 2}},
        {"resources": {"gpu_per_stack": "auto"}, "settings": {"curve": {"midpoint": 20, "shape": "step"}}},
        {"settings": LogisticSettings(haste=2)},  # An int, not 2.0.
    ],
)
def test_everything_a_specification_can_contain_is_read_back(write: Write, changes: dict[str, Any]) -> None:
    original = sweep_spec(**changes)
    stored = load_space(write(original.to_yaml()), hardware=SERVER)
    assert stored == original
    assert stored.to_yaml() == original.to_yaml()
    assert pickle.loads(pickle.dumps(original)) == original
    family = original.make_family()
    for request in original.requests()[:: max(1, len(original.requests()) // 20)]:
        assert stored.make_family().key(stored.config(request)) == family.key(original.config(request))


@pytest.mark.parametrize("name", names())
def test_every_shipped_space_resolves_in_every_profile(name: str, write: Write) -> None:
    shipped = open_space(name)
    assert shipped.name == name
    assert "smoke" in shipped.profiles
    for profile in shipped.profiles:
        for variant in variant_names(name, profile, LAPTOP) or (None,):
            spec = load_space(name, profile, hardware=LAPTOP, variant=variant)
            assert len(spec.mixes) >= 2
            assert spec.variant == (variant or "")
    assert load_space(write(spec.to_yaml())) == spec
    usual = "laptop_fair" if "laptop_fair" in shipped.profiles else "laptop"
    for hardware in (SERVER, LAPTOP):  # Profiles with long budgets must be named.
        first = next(iter(variant_names(name, None, hardware)), None)
        assert load_space(name, hardware=hardware, variant=first).profile == usual


def test_the_largest_profile_that_fits_the_hardware_is_selected(space: str, write: Write) -> None:
    laptop, server = load_space(space, hardware=LAPTOP), load_space(space, hardware=SERVER)
    assert (laptop.profile, server.profile) == ("laptop", "paper")
    assert "no GPU was found" in laptop.profile_reason
    assert "H200" in server.profile_reason
    assert load_space(space, "smoke", hardware=SERVER).profile_reason == "requested"
    assert "no GPU was found" in load_space(space, "paper", hardware=LAPTOP).profile_reason
    requested = write(SPACE.replace("needs: {gpu: true}", "needs: {asked: true}"))
    assert load_space(requested, hardware=SERVER).profile == "laptop"


def test_the_error_without_a_fitting_profile_names_the_missing_resources(write: Write) -> None:
    path = write(SPACE.replace("  laptop:\n", "  laptop:\n    needs: {cpus: 64}\n").split("  smoke:")[0])
    assert "it needs 64 CPU cores but 2 were found" in refused(path)
    assert load_space(path, "laptop", hardware=LAPTOP).profile == "laptop"


def test_mistakes_in_inherited_spaces_name_the_right_file(write: Write, tmp_path: Path) -> None:
    write(SPACE.replace("seed: 5", "seed: x"))
    other = tmp_path / "other.yaml"
    other.write_text("like: units.yaml\nseeds: y\n")
    assert refused(str(other)).splitlines() == [
        "units.yaml, line 8, seed: must be a whole number; got 'x'",
        "other.yaml, line 2, seeds: must be a whole number; got 'y'",
    ]
    other.write_text("like: [a]\n")
    assert "other.yaml, line 1, like: must name a search space or a YAML file" in refused(str(other))
    other.write_text("like: add_vs_add_prdo\n")
    assert "Did you mean 'add_vs_add_prod'?" in refused(str(other))


def test_the_method_is_overridden_before_its_settings(space: str) -> None:
    message = refused(space, "search.anything=1", "search.method=grid")
    assert message.startswith("--set search.anything=1: there is no such key")


def test_differences_contain_only_fields_that_change_results(space: str) -> None:
    spec = load_space(space, "laptop", hardware=LAPTOP)
    assert differences(spec, load_space(space, "laptop", ["resources.retries=4", "question=What?"], LAPTOP)) == {}
    other = load_space(space, "laptop", ["settings.curve.midpoint=13", "seeds=4"], LAPTOP)
    assert differences(spec, other) == {"settings.curve.midpoint": (12.0, 13.0), "seeds": (3, 4)}


@pytest.mark.parametrize(
    ("budget", "mixes"),
    [
        ("total", ["add", "add+prod", "add+max+prod"]),
        ("target", ["add", "add+prod x2", "add+max+prod x3"]),
        ("both", ["add", "add+prod", "add+prod x2", "add+max+prod", "add+max+prod x3"]),
    ],
)
def test_a_budget_gives_mixes_as_many_examples_of_the_target(
    space: str, write: Write, budget: str, mixes: list[str]
) -> None:
    overrides = [f"budget={budget}", "mixes=[add, add+prod, add+max+prod]"]
    spec = load_space(space, overrides=overrides, hardware=LAPTOP)
    assert [mix.name for mix in spec.mixes] == mixes
    assert load_space(write(spec.to_yaml()), hardware=LAPTOP) == spec
    family = spec.make_family()
    for mix in spec.mixes:
        assert family.steps(spec.config(Request(mix.name, 16, 0))) == 3 * mix.budget
        if budget == "target":
            assert mix.seen("add") == pytest.approx(1)


def test_a_budget_too_small_for_the_other_settings_is_refused() -> None:
    with pytest.raises(UserError, match=r"training.warmup_steps.*mix add\+prod x0.05.*less than steps \(3\)"):
        load_space("add_vs_add_prod", "smoke", ["mixes=[add, add+prod x0.05]"])


@given(smallest=st.integers(1, 40), span=st.integers(1, 200), count=st.integers(2, 40), multiple=st.integers(1, 16))
def test_size_ranges_keep_their_ends_and_multiples(smallest: int, span: int, count: int, multiple: int) -> None:
    ends = {"from": smallest * multiple, "to": (smallest + span) * multiple}
    sizes = SizeRange.model_validate({**ends, "count": count, "multiple_of": multiple}).sizes()
    assert (sizes[0], sizes[-1]) == (ends["from"], ends["to"])
    assert list(sizes) == sorted(set(sizes))
    assert len(sizes) <= count
    assert all(size % multiple == 0 for size in sizes)


@given(
    weights=st.dictionaries(st.sampled_from(["add", "prod", "max"]), st.floats(0.01, 100), min_size=1),
    budget=st.sampled_from([1.0, 2.0, 0.25]) | st.floats(0.01, 100),
)
def test_a_mix_equals_what_its_name_describes(weights: dict[str, float], budget: float) -> None:
    spec = sweep_spec(target=next(iter(weights)), mixes=(Arm.of(Mix.of(weights), budget),))
    assert Arm.parse(spec.baseline.name) == spec.baseline
    assert spec.baseline.tasks == tuple(sorted(weights))
    assert Mix.of(dict(reversed(weights.items()))) == Mix.of(weights)


# -- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("seeds: 3", "sedes: 3", ["units.yaml, line 9, sedes: there is no such key", "Did you mean 'seeds'?"]),
        ("seeds: 3", "", ["seeds: this key is missing"]),
        ("name: units", "name: ../units", ["line 2, name: a name is a lowercase letter", "got '../units'"]),
        ("target: add", "target: ad", ["line 5, target: unknown task 'ad'", "Did you mean 'add'?", "add, max, prod"]),
        (
            "target: add",
            "target: max",
            ["line 5, target: every mix must contain the target 'max'; the mix add does not"],
        ),
        ("[add, {", "[add+pord, {", ["line 6, mixes[0]: unknown task 'pord'", "Did you mean 'prod'?"]),
        ("{prod: 2, add: 1}", "{add: x}", ["mixes[1]: the weight of 'add' must be a number, got 'x'"]),
        ("[add, {prod: 2, add: 1}]", "add", ["line 6, mixes: must be a list; got 'add'"]),
        ("{from: 8, to: 64, count: 4, multiple_of: 4}", "[8, 8]", ["sizes must be ascending and distinct"]),
        (
            "{from: 8, to: 64, count: 4, multiple_of: 4}",
            "[7, 8]",
            ["mix add at units 7: 7 units cannot be divided by 2"],
        ),
        ("from: 8", "from: 128", ["'to' (64) must be larger than 'from' (128)"]),
        ("midpoint: 20", "midpont: 20", ["line 11, settings.curve.midpont: there is no such key", "'midpoint'"]),
        ("midpoint: 20", "midpoint: 1", ["settings.curve.midpoint: the midpoint is 1.0; it must be above 1"]),
        ("midpoint: 20", "shape: stepp", ["settings.curve.shape: must be 'logistic' or 'step'; got 'stepp'"]),
        ("noise: 0.0", "noise: .inf", ["units.yaml, line 12, settings.noise: must be a finite number; got inf"]),
        ("bisection}", "bisect}", ["search.method: unknown search method 'bisect'", "Did you mean 'bisection'?"]),
        ("tests.families:LogisticFamily", "listop", ["line 4, family: there is no family 'listop'", "'listops'"]),
        ("tests.families:LogisticFamily", "no.such:Thing", ["family: family 'no.such:Thing' cannot be imported"]),
        (
            "tests.families:LogisticFamily",
            "tests.families:UnfinishedFamily",
            ["is not a complete family: it lacks flops"],
        ),
        (
            "tests.families:LogisticFamily",
            "tests.families:UncountedFamily",
            ["line 4, family: tests.families:UncountedFamily cannot count the parameters at units 8: Zero"],
        ),
        (
            "tests.families:LogisticFamily",
            "tests.families:UncheckedFamily",
            ["line 4, family: tests.families:UncheckedFamily cannot check the mix add at units 8: KeyError: 8"],
        ),
        (
            "tests.families:LogisticFamily",
            "tests.families:RoomFamily",
            ["settings: tests.families:RoomSettings has a field whose type cannot be read from YAML", "Room'"],
        ),
        (
            "seeds: 3",
            "seeds: 3\nprobes: [tests.families:Running]",
            ["probes[0]: the probe running needs the method 'load', which the family logistic lacks"],
        ),
        ("to: 64", "to: 400000000000000000000", ["line 7, sizes.to: must be less than or equal to 1000000000000000"]),
        ("tests.families:LogisticFamily", "tests.exits:Family", ["cannot be imported: SystemExit: 3"]),
        ("seeds: 3", "seeds: !!timestamp x", ["this is not valid YAML"]),
        ("gpu_per_stack: 0.5", "gpu_per_stack: 1.5", ["(profile paper)", "shares above 1 must be whole GPUs"]),
        ("seeds: 3", "seeds: 3\nseeds: 4", ["units.yaml, line 10: seeds is written twice; first on line 9"]),
        ("seeds: 3", "seeds: &a 3\nseed: *a", ["aliases are not allowed"]),
        ("seeds: 3", "seeds: !!python/object:os.system 3", ["this is not valid YAML"]),
        ("seeds: 3", "on: 3", ["line 9: a key must be text"]),
        ("seeds: 3", "<<: {seeds: 3}", ["line 9: merge keys (<<) are not allowed"]),
        ("smoke:\n    seeds: 1", "smoke: 3", ["profiles.smoke: must map keys to values, such as settings: ...; got 3"]),
        ("needs: {gpu: true}", "needs: {gpus: 1}", ["profiles.paper.needs.gpus: there is no such key", "'gpu'"]),
        ("seed: 5", "profile: laptop", ["line 8, profile: remove it: write values under profiles:"]),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_location(write: Write, old: str, new: str, expected: list[str]) -> None:
    assert SPACE.count(old) == 1
    message = refused(write(SPACE.replace(old, new)), profile="paper" if "paper" not in new else None)
    for part in expected:
        assert part in message


def test_a_file_that_is_not_a_mapping_is_refused(write: Write) -> None:
    texts = {"": "is empty", "- a\n": "is a list", "just words": "a single value", "profiles: [a]\n": "must map"}
    for text, expected in texts.items():
        assert expected in refused(write(text))


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("seeds", "--set seeds: write it as key.path=value"),
        ("=3", "write it as key.path=value"),
        ("seed=[1", "--set seed=[1, line 1, column 3: this is not valid YAML"),
        ("seed=", "--set seed=: must be a whole number; got None"),
        ("settings.curv.slope=1", "--set settings.curv.slope=1: there is no such key. Did you mean 'curve'?"),
        ("slope=1", "Did you mean settings.curve.slope?"),
        ("settings.curve={midpoint: 0}", "--set settings.curve={midpoint: 0}, settings.curve.midpoint: the midpoint"),
        ("mixes=[add, ad]", "--set mixes=[add, ad], mixes[1]: unknown task 'ad'"),
        ("sizes=[7]", "--set sizes=[7]"),
    ],
)
def test_a_mistake_in_set_is_named_with_the_option(space: str, override: str, expected: str) -> None:
    assert expected in refused(space, override)


def test_misspelled_names_get_the_nearest_suggestion(space: str) -> None:
    assert "Did you mean 'add_vs_add_prod'?" in refused("add_vs_add_prdo")
    assert "Did you mean 'laptop'? Allowed: laptop, paper, smoke" in refused(space, profile="labtop")
    assert "Did you mean 'units.yaml'?" in refused(space.replace("units", "unist"))
    assert "Did you mean" not in refused(space, "xyzzy=1")
    assert "'xor' in the mix add+xor" in (message := refused("add_vs_add_prod", "mixes=[add, add+xor]"))
    assert message.endswith("shuffled_add.")


def test_requesting_a_profile_of_a_space_without_profiles_is_refused(write: Write, space: str) -> None:
    resolved = write(load_space(space, "smoke", hardware=LAPTOP).to_yaml())
    assert load_space(resolved, "smoke").profile == "smoke"
    assert "has no profiles" in refused(resolved, profile="laptop")


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        ("name: x".encode("utf-16"), r"in UTF-16\): save it as UTF-8"),
        ("question: é".encode("cp1252"), r"at byte 10\): save it as UTF-8"),
        (b"search:\n\tmax_runs: 4\n", r"line 2, column 1: .*indent with spaces"),
        (b"name: x\x1a", r"#x001a"),
        ("name: x\nquestion:\u00a0Why?\n".encode(), r"line 2 contains U\+00A0, which looks like a space: replace it"),
        ("# Why?\nname:\u3000x\nseeds: 2\n".encode(), r"line 2 contains U\+3000, which looks like a space"),
    ],
    ids=["UTF-16", "cp1252", "tab", "Ctrl-Z", "no-break space", "wide space"],
)
def test_files_in_other_encodings_are_refused_with_the_remedy(content: bytes, remedy: str, tmp_path: Path) -> None:
    (tmp_path / "written.yaml").write_bytes(content)
    with pytest.raises(UserError, match=remedy) as refused:
        read_space(str(tmp_path / "written.yaml"))
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
def test_line_ends_and_byte_order_marks_of_other_systems_are_read(mark: bytes, end: bytes, tmp_path: Path) -> None:
    lines = [b"like: add_vs_add_prod", b"question: Does it?", b"mixes: [add, add+max]", b""]
    (tmp_path / "written.yaml").write_bytes(mark + end.join(lines))
    assert load_space(str(tmp_path / "written.yaml"), "smoke").question == "Does it?"


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    assert "is not a regular file" in refused(f"{tmp_path}/")
    os.mkfifo(tmp_path / "pipe.yaml")
    assert "pipe.yaml is not a regular file" in refused(str(tmp_path / "pipe.yaml"))
    assert "zero is not a regular file" in refused("/dev/zero")
    (tmp_path / "link.yaml").symlink_to("gone.yaml")
    assert "link.yaml is a link to gone.yaml, which does not exist" in refused(str(tmp_path / "link.yaml"))


@pytest.mark.parametrize("inherits", [False, True])
def test_a_file_that_is_too_large_is_refused_before_it_is_read_whole(inherits: bool, tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text("like: large.yaml\n")
    with (tmp_path / "large.yaml").open("wb") as large:
        large.truncate(64 << 20)
    message = refused(str(tmp_path / ("short.yaml" if inherits else "large.yaml")))
    assert message == "large.yaml has more than 262,144 bytes, so it is not a search space"


@pytest.mark.parametrize("extra", [0, 1])
def test_the_largest_file_is_read(extra: int, tmp_path: Path) -> None:
    text = "like: add_vs_add_prod\n"
    (tmp_path / "most.yaml").write_text(text + "#" * (MOST_SPACE_BYTES - len(text) + extra))
    if extra:
        assert "most.yaml has more than 262,144 bytes" in refused(str(tmp_path / "most.yaml"))
    else:
        assert read_space(str(tmp_path / "most.yaml")).data["like"] == "add_vs_add_prod"


def test_yaml_reads_numbers_as_people_do() -> None:
    assert strict_yaml.read("a: 2020-01-01\nb: 1e-3\nc: -5E2\nd: 1e5x\ne: 010\nf: 1:30\ng: 1_000", "x").data == {
        "a": "2020-01-01",
        "b": 0.001,
        "c": -500.0,
        "d": "1e5x",
        "e": "010",
        "f": "1:30",
        "g": 1000,
    }


def test_probes_come_from_the_space_or_the_family_and_change_no_key() -> None:
    shipped = load_space("add_vs_add_prod", "smoke", THEN)
    assert shipped.probes == load_space("easy_pairs", "smoke").probes
    assert shipped.probes == ("similarity", "separation", "components")
    without = load_space("add_vs_add_prod", "smoke", ["probes=[]", *THEN])
    assert without.probes == ()
    request = Request("add", 8, 0)
    keys = {spec.make_family().key(spec.config(request)) for spec in (shipped, without)}
    assert keys == {SMOKE_KEY}
    assert differences(shipped, without) == {}
    assert SweepSpec.model_validate(strict_yaml.read(without.to_yaml(), "space").data).probes == ()
    data = {name: value for name, value in shipped.to_dict().items() if name != "probes"}
    assert SweepSpec.model_validate(data).probes == ("similarity",)  # A space from an earlier version.


@pytest.mark.parametrize(
    ("probes", "message"),
    [
        ("[similarty]", "there is no probe 'similarty'; write a built-in name or package.module:Class. Did you mean"),
        ("[similarity, similarity]", "two probes have the name 'similarity'"),
        ("['tests.families:LogisticFamily']", "is not a subclass of trainables.probes.base.Probe"),
        ("similarity", "--set probes=similarity: "),
    ],
)
def test_a_mistake_in_probes_is_explained(probes: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        load_space("add_vs_add_prod", "smoke", [f"probes={probes}"])


def test_the_profile_paper_states_each_setting_with_its_source() -> None:
    text = (resources.files(PACKAGE) / "add_vs_add_prod.yaml").read_text()
    profile = text[text.index("\n  paper:\n") : text.index("\n  paper_fair:\n")]
    sources = dict(re.findall(r"^ {8}(\w+): .* # (.*)$", profile, re.MULTILINE))
    settings = load_space("add_vs_add_prod", "paper", hardware=SERVER).to_dict()["settings"]
    stated = {name for group in settings.values() for name in group} - {"operations"}  # The default vocabulary.
    assert stated == set(sources)
    assert all(source.startswith(("paper", "sibling", "ours", "5,000 times")) for source in sources.values())


@pytest.mark.parametrize("number", ["!!int 0x" + "F" * 50_000, "!!int 0b" + "1" * 2_000, "9" * 4_000])
def test_a_number_that_cannot_be_printed_is_refused_with_its_line(number: str) -> None:
    with pytest.raises(UserError, match=r"^x, line 2, column 4: .* a number has too many digits$"):
        strict_yaml.read(f"a: 1\nb: {number}", "x")
