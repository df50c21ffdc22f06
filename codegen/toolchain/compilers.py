"""Compilation of CUDA C++, through the cache."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, assert_never

from exogpu.codegen.toolchain.find import (
    Nvcc,
    Nvrtc,
    Toolchain,
    find_nvcc,
    find_program,
    find_toolchain,
)

# Compiled texts on disk, addressed by content: a file an entry, whole or absent.
#
# The name of an entry is the digest of all that its contents depend on, so an entry never changes
# and two processes that make the same one may both write it.


def cache_folder() -> Path:
    """`exogpu` in the user's cache directory; XDG_CACHE_HOME moves it on Linux."""
    from platformdirs import user_cache_path

    return user_cache_path("exogpu") / "compiled"


def entry(folder: Path, determinants: Sequence[str]) -> Path:
    """The file of what these texts determine."""
    digest = hashlib.sha256()
    for text in determinants:
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return folder / f"{digest.hexdigest()}.zip"


def load(path: Path) -> Mapping[str, bytes] | None:
    """The parts of an entry; None where there is none, or it is damaged (by its checksums)."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (OSError, ValueError, zipfile.BadZipFile):
        return None


def store(path: Path, parts: Mapping[str, bytes]) -> None:
    """Write an entry at once, by a rename.  A folder that cannot be written is left alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, part in parts.items():
                archive.writestr(name, part)
        os.replace(scratch, path)
    except OSError:
        Path(scratch).unlink(missing_ok=True)


# Output of a compiler for a `.cu` text, and its report on each kernel.


@dataclass(frozen=True, slots=True)
class Compiled:
    """A text compiled for one architecture."""

    cubin: bytes
    ptx: str
    log: str
    """The output of the compiler and ptxas: warnings, registers, spills."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that one kernel needs, from the log of ptxas; all but `registers` in bytes a
    thread."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_HELD_UP = re.compile(r"\((C75\d\d)\) (?!\S+arrive is injected)(.*?) in (?:the )?function '(\w+)'")
"""The message about products that run on, but that one more may begin; older ones say
`warpgroup`."""


def usage(log: str) -> Mapping[str, Usage]:
    """The needs of each kernel that ptxas compiled."""
    found = {}
    for part in re.split(r"(?=Compiling entry function)", log)[1:]:
        name, frame, registers = (p.search(part) for p in (_ENTRY, _FRAME, _REGISTERS))
        if name and frame and registers:
            found[name[1]] = Usage(int(registers[1]), *map(int, frame.groups()))
    return found


def held_up(log: str) -> Mapping[str, tuple[str, ...]]:
    """By kernel, where ptxas makes wgmma wait, and why, in its words."""
    found: dict[str, dict[str, None]] = {}
    for number, why, name in _HELD_UP.findall(log):
        found.setdefault(name, {})[f"{why} ({number})"] = None
    return {name: tuple(reasons) for name, reasons in found.items()}


# Errors between CUDA C++ and a cubin.

INSTALL: Final = "pip install 'exogpu[cuda]'"
"""The command that installs every tool of this package."""

REINSTALL: Final = "pip install --force-reinstall 'exogpu[cuda]'"
"""For a tool that is there and does not work."""


class CompileError(Exception):
    """A tool is missing, or refused emitted code; the message has the tool's own text."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem} ({remedy})")


# Compilation by nvcc and ptxas, in processes of their own.


def compile_with_nvcc(nvcc: Nvcc, source: str, arch: str, flags: Sequence[str]) -> Compiled:
    """PTX by nvcc, a cubin from it by ptxas.  Raises CompileError with what they printed."""
    virtual = arch.replace("sm_", "compute_")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "kernel.cu").write_text(source)
        to_ptx = ["-ptx", f"-arch={virtual}", *flags, "-o", "kernel.ptx", "kernel.cu"]
        log = run_tool(nvcc.nvcc, to_ptx, folder)
        to_cubin = ["-v", f"-arch={arch}", "-lineinfo", "-o", "kernel.cubin", "kernel.ptx"]
        log += run_tool(nvcc.ptxas, to_cubin, folder)
        return Compiled(
            (folder / "kernel.cubin").read_bytes(), (folder / "kernel.ptx").read_text(), log
        )


def run_tool(program: Path, arguments: Sequence[str], folder: Path) -> str:
    """Runs a program and returns its output. It runs in the folder, so that no output has the
    folder's name."""
    try:
        done = subprocess.run(
            [program, *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise CompileError(f"{program} cannot be run: {error.strerror}", REINSTALL) from error
    output = done.stdout + done.stderr
    if done.returncode != 0:
        what = output.strip() or f"{program} stopped with status {done.returncode}"
        raise CompileError(what, REINSTALL)
    return output


# Compilation by NVRTC, in this process.


def compile_with_nvrtc(nvrtc: Nvrtc, source: str, arch: str, flags: Sequence[str]) -> Compiled:
    """PTX and cubin by one compilation.  Raises CompileError with NVRTC's log."""
    library = ctypes.CDLL(str(nvrtc.library))
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    try:
        options = [f"--gpu-architecture={arch}", "--ptxas-options=-v", *flags]
        texts = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        status = library.nvrtcCompileProgram(program, len(options), texts)
        log = _text(library, program, "ProgramLog")
        if status:
            raise CompileError(log.strip() or f"NVRTC stopped with status {status}", REINSTALL)
        cubin = _output(library, program, "CUBIN")
        return Compiled(cubin, _text(library, program, "PTX"), log)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    return _output(library, program, what).rstrip(b"\0").decode(errors="replace")


def _output(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    library[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    if library[f"nvrtcGet{what}"](program, buffer):
        raise CompileError(f"NVRTC made no {what}", REINSTALL)
    return buffer.raw


FLAGS: Final = ("-std=c++17", "-fmad=false", "-lineinfo", "-diag-suppress=177")
"""Every product is rounded before it is added to, as the language says; line numbers for profilers;
177 is "declared but never referenced"."""


def compile_cubin(
    source: str, arch: str, toolchain: Toolchain | None = None, folder: Path | None = None
) -> Compiled:
    """The PTX and the cubin of a `.cu` text, from the cache if it was compiled before.

    Without a toolchain, by the one that is found; without a folder, in the user's cache.  Raises
    CompileError with the compiler's text, or with the command that installs a compiler.
    """
    found = toolchain or find_toolchain()
    if found is None:
        raise CompileError("there is neither NVRTC nor nvcc on this machine", INSTALL)
    path = entry(folder or cache_folder(), (found.version, found.build, arch, *FLAGS, source))
    parts = load(path)
    if parts is not None:
        return Compiled(parts["cubin"], parts["ptx"].decode(), parts["log"].decode())
    try:
        compiled = _compile(found, source, arch)
    except CompileError as error:
        what = f"{found.version} refused code for {arch}:\n{error.problem}"
        raise CompileError(what, "choose an architecture that has what it asks for") from None
    texts = {"ptx": compiled.ptx.encode(), "log": compiled.log.encode()}
    store(path, {"cubin": compiled.cubin, **texts})
    return compiled


def _compile(toolchain: Toolchain, source: str, arch: str) -> Compiled:
    match toolchain:
        case Nvrtc():
            return compile_with_nvrtc(toolchain, source, arch, FLAGS)
        case Nvcc():
            return compile_with_nvcc(toolchain, source, arch, FLAGS)
        case _:
            assert_never(toolchain)


# The machine code of a cubin as text.


def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin, by nvdisasm, or by cuobjdump where only that is found.

    Raises CompileError where neither is.
    """
    nvdisasm, cuobjdump = find_program("nvdisasm"), find_program("cuobjdump")
    if nvdisasm is not None:
        command = [str(nvdisasm), "--print-code"]
    elif cuobjdump is not None:
        command = [str(cuobjdump), "-sass"]
    else:
        raise CompileError("there is neither nvdisasm nor cuobjdump on this machine", INSTALL)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "kernel.cubin")
        path.write_bytes(cubin)
        done = subprocess.run([*command, path], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"{command[0]}: {done.stderr.strip()}", REINSTALL)
    return done.stdout


# Shared objects of a procedure's C function, by nvcc and the host compiler that it calls.

LIBRARY_FLAGS: Final = (*FLAGS, "-shared", "-Xcompiler", "-fPIC,-ffp-contract=off")
"""The CUDA runtime is linked statically, by nvcc's default; the driver is not linked."""

INSTALL_HOST: Final = "install g++ (apt install g++), or name a host compiler in NVCC_CCBIN"


def compile_shared(
    main: str, texts: Mapping[str, str], arch: str, folder: Path | None = None
) -> bytes:
    """The shared object of the text `main`, which includes the others by their names.

    It comes from the cache if it was compiled before.  Raises CompileError where there is no nvcc
    (NVRTC alone does not do) or no host compiler, and with their text where they refuse.
    """
    nvcc = find_nvcc()
    if nvcc is None:
        what = "a shared object needs nvcc, and there is none on this machine"
        raise CompileError(what, INSTALL)
    named = (part for item in texts.items() for part in item)
    made_by = (nvcc.build, _host_compiler(), arch, *LIBRARY_FLAGS)
    path = entry(folder or cache_folder(), ("shared object", *made_by, main, *named))
    parts = load(path)
    if parts is None:
        parts = {"so": _compile_shared_object(nvcc.nvcc, main, texts, arch)}
        store(path, parts)
    return parts["so"]


def _host_compiler() -> str:
    """Returns the identity of the host compiler. Raises CompileError where there is none."""
    if chosen := os.environ.get("NVCC_CCBIN"):
        return chosen
    found = shutil.which("gcc")
    if found is None:
        what = "a shared object needs a host C++ compiler, and there is none on this machine"
        raise CompileError(what, INSTALL_HOST)
    done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return done.stdout


def _compile_shared_object(nvcc: Path, main: str, texts: Mapping[str, str], arch: str) -> bytes:
    target = f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, text in texts.items():
            (folder / name).write_text(text)
        try:
            run_tool(nvcc, [*LIBRARY_FLAGS, target, "-o", "library.so", main], folder)
        except CompileError as error:
            what = f"nvcc made no shared object for {arch}:\n{error.problem}"
            raise CompileError(
                what, f"choose an architecture that it knows, or {INSTALL_HOST}"
            ) from None
        return (folder / "library.so").read_bytes()
