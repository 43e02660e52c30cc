"""What a search space leaves to the device is decided before anything has a key, and it is said by what."""

from __future__ import annotations

import pytest

from orchestrator.errors import UserError
from orchestrator.search.base import Request
from orchestrator.space.hardware import Hardware
from orchestrator.space.spaces import load_space, resolve_space

AUTO = ("settings.training.precision=auto",)
FAST = Hardware(16, 128, 1, "H200", gpu_bf16=True)
OLD = Hardware(16, 128, 1, "V100")
LAPTOP = Hardware(2, 16)


@pytest.mark.parametrize(
    ("profile", "hardware", "taken"),
    [("paper", FAST, "bf16"), ("paper", OLD, "float32"), ("laptop", FAST, "float32"), ("laptop", LAPTOP, "float32")],
)
def test_precision_is_bf16_where_the_sweep_trains_on_a_gpu_that_is_fast_in_it(
    profile: str, hardware: Hardware, taken: str
) -> None:
    resolved = resolve_space("add_vs_add_prod", profile, AUTO, hardware)
    assert resolved.spec.make_family().settings.training.precision == taken
    said = resolved.values.place(("settings", "training", "precision"))
    assert said.startswith("auto, for ")
    assert (hardware.gpu_name if profile == "paper" else "a CPU") in said


def test_a_run_with_auto_is_the_run_with_what_was_taken() -> None:
    def key(*overrides: str) -> str:
        spec = load_space("add_vs_add_prod", "paper", overrides, FAST)
        return spec.make_family().key(spec.config(Request(spec.baseline.name, spec.sizes[0], 0)))

    assert key(*AUTO) == key("settings.training.precision=bf16")
    assert key(*AUTO) != key() == key("settings.training.precision=float32")


def test_a_misspelt_auto_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(UserError, match="bf16"):
        load_space("add_vs_add_prod", "paper", ("settings.training.precision=automatic",), FAST)
