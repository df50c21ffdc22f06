"""Device memory that a procedure has for itself, while one call of it is on the stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Final

from exogpu.codegen.runtime.driver import allocate_on, free_on, zero
from exogpu.codegen.runtime.streams import pointer

_ONE_AT_A_TIME: Final = Lock()
"""Calls of several threads share the arguments of kernels, and each has an address of its own."""


@dataclass(frozen=True, slots=True)
class Place:
    """An argument of kernels: while they are enqueued, the address of the memory."""

    address: ctypes.c_void_p
    bytes: int
    device: int
    zeroed: bool = False


def enqueued(
    actions: tuple[Callable[[], None], ...], places: Iterable[Place], stream: int
) -> Callable[[], None]:
    """Enqueues the actions between the allocation of the places and their end, on the stream: its
    order keeps what comes later, another call too, from memory that is still in use."""
    kept = tuple(places)

    def enqueue() -> None:
        where = pointer(stream)
        with _ONE_AT_A_TIME:
            try:
                for place in kept:
                    place.address.value = allocate_on(where, place.device, place.bytes)
                    if place.zeroed:
                        zero(where, place.address.value, place.bytes)
                for act in actions:
                    act()
            finally:
                for place in kept:
                    if place.address.value:
                        free_on(where, place.address.value)
                    place.address.value = None

    return enqueue
