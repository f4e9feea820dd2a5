"""``python -m course_utils.cli``, as the ``course`` command."""

from course_utils.cli import process

process()
