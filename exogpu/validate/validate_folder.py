"""Validates what `exogpu compile --ptx` has written: the PTX against the certificate's program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from time import process_time
from typing import Any, Final

from exogpu.amir import nodes as amir
from exogpu.solvers.smt import z3_version
from exogpu.symbolic.certificate import strict_json
from exogpu.symbolic.certificate.program_reader import program_of
from exogpu.symbolic.certificate.program_schema import check_program
from exogpu.validate.kernel_launch import start
from exogpu.validate.loops import Exploration
from exogpu.validate.product import Product
from exogpu.validate.ptx_reader import read_ptx
from exogpu.validate.refusals import NotValidatedError, Refusal, refusal_of

TRUSTED: Final = (
    "ptxas, the driver and the hardware: that machine code does what the PTX says",
    "the reader of PTX, its table of instructions, and Z3",
    "the host's checks of sizes, and that arrays do not overlap",
    "the certificate's proof of the program, which `exogpu recheck` answers again",
)
"""By every validation."""

NOT_COMPARED: Final = ("values: what stores write and branches read of memory",)


@dataclass(frozen=True, slots=True)
class Validation:
    """The result for one kernel."""

    procedure: str
    kernel: str
    refusal: Refusal | None
    """None where the PTX is the program."""
    paths: int = 0
    events: int = 0
    questions: int = 0
    seconds: float = 0.0

    @property
    def is_valid(self) -> bool:
        """Tests whether the kernel is validated."""
        return self.refusal is None


def manifests_in(folder: Path) -> dict[Path, dict[str, Any]]:
    """The manifests of a folder, in the order of their names."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            manifest = _object(path)
        except NotValidatedError:
            continue
        if {"name", "arch", "steps", "checked", "parameters"} <= manifest.keys():
            found[path] = manifest
    return found


def recorded(one: Validation) -> dict[str, Any]:
    """A result as a manifest has it: validated or not, why, and by what versions."""
    found: dict[str, Any] = {"kernel": one.kernel, "validated": one.is_valid}
    if one.refusal is not None:
        found |= {
            "why": one.refusal.problem,
            "instruction": " ".join(one.refusal.instruction.split()),
            "ptx_line": one.refusal.ptx_line,
            "source": one.refusal.source,
            "example": dict(one.refusal.model),
        }
    return {**found, "by": list(versions())}


def validate_manifest(path: Path, manifest: Mapping[str, Any]) -> Iterator[Validation]:
    """A result for each kernel of a procedure."""
    name = str(manifest["name"])
    launches = [step for step in manifest["steps"] if step["op"] == "launch"]
    kernels = [str(step["kernel"]) for step in launches] or [name]
    try:
        program = _certified_program(path.with_suffix(".certificate"), manifest)
        entries = read_ptx(_text(path.with_suffix(".ptx")))
        bodies = kernel_bodies(program)
        if len(bodies) != len(launches):
            raise refusal_of("the program has other kernels than the manifest")
        if entries.keys() != set(kernels):
            raise refusal_of("the file of PTX has other kernels than the manifest")
    except NotValidatedError as error:
        yield from (Validation(name, kernel, error.refusal) for kernel in kernels)
        return
    for step, body in zip(launches, bodies, strict=True):
        began = process_time()
        kernel, refusal, exploration = str(step["kernel"]), None, None
        try:
            started = start(program, body, step, manifest["parameters"], entries[step["kernel"]])
            exploration = Exploration(Product(started.kernel))
            exploration.run(started.state)
        except NotValidatedError as error:
            refusal = error.refusal
        seconds = process_time() - began
        if exploration is None:
            yield Validation(name, kernel, refusal, seconds=seconds)
        else:
            product = exploration.product
            asked = product.prover.asked
            yield Validation(
                name, kernel, refusal, exploration.paths, product.events, asked, seconds
            )


def kernel_bodies(program: amir.Program) -> list[amir.Block]:
    """The operations of each kernel: those between two Fences of the host, if any are of threads.

    Raises NotValidatedError where kernels are launched in loops of the host.
    """
    found: list[amir.Block] = []
    current: list[amir.Op] = []
    inside = False
    for op in program.body:
        if isinstance(op, amir.Fence) and op.origin.threads is None:
            if inside and any(isinstance(one, amir.Loop) for one in current):
                found.append(tuple(current))
                inside, current = False, []
            else:
                inside, current = True, []
        elif inside:
            current.append(op)
        elif isinstance(op, amir.Loop | amir.Guard):
            raise refusal_of("control flow of the host is not validated yet")
    return found


def _certified_program(folder: Path, manifest: Mapping[str, Any]) -> amir.Program:
    """The program of the certificate that the manifest names."""
    if not folder.is_dir():
        raise refusal_of(
            "there is no certificate: compile the procedure without --unchecked and --at"
        )
    certificate = _object(folder / strict_json.CERTIFICATE)
    digest = certificate.get(strict_json.DIGEST)
    if strict_json.sealed(certificate).get(strict_json.DIGEST) != digest:
        raise refusal_of("the certificate has another digest than it says")
    if manifest["checked"].get("certificate") != digest:
        raise refusal_of("the manifest names another certificate")
    data = _bytes(folder / strict_json.PROGRAM)
    described = certificate.get("program")
    if not isinstance(described, dict) or described.get("sha256") != strict_json.sha256(data):
        raise refusal_of("the certificate is of another program")
    try:
        return program_of(check_program(strict_json.json_value(data)))
    except strict_json.MalformedError as error:
        raise refusal_of(f"the certificate's program: {error}") from None


def _object(path: Path) -> dict[str, Any]:
    try:
        value = strict_json.json_value(_bytes(path))
    except strict_json.MalformedError as error:
        raise refusal_of(f"{path.name}: {error}") from None
    if not isinstance(value, dict):
        raise refusal_of(f"{path.name} is no object")
    return value


def _bytes(path: Path) -> bytes:
    try:
        return strict_json.file_bytes(path)
    except strict_json.MalformedError as error:
        raise refusal_of(f"{path.name}: {error}") from None


def _text(path: Path) -> str:
    try:
        return _bytes(path).decode()
    except UnicodeDecodeError:
        raise refusal_of(f"{path.name}: it is no UTF-8") from None


def versions() -> tuple[str, ...]:
    """The versions that a validation rests on."""
    return (f"exogpu {metadata.version('exogpu')}", f"z3 {z3_version()}")
