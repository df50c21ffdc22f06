"""Proofs as tests: a kernel that is not proved fails with what the terminal prints.

@pytest.mark.exogpu
def test_gemm():
    return gemm                      # or @pytest.mark.exogpu(at={"M": 512}, policy="paper")

def test_all(exogpu_proved):
    for kernel in kernels:
        exogpu_proved(kernel, timeout=60)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from exogpu.diagnostics.verdict import Verdict
    from exogpu.imported import Seen


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark."""
    config.addinivalue_line(
        "markers",
        "exogpu(at=None, policy='ptx', timeout=None, memory=None): the test returns a kernel, or "
        "several, which must be proved, or safe at the sizes given",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a marked test, and checks what it returns."""
    mark = pyfuncitem.get_closest_marker("exogpu")
    if mark is None:
        return None
    names = pyfuncitem._fixtureinfo.argnames
    returned = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    kernels = returned if isinstance(returned, list | tuple) else (returned,)
    if not kernels:
        pytest.fail(f"{pyfuncitem.name} returns no kernel", pytrace=False)
    _all(kernels, mark.kwargs)
    return True


def _all(kernels: Iterable[object], options: Mapping[str, Any]) -> None:
    """Checks all, and fails with all that fail."""
    wrong = []
    for kernel in kernels:
        try:
            proved(kernel, **options)
        except pytest.fail.Exception as failure:
            wrong.append(str(failure.msg))
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.fixture
def exogpu_triton() -> Iterator[Seen]:
    """The kernels of Triton that a test compiles; it fails where one of them is refuted."""
    from exogpu.imported import watch_triton

    with watch_triton() as seen:
        yield seen
    wrong = [str(verdict) for verdict in seen.check() if verdict.word == "refuted"]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.fixture
def exogpu_proved() -> Callable[..., Verdict]:
    """A function that fails the test where a kernel is not proved: `exogpu_proved(kernel)`."""
    return proved


def proved(
    kernel: object,
    *,
    at: Mapping[str, int] | None = None,
    policy: str = "ptx",
    timeout: float | None = None,
    memory: float | None = None,
) -> Verdict:
    """The verdict of a kernel that is proved for all sizes, or safe at those given; else the test
    fails with what the terminal prints."""
    from exogpu.api import Procedure  # the solvers are loaded by tests that need them
    from exogpu.diagnostics.errors import ExoGpuError

    if not isinstance(kernel, Procedure):
        pytest.fail(f"{kernel!r} is no kernel: give what @proc makes", pytrace=False)
    try:
        if at is None:
            verdict = kernel.check(policy=policy, timeout=timeout, memory=memory)
        else:
            sizes: dict[str, Any] = dict(at)
            verdict = kernel.check_at(policy=policy, timeout=timeout, memory=memory, **sizes)
    except ExoGpuError as error:
        pytest.fail(str(error), pytrace=False)
    if not verdict:
        pytest.fail(str(verdict), pytrace=False)
    return verdict
