"""Arguments of kernels on the command line."""

from __future__ import annotations

import pytest

from exogpu.importing.kernel_arguments import TensorArgument, parse_call
from exogpu.importing.refusals import RefusedError


def test_arguments_are_tensors_descriptors_and_expressions():
    call = parse_call("fp16[64, 32], bf16[8]:desc(4), 2 * 3, BLOCK=128, F=max")
    assert call.places == (
        TensorArgument("fp16", (64, 32)),
        TensorArgument("bf16", (8,), (4,)),
        "2 * 3",
    )
    values, names = call.values({"max": 7}, lambda one: one.shape)
    assert values == [(64, 32), (8,), 6] and names == {"BLOCK": 128, "F": 7}


def test_no_arguments_are_none():
    assert parse_call("  ").places == ()


@pytest.mark.parametrize("text", ["A=1, A=2", "A=1, 2", "fp16[4, 4]:desc(4)", "(1, 2", "[1, 2)]]"])
def test_what_is_no_argument_is_refused(text):
    with pytest.raises(RefusedError) as error:
        parse_call(text)
    assert error.value.diagnostic.code == "K109"


def test_an_expression_that_has_no_value_is_refused():
    with pytest.raises(RefusedError) as error:
        parse_call("missing").values({}, lambda one: one)
    assert error.value.diagnostic.code == "K109"
