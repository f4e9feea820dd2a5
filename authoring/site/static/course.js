// Sphinx's captions of the lists of pages are headings that do not say of which level.
document.addEventListener("DOMContentLoaded", () => {
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) caption.setAttribute("aria-level", "2");
  for (const wide of document.querySelectorAll("article pre, article .table-wrapper")) wide.tabIndex = 0;  // scrolled by keys too
});

// The symptom map's search box: only rows with all of its words stay, and headings of tables that lost all are dimmed.
document.addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("symptom");
  if (!box) return;
  const rows = [...document.querySelectorAll("article table tbody tr")];
  const said = document.getElementById("symptom-found");
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits = words.every(word => row.textContent.toLowerCase().includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    for (const table of document.querySelectorAll("article table"))
      table.hidden = words.length > 0 && ![...table.tBodies].some(body => [...body.rows].some(row => !row.hidden));
    said.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  });
});
