function count({data, values}) {
  const cluster = data.clusters[values.in] || 1, [high, columns] = data.tiles[values.tile], rows = high * cluster, at_once = Math.floor(data.sms / cluster);
  const down = Math.ceil(values.M / rows), across = Math.ceil(values.N / columns), tiles = down * across;
  const waves = Math.ceil(tiles / at_once), last = tiles - (waves - 1) * at_once, places = waves * at_once;
  const useful = values.M * values.N / (places * rows * columns), over = 1 - values.M * values.N / (tiles * rows * columns);
  return {cluster, rows, columns, at_once, down, across, tiles, waves, last, places, idle: places - tiles, useful, over, what: cluster > 1 ? "pairs of tiles" : "tiles", who: cluster > 1 ? "clusters" : "SMs"};
}
function draw(view) {
  const {data, width} = view, {cluster, rows, columns, at_once, down, across, tiles, waves, last, what, who} = count(view), parts = [], top = 26, high = 236;
  // D, row after row; each row is cut where a wave ends; what hangs over the edge lies outside D's frame
  const most = 236, scale = most / Math.max(down * rows, across * columns), h = Math.max(down * rows * scale, 6), w = Math.max(across * columns * scale, 6);
  parts.push(words(0, 14, `D: ${down} x ${across} = ${number(tiles)} ${what}`, 'class="bold"'));
  for (let row = 0; row < down; row++) for (let tile = row * across; tile < (row + 1) * across;) {
    const wave = Math.floor(tile / at_once), end = Math.min((row + 1) * across, (wave + 1) * at_once), x = tile - row * across;
    const in_last = wave === waves - 1;
    parts.push(`<rect x="${x / across * w}" y="${top + row / down * h}" width="${(end - tile) / across * w}" height="${h / down}" shape-rendering="crispEdges" fill="var(--${in_last ? "green" : "grid"})" fill-opacity="${in_last ? 0.75 : wave & 1 ? 0.4 : 1}"/>`);
    tile = end;
  }
  parts.push(`<rect x="0" y="${top}" width="${w * view.values.N / (across * columns)}" height="${h * view.values.M / (down * rows)}" fill="none" stroke="var(--grey)"/>`);
  // the SMs in the last wave; those of a cluster are neighbours
  const left = 262, cell = 18, line = cluster > 1 ? 12 : 11;
  parts.push(words(left, 14, `last wave: ${last} of ${at_once} ${who}`, 'class="bold"'));
  for (let sm = 0; sm < data.sms; sm++) parts.push(`<rect x="${left + sm % line * cell}" y="${top + Math.floor(sm / line) * cell}" width="${cell - (cluster > 1 && sm % 2 === 0 ? 0 : 3)}" height="${cell - 3}" rx="2" fill="var(--${Math.floor(sm / cluster) < last ? "green" : "wait"})" fill-opacity="${Math.floor(sm / cluster) < last ? 0.75 : 0.35}"/>`);
  // one bar a wave
  const from = left + line * cell + 34, room = width - from - 4, one = Math.min(26, room / waves), tall = 190;
  parts.push(words(from, 14, `${waves} wave${waves > 1 ? "s" : ""}, ${who} at work in each`, 'class="bold"'));
  for (let wave = 0; wave < waves; wave++) {
    const busy = wave === waves - 1 ? last : at_once, x = from + wave * one, gap = one > 4 ? 2 : 0.5;
    parts.push(`<rect x="${x}" y="${top}" width="${one - gap}" height="${tall * (1 - busy / at_once)}" fill="var(--wait)" fill-opacity="0.35"/><rect x="${x}" y="${top + tall * (1 - busy / at_once)}" width="${one - gap}" height="${tall * busy / at_once}" fill="var(--green)" fill-opacity="0.75"/>`);
  }
  parts.push(words(from, top + tall + 18, "1", 'class="grey"'), waves > 1 ? words(from + (waves - 0.5) * one, top + tall + 18, waves, `text-anchor="${waves * one > room - 20 ? "end" : "middle"}" class="grey"`) : "");
  return {svg: parts.join(""), high: top + high + 4};
}
function says(view) {
  const {at_once, tiles, waves, last, places, idle, over, useful, what, who} = count(view);
  const edge = over > 0 ? ` With the ${(100 * over).toFixed(1)}% of each tile's area that hangs over the edge, <b>${(100 * useful).toFixed(1)}%</b> of what the chip could multiply is for D.` : "";
  return `<b>${number(tiles)} ${what} in ${waves} wave${waves > 1 ? "s" : ""}</b>: the last has ${last}, and ${at_once - last} ${who} have none. Of ${waves} x ${at_once} = ${number(places)} places ${number(idle)} stay empty: <b>${(100 * idle / places).toFixed(1)}%</b> of the chip's time.${edge}`;
}
return {draw, says, keys: "Move the sliders, also by arrow keys. D is taken row after row; its last wave is green."};
