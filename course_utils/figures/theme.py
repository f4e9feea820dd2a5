"""A figure that a notebook shows without pyplot."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

DPI = 160


class Picture(Figure):
    """A matplotlib Figure that JupyterLab shows as a PNG."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=DPI)
        return buffer.getvalue()
