"""Trains runs of an answer file again. Someone else may have written the file, so its own commands are never run."""

from __future__ import annotations

from orchestrator.catalog.answer_file import FileRun
from orchestrator.catalog.verified_answer import outcome_differences
from orchestrator.home.trusted_code import digest_of_script
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import UserError


def with_own_script(spec: SweepSpec, space: str | None) -> SweepSpec:
    """If the answer's runs come from a script, replace the script in its specification with the script from the user's
    search space.

    Raises:
        UserError: If the script, its code, its settings or its mixes differ.
    """
    if spec.script is None:
        return spec
    if space is None:
        raise UserError("a command in the file is never run: pass your own search space with this script, --space FILE")
    own = load_space(space)
    if own.script is None:
        raise UserError(f"{space} has no script:, but the file's runs come from a script")
    changed = spec.model_copy(update={"script": own.script})
    same_commands = digest_of_script(changed.to_dict()) == digest_of_script(own.to_dict())
    if not same_commands or own.script.identity() != spec.script.identity():
        raise UserError(f"the script, its code, settings or mixes in {space} differ from the file")
    return changed


def retrained_differences(run: FileRun, spec: SweepSpec) -> list[str]:
    """Train a run again, and return how its outcome differs. An exception that its family raises is a difference.

    Raises:
        UserError: If this machine cannot train the run, for example because it has no GPU.
    """
    from orchestrator.engine.retraining import retrain  # Torch takes a second to import.

    try:
        return outcome_differences(run, retrain(spec.make_family(), spec.config(run.request), spec.resources))
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - only a family's code runs here, and it may raise anything
        return [f"training raised {type(error).__name__}: {error}"]
