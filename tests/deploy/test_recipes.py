"""Cluster recipes: they parse, expose no open ports, and use options that the program and Ray accept."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
import yaml
from ray.autoscaler._private.util import validate_config

from orchestrator.cli.app import program
from tests.cli.program import process

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SCHEMAS = Path(__file__).parent / "schemas"
KUBERAY = sorted((DEPLOY / "kuberay").glob("*.yaml"))
CLOUD = sorted((DEPLOY / "cloud").glob("*.yaml"))
TEXTS = sorted(path for path in DEPLOY.rglob("*") if path.suffix in (".yaml", ".md", ".sbatch", ".env"))


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def commands(text: str) -> Iterator[list[str]]:
    """Yield every ``orchestrator`` command line in a text, with continued lines joined and comment signs removed."""
    joined = re.sub(r"\\\n\s*#?\s*", " ", text)
    for result in re.finditer(
        r"(?:python -m orchestrator|\bdriver) ((?:run|ui|sync|status|report|doctor) [^\n'`;]*)", joined
    ):
        yield shlex.split(result.group(1).split(" #")[0].split(" &")[0].replace("$", ""))


def test_every_command_in_the_recipes_exists() -> None:
    known = dict(typer.main.get_command(program()).commands)  # type: ignore[attr-defined]
    seen = 0
    for path in TEXTS:
        for words in commands(path.read_text(encoding="utf-8")):
            options = {option for item in known[words[0]].params for option in item.opts}
            wanted_spec = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert wanted_spec <= options | {"--tmux"}, f"{path.name}: {words}"
            seen += 1
    assert seen >= 8


@pytest.mark.parametrize("path", CLOUD, ids=lambda path: path.name)
def test_ray_accepts_the_cluster_launcher_files(path: Path) -> None:
    schema = json.loads((files("ray.autoscaler") / "ray-schema.json").read_text(encoding="utf-8"))
    (cluster,) = documents(path)
    jsonschema.validate(cluster, schema)
    starts = cluster["head_start_ray_commands"] + cluster["worker_start_ray_commands"]
    assert all("RAY_AUTH_MODE=token" in item for item in starts if "ray start" in item)
    assert "--dashboard-host=127.0.0.1" in " ".join(starts)


@pytest.mark.parametrize("path", CLOUD, ids=lambda path: path.name)
def test_machines_of_a_cloud_have_what_ray_does_not_find_out(path: Path) -> None:
    """Ray fills in the resources of AWS machines only, and its default image of AWS has a driver of 2022."""
    (cluster,) = documents(path)
    validate_config(cluster | {"cluster_synced_files": []})  # Ray's own checks, after it has filled in this key.
    types = cluster["available_node_types"]
    assert types["gpu"]["resources"]["GPU"] == 1
    assert types["head"]["resources"] == {"CPU": 0}
    texts = [item for one in types.values() for item in leaves(one["node_config"])]
    chosen = [item for item in texts if item == "AMI" or item.endswith("/FAMILY")]
    assert len(chosen) == 2, "each kind of machine needs an image that the user chooses"


def leaves(value: Any) -> Iterator[str]:
    """Yield the texts in nested values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)


def schema(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return read


def resolved(published: dict[str, Any], of: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the schema of a property inside another one, through references."""
    for name in names:
        of = of["properties"][name]
        while "$ref" in of:
            of = published["$defs"][of["$ref"].rpartition("/")[2]]
    return of


def test_kuberay_accepts_its_objects() -> None:
    published = schema("kuberay")
    template = resolved(published, published["RayCluster"], "headGroupSpec", "template")
    checked = []
    for item in (one for path in KUBERAY for one in documents(path)):
        kind, spec = item["kind"], item["spec"]
        if kind == "Deployment":  # Its pods have the schema of KubeRay's.
            jsonschema.validate(spec["template"], {**template, "$defs": published["$defs"]})
        elif kind in published:
            jsonschema.validate(spec, {**published[kind], "$defs": published["$defs"]})
        else:
            continue
        checked.append(kind)
    assert sorted(checked) == ["Deployment", "RayCluster", "RayJob"]
    misspelled = {"rayVersion": "2.60.0", "headGroupSpec": {"rayStartParams": {}, "templat": {}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(misspelled, {**published["RayCluster"], "$defs": published["$defs"]})


def test_no_head_on_kubernetes_trains() -> None:
    of_ray = [item for path in KUBERAY for item in documents(path) if item["apiVersion"] == "ray.io/v1"]
    clusters = [item["spec"].get("rayClusterSpec", item["spec"]) for item in of_ray]
    assert [one["headGroupSpec"]["rayStartParams"]["num-cpus"] for one in clusters] == ["0", "0"]


def test_compose_accepts_its_file() -> None:
    (compose,) = documents(DEPLOY / "compose" / "compose.yaml")
    jsonschema.validate(compose, schema("compose"))
    compose["services"]["head"]["entry_point"] = []
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(compose, schema("compose"))


@pytest.mark.parametrize("path", KUBERAY, ids=lambda path: path.name)
def test_kubernetes_objects_are_complete(path: Path) -> None:
    for item in documents(path):
        assert {"apiVersion", "kind", "metadata", "spec"} <= item.keys()
        assert item["metadata"]["labels"] == {"app": "sweeps"}


def test_every_ray_cluster_on_kubernetes_requires_a_token_and_labels_its_pods() -> None:
    result = [item for path in KUBERAY for item in documents(path) if item["apiVersion"] == "ray.io/v1"]
    clusters = [item["spec"].get("rayClusterSpec", item["spec"]) for item in result]
    assert {item["kind"] for item in result} == {"RayCluster", "RayJob"}
    pinned = re.search(r"^ray==(.+)$", (DEPLOY.parent / "requirements.lock").read_text(), re.M)
    assert pinned is not None
    for cluster in clusters:
        assert cluster["authOptions"] == {"mode": "token"}
        assert cluster["rayVersion"] == pinned.group(1)
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            # The network policy selects pods by this label.
            assert group["template"]["metadata"]["labels"] == {"app": "sweeps"}
            (container,) = group["template"]["spec"]["containers"]
            assert container["resources"]["requests"] == container["resources"]["limits"]
            claimed = {mount["name"] for mount in container.get("volumeMounts", ())}
            assert claimed <= {volume["name"] for volume in group["template"]["spec"].get("volumes", ())}


def test_the_network_policy_admits_only_its_own_pods() -> None:
    (policy,) = documents(DEPLOY / "kuberay" / "network.yaml")
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    for rule in policy["spec"]["ingress"]:
        assert rule["from"]
        inside = rule["from"][0].get("podSelector", {}).get("matchLabels") == {"app": "sweeps"}
        assert inside or [port["port"] for port in rule["ports"]] == [8265]


def test_compose_publishes_only_on_this_machine_and_contains_no_secret() -> None:
    (compose,) = documents(DEPLOY / "compose" / "compose.yaml")
    services = compose["services"]
    assert {"head", "worker", "driver", "mlflow", "postgres", "store"} <= services.keys()
    published = [port for item in services.values() for port in item.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    for service in services.values():
        assert "image" in service
        for name, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|TOKEN|SECRET", name):
                assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", str(value)), name
        for needed in service.get("depends_on", ()):
            assert needed in services
    used = {mount.partition(":")[0] for item in services.values() for mount in item.get("volumes", ())}
    assert {name for name in used if not name.startswith(".")} == set(compose["volumes"])
    wanted = set(re.findall(r"\$\{(\w+):\?", (DEPLOY / "compose" / "compose.yaml").read_text()))
    assert wanted == set(re.findall(r"^(\w+)=$", (DEPLOY / "compose" / "example.env").read_text(), re.M))


def test_the_image_copies_existing_files_and_runs_without_privileges() -> None:
    text = (DEPLOY / "image" / "Dockerfile").read_text(encoding="utf-8")
    root = DEPLOY.parent
    shown = {
        line.removeprefix("!") for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    for line in re.findall(r"^COPY (.+)$", text, re.M):
        for name in line.split()[:-1]:
            assert (root / name).exists()
            assert name in shown
    assert re.search(r"^USER sweeps$", text, re.M)
    assert not re.search(r"^ENTRYPOINT", text, re.M), "Ray's launcher starts `docker run IMAGE bash`"
    assert "wget" in text, "KubeRay 1.5 checks the health of pods with it"


def test_the_batch_script_has_valid_syntax_and_requires_a_space() -> None:
    script = DEPLOY / "slurm" / "sweep.sbatch"
    subprocess.run(["bash", "-n", str(script)], check=True)
    assert "say which search space" in process(["bash", str(script)]).refused()
    if (shellcheck := shutil.which("shellcheck")) is not None:
        subprocess.run([shellcheck, "--severity=warning", "--exclude=SC2046", str(script)], check=True)


@pytest.mark.parametrize("before", ["nothing", "own", "own, open to all", "of another user", "a link"])
def test_the_batch_script_starts_ray_only_in_a_directory_of_its_user(before: str, tmp_path: Path) -> None:
    """The name of the directory is new on the first node. When others make theirs, other users may have seen it."""
    if before == "of another user" and os.getuid() != 0:
        pytest.skip("only root can give a directory to another user")
    script = (DEPLOY / "slurm" / "sweep.sbatch").read_text()
    [private] = re.findall(r"^    private='(.*?)'$", script, re.MULTILINE | re.DOTALL)
    assert 'sh -c "$private; $repeated" try "$temporary"' in script
    place = tmp_path / "ray-1"
    if before == "a link":
        (tmp_path / "other").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "other")
    elif before != "nothing":
        place.mkdir()
        place.chmod(0o777 if "open" in before else 0o700)
    if before == "of another user":
        os.chown(place, 65534, 65534)
    done = process(["sh", "-c", f'{private}; shift; "$@"', "try", place, "echo", "started"])
    if before in ("nothing", "own"):
        assert done.succeeded() == "started\n"
        assert place.stat().st_mode & 0o777 == 0o700
    else:
        assert (done.code, done.out) == (1, "")
        assert "is not a private directory of this user" in done.err


STUBS = {
    "scontrol": "echo node1",
    "srun": """while [ "${1#--}" != "$1" ]; do shift; done
for word; do
    case $PLANTED$word in "$PLANTED"/tmp/ray-*)
        echo "$word" | cut -d/ -f1-3 >> "$SLURM_SUBMIT_DIR/places"
        [ -z "$PLANTED" ] || { mkdir -p "$word/r" && echo "$PLANTED" > "$word/r/ray_current_cluster"; } 2> /dev/null
    esac
done
exec "$@\"""",
    "ray": """echo "$@" >> "$SLURM_SUBMIT_DIR/ray"; pwd > "$SLURM_SUBMIT_DIR/where"
[ -z "$BROKEN" ] || exit 1
for word; do [ "${word#--temp-dir=}" = "$word" ] || own=${word#--temp-dir=}; done
mkdir -p "$own" && echo 127.0.0.1:4711 > "$own/ray_current_cluster"
exec sleep 30 > /dev/null 2>&1""",
    "python": '[ "$3" = orchestrator ] || exec "$PYTHON" "$@"; echo "$@" > "$SLURM_SUBMIT_DIR/run"',
    "sleep": "exec /bin/sleep $(($1 / 10)).1",
}
"""Programs for a job without Slurm and Ray. ``PLANTED`` is an address that another user writes into each directory of
the job just before the job makes it."""
PLANTED = "127.0.0.1:666"
"""Address of another user's Ray."""


@pytest.mark.parametrize("planted", ["", PLANTED])
@pytest.mark.parametrize("is_broken", [False, True])
def test_the_batch_script_joins_only_the_ray_that_it_started(planted: str, is_broken: bool, tmp_path: Path) -> None:
    """Everyone sees the number of a job, so other users could prepare a directory or a port that follow from it."""
    for name, text in STUBS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    variables = {
        "SLURM_JOB_ID": os.getpid(),
        "SLURM_JOB_NODELIST": "node1",
        "SLURM_JOB_NUM_NODES": 1,
        "SLURM_SUBMIT_DIR": tmp_path,
        "SWEEPS_PYTHON": tmp_path / "python",
        "PYTHON": sys.executable,
        "PLANTED": planted,
        "BROKEN": "yes" if is_broken else "",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    environment = {name: str(value) for name, value in variables.items()}
    done = process(["bash", DEPLOY / "slurm" / "sweep.sbatch", "some_space"], environment=environment)
    places = set((tmp_path / "places").read_text().split())
    [place] = map(Path, places)
    assert re.fullmatch(rf"/tmp/ray-{os.getpid()}-[0-9a-f]{{8}}", str(place))
    mode = place.stat().st_mode & 0o777
    shutil.rmtree(place)
    if not planted and not is_broken:
        done.succeeded()
        assert mode == 0o700
        assert "--port=0" in (tmp_path / "ray").read_text().split()
        # Python imports nothing from the directory of the job, in which a team may write.
        assert (tmp_path / "run").read_text().startswith("-P -m orchestrator run some_space --address 127.0.0.1:4711")
        assert (tmp_path / "where").read_text() == f"{place}\n"
    else:
        assert done.code == 1
        assert ("File exists" if planted else "Ray did not start on node1") in done.err
        assert not (tmp_path / "run").exists()
