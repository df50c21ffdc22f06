"""Everything that a report shows, as frozen data; the templates only lay it out.

Drawings carry their coordinates, in pixels of their own picture, so that a page, a test and a
reader of the data all see the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from exogpu.report.derivation import Taken


MarkKind = Literal[
    "read", "write", "update", "signal", "fence", "arrive", "await", "alloc", "launch"
]
"""The action at a marked place of the source: `signal` is an instruction's trailing barrier,
`alloc` also stands for the end of the lifetime, `launch` for the fences around a kernel."""

SYNC_KINDS: frozenset[MarkKind] = frozenset({"fence", "arrive", "await", "signal", "launch"})


# --- source -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mark:
    """A place of the source that can be asked about."""

    number: int
    kind: MarkKind
    line: int
    variable: str
    """Empty for statements that concern no single variable."""
    text: str
    """The statement, on one line."""

    @property
    def synchronises(self) -> bool:
        return self.kind in SYNC_KINDS


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of source text of one colour: `style` is a class of the style sheet, or empty."""

    text: str
    style: str


@dataclass(frozen=True, slots=True)
class Segment:
    """Pieces of a line that belong to one mark, or to none."""

    mark: Mark | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the source, without the indentation that all lines share."""

    number: int
    segments: tuple[Segment, ...]

    @property
    def sync(self) -> Mark | None:
        """The synchronising statement that begins here."""
        marks = (s.mark for s in self.segments if s.mark is not None and s.mark.synchronises)
        return next(marks, None)


# --- obligations --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """One of the statements of an obligation."""

    mark: int | None
    line: int
    """0 where it is not known."""
    text: str
    detail: str
    """Iteration and timeline."""
    threads: str
    """In words; empty where they are not known."""


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of a chain, with its part in words."""

    place: Place
    role: str


Answer = Literal["holds", "broken", "open"]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the obligation table."""

    number: int
    name: str
    kind: str
    variable: str
    claim: str
    """The obligation formally."""
    plain: str
    """The obligation and what makes it hold, in a plain sentence."""
    first: Place | None
    second: Place | None
    chains: tuple[tuple[Step, ...], ...]
    in_words: str
    """The chains on one line."""
    answer: Answer
    solver: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Use:
    """The obligations that need a synchronising statement."""

    mark: int
    rows: tuple[int, ...]
    redundant: bool
    why: str
    """In a sentence."""


# --- drawings -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bar:
    """A run of threads of a CTA."""

    x: int
    width: int
    now: bool
    """They execute the first iteration; else only others do."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The threads that execute one scope of a kernel."""

    depth: int
    lines: tuple[int, ...]
    """Where it opens: the same scope may open several times."""
    opens: str
    executors: str
    block_dim: int
    ctas: tuple[tuple[Bar, ...], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A warp group of a launch, in threads of a CTA."""

    name: str
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """The threads that execute the scopes of one kernel launch."""

    line: int
    ctas: int
    block_dim: int
    groups: tuple[Group, ...]
    scopes: tuple[Scope, ...]


@dataclass(frozen=True, slots=True)
class Owned:
    """A distributed variable: which index lives where."""

    variable: str
    declared: str
    line: int
    owner: str
    """The owner of one allocation: `a CTA`."""
    rows: tuple[tuple[str, str], ...]
    """Element and owner."""
    more: int
    """The number of further elements."""


@dataclass(frozen=True, slots=True)
class Slab:
    """A shared variable: bytes against the lines of the source between which it lives."""

    variable: str
    declared: str
    offset: int
    size: int
    first_line: int
    last_line: int
    slots: int
    """Slots of its ring; 1 where it is none."""
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """The shared memory of a CTA over program order."""

    slabs: tuple[Slab, ...]
    size: int
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Turn:
    """The arrival of one rank on a barrier element, and the Awaits for it."""

    rank: int
    arrive: str
    awaits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trip:
    """The history of one barrier element at one trip count: its turns in order."""

    trips: int
    sizes: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Ring:
    """A barrier's ring, at several trip counts of the kernel's main loop."""

    variable: str
    element: str
    mechanism: str
    line: int
    depth: int
    """Slots; 0 where the barrier has no ring of its own."""
    trips: tuple[Trip, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """An event of the timeline, in its lane."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    label: str
    note: str
    """The iteration."""
    title: str
    line: int
    failing: str
    """`first` or `second` of a refutation's two statements, or empty."""


@dataclass(frozen=True, slots=True)
class Bond:
    """Joins the boxes of one event whose lanes are not neighbours."""

    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class Arrow:
    """From an arrival to the Await that it releases, or between the failing statements."""

    path: str
    broken: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """A role of the timeline: its CTA, warp group and threads, in words."""

    cta: str
    group: str
    threads: str
    x: float


@dataclass(frozen=True, slots=True)
class Signal:
    """An Arrive on a barrier element, or an Await of it."""

    y: float
    """The height of its box."""
    arrives: bool
    element: str
    rank: int
    """An arrival's number; an Await's number of the last arrival that it waits for, or less than
    0."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The first events of a kernel, each lane's from top to bottom."""

    caption: str
    lanes: tuple[Lane, ...]
    lane_width: float
    boxes: tuple[Box, ...]
    bonds: tuple[Bond, ...]
    arrows: tuple[Arrow, ...]
    signals: tuple[Signal, ...]
    """In the order of their rows."""
    width: float
    height: float


# --- the whole ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HazardCard:
    """A refutation in words."""

    title: str
    first: Place | None
    second: Place
    first_role: str
    second_role: str
    missing: str
    repair: str
    replayed: bool


@dataclass(frozen=True, slots=True)
class Formula:
    """The kernel's result as a formula: `html` is MathML, safe as it stands."""

    text: str
    html: str
    evidence: str
    """The extent to which it was checked against the sequential meaning."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report of one procedure."""

    name: str
    doc: str
    file: str
    word: str
    badge: str
    theorem: str
    formula: Formula | None
    facts: tuple[tuple[str, str], ...]
    """Label and value: policy, sizes, times, digest."""
    assumptions: tuple[str, ...]
    trusted: tuple[str, ...]
    uncovered: tuple[str, ...]
    """The parts of which nothing here speaks."""
    hazards: tuple[HazardCard, ...]
    problems: tuple[str, ...]
    """The faults of an ill-formed program."""
    proof: bool
    """Obligations for all sizes exist."""
    certified: bool
    """Every obligation is met, so that a statement that no chain uses is not needed."""
    legend: tuple[tuple[str, str, str], ...]
    """The legend of each timeline of the program: its short name, its accesses' name, and a
    description."""
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...]
    rows: tuple[Row, ...]
    uses: tuple[Use, ...]
    """One for each synchronising mark."""
    clusters: tuple[Cluster, ...]
    owned: tuple[Owned, ...]
    shared: tuple[SharedMemory, ...]
    rings: tuple[Ring, ...]
    timeline: Timeline | None
    taken: Taken | None = None
    """The derivation; None for a procedure that was written."""
