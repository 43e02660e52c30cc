"""The code of a script: which files a command names, and that a change of each changes the keys of its runs."""

from __future__ import annotations

import errno
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.training_scripts import script_spec, written_space
from trainables.contract.settings import SettingsError
from trainables.script.code import code_hash, code_of, file_hashes, unfound_modules
from trainables.script.code_change import change_text
from trainables.script.options import ScriptOptions

FILES = {
    "project/package/__main__.py": "from . import inner\nimport near\n",
    "project/package/near.py": "",
    "project/start": "#!/usr/bin/env python\nimport model\n",
    "project/train.v2.py": "import runpy\nrunpy.run_module('inner')\n",
    "project/inner/__init__.py": "",
    "project/inner/__main__.py": "",
    "project/own.py": "import orchestrator.part\n",
    "project/orchestrator/__init__.py": "",
    "project/orchestrator/part.py": "",
    "project/hiding.py": "import sys; sys.path.insert(0, __file__.rpartition('/')[0] + '/src'); import hidden\n",
    "project/hidden/data.txt": "",
    "project/seeking.py": "import hidden\n",
    "project/src/hidden.py": "",
    "project/run.sh": "cd .; python train.py {x}\n",
    "project/settings.yaml": "a: 1\n",
    "project/train.py": "import model\n",
    "project/sources.sh": ". ./common\nsource venv/bin/activate\npython train.py\n",
    "project/apostrophe.sh": "echo 1 # don't wait\nset -a; . ./common; set +a\npython train.py\n",
    "project/apostrophes.sh": "echo 1 # don't\n. \"./common\"\npython train.py # doesn't end\n",
    "project/document.sh": "cat <<E\nit's\nE\nsource \\\n  ./common; python -Wignore plain\n",
    "project/dashes.sh": 'source -- "$(dirname "$0")/common"; python train.py\n',
    "project/common": "source ./settings\n",
    "project/settings": "export RATE=1\n",
    "project/venv/bin/activate": "export X=1\n",
    "project/plain": "import model\n",
    "project/base.gin": "rate = 1\n",
    "project/.env": "RATE=1\n",
    "project/model.py": "RATE = 1\n",
    "project/unused.py": "",
    "project/package/__init__.py": "",
    "project/package/inner.py": "",
    "project/enter.sh": 'cd "$(dirname "$0")/nested"; exec python3 below.py "$@"\n',
    "project/nested/below.py": "",
    "project/eval.sh": '[ $# -ge 1 ] || exit; CMD="python3 train.py $*"; eval "$CMD"\n',
    "project/inner.sh": "srun bash -c 'cd . && python3 train.py'; echo `date`\n",
    "project/here.sh": "export PYTHONPATH=$PWD:$PYTHONPATH\npython3 nested/needs_root.py\n",
    "project/nested/needs_root.py": "import model\n",
    "project/near.sh": 'python "$DIR/train.py"\n',
    "project/beside.sh": "python $(dirname $0)/train.py\n",
    "project/braces.sh": 'python "${0%/*}/train.py"\n',
    "project/second.sh": "bash ./run.sh\n",
    "project/shebang": '#!/usr/bin/env bash\npython train.py "$@"\n',
    "project/path.sh": "export PYTHONPATH=$PWD/elsewhere:$PYTHONPATH; python -m away\n",
    "project/elsewhere/away.py": "",
    "project/scripts/up.sh": 'python "$(dirname "$0")/../train.py"\n',
    "project/newer.py": "from hidden import (\n  RATE,  # A rate.\n)\nprint 'later syntax'\n",
    "project/starts.py": "import subprocess, sys\nsubprocess.run([sys.executable, 'train.py', '--x'])\n",
    "project/shells.py": 'import os\nos.system("bash run.sh > log.txt")\n',
    "project/installed.py": "import hidden\n",
    "project/main.jl": 'include("part.jl")\n',
    "project/part.jl": "",
    "project/main.js": "const part = require('./part')\n",
    "project/part.js": "",
    "project/needs.py": "import far\n",
    "lib/far/__init__.py": "",
    "lib/far/below.py": "",
    "lib/other.py": "import near\n",
    "lib/near.py": "",
}
COMMANDS = {
    "train.py": ("python train.py", {"model.py", "train.py"}),
    "a path above": ("python ../lib/other.py", {"../lib/near.py", "../lib/other.py"}),
    "an absolute path": ("python {root}/lib/other.py", {"{root}/lib/near.py", "{root}/lib/other.py"}),
    "a module": ("python -m train", {"model.py", "train.py"}),
    "a package": ("python -um package", {f"package/{name}.py" for name in ("__init__", "__main__", "inner", "near")}),
    "a folder": ("python package settings.yaml", {"package/__main__.py", "package/near.py", "settings.yaml"}),
    "a main file": ("python package/__main__.py", {"package/__main__.py", "package/near.py"}),
    "no suffix": ("./start", {"model.py", "start"}),
    "a name with dots": ("python train.v2.py", {"train.v2.py", "inner/__init__.py", "inner/__main__.py"}),
    "names of our packages": ("python own.py", {"own.py", "orchestrator/__init__.py", "orchestrator/part.py"}),
    "a hiding folder": ("python hiding.py", {"hiding.py", "src/hidden.py"}),
    "a shell script": ("bash run.sh", {"model.py", "run.sh", "train.py"}),
    "one option": ("python -mtrain", {"model.py", "train.py"}),
    "the value of an option": ("python train.py --config=settings.yaml", {"model.py", "settings.yaml", "train.py"}),
    "a module on the path": ("env PYTHONPATH=lib:src python -m hidden", {"src/hidden.py"}),
    "imports on the path": ("env PYTHONPATH=src python seeking.py", {"seeking.py", "src/hidden.py"}),
    "the syntax of another Python": ("env PYTHONPATH=src python newer.py", {"newer.py", "src/hidden.py"}),
    "a shell in another folder": ("bash enter.sh", {"enter.sh", "nested/below.py"}),
    "a command in a variable": ("bash eval.sh", {"eval.sh", "model.py", "train.py"}),
    "a shell in a shell": ("bash inner.sh", {"inner.sh", "model.py", "train.py"}),
    "the working directory on the path": ("bash here.sh", {"here.sh", "model.py", "nested/needs_root.py"}),
    "a variable": ("bash near.sh", {"model.py", "near.sh", "train.py"}),
    "the folder of a shell script": ("bash beside.sh", {"beside.sh", "model.py", "train.py"}),
    "braces": ("bash braces.sh", {"braces.sh", "model.py", "train.py"}),
    "files that a shell reads": ("bash sources.sh", {"common", "model.py", "settings", "sources.sh", "train.py"}),
    **{
        f"what a shell reads in {name}": (f"bash {name}", {"common", "model.py", "settings", name, "train.py"})
        for name in ("apostrophe.sh", "apostrophes.sh", "dashes.sh")
    },
    "after a text with an apostrophe": ("bash document.sh", {"common", "document.sh", "model.py", "plain", "settings"}),
    "a program without a mark": ("python -u plain", {"model.py", "plain"}),
    "settings of Gin": ("python train.py --gin_file=base.gin", {"base.gin", "model.py", "train.py"}),
    "a file that is only a suffix": ("python train.py --env .env", {".env", "model.py", "train.py"}),
    "a second shell script": ("bash second.sh", {"model.py", "run.sh", "second.sh", "train.py"}),
    "a shell script without suffix": ("./shebang", {"model.py", "shebang", "train.py"}),
    "a path in a shell script": ("bash path.sh", {"elsewhere/away.py", "path.sh"}),
    "a folder above": ("bash scripts/up.sh", {"model.py", "scripts/up.sh", "train.py"}),
    "a program that Python starts": ("python starts.py", {"model.py", "starts.py", "train.py"}),
    "a shell that Python starts": ("python shells.py", {"model.py", "run.sh", "shells.py", "train.py"}),
    "an installed package": ("python installed.py", {"installed.py", "src/hidden.py"}),
    "another language": ("julia main.jl", {"main.jl", "part.jl"}),
    "a name without suffix": ("node main.js", {"main.js", "part.js"}),
    "an editable package": ("venv/bin/python needs.py", {"needs.py", "../lib/far/__init__.py", "../lib/far/below.py"}),
    "a launcher": ("torchrun --nproc 2 -m train", {"model.py", "train.py"}),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    packages = tmp_path / "project" / "venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (tmp_path / "project" / "venv" / "pyvenv.cfg").touch()
    (packages / "__editable__.far-0.pth").write_text(f"{tmp_path / 'lib'}\nimport sys\n")
    return tmp_path


def options(place: Path, *command: str, directory: str = "project") -> ScriptOptions:
    return ScriptOptions(command, str(place / directory), metrics={"step": "s", "accuracy": "a"})


@pytest.mark.parametrize("in_a_shell", [False, True])
@pytest.mark.parametrize("kind", COMMANDS)
def test_the_files_of_a_command_are_hashed(kind: str, in_a_shell: bool, place: Path) -> None:
    text, named = COMMANDS[kind]
    text = text.format(root=place)
    script = options(place, *(["bash", "-c", f"exec {text} {{size}}"] if in_a_shell else text.split()))
    files = {name.format(root=place) for name in named}
    assert code_of(script) == (sorted(files), "")
    hashes = {code_hash(script)}
    for name in files:
        with (place / "project" / name).open("a") as file:
            file.write("RATE = 2\n")
        hashes.add(code_hash(script))
    assert len(hashes) == 1 + len(files)


@pytest.mark.parametrize("name", ["PYTHONPATH", "ORCHESTRATOR_USER_PYTHONPATH"])
def test_modules_on_the_path_of_the_users_shell_are_hashed(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of Ray have another path, and keep the user's in a variable of its own."""
    monkeypatch.delenv("ORCHESTRATOR_USER_PYTHONPATH", raising=False)  # A test under Ray may have set it.
    monkeypatch.setenv("PYTHONPATH", str(place / "nowhere"))
    monkeypatch.setenv(name, f"{'x' * 300}:{place / 'project' / 'elsewhere'}")
    (place / "lib" / "far" / "go.py").write_text("import away\n")
    files = code_of(options(place, "python", "go.py", directory="lib/far")).files
    assert files == ["../../project/elsewhere/away.py", "go.py"]


EDITABLE = {
    "a folder": ("far.pth", "{lib}\nimport sys\n"),
    "a folder from that of the packages": ("far.pth", "../../../../lib\n"),
    "a finder of setuptools": (
        "__editable___far_0_finder.py",
        "import sys\nMAPPING: dict[str, str] = {{'far': '{lib}/far'}}\n",
    ),
}
ENVIRONMENTS = {
    "activated": ("../e", "python needs.py", "VIRTUAL_ENV"),
    "of conda": ("../e", "python needs.py", "CONDA_PREFIX"),
    "first in PATH": ("../e", "python needs.py", "PATH"),
    "of a launcher": ("../e", "../e/bin/torchrun needs.py", ""),
    "named": ("../e", "conda run -p ../e python needs.py", ""),
    "in a shell script": ("../e", "bash activates.sh", ""),
    "of the project": ("../.venv", "uv run needs.py", ""),
}


@pytest.mark.parametrize("how", EDITABLE)
@pytest.mark.parametrize("which", ENVIRONMENTS)
def test_projects_that_are_installed_to_be_edited_are_hashed(
    which: str, how: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, command, variable = ENVIRONMENTS[which]
    (place / "pyproject.toml").touch()
    (place / "project" / "activates.sh").write_text("source ../e/bin/activate\npython needs.py\n")
    shutil.rmtree(place / "project" / "venv")
    environment = (place / "project" / folder).resolve()
    packages = environment / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (environment / "bin").mkdir()
    (environment / "bin" / "python").symlink_to(sys.executable)
    (environment / "pyvenv.cfg").touch()
    name, text = EDITABLE[how]
    (packages / name).write_text(text.format(lib=place / "lib"))
    if variable:
        monkeypatch.setenv(variable, str(environment / "bin" if variable == "PATH" else environment))
    script = options(place, *command.split())
    assert {"needs.py", "../lib/far/__init__.py", "../lib/far/below.py"} <= set(code_of(script).files)
    assert unfound_modules(script) == []


READS_SETTINGS = {
    "a name": "json.load(open('a.json'))",
    "a mode": "json.load(open('a.json', 'rb')); json.load(open(mode='rt', file='b.json'))",
    "a path": "HERE = Path(__file__).parent\nCONFIG = HERE / 'conf' / 'c.json'\njson.loads(CONFIG.read_text())",
    "an opened path": "Path(__file__).with_name('a.json').open().read()",
    "a joined path": "yaml.safe_load(open(os.path.join(os.path.dirname(__file__), 'conf', 'c.json')))",
    "a text with a path": "HERE = os.path.dirname(__file__)\nopen(f'{HERE}/a.json')",
    "a function of a library": "OmegaConf.load('d.yaml')",
    "a list": "configparser.ConfigParser().read(['e.ini', 'f.ini'])",
    "a check before": "if os.path.exists('a.json'): print('a.json', json.load(open('a.json')).copy())",
    "content that is written elsewhere": "x = json.load(open('a.json')); json.dump(x, open(OUT / 'copy.json', 'w'))",
    "replaced content": "Path('a.json').read_text().replace('SIZE', '3')",
    "a path from a function": "C = os.path.join(get_root(), 'a.json')\njson.load(open(C))",
    "an exception": "C = Path('a.json')\nif 1: raise FileNotFoundError(f'no {C}')\njson.loads(C.read_text())",
    "a function that parses": "parse_config_file('a.json')",
    "a function that merges": "CFG.merge_from_file('d.yaml')",
    "a function that gets": "ml.get_config('a.json')",
    "next to a statement of a later Python": "json.load(open('a.json'))\nx = 1 +* 2",
    "in a function with such a statement": "def load():\n    x = 1 +* 2\n    return json.load(open('a.json'))\n",
    "in the header of a block with such a statement": "with open('a.json') as file:\n    x = 1 +* 2\n",
    "one of two names": "TRAIN, MODEL = 'gone.json', 'a.json'\njson.load(open(MODEL))",
    "a log": "logging.info('read %s', 'a.json'); json.load(open('a.json'))",
}
READ_BY = {
    "a mode": ["a.json", "b.json"],
    "a path": ["conf/c.json"],
    "a joined path": ["conf/c.json"],
    "a function of a library": ["d.yaml"],
    "a function that merges": ["d.yaml"],
    "a list": ["e.ini", "f.ini"],
}
MAY_WRITE = {
    "a mode for writing": "json.dump(1, open('a.json', 'w'))",
    "another mode": "open('a.json'); open('a.json', mode='r+')",
    "a computed mode": "open('a.json'); open('a.json', MODE)",
    "a written path": "STATE = Path('a.json')\njson.loads(STATE.read_text())\nSTATE.write_text('1')",
    "a path that is opened to write": "open('a.json'); (HERE / 'a.json').open('a')",
    "a function": "def save(path): open(path, 'w')\njson.load(open('a.json')); save('a.json')",
    "a file that replaces it": "json.load(open('a.json')); os.replace('new', 'a.json')",
    "another program": "subprocess.run(['tool', '--to', 'a.json']); json.load(open('a.json'))",
    "another file of the script": "import model; open('other/a.json', 'w'); json.load(open('b.json'))",
    "only a default": "parser.add_argument('--state', default='a.json')",
    "no Python": "json.load(open('a.json')",
    "large data": "json.load(open('large.json'))",
    "a file that is not there": "json.load(open('gone.json'))",
    "a long name": f"json.load(open('{'x/' * 300}.json'))",
    "a staircase": "\n".join(" " * row + "(" for row in range(3000)),
}


@pytest.fixture
def settings(place: Path) -> Path:
    """A folder with settings."""
    (place / "s" / "conf").mkdir(parents=True)
    for name in ("a.json", "b.json", "conf/c.json", "d.yaml", "e.ini", "f.ini", "copy.json", "args.txt"):
        (place / "s" / name).write_text("1")
    (place / "s" / "large.json").write_bytes(b"0" * (1 << 20) + b"0")
    (place / "s" / "model.py").write_text("import json\njson.load(open('a.json'))\nopen('b.json', 'w')\n")
    return place / "s"


@pytest.mark.parametrize("kind", [*READS_SETTINGS, *MAY_WRITE])
def test_settings_that_python_reads_by_name_are_hashed_unless_it_may_write_them(
    kind: str, settings: Path, place: Path
) -> None:
    (settings / "go.py").write_text((READS_SETTINGS | MAY_WRITE)[kind])
    read = READ_BY.get(kind, ["a.json"]) if kind in READS_SETTINGS else []
    imported = ["model.py"] if kind == "another file of the script" else []
    assert code_of(options(place, "python", "go.py", directory="s")).files == sorted(["go.py", *read, *imported])
    assert code_of(options(place, "python", "s/go.py", directory=".")).files == sorted(
        f"s/{name}" for name in ["go.py", *read, *imported]
    )


ABOVE = {
    "a folder above": "ROOT = Path(__file__).resolve().parents[2]\njson.loads((ROOT / 'conf' / 'c.json').read_text())",
    "a parent": "json.loads((Path(__file__).parent.parent / 'a.json').read_text())",
    "a function": "R = os.path.dirname(os.path.dirname(__file__))\njson.load(open(os.path.join(R, 'a.json')))",
    "a file of a package": "json.loads(importlib.resources.files('lab').joinpath('l.json').read_text())",
    "data of a package": "json.loads(pkgutil.get_data('lab', 'l.json'))",
    "a text of a package": "json.loads(importlib.resources.read_text('lab', 'l.json'))",
}


@pytest.mark.parametrize("kind", ABOVE)
def test_settings_that_python_reads_from_a_folder_above_it_are_hashed(kind: str, settings: Path, place: Path) -> None:
    """Up to the folder of the project, and from ``src``."""
    for folder in ("s/.git", "s/src/lab/models"):
        (place / folder).mkdir(parents=True)
    (settings / "src" / "lab" / "a.json").write_text("1")
    (settings / "src" / "lab" / "l.json").write_text("1")
    (settings / "src" / "lab" / "models" / "go.py").write_text(ABOVE[kind])
    (place / "a.json").write_text("outside")
    read = {one: ["../l.json"] for one in ABOVE if "of a package" in one}
    read["a folder above"] = ["../../../conf/c.json"]
    script = options(place, "python", "go.py", directory="s/src/lab/models")
    assert set(code_of(script).files) >= {"go.py", *read.get(kind, ["../a.json"])}
    assert not any("../../../../" in name for name in code_of(script).files)


@pytest.mark.parametrize(
    ("command", "environment", "files"),
    [
        (["python", "go.py"], {"CONFIG": "a.json", "OTHER": "--config=conf/c.json {size}"}, ["a.json", "conf/c.json"]),
        (["python", "go.py"], {"STEP": "model.py", "TRAIN_LOG": "b.json"}, ["a.json", "model.py"]),
        (["python", "go.py"], {"RESULTS_FILE": "a.json", "OUT": "b.json", "CONFIG": "{out}/e.ini"}, []),
        (["python", "go.py", "@args.txt"], {}, ["args.txt", "b.json"]),
        (["sh", "-c", "python go.py --x @args.txt"], {}, ["args.txt", "b.json"]),
        (["sh", "-c", "echo --x {size} > args.txt; python go.py @args.txt"], {}, []),
        (["python", "go.py", "@{out}/args.txt", "@conf"], {}, []),
        (["sh", "-c", "sed s/x/{size}/ d.yaml > a.json; python reads.py"], {}, ["d.yaml", "reads.py"]),
        (["sh", "run.sh"], {}, ["reads.py", "run.sh"]),
        (["python", "reads.py", "--out={out}/a.json"], {"CONFIG": "a.json"}, ["reads.py"]),
    ],
)
def test_settings_of_variables_and_files_of_arguments_are_hashed(
    command: list[str], environment: dict[str, str], files: list[str], settings: Path, place: Path
) -> None:
    (settings / "go.py").touch()
    (settings / "reads.py").write_text("import json\njson.load(open('a.json'))\n")
    (settings / "model.py").write_text("import json\njson.load(open('a.json'))\n")
    (settings / "args.txt").write_text("--config\nb.json\n--out\ncopy.json\n")
    (settings / "run.sh").write_text("make settings --output=a.json\npython reads.py\n")
    script = replace(options(place, *command, directory="s"), environment=environment)
    named = ["go.py"] if "go.py" in " ".join(command) else []
    assert code_of(script).files == sorted([*named, *files])


CHANGES = {
    "one file": (["train.py"], [], "train.py in {place} on"),
    "settings, and a new file": (
        ["settings.yaml"],
        ["new.yaml"],
        "new.yaml, settings.yaml in {place} on HOST were changed in the meantime, or that machine has another copy. If "
        "the script itself writes new.yaml and settings.yaml, let it write them to {{out}}, because several runs may "
        'train at once, or list its own files under `script:` without them: `code: [".env", model.py, train.py]`',
    ),
    "settings and a program": (
        ["settings.yaml", "train.py"],
        [],
        "If the script itself writes settings.yaml, let it write it to {{out}}, because several runs may train at "
        'once, or list its own files under `script:` without it: `code: [".env", model.py, train.py]`',
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_changed_files_are_named(kind: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "HOST")
    changed, new, text = CHANGES[kind]
    script = options(place, "python", "train.py", "settings.yaml", "new.yaml", "../lib/other.txt", "--env=.env")
    before = file_hashes(script)
    for name in changed:
        (place / "project" / name).write_text(f"import model; changed = {name!r}\n")
    for name in new:
        (place / "project" / name).touch()
    assert text.format(place=place / "project") in change_text(script, before)


def test_without_hashes_all_files_are_named(place: Path) -> None:
    script = options(place, "python", "train.py", "settings.yaml")
    assert change_text(script, {}).startswith("model.py, settings.yaml, train.py in ")


IMPORTS = {
    "import gone, model": ["gone"],
    "def f():\n from gone.inner import a\n import lost.part as b": ["gone", "lost"],
    "import importlib\nimportlib.import_module('gone.part')\nimportlib.import_module('.x', 'package')": ["gone"],
    "try:\n import gone\nexcept ImportError:\n gone = None": [],
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n import gone": [],
    "import json, numpy.linalg, model, package.inner, orchestrator\nfrom . import part": [],
}


@pytest.mark.parametrize("text", IMPORTS)
def test_modules_that_are_found_nowhere_are_named(text: str, place: Path) -> None:
    (place / "project" / "train.py").write_text(text)
    script = options(place, "python", "train.py")
    assert unfound_modules(script) == IMPORTS[text]
    spec = script_spec(
        place / "space", script={"command": ["python", str(place / "project" / "train.py")], "code": None}
    )
    warning = f"The script needs {', '.join(IMPORTS[text])}, found neither near it nor installed. If that code is yours"
    assert any(line.startswith(warning) for line in spec.warnings()) is bool(IMPORTS[text])
    assert unfound_modules(replace(script, code=("train.py",))) == []


STARTS = {
    "in its folder": ("[sys.executable, '-m', 'near.cli']", {"near/cli.py", "near/core.py"}, []),
    "in another folder": ("[sys.executable, '-u', '-m', 'cli'], cwd='near'", {"near/cli.py", "near/core.py"}, []),
    "in a folder above": ("['python3', '-um', 'up.cli'], cwd='../'", {"../up/cli.py"}, []),
    "by a launcher": ("(TORCHRUN, '--nproc=2', '-m', 'near.cli', '--x')", {"near/cli.py", "near/core.py"}, []),
    "of Python": ("[sys.executable, '-m', 'json.tool']", set(), []),
    "nowhere": ("[sys.executable, '-m', 'far_off.cli'], cwd=Path(__file__).parents[1]", set(), ["far_off"]),
    "computed": ("[sys.executable, '-m', MODULE, '-m', name]", set(), []),
    "of another program": ("['git', 'commit', '-m', 'far_off']", set(), []),
}


@pytest.mark.parametrize("kind", STARTS)
def test_modules_that_python_starts_are_hashed_or_named(kind: str, tmp_path: Path) -> None:
    """No mark says how far the project reaches."""
    call, files, unfound = STARTS[kind]
    for name in ("exp/near/cli.py", "exp/near/core.py", "up/cli.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("import near.core, core\n" if name == "exp/near/cli.py" else "")
    (tmp_path / "exp" / "go.py").write_text(f"import subprocess, sys\nsubprocess.run({call})\n")
    script = options(tmp_path, "python", "go.py", directory="exp")
    assert set(code_of(script).files) == {"go.py", *files}
    assert unfound_modules(script) == unfound


def test_a_module_that_is_not_found_is_named_beside_settings_and_folders_of_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "outer" / "project"
    for name in (
        "model.yaml",
        "conf/a.yaml",
        "tools/near.py",
        "tools/inner.sh",
        "lib/package/__init__.py",
        "lib/ns/a.py",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    imports = "import sys; sys.path.append('lib')\nimport package, ns.a, tools.near, near\n"
    (folder / "train.py").write_text(imports + "import model, conf, outer, project, inner\n")
    command = ["python", str(folder / "train.py"), "model.yaml", "conf/a.yaml", "tools/inner.sh", "tools/near.py"]
    assert unfound_modules(options(tmp_path / "outer", *command)) == ["conf", "inner", "model", "outer", "project"]


def test_programs_and_folders_in_other_projects_are_hashed_with_the_projects_around_them(place: Path) -> None:
    """The script is in another project than the search space, some folders below what it imports."""
    tool = place / "tool" / "a" / "b" / "c" / "d"
    tool.mkdir(parents=True)
    (place / "tool" / "pyproject.toml").touch()
    (place / "tool" / "common.py").touch()
    (tool / "go.py").write_text("import common\n")
    assert code_of(options(place, "python", str(tool / "go.py"))).files == [
        str(tool / "go.py"),
        str(place / "tool" / "common.py"),
    ]


@pytest.mark.parametrize("mark", [".git", "pyproject.toml", ""])
def test_packages_of_the_project_around_a_script_are_hashed(mark: str, place: Path) -> None:
    """The search space lies next to the script, which puts the folder above on Python's search path."""
    (place / "project" / "scripts" / "go.py").write_text("import package.inner\n")
    if mark:
        (place / "project" / mark).mkdir()
    files = code_of(options(place, "python", "go.py", directory="project/scripts")).files
    assert ("../package/inner.py" in files) is bool(mark)


@pytest.mark.parametrize("text", ["make -C ~/q train\n", "cd ~/q; python3 -c 'import train'\n", "echo 1\n"])
def test_a_launcher_without_a_known_program_is_warned_about(text: str, place: Path) -> None:
    (place / "project" / "launch.sh").write_text(text)
    unknown = "The shell script launch.sh runs no program that was found"
    assert code_of(options(place, "bash", "launch.sh")) == (["launch.sh"], unknown)


def test_modules_next_to_the_target_of_a_link_are_hashed(place: Path) -> None:
    (place / "project" / "linked.py").symlink_to(place / "lib" / "other.py")
    assert code_of(options(place, "python", "linked.py")).files == ["../lib/near.py", "linked.py"]


@pytest.mark.parametrize("command", [("python", "-m", "json.tool"), ("true", "{size}"), ("bash", "-c", "cd x; 'y")])
def test_without_known_code_the_directory_counts_and_a_warning_says_so(command: tuple[str, ...], place: Path) -> None:
    script = options(place, *command)
    assert code_of(script) == ([], "No file of the script is known")
    assert code_hash(script) != code_hash(options(place, *command, directory="lib"))
    spec = script_spec(place / "space", script={"command": list(command), "code": None})
    assert "No file of the script is known, so its runs are reused even if its code changes." in spec.warnings()[0]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("python $WHERE/gone.py", "$WHERE/gone.py"),
        ("python gone.py", "gone.py"),
        ("Rscript -e 1; sh a/gone.sh", "a/gone.sh"),
    ],
)
def test_a_shell_script_that_runs_an_unknown_program_is_warned_about(text: str, word: str, place: Path) -> None:
    (place / "project" / "run.sh").write_text(text)
    files, unknown = code_of(options(place, "bash", "run.sh"))
    assert (files, unknown) == (["run.sh"], f"The script names {word}, which was not found")
    known = ScriptOptions(
        ("bash", "run.sh"), str(place / "project"), metrics={"step": "s", "accuracy": "a"}, code=("run.sh",)
    )
    assert code_of(known).unknown == ""


def test_long_words_and_data_in_a_shell_script_take_no_time(place: Path) -> None:
    text = f"KEY={'a$' * 50_000}\npython train.py\n{'0' * 5_000_000}"
    (place / "project" / "run.sh").write_text(text)
    assert code_of(options(place, "bash", "run.sh")).files == ["run.sh"]
    (place / "project" / "run.sh").write_text(f"KEY={'a' * 20_000}\npython train.py\n")
    assert code_of(options(place, "bash", "run.sh")).files == ["model.py", "run.sh", "train.py"]


def test_files_that_a_shell_script_writes_are_no_code(place: Path) -> None:
    """A log that grows would stop the sweep that writes it."""
    for name in ("train.log", "out.txt", "errors", "metrics.json", "plot.py"):
        (place / "project" / name).write_text("")
    text = "python --log-dir=logs train.py --log-file metrics.json --out=plot.py > out.txt 2>> errors | tee train.log\n"
    (place / "project" / "run.sh").write_text(f"# python old.py\n{text}python train.py --model=*.py\n")
    assert code_of(options(place, "bash", "run.sh")) == (["model.py", "run.sh", "train.py"], "")


READ = {
    "dependencies": ('# /// script\n# dependencies = ["torch==2.3"]\n# ///\n', "2.3", "2.9"),
    "the interpreter": ("#!/usr/bin/env python3.11\n", "3.11", "3.12"),
    "a directive": ("# cython: boundscheck=False\n", "False", "True"),
    "a later syntax": ("x = f\"{'a' f'{\"#\"}'}\" + g(0.5)\n", "0.5", "0.05"),
}


@pytest.mark.parametrize("kind", READ)
def test_comments_that_a_program_reads_are_hashed(kind: str, place: Path) -> None:
    text, before, after = READ[kind]
    hashes = set()
    for line in (text, text.replace(before, after)):
        (place / "project" / "train.py").write_text(line)
        hashes.add(code_hash(options(place, "python", "train.py")))
    assert len(hashes) == 2


def test_a_plain_comment_is_not_hashed_and_data_are_hashed_in_pieces(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = [code_hash(options(place, "python", "train.py", "settings.yaml"))]
    with (place / "project" / "train.py").open("a") as file:
        file.write("# Why.\n\n")
    monkeypatch.setattr("trainables.script.code.PIECE_BYTES", 2)
    hashes.append(code_hash(options(place, "python", "train.py", "settings.yaml")))
    assert len(set(hashes)) == 1


def test_an_interpreter_is_not_the_code(place: Path) -> None:
    assert code_of(options(place, sys.executable, "-m", "json.tool")).unknown == "No file of the script is known"
    assert code_of(options(place, sys.executable, "-c", "import train")).unknown == "No file of the script is known"
    (place / "project" / "python3.11").symlink_to(sys.executable)
    assert code_of(options(place, "./python3.11", "-m", "json.tool")).unknown == "No file of the script is known"


def test_a_configuration_file_is_not_the_program(place: Path) -> None:
    script = options(place, "env", "PYTHONPATH=src", "python", "-m", "elsewhere", "settings.yaml")
    assert code_of(script) == (["settings.yaml"], "No file of the script is known")


def test_data_outside_the_directory_are_not_code(place: Path) -> None:
    (place / "data.txt").write_bytes(b"0" * (1 << 20) + b"0")
    (place / "data.bin").write_bytes(b"\0")
    (place / "config.toml").write_text("rate = 1\n")
    names = [str(place / name) for name in ("data.txt", "data.bin", "config.toml")]
    assert code_of(options(place, "python", "train.py", *names)).files == [names[2], "model.py", "train.py"]


def test_two_projects_with_equal_commands_have_different_keys(place: Path) -> None:
    spaces = {}
    for name in ("one", "two"):
        command = {"command": [sys.executable, "-m", "train", "{size}"], "code": None}
        spaces[name] = script_spec(place / name, f"NAME = {name!r}\n", script=command)
    hashes = {spec.script.code_hash for spec in spaces.values() if spec.script is not None}
    assert len(hashes) == 2


@pytest.mark.parametrize("name", ["train.py", "model.py", "run.sh"])
def test_code_that_cannot_be_read_is_named(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read every file, so the error of the system is raised here."""
    file = place / "project" / name
    read = Path.open

    def refuse(path: Path, *given: Any, **named: Any) -> Any:
        if path == file:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read(path, *given, **named)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SettingsError, match=f"{name} cannot be read: Permission denied"):
        code_hash(options(place, "bash", "run.sh"))


def test_a_package_with_too_many_modules_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainables.contract.user_modules.MOST_MODULES", 1)
    (place / "project" / "train.py").write_text("import package\n")
    with pytest.raises(SettingsError, match="has more than 1 modules"):
        code_of(options(place, "python", "train.py"))
    written_space(place / "space")
