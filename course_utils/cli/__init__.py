"""The ``course`` command: doctor, clean, lab, track, level, check, climb, grade, receipt, source, trace,
reproduce, profile, tune, plot, tensormap, sync, bundle, import.

``parser`` says what can be asked; each group of commands is a module, loaded when it is asked for.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from importlib import import_module
from pathlib import Path

from rich.console import Console

from course_utils.compile.errors import CompileError

BUILD = Path("build")
EXTRAS = "pictures need `pip install -e '.[lab]'`, course sync needs `pip install -e '.[teach]'`"
EXIT_FAILED, EXIT_USAGE, EXIT_NOT_ALL_TRIED = 1, 2, 3


def process() -> None:
    """The process of the ``course`` command: ``main``, then the end of the process with its exit code.

    Freeing torch and a DSL object by object would take another second; the system does it at once.
    """
    gc.set_threshold(100_000, 20, 20)  # what torch and a DSL make as they are imported all stays
    code = main()
    atexit._run_exitfuncs()  # workers and temporary folders end here, as at any process's end
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:  # its reader left early, as `head` does
        code = EXIT_FAILED
    os._exit(code)


def main(argv: list[str] | None = None) -> int:
    """Run one command. Returns 0 fine, 1 something failed, 2 wrong usage, 3 not everything was tried."""
    from course_utils.cli import parser

    given = sys.argv[1:] if argv is None else argv
    course = parser.parser()
    parser.require_command(course, given)
    options = vars(course.parse_args(given))
    name = options.pop("command")
    module, function = options.pop("run").split(".")
    try:
        if name == "check" and not options["reference"]:
            parser.require_exercise(options["step"], options["file"])
            from course_utils.run import backends

            # beside the imports of the command and of the learner's file
            backends.warm_up(options["backend"])
        elif "what" in options and not options.get("reference"):
            parser.is_id(options["what"])
        command = getattr(import_module(f"course_utils.cli.{module}"), function)
        return command(Console(highlight=False), **options)
    except OSError as error:
        text = _of_a_file(error)
    except (CompileError, ValueError) as error:  # a MeasuredError is a ValueError
        text = str(error)
    except ModuleNotFoundError as error:  # of an extra: pictures need matplotlib, course sync needs nbformat
        text = f"{error}; {EXTRAS}"
    console = Console(stderr=True, highlight=False)
    console.print(f"course {name}: {text}", markup=False, soft_wrap=True)
    return EXIT_USAGE


def _of_a_file(error: OSError) -> str:
    """What a path that cannot be used is, without the system's number."""
    match error:
        case FileNotFoundError(filename=str(path)):
            return f"there is no file {path}"
        case IsADirectoryError(filename=str(path)):
            return f"{path} is a folder, and this takes a file"
        case PermissionError(filename=str(path)):
            return f"you may not read or write {path}"
        case OSError(errno=errno.ENOSPC | errno.EDQUOT, filename=str(path)):
            return f"{path} cannot be written, as no space is left for it: free some, and run this again"
        case OSError(filename=str(path), strerror=str(why)):
            return f"{path} cannot be read or written: {why}"
    return str(error)
