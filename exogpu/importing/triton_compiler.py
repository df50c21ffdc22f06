"""Compiles a kernel of Triton or Gluon up to TTGIR with its barriers, without a GPU.

The pipeline is Triton's own, up to and including the pass that places barriers; only the step from
structured loops to branches is left out, so that loops stay loops.  The same source is compiled to
PTX, which shows what lowering made of it.
"""

from __future__ import annotations
import __future__

import ast
import importlib.metadata
import importlib.util
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from exogpu.diagnostics.errors import NOWHERE, Diagnostic, Span
from exogpu.importing.kernel_arguments import Call, Standing, tensor_of
from exogpu.importing.refusals import RefusedError
from exogpu.solvers.processes import Limits, Stopped, Tell, isolated

SHARED_MEMORY: Final = 232_448
MULTIPROCESSORS: Final = 132
"""The multiprocessors of an H100, for kernels that ask."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel as Triton compiled it: TTGIR, PTX, and the compiler's version."""

    name: str
    ttgir: str
    ptx: str
    version: str


@dataclass(frozen=True, slots=True)
class Computed:
    """An argument that `@triton.heuristics` computes from the others."""

    function: Callable[[Mapping[str, Any]], Any]


def triton_version() -> str | None:
    """The version of the installed Triton; None where there is none."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return None


def required_triton() -> str:
    """The version of Triton.  Raises RefusedError (K106) where it is not installed."""
    version = triton_version()
    if version is None:
        raise RefusedError(
            "K106",
            "a kernel of Triton is compiled by Triton, which is not installed",
            "pip install 'exogpu[triton]', or give the .ttgir file",
        )
    return version


def compile_all(
    path: Path,
    name: str,
    call: Call,
    options: Mapping[str, Any],
    arch: int,
    *,
    plain: bool = False,
    barriers: bool = True,
) -> list[tuple[str, Compiled | Diagnostic]]:
    """A kernel of a file, or all configurations of one that is tuned, or why it is not compiled.

    With `plain`, configurations are left out.  Without `barriers`, the TTGIR is as Triton's cache
    keeps it: a Triton before 3.9 gives no other.
    It is compiled in a process of its own, which a file's stand-ins and prints do not leave.
    """

    def work(tell: Tell) -> list[tuple[str, Compiled | Diagnostic]]:
        with redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(_compiled_each(path, name, call, options, arch, plain, barriers))

    found = isolated(work, Limits(), doing=f"compiling {name}")
    if isinstance(found, Stopped):
        reason = Diagnostic(
            "K108", f"Triton does not compile {name}: {found}", NOWHERE, "try again"
        )
        return [(name, reason)]
    return found


def _compiled_each(
    path: Path,
    name: str,
    call: Call,
    options: Mapping[str, Any],
    arch: int,
    plain: bool,
    barriers: bool,
) -> Iterator[tuple[str, Compiled | Diagnostic]]:
    try:
        required_triton()
        kernels = list(_kernels(path, name, plain))
    except RefusedError as error:
        yield name or path.stem, error.diagnostic
        return
    for shown, function, configuration in kernels:
        try:
            given = {**configuration, **options}
            yield shown, compiled(function, call, given, arch, barriers=barriers)
        except RefusedError as error:
            yield shown, error.diagnostic


def _kernels(path: Path, name: str, plain: bool) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """The kernel of a file, or each configuration of one that is tuned: name, function, options.

    Raises RefusedError (K107) where the file has no kernel of that name.
    """
    found = getattr(_module(path, name), name, None)
    configurations: Sequence[Any] = ()
    computed: dict[str, Any] = {}
    while found is not None and not hasattr(found, "params") and hasattr(found, "fn"):
        configurations = configurations or getattr(found, "configs", ())
        values = getattr(found, "values", None)  # of @triton.heuristics
        computed |= {key: Computed(one) for key, one in values.items()} if values else {}
        found = found.fn
    if found is None or not hasattr(found, "params"):
        raise RefusedError(
            "K107",
            f"{path} has no kernel {name} of Triton or Gluon",
            "name a function with @triton.jit or @gluon.jit",
            Span(str(path), 1, 1, 1, 1),
        )
    if plain or not configurations:
        yield name, found, computed
        return
    for one in configurations:
        given = dict(one.kwargs) | {"num_warps": one.num_warps, "num_stages": one.num_stages}
        shown = ", ".join(f"{key}={value}" for key, value in given.items())
        yield f"{name}[{shown}]", found, {**computed, **given}


def compiled(
    function: Any, call: Call, options: Mapping[str, Any], arch: int, *, barriers: bool = True
) -> Compiled:
    """The TTGIR and PTX of a kernel for these arguments.

    Raises RefusedError (K108) with what Triton says where it does not compile.
    """
    version = required_triton()
    module = sys.modules[function.fn.__module__]
    try:
        with _target(arch):
            return _compiled(function, call, options, arch, version, vars(module), barriers)
    except RefusedError:
        raise
    except Exception as error:  # whatever the kernel or Triton raises
        raise RefusedError(
            "K108",
            f"Triton does not compile {function.__name__}: {_error_text(error)}",
            "give the arguments that a launch gives: --args",
        ) from error


def _error_text(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^")]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"


def _compiled(
    function: Any,
    call: Call,
    options: Mapping[str, Any],
    arch: int,
    version: str,
    names: Mapping[str, Any],
    barriers: bool,
) -> Compiled:
    from triton.backends.compiler import GPUTarget, Language
    from triton.compiler import ASTSource, make_backend
    from triton.experimental.gluon import _runtime
    from triton.runtime.jit import create_function_from_signature

    target = GPUTarget("cuda", arch, 32)
    backend = make_backend(target)
    is_gluon = bool(getattr(function, "is_gluon", lambda: False)())
    positional, keywords = call.values(names, lambda one: tensor_of(one, is_gluon))
    given = dict(zip((one.name for one in function.params), positional, strict=False)) | keywords
    for key, value in options.items():
        if not isinstance(value, Computed):
            given.setdefault(key, value)
            keywords.setdefault(key, value)
    for key, value in options.items():
        if isinstance(value, Computed) and key not in given:
            given[key] = keywords[key] = value.function(given)
    known = {param.name for param in function.params}
    unset = {"num_warps", "num_stages"} & set(keywords) - known
    settings = {key: value for key, value in keywords.items() if key in unset or key in known}
    binder = create_function_from_signature(function.signature, function.params, backend)
    bound, specialization, chosen = binder(*positional, **settings)
    made, signature, constants, attributes = function._pack_args(
        backend, dict(settings), bound, specialization, chosen
    )
    source = (_runtime.GluonASTSource if is_gluon else ASTSource)(
        function, signature, constants, attributes
    )
    language = Language.GLUON if is_gluon else Language.TRITON

    def stages() -> tuple[Any, Mapping[str, Any], Any]:
        return _first_stages(source, backend, target, made, language)

    module, _, context = stages()
    ttgir = _with_barriers(module, made, arch, context) if barriers else _text(module)
    module, later, _ = stages()
    metadata: dict[str, Any] = {}
    ptx = later["ptx"](later["llir"](module, metadata), metadata)
    return Compiled(function.__name__, ttgir, str(ptx), version)


def _first_stages(
    source: Any, backend: Any, target: Any, options: Any, language: Any
) -> tuple[Any, Mapping[str, Any], Any]:
    """The module after the stages up to `ttgir`, and the later ones."""
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions = backend.get_codegen_implementation(options)
    module = source.make_ir(target, options, functions, backend.get_module_map(), context)
    module.context = context
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, language)
    metadata: dict[str, Any] = {}
    for name in ("ttir", "glir", "ttgir"):
        if name in stages:
            module = stages[name](module, metadata)
    return module, stages, context


def _with_barriers(module: Any, options: Any, arch: int, context: Any) -> str:
    """The text after allocation and barriers, its loops as they were."""
    from triton._C.libtriton import ir, nvidia, passes
    from triton.backends.nvidia.compiler import get_ptx_version_from_options

    manager = ir.pass_manager(context)
    manager.enable_debug()
    ptx = get_ptx_version_from_options(options, arch)
    gpu, blackwell = nvidia.passes.ttgpuir, nvidia.passes.ttnvgpuir
    if not hasattr(gpu, "add_membar"):
        raise RefusedError(
            "K106",
            "this Triton places barriers only while it lowers to LLVM, where they are not seen",
            "pip install 'triton>=3.9'",
        )
    passes.ttgpuir.add_combine_tensor_select_and_if(manager)
    passes.ttgpuir.add_allocate_warp_groups(manager, False)
    passes.gluon.add_inliner(manager)
    gpu.add_allocate_shared_memory_nv(manager, arch, ptx)
    blackwell.add_allocate_tensor_memory(manager)
    blackwell.add_proxy_fence_insertion(manager, arch)
    with suppress(AttributeError):
        blackwell.add_tmem_barrier_insertion(manager)
    gpu.add_membar(manager, arch, ptx)
    manager.run(module, "exogpu")
    return _text(module)


def _text(module: Any) -> str:
    return str(module.str() if hasattr(module, "str") else module)


def allocated_ttgir(path: Path, arch: int = 90) -> str:
    """The text of a file of TTGIR after allocation and barriers, which Triton keeps without.

    Raises RefusedError (K106, K108) where Triton is not installed, or does not read it.
    """
    required_triton()

    def work(tell: Tell) -> str:
        with redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _allocate_shared(path, arch)

    found = isolated(work, Limits(), doing=f"reading {path}")
    if isinstance(found, Stopped):
        raise RefusedError("K108", f"Triton does not read {path}: {found}", "give other TTGIR")
    return found


def _allocate_shared(path: Path, arch: int) -> str:
    try:
        from triton._C.libtriton import ir
        from triton.backends.compiler import GPUTarget
        from triton.compiler import make_backend

        context = ir.context()
        ir.load_dialects(context)
        backend = make_backend(GPUTarget("cuda", arch, 32))
        backend.load_dialects(context)
        module = ir.parse_mlir_module(str(path), context)
        module.context = context
        return _with_barriers(module, backend.parse_options({"arch": f"sm{arch}"}), arch, context)
    except RefusedError:
        raise
    except Exception as error:  # whatever Triton raises
        message = f"Triton does not read {path}: {_error_text(error)}"
        raise RefusedError("K108", message, "give TTGIR of this Triton") from error


# --- what stands in for a GPU and for torch --------------------------------------------------


@contextmanager
def _target(arch: int) -> Iterator[None]:
    """A driver that tells the architecture, in the place of one that asks a GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    class Driver:
        """A driver that answers Triton's questions while it compiles."""

        utils = types.SimpleNamespace(
            get_device_properties=lambda device: {
                "multiprocessor_count": MULTIPROCESSORS,
                "max_shared_mem": SHARED_MEMORY,
            }
        )

        def get_current_target(self) -> object:
            return GPUTarget("cuda", arch, 32)

        def get_current_device(self) -> int:
            return 0

        def __getattr__(self, name: str) -> Callable[..., object]:
            return lambda *arguments, **keywords: Standing(name)

    active = getattr(driver, "_active", None)
    driver.set_active(Driver())
    try:
        yield
    finally:
        if active is not None:
            driver.set_active(active)


def _is_needed(statement: ast.stmt, kernel: str) -> bool:
    """Returns whether a file is not read on where a statement stops: an import, or the kernel."""
    return isinstance(statement, ast.Import | ast.ImportFrom) or (
        isinstance(statement, ast.FunctionDef) and statement.name == kernel
    )


def _assigned_names(statement: ast.stmt) -> set[str]:
    """The names that a statement assigns to, or defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    return {
        one.id
        for one in ast.walk(statement)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }


def _futures(tree: ast.Module) -> int:
    """The compiler's flags for what a file imports from `__future__`."""
    return sum(
        getattr(__future__, name.name).compiler_flag
        for one in tree.body
        if isinstance(one, ast.ImportFrom) and one.module == "__future__"
        for name in one.names
    )


def _module(path: Path, kernel: str) -> types.ModuleType:
    """The file, executed, with stand-ins for modules that kernels do not need.

    Statements may stop, since stand-ins compute nothing; names that they bind are stand-ins, too.
    Raises RefusedError (K107) where an import or the kernel itself stops.
    """
    name = f"exogpu_target_{path.stem.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise RefusedError("K107", f"there is no file {path}", "give a Python file", NOWHERE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    line = 1
    try:
        with Standing.absent(), _target(90):
            tree = ast.parse(path.read_bytes(), str(path))
            for statement in tree.body:
                line = statement.lineno
                code = compile(ast.Module([statement], []), str(path), "exec", _futures(tree), True)
                try:
                    exec(code, vars(module))
                except Exception:
                    if _is_needed(statement, kernel):
                        raise
                    # Triton refuses a kernel that uses one of these, as it has no value.
                    vars(module).update(
                        {name: Standing(name) for name in _assigned_names(statement)}
                    )
    except Exception as error:  # whatever the file raises
        if hasattr(module, kernel):
            return module
        raise RefusedError(
            "K107",
            f"loading {path} stopped: {_error_text(error)}",
            "give a file that can be imported without a GPU",
            Span(str(path), line, 1, line, 1),
        ) from error
    finally:
        with suppress(ValueError):
            sys.path.remove(str(path.parent))
    return module
