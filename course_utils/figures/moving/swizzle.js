const bits = (value, most) => value.toString(2).padStart(most > 4 ? 3 : most > 2 ? 2 : 1, "0");
function at({data, values}) {
  const mode = data.modes[values.swizzle], {row, column} = values, piece = Math.floor(column * data.half / data.unit);
  const inside = column * data.half % data.unit, address = mode.lies[row][piece] + inside;
  return {mode, row, column, piece, inside, address, plain: row * mode.span + column * data.half, lies: mode.lies[row][piece] % mode.span / data.unit, group: mode.lies[row][piece] % data.line / data.unit};
}
function changed({data, values}, name, root) {  // a narrower row has fewer columns
  const most = data.modes[values.swizzle].span / data.half - 1;
  values.column = Math.min(values.column, most);
  root.querySelector("[data-name=column]").max = most;
}
function key({data, values}, pressed) {
  const by = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[pressed];
  if (!by) return false;
  values.row = clamp(values.row + by[0], 0, 7);
  values.column = clamp(values.column + by[1] * data.unit / data.half, 0, data.modes[values.swizzle].span / data.half - 1);
  return true;
}
const click = (view, [row, piece]) => { view.values.row = row; view.values.column = piece * view.data.unit / view.data.half; };

function draw(view) {
  const {data, width} = view, {mode, row, piece, group} = at(view), count = mode.span / data.unit, parts = [], left = Math.floor(width * 0.42), tall = 24;
  const cell = (left - 54) / 8, right = left + 64, other = (width - right - 2) / 8;
  const look = (r, p) => p === piece ? "green" : "pale", edge = (r, p) => r === row && p === piece ? 'stroke="var(--ink)" stroke-width="2.5"' : 'stroke="var(--grid)"';
  parts.push(words(0, 14, "the tile, as you index it", 'class="bold"'), words(right, 14, "shared memory, lines of 128 bytes", 'class="bold"'));
  for (let p = 0; p < count; p++) parts.push(centre(48 + cell * (p + 0.5), 36, `p${p}`, 'class="grey"'));
  for (let r = 0; r < 8; r++) {
    parts.push(words(0, 60 + r * tall, `row ${r}`, `class="${r === row ? "bold" : "grey"}"`));
    for (let p = 0; p < count; p++) parts.push(`<g data-at="${r} ${p}" style="cursor:pointer">${box(48 + p * cell, 44 + r * tall, cell - 2, tall - 3, look(r, p), edge(r, p))}${centre(48 + (p + 0.5) * cell - 1, 59 + r * tall, cell > 30 ? `${r},${p}` : p)}</g>`);
  }
  const lines = 8 * mode.span / data.line, hits = Array(8).fill(0);
  for (let g = 0; g < 8; g++) parts.push(centre(right + other * (g + 0.5), 36, `${g * 4}-${g * 4 + 3}`, `class="${g === group ? "bold" : "grey"}"`));
  for (let l = 0; l < lines; l++) parts.push(words(right - 8, 60 + l * tall, l * data.line, 'text-anchor="end" class="grey"'));
  mode.lies.forEach((row_of, r) => row_of.forEach((offset, p) => {
    const l = Math.floor(offset / data.line), g = offset % data.line / data.unit;
    if (p === piece) hits[g] += 1;
    parts.push(`<g data-at="${r} ${p}" style="cursor:pointer">${box(right + g * other, 44 + l * tall, other - 2, tall - 3, look(r, p), edge(r, p))}${centre(right + (g + 0.5) * other - 1, 59 + l * tall, `${r},${p}`)}</g>`);
  }));
  const y = 44 + lines * tall + 12;
  parts.push(words(right - 8, y + 14, "reads", 'text-anchor="end"'));
  hits.forEach((n, g) => { if (n) parts.push(box(right + g * other, y, other - 2, 20, n > 1 ? "wait" : "green"), centre(right + (g + 0.5) * other - 1, y + 14, n, n > 1 ? 'class="bold"' : "")); });
  return {svg: parts.join(""), high: Math.max(44 + 8 * tall, y + 26)};
}
function says(view) {
  const {data, values} = view, {mode, row, column, piece, inside, address, plain, lies, group} = at(view), count = mode.span / data.unit, ways = mode.ways[piece];
  const moved = values.swizzle === "none" ? "No swizzle: it stays there." : `Piece ${bits(piece, count)} xor ${bits(mode.xor[row], count)} = ${bits(lies, count)}: it lies at place ${lies}.`;
  return `<div>Row ${row}, column ${column}: piece ${piece}, byte ${inside} in it. Plain address ${row} x ${mode.span} + ${column} x ${data.half} = ${plain}. ${moved}</div>`
    + `<div><b>Address ${address}</b>, bank group ${group} (banks ${group * 4} to ${group * 4 + 3}). Reading piece ${piece} of eight rows takes <b>${ways} turn${ways > 1 ? "s" : ""}</b>: ${ways > 1 ? `${ways} of them lie in the same four banks.` : "no two of them share a bank."}</div>`;
}
return {draw, says, changed, key, click, lines: 4, keys: "Arrow keys move the row and the piece; or click one. p2 of row 3 is written 3,2."};
