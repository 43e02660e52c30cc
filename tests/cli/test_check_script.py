"""``check-family`` starts a script, kills it, continues it, and says which rule it does not keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program
from tests.training_scripts import COMMAND, GOOD, with_lines, written_space

pytestmark = pytest.mark.slow


def checked(run: Program, tmp_path: Path, code: str = GOOD, **changes: Any) -> tuple[int, str]:
    changes = {"settings": {"steps": 20, "pace": 0.05}, "sizes": [6, 16, 20], **changes}
    written_space(tmp_path, code, **changes)
    result = run("check-family", "space.yaml")
    return result.code, result.out + result.err


def test_a_good_script_passes_and_its_lines_are_printed(run: Program, tmp_path: Path) -> None:
    code, out = checked(run, tmp_path)
    assert code == 0, out
    assert "ok      its metrics are found" in out
    assert 'accuracy of add: {"iter": 4,' in out
    assert "killed after step 4, continued at step 6" in out
    assert "parameters: 60 at 6, 160 at 16" in out
    assert "wrong" not in out
    assert "skipped" not in out


def test_scores_with_a_bar_are_compared_as_they_are(run: Program, tmp_path: Path) -> None:
    """No run reaches the bar, so all count as 0; their scores still show that seed and size matter."""
    metrics = {"step": "iter", "accuracy": {"add": "acc_add", "prod": "acc_prod"}}
    changes: dict[str, Any] = {"script": {"metrics": metrics}, "floor": None, "learned": {"at_least": 2.0}}
    code, out = checked(run, tmp_path, **changes)
    assert code == 0, out
    assert "ok      another seed gives other numbers" in out


@pytest.mark.parametrize(
    ("code", "changes", "message"),
    [
        (GOOD.replace("1000 * given.seed + ", ""), {}, "seeds 0 and 1 give the same numbers at step 2 and 4"),
        (
            GOOD.replace("given.size", "8").replace('"n_params"', '"n"'),
            {"script": {"parameters": None}},
            "width 6 and 16 give the same numbers at step 2 and 4: the script ignores the size",
        ),
        (
            GOOD.replace("state = json.loads(Path(given.resume).read_text())", "pass"),
            {},
            "killed after step 4, the script began again at step 2",
        ),
        (GOOD.replace('"iter"', '"it"'), {"settings": {"steps": 2}}, "Did you mean 'it'?"),
        (GOOD.replace('"last.json"', '"first.json"'), {"settings": {"steps": 8}}, "last.json was never there"),
        (GOOD.replace("10 * given.size", "10 - given.size"), {}, "the count must grow with the size"),
        (GOOD.replace('"n_params"', '"n"'), {}, "has the key 'n_params' of script.parameters"),
        (with_lines("sys.exit(3)"), {}, "ended with exit code 3"),
    ],
)
def test_each_broken_rule_is_found(
    code: str, changes: dict[str, Any], message: str, run: Program, tmp_path: Path
) -> None:
    exit_code, out = checked(run, tmp_path, code, **changes)
    assert exit_code == 1, out
    [wrong] = [line for line in out.splitlines() if message in line]
    assert out.index("wrong ") < out.index(wrong)


def test_what_does_not_apply_is_skipped(run: Program, tmp_path: Path) -> None:
    code = GOOD.replace("random.Random(1000 * given.seed + given.size)", "random.Random()")
    script = {"resume": None, "seeded": False, "parameters": None}
    exit_code, out = checked(run, tmp_path, code, script=script)
    assert exit_code == 0, out
    assert out.count("skipped") == 3
    assert "so a killed run starts again" in out


def test_settings_that_the_script_writes_itself_are_named_with_the_remedy(run: Program, tmp_path: Path) -> None:
    code = f"{GOOD}\nPath('state.json').write_text(repr(time.time()))\n".replace('"resume"):', '"resume", "state"):')
    script = {"command": [*COMMAND, "--state", "state.json"], "code": None}
    exit_code, out = checked(run, tmp_path, code, script=script, settings={"steps": 4, "pace": 0.0})
    assert exit_code == 1, out
    assert f"has other code than when the sweep began: state.json in {tmp_path} on " in out
    assert "list its own files under `script:` without it: `code: [train.py]`" in out
