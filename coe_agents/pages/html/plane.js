// The plane of aleatoric and epistemic uncertainty, and what answering by regime would do
const REGIMES = ["consensus", "conflict", "ambiguous", "unknown"];
const CELL = 5; // marks nearer than this, in units of the chart, are one

class Plane {
  constructor(rows, thresholds) {
    this.rows = rows.filter((row) => row.coe !== null);
    this.limits = { aleatoric: thresholds[0], epistemic: thresholds[1] };
    this.listeners = [];
    const most = (part) => this.rows.reduce((top, row) => Math.max(top, 1.05 * row[part]), 1.3 * this.limits[part]);
    this.plot = new Plot(byId("plane"), {
      xMost: Math.ceil(most("aleatoric") * 10) / 10,
      yMost: Math.ceil(most("epistemic") * 10) / 10,
      xLabel: "aleatoric, nats",
      yLabel: "epistemic, nats",
    });
    this.marks();
    this.names = REGIMES.map((name) => this.plot.add("text", { class: "quadrant", "text-anchor": "middle" }, name));
    this.gives = new Set(["consensus"]);
    this.controls();
    this.table();
    this.move();
  }

  regime(row) {
    if (row.coe === null) return null;
    return REGIMES[(row.epistemic > this.limits.epistemic) + 2 * (row.aleatoric > this.limits.aleatoric)];
  }

  marks() {
    const cells = new Map();
    for (const row of this.rows) {
      const at = [this.plot.x(row.aleatoric), this.plot.y(row.epistemic)].map((place) => Math.round(place / CELL) * CELL);
      const key = `${row.verdict} ${at}`;
      if (!cells.has(key)) cells.set(key, { at, verdict: row.verdict, n: 0 });
      cells.get(key).n += 1;
    }
    const most = Math.max(...[...cells.values()].map((cell) => cell.n));
    const size = (n) => 2.6 + 9 * Math.sqrt((n - 1) / Math.max(30, most));
    const paths = { "no verdict": "", "partly right": "", right: "", wrong: "" };
    for (const { at: [x, y], verdict, n } of cells.values()) {
      const r = size(n).toFixed(1);
      paths[verdict] +=
        verdict === "wrong"
          ? `M${x - r} ${y - r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}`
          : `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
    }
    for (const [verdict, d] of Object.entries(paths)) this.plot.add("path", { class: verdict === "right" || verdict === "wrong" ? verdict : "unknown", d });
  }

  near(event) {
    const [x, y] = placeOf(this.plot.svg, event);
    return new Set(this.rows.filter((row) => Math.hypot(this.plot.x(row.aleatoric) - x, this.plot.y(row.epistemic) - y) < 9));
  }

  controls() {
    this.lines = ["aleatoric", "epistemic"].map((part, place) => {
      const slider = byId(part);
      slider.max = place ? this.plot.yMost : this.plot.xMost;
      slider.value = this.limits[part];
      slider.addEventListener("input", () => this.set(part, Number(slider.value)));
      const line = this.plot.add("line", { class: "cut" });
      const grip = this.plot.add("line", { class: `grip ${place ? "across" : "upright"}` });
      draggable(grip, (event) => this.set(part, Math.round(this.plot.values(event)[place] * 100) / 100));
      return [line, grip];
    });
  }

  set(part, value) {
    this.limits[part] = value;
    byId(part).value = value;
    this.move();
  }

  table() {
    this.cells = REGIMES.map((name) => {
      const box = element("input", { type: "checkbox" });
      box.checked = this.gives.has(name);
      box.addEventListener("change", () => {
        if (box.checked) this.gives.add(name);
        else this.gives.delete(name);
        this.move();
      });
      const cells = [0, 1, 2, 3].map(() => element("td"));
      const head = element("th", { scope: "row" }, element("label", {}, box, ` ${name}`));
      byId("regimes").tBodies[0].append(element("tr", {}, head, ...cells));
      return cells;
    });
  }

  move() {
    const { plot, limits } = this;
    const [x, y] = [plot.x(limits.aleatoric), plot.y(limits.epistemic)];
    for (const line of this.lines[0]) set(line, { x1: x, x2: x, y1: plot.top, y2: plot.bottom });
    for (const line of this.lines[1]) set(line, { x1: plot.left, x2: plot.right, y1: y, y2: y });
    this.names.forEach((name, i) => {
      const across = i < 2 ? [plot.left, x] : [x, plot.right];
      const high = i % 2 ? [plot.top, y] : [y, plot.bottom];
      set(name, { x: (across[0] + across[1]) / 2, y: i % 2 ? plot.top + 16 : plot.bottom - 7 });
      name.toggleAttribute("hidden", across[1] - across[0] < 70 || high[1] - high[0] < 20);
    });
    byId("cut").textContent = `aleatoric ≤ ${limits.aleatoric.toFixed(2)} and epistemic ≤ ${limits.epistemic.toFixed(2)} nats are low`;
    this.count();
    for (const listener of this.listeners) listener();
  }

  count() {
    const counts = Object.fromEntries(REGIMES.map((name) => [name, { all: 0, right: 0, wrong: 0 }]));
    let [given, wrong, judged] = [0, 0, 0];
    for (const row of this.rows) {
      const name = this.regime(row);
      counts[name].all += 1;
      if (row.correct === null) continue;
      counts[name].right += row.correct;
      counts[name].wrong += 1 - row.correct;
      judged += 1;
      if (!row.given || !this.gives.has(name)) continue;
      given += 1;
      wrong += 1 - row.correct;
    }
    REGIMES.forEach((name, i) => {
      const { all, right, wrong: mistaken } = counts[name];
      [all, amount(right), amount(mistaken), share(right, right + mistaken)].forEach((value, place) => (this.cells[i][place].textContent = value));
    });
    byId("gated").textContent = `${describeOutcome(given, wrong, judged)}.`;
  }
}
