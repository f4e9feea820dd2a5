const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const safe = text => String(text).replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
const number = value => Number(value).toLocaleString("en-US");
const pen = document.createElement("canvas").getContext("2d");
pen.font = '12px "DejaVu Sans", Verdana, system-ui, sans-serif';
const wide = text => pen.measureText(text).width;

function theme() {
  const body = document.body, root = document.documentElement;
  if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false" ? "dark" : "light";
  const words = `${body.className} ${root.className} ${root.getAttribute("theme") || ""} ${root.dataset.theme || ""} ${body.dataset.theme || ""}`;
  if (/\bvscode-high-contrast-light\b/.test(words)) return "light";  // VS Code writes vscode-high-contrast beside it
  if (/\b(vscode-high-contrast|dark)\b/.test(words)) return "dark";
  if (/\blight\b/.test(words)) return "light";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function follows_theme(host) {  // light or dark as the page is, also when that changes
  const themed = () => { host.dataset.theme = theme(); };
  themed();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
  for (const node of [document.body, document.documentElement]) new MutationObserver(themed).observe(node, {attributes: true, attributeFilter: ["class", "theme", "data-theme", "data-jp-theme-light"]});
}
