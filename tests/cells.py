"""A notebook's cell without a notebook: what a call displayed."""

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output


def shown(call, *arguments, **options):
    """What a call returned, and what it displayed as text and as HTML; nothing may reach stderr."""
    InteractiveShell.instance()  # display() and its handles are what they are in a kernel
    with capture_output() as captured:
        result = call(*arguments, **options)
    assert captured.stderr == ""
    data = [output.data for output in captured.outputs]
    return result, "\n".join(d["text/plain"] for d in data), "\n".join(d.get("text/html", "") for d in data)
