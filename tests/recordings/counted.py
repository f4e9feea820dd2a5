"""What ``counters.json`` holds, by the names that tests call kernels: "step09 cute", "step09, no multicast
cute" and "cuBLAS".
"""

from course_utils.recordings import measured

RECORDED = measured.load("counters")


def label(entry):
    """An entry's name, of a variant with its DSL: it has one name in both."""
    return f"{entry['name']} {entry['dsl']}" if "," in entry["name"] else entry["name"]


LAUNCHES = {
    (label(entry), tuple(launch["size"])): launch
    for entry in RECORDED["entries"]
    for launch in entry["launches"]
}


def launch(name, size):
    return LAUNCHES[name, size]


def read(name, size, counter):
    return launch(name, size)["counters"][counter]


def grows(before, after, size, counter):
    """The counter of one kernel as a multiple of another's."""
    return read(after, size, counter) / read(before, size, counter)
