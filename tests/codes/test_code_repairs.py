"""The examples of codes in whole files: what is wrong there is found, and repaired nothing is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from code_frames import outcomes
from code_frames_kernels import KERNELS
from code_frames_language import READ


@pytest.mark.parametrize("code", KERNELS)
def test_the_repair_of_an_example_is_safe(code, tmp_path):
    """Checked, or with code generated for it."""
    bad, good = outcomes(code, KERNELS[code], tmp_path)
    assert code in bad
    assert good == set()


@pytest.mark.parametrize("code", READ)
def test_the_repair_of_an_example_is_well_formed(code, tmp_path):
    bad, good = outcomes(code, replace(READ[code], checked=False), tmp_path)
    assert code in bad
    assert good == set()
