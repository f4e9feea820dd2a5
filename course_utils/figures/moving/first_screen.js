const SIZE = 30, HIGH = 250;
function places({data, at, width}) {
  const hub = {x: width * 0.5, y: 126, r: 78}, turn = stage => (stage / data.stages) * 2 * Math.PI - Math.PI * 0.75;
  const slot = stage => [hub.x + hub.r * Math.cos(turn(stage)), hub.y + hub.r * Math.sin(turn(stage))];
  return {hub, slot, spots: data.times.map(([asked, landed, begun, over], tile) => {
    const [sx, sy] = slot(tile % data.stages), home = [40 + (tile % 4) * 36, 104 + Math.floor(tile / 4) * 36];
    const out = [width - 168 + 36 * (tile % 4), 178 + Math.floor(tile / 4) * 34];
    if (at < asked) return [...home, "lane"];
    if (at < landed) return [204 + (hub.x - hub.r - 250) * (at - asked) / (landed - asked), 76 + 42 * (tile % data.stages), "blue"];  // a lane each
    if (at < begun) return [sx, sy, "teal"];
    if (at < over) return [width - 114, 90, "green"];
    return [...out, "lane"];
  })};
}

// the tiles stay the same elements, so that they glide
function draw(view, plot) {
  const {data, width} = view, {hub, slot, spots} = places(view);
  if (plot.dataset.width !== String(width)) {
    plot.dataset.width = width;
    const parts = [box(4, 40, 176, 190, "paper", 'stroke="var(--grid)"'), box(width - 222, 40, 216, 190, "paper", 'stroke="var(--grid)"')];
    parts.push(centre(92, 26, "global memory", 'class="bold"'), centre(hub.x, 26, "shared memory: four stages", 'class="bold"'), centre(width - 114, 26, "tensor cores", 'class="bold"'));
    parts.push(`<circle cx="${hub.x}" cy="${hub.y + 8}" r="${hub.r}" fill="none" stroke="var(--grid)" stroke-width="10"/>`);
    for (let stage = 0; stage < data.stages; stage++) {
      const [x, y] = slot(stage);
      parts.push(`<rect x="${x - 26}" y="${y - 18}" width="52" height="52" rx="5" fill="var(--lane)" stroke="var(--grey)"/>`, centre(x, y + 30, `stage ${stage}`, 'style="font-size:12px" class="grey"'));
    }
    parts.push(centre(92, 70, "tiles of A and B", 'class="grey"'), centre(width - 114, 152, "summed up in registers", 'class="grey"'));
    parts.push(`<rect class="core" x="${width - 160}" y="54" width="92" height="76" rx="5" fill="var(--lane)" stroke="var(--grey)"/>`);
    spots.forEach((_, tile) => parts.push(`<g class="goes" data-tile="${tile}"><rect x="${-SIZE / 2}" y="${-SIZE / 2}" width="${SIZE}" height="${SIZE}" rx="4" fill="var(--paper)"/><rect class="look" x="${-SIZE / 2}" y="${-SIZE / 2}" width="${SIZE}" height="${SIZE}" rx="4" stroke-width="1.5"/>${centre(0, 5, tile)}</g>`));
    plot.innerHTML = parts.join("");
  }
  spots.forEach(([x, y, colour], tile) => {
    const one = plot.querySelector(`[data-tile="${tile}"]`), look = one.querySelector(".look");
    one.style.transform = `translate(${x}px, ${y}px)`;
    look.setAttribute("fill", `var(--${colour})`);
    look.setAttribute("fill-opacity", colour === "lane" ? 1 : 0.5);
    look.setAttribute("stroke", `var(--${colour === "lane" ? "grey" : colour})`);
  });
  const busy = spots.some(spot => spot[2] === "green");
  plot.querySelector(".core").setAttribute("stroke", `var(--${busy ? "green" : "grey"})`);
  plot.querySelector(".core").setAttribute("stroke-width", busy ? 3 : 1);
  return {high: HIGH};
}
const says = ({data, at}) => safe(data.says[at]);
return {draw, says};
