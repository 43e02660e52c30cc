"""Names and values as people write them: what lies next to a command, and numbers such as 1e3."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.space.spaces import load_space
from orchestrator.system.errors import UserError
from tests.cli.program import Program, process
from tests.sweep.sweeps import UNITS

FAMILY = "tests.families:LogisticFamily"


@pytest.mark.parametrize("file", ["base.yaml", "base.yml"])
def test_a_name_next_to_its_file(file: str, run: Program, workplace: Path) -> None:
    (workplace / file).write_text(UNITS)
    message = run("plan", "base").refused()
    assert f"the file {file} is here: name it as {file}" in message
    run("plan", file).succeeded()
    assert "is here" not in run("plan", "bsae").refused()


def test_a_file_with_the_name_of_a_shipped_space(run: Program, workplace: Path) -> None:
    (workplace / "easy_pairs.yaml").write_text(UNITS)
    warned = run("plan", "easy_pairs", "--profile", "smoke", "--variant", "xor")
    assert "this is the shipped search space; for the file easy_pairs.yaml" in warned.err
    assert "shipped" not in run("plan", "easy_pairs.yaml").err


@pytest.mark.parametrize(
    ("stem", "name"), [("my-board", "my_board"), ("Board 2", "board_2"), ("2nd", "space_2nd"), ("\u68cb", "space")]
)
def test_a_file_name_that_is_no_name_of_a_space(stem: str, name: str, run: Program, workplace: Path) -> None:
    (workplace / f"{stem}.yaml").write_text(UNITS)
    message = run("plan", f"{stem}.yaml").refused()
    assert f"which is the file's name: rename the file, or write `name: {name}` in it" in message
    (workplace / f"{stem}.yaml").write_text(f"name: {name}\n{UNITS}")
    run("plan", f"{stem}.yaml").succeeded()


@pytest.mark.parametrize(("module", "owner"), [("statistics", "Python's own module"), ("yaml", "another module")])
def test_a_model_file_that_is_hidden_by_another_module(module: str, owner: str, run: Program, workplace: Path) -> None:
    file = workplace / f"{module}.py"
    file.write_text("from trainables import SimpleFamily\n")
    (workplace / "units.yaml").write_text(UNITS.replace(FAMILY, f"{module}:Board"))
    message = run("plan", "units.yaml").refused()
    assert f"{owner} of that name" in message
    assert f"hides {file}: rename the file" in message


@pytest.mark.parametrize("is_imported", [False, True])
def test_a_model_file_that_is_hidden_by_one_in_the_working_directory(
    is_imported: bool, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook in one project opens the search space of another."""
    module = f"twin_{is_imported}"
    for name in ("p1", "p2"):
        (workplace / name).mkdir()
        (workplace / name / f"{module}.py").write_text("from tests.families import LogisticFamily as Board\n")
        (workplace / name / "units.yaml").write_text(UNITS.replace(FAMILY, f"{module}:Board"))
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.chdir(workplace / "p1")
    if is_imported:
        importlib.import_module(module)
    remedy = "" if is_imported else f", or change the working directory to {workplace / 'p2'}"
    with pytest.raises(UserError) as refused:
        load_space("../p2/units.yaml")
    assert str(refused.value).endswith(f"hides {workplace / 'p2' / module}.py: rename the file{remedy}")
    if not is_imported:
        monkeypatch.chdir(workplace / "p2")
        assert load_space("units.yaml").folder == str(workplace / "p2")


@pytest.mark.parametrize("written", ["1e3", "1E+3", "1000.0", "0.1e4"])
def test_a_whole_number_with_an_exponent(written: str, workplace: Path) -> None:
    (workplace / "units.yaml").write_text(f"{UNITS}settings: {{steps: {written}}}\n")
    spec = load_space("units.yaml")
    assert (spec.settings.steps, type(spec.settings.steps)) == (1000, int)
    assert load_space("units.yaml", overrides=[f"seeds={written}", f"sizes=[8, {written}]"]).sizes == (8, 1000)


@pytest.mark.parametrize("written", ["1.5", "1e-3", "1e300", ".inf", "true"])
def test_a_number_that_is_not_whole_stays_a_mistake(written: str, workplace: Path) -> None:
    (workplace / "units.yaml").write_text(f"{UNITS}settings: {{steps: {written}}}\n")
    with pytest.raises(UserError, match=r"settings\.steps: must be a whole number"):
        load_space("units.yaml")


def test_a_float_stays_a_float(workplace: Path) -> None:
    (workplace / "units.yaml").write_text(f"{UNITS}settings: {{haste: 1e1}}\n")
    assert load_space("units.yaml").settings.haste == 10.0


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"haste": lambda: 1}, "settings.haste"),
        ({"curve": {"slope": [1, print]}}, "settings.curve.slope[1]"),
        ({"curve": {(2, 3): 1}}, "settings.curve"),
    ],
)
def test_a_value_that_no_file_can_contain_names_its_key(settings: dict[str, Any], key: str, workplace: Path) -> None:
    (workplace / "units.yaml").write_text(UNITS)
    spec = load_space("units.yaml")
    with pytest.raises(UserError) as error:
        spec.model_copy(update={"settings": settings})
    assert f"{key}: " in str(error.value)
    assert "JSON serializable" not in str(error.value)


@pytest.mark.slow  # The environment of a later Python, which runs the fast tests of this package, lacks the program.
def test_a_function_as_a_setting_of_a_family_names_its_key(workplace: Path) -> None:
    (workplace / "my_models.py").write_text(
        """
from dataclasses import dataclass
from typing import Any
from trainables import SimpleFamily, SimpleSettings
class Board(SimpleFamily):
    task_names = ("add",)
    floor = 0.5
    @dataclass(frozen=True)
    class Settings(SimpleSettings):
        activation: Any = lambda x: x
    def train(self, tasks, size, seed, settings):
        yield 1, 0.5, 0.9
"""
    )
    (workplace / "units.yaml").write_text(UNITS.replace(FAMILY, "my_models:Board"))
    message = process(["python", "-m", "orchestrator", "run", "units.yaml", "--engine=local"], cwd=workplace).refused()
    assert "settings.activation" in message
