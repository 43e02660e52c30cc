"""A home made by another user names code: nothing of it runs, and the user's own folders keep working."""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from orchestrator.history.journal import Begun, to_line
from orchestrator.history.sweeps import ANSWER_FILE, REPORT_FILE, UnreadableError, load_sweep
from orchestrator.home import trusted_code as trusting
from orchestrator.home.directories import Home
from orchestrator.home.trusted_code import (
    is_in_sweep,
    list_path,
    trust,
    trust_code_of,
    trusted_code,
    trusted_folders,
)
from orchestrator.system import permissions
from orchestrator.system.permissions import writable_by_others
from tests.access_lists import give_list
from tests.catalog.fabricated import write_sweep
from tests.cli.program import ROOT, Ended, command, line, process
from tests.sweep.sweeps import FAMILY, spec
from trainables.contract import user_code, user_modules
from trainables.contract.user_modules import folder_of as folder_of_module

EVIL = "import pathlib\npathlib.Path({marker!r}).write_text('ran')\nfrom tests.families import LogisticFamily as E\n"
MODELS = """
import numpy as np
from trainables import SimpleFamily


class Board(SimpleFamily):
    task_names = ("checkers",)
    floor = 0.5

    def train(self, tasks, size, seed, settings):
        yield 1, 0.1, 1.0 if size > 4 else 0.5
"""
BOARD = """
question: At what width is a checkerboard learned?
family: my_models:Board
target: checkers
mixes: [checkers]
sizes: [2, 4, 8]
seeds: 1
search: {method: grid}
settings: {steps: 1}
"""


@pytest.fixture(autouse=True)
def configuration(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration directory."""
    directory = tmp_path_factory.mktemp("configuration")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(directory))
    monkeypatch.setattr(sys, "path", list(sys.path))
    return directory


def named(sweep_directory: Path, module: str, *, folder: str = "", key: str = "family") -> None:
    """Make a sweep name a module and a folder, as its author can."""
    path = sweep_directory / "space.yaml"
    text = path.read_text()
    path.write_text(
        text.replace(f"family: {FAMILY}", f"family: {module}:E")
        if key == "family"
        else text.replace("probes: []", f"probes: ['{module}:E']")
    )
    assert module in path.read_text()
    journal = sweep_directory / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(to_line(Begun("2026-01-01T00:00:00+00:00", {}, folder)) + b"".join(lines[1:]))


def in_folder(folder: Path, *words: object, home: str | None = "results") -> Ended:
    """Run the program in a folder as a user does, without this clone on PYTHONPATH."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    options = ["--home", home] if home and words[0] != "home" else []  # `home trust` has no such option.
    return process(line(*words, *options), cwd=folder, environment=variables, within_s=120)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder with another user's home in ``results``, whose sweep brings code."""
    sweep = write_sweep(Home(tmp_path / "work" / "results"))
    (sweep.files.directory / ANSWER_FILE).write_text("add+prod needs fewer parameters.\n")
    (sweep.files.directory / "evil.py").write_text(EVIL.format(marker=str(tmp_path / "marker")))
    shutil.copy(sweep.files.directory / "evil.py", tmp_path / "work" / "beside.py")
    return tmp_path / "work"


@pytest.mark.parametrize(
    "raised", ["import pytest; pytest.skip('no openpyxl', allow_module_level=True)", "import sys; sys.exit(3)"]
)
@pytest.mark.parametrize("key", ["family", "probe"])
def test_an_installed_module_that_ends_programs_makes_only_its_sweep_unreadable(
    raised: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packages install their tests, which pytest skips with an exception that is not an ``Exception``."""
    sweep = write_sweep(Home(tmp_path / "results"))
    module = f"ends_{key}_{len(raised)}"
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / f"{module}.py").write_text(f"import trainables\n{raised}")
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    named(sweep.files.directory, module, key=key)
    listed = command("sweeps", "--home", tmp_path / "results")
    assert listed.code == 0
    assert f"'{module}:E' cannot be imported: " in " ".join(listed.out.split())
    command("home", "trust", tmp_path / "results").succeeded()
    assert command("rm", sweep.id, "--yes", "--home", tmp_path / "results").code == 0


@pytest.mark.slow
def test_a_home_cannot_name_code_in_it_or_in_the_working_directory(foreign: Path, tmp_path: Path) -> None:
    trust(foreign)
    [sweep_id] = Home(foreign / "results").sweep_ids()
    directory = (foreign / "results" / "sweeps" / sweep_id).rename(foreign / "results" / "sweeps" / "own")
    original, marker = (directory / "space.yaml").read_text(), tmp_path / "marker"
    for module, folder, key in (
        ("evil", str(directory), "family"),
        ("evil", "/proc/self/cwd", "family"),
        ("sweeps.own.evil", str(foreign / "results"), "family"),
        ("results.sweeps.own.evil", "", "probes"),
        ("results.sweeps.own.evil", "", "family"),
    ):
        (directory / "space.yaml").write_text(original)
        named(directory, module, folder=folder, key=key)
        ended = in_folder(foreign, "sweeps")
        assert "add+prod needs fewer parameters." in ended.succeeded(), (module, folder, key)
        assert not marker.exists(), (module, folder, key)
    in_folder(directory, "sweeps", home="../..").succeeded()
    assert (
        "everything in a home is only data" in in_folder(foreign, "plan", directory / "space.yaml", home=None).refused()
    )
    for words in (["status"], ["report"], ["explain"], ["sync"], ["rm", "--yes", "own"]):
        assert "Traceback" not in in_folder(foreign, *words).err
        assert not marker.exists(), words
    assert not directory.exists()


@pytest.mark.parametrize("route", ["plan", "like", "trust"])
def test_files_of_a_record_cannot_name_code_next_to_them(route: str, foreign: Path, tmp_path: Path) -> None:
    """A record keeps its search space, and another user may have put a module next to it."""
    files = foreign / "results" / "artifacts" / "logistic" / ("0" * 32) / "artifacts"
    files.mkdir(parents=True)
    (foreign / "results" / "mlflow.db").touch()
    [sweep_id] = Home(foreign / "results").sweep_ids()
    directory = foreign / "results" / "sweeps" / sweep_id
    named(directory, "evil")
    shutil.move(directory / "space.yaml", files / "search_space.yaml")
    shutil.move(directory / "evil.py", files)
    own = foreign / "own.yaml"
    own.write_text(f"like: {files / 'search_space.yaml'}\nname: own\n")
    words = {"plan": ("plan", "search_space.yaml"), "like": ("plan", own), "trust": ("home", "trust", ".")}[route]
    message = in_folder(files, *words, home=None).refused()
    reasons = (
        "'evil' was found in a folder that you have allowed",
        "everything in a home is only data",
        "no code is imported",
    )
    assert any(reason in message for reason in reasons), message
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("folder", ["", "work"])
def test_a_home_cannot_name_code_next_to_where_it_is_read(folder: str, foreign: Path, tmp_path: Path) -> None:
    [sweep_id] = Home(foreign / "results").sweep_ids()
    named(foreign / "results" / "sweeps" / sweep_id, "beside", folder=str(foreign) if folder else "")
    ended = in_folder(foreign, "sweeps")
    assert not (tmp_path / "marker").exists()
    assert f"home trust {foreign if folder else 'FOLDER'}" in " ".join(ended.out.split())
    (allowed := in_folder(foreign, "home", "trust", foreign)).succeeded()
    assert str(foreign) in allowed.out
    assert "2 runs" in in_folder(foreign, "sweeps").out or "32 runs" in in_folder(foreign, "sweeps").out
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize("module", ["evil", "unpacked.evil", "unpacked.package.evil"])
def test_a_run_in_a_folder_does_not_allow_other_code_in_it(module: str, foreign: Path, tmp_path: Path) -> None:
    """The user unpacks another user's files, a home and a module, in the folder of their own models."""
    own = tmp_path / "work" / "own_models_here.py"
    own.write_text("from tests.families import LogisticFamily as E\n")
    sys.path.append(str(foreign))
    importlib.import_module("own_models_here")
    trust_code_of(["own_models_here:E"])
    assert trusted_code() == [(foreign, "own_models_here")]
    place = foreign.joinpath(*module.split(".")).with_suffix(".py")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(foreign / "beside.py", place)
    shutil.move(foreign / "results", foreign / "unpacked" / "home")
    home = Home(foreign / "unpacked" / "home")
    [sweep_id] = home.sweep_ids()
    named(home.sweep(sweep_id).directory, module, folder=str(foreign))
    with pytest.raises(UnreadableError, match="but you have not allowed that folder"):
        load_sweep(home, sweep_id)
    named_in(home.sweep(sweep_id).journal, Path())
    with pytest.raises(UnreadableError, match="was found in a folder that you have allowed"):
        load_sweep(home, sweep_id)
    assert not (tmp_path / "marker").exists()
    sys.modules.pop("own_models_here")
    home.sweep(sweep_id).spec.write_text(home.sweep(sweep_id).spec.read_text().replace(module, "own_models_here"))
    assert load_sweep(home, sweep_id).spec.family == "own_models_here:E"
    sys.modules.pop("own_models_here")


MISSING = ("msvcrt", "_winapi", "cython", "org", "winreg", "backports", "brotli", "chardet", "uvloop", "ujson")
"""Modules that libraries import if they are installed."""


@pytest.mark.slow
@pytest.mark.parametrize("place", [".", pytest.param("sweeps", marks=pytest.mark.night)])
def test_files_in_a_home_are_not_imported_if_it_is_the_working_directory(place: str, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    write_sweep(home)
    for name in MISSING:
        (home.root / place / f"{name}.py").write_text(EVIL.format(marker=str(tmp_path / "marker")))
    in_folder(home.root / place, "plan", "add_vs_add_prod", home=None).succeeded()
    in_folder(home.root / place, "probe", home.sweep_ids()[0], home=str(home.root))
    assert not (tmp_path / "marker").exists()


def test_a_folder_that_others_can_write_is_not_imported_from(foreign: Path, tmp_path: Path) -> None:
    [sweep_id] = Home(foreign / "results").sweep_ids()
    named(foreign / "results" / "sweeps" / sweep_id, "beside", folder=str(foreign))
    trust(foreign)
    tmp_path.chmod(0o777)
    ended = in_folder(foreign, "sweeps")
    assert f"other users can write {tmp_path}" in " ".join(ended.out.split())
    assert f"other users can write {tmp_path}" in in_folder(foreign, "home", "trust", ".").refused()
    tmp_path.chmod(0o755)
    (foreign / "beside.py").chmod(0o666)
    assert f"other users can write {foreign / 'beside.py'}" in " ".join(in_folder(foreign, "sweeps").out.split())
    assert not (tmp_path / "marker").exists()


@pytest.mark.slow
def test_what_a_user_ran_in_a_folder_is_read_from_anywhere(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for place in (folder, elsewhere):
        place.mkdir()
    (folder / "my_models.py").write_text(MODELS)
    (folder / "board.yaml").write_text(BOARD)
    in_folder(folder, "run", "board.yaml", "--engine", "local").succeeded()
    assert trusted_folders() == [folder]
    assert list_path().stat().st_mode & 0o777 == 0o600
    home = str(folder / "results")
    for words in (["status"], ["explain"], ["sweeps"]):
        assert "checkers" in in_folder(elsewhere, *words, home=home).succeeded()
    [sweep_id] = Home(folder / "results").sweep_ids()
    space = folder / "results" / "sweeps" / sweep_id / "space.yaml"
    assert "runs" in in_folder(elsewhere, "plan", space, home=None).succeeded()
    assert "checkers" in (space.parent / ANSWER_FILE).read_text()
    shutil.rmtree(folder / "results" / "runs")
    (folder / "my_models.py").unlink()
    ended = in_folder(elsewhere, "sweeps", home=home).succeeded()
    assert "no module named 'my_models' was found" in ended
    assert "its stored answer, not checked:" in ended


def test_modules_in_two_folders_are_told_apart_by_the_folder_of_the_sweep(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    sweep = write_sweep(home)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        code = f"from tests.families import LogisticFamily\nclass E(LogisticFamily):\n    name = {name!r}\n"
        (tmp_path / name / "twice_named.py").write_text(code)
        trust(tmp_path / name)
    named(sweep.files.directory, "twice_named")
    with pytest.raises(UnreadableError, match="is in several folders"):
        load_sweep(home, sweep.id)
    named_in(sweep.files.journal, tmp_path / "one")
    assert load_sweep(home, sweep.id).spec.family_class.name == "one"
    sys.modules.pop("twice_named")


def named_in(journal: Path, folder: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(to_line(Begun("2026-01-01T00:00:00+00:00", {}, str(folder))) + b"".join(lines[1:]))


@pytest.mark.parametrize("package", ["orchestrator", "trainables"])
def test_a_family_in_another_checkout_of_this_project_is_read(package: str, tmp_path: Path) -> None:
    """The working directory is a checkout, too. The running program keeps its own modules."""
    home, other = Home(tmp_path / "home"), tmp_path / "other"
    sweep = write_sweep(home)
    shutil.copytree(ROOT / package, other / package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    code = (ROOT / "tests" / "families.py").read_text()
    (other / "their_models.py").write_text(f'{code}\n\nclass E(LogisticFamily):\n    name = "theirs"\n')
    trust(other)
    named(sweep.files.directory, "their_models", folder=str(other))
    listed = in_folder(ROOT, "sweeps", home=str(home.root)).succeeded()
    assert sweep.id in listed
    assert "unreadable" not in listed
    assert "add+prod" in listed


@pytest.mark.parametrize("module", ["antigravity", "os.path.x", "..evil", "pip.__main__", "this", "a b"])
def test_no_module_of_python_and_no_program_is_imported(module: str, tmp_path: Path) -> None:
    with pytest.raises(trusting.UntrustedCodeError):
        trusting.import_named([f"{module}:E"], tmp_path)
    assert module not in sys.modules


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules whose files would be read as the user's code, which takes minutes for a large package. None is."""
    names: list[str] = []

    def note(module: str, folders: object) -> dict[str, object]:
        names.append(module)
        return {}

    for part in (user_code, user_modules):
        monkeypatch.setattr(part, "own_modules", note)
    return names


@pytest.mark.parametrize("key", ["family", "probe"])
@pytest.mark.parametrize("module", ["os", "json", "sys", "os.path", "json.decoder", "sched"])
def test_a_module_of_python_makes_only_its_sweep_unreadable(
    module: str, key: str, tmp_path: Path, watched: list[str]
) -> None:
    """This program has imported most of these modules before it reads the sweep."""
    home = Home(tmp_path / "results")
    other, sweep = write_sweep(home), write_sweep(home, spec(name="other"))
    named(sweep.files.directory, module, key=key)
    listed = " ".join(command("sweeps", "--home", home.root).succeeded().split())
    why = f"'{module}:E' cannot be imported: {module} is a module of Python itself, so no model can be in it"
    assert f"{sweep.id} cannot be read: {why}" in listed
    assert f"{other.id} cannot be read" not in listed
    assert module not in watched
    command("home", "trust", home.root).succeeded()
    assert f"deleted {sweep.id}" in command("rm", sweep.id, "--yes", "--home", home.root).succeeded()
    assert home.sweep_ids() == [other.id]


def test_an_installed_module_without_a_family_is_not_read_whole(tmp_path: Path, watched: list[str]) -> None:
    importlib.import_module("sklearn.dummy")
    sweep = write_sweep(Home(tmp_path / "results"))
    named(sweep.files.directory, "sklearn.dummy")
    with pytest.raises(UnreadableError, match=r"the module sklearn\.dummy has no 'E'"):
        load_sweep(sweep.files.home, sweep.id)
    path = sweep.files.spec
    path.write_text(path.read_text().replace("sklearn.dummy:E", "sklearn.dummy:DummyClassifier"))
    with pytest.raises(UnreadableError, match=r"'sklearn\.dummy:DummyClassifier' is not a subclass of trainables"):
        load_sweep(sweep.files.home, sweep.id)
    assert "sklearn.dummy" not in watched


@pytest.mark.parametrize("key", ["family", "probe"])
def test_a_home_runs_no_installed_module_without_a_model(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some connect to a port, where another user could listen, or write files in the working directory."""
    sweep = write_sweep(Home(tmp_path / "results"))
    packages, marker, module = tmp_path / "site-packages", tmp_path / "marker", f"demonstration_{key}.client"
    (packages / module).parent.mkdir(parents=True)
    package = packages / f"demonstration_{key}"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "client.py").write_text(EVIL.format(marker=str(marker)))
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setattr(trusting, "_site_directories", lambda: [packages])
    named(sweep.files.directory, module, key=key)
    why = f"{module} is an installed module that does not import trainables, and you have never run a model from its"
    for words in (("sweeps",), ("report", sweep.id)):
        shown = command(*words, "--home", tmp_path / "results")
        assert why in " ".join((shown.out + shown.err).split())
    assert not marker.exists()
    trust(packages, f"demonstration_{key}")
    command("sweeps", "--home", tmp_path / "results").succeeded()
    assert marker.exists()


@pytest.mark.parametrize("name", ["os:system", "json:JSONDecoder"])
def test_a_space_of_the_user_that_names_a_module_of_python_is_refused(
    name: str, tmp_path: Path, watched: list[str]
) -> None:
    space = tmp_path / "board.yaml"
    space.write_text(BOARD.replace("my_models:Board", name))
    sentence = f"{name.partition(':')[0]} is a module of Python itself, so no model can be in it"
    for words in (("run", space, "--home", tmp_path / "results"), ("check-family", name)):
        assert f"family '{name}' cannot be imported: {sentence}" in " ".join(command(*words).refused().split())
    assert watched == []
    assert folder_of_module("json") == ""


def test_own_modules_and_installed_modules_with_a_model_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "installed_model.py").write_text("from trainables import SimpleFamily\n")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setattr(trusting, "_site_directories", lambda: [packages])
    trusting.import_named(["trainables.probes.mistakes:Mistakes", "listops", "installed_model:X", None, 5], tmp_path)
    assert "installed_model" in sys.modules


def test_a_list_that_others_could_have_written_does_not_count(configuration: Path, tmp_path: Path) -> None:
    trust(tmp_path)
    trust(tmp_path)
    assert list_path().read_text() == f"{json.dumps(str(tmp_path))}\n"
    with list_path().open("a") as file:
        file.write('"relative"\n[1]\nno json\n5\n')
    assert trusted_folders() == [tmp_path]
    list_path().chmod(0o666)
    assert trusted_folders() == []
    list_path().chmod(0o600)
    configuration.chmod(0o777)
    assert trusted_folders() == []


def test_places_that_others_can_write(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    assert writable_by_others(place) is None
    place.parent.chmod(0o777)
    assert writable_by_others(place) == place.parent
    place.parent.chmod(0o1777)
    assert writable_by_others(place) is None
    os.chown(place, 12345, -1) if os.getuid() == 0 else place.chmod(0o777)
    assert writable_by_others(place) in (place, place.parent)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("mode", [0o755, pytest.param(0o1755, marks=pytest.mark.night)])
def test_a_folder_of_another_user_is_not_imported_from(mode: int, foreign: Path, tmp_path: Path) -> None:
    """Its owner can change it at any time."""
    [sweep_id] = Home(foreign / "results").sweep_ids()
    named(foreign / "results" / "sweeps" / sweep_id, "beside", folder=str(foreign))
    trust(foreign)
    os.chown(foreign, 12345, -1)
    foreign.chmod(mode)
    assert writable_by_others(foreign / "beside.py") == foreign
    for told in (in_folder(foreign, "sweeps").out, in_folder(foreign, "home", "trust", ".").refused()):
        assert f"{foreign} belongs to another user (uid 12345)" in " ".join(told.split())
        assert "chmod" not in told
    assert not (tmp_path / "marker").exists()
    os.chown(foreign, 0, -1)
    assert "2 runs" in in_folder(foreign, "sweeps").succeeded() or (tmp_path / "marker").exists()


def test_an_owner_that_a_container_does_not_know_is_no_other_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows root's directories as those of a user who may not exist there."""
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    status = os.stat_result((0o755, 0, 0, 1, 65534, 0, 0, 0, 0, 0))
    monkeypatch.setattr(permissions, "_unknown_user", lambda: None)
    assert permissions.is_of_another(status)
    monkeypatch.setattr(permissions, "_unknown_user", lambda: 65534)
    assert not permissions.is_of_another(status)


def test_a_report_of_a_sweep_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path)
    sweep = write_sweep(home, spec())
    (sweep.files.directory / REPORT_FILE).write_text("<p>report</p>")
    named(sweep.files.directory, "gone.away")
    with pytest.raises(UnreadableError, match=r"Its answer is in .*report\.html"):
        load_sweep(home, sweep.id)
    assert str(ROOT) not in sys.path[-1:]


@pytest.mark.parametrize(
    "key",
    [
        "family",
        pytest.param("probes", marks=pytest.mark.night),
        "like",
        pytest.param("variants", marks=pytest.mark.night),
    ],
)
def test_a_file_of_a_sweep_cannot_name_code_below_a_profile(key: str, foreign: Path, tmp_path: Path) -> None:
    """A profile is merged later than the top level, which is checked."""
    [sweep_id] = Home(foreign / "results").sweep_ids()
    space = (foreign / "results" / "sweeps" / sweep_id).rename(foreign / "results" / "sweeps" / "own") / "space.yaml"
    values = yaml.safe_load(space.read_text())
    for name in ("profile", "profile_reason", "variant", "family", "settings"):
        values.pop(name, None)
    module = "results.sweeps.own.evil:E"
    hidden = {"family": module} if key != "probes" else {"family": FAMILY, "probes": [module]}
    if key in ("family", "probes"):
        values |= {"profiles": {"quick": hidden}}
    else:
        (space.parent / "other.yaml").write_text(yaml.safe_dump(hidden))
        values |= {"like": "other.yaml"} if key == "like" else {"variants": {"one": hidden}}
    space.write_text(yaml.safe_dump(values))
    own = foreign / "own.yaml"
    own.write_text(f"like: {space}\nname: own\n")
    for words in (["plan", space], ["show", space], ["plan", own]):
        assert "is the file of a sweep, which cannot have" in in_folder(foreign, *words, home=None).refused()
        assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("words", [["plan", "add_vs_add_prod"], ["probe", "SWEEP", "--again"], ["doc", "search"]])
def test_a_command_that_names_no_code_finds_none_in_the_working_directory(
    words: list[str], foreign: Path, tmp_path: Path
) -> None:
    """Libraries try to import modules that are not installed."""
    [sweep_id] = Home(foreign / "results").sweep_ids()
    for name in ("sksparse", "scikits", "uarray", "cython", "Cython"):
        (foreign / f"{name}.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')\n")
    done = in_folder(foreign, *(sweep_id if word == "SWEEP" else word for word in words), home=None)
    assert done.code in (0, 1, 2)
    assert not (tmp_path / "marker").exists(), done.err


OPTIONAL = ("sksparse", "scikits", "uarray", "cython", "Cython")
"""Modules that libraries try to import, and that are not installed."""
OLD_HOME = ROOT / "tests" / "data" / "homes" / "schema-2"


def leave_optional(folder: Path, marker: Path) -> None:
    for name in OPTIONAL:
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'w')\n")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["folder of the space", pytest.param("working directory", marks=pytest.mark.night)])
def test_a_space_without_code_finds_none_next_to_it(place: str, tmp_path: Path) -> None:
    """Other users can leave modules in a folder that all can write, such as /tmp."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "mine.yaml").write_text("like: add_vs_add_prod\nquestion: Does it?\n")
    leave_optional(tmp_path / ("one" if place == "folder of the space" else "two"), tmp_path / "marker")
    words = ["run", "../one/mine.yaml", "--profile", "smoke", "--engine", "local", "--record", "jsonl", "-q"]
    in_folder(tmp_path / "two", *words, home=str(tmp_path / "home")).succeeded()
    assert not (tmp_path / "marker").exists()


@pytest.mark.slow
def test_the_file_of_a_foreign_sweep_opens_no_folder_around_its_home(tmp_path: Path) -> None:
    """`explain` prints this command, and its reader is in the folder that came with the home."""
    shutil.copytree(OLD_HOME, tmp_path / "results")
    [sweep_id] = Home(tmp_path / "results").sweep_ids()
    leave_optional(tmp_path, tmp_path / "marker")
    in_folder(tmp_path, "home", "trust", "results", home=None).succeeded()
    words = ["run", f"results/sweeps/{sweep_id}/space.yaml", "--resume", sweep_id, "--engine", "local"]
    in_folder(tmp_path, *words, "--record", "jsonl", home="results").succeeded()
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    "words", [["plan", "board.yaml"], pytest.param(["check-family", "my_models:Board"], marks=pytest.mark.night)]
)
def test_code_in_a_folder_that_all_can_write_is_not_imported(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "board.yaml").write_text(BOARD)
    (tmp_path / "my_models.py").write_text(MODELS)
    tmp_path.chmod(0o1777)
    refused = in_folder(tmp_path, *words, home=None).refused()
    assert f"everyone can write to {tmp_path}" in refused
    tmp_path.chmod(0o755)
    assert in_folder(tmp_path, "plan", "board.yaml", home=None).succeeded()


@pytest.mark.parametrize("left", [".removed-other", ".removed-x-20260101-000000-abcd"])
def test_rm_deletes_nothing_through_a_link(left: str, tmp_path: Path) -> None:
    others = tmp_path / "others" / left
    others.mkdir(parents=True)
    (others / "precious").write_text("kept")
    (tmp_path / "home").mkdir()
    in_folder(tmp_path, "home", "trust", "home", home=None).succeeded()  # With a link in it, it could not be trusted.
    (tmp_path / "home" / "sweeps").symlink_to(tmp_path / "others")
    refused = in_folder(tmp_path, "rm", "x", "--yes", home="home").refused()
    assert "is a link, which is not followed" in refused
    assert (others / "precious").read_text() == "kept"


def planted(module: Path, marker: Path) -> None:
    """Leave a compiled file of other code for a module, with the time and the size of its source."""
    status = module.stat()
    code = compile(f"open({str(marker)!r}, 'w')", str(module), "exec")
    stamp = int(status.st_mtime).to_bytes(4, "little") + (status.st_size & 0xFFFFFFFF).to_bytes(4, "little")
    path = Path(importlib.util.cache_from_source(str(module)))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(importlib.util.MAGIC_NUMBER + bytes(4) + stamp + marshal.dumps(code))


@pytest.mark.parametrize("linked", ["module", pytest.param("package", marks=pytest.mark.night)])
def test_a_link_in_a_trusted_folder_leads_to_no_code_of_others(linked: str, foreign: Path, tmp_path: Path) -> None:
    [sweep_id] = Home(foreign / "results").sweep_ids()
    named(foreign / "results" / "sweeps" / sweep_id, "trusted", folder=str(foreign))
    shared = tmp_path / "shared"
    (shared / "helpers").mkdir(parents=True)
    (shared / "helpers" / "one.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')\n")
    shared.chmod(0o777)
    if linked == "package":
        (foreign / "helpers").symlink_to(shared / "helpers")
    else:
        (foreign / "helpers").mkdir()
        (foreign / "helpers" / "one.py").symlink_to(shared / "helpers" / "one.py")
    (foreign / "trusted.py").write_text(
        'import helpers.one\nfrom tests.families import LogisticFamily\nclass E(LogisticFamily):\n    name = "theirs"\n'
    )
    trust(foreign)
    assert f"other users can write {shared}" in " ".join(in_folder(foreign, "sweeps").out.split())
    assert not (tmp_path / "marker").exists()
    shared.chmod(0o755)
    assert "cannot be imported" not in in_folder(foreign, "sweeps").succeeded()
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    "left",
    [
        "helper",
        pytest.param("compiled", marks=pytest.mark.night),
        pytest.param("compiled helper", marks=pytest.mark.night),
    ],
)
def test_what_a_trusted_module_imports_is_not_of_others_either(left: str, foreign: Path, tmp_path: Path) -> None:
    [sweep_id] = Home(foreign / "results").sweep_ids()
    named(foreign / "results" / "sweeps" / sweep_id, "trusted", folder=str(foreign))
    helpers = foreign / "helpers"
    helpers.mkdir()
    (helpers / "one.py").write_text("name = 'one'\n")
    code = (
        'import helpers.one\nfrom tests.families import LogisticFamily\nclass E(LogisticFamily):\n    name = "theirs"\n'
    )
    (foreign / "trusted.py").write_text(code)
    trust(foreign)
    assert "cannot be imported" not in in_folder(foreign, "sweeps").succeeded()
    if left == "helper":
        (helpers / "one.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')\n")
        (helpers / "one.py").chmod(0o666)
        assert "other users can write" in " ".join(in_folder(foreign, "sweeps").out.split())
    else:
        planted(helpers / "one.py" if left == "compiled helper" else foreign / "trusted.py", tmp_path / "marker")
        assert "cannot be imported" not in in_folder(foreign, "sweeps").succeeded()
    assert not (tmp_path / "marker").exists()


def test_what_is_refused_in_a_folder_stays_refused(tmp_path: Path) -> None:
    """A home has named the module, and then a search space of the user does."""
    (tmp_path / "guarded_models.py").write_text("def late():\n    import guarded_late\n")
    (tmp_path / "guarded_late.py").write_text("")
    (tmp_path / "guarded_late.py").chmod(0o666)
    trust(tmp_path)
    trusting.import_named(["guarded_models:late"], tmp_path / "home", str(tmp_path))
    user_code.offer([str(tmp_path)])
    module = user_code.import_code("guarded_models")
    with pytest.raises(ImportError, match=f"other users can write {tmp_path}/guarded_late.py"):
        module.late()


def test_a_space_among_the_files_of_a_record_is_of_its_home_without_the_record(tmp_path: Path) -> None:
    files = tmp_path / "home" / "artifacts" / "space" / ("a" * 32) / "artifacts"
    files.mkdir(parents=True)
    assert is_in_sweep(files)
    assert not is_in_sweep(tmp_path / "artifacts" / "spaces")


@pytest.mark.skipif(os.getuid() != 0, reason="the group of another user's directory counts anyway")
@pytest.mark.parametrize(
    ("entry", "is_open"),
    [((2, 7, 65534), True), ((8, 7, 65534), True), ((2, 5, 65534), False), ((2, 7, 0), False)],
    ids=["user", "group", "reader", "this user"],
)
def test_a_folder_that_a_list_lets_others_write_is_not_used(
    entry: tuple[int, int, int], is_open: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "models"
    folder.mkdir(mode=0o755)
    (folder / "one.py").touch(0o600)
    give_list(folder, entry)
    assert writable_by_others(folder / "one.py") == (folder if is_open else None)
