"""Links from a verdict to the line of a cell that it names: "your cell, line 45" goes there in JupyterLab."""

from __future__ import annotations

import html
import re

# As a verdict's HTML says a place: words, and the code of that line where there is room for it.
_PLACE = re.compile(r"your cell, line (\d+)(?=(?:: <code>(.*?)</code>)?)")

# Finds the editor whose line has this number and this code, marks the line and scrolls to it. Where there is
# no such editor (GitHub, VS Code) a click does nothing.
_SCRIPT = """<script>
(() => {
  if (window.courseLines) return;
  window.courseLines = true;
  document.addEventListener("click", event => {
    const link = event.target.closest && event.target.closest("a.course-line");
    if (!link) return;
    event.preventDefault();
    event.stopPropagation();
    const code = link.dataset.code.split(" ... ")[0].trim();
    const editors = [...document.querySelectorAll(".jp-CodeCell .cm-content")];
    for (const editor of editors.reverse()) {
      const view = ((editor.cmTile || editor.cmView) || {}).view;
      if (!view || view.state.doc.lines < +link.dataset.line) continue;
      const line = view.state.doc.line(+link.dataset.line);
      if (!line.text.trim().startsWith(code)) continue;
      view.dispatch({selection: {anchor: line.from, head: line.to}});
      view.focus();
      const at = view.domAtPos(line.from).node;
      (at.nodeType === 1 ? at : at.parentElement).scrollIntoView({block: "center"});
      return;
    }
  }, true);
})();
</script>"""


def linked(markup: str) -> str:
    """A verdict's HTML with each place in a cell as a link, and the script that follows it; as it is where it
    names no line.
    """
    link = r"<a href='#' class='course-line' data-line='{0}' data-code='{1}'>your cell, line {0}</a>"

    def made(found: re.Match) -> str:
        code = html.escape(html.unescape(found[2] or ""), quote=True)
        return link.format(found[1], code)

    text, count = _PLACE.subn(made, markup)
    return text + _SCRIPT if count else markup
