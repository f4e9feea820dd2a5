"""The glossary's terms, each with its definition on hover and focus, where a page first says it."""

from __future__ import annotations

import html
import re

from docutils import nodes
from sphinx.application import Sphinx

from authoring.site.pages import anchor, terms
from authoring.sync import NOTEBOOKS

ONCE = (
    nodes.literal,
    nodes.reference,
    nodes.title,
    nodes.raw,
    nodes.literal_block,
    nodes.strong,
    nodes.caption,
)
OWN = "notebooks/glossary"  # explains them all


def _mark(app: Sphinx, doctree: nodes.document, name: str) -> None:
    if name == OWN or not name.startswith("notebooks/"):
        return
    left = terms((NOTEBOOKS / "glossary.md").read_text())
    words = "|".join(re.escape(term) for term in sorted(left, key=len, reverse=True))
    pattern = re.compile(rf"\b({words})s?\b")
    for text in list(doctree.findall(nodes.Text)):
        if any(isinstance(above, ONCE) for above in _above(text)):
            continue
        parts, at = [], 0
        for found in pattern.finditer(str(text)):
            definition = left.pop(found[1], None)
            if definition is None:
                continue
            parts += [nodes.Text(str(text)[at : found.start()]), _link(found[0], found[1], definition)]
            at = found.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(str(text)[at:])])


def _above(node: nodes.Node) -> list[nodes.Node]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def _link(words: str, term: str, definition: str) -> nodes.raw:
    told = html.escape(definition, quote=True)
    attributes = f'href="glossary.html#{anchor(term)}" data-told="{told}" aria-description="{told}"'
    return nodes.raw("", f'<a class="term" {attributes}>{words}</a>', format="html")


def setup(app: Sphinx) -> dict:
    """Sphinx's hook."""
    app.connect("doctree-resolved", _mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
