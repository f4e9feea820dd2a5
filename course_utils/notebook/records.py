"""What was recorded on an H200, as tables and pictures: figures, counters, plans, the symptoms of a case."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from course_utils import library
from course_utils.drills.show import Shown
from course_utils.grading import steps
from course_utils.notebook.output import at_work, by, paragraph, say, tabled
from course_utils.plans import choose
from course_utils.recordings import measured, step11_results

COUNTED = {  # a counter's name, to its column and unit
    "seconds": ("us", 1e-6),
    "tensor_active": ("tensor cores active, %", 1e-2),
    "clock_hz": ("GHz", 1e9),
    "instructions": ("instructions, million", 1e6),
    "issue_active": ("issue slots used, %", 1e-2),
    "l2_bytes": ("L2, MB", 1e6),
    "dram_read_bytes": ("DRAM read, MB", 1e6),
    "tma_load_bytes": ("TMA loads, MB", 1e6),
}
PROFILED = {  # ncu's counter of one launch, to its column and unit
    "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum": ("loaded by TMA, MB", 1e6),
    "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum": ("stored by TMA, MB", 1e6),
    "smsp__inst_executed_op_tma_ld.sum": ("TMA loads", 1),
    "smsp__inst_executed_op_tma_st.sum": ("TMA stores", 1),
    "gpu__time_duration.sum": ("us", 1e-6),
}
LOOPED = {"power_w": ("W in a loop", 1.0), "clock_mhz": ("GHz in a loop", 1e3)}  # the same, without ncu


def recorded(*names: str) -> None:
    """Show recorded TFLOP/s and shares of cuBLAS for steps ("step05") or variants ("step09, no multicast").

    Raises nothing.
    """
    with at_work("reading the record", "The recorded figures cannot be shown") as place:
        found, sources = [], []
        for file, key in (("ladder", "step"), ("variants", "name")):
            data = measured.load(file)
            used = [(e[key], e) for e in data["entries"] if e[key] in names]
            found += used
            if used:
                sources.append(_source(file, data))
        runs = list(dict.fromkeys(_run(t) for _, e in found for t in e["timings"]))
        runs.sort(key=lambda run: run.endswith("sustained"))
        rows = []
        for name, e in sorted(found, key=lambda pair: names.index(pair[0])):
            figures = {
                _run(t): f"{t['tflops']:{'.0f' if t['tflops'] > 10 else '.2g'}} ({t['ratio']:.3f})"
                for t in e["timings"]
            }
            rows.append([name, steps.DSL_NAMES[e["dsl"]], *(figures.get(run, "not timed") for run in runs)])
        place.finish(tabled(["", "DSL", *runs], rows))
        text = f"TFLOP/s, and share of cuBLAS in the same run. Recorded: {'; '.join(sources)}."
        say(text + _missing(names, rows))


def cool_and_hot(*names: str) -> None:
    """Show the SM clock and the power that were read while steps ("step03") were timed, beside cuBLAS, on a
    cool chip and on a hot one. Raises nothing.
    """
    with at_work("reading the record", "The recorded clocks cannot be shown") as place:
        data = measured.load()
        found = [(e, t) for name in names for e in data["entries"] if e["step"] == name for t in e["timings"]]
        rows = [
            [
                *(e["step"], steps.DSL_NAMES[e["dsl"]], _run(t)),
                *(f"{t['tflops']:.0f}", f"{t['cublas_tflops']:.0f}"),
                *(f"{t['gpu']['clock_mhz']:.0f}", f"{t['gpu']['power_w']:.0f}"),
            ]
            for e, t in found
            if len(set(t["size"])) == 1
        ]
        place.finish(tabled(["", "DSL", "run", "TFLOP/s", "cuBLAS", "MHz", "W"], rows))
        say(f"Recorded: {_source('ladder', data)}.")


def counters(*names: str, size: int | tuple[int, int, int] = 4096) -> None:
    """Show recorded counters of one launch for steps ("step05"), variants ("step09, no multicast") or
    "cublas". ``size`` is M, N, K, or one number for all three. Raises nothing.
    """
    with at_work("reading the record", "The recorded counters cannot be shown") as place:
        sizes = [size] * 3 if isinstance(size, int) else list(size)
        data = measured.load("counters")
        rows, elsewhere = [], False
        for name in names:
            # a variant has one name in both DSLs; a step's are "step05 tilelang" and "step05 cute"
            found = [e for e in data["entries"] if name in (e["name"], e["step"])]
            for e in [e for e in found if e["name"] == name] or [e for e in found if "," not in e["name"]]:
                launch: dict = next((one for one in e["launches"] if list(one["size"]) == sizes), {})
                power = launch.get("power") or {}
                elsewhere = elsewhere or power.get("machine", 1) != 1
                cells = _cells(launch.get("counters", {}), COUNTED) + _cells(
                    {key: value for key, value in power.items() if value}, LOOPED
                )
                rows.append([name, steps.DSL_NAMES.get(e["dsl"], ""), *cells])
        head = ["", "DSL", *(words for words, _ in (COUNTED | LOOPED).values())]
        place.finish(tabled(head, rows))
        where = data["provenance"]
        say(
            f"One launch at {_at(sizes)}, caches cold. Recorded: {_source('counters', data)}, ncu "
            f"{where['ncu']}." + (f" {where['note']}" if elsewhere else "") + _missing(names, rows)
        )


def time_parts(step: str | None = None) -> None:
    """Draw where the time of each step goes, by its recorded counters: tensor cores at work, the clock, and
    tensor cores idle; ``step`` in full colour. Raises nothing.
    """
    with at_work("drawing the time", "The time cannot be drawn") as place:
        from course_utils.figures import counters as drawn

        place.finish(drawn.time_parts(measured.load("counters"), step))


def bound() -> None:
    """Draw how busy each step keeps the tensor cores, and at which clock. Raises nothing."""
    with at_work("drawing activity and clock", "Activity and clock cannot be drawn") as place:
        from course_utils.figures import counters as drawn

        place.finish(drawn.bound(measured.load("counters")))


def tried() -> None:
    """Show what was tried for step 11, one thing at a time: the recorded gain or loss of its share of cuBLAS,
    and why. Raises nothing.
    """
    with at_work("reading the recorded plans", "The recorded plans cannot be shown") as place:
        from course_utils.figures import candidates

        recorded = measured.load("tried")
        head, rows = candidates.table(recorded)
        if not rows:
            place.finish(paragraph("No plans are recorded yet."))
            return
        place.finish(Shown(tabled(head, rows).text, lambda: candidates.markup(head, rows)))
        say(
            f"Change of the share of cuBLAS, hot where it says so; within {candidates.NOISE:.1%} is none. "
            f"Recorded: {_source('tried', recorded)}."
        )


def predicted(seconds: Callable) -> None:
    """Draw the times that ``seconds(M, N, K, plan)`` says over the recorded ones of all plans. ``plan`` has
    ``block_M``, ``block_N``, ``cluster``, ``num_ctas`` and ``panel``. Raises nothing.
    """
    with at_work("asking your model", "Your model has no answer for a recorded plan") as place:
        from course_utils.figures import plans as drawn

        place.finish(drawn.predicted(step11_results.load(), seconds))


def shapes() -> None:
    """Draw the share of cuBLAS at each shape: step 11's, step 10's tile's, peers'. Raises nothing."""
    with at_work("drawing every shape", "The shapes cannot be drawn") as place:
        from course_utils.figures import plans as drawn

        place.finish(drawn.shapes(step11_results.load(), step11_results.peers()))


def library_plans(*sizes: int | tuple[int, int, int]) -> None:
    """Show the plan of cuBLAS's kernel at each size, read from its recorded name, under step 11's plan there.
    ``sizes`` are M, N, K, or one number for all three. Raises nothing.
    """
    with at_work("reading the recorded names", "The library's plans cannot be shown") as place:
        data = measured.load("counters")
        names = {
            tuple(launch["size"]): launch["kernel"]
            for entry in data["entries"]
            for launch in (entry["launches"] if entry["dsl"] == "cublas" else ())
        }
        rows, missing = [], []
        for size in sizes:
            M, N, K = (size,) * 3 if isinstance(size, int) else size
            plan = library.read(names.get((M, N, K), ""))
            if plan is None:
                missing.append(_at((M, N, K)))
                continue
            rows.append([_at((M, N, K)), *library.row("step 11", M, N, choose(M, N, K))])
            rows.append(["", *library.row("cuBLAS", M, N, plan)])
        place.finish(tabled(["M, N, K", *library.HEAD], rows))
        left_out = f" No kernel of cuBLAS is recorded at {', '.join(missing)}." if missing else ""
        say(
            "Ring: columns of a K tile x stages. Last: how full the last wave is, where as many CTAs work as "
            f"there are SMs, or as step 11's plan has. Recorded: {_source('counters', data)}.{left_out}"
        )


def chart(case: str) -> None:
    """Show what an H200 was recorded to do with a kernel to be repaired ("t3a"): the symptom alone.

    Raises nothing.
    """
    with at_work("reading the chart", "The chart cannot be shown") as place:
        data = measured.load("wrong")
        entry = next(e for e in data["entries"] if e["name"] == " ".join(steps.REPAIRS[case]))
        results = next(part for part in entry["checks"] if part["name"] == "results")
        rows = []
        for line in results["detail"].splitlines():
            sentence, at = line.split(". ")[0], "at M, N, K = "
            size, _, said = sentence.removeprefix(at).partition(": ")
            rows.append([size, said] if sentence.startswith(at) else ["all that were tried", sentence])
        where = data["provenance"]
        place.finish(tabled(["M, N, K", f"{where['gpu']}, {where['date']}"], rows))


def recorded_fences() -> None:
    """Show in how many launches an H200 got wrong numbers, by where a proxy fence stood. Raises nothing."""
    with at_work("reading the record", "The record cannot be shown") as place:
        data = json.loads((measured.FOLDER / "proxy_fence.json").read_text())
        counted = {
            (row["fence"], row["hazard"]): f"{row['launches_wrong']} of {row['launches']}"
            for row in data["rows"]
            if row["hand"] == "bar.sync"
        }
        fences, hazards = (list(dict.fromkeys(key[i] for key in counted)) for i in (0, 1))
        rows = [[fence, *(counted[fence, hazard] for hazard in hazards)] for fence in fences]
        place.finish(tabled(["fence", *hazards], rows))
        say(f"Launches with wrong numbers. Recorded: {data['device']['name']}, {data['recorded']}.")


def when_tma_pays() -> None:
    """Draw the recorded GB/s of tiles by each way, by their size. Raises nothing."""
    with at_work("drawing the record", "The record cannot be drawn") as place:
        from course_utils.figures import tma_pays

        place.finish(tma_pays.when_tma_pays(json.loads((measured.FOLDER / "tma_pays.json").read_text())))


def profiled_paths() -> None:
    """Show what ncu counted of one matrix, copied by a box, a 1-D bulk copy and threads. Raises nothing."""
    with at_work("reading the record", "The record cannot be shown") as place:
        data = json.loads((measured.FOLDER / "tma_seen.json").read_text())
        rows = [[row["copy"], *_cells(row["counters"], PROFILED)] for row in data["rows"]]
        place.finish(tabled(["X to Y by", *(words for words, _ in PROFILED.values())], rows))
        sizes = sorted({f"{row['bytes'] / 1e6:.3g} MB" for row in data["rows"]})
        say(
            f"One launch, caches cold, X of {_at(data['matrix'])} halves, {' and '.join(sizes)} each way. "
            f"Recorded: {data['gpu']}, {data['recorded']}, ncu {data['ncu']}."
        )


def recorded_scores() -> None:
    """Show the recorded times of case t6's kernels, and their speed over each of torch's ways. Raises
    nothing.
    """
    with at_work("reading the record", "The record cannot be shown") as place:
        data = json.loads((measured.FOLDER / "scores.json").read_text())
        peers = list(dict.fromkeys(entry["peer"] for entry in data["entries"]))
        rows: dict[tuple[str, str], list[str]] = {}
        for entry in data["entries"]:
            timed = entry["timing"]
            figures = [
                *(f"{entry['shape']}, {by(entry['at'])}", steps.DSL_NAMES[entry["dsl"]]),
                *(f"{timed['seconds'] * 1e6:,.0f}", f"{timed['tflops']:.0f}"),
                f"{timed['bytes_per_second'] / 1e12:.2f}",
            ]
            row = rows.setdefault((entry["shape"], entry["dsl"]), figures)
            row.append(f"{timed['ratio']:.2f}")
        head = ["batch x seq_q x seq_k x heads x kv_heads x D", "DSL", "us", "TFLOP/s", "TB/s"]
        place.finish(tabled([*head, *(f"over {peer}" for peer in peers)], list(rows.values())))
        say(
            "Bursts; TB/s counts Q, K and S once each. *Over 1.38* is 1.38 times as fast in the same run. "
            f"Recorded: {_source('scores', data)}."
        )


def attention_ladder(case: str | None = None) -> None:
    """Draw the recorded rungs of attention in both languages beside cuDNN and FlashAttention-2; ``case``
    ("a1b") in full colour. Raises nothing.
    """
    with at_work("drawing the ladder", "The ladder cannot be drawn") as place:
        from course_utils.figures import attention as drawn

        place.finish(drawn.ladder(_attention(), case))


def exponentials() -> None:
    """Draw how long an SM needs for a tile's products and for its exponentials, by D. Raises nothing."""
    with at_work("counting cycles", "The cycles cannot be drawn") as place:
        from course_utils.figures import attention as drawn

        place.finish(drawn.exponentials())


def recorded_attention(*cases: str) -> None:
    """Show recorded TFLOP/s and shares of cuDNN of cases ("a2b") at every shape. Raises nothing."""
    with at_work("reading the record", "The record cannot be shown") as place:
        data = _attention()
        found = [one for one in data["entries"] if one.get("tflops")]
        rows: dict[tuple[str, str], list[str]] = {}
        for entry in found:
            case = entry["rung"].partition("_")[0]
            if case in cases:
                name = f"{entry['shape']}: {by(entry['at'])}"
                row = rows.setdefault((name, entry["dsl"]), ["not timed"] * len(cases))
                row[cases.index(case)] = f"{entry['tflops']:.0f} ({entry['ratio']:.3f})"
        shapes = list(dict.fromkeys(name for name, _ in rows))
        order = sorted(rows, key=lambda key: (shapes.index(key[0]), list(steps.DSL_NAMES).index(key[1])))
        lines = [[name, steps.DSL_NAMES[dsl], *rows[name, dsl]] for name, dsl in order]
        place.finish(tabled(["batch x seq_q x seq_k x heads x kv_heads x D", "DSL", *cases], lines))
        said = (
            "TFLOP/s in bursts, a causal product counts half; in brackets the share of cuDNN in the same run."
        )
        say(f"{said} Recorded: {_source('attention', data)}.")


def recorded_tiles() -> None:
    """Show what other tiles of case a2b were recorded to reach, as shares of cuDNN. Raises nothing."""
    with at_work("reading the record", "The record cannot be shown") as place:
        data = _attention()
        rows: dict[tuple[str, str], list[str]] = {}
        for entry in data["plans"]["entries"]:
            tile = entry["rung"].partition(" ")[2].replace("x", " x ") or "the solution's own"
            if entry.get("ratio"):
                row = rows.setdefault((entry["shape"], tile), ["not timed"] * len(steps.DSL_NAMES))
                row[list(steps.DSL_NAMES).index(entry["dsl"])] = f"{entry['ratio']:.3f}"
        head = ["", "queries x keys of a tile", *steps.DSL_NAMES.values()]
        place.finish(tabled(head, [[*key, *row] for key, row in rows.items()]))
        say(f"Shares of cuDNN. Recorded: {_source('attention', data['plans'])}.")


def _attention() -> dict:
    return json.loads((measured.FOLDER / "attention.json").read_text())


def recorded_fp8_sums() -> None:
    """Show the error of fp8 sums on an H200, by one accumulator for all of K and by two. Raises nothing."""
    with at_work("reading the record", "The record cannot be shown") as place:
        data = json.loads((measured.FOLDER / "fp8_sums.json").read_text())
        rows = [[f"{row['K']:,}", *(f"{row[n]:.3%}" for n in ("one", "two"))] for row in data["rows"]]
        place.finish(tabled(["K", "one accumulator", "two"], rows))
        say(f"The error as a part of D. Recorded: {data['device']['name']}, {data['recorded']}.")


def recorded_fp8_products() -> None:
    """Show task 10c's solutions beside torch's fp8 products, with one scale for an operand and with the
    task's scales. Raises nothing.
    """
    with at_work("reading the record", "The record cannot be shown") as place:
        data = json.loads((measured.FOLDER / "scales.json").read_text())
        rows = [
            [
                steps.DSL_NAMES[entry["dsl"]],
                f"{entry['size'][0]:,}",
                entry["beside"],
                f"{entry['tflops']:.0f}",
                f"{entry['cublas_tflops']:.0f}",
                f"{entry['ratio']:.3f}",
            ]
            for entry in data["entries"]
        ]
        heads = ["language", "M, N, K", "torch's product has", "TFLOP/s, task 10c", "torch's", "ratio"]
        place.finish(tabled(heads, rows))
        say(f"Burst. Recorded: {_source('scales', data)}.")


def _source(file: str, data: dict) -> str:
    """Where a file's figures come from."""
    where = data["provenance"]
    return f"{file}.json: {where['gpu']}, {where['date']}, driver {where['driver']}"


def _missing(names: Iterable[str], rows: list[list[str]]) -> str:
    """A sentence about the names that have no row; empty if each has one."""
    missing = [name for name in names if not any(name == row[0] for row in rows)]
    return f" Nothing is recorded as {', '.join(missing)}." if missing else ""


def _cells(values: dict[str, float], columns: dict[str, tuple[str, float]]) -> list[str]:
    """What was read, in the columns' units."""
    return [
        _figure(values[key] / unit) if key in values else "not read" for key, (_, unit) in columns.items()
    ]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _run(timing: dict) -> str:
    """ "4096 burst" or "8192 x 2304 x 5120 burst"."""
    return f"{_at(timing['size'])} {timing['mode']}"


def _at(size: Sequence[int]) -> str:
    """ "4096" or "8192 x 2304 x 5120"."""
    return str(size[0]) if len(set(size)) == 1 else by(size)
