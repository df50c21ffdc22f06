"""The bodies of all instructions of the catalogues stay in the shapes of their operands."""

from __future__ import annotations

import pytest

from exogpu.analysis.bounds import check_bounds
from exogpu.diagnostics.errors import one_line
from exogpu.frontend.instructions import InstructionTemplate
from exogpu.isa import cuda, sm80, sm90

# Compile-time parameters that have no default, or whose default is not the only shape of interest.
PARAMETERS: dict[str, dict[str, object]] = {
    "mask": {"mask": 16},
    "delta": {"delta": 3},
    "lane": {"lane": 31},
    "box": {"rows": 64, "cols": 32, "box": (1, 64, 32)},
    "n": {"n": 2},
}

TEMPLATES = {
    template.name: template
    for catalogue in (cuda, sm80, sm90)
    for template in vars(catalogue).values()
    if isinstance(template, InstructionTemplate)
}


def test_the_catalogues_have_instructions() -> None:
    assert len(TEMPLATES) > 20


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_an_instruction_s_body_stays_in_its_operands(name: str) -> None:
    template = TEMPLATES[name]
    constants: dict[str, object] = {}
    for parameter in template.constant_names:
        constants |= PARAMETERS.get(parameter, {})
    known = {n: v for n, v in constants.items() if n in template.constant_names}
    found = check_bounds(template.instantiate(known))
    assert not found, "\n".join(map(one_line, found))
