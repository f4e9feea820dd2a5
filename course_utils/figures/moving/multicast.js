const LOOKS = [["free", "lane"], ["on its way", "blue"], ["landed", "teal"], ["multiplied", "green"]], NAMES = {A: "A", B0: "B, upper half", B1: "B, lower half"}, KIB = 1024;
const run = ({data, values}) => data.runs[values["B is loaded by"]];
const last = view => run(view).frames.length - 1;

function draw(view) {
  const {at, width} = view, {frames, rows} = run(view), now = frames[at], parts = [], wide_one = (width - 30) / 2, spot = {};
  parts.push(box(0, 2, width - 2, 28, "lane", 'stroke="var(--grid)"'), centre(width / 2, 20, "global memory: A and B"));
  const arrivals = count => `${count} arrival${count === 1 ? "" : "s"}`;
  for (const cta of [0, 1]) {
    const x = cta * (wide_one + 30), [phase, pending, bytes] = now.full[cta], [round, missing] = now.empty[cta];
    parts.push(box(x, 62, wide_one - 2, 214, "none", 'stroke="var(--grey)"'), words(x + 10, 80, `CTA ${cta}`, 'class="bold"'));
    ["A", "B0", "B1"].forEach((part, i) => {
      const [state, colour] = LOOKS[now.parts[cta][i]], y = 90 + i * 30;
      parts.push(box(x + 10, y, wide_one - 22, 26, colour, 'stroke="var(--grey)"'), words(x + 18, y + 17, NAMES[part]));
      parts.push(words(x + wide_one - 20, y + 17, state, `text-anchor="end" class="part"`));
      spot[`${part}${cta}`] = [x + wide_one / 2, y + 13];
    });
    const most = (wide_one - 30) * 0.55, rest = wide_one - 30 - most;
    parts.push(box(x + 10, 186, most, 42, phase & 1 ? "odd" : "even", 'stroke="var(--grey)"'), words(x + 18, 203, `full, phase ${phase}; to come:`, 'class="bold"'), words(x + 18, 220, `${number(bytes)} bytes, ${arrivals(pending)}`));
    parts.push(box(x + 18 + most, 186, rest, 42, round & 1 ? "odd" : "even", 'stroke="var(--grey)"'), words(x + 26 + most, 203, `empty, phase ${round}:`, 'class="bold"'), words(x + 26 + most, 220, arrivals(missing)));
    parts.push(box(x + 10, 244, wide_one - 22, 24, now.parts[cta][0] === 3 ? "green" : "lane", 'stroke="var(--grey)"'), words(x + 18, 260, `consumer ${cta}`));
    spot[`full${cta}`] = [x + most - 20, 186];
    spot[`empty${cta}`] = [x + 18 + most + rest / 2, 229];
    spot[`consumer${cta}`] = [x + wide_one / 2, 250];
    spot[`memory${cta}`] = [x + wide_one / 2, 30];
  }
  now.arrows.forEach(([from, a, to, b], i) => {
    let [x, y] = spot[`${from}${a}`], [x1, y1] = spot[`${to}${b}`];
    if (from === "memory") { x += (i - 1.5) * 34; x1 += (a - 0.5) * 60 + (i - 1.5) * 12; y1 -= 11; }
    if (to === "full") { x = x1 - 14 * (["A", "B0", "B1"].indexOf(from) - 1); x1 = x; y += 4; }
    if (from === "full") { y = 228; x1 = x; y1 = 244; }
    if (to === "empty") x += a === b ? x1 - x : 0;
    parts.push(arrow(x, y, x1, y1, from === "memory" ? "blue" : to === "full" ? "teal" : "ink"));
  });
  const table = score(rows, 292, at, frames.length, width);
  return {svg: parts.join("") + table.svg, high: 294 + table.high};
}
const says = view => safe(run(view).frames[view.at].says);
return {draw, says, last};
