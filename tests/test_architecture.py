"""Architecture rules: the direction of imports, and the packages that each part may use."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter

import pytest

from tests.cli.program import ROOT, imported

OURS = ("orchestrator", "trainables", "search_spaces", "tests")


def imports(source: str, module: str, *, package: bool = False) -> set[str]:
    """Return dotted names of all imports in ``source``, with relative imports resolved against ``module``."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                above = parts[: len(parts) - node.level + package]
                base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {base} | {f"{base}.{name.name}" for name in node.names}
    return names


@cache
def modules(folder: str) -> tuple[tuple[str, set[str]], ...]:
    """Return every module under ``folder``, or the single file of that name, with its imports."""
    return tuple(_modules(folder))


def _modules(folder: str) -> Iterator[tuple[str, set[str]]]:
    paths = [ROOT / f"{folder}.py"] if (ROOT / f"{folder}.py").is_file() else sorted((ROOT / folder).rglob("*.py"))
    assert paths, f"nothing found under {folder}: a rule about it would hold for no reason"
    for path in paths:
        package = path.name == "__init__.py"
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        yield name.removesuffix(".__init__"), imports(path.read_text(), name.removesuffix(".__init__"), package=package)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def offences(folder: str, forbidden: tuple[str, ...], allowed: tuple[str, ...] = ()) -> list[str]:
    """Return ``module imports name`` for every forbidden import under ``folder``."""
    return [
        f"{module} imports {name}"
        for module, names in modules(folder)
        for name in sorted(names)
        if any(within(name, package) for package in forbidden) and not any(within(name, other) for other in allowed)
    ]


def test_imports_finds_every_form_of_import() -> None:
    source = "import a.b\nfrom c import d\nfrom . import e\nfrom ..f import g\ndef h():\n    import i.j as k\n"
    names = imports(source, "p.q.r")
    assert names >= {"a.b", "c", "c.d", "p.q", "p.q.e", "p.f", "p.f.g", "i.j"}
    assert imports("from . import e", "p.q", package=True) >= {"p.q", "p.q.e"}


BELOW_SEARCH = (
    *("orchestrator.search", "orchestrator.transition", "orchestrator.system.errors"),
    *("trainables.contract.settings", "trainables.contract.runs"),
)
BELOW_SYSTEM = ("orchestrator.system", "trainables.contract.files", "trainables.contract.other_writers")
NO_CLOCK = ("ray", "mlflow", "torch", "time", "datetime", "random", "threading", "subprocess")


@pytest.mark.parametrize(
    ("folder", "forbidden", "allowed"),
    [
        ("trainables", ("ray", "mlflow", "pydantic", "orchestrator", "tests"), ()),
        ("trainables/base", ("torch",), ()),
        ("trainables/contract/family", ("torch",), ()),
        ("orchestrator/transition", OURS, ("orchestrator.transition",)),
        ("orchestrator/search", OURS, BELOW_SEARCH),
        ("orchestrator/search", NO_CLOCK, ()),
        ("orchestrator/transition", NO_CLOCK, ()),
        ("orchestrator/report", ("orchestrator.engine", "orchestrator.record", "orchestrator.catalog"), ()),
        ("orchestrator/record", ("orchestrator.engine", "orchestrator.catalog"), ()),
        ("orchestrator/catalog", ("orchestrator.record", "torch"), ()),
        ("orchestrator/engine", ("orchestrator.catalog", "orchestrator.report", "orchestrator.forecast"), ()),
        (
            "orchestrator/system",
            OURS,
            ("orchestrator.system", "trainables.contract.files", "trainables.contract.other_writers"),
        ),
    ],
)
def test_folders_do_not_import_what_is_forbidden(
    folder: str, forbidden: tuple[str, ...], allowed: tuple[str, ...]
) -> None:
    """Ray and MLflow are checked below."""
    assert offences(folder, forbidden, allowed) == []


def test_trainables_use_only_the_standard_library_numpy_and_torch() -> None:
    """Exceptions: filelock, a dependency of torch, prevents processes from compiling the same step twice. Problems
    on sparse graphs use scipy's sparse matrices and solvers."""
    known = set(sys.stdlib_module_names) | {"numpy", "torch", "filelock", "safetensors", "trainables"}
    outside = {
        (module, name.split(".")[0])
        for module, names in modules("trainables")
        for name in names
        if name.split(".")[0] not in known
    }
    # Methods that are more than a formula come from established libraries.
    assert {name for _, name in outside} <= {"scipy", "sklearn"}
    assert {module for module, _ in outside if not within(module, "trainables.reparametrization")} == {
        "trainables.probes.embeddings"
    }


LAYERS = {
    "ground": ("system",),
    "machine": ("jobs", "home", "engine", "engine.ray"),
    "study": (
        *("transition", "search", "space", "history", "report"),
        *("forecast", "terminal", "catalog", "record", "sweep"),
    ),
    "door": ("doctor", "site", "api", "cli"),
}
"""Layers of the orchestrator from bottom to top, each with its packages from bottom to top. A package imports only from
those before it."""
PACKAGES = [package for packages in LAYERS.values() for package in packages]


def package_of(module: str) -> str | None:
    """Return the package of a dotted name, or None outside the orchestrator and for its top-level module."""
    parts = module.split(".")
    if parts[0] != "orchestrator" or len(parts) == 1 or parts[1].startswith("__"):
        return None
    return "engine.ray" if parts[1:3] == ["engine", "ray"] else parts[1]


def test_every_package_has_a_place_in_the_order() -> None:
    existing = {package_of(module) for module, _ in modules("orchestrator")} - {None}
    assert existing == set(PACKAGES)


def drawn_layers(text: str) -> dict[str, tuple[str, ...]]:
    """Return the layers that CONTRIBUTING draws, and their packages, from bottom to top."""
    layers: dict[str, list[str]] = {}
    layer = ""
    for line in text.partition("\norchestrator/\n")[2].partition("\ntrainables/")[0].splitlines():
        layer = line[:9].strip() or layer
        if name := re.match(r"[a-z/]+", line[11:]):
            layers.setdefault(layer, []).append(name[0].rstrip("/").replace("/", "."))
    return {layer: tuple(reversed(packages)) for layer, packages in reversed(layers.items())}


def test_contributing_draws_the_layers_in_their_order() -> None:
    assert drawn_layers((ROOT / "CONTRIBUTING.md").read_text()) == LAYERS


def test_packages_import_only_from_packages_below_them() -> None:
    height = {name: place for place, name in enumerate(PACKAGES)}
    upward = set()
    for module, names in modules("orchestrator"):
        own = package_of(module)
        for name in names:
            other = package_of(name)
            if own and other in height and height[other] > height[own]:
                upward.add((module, name))
    assert upward == set()


TRAINABLES = (
    ("contract",),
    ("base",),
    ("transformer", "reparametrization", "script"),
    ("tasks", "probes"),
    ("families",),
)
"""Packages of trainables from bottom to top. Each imports only from those before it, and none from its neighbors."""


def test_packages_of_trainables_import_only_from_packages_below_them() -> None:
    height = {name: place for place, floor in enumerate(TRAINABLES) for name in floor}
    upward, existing = set(), set()
    for module, names in modules("trainables"):
        own = module.split(".")[1] if "." in module else None  # None for the package itself, which is above all.
        for name in names if own else ():
            other = name.split(".")[1] if name.startswith("trainables.") else None
            if other != own and other in height and height[other] >= height.get(str(own), -1):
                upward.add((module, name))
        existing |= {own} - {None}
    assert existing == set(height)
    assert upward == set()


def closure(module: str) -> set[str]:
    """Return every module of this repository that a module imports, directly or through others, and itself. Imports for
    type checking count."""
    known = dict(entry for folder in ("orchestrator", "trainables") for entry in modules(folder))
    reached: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        if name in known and name not in reached:
            reached.add(name)
            todo += known[name]
    return reached


QUESTION = (
    *("search", "transition", "space", "history"),
    *("report", "forecast", "catalog", "record", "sweep"),
)
"""Packages that know the question of a sweep: its mixes, targets and pairs."""


def test_the_engine_knows_jobs_and_not_the_question() -> None:
    """It trains the jobs of any plan, on workers that get ready configurations."""
    reached = {name for module, _ in modules("orchestrator/engine") for name in closure(module)}
    assert reached >= {"orchestrator.jobs.plan", "orchestrator.engine.worker", "orchestrator.engine.ray.trial"}
    assert {name for name in reached if package_of(name) in QUESTION} == set()


def test_the_home_of_runs_does_not_know_the_question() -> None:
    reached = {name for module, _ in modules("orchestrator/home") for name in closure(module)}
    assert {name for name in reached if package_of(name) in QUESTION} == set()


def test_trackers_know_records_and_not_the_question() -> None:
    """MLflow's draws pictures, with the warnings of reports."""
    reached = closure("orchestrator.record.json_lines")
    assert {name for name in reached if package_of(name) in QUESTION} == {
        *("orchestrator.record.json_lines", "orchestrator.record.tracker")
    }


def test_only_the_doctor_knows_a_kind_of_model() -> None:
    """Everything else asks the family of a sweep."""
    kinds = ("trainables.transformer", "trainables.reparametrization", "trainables.tasks")
    importers = {line.split()[0] for line in offences("orchestrator", kinds)}
    assert importers == {"orchestrator.doctor.gpu", "orchestrator.doctor.machine"}


def names_assigned_twice(source: str) -> list[str]:
    """Return the constants that a module assigns more than once at its top level."""
    targets = [node.targets[0] for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return sorted({name for name in names if names.count(name) > 1})


def test_no_module_assigns_a_constant_twice() -> None:
    """A reader who changes the first would change nothing."""
    assert names_assigned_twice("A = 1\nB = 2\nA = 3\nif B:\n    B = 4\n") == ["A"]
    paths = [path for folder in ("orchestrator", "trainables") for path in (ROOT / folder).rglob("*.py")]
    twice = {str(path.relative_to(ROOT)): names_assigned_twice(path.read_text()) for path in paths}
    assert {path: names for path, names in twice.items() if names} == {}


def test_imports_have_no_cycles() -> None:
    """Imports for type checking count too."""
    known = dict(entry for folder in ("orchestrator", "trainables") for entry in modules(folder))
    packages = {name for module in known for name in [module.rpartition(".")[0]]}
    graph = {
        module: names & known.keys() - packages - {module} for module, names in known.items() if module not in packages
    }
    assert list(TopologicalSorter(graph).static_order())  # Raises CycleError, which names the cycle.


def test_only_the_package_of_ray_imports_ray_and_only_record_imports_mlflow() -> None:
    for package, home in (("ray", "orchestrator.engine.ray"), ("mlflow", "orchestrator.record")):
        users = {module for module, names in modules("orchestrator") if any(within(name, package) for name in names)}
        assert users
        assert {user for user in users if not within(user, home)} == set()


def test_text_is_printed_only_without_control_characters() -> None:
    own = ROOT / "orchestrator" / "system" / "printing.py"
    printing = re.compile(
        r"typer\.echo\(|click\.echo\(|^from rich\.console import .*\bConsole\b(?!.*#)|rich\.print", re.M
    )
    users = {path: printing.findall(path.read_text()) for path in (ROOT / "orchestrator").rglob("*.py") if path != own}
    makes = {path for path, found in users.items() if found and re.search(r"(?<![.\w])Console\(", path.read_text())}
    assert {str(path.relative_to(ROOT)) for path in makes} == {"orchestrator/report/answer_table.py"}  # Into a string.
    assert not [path for path, found in users.items() if any("echo" in word for word in found)]


@pytest.mark.parametrize(
    ("space", "variant"), [("add_vs_add_prod", None), ("permutations", None), ("reparametrization_heat", "work")]
)
def test_sweeps_are_planned_and_read_without_torch(space: str, variant: str | None) -> None:
    code = (
        "from orchestrator.space.spaces import load_space\nimport orchestrator.history.extend\n"
        f"load_space({space!r}, 'smoke', variant={variant!r}).make_family().parameters(16)"
    )
    assert imported(code, "torch", "ray", "mlflow", "matplotlib") == []
