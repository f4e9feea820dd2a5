"""Instructions to Python functions: each straight run of instructions becomes one generated function, made
when first run.

A function takes the path, the warp's registers and its special registers, and returns the index of the next
instruction. Each segment has two forms: for all 32 lanes, and for some of them, where a write merges with
what the other lanes hold if one of them may still read that register (live-variable analysis decides).
Blocking instructions end a segment.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import networkx

from course_utils.ptx.parser import Imm, Instr, Kernel, Mem, Not, PtxError, Reg, Sym, Vec
from course_utils.run.emulator.isa.lowered import Lowered, Mask
from course_utils.run.emulator.isa.registers import both, merge

_VOLATILE = {"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}
_NEVER = -2  # where two ways meet that do not
# special registers that are the same in the warp of one number of each CTA of one rank, with variables' names
_FIXED = ("%tid.", "%ntid.", "%laneid", "%lanemask", "%warpid", "%nctaid.", "%cluster_ctarank")


FIXED = "fixed"  # among a warp's special registers: what its fixed registers hold, see ``Program._fix``


class Program:
    """A kernel ready to run: its control flow, what is live where, and the functions generated so far.

    ``lower`` makes each instruction a ``Lowered``, and ``counted`` names the counter of the machine's that
    an instruction adds to as it runs, "" for none. ``watched`` says of some instructions, by their index,
    what to call with the path before each runs. Raises PtxError for what is not modelled.
    """

    def __init__(
        self,
        kernel: Kernel,
        lower: Callable[[Instr], Lowered],
        counted: Callable[[Instr], str] = lambda instruction: "",
        watched: Callable[[Program], Mapping[int, Callable[[Any], None]]] = lambda program: {},
    ) -> None:
        self.kernel = kernel
        count = len(kernel.instructions)
        if kernel.unmodelled:
            raise PtxError(kernel.unmodelled[0])
        if not count:
            raise PtxError(f"the kernel {kernel.name} has no instructions")
        self.lowered = [lower(instruction) for instruction in kernel.instructions]
        self._counted = [""] * count  # of instructions that only compute: counted by segment
        for i, (instruction, lowered) in enumerate(zip(kernel.instructions, self.lowered, strict=True)):
            if lowered.function is not None and (name := counted(instruction)):
                if lowered.kind in ("warp", "blocking"):
                    lowered.function = _counting(name, lowered.function)
                else:
                    self._counted[i] = name
        local = sum(v.size for v in kernel.variables if v.space in ("local", "param"))
        self.local_size = -(-local // 16) * 16
        # where whoever comes there ends
        self.exits = {
            i
            for i, (instruction, lowered) in enumerate(zip(kernel.instructions, self.lowered, strict=True))
            if lowered.kind == "exit" and not instruction.guard
        }
        self.full: list[Callable[..., int] | None] = [None] * (count + 1)
        self.masked: list[Callable[..., int] | None] = [None] * (count + 1)
        self.length = [0] * (count + 1)
        self._segments()
        self._liveness()
        self._postdominators()
        self._fix()
        hidden = {r for lowered in self.lowered for r in lowered.hidden_writes}
        moved: set[int] = set()
        for _ in range(8):  # registers that a copy may have brought an accumulator to
            moved |= {
                target.index
                for lowered, i in zip(self.lowered, kernel.instructions, strict=True)
                if lowered.kind == "copy"
                and (target := lowered.targets[0]) is not None
                and isinstance(i.operands[1], Reg)
                and i.operands[1].index in hidden | moved
            }
        self.moved = sorted(moved - hidden)
        self.watched = watched(self)
        self._sets: dict[int, bytes] = {}
        self._divergences: dict[int, tuple[int, int, int]] = {}

    # Control flow

    def _segments(self) -> None:
        instructions, starts = self.kernel.instructions, {0}
        for i, instruction in enumerate(instructions):
            if instruction.target >= 0:
                starts |= {instruction.target, i + 1}
            elif self.lowered[i].cut or self.lowered[i].kind == "exit":
                starts.add(i + 1)
        self.ends: dict[int, int] = {}  # first instruction of each segment: one past its last
        order = sorted(s for s in starts if s < len(instructions))
        for begin, end in zip(order, order[1:] + [len(instructions)], strict=True):
            self.ends[begin] = end
        self.successors: dict[int, list[int]] = {}
        for begin, end in self.ends.items():
            last = instructions[end - 1]
            leaves = last.target >= 0 or self.lowered[end - 1].kind == "exit"
            after = [end] if end < len(instructions) and (last.guard or not leaves) else []
            self.successors[begin] = [last.target, *after] if last.target >= 0 else after

    def _liveness(self) -> None:
        use: dict[int, int] = {}
        define: dict[int, int] = {}
        for begin, end in self.ends.items():
            used = defined = 0
            for i in range(begin, end):
                instruction, lowered = self.kernel.instructions[i], self.lowered[i]
                for register in lowered.reads(instruction):
                    if not defined >> register & 1:
                        used |= 1 << register
                if not instruction.guard:
                    for register in lowered.writes():
                        defined |= 1 << register
            use[begin], define[begin] = used, defined
        self.live = dict.fromkeys(self.ends, 0)
        self.defines = {
            begin: sum(1 << r for r in {r for i in range(begin, end) for r in self.lowered[i].writes()})
            for begin, end in self.ends.items()
        }
        changed = True
        while changed:
            changed = False
            for begin in sorted(self.ends, reverse=True):
                out = 0
                for successor in self.successors[begin]:
                    out |= self.live[successor]
                now = use[begin] | (out & ~define[begin])
                if now != self.live[begin]:
                    self.live[begin], changed = now, True

    def _postdominators(self) -> None:
        """Where the two ways of a branch meet: what dominates its segment in the graph of the reversed edges,
        from an exit that all ends share.
        """
        end = -1
        backwards = networkx.DiGraph()
        backwards.add_node(end)
        for begin, after in self.successors.items():
            backwards.add_edges_from((following, begin) for following in after or [end])
        ending = networkx.descendants(backwards, end)
        lost = networkx.DiGraph(
            (begin, following)
            for begin, after in self.successors.items()
            if begin not in ending
            for following in after
        )
        # the segments of loops without a way out
        self.endless: set[int] = set().union(*networkx.attracting_components(lost))
        # such a loop gets one, behind its last segment: what is before it still meets there
        for begin in sorted(self.ends, reverse=True):
            if begin not in ending:
                backwards.add_edge(end, begin)
                ending |= {begin} | networkx.descendants(backwards, begin)
        nearest = networkx.immediate_dominators(backwards, end)
        self.meets: dict[int, int] = {}  # segment: where its branch reconverges
        for begin in self.ends:
            meet = nearest.get(begin, end)
            self.meets[begin] = _NEVER if meet == end else meet

    def _fix(self) -> None:
        """Find the registers that hold the same in the warps of one number of all CTAs of one rank, whenever
        they are computed: written by one instruction, from thread numbers, variables and such registers. What
        they hold is computed once for all of those warps.
        """
        nearest = {**networkx.immediate_dominators(networkx.DiGraph(self.successors), 0), 0: 0}
        writes = Counter(register for lowered in self.lowered for register in lowered.writes())
        home: dict[int, int] = {}  # the segment that writes such a register

        def comes_before(segment: int, begin: int) -> bool:
            while begin not in (segment, 0):
                begin = nearest[begin]
            return begin == segment

        def same(operand: Any, begin: int) -> bool:
            if isinstance(operand, Reg):
                return operand.index in home and comes_before(home[operand.index], begin)
            if isinstance(operand, Sym):
                return not operand.name.startswith("%") or operand.name.startswith(_FIXED)
            return isinstance(operand, Imm) or isinstance(operand, Not) and same(operand.item, begin)

        self.fixed: set[int] = set()  # the instructions that write such a register
        self.fixed_bases: set[tuple[int, int]] = set()  # and which operands are an address by such a register
        for begin in (begin for begin in self.ends if begin in nearest):
            for i in range(begin, self.ends[begin]):
                lowered, sources = self.lowered[i], [operand for operand, _ in self.lowered[i].sources]
                for n, one in enumerate(sources):
                    if isinstance(one, Mem) and one.offset and not one.coordinates and same(one.base, begin):
                        self.fixed_bases.add((i, n))
                if lowered.kind not in ("value", "copy") or self.kernel.instructions[i].guard:
                    continue
                target = lowered.targets[0] if len(lowered.targets) == 1 and not lowered.unpack else None
                if target and writes[target.index] == 1 and all(same(one, begin) for one in sources):
                    home[target.index] = begin
                    self.fixed.add(i)
        self.kept = self.fixed | {i for i, _ in self.fixed_bases}  # what they compute is kept

    def divergence(self, branch: int, taken: int, other: int) -> tuple[int, int, int]:
        """(where the two ways meet, registers that each must not spoil for the other) of a branch, as bit
        sets.
        """
        if branch not in self._divergences:
            segment = max(begin for begin in self.ends if begin <= branch)
            meet = self.meets[segment]
            after = self.live[meet] if meet >= 0 else 0
            both_write = self._written_between(taken, meet) & self._written_between(other, meet)
            live = [self.live[way] if way != meet else after for way in (taken, other)]
            self._divergences[branch] = meet, after | live[1] | both_write, after | live[0] | both_write
        return self._divergences[branch]

    def _written_between(self, start: int, meet: int) -> int:
        written, seen, stack = 0, set[int](), [start]
        while stack:
            node = stack.pop()
            if node == meet or node in seen:
                continue
            seen.add(node)
            written |= self.defines[node]
            stack += self.successors[node]
        return written

    def register_set(self, bits: int) -> bytes:
        """A bit set as bytes, for a quick look-up by register."""
        if bits not in self._sets:
            self._sets[bits] = bytes(bits >> i & 1 for i in range(len(self.kernel.widths)))
        return self._sets[bits]

    def reached(self, pc: int) -> Iterator[int]:
        """The instructions that can still be reached from one."""
        seen, stack = set[int](), [pc]
        while stack:
            node = stack.pop()
            if node in seen or node < 0 or node >= len(self.kernel.instructions):
                continue
            seen.add(node)
            begin = max(b for b in self.ends if b <= node)
            yield from range(node, self.ends[begin])
            stack += self.successors[begin]

    # Code

    def function(self, pc: int, masked: bool) -> Callable[..., int]:
        """The generated function that runs from this instruction to its segment's end."""
        functions = self.masked if masked else self.full
        function = functions[pc]
        if function is None:
            begin = pc if pc in self.ends else max(b for b in self.ends if b < pc)
            function = functions[pc] = self._generate(pc, self.ends[begin], masked)
            self.length[pc] = self.ends[begin] - pc
        return function

    def _generate(self, begin: int, end: int, masked: bool) -> Callable[..., int]:
        lines, at = ["def segment(p, R, X):"], [begin]
        if begin in self.endless:
            lines.append(f" p.at = {begin}; p.endless()")
            at.append(begin)
        scope: dict[str, Any] = {"both": both, "merge": merge}
        if not masked and not self.kept.isdisjoint(range(begin, end)):
            lines.append(f" C = X[{FIXED!r}]")
            at.append(begin)
        if masked:
            lines.append(" m = p.mask; pr = p.protect")
            at.append(begin)
        for name, count in Counter(filter(None, self._counted[begin:end])).items():
            lines.append(f" p.machine.counts[{name!r}] += {count}")
            at.append(begin)
        for i in range(begin, end):
            for line in self._emit(i, masked, scope):
                lines.append(" " + line)
                at.append(i)
        last = self.kernel.instructions[end - 1]
        kind = self.lowered[end - 1].kind
        goes_on = last.target < 0 and kind not in ("exit", "blocking")
        if goes_on or last.guard and kind != "branch":
            lines.append(f" return {end}" if end < len(self.kernel.instructions) else " return p.exit(None)")
            at.append(end - 1)
        exec(compile("\n".join(lines), f"<ptx {begin}>", "exec"), scope)
        function: Callable[..., int] = scope["segment"]
        function.__dict__["lines"] = at
        return function

    def _emit(self, i: int, masked: bool, scope: dict[str, Any]) -> Iterator[str]:
        instruction, lowered = self.kernel.instructions[i], self.lowered[i]
        if lowered.kind == "nothing":
            return
        mask = "m" if masked else "None"
        following = i + 1
        if lowered.kind == "branch":
            if not instruction.guard:
                yield f"return {instruction.target}"
                return
            register, negated = instruction.guard
            taken, other = (following, instruction.target) if negated else (instruction.target, following)
            yield f"q = R[{register.index}]"
            parts = f"p.branch(q, {taken}, {other}, {i})"
            yield f"return {taken} if q is True else {other} if q is False else {parts}"
            return
        indent = ""
        if instruction.guard:
            register, negated = instruction.guard
            yield f"q = {_negate(register) if negated else f'R[{register.index}]'}"
            if lowered.kind == "exit":
                yield f"if q is True: p.at = {i}; return p.exit({mask})"
                yield f"if q is not False: return p.exit_some(q, {following})"
                return
            yield f"k = {mask} if q is True else q is not False and both(q, {mask})"
            yield "if k is not False:"
            mask, indent = "k", " "
        if lowered.kind == "exit":
            yield f"p.at = {i}; return p.exit({mask})"
            return
        if i in self.watched:
            scope[f"w{i}"] = self.watched[i]
            yield f"{indent}p.at = {i}; w{i}(p)"
        scope[f"f{i}"] = lowered.function
        values = ", ".join(
            self._expression(operand, width) if masked else self._kept(i, n, self._expression(operand, width))
            for n, (operand, width) in enumerate(lowered.sources)
        )
        if lowered.kind == "blocking":
            yield f"{indent}p.at = {i}; return f{i}(p, {mask}, {following}{', ' + values if values else ''})"
            return
        if lowered.kind == "copy":
            call = values
        elif lowered.kind == "value":
            call = f"f{i}({values})"
        else:
            call = f"f{i}(p, {mask}{', ' + values if values else ''})"
            yield f"{indent}p.at = {i}"
        targets = [(n, register) for n, register in enumerate(lowered.targets) if register is not None]
        if not lowered.targets:
            yield indent + call
        elif mask == "None":
            names = ", ".join(f"R[{r.index}]" if r else "_" for r in lowered.targets)
            if i in self.fixed and lowered.kind == "value":
                call = f"C[{i}] if {i} in C else C.setdefault({i}, {call})"
            alone = "," * (lowered.unpack and len(lowered.targets) == 1)
            yield f"{indent}{names}{alone} = {call}"
        else:
            yield f"{indent}t = {call}"
            for n, register in targets:
                value = f"t[{n}]" if lowered.unpack else "t"
                merged = f"merge(R[{register.index}], {value}, {mask}, {register.width})"
                if not instruction.guard:
                    merged = f"{merged} if pr[{register.index}] else {value}"
                yield f"{indent}R[{register.index}] = {merged}"

    def _kept(self, i: int, n: int, expression: str) -> str:
        """The address that operand ``n`` of an instruction is, computed once where it is fixed."""
        if (i, n) not in self.fixed_bases:
            return expression
        return f"(C[{i}, {n}] if ({i}, {n}) in C else C.setdefault(({i}, {n}), {expression}))"

    def _expression(self, operand: Any, width: int) -> str:
        if isinstance(operand, Reg):
            return f"R[{operand.index}]"
        if isinstance(operand, Imm):
            if width == 1:
                return str(bool(operand.value))
            value = operand.value
            if operand.is_float and operand.width != width and width in (32, 64):
                value = _float_immediate(value, operand.width, width)
            return str(value & ((1 << width) - 1))
        if isinstance(operand, Not):
            return _negate(operand.item)
        if isinstance(operand, Sym):
            if operand.name in _VOLATILE:
                return "p.machine.tick()"
            return f"X[{operand.name!r}]" + (f" + {operand.offset}" if operand.offset else "")
        if isinstance(operand, Vec):
            return "(" + "".join(self._expression(item, width) + ", " for item in operand.items) + ")"
        if isinstance(operand, Mem):
            base = self._expression(operand.base, 64)
            if operand.offset > 0:
                base = f"{base} + {operand.offset}"
            elif operand.offset < 0:
                base = f"{base} - {-operand.offset}"
            if operand.coordinates:
                return f"({base}, ({''.join(self._expression(c, 32) + ', ' for c in operand.coordinates)}))"
            return base
        raise PtxError(f"an operand that is not modelled: {operand}")


def _counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` of a warp instruction, which then also counts as run."""

    def run(path: Any, mask: Mask, *values: Any) -> Any:
        path.machine.counts[name] += 1
        return function(path, mask, *values)

    return run


def _float_immediate(bits: int, width: int, to: int) -> int:
    """A 0d immediate where the instruction wants an f32, or the reverse."""
    value = struct.unpack("<f" if width == 32 else "<d", bits.to_bytes(width // 8, "little"))[0]
    return int.from_bytes(struct.pack("<f" if to == 32 else "<d", value), "little")


def _negate(register: Reg) -> str:
    return f"(not R[{register.index}] if R[{register.index}].__class__ is bool else ~R[{register.index}])"
