"""The loop: a launch's clusters one after another, each until all its warps have ended, or wait for another.

Clusters run in an order that the seed decides. Who runs next within one, and when bytes land, the schedule
says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from course_utils.ptx.parser import PtxError
from course_utils.run.emulator.core import residents, undefined
from course_utils.run.emulator.core.machine import Machine
from course_utils.run.emulator.core.probe import StopEmulation
from course_utils.run.emulator.core.releases import Awaited, Polls
from course_utils.run.emulator.core.residents import Aside, Elsewhere
from course_utils.run.emulator.core.schedule import Flying, Schedule
from course_utils.run.emulator.core.threads import Cluster, Path
from course_utils.run.emulator.isa.lowered import InFlight

# Warp instructions without any effect on memory or barriers before a loop counts as endless.
SPIN_LIMIT = 200_000


@dataclass(slots=True)
class ClusterEnded:
    """A cluster has ended, or cannot go on (not ``finished``). ``alone``: no other is set aside."""

    cluster: Cluster
    finished: bool
    alone: bool


@dataclass(slots=True)
class Deadlocked:
    """All that is left of a cluster waits, and nothing is on its way."""

    cluster: Cluster


@dataclass(slots=True)
class Failed:
    """Instruction ``at`` takes the value of registers that have none that counts: in flight, or
    (``unwritten``) never written. The path ends.
    """

    path: Path
    at: int
    unwritten: list[int]


def run(machine: Machine) -> bool:
    """Run every cluster. Says whether the kernel came to its end."""
    grid, size = machine.artifact.grid, machine.artifact.cluster
    if any(g % c for g, c in zip(grid, size, strict=True)) or 0 in grid:
        raise PtxError(f"a grid of {grid} CTAs is not made of whole clusters of {size}")
    xs, ys, zs = (range(0, g, c) for g, c in zip(grid, size, strict=True))
    clusters = [(x, y, z) for z in zs for y in ys for x in xs]
    machine.schedule.random.shuffle(clusters)
    try:
        with np.errstate(all="ignore"):  # floats overflow and divide by zero as on the chip: without a word
            _clusters(machine, clusters)
    except StopEmulation:
        return False
    return True


def _clusters(machine: Machine, origins: list[tuple[int, int, int]]) -> None:
    """Run clusters in this order, and the others in that of their numbers where one waits for them."""
    wanted = [origin for origin in origins if machine.only is None or _wanted(machine, origin)]
    unstarted = sorted(origins, key=lambda origin: origin[::-1])
    pending = machine.unit(residents.Unstarted)
    pending.begin(machine, unstarted)
    aside: list[Aside] = []
    while wanted or aside:
        wanted = [origin for origin in wanted if origin not in pending.cancelled]
        if not wanted and not aside:
            break
        has_room = not aside or len(aside) < residents.room(machine)
        due = [one for one in aside if one.is_due()]
        if has_room and (wanted or not due and unstarted):
            first = (
                [origin for origin in unstarted if not wanted or origin in wanted][0] if aside else wanted[0]
            )
            unstarted.remove(first)
            wanted = [origin for origin in wanted if origin != first]
            cluster = Cluster(machine, first)
            machine.unit(residents.Patience).limit = residents.CLUSTER_PATIENCE
        elif due:
            aside.remove(due[0])
            cluster = residents.resume(machine, due[0])
        elif untried := [one for one in aside if not one.tried]:
            aside.remove(untried[0])
            cluster = residents.resume(machine, untried[0], len(aside) + 1)
        else:
            _nobody_comes(aside, len(origins), residents.room(machine), bool(unstarted))
        machine.last_progress = machine.progress, machine.executed
        machine.unit(Polls).at.clear()
        machine.unit(Awaited).words = {word for one in aside for word in one.polled}
        machine.gives_way = False
        try:
            _cluster(machine, cluster, not aside)
        except Elsewhere as waits:
            aside.append(residents.set_aside(machine, cluster, waits.path))


def _nobody_comes(aside: list[Aside], count: int, room: int, more: bool) -> NoReturn:
    """Every cluster that has begun waits for a word that none of them changes."""
    path, values = aside[0].path, {"who": aside[0].path.warp}
    if more:
        path.halt("not-resident", "no room for who is waited for", **values, count=count, room=room)
    path.halt("livelock", "a word that nobody changes", **values)


def _cluster(machine: Machine, cluster: Cluster, alone: bool) -> None:
    try:
        _paths(machine, cluster)
    except Elsewhere:
        raise
    except BaseException:
        machine.probe.emit(ClusterEnded(cluster, False, alone))
        raise
    machine.probe.emit(ClusterEnded(cluster, True, alone))
    machine.flying.clear()
    machine.give_back(cluster.ctas)


def _wanted(machine: Machine, origin: tuple[int, int, int]) -> bool:
    """Is one of the CTAs that were asked for in the cluster at this origin?"""
    gx, gy, _ = machine.artifact.grid
    size, wanted = machine.artifact.cluster, machine.only or ()
    xs, ys, zs = (range(first, first + count) for first, count in zip(origin, size, strict=True))
    return any(x + gx * (y + gy * z) in wanted for z in zs for y in ys for x in xs)


def _paths(machine: Machine, cluster: Cluster) -> None:
    """Run one cluster until all its warps have ended. Raises StopEmulation where it cannot."""
    schedule, ready, flying = machine.schedule, machine.ready, machine.flying
    turn, land_early = schedule.turn, schedule.land_early
    while cluster.warps_left:
        if ready:
            # where warps only poll, nothing is held back from them
            idle = machine.executed - machine.last_progress[1] > residents.PATIENCE
            if flying and (idle or land_early and schedule.random.random() < land_early):
                _land(schedule, flying)
                continue
            path = schedule.next_path(ready, idle)
            if path.held and flying:  # nobody else can run: what lands may let them
                ready.append(path)
                _land(schedule, flying)
                continue
            path.woken = None
            _step(machine, path, turn)
        elif flying:
            _land(schedule, flying)
        elif not _expire(machine):
            machine.probe.emit(Deadlocked(cluster))
            raise StopEmulation


def _land(schedule: Schedule, flying: list[Flying]) -> None:
    load, begin, end = schedule.take(flying)
    load.land(begin, end)


def _expire(machine: Machine) -> bool:
    """Let each wait that may, and has not seen the present state, end in vain. Says whether there was one."""
    waiting = [p for p in machine.waiting if p.waits_for.expires and p.stamp != machine.progress]
    for path in waiting:
        path.stamp = machine.progress
        path.waits_for.expire(path)
        path.wake()
    return bool(waiting)


def _step(machine: Machine, path: Path, turn: int) -> None:
    """Run a path for up to ``turn`` segments, or until it waits, splits or ends."""
    program, registers, special = machine.program, path.warp.registers, path.warp.special
    masked = path.mask is not None
    functions, lengths = (program.masked if masked else program.full), program.length
    pc, meet = path.pc, path.reconverge
    while turn:
        function = functions[pc] or program.function(pc, masked)
        machine.executed += lengths[pc]
        try:
            following = function(path, registers, special)
        except (StopEmulation, PtxError):
            raise
        except Exception as error:  # whatever NumPy or Python make of a value that has no business there
            following = _failed(machine, path, function, error)
            machine.executed -= pc + lengths[pc] - following
        if following < 0:
            break
        pc = following
        if pc == meet:
            path.met()
            break
        turn -= 1
    else:
        path.pc = pc
        machine.ready.append(path)
    if machine.progress != machine.last_progress[0]:
        machine.last_progress = machine.progress, machine.executed
        if machine.gives_way and path.cta.cluster.warps_left:
            raise Elsewhere(path)
    elif path.cta.cluster.warps_left and residents.polls_in_vain(machine):
        raise Elsewhere(path)
    elif machine.executed - machine.last_progress[1] > SPIN_LIMIT:
        path.halt("livelock", "nothing changes", who=path.warp, count=SPIN_LIMIT)
    if machine.executed > machine.limit:
        path.halt("instruction-limit", "instruction limit", count=machine.executed)


def _failed(machine: Machine, path: Path, function: Callable[..., int], error: Exception) -> int:
    """An instruction failed in Python: on a register without a value, or it is our fault. The instruction
    to go on at, where it only computes with such a register.
    """
    trace, line = error.__traceback__, 0
    while trace:
        if trace.tb_frame.f_code is function.__code__:
            line = trace.tb_lineno
        trace = trace.tb_next
    path.at = at = function.__dict__["lines"][line - 1]
    instruction, lowered = machine.program.kernel.instructions[at], machine.program.lowered[at]
    registers, read = path.warp.registers, lowered.reads(instruction)
    targets = lowered.writes() if instruction.guard else ()
    unwritten = [r for r in read if registers[r] is None and r not in targets]
    in_flight = any(isinstance(registers[r], InFlight) for r in read)
    if unwritten and not in_flight:
        following = undefined.carried(path, at, unwritten)
        if following >= 0:
            return following
    if unwritten or in_flight:
        machine.probe.emit(Failed(path, at, unwritten))
        raise StopEmulation
    what = f"the emulator failed on this instruction ({type(error).__name__}: {error})"
    raise PtxError(f"PTX line {instruction.line}: {what}: {instruction.text[:160]}") from error
