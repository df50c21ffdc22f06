"""Spellings of the kernel's variables in C++: the source's own names wherever they are free."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Final, TypeAlias

from exogpu.codegen.wgmma import is_wgmma
from exogpu.diagnostics.errors import Diagnostic, ExoGpuError, Span
from exogpu.ir.types import Sym

# Names that emitted C and C++ cannot use for what a program declares.
#
# The tables of macros and of the C library were gathered by compiling a declaration of every word
# that the headers of nvcc 13 contain.

_KEYWORDS: Final = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
    co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
    restrict return short signed sizeof static static_assert static_cast struct switch template
    this thread_local throw true try typedef typeid typename typeof union unsigned using virtual
    void volatile wchar_t while xor xor_eq
"""

_BUILTINS: Final = """
    gridDim blockIdx blockDim threadIdx warpSize dim3 std
"""

_EMITTED: Final = """
    smem task_number to_cta ring_at phases_back int2 min max size_t uintptr_t
    exp expf exp2 log logf sqrt sqrtf tanh tanhf erf erff fma fmaf fminf fmaxf
    wrong_index wrong_index_told
"""
"""The names that the text of kernels and of the CPU part declares or calls; the variables of the
helpers."""

TEMPLATE: Final = """
    stream stream_ status_ arguments sizes launch encode tasks wide fits elements host_array
    DeviceArray HostArray launched task_count check message_ length_ How exogpu_host
"""
"""The names that the template of the CPU part declares."""

_MACROS: Final = """
    BIG_ENDIAN BUFSIZ BYTE_ORDER CHAR_BIT EOF EXIT_FAILURE EXIT_SUCCESS HUGE_VAL INFINITY
    LITTLE_ENDIAN MAXFLOAT MAX_CANON MAX_INPUT NAN NFDBITS NULL NZERO PDP_ENDIAN PIPE_BUF TIME_UTC
    TRY alloca assert errno linux math_errhandling offsetof stderr stdin stdout unix
"""

_LIBRARY: Final = """
    FILE a64l abort abs acos acosh aligned_alloc arc4random arc4random_buf arc4random_uniform
    asctime asin asinh asprintf atan atan2 atanh atexit atof atoi atol bcmp bcopy bsearch
    bzero calloc canonicalize_file_name cbrt ceil clearenv clearerr clock copysign cos cosh
    cospi ctermid ctime cuserid cyl_bessel_i0 cyl_bessel_i1 daddl daylight ddivl dfmal
    difftime div dmull dprintf drand48 drem dsqrtl dsubl dysize ecvt erand48 erf erfc erfcinv
    erfcx erfinv exit exp exp10 exp2 explicit_bzero expm1 fabs fadd fclose fcloseall fcvt
    fd_mask fd_set fdim fdiv fdivide fdopen feof ferror fflush ffma ffs fgetc fgetpos fgets
    fileno finite flockfile floor fma fmax fmaximum fmaximum_mag fmaximum_mag_num fmaximum_num
    fmaxmag fmemopen fmin fminimum fminimum_mag fminimum_mag_num fminimum_num fminmag fmod
    fmul fopen fopencookie fputc fputs fread free freopen frexp fromfp fromfpx fseek fseeko
    fsetpos fsqrt fsub ftell ftello ftrylockfile funlockfile fwrite gamma gcvt getc getchar
    getdate getdate_err getdelim getenv getline getloadavg getpayload getpt getsubopt getw
    gmtime grantpt hypot ilogb initstate isfinite isinf isnan j0 j1 jn jrand48 l64a labs
    lcong48 ldexp ldiv lgamma llabs lldiv llogb llrint llround localtime log log10 log1p log2
    logb lrand48 lrint lround main malloc max mblen mbstowcs mbtowc memccpy memcmp memcpy
    memfrob memmem memmove mempcpy memset min modf mrand48 nan nanosleep nearbyint nextafter
    nextdown nexttoward nextup norm norm3d norm4d normcdf normcdfinv nrand48 obstack_printf
    obstack_vprintf on_exit open_memstream pclose perror popen posix_memalign posix_openpt pow
    pselect ptsname putc putchar putenv puts putw qecvt qfcvt qgcvt qsort quick_exit rand
    random rcbrt realloc reallocarray realpath remainder remove remquo rename renameat
    renameat2 rewind rhypot rint rnorm rnorm3d rnorm4d round roundeven rpmatch rsqrt scalb
    scalbln scalbn secure_getenv seed48 select setbuf setbuffer setenv setlinebuf setpayload
    setpayloadsig setstate setvbuf sigabbrev_np sigdescr_np signbit signgam significand sin
    sincos sincospi sinh sinpi sqrt srand srand48 srandom std stpcpy stpncpy system tan tanh
    tempnam tgamma time timegm timelocal timespec_get timespec_getres timezone tmpfile tmpnam
    tolower tolower_l totalorder totalordermag toupper toupper_l trunc tzname tzset u_char
    u_int u_long u_short ufromfp ufromfpx uint ulong ungetc unlockpt unsetenv ushort va_list
    valloc vasprintf vdprintf wcstombs wctomb y0 y1 yn
"""
"""Functions of the C library and of CUDA, some of which also exist with `f`, `l` and `_r`."""

_MACRO_FAMILIES: Final = re.compile(
    r"(CUDA|CUDART|CU_|EXOGPU_|FP_|M_(PI|E|L|SQRT|[12])|U?INT(PTR|MAX|_FAST|_LEAST|[0-9]))\w*"
    r"|([SU]?CHAR|WCHAR|U?SHRT|U?INT|U?L?LONG|U?LONG_LONG|S?SIZE|PTRDIFF|WINT|SIG_ATOMIC|BOOL|RAND"
    r"|PATH|NAME|LINE|IOV|(HOST|LOGIN|TTY)_NAME|FILENAME|FOPEN|TMP)_(MAX|MIN|WIDTH|BIT)"
)
"""Macros by their form."""

_RUNTIME: Final = re.compile(r"cuda[A-Z]\w*")
"""Types, constants and functions of the CUDA runtime, which the CPU part calls."""

_FAMILIES: Final = re.compile(
    r"(cu|CU)\w*|\w+_t|u?(char|short|int|long|longlong|float|double)[1-4]"
)
"""Types and functions by their form."""

_OF_LIBRARY: Final = re.compile(
    r"(v?[fs]?n?(printf|scanf)|str[a-z]+|is[a-z]+|mk[a-z]*temps?)(_\w)?"
)


@cache
def _reserved_names() -> frozenset[str]:
    tables = (_KEYWORDS, _BUILTINS, _EMITTED, _MACROS)
    helpers = (resources.files("exogpu.codegen") / "prelude").iterdir()
    return frozenset(word for table in tables for word in table.split()) | {
        helper.name.removesuffix(".cuh") for helper in helpers
    }


@cache
def _library() -> frozenset[str]:
    return frozenset(_LIBRARY.split())


def is_reserved(name: str) -> bool:
    """Tests whether a variable cannot have the name."""
    form = _MACRO_FAMILIES.fullmatch(name) or _RUNTIME.fullmatch(name)
    return name in _reserved_names() or is_wgmma(name) or form is not None


def is_reserved_for_functions(name: str) -> bool:
    """Tests whether a kernel, which is a function of C, cannot have the name."""
    base = re.sub(r"(_r|_unlocked)?$", "", name)
    library = {name, base, re.sub(r"(f|l|64|f32|f64|f32x|f64x)$", "", base)} & _library()
    form = _FAMILIES.fullmatch(name) or _OF_LIBRARY.fullmatch(name)
    return is_reserved(name) or name in TEMPLATE.split() or bool(library) or form is not None


def identifier(name: str) -> str:
    """A name of the source as C spells it: not one that the compiler keeps for itself, as it does
    `_K` and `__k`."""
    return re.sub(r"^_+(?=[A-Za-z])", "", name) if re.match(r"_[A-Z_]", name) else name


def function_name(name: str) -> str:
    """The name of the kernel of a procedure of this name."""
    plain = identifier(name)
    spellings = (plain, f"{plain}_kernel", f"k_{plain}")
    return next(one for one in spellings if not is_reserved_for_functions(one))


THREAD: Final = Sym("thread")
"""threadIdx.x"""
WARP: Final = Sym("warp")
"""threadIdx.x / 32, the same for all threads of a warp and known to be so by the compiler."""
LANE: Final = Sym("lane")
"""threadIdx.x % 32"""
CTA: Final = Sym("cta")
"""Rank of the CTA in its cluster."""


@dataclass(slots=True)
class Names:
    """Spellings by scope: a name in use in an enclosing scope gets a number."""

    _scopes: list[set[str]] = field(default_factory=lambda: [set()])
    _spelling: dict[Sym, str] = field(default_factory=dict)
    _spelled: list[set[Sym]] = field(default_factory=lambda: [set()])
    """The names spelled since each recording began, the innermost last."""

    def __post_init__(self) -> None:
        for builtin in (THREAD, WARP, LANE, CTA):
            self.declare(builtin)

    def declare(self, name: Sym) -> str:
        """The spelling of a variable from here to the end of the scope."""
        taken = {spelled for scope in self._scopes for spelled in scope}
        spelled = plain = identifier(name.name)
        number = 0
        if (spelled in taken or is_reserved(spelled)) and is_reserved(f"{plain}_1"):
            # Kept by its beginning: a number would not free it.
            spelled = plain = f"v_{plain}"
        while spelled in taken or is_reserved(spelled):
            number += 1
            spelled = f"{plain}_{number}"
        self._scopes[-1].add(spelled)
        self._spelling[name] = spelled
        return spelled

    def __call__(self, name: Sym) -> str:
        self._spelled[-1].add(name)
        return self._spelling[name]

    @contextmanager
    def recording(self) -> Iterator[set[Sym]]:
        """Gathers the variables that are spelled within it; they count as spelled around it only
        if `use` says so, for what is written is not always kept."""
        self._spelled.append(set())
        try:
            yield self._spelled[-1]
        finally:
            self._spelled.pop()

    def use(self, names: Iterable[Sym]) -> None:
        """The variables are spelled in what is kept."""
        self._spelled[-1].update(names)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A block: what is declared inside is free again after it."""
        self._scopes.append(set())
        yield
        self._scopes.pop()


# Lines of C++ text: blocks in braces.

Lines: TypeAlias = list[str]

_JOINS: Final = re.compile(r"(\\|\?\?/|\s)+$")
"""An end that makes the next line of C++ a part of this one; also as a trigraph."""


def comment(text: str) -> str:
    """`// text`: one line, whatever the text, and without an end that takes the next one in."""
    return f"// {_JOINS.sub('', one_line(text))}"


def one_line(text: str) -> str:
    """The text with spaces for its ends of lines."""
    return " ".join(text.splitlines())


def indented(lines: Lines) -> Lines:
    """The lines of a block's inside."""
    return [f"    {line}" if line else line for line in lines]


def braces(head: str, inside: Lines) -> Lines:
    """`head { inside }`"""
    return [f"{head} {{" if head else "{", *indented(inside), "}"]


# Diagnostics of code generation: G8, raised where they are met.


def unsupported(what: str, span: Span, help: str, code: str = "G801") -> ExoGpuError:
    """The error that refuses a statement which has no lowering yet."""
    return ExoGpuError([Diagnostic(code, what, span, help)])


class InternalError(AssertionError):
    """A witness of this package was refused by its checker: a bug here, not in the kernel."""
