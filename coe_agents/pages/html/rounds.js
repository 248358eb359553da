// The trajectory of a question: a bar for each round, aleatoric part below and epistemic part above.
// A dot at a bar's side shows which share of the agents took over the leading answer, which they were shown.
const BAR = 11;
const GAP = 4;
const MOST_BARS = 24;

function trajectory(rounds, most, { height = 34 } = {}) {
  const made = shape("svg", { class: "trajectory", role: "img", "aria-label": inWords(rounds) });
  let x = 1;
  const high = (value) => (value === null ? 0 : (value / most) * (height - 6));
  for (const [aleatoric, epistemic, adopting] of rounds.slice(0, MOST_BARS)) {
    const [low, top] = [high(aleatoric), high(epistemic)];
    const base = height - 1;
    made.append(shape("line", { class: "axis", x1: x, x2: x + BAR, y1: base, y2: base }));
    made.append(shape("rect", { class: "bar-a", x, y: base - low, width: BAR, height: low }));
    made.append(shape("rect", { class: "bar-e", x, y: base - low - top, width: BAR, height: top }));
    if (adopting !== null) made.append(shape("circle", { class: "dot", cx: x + BAR / 2, cy: 4 + (1 - adopting) * (height - 9), r: 3 }));
    x += BAR + GAP;
  }
  const width = Math.max(BAR + 2, x - GAP + 1);
  made.setAttribute("viewBox", `0 0 ${width} ${height}`);
  made.setAttribute("width", width);
  made.setAttribute("height", height);
  return made;
}

function inWords(rounds) {
  const round = ([aleatoric, epistemic, adopting], place) =>
    `round ${place + 1}: aleatoric ${nats(aleatoric)}, epistemic ${nats(epistemic)}` + (adopting === null ? "" : `, conformity ${share(adopting, 1)}`);
  return rounds.map(round).join("; ") || "nothing measured";
}
