"""Kernels around slots and resident memory as somebody would write them by mistake, or rightly.

Each is two or three warps of 32 threads and a few lines in the places of one template.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

TEMPLATE: Final = """
from __future__ import annotations
from exogpu import *


@proc
def nasty(
    M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear,
    z: f32[M, 32] @ CudaGmemLinear
):
    with CudaDeviceFunction(blockDim=96):
        tile: f32[RING, 32] @ CudaSmemLinear
        more: f32[OTHER, 32] @ CudaSmemLinear
        kept: f32[32] @ CudaSmemLinear
        full: barrier @ CudaMbarrier
        empty: barrier(full) @ CudaMbarrier
        full2: barrier @ CudaMbarrier
        empty2: barrier(full2) @ CudaMbarrier
        for m in cuda_tasks(0, M):
            BEFORE
            for k in seq(0, STEPS):
                with CudaWarps(0, 1):
                    PRODUCER
                with CudaWarps(1, 2):
                    CONSUMER
                LAST
            AFTER
"""

THREADS: Final = "for t in cuda_threads(0, 32, unit=cuda_thread):"
PRODUCER: Final = f"""\
Await(empty, cuda_in_order, ~2)
{THREADS}
    tile[slot(full), t] = x[m, k, t]
Arrive(cuda_in_order) >> full"""
CONSUMER: Final = f"""\
Await(full, cuda_in_order, ~0)
{THREADS}
    y[m, k, t] = tile[slot(empty), 31 - t]
Arrive(cuda_in_order) >> empty"""
RELAY: Final = f"""\
Await(full, cuda_in_order, ~0)
Await(empty2, cuda_in_order, ~3)
{THREADS}
    more[slot(full2), t] = tile[slot(empty), 31 - t]
Arrive(cuda_in_order) >> empty
Arrive(cuda_in_order) >> full2"""
LAST: Final = f"""\
with CudaWarps(2, 3):
    Await(full2, cuda_in_order, ~0)
    {THREADS}
        y[m, k, t] = more[slot(empty2), t]
    Arrive(cuda_in_order) >> empty2"""
NOTHING: Final = "pass"


@dataclass(frozen=True, slots=True)
class Nasty:
    """A kernel, and whether it is right: None where what is executed depends on the task, or the
    code that it is refused for."""

    right: bool | str | None
    places: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """The module."""
        relayed = "RELAY" in self.places
        given = {"CONSUMER": RELAY, "LAST": LAST} if relayed else {}
        plain = {
            **{"RING": "2", "OTHER": "3", "STEPS": "K", "BEFORE": "", "AFTER": "", "LAST": ""},
            **{"PRODUCER": PRODUCER, "CONSUMER": CONSUMER},
        }
        places = {**plain, **given, **{k: v for k, v in self.places.items() if k != "RELAY"}}
        lines: list[str] = []
        for line in TEMPLATE.splitlines():
            word = line.strip()
            if word in ("BEFORE", "PRODUCER", "CONSUMER", "LAST", "AFTER"):
                indent = line[: len(line) - len(word)]
                lines += [indent + one for one in places[word].splitlines()]
                continue
            for name in ("RING", "OTHER", "STEPS"):
                line = line.replace(name, places[name])
            lines.append(line)
        used = "\n".join(lines)
        if "full2" not in "".join((places["CONSUMER"], places["LAST"], places["PRODUCER"])):
            used = "\n".join(one for one in lines if "full2" not in one and "more:" not in one)
        if "kept[" not in used:
            used = "\n".join(one for one in used.splitlines() if "kept:" not in one)
        return used + "\n"


def _p(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


EARLY = ("~2", "~3")
KEEP = f"""\
with CudaWarps(1, 2):
    {THREADS}
        kept[t] = 0.0"""
SAY = f"""\
with CudaWarps(1, 2):
    {THREADS}
        z[m, t] = kept[t]"""
ADD = f"""\
{THREADS}
    kept[t] += tile[slot(empty), t]"""

KERNELS: dict[str, Nasty] = {
    # --- slots --------------------------------------------------------------------------------
    "as it should be": Nasty(True),
    "one ring early": Nasty(False, {"PRODUCER": _p(PRODUCER, EARLY)}),
    "a ring of three": Nasty(True, {"RING": "3", "PRODUCER": _p(PRODUCER, EARLY)}),
    "a ring of one": Nasty(True, {"RING": "1", "PRODUCER": _p(PRODUCER, ("~2", "~1"))}),
    "filled where the consumer counts, in program order the same": Nasty(
        True, {"PRODUCER": _p(PRODUCER, ("slot(full)", "slot(empty)"))}
    ),
    "read where the producer counts": Nasty(
        False, {"CONSUMER": _p(CONSUMER, ("slot(empty)", "slot(full)"))}
    ),
    "both count the other": Nasty(
        False,
        {
            "PRODUCER": _p(PRODUCER, ("slot(full)", "slot(empty)")),
            "CONSUMER": _p(CONSUMER, ("slot(empty)", "slot(full)")),
        },
    ),
    "filled after the Arrive": Nasty(
        False,
        {
            "PRODUCER": f"""\
Await(empty, cuda_in_order, ~2)
Arrive(cuda_in_order) >> full
{THREADS}
    tile[slot(full), t] = x[m, k, t]"""
        },
    ),
    "read after the Arrive": Nasty(
        False,
        {
            "CONSUMER": f"""\
Await(full, cuda_in_order, ~0)
Arrive(cuda_in_order) >> empty
{THREADS}
    y[m, k, t] = tile[slot(empty), 31 - t]"""
        },
    ),
    "two Arrives a step": Nasty(
        False,
        {"PRODUCER": PRODUCER + "\nArrive(cuda_in_order) >> full"},
    ),
    "two of everything a step": Nasty(
        True,
        {"PRODUCER": f"{PRODUCER}\n{PRODUCER}", "CONSUMER": f"{CONSUMER}\n{CONSUMER}"},
    ),
    "filled once, read twice": Nasty(False, {"CONSUMER": f"{CONSUMER}\n{CONSUMER}"}),
    "the consumer lags a step": Nasty(
        False, {"CONSUMER": _p(CONSUMER, ("full, cuda_in_order, ~0", "full, cuda_in_order, ~1"))}
    ),
    "the producer waits a step more than it must": Nasty(
        True, {"PRODUCER": _p(PRODUCER, ("~2", "~1"))}
    ),
    "the producer begins anew in each task": Nasty(
        "D529", {"PRODUCER": _p(PRODUCER, ("slot(full)", "k % 2"))}
    ),
    "both begin anew in each task": Nasty(
        False,
        {
            "PRODUCER": _p(PRODUCER, ("slot(full)", "k % 2")),
            "CONSUMER": _p(CONSUMER, ("slot(empty)", "k % 2")),
        },
    ),
    "both begin anew, of whole rings": Nasty(
        True,
        {
            "STEPS": "2 * (K / 2)",
            "PRODUCER": _p(PRODUCER, ("slot(full)", "k % 2")),
            "CONSUMER": _p(CONSUMER, ("slot(empty)", "k % 2")),
        },
    ),
    # --- two rings ----------------------------------------------------------------------------
    "a relay": Nasty(True, {"RELAY": ""}),
    "a relay with a ring that is too short": Nasty(False, {"RELAY": "", "OTHER": "2"}),
    "a relay that fills by the other barrier": Nasty(
        False, {"RELAY": "", "CONSUMER": _p(RELAY, ("slot(full2)", "slot(full)"))}
    ),
    "a relay that reads by its own filling": Nasty(
        True, {"RELAY": "", "CONSUMER": _p(RELAY, ("slot(empty)", "slot(full2)"))}
    ),
    "the last reads by the first ring": Nasty(
        False, {"RELAY": "", "LAST": _p(LAST, ("slot(empty2)", "slot(empty)"))}
    ),
    "a relay that empties before it reads": Nasty(
        False,
        {
            "RELAY": "",
            "CONSUMER": f"""\
Await(full, cuda_in_order, ~0)
Arrive(cuda_in_order) >> empty
Await(empty2, cuda_in_order, ~3)
{THREADS}
    more[slot(full2), t] = tile[slot(full2), 31 - t]
Arrive(cuda_in_order) >> full2""",
        },
    ),
    "a relay that does not wait for the last": Nasty(
        False, {"RELAY": "", "CONSUMER": _p(RELAY, ("Await(empty2, cuda_in_order, ~3)\n", ""))}
    ),
    # --- tasks ---------------------------------------------------------------------------------
    "tasks of one step": Nasty(True, {"STEPS": "1"}),
    "tasks of no step": Nasty(True, {"STEPS": "0"}),
    "tasks of one step, one ring early": Nasty(
        False, {"STEPS": "1", "PRODUCER": _p(PRODUCER, EARLY)}
    ),
    "roles that differ in their steps": Nasty(
        False,
        {"CONSUMER": "if k > 0:\n    " + CONSUMER.replace("\n", "\n    ")},
    ),
    "an Arrive by the first task alone": Nasty(
        None,
        {"PRODUCER": _p(PRODUCER, ("Arrive(", "if m == 0:\n    Arrive("))},
    ),
    "the first step of all tasks left out": Nasty(
        True,
        {
            "PRODUCER": "if k > 0:\n    " + PRODUCER.replace("\n", "\n    "),
            "CONSUMER": "if k > 0:\n    " + CONSUMER.replace("\n", "\n    "),
        },
    ),
    "a first task that is left out": Nasty(
        None,
        {
            "PRODUCER": "if m > 0:\n    " + PRODUCER.replace("\n", "\n    "),
            "CONSUMER": "if m > 0:\n    " + CONSUMER.replace("\n", "\n    "),
        },
    ),
    "a sum that each task begins": Nasty(
        True, {"BEFORE": KEEP, "CONSUMER": _p(CONSUMER, ("Arrive", f"{ADD}\nArrive")), "AFTER": SAY}
    ),
    "a sum that goes on": Nasty(
        False, {"CONSUMER": _p(CONSUMER, ("Arrive", f"{ADD}\nArrive")), "AFTER": SAY}
    ),
    "a sum that the first step begins": Nasty(
        True,
        {
            "CONSUMER": f"if k == 0:\n    {THREADS}\n        kept[t] = 0.0\n"
            + _p(CONSUMER, ("Arrive", f"{ADD}\nArrive")),
        },
    ),
    "a sum that the first step begins, stored at the end": Nasty(
        True,
        {
            "CONSUMER": f"if k == 0:\n    {THREADS}\n        kept[t] = 0.0\n"
            + _p(CONSUMER, ("Arrive", f"{ADD}\nArrive")),
            "AFTER": SAY,
        },
    ),
    "a sum read by another warp": Nasty(
        False,
        {"BEFORE": KEEP, "AFTER": SAY.replace("CudaWarps(1, 2)", "CudaWarps(0, 1)")},
    ),
    "the last slot of the task before": Nasty(
        False,
        {"BEFORE": f"with CudaWarps(1, 2):\n    {THREADS}\n        z[m, t] = tile[slot(empty), t]"},
    ),
    "a slot read once more at the end": Nasty(
        False,
        {"AFTER": f"with CudaWarps(1, 2):\n    {THREADS}\n        z[m, t] = tile[slot(empty), t]"},
    ),
}
