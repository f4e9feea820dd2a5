"""What the emulator can find, one sentence for a learner each, and where findings are gathered.

``KINDS`` is the whole list: id, severity, what it means and what to try. An error is a fault of the program
on some schedule, even where this run's numbers came out right; a warning is something that experts disagree
on; a cause explains numbers that are wrong, and is nothing where they are right.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from course_utils.artifact import GENERATED, REGISTER_LIMIT, Artifact, Origin, file_name
from course_utils.ptx.parser import Kernel
from course_utils.run.emulator.explain import dsl_terms, ledger
from course_utils.run.emulator.explain.ledger import Row, table
from course_utils.run.words import told

if TYPE_CHECKING:
    from course_utils.run.emulator.units.mbarrier import MBarrier

Detail: TypeAlias = str | Callable[[], str]  # a function makes the text when it is needed

# fmt: off
KINDS = {
    "deadlock": ("error",
        "Every warp that is left waits for something that nobody will do. Count for each barrier who "
        "arrives, how often, how many bytes are expected and come, and the parity that each wait starts "
        "with."),
    "livelock": ("error",
        "A warp loops without end and nothing that it reads will change. Does the loop's bound change "
        "inside it, and does each turn of a loop over tiles take the next tile?"),
    "register-budget": ("error",
        "The warpgroups ask for more registers than a CTA has, so one waits for ever. Registers a thread,"
        f" times threads, over all warpgroups must stay within {REGISTER_LIMIT:,}: give the producer "
        "fewer."),
    "setmaxnreg-count": ("error", "setmaxnreg takes a multiple of 8 from 24 to 256."),
    "read-before-load": ("error",
        "Shared memory is read, but the reader has not waited for the TMA load (or cp.async) that fills "
        "it. Wait on the full barrier of this stage, with the parity of this round."),
    "read-before-write": ("error",
        "One warp reads what another wrote to shared memory, and nothing orders the two. Put a barrier "
        "between them."),
    "uninitialised-read": ("error",
        "Shared memory is read that nothing has written. Is the stage index the one that was loaded, and "
        "does the tile cover all that is read?"),
    "overwrite-while-read": ("error",
        "A stage is written while wgmma or a TMA store may still read it. Release a stage only after the "
        "wait_group that covers its reader, and wait for that release before the next load."),
    "overwrite-before-use": ("error",
        "A TMA load writes over an earlier load of the same bytes that nobody has waited for. Does the "
        "producer wait on the empty barrier of this stage?"),
    "load-twice": ("error",
        "Two loads that signal one phase of an mbarrier write the same bytes, so one of them is lost. Look "
        "at the stage index and the buffer of each. Where the CTAs of a cluster multicast, each loads the "
        "part that its rank says, of the tile and of the buffer, and nobody loads that tile again."),
    "load-unwaited": ("error",
        "A load that nobody waits for is still under way when its memory is used again, or when the CTA "
        "ends. Whoever multiplies a tile waits for it: do the loop that loads and the loop that multiplies "
        "go over the same tiles, with the same stage and phase, and as many of them?"),
    "stage-mismatch": ("error",
        "The load, the wait and the read of one tile take one stage: that of one count, modulo the number of "
        "stages. Its slots in shared memory and its barrier have the same index."),
    "stage-unread": ("cause",
        "The load, the wait and the read of one tile take one stage: that of one count, modulo the number of "
        "stages. Its slots in shared memory and its barrier have the same index."),
    "swizzle-mismatch": ("cause",
        "TMA lays a tile out by the swizzle of its map, and wgmma reads it by that of its descriptor. Both "
        "come from the layout of the shared tensor: give the map and the multiplication the same one."),
    "same-tiles": ("cause",
        "A tile that both CTAs of a pair need is loaded once and multicast. The other operand's tile is each "
        "CTA's own, and each loads it for itself alone."),
    "ring-overrun": ("error",
        "A stage past the last slot of a ring lies in what follows in shared memory. The buffers of A and B "
        "need a slot for each stage: num_stages may not be more than the slots that they were made with."),
    "stale-store": ("error",
        "A TMA store reads another buffer than the one that threads have just written. The write to shared "
        "memory and the store after it take the same buffer: the same index, where there are several."),
    "store-wait-elsewhere": ("error",
        "commit_group and wait_group are about the stores of the thread that calls them. One warp issues a "
        "TMA store, commits it and waits for it; a barrier tells the others."),
    "write-unordered": ("error",
        "Two writers of the same shared memory are not ordered. Put a barrier between them."),
    "accumulator-before-wait": ("error",
        "Registers of a wgmma are used while it may still run, which the PTX ISA calls undefined. Where "
        "ptxas sees it, it waits in your place and runs one wgmma at a time (it says: serialized). That is "
        "right, slow, and promised by nobody. Wait with wgmma.wait_group first, and commit the group before "
        "the wait."),
    "uninitialised-register": ("error",
        "A register is used that nothing has written: an accumulator that no wgmma has reached, or a part of "
        "a fragment that no store or load has filled. Does the loop that writes it run at least once at this "
        "size, and do both sides name the same part?"),
    "accumulator-uninitialised": ("error",
        "The first wgmma of a tile adds to what its registers happen to hold. Let it overwrite them "
        "(clear_accum, or the ACCUMULATE field set to False), or clear them first."),
    "wgmma-fence": ("error",
        "wgmma starts before wgmma.fence has ordered the registers it uses. Call the fence before the "
        "first wgmma."),
    "wgmma-mismatch": ("error",
        "The four warps of a warpgroup issue different wgmma instructions. All four must run the same one"
        " with the same descriptors."),
    "wgmma-descriptor": ("error", "A wgmma descriptor points outside shared memory."),
    "proxy-fence": ("error",
        "Threads wrote shared memory, and the async proxy (wgmma or a TMA store) reads it with no "
        "fence.proxy.async between. Fence in every thread that wrote, then synchronise; or synchronise, "
        "then fence in the thread that starts the read."),
    "proxy-fence-overwrite": ("error",
        "A TMA load writes over shared memory that threads read or wrote, with no fence.proxy.async "
        "between: an access still under way comes after the load. Fence in every thread before the "
        "barrier, or in the load's thread after it."),
    "expect-tx": ("error",
        "More bytes arrive at an mbarrier than its phase expects, so the phase ends before its loads do. "
        "Expect the bytes of every load that signals this barrier."),
    "barrier-overrun": ("error",
        "An mbarrier gets more arrivals in a phase than it was initialised for. Count who arrives: "
        "threads, or one elected thread, or both CTAs of a cluster."),
    "barrier-init-count": ("error", "An mbarrier's count must be 1 to 1,048,575."),
    "barrier-init-again": ("error",
        "An mbarrier is initialised again, which the PTX ISA leaves undefined: what it has counted is lost. "
        "Initialise it once, before the loops; its phases go on by themselves."),
    "barrier-uninitialised": ("error",
        "An address is used as an mbarrier that no mbarrier.init has made one. A stage counts from 0, modulo "
        "the number of barriers."),
    "barrier-outside": ("error",
        "An mbarrier lies in memory that nobody allocated for it: what is placed there next destroys it. "
        "Each takes 8 bytes. A pipeline has two for each stage, full and empty: allocate 2 * num_stages."),
    "barrier-init-race": ("error",
        "An mbarrier is used before its initialisation is surely visible. After mbarrier.init, fence "
        "(fence.mbarrier_init), then synchronise the CTA, or the cluster where another CTA uses it."),
    "phase-lapped": ("error",
        "An mbarrier finished another phase before a waiting warp had seen the last one; the parity it "
        "waits for may never show again. Nobody may go a round ahead of a waiter."),
    "named-barrier": ("error",
        "Warps disagree on how many threads meet at a named barrier, or the count is no multiple of 32."),
    "cluster-exit": ("error",
        "A CTA may leave its cluster while another still writes to it or arrives on its barriers. Arrive "
        "and wait, in every thread, at the end: a cluster barrier."),
    "cluster-rank": ("error", "An address or a multicast mask names a CTA that the cluster does not have."),
    "exit-in-flight": ("error",
        "A CTA ends while a TMA transfer still uses its shared memory. Wait for loads on their barrier "
        "and for stores with cp.async.bulk.wait_group before the end."),
    "out-of-bounds": ("error",
        "An access lies outside its memory. Look at the tile's coordinates, the stage index and the "
        "guard."),
    "stored-twice": ("error",
        "Two CTAs store the same elements, and nothing orders the two. A persistent CTA begins at its own "
        "number and goes on by the number of CTAs in the grid (of clusters, where each has a tile of its own "
        "pair): is the grid as large as the loop's stride?"),
    "misaligned": ("error",
        "An address is not aligned for its access: 16 bytes for a vector, 128 for a TMA tile, 8 for an "
        "mbarrier."),
    "swizzle-alignment": ("warning",
        "A swizzled tile does not start where its pattern does (1,024 bytes for 128B, 512 for 64B, 256 "
        "for 32B). Align the buffer, or say so in the descriptor's base offset."),
    "tensor-map": ("error", "A tensor map cannot be used as it stands."),
    "aligned": ("error",
        "A whole warp must run this instruction together, and only some of its lanes do. Move it out of "
        "the branch at which the lanes part, or let all lanes take it."),
    "absent-lanes": ("error",
        "elect, shfl or vote waits for every lane that its mask names, and some never come: the hardware "
        "hangs. Move it out of the branch."),
    "trap": ("error", "The kernel ran a trap: an assertion of its own failed."),
    "instruction-limit": ("error", "The emulation reached its limit of instructions."),
}
# fmt: on

# The same for a kernel in which every warp that loads multiplies too.
WITHOUT_ROLES = {
    "overwrite-while-read": "A stage is written while wgmma or a TMA store may still read it. Wait for its "
    "reader with wait_group, synchronise all warps that read, and only then load or write it again.",
    "overwrite-before-use": "A TMA load writes over an earlier load of the same bytes that nobody has waited "
    "for. Ask for the next tile of a stage only after all warps have waited for this one and multiplied it.",
    "read-before-load": "Shared memory is read, but the reader has not waited for the TMA load (or cp.async) "
    "that fills it. Wait on the barrier of this stage, with the parity of this round.",
}
# The same where nothing but loads ends a phase of any mbarrier.
UNTOLD = (
    "A TMA load writes over an earlier load of the same bytes that nobody has waited for. What tells the "
    "producer that a stage is free? It takes a second barrier for each stage, which the consumers arrive on."
)
ONE_SLOT = (
    "Two stages share the same bytes of shared memory. The buffer of a load takes the same stage index as "
    "the barrier that the load signals."
)
STORED = (
    "A TMA store may still read what is written here. The thread that issued it waits for its group with "
    "cp.async.bulk.wait_group, then a barrier tells the others; only then anyone writes this buffer again."
)
EARLY = (
    "A stage is written while its last content may still be used. Release a stage only after the wait_group "
    "that covers its reader, and only once a round for each warp that its barrier counts."
)

_MERGED = "arrive_and_expect_tx("  # what TileLang makes of an arrival after copies


@dataclass(frozen=True)
class Place:
    """Where an instruction comes from: ``file``, ``line`` and ``code`` are the author's, "" and 0 where none
    is known; ``generated`` is the line of CUDA that the DSL made of it ("kernel.cu:81: tl::tma_load(...)").

    ``added``: the compiler put the instruction there by itself, after what the author's line became.
    """

    ptx: str = ""
    file: str = ""
    line: int = 0
    code: str = ""
    added: bool = False
    generated: str = ""

    def __str__(self) -> str:
        if not self.file:
            return self.generated or self.ptx
        text = f"{self.file}, line {self.line}" + (f": {self.code}" if self.code else "")
        return f"what the compiler added after {text}" if self.added else text


@dataclass
class Finding:
    """One thing found. ``count`` merges equal findings of other warps and CTAs; ``detail`` is the first
    one's.

    ``place`` is where. ``waiting`` is for deadlocks: a dict for each group of warps that wait alike, with
    ``role``, ``warps``, ``cta``, ``line``, ``at``, ``barrier`` and ``parity`` (where it is an mbarrier also
    ``phase``, ``arrivals_missing``, ``bytes_missing``), ``text``, ``could``: who could still have supplied
    what is missing, and ``lacks``: whether nobody can.
    """

    kind: str
    severity: str
    detail: str
    advice: str
    place: Place = field(default_factory=Place)
    count: int = 1
    # of a deadlock: one row for each group of waiting warps
    waiting: list[dict] = field(default_factory=list)
    more: tuple[str, ...] = ()  # what else there is to say, a sentence each
    ledger: tuple[Row, ...] = ()  # the mbarriers that it is about
    apart: bool = False  # no count of arrivals is its cause

    def __str__(self) -> str:
        where = str(self.place)
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        return (
            f"{self.severity}: {self.kind}: {self.detail}{times}"
            + (f"\n  at {where}" if where else "")
            + "".join(f"\n  {text}" for text in self.more)
            + f"\n  {self.advice}"
            + "".join(f"\n  {line}" for line in table(self.ledger).splitlines())
        )


class Findings:
    """Gathers findings and merges equal ones. Equal means the same kind, at the same place."""

    def __init__(self, kernel: Kernel, artifact: Artifact, has_roles: bool = True) -> None:
        self.has_roles = has_roles
        self.kernel, self.artifact, self.generated = kernel, artifact, artifact.source.splitlines()
        self.found: dict[tuple[str, str, str], Finding] = {}
        self.left_out = ""  # a kind that is found and not kept
        self._places: dict[int, Place] = {}
        self.heard: Callable[[Finding, int], object] = lambda finding, at: None  # of each new one

    def add(
        self,
        kind: str,
        at: int,
        detail: Detail,
        subject: str = "",
        waiting: Sequence[dict] = (),
        more: tuple[str, ...] = (),
        barriers: Iterable[MBarrier] = (),
        advice: str = "",
        first: bool = False,
        origin: Origin | None = None,
        plain: str = "",
    ) -> Finding:
        """``at`` is the instruction's index (-1: none); ``detail`` a string, or a function that makes it when
        it is needed; ``plain`` stands for one that raises. ``barriers`` are those that it is about,
        ``advice`` replaces that of its kind, ``first`` puts it before all others, ``origin`` is the author's
        line where it is not the instruction's.
        """
        place = self.place(at)
        if origin is not None:
            code = self.artifact.code(origin)
            place = replace(place, file=file_name(origin.file), line=origin.line, code=code, added=False)
        key = kind, str(place), subject
        if key in self.found:
            self.found[key].count += 1
            return self.found[key]
        severity, usual = KINDS[kind]
        if not self.has_roles:
            usual = WITHOUT_ROLES.get(kind, usual)
        otherwise = plain or f"{kind.replace('-', ' ')}: the emulator has no words for this case"
        text = told(detail, otherwise) if callable(detail) else detail
        finding = Finding(
            kind,
            severity,
            dsl_terms.beside(text, self.artifact.dsl),
            dsl_terms.beside(advice or usual, self.artifact.dsl)
            + dsl_terms.BESIDES.get((kind, self.artifact.dsl), ""),
            place,
            waiting=list(waiting),
            more=more,
            ledger=ledger.rows(barriers),
        )
        if kind == self.left_out:
            return finding
        self.found[key] = finding
        self.heard(finding, at)
        if first:
            self.lead(finding)
        return finding

    def lead(self, finding: Finding) -> None:
        """Put a finding before all others."""
        self.found = dict(sorted(self.found.items(), key=lambda item: item[1] is not finding))

    def ptx(self, at: int) -> str:
        instruction = self.kernel.instructions[at]
        text = (
            instruction.text
            if len(instruction.text) < 160
            else instruction.text[:110] + " ... " + instruction.text[-40:]
        )
        return f"PTX line {instruction.line}: {text}"

    def place(self, at: int) -> Place:
        """Where the instruction of this index comes from; nowhere for -1."""
        if at not in self._places:
            self._places[at] = self._place(at) if at >= 0 else Place()
        return self._places[at]

    def _place(self, at: int) -> Place:
        ptx, source = self.ptx(at), self.kernel.instructions[at].source
        if source is None:
            return Place(ptx)
        file, line = self.kernel.files.get(source[0], f"file {source[0]}"), source[1]
        generated = ""
        if file_name(file) == GENERATED:
            text = self.generated[line - 1].strip() if 0 < line <= len(self.generated) else ""
            text = text if len(text) <= 120 else text[:117] + "..."
            generated = f"{GENERATED}:{line}" + (f": {text}" if text else "")
        origin = self.artifact.author(file, line)
        if origin is None or generated and origin.file not in self.artifact.python:
            return Place(ptx, generated=generated)
        if origin.added and _MERGED in generated:
            origin = self._merged.get(line, origin)
        code = self.artifact.code(origin)
        return Place(ptx, file_name(origin.file), origin.line, code, origin.added, generated)

    def origin_with(self, text: str) -> Origin | None:
        """The author's line that has this text; None where none has, or several."""
        found = [
            Origin(file, number)
            for file, python in self.artifact.python.items()
            for number, line in enumerate(python.split("\n"), 1)
            if text in line.partition("#")[0]
        ]
        return found[0] if len(found) == 1 else None

    def line_with(self, text: str) -> str:
        """The author's line that has this text, as a place in words; "" where none has, or several."""
        found = self.origin_with(text)
        if found is None:
            return ""
        return str(Place(file=file_name(found.file), line=found.line, code=self.artifact.code(found)))

    def loop_of(self, instructions: Iterable[int]) -> tuple[Origin, str] | None:
        """The author's loop that these instructions come from, and its condition: the innermost `while` about
        most of them, as a `for` has an end, or else the innermost loop.
        """
        lines: dict[str, set[int]] = {}
        for source in {self.kernel.instructions[at].source for at in instructions}:
            if source is None:
                continue
            file, line = self.kernel.files.get(source[0], ""), source[1]
            origin = self.artifact.author(file, line)
            if origin is not None and not origin.added and origin.file in self.artifact.python:
                lines.setdefault(origin.file, set()).add(origin.line)
        for file, numbers in lines.items():
            try:
                tree = ast.parse(self.artifact.python[file])
            except SyntaxError:  # a cell with a magic
                continue
            loops = [
                node
                for node in ast.walk(tree)
                if isinstance(node, ast.For | ast.While)
                and 2 * sum(node.lineno <= n <= (node.end_lineno or 0) for n in numbers) > len(numbers)
            ]
            if loops:
                loop = max(loops, key=lambda node: (isinstance(node, ast.While), node.lineno))
                test = loop.test if isinstance(loop, ast.While) else None
                condition = "" if test is None or isinstance(test, ast.Constant) else ast.unparse(test)
                return Origin(file, loop.lineno), condition
        return None

    @cached_property
    def _merged(self) -> dict[int, Origin]:
        """TileLang makes one call of an arrival and the bytes of the copies before it. Line of such a call,
        that no line of the author's is known for, to the author's arrival; none where their numbers differ.
        """
        origins = self.artifact.origins
        calls = [
            (line, origin)
            for line, (text, origin) in enumerate(zip(self.generated, origins, strict=False), 1)
            if _MERGED in text and origin is not None and origin.added
        ]
        known = {(origin.file, origin.line) for origin in origins if origin is not None and not origin.added}
        arrivals = [
            Origin(file, number)
            for file in dict.fromkeys(origin.file for _, origin in calls)
            for number, text in enumerate(self.artifact.python.get(file, "").split("\n"), 1)
            if "mbarrier_arrive(" in text.partition("#")[0] and (file, number) not in known
        ]
        if len(calls) != len(arrivals):
            return {}
        return {line: arrival for (line, _), arrival in zip(calls, arrivals, strict=True)}

    def all(self) -> list[Finding]:
        """Errors first, in the order in which they were found."""
        return sorted(self.found.values(), key=lambda f: f.severity != "error")
