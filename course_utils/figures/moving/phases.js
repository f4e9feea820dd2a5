function draw({data, at, width}) {
  const [phase, pending, bytes] = data.states[at], ground = phase & 1 ? "odd" : "even", came = data.expect - bytes, half = Math.floor(width * 0.44), parts = [];
  const told = bytes > 0 || data.states.slice(0, at + 1).some((one, i) => one[0] === phase && i && one[2] > 0);
  parts.push(box(0, 2, half, 118, ground, 'stroke="var(--grey)"'));
  parts.push(words(12, 22, `phase ${phase}, parity ${phase & 1}`, 'class="bold"'));
  parts.push(words(12, 48, "arrivals to come"), words(half - 12, 48, `${pending} of ${data.count}`, 'text-anchor="end"'));
  for (let i = 0; i < data.count; i++) parts.push(`<circle cx="${140 + 20 * i}" cy="44" r="7" fill="${i < data.count - pending ? "var(--ink)" : "var(--paper)"}" stroke="var(--ink)"/>`);
  parts.push(words(12, 76, "bytes to come"), words(half - 12, 76, number(bytes), 'text-anchor="end"'));
  const long = half - 24;
  parts.push(`<rect x="12" y="86" width="${long}" height="16" rx="3" fill="var(--paper)" stroke="var(--grey)"/>`);
  if (told) parts.push(`<rect x="12" y="86" width="${long * came / data.expect}" height="16" rx="3" fill="var(--teal)"/>`);
  const left = half + 24, wait = width - left;
  for (const parity of [0, 1]) {
    const why = data.why[at][parity], [first, ...rest] = why.split(": "), blocks = first === "blocks", y = 2 + parity * 62;
    parts.push(box(left, y, wait - 2, 56, blocks ? "wait" : "paper", 'stroke="var(--grey)"'));
    parts.push(words(left + 12, y + 22, `wait for parity ${parity}: ${first}`, 'class="bold"'), words(left + 12, y + 42, rest.join(": ")));
  }
  const table = score(data.rows, 138, at, data.steps, width);
  return {svg: parts.join("") + table.svg, high: 140 + table.high};
}
const says = ({data, at}) => `${safe(data.says[at])}<div>A wait for parity 0 ${safe(data.why[at][0])}. A wait for parity 1 ${safe(data.why[at][1])}.</div>`;
return {draw, says};
