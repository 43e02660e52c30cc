"""Every mended defect of the GPU path, put back, is found by its test: in the emulation, or on any machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulation.defects import EMULATED, PLAIN, Defect, fails


@pytest.mark.emulated
@pytest.mark.timeout(900)
@pytest.mark.parametrize("defect", EMULATED, ids=lambda defect: defect.name)
def test_a_defect_that_a_device_shows_is_found_again(defect: Defect, tmp_path: Path) -> None:
    print(f"{defect.name}: {fails(defect, tmp_path)}")


@pytest.mark.night
@pytest.mark.timeout(900)
@pytest.mark.parametrize("defect", PLAIN, ids=lambda defect: defect.name)
def test_a_defect_that_every_machine_shows_is_found_again(defect: Defect, tmp_path: Path) -> None:
    print(f"{defect.name}: {fails(defect, tmp_path)}")
