"""Recorded measurements: results files in solutions/measured/, each with where its numbers come from."""

from __future__ import annotations

import re
from pathlib import Path

from course_utils.grading import steps
from course_utils.recordings import model, signing
from course_utils.recordings.model import MeasuredError, read, write

# recordings of other forms than the ladder's
FORMS = {
    "counters": model.Counters,
    "step11": model.Tuned,
    "tuned": model.Tuned,
    "tuned_ragged": model.Tuned,
    "ragged": model.Tuned,
    "inputs": model.Inputs,
    "tried": model.Tried,
    "peers": model.Peers,
}
SAME = ("gpu", "driver", "torch", "cublas_cuda")  # of what stands in one file
FOLDER = Path(__file__).parents[2] / "solutions" / "measured"


def load(name: str = "ladder") -> dict:
    """A recorded file (see ``FORMS``), or ``{"provenance": {}, "entries": []}`` where none was recorded yet.
    Raises MeasuredError.
    """
    path = FOLDER / f"{name}.json"
    if not path.exists():
        return {"provenance": {}, "entries": []}
    return read(path, form=_form(name))


def _form(name: str) -> type | None:
    return FORMS.get(name.partition("_")[0])  # peers_triton is one of peers


def ladder() -> dict:
    """The recorded ladder, with ``peers``, the timings of other libraries, of ``peers*.json``; ``also`` says
    where these come from. Raises MeasuredError.
    """
    also, peers = [], []
    for path in sorted(FOLDER.glob("peers*.json")):
        data = load(path.stem)
        timed = [entry for entry in data["entries"] if entry["timing"]]
        peers += [{"peer": entry["peer"], **entry["timing"]} for entry in timed]
        where = data["provenance"]
        also += [f"peers: {where['gpu']}, {where['date']}, driver {where['driver']}"] if timed else []
    return load("ladder") | {"peers": peers, "also": list(dict.fromkeys(also))}


def record(
    path: str | Path,
    name: str = "ladder",
    own_key: Path | None = None,
    unsigned: bool = False,
    add: bool = False,
) -> Path:
    """Copy a results file into solutions/measured/ as ``name``; with ``add`` into what is recorded there.

    Its signature must be that of a bundle which was made with the key in ``own_key``; with ``unsigned``
    nobody asks. It shows that these are results of that bundle's kernels as its run wrote them, and not who
    ran it: who has the archive has what signs. Raises MeasuredError for a file that is not one.
    """
    if not re.fullmatch(r"[a-z0-9_-]+", name):
        raise MeasuredError(f"{name!r} is no name for a recording: use small letters, digits, - and _")
    results = read(path, form=_form(name))
    if not results["entries"]:
        raise MeasuredError(f"{path} holds no entries; nothing was recorded")
    signature = results.pop("signature", None)
    if not unsigned and (problem := _not_signed(results, signature, own_key)):
        raise MeasuredError(f"{path} {problem}. `course import --unsigned` records it all the same")
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / f"{name}.json"
    write(target, _joined(load(name), results, target) if add else results)
    return target


def _joined(recorded: dict, results: dict, target: Path) -> dict:
    """``recorded`` with the entries of ``results``, in place of those of the same name and DSL. Raises
    MeasuredError where another machine or other versions gave them, or where entries have no names.
    """
    if not recorded["entries"]:
        return results
    here, there = recorded["provenance"], results["provenance"]
    differ = [field for field in SAME if here.get(field) != there.get(field)]
    differ += [
        one for one, number in there["versions"].items() if here["versions"].get(one, number) != number
    ]
    if differ:
        raise MeasuredError(f"these results cannot be added to {target.name}: other {', '.join(differ)}")
    if not all("name" in entry and "timings" in entry for entry in results["entries"]):
        raise MeasuredError(f"only kernels that a bundle checked can be added, by name, to {target.name}")
    new = {(entry["name"], entry["dsl"]) for entry in results["entries"]}
    where = {
        **here,
        "versions": here["versions"] | there["versions"],
        "date": " and ".join(sorted({*here["date"].split(" and "), there["date"]})),
    }
    where.pop("bundle", None)  # these entries are of two
    kept = [entry for entry in recorded["entries"] if (entry["name"], entry["dsl"]) not in new]
    dsls = list(steps.DSL_NAMES)
    entries = sorted(kept + results["entries"], key=lambda entry: dsls.index(entry["dsl"]))
    return {**recorded, "provenance": where, "entries": entries}


def _not_signed(results: dict, signature: object, own_key: Path | None) -> str:
    """Why this signature is not that of a bundle of ours, in words; empty where it is."""
    bundle = results["provenance"].get("bundle")
    if signature is None or not isinstance(bundle, str):
        return "is not signed: no bundle wrote it, or one without a key"
    try:
        own = signing.key(own_key, make=False) if own_key else b""
    except (OSError, signing.KeyFileError) as error:
        return f"is signed, and the key that `course bundle` used cannot be read here ({error})"
    if not signing.right(signing.derived(own, bundle), results, signature):
        return f"has a signature that is not right: it was changed, or {own_key} did not make its bundle"
    return ""
