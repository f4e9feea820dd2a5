function count({data, values}) {
  const [rows, columns] = data.tiles[values.tile], down = values.M / rows, across = values.N / columns, tiles = down * across;
  const waves = Math.ceil(tiles / data.sms), last = tiles - (waves - 1) * data.sms, places = waves * data.sms;
  return {down, across, tiles, waves, last, places, idle: places - tiles};
}
function draw(view) {
  const {data, width} = view, {down, across, tiles, waves, last} = count(view), parts = [], top = 26, high = 236;
  // D, row after row; each row is cut where a wave ends
  const most = 236, longer = Math.max(view.values.M, view.values.N), h = Math.max(view.values.M / longer * most, 6), w = Math.max(view.values.N / longer * most, 6);
  parts.push(words(0, 14, `D: ${down} x ${across} = ${number(tiles)} tiles`, 'class="bold"'));
  for (let row = 0; row < down; row++) for (let tile = row * across; tile < (row + 1) * across;) {
    const wave = Math.floor(tile / data.sms), end = Math.min((row + 1) * across, (wave + 1) * data.sms), x = tile - row * across;
    const in_last = wave === waves - 1;
    parts.push(`<rect x="${x / across * w}" y="${top + row / down * h}" width="${(end - tile) / across * w}" height="${h / down}" shape-rendering="crispEdges" fill="var(--${in_last ? "green" : "grid"})" fill-opacity="${in_last ? 0.75 : wave & 1 ? 0.4 : 1}"/>`);
    tile = end;
  }
  parts.push(`<rect x="0" y="${top}" width="${w}" height="${h}" fill="none" stroke="var(--grey)"/>`);
  // the SMs in the last wave
  const left = 262, cell = 18;
  parts.push(words(left, 14, `last wave: ${last} of ${data.sms} SMs`, 'class="bold"'));
  for (let sm = 0; sm < data.sms; sm++) parts.push(`<rect x="${left + sm % 11 * cell}" y="${top + Math.floor(sm / 11) * cell}" width="${cell - 3}" height="${cell - 3}" rx="2" fill="var(--${sm < last ? "green" : "wait"})" fill-opacity="${sm < last ? 0.75 : 0.35}"/>`);
  // one bar a wave
  const from = left + 11 * cell + 34, room = width - from - 4, one = Math.min(26, room / waves), tall = 190;
  parts.push(words(from, 14, `${waves} wave${waves > 1 ? "s" : ""}, SMs at work in each`, 'class="bold"'));
  for (let wave = 0; wave < waves; wave++) {
    const busy = wave === waves - 1 ? last : data.sms, x = from + wave * one, gap = one > 4 ? 2 : 0.5;
    parts.push(`<rect x="${x}" y="${top}" width="${one - gap}" height="${tall * (1 - busy / data.sms)}" fill="var(--wait)" fill-opacity="0.35"/><rect x="${x}" y="${top + tall * (1 - busy / data.sms)}" width="${one - gap}" height="${tall * busy / data.sms}" fill="var(--green)" fill-opacity="0.75"/>`);
  }
  parts.push(words(from, top + tall + 18, "1", 'class="grey"'), waves > 1 ? words(from + (waves - 0.5) * one, top + tall + 18, waves, `text-anchor="${waves * one > room - 20 ? "end" : "middle"}" class="grey"`) : "");
  return {svg: parts.join(""), high: top + high + 4};
}
function says(view) {
  const {tiles, waves, last, places, idle} = count(view), {data} = view;
  return `<b>${number(tiles)} tiles in ${waves} wave${waves > 1 ? "s" : ""}</b>: the last has ${last}, and ${data.sms - last} SMs have none. Of ${waves} x ${data.sms} = ${number(places)} places ${number(idle)} stay empty: <b>${(100 * idle / places).toFixed(1)}%</b> of the chip's time.`;
}
return {draw, says, keys: "Move the sliders, also by arrow keys. D is taken row after row; its last wave is green."};
