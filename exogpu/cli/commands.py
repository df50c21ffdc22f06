"""The command `exogpu`.

Exit status: 0 everything proved or safe, 1 something refuted, 2 an ill-formed program or a wrong
call, 3 something undecided, 4 a failure of exogpu itself; of several, the first of 4, 2, 1, 3.

What needs the solvers is imported by the commands that use it, so that `doctor` runs where one is
missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from math import isnan
from pathlib import Path
from typing import Annotated

import typer

from exogpu.cli import exit_handler as handler
from exogpu.cli import options as cli_options
from exogpu.cli.doctor import draw_findings, examine, exogpu_version
from exogpu.cli.tune_command import tune_command
from exogpu.cli.validate_command import validate_command
from exogpu.diagnostics.codes import CODES
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.verdict import Policy
from exogpu.report.render_verdict import console, draw_codes
from exogpu.solvers.processes import Limits

app = typer.Typer(
    name="exogpu",
    cls=handler.Commands,
    help="Check the synchronisation of GPU kernels written in Python.",
    epilog="Exit status: 0 proved or safe, 1 refuted, 2 ill-formed or a wrong call, 3 undecided, "
    "4 a failure of exogpu itself.",
    add_completion=False,
    no_args_is_help=True,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line and exit."""
    handler.prepare_streams()
    handler.handled(app)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, help="Print the version, and exit.")
    ] = False,
) -> None:
    """Check the synchronisation of GPU kernels written in Python."""
    if version:
        typer.echo(f"exogpu {exogpu_version()}")
        raise typer.Exit


@app.command()
def check(
    targets: cli_options.Targets,
    at: cli_options.At = None,
    policy: cli_options.PolicyOption = "ptx",
    timeout: cli_options.Timeout = None,
    memory: cli_options.Memory = None,
    redundant: Annotated[
        bool, typer.Option("--redundant", help="Also name synchronisation that is not needed.")
    ] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither read nor write what is kept on disk.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Check again each time that a file changes.")
    ] = False,
    as_json: cli_options.AsJson = False,
    sarif: Annotated[
        Path | None, typer.Option(metavar="F", help="Write SARIF 2.1.0 to this file.")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="F", help="Write JUnit XML to this file.")
    ] = None,
    arguments: cli_options.KernelArguments = None,
    num_warps: cli_options.Count = None,
    num_stages: cli_options.Count = None,
    arch: cli_options.KernelArch = "sm_90",
) -> None:
    """Check procedures, at the given sizes or else for all; or kernels of Triton."""
    from exogpu.cli.check_command import answered, check_targets, checked_imports
    from exogpu.cli.import_targets import Launch, is_import

    rules, limits = Policy.from_name(policy), Limits(timeout, memory)
    launch = Launch(arguments, num_warps, num_stages, arch)

    def run_check() -> int:
        if all(is_import(target, launch) for target in targets):
            found = checked_imports(targets, launch, rules, limits, not no_cache)
            return answered(found, as_json, sarif, junit)
        return answered(
            check_targets(targets, at, rules, limits, redundant, not no_cache),
            as_json,
            sarif,
            junit,
        )

    if watch:
        from exogpu.cli.progress_display import watch as watching

        watching(targets, run_check)
    raise typer.Exit(run_check())


@app.command("compile")
def compile_command(
    target: cli_options.Target,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where the files are written.")
    ],
    arch: Annotated[str, typer.Option(help="sm_80, sm_86, sm_87, sm_89 or sm_90a.")] = "sm_90a",
    cubin: Annotated[
        bool, typer.Option("--cubin", help="Also a cubin; needs NVRTC or nvcc.")
    ] = False,
    ptx: Annotated[bool, typer.Option("--ptx", help="Also PTX, and the cubin.")] = False,
    sass: Annotated[
        bool, typer.Option("--sass", help="Also SASS, and the cubin; needs nvdisasm.")
    ] = False,
    so: Annotated[
        bool,
        typer.Option("--so", help="Also a shared object, and the cubin; needs nvcc and g++."),
    ] = False,
    task_order: Annotated[
        str | None,
        typer.Option(metavar="ORDER", help="lexicographic, grouped[:ROWS] or hilbert."),
    ] = None,
    arrive_all: Annotated[
        bool,
        typer.Option("--arrive-all", help="Every thread arrives on mbarriers, for racecheck."),
    ] = False,
    at: cli_options.AtUndecided = None,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Check nothing; the manifest says so.")
    ] = False,
    policy: cli_options.PolicyOption = "ptx",
    timeout: cli_options.Timeout = None,
    memory: cli_options.Memory = None,
) -> None:
    """Write CUDA C++ and a manifest of what is proved, or safe at the given sizes."""
    from exogpu.cli.check_command import parse_sizes
    from exogpu.cli.compile import Wish, compile_all, parse_task_order, unloaded
    from exogpu.cli.process_guard import guard
    from exogpu.codegen.architecture import check_arch

    try:
        sizes = None if at is None else parse_sizes(at)
        check_arch(arch)
        order = None if task_order is None else parse_task_order(task_order)
    except ExoGpuError as error:
        handler.stop(*error.diagnostics)
    statuses = set()
    limits = Limits(timeout, memory)
    rules = Policy.from_name(policy)
    files = (output, arch, cubin, ptx, sass, so)
    wish = Wish(*files, sizes, unchecked, rules, order, arrive_all, limits)
    for built in guard(target, limits, partial(compile_all, wish=wish), unloaded, rules):
        console(stderr=built.status in (handler.STATUS["error"], handler.INTERNAL)).print(
            built.text, end=""
        )
        statuses.add(built.status)
    raise typer.Exit(handler.worst(statuses))


@app.command()
def report(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="One folder a procedure in it.")
    ],
    target: Annotated[
        str | None, typer.Argument(metavar="TARGET[::PROC]", help="As for check.")
    ] = None,
    shipped: Annotated[bool, typer.Option("--all", help="Report the shipped kernels.")] = False,
    at: cli_options.At = None,
    policy: cli_options.PolicyOption = "ptx",
    timeout: cli_options.Timeout = None,
    memory: cli_options.Memory = None,
    scripts: cli_options.Scripts = None,
    against: cli_options.Against = None,
) -> None:
    """Check procedures, and write a report of each: a page, Markdown, and results for CI."""
    from exogpu.cli import reports
    from exogpu.cli.check_command import parse_sizes
    from exogpu.cli.files import Unit
    from exogpu.cli.process_guard import guard

    if (target is None) != shipped:
        handler.stop(handler.wrong("X980", "report takes a target or --all", "give one of the two"))
    outcomes = []
    limits, bar = Limits(timeout, memory), console(stderr=True).is_terminal
    with handler.writing():
        sizes, rules = None if at is None else parse_sizes(at), Policy.from_name(policy)
        old = None if against is None else reports.snapshots(against, sizes, rules, limits, bar=bar)

        def work(units: tuple[Unit, ...]) -> Iterator[reports.Written]:
            return reports.report_all(
                units, output, sizes, rules, limits=limits, bar=bar, scripts=scripts
            )

        new = []
        for written in guard(target or reports.SHIPPED, limits, work, reports.unloaded, rules):
            outcomes.append(written.outcome)
            new += [] if written.snapshot is None else [written.snapshot]
            console(stderr=old is not None).print(written.text, end="")
        if against is not None and old is not None:
            typer.echo(
                reports.write_comparison(
                    output, reports.select_procedures(old, new, target), new, against
                ),
                nl=False,
            )
    raise typer.Exit(handler.exit_status(outcomes))


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where the report is written.")
    ] = Path("exogpu-demo"),
) -> None:
    """Prove a kernel that comes with exogpu, and write its report; needs no GPU, no compiler."""
    from exogpu.cli import reports

    outcomes = []
    with handler.writing():
        for text, outcome in reports.demo(output, bar=console(stderr=True).is_terminal):
            console().print(text, end="")
            outcomes += [outcome] if outcome else []
    raise typer.Exit(handler.exit_status(outcomes))


@app.command("recheck")
def recheck_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A certificate, or a folder of certificates.")
    ],
    solver: Annotated[
        cli_options.Solver,
        typer.Option("--solver", help="all: Z3, and cvc5 where it is installed."),
    ] = cli_options.Solver.ALL,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, metavar="S", help="Seconds that all of it may take; a script, 60."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source", metavar="TARGET", help="Where the kernels are, to compare programs with."
        ),
    ] = None,
    scripts: cli_options.Scripts = None,
    as_json: cli_options.AsJson = False,
) -> None:
    """Encode certificates anew and answer them with solvers alone, without the prover.

    Exit status: 0 confirmed, 1 rejected, 2 no certificate that can be read, 3 a solver could not
    decide, or the time is up.
    """
    from exogpu.cli.recheck_command import draw, draw_scope, json_lines, recheck_all

    if timeout is not None and isnan(timeout):
        raise typer.BadParameter("nan is no number of seconds", param_hint="--timeout")
    lines = []
    try:
        bar = console(stderr=True).is_terminal
        found = recheck_all(
            folder, solver.value, timeout, bar=bar, sources=source or (), scripts=scripts
        )
        for line in found:
            lines.append(line)
            if not as_json:
                console(stderr=line.status == handler.STATUS["error"]).print(draw(line), end="")
    except ExoGpuError as error:
        handler.stop(*error.diagnostics)
    if as_json:
        typer.echo(json_lines(lines))
    elif any(line.is_readable for line in lines):
        console().print(draw_scope(lines), end="")
    raise typer.Exit(handler.worst({line.status for line in lines}))


app.command("validate")(validate_command)


@app.command("why")
def why_command(
    place: Annotated[str, typer.Argument(metavar="FILE:LINE[::PROC]", help="A statement.")],
    policy: cli_options.PolicyOption = "ptx",
    formal: Annotated[
        bool, typer.Option("--formal", help="Also the obligations' formal text.")
    ] = False,
) -> None:
    """Say why a synchronisation statement is needed, or that it is not."""
    from exogpu.cli import redundancy
    from exogpu.cli.loader import load

    try:
        target, line = redundancy.parse_place(place)
        procedures = redundancy.well_formed(load(target), line)
        for text in redundancy.explain_lines(
            procedures, line, Policy.from_name(policy), formal=formal
        ):
            console().print(text, end="")
    except ExoGpuError as error:
        handler.stop(*error.diagnostics)


@app.command()
def run(
    target: cli_options.Target,
    random: Annotated[
        bool, typer.Option("--random", help="Fill the arguments with random data.")
    ] = False,
    at: cli_options.At = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random data.")] = 0,
) -> None:
    """Run the sequential meaning; print checksums, and the errors of a GPU if there is one."""
    from exogpu.cli.check_command import parse_sizes, sizes_for, unknown_to_all
    from exogpu.cli.random_run import run_on_random_data

    if not random:
        handler.stop(handler.wrong("X949", "run has no data to work on", "add --random"))
    try:
        sizes = parse_sizes(at or ())
        procedures = handler.procedures_of(target)
        if unknown := unknown_to_all(procedures, sizes):
            handler.stop(*unknown)
        for procedure in procedures:
            given = sizes_for(procedure, procedures, sizes)
            ran = run_on_random_data(procedure, given, seed)
            console().print(ran.text, end="")
            console(stderr=True).print(ran.note, end="")
    except ExoGpuError as error:
        handler.stop(*error.diagnostics)


@app.command()
def trial(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET[::INSTR]",
            help="A .py file, a folder, or a dotted module with @instr in it.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Keep the programs there."),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Variants of an instruction.")] = 12,
    given: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="N=4,8", help="Values of a compile-time parameter."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that use the GPU.")] = 2,
    arch: Annotated[str, typer.Option(help="As for compile.")] = "sm_90a",
) -> None:
    """Run instructions on a GPU against what their bodies say, on random operands.

    Exit status: 0 all right, 1 some wrong, 2 a wrong call, 3 nothing was run.
    """
    from tempfile import TemporaryDirectory

    from exogpu.cli import gpu_commands
    from exogpu.codegen.architecture import check_arch
    from exogpu.codegen.toolchain import CompileError

    tried = []
    try:
        with TemporaryDirectory() as scratch:
            check_arch(arch)
            values, where = gpu_commands.parse_values(given or ()), output or Path(scratch)
            for one in gpu_commands.trial(target, where, most, values, jobs, arch):
                tried.append(one)
                typer.echo(one.text, nl=False)
    except ExoGpuError as error:
        handler.stop(*error.diagnostics)
    except CompileError as error:
        handler.stop(handler.wrong("X961", error.problem, error.remedy))
    if not all(one.right for one in tried):
        raise typer.Exit(1)
    raise typer.Exit(0 if any(one.ran for one in tried) else 3)


@app.command()
def threads(
    target: cli_options.Target,
    relations: Annotated[
        bool, typer.Option("--relations", help="Show the exact ISL relations too.")
    ] = False,
) -> None:
    """Say for each scope which threads execute it."""
    from exogpu.cli.listings import threads_listing

    try:
        for procedure in handler.parsed(target):
            assert procedure.ir is not None
            console().print(threads_listing(procedure.ir, relations=relations), end="")
    except ExoGpuError as error:
        handler.stop(*error.diagnostics)


@app.command()
def amir(
    target: cli_options.Target,
    policy: cli_options.PolicyOption = "ptx",
    as_json: cli_options.AsJson = False,
) -> None:
    """Print the abstract machine program; --json as a list."""
    from exogpu.amir.export import to_json
    from exogpu.cli.listings import amir_listing

    try:
        programs = [
            procedure.amir(Policy.from_name(policy)) for procedure in handler.procedures_of(target)
        ]
    except ExoGpuError as error:
        handler.stop(*error.diagnostics)
    if as_json:
        typer.echo(json.dumps([to_json(program) for program in programs], indent=2))
    else:
        for program in programs:
            console().print(amir_listing(program), end="")


@app.command()
def history(
    target: cli_options.Target,
    diff: Annotated[bool, typer.Option("--diff", help="Show what each step changed.")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="DIR", help="Also write a page of each derived procedure."),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither read nor write steps kept on disk.")
    ] = False,
    certify: Annotated[
        bool, typer.Option("--certify", help="Make a certificate of each step, for recheck.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Where certificates go."),
    ] = None,
) -> None:
    """Say how procedures were derived, a line a step; kernels derived on first use are made.

    With --certify the exit status is 3 where a step has no certificate.
    """
    from exogpu.cli.history import tell
    from exogpu.cli.progress_display import show_steps

    if certify != (output is not None):
        handler.stop(handler.wrong("X949", "--certify and -o go together", "give both, or none"))
    with handler.writing():
        with show_steps(console(stderr=True).is_terminal, not no_cache):
            procedures = handler.parsed(target, derive=True)
        complete = tell(procedures, html, output, diff=diff)
    raise typer.Exit(0 if complete else 3)


app.command("tune")(tune_command)


@app.command()
def explain(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Such as B601, RAW, Fence, __syncthreads."),
    ] = None,
) -> None:
    """Explain a code, a hazard, a word, an instruction or a name of CUDA, or list all codes."""
    from exogpu.cli.listings import draw_name, nearest

    if name is None:
        console().print(draw_codes(CODES), end="")
    elif (text := draw_name(name)) is not None:
        console().print(text, end="")
    else:
        what = f"no code, timeline, statement, instruction or name of CUDA is called {name}"
        handler.stop(handler.wrong("X947", what, nearest(name)))


@app.command()
def lsp() -> None:
    """Serve an editor on standard input and output: hazards, repairs, explanations."""
    from exogpu.cli.lsp.server import serve

    serve()


@app.command()
def doctor() -> None:
    """Say what is installed, what is missing, how to get it."""
    findings = examine()
    console().print(draw_findings(findings), end="")
    raise typer.Exit(2 if any(f.repair and f.needed for f in findings) else 0)
