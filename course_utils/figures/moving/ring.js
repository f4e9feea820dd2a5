const STATES = [["loading", "blue"], ["landed, ready", "teal"], ["multiplied", "green"], ["free again", "pale"], ["empty", "pale"]];
const pair = ({data, values}) => data.runs[values.stages];
const last = view => Math.max(...pair(view).map(run => run.ticks));
const frame = (run, at) => run.frames[Math.min(at, run.ticks)];

function draw(view) {
  const {data, at, width} = view, parts = [], columns = last(view);
  let top = 0;
  pair(view).forEach((run, i) => {
    const {slots, producer, consumer} = frame(run, at), wide_one = width / slots.length, tall = data.empty ? 72 : 56;
    parts.push(words(0, top + 14, data.orders[i], 'class="bold"'));
    const end = at >= run.ticks ? `done after ${run.ticks} ticks: tensor cores at work in ${data.tiles} of them` : `tick ${at}`;
    parts.push(words(width - 2, top + 14, end, `text-anchor="end" class="${at >= run.ticks ? "bold" : "grey"}"`));
    const table = score(run.rows, top + 24, at, columns, width);
    parts.push(table.svg);
    top += 24 + table.high + 8;
    slots.forEach(([tile, state, full, empty], stage) => {
      const x = stage * wide_one, [name, colour] = STATES[state];
      parts.push(box(x, top + 18, wide_one - 8, tall, "paper", 'stroke="var(--grid)"'), box(x, top + 18, wide_one - 8, 20, colour));
      parts.push(words(x + 8, top + 33, `stage ${stage}${tile < 0 ? ": empty" : `: tile ${tile}, ${name}`}`, 'class="state"'));
      parts.push(words(x + 8, top + 53, `full: phase ${full}, parity ${full & 1}`));
      if (data.empty) parts.push(words(x + 8, top + 72, `empty: phase ${empty}, parity ${empty & 1}`));
      if (producer && producer[1] === stage) parts.push(words(x, top + 12, `▼ next: tile ${producer[0]}`));
      if (consumer && consumer[1] === stage) parts.push(words(x + wide_one - 10, top + 12, "▼ consumer", 'text-anchor="end"'));
    });
    top += 18 + tall + 22;
  });
  return {svg: parts.join(""), high: top - 14};
}

function says(view) {
  const {data, at} = view;
  return pair(view).map((run, i) => {
    const {slots, producer, consumer} = frame(run, at), behind = consumer && slots[consumer[1]];
    const waits = data.empty ? ` (its wait: empty[${producer && producer[1]}], parity ${producer && producer[2]})` : "";
    const asks = !producer ? "All loads are issued."
      : `Issues next: the load of tile ${producer[0]}, into stage ${producer[1]}${waits}${i === 0 && producer[0] ? `, once tile ${producer[0] - 1} is multiplied` : ""}.`;
    const takes = !consumer ? "All tiles are multiplied."
      : `Multiplies next: tile ${consumer[0]}, from stage ${consumer[1]} (its wait: full[${consumer[1]}], parity ${consumer[2]}): ${consumer[3] ? "in flight" : behind[0] === consumer[0] ? "it waits" : "it waits, and its load is not issued yet"}.`;
    return `<div><b>${safe(data.orders[i])}.</b> ${asks} ${takes}</div>`;
  }).join("");
}
const step = ({at}) => `Tick ${at}.`;
return {draw, says, last, step, lines: 5};
