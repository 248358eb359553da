// What the report and the page of runs share

async function unpacked(id) {
  const text = atob(byId(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(plain).json();
}

const share = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} %` : "–");
const amount = (value) => String(Math.round(value * 10) / 10); // of answers, a share of which may be right
const nats = (value) => (value === null ? "–" : value.toFixed(3));

// Wilson's 95 % interval of a share
function interval(part, whole) {
  const z = 1.959964;
  const p = part / whole;
  const middle = (p + (z * z) / (2 * whole)) / (1 + (z * z) / whole);
  const half = (z * Math.sqrt((p * (1 - p)) / whole + (z * z) / (4 * whole * whole))) / (1 + (z * z) / whole);
  return `95 % interval ${(100 * Math.max(0, middle - half)).toFixed(1)} to ${(100 * Math.min(1, middle + half)).toFixed(1)} %`;
}

function describeOutcome(given, wrong, all) {
  const coverage = `${given} of ${plural(all, "judged question")} answered: coverage ${share(given, all)}, `;
  return coverage + (given ? `risk ${share(wrong, given)} (${amount(wrong)} wrong; ${interval(wrong, given)})` : "no risk");
}

// Axes with room for labels; `x` and `y` give places, `valueX` and `valueY` take them back from a pointer.
class Plot {
  constructor(svg, { xMost, yMost, yLeast = 0, xLabel, yLabel }) {
    Object.assign(this, { svg, xMost, yMost, yLeast });
    this.left = 58;
    this.right = 470;
    this.top = 12;
    this.bottom = 292;
    svg.setAttribute("viewBox", "0 0 480 334");
    svg.replaceChildren();
    for (const value of ticks(0, xMost)) {
      this.add("line", { class: "axis", x1: this.x(value), x2: this.x(value), y1: this.top, y2: this.bottom });
      this.add("text", { class: "tick", x: this.x(value), y: this.bottom + 16, "text-anchor": "middle" }, label(value));
    }
    for (const value of ticks(yLeast, yMost)) {
      this.add("line", { class: "axis", x1: this.left, x2: this.right, y1: this.y(value), y2: this.y(value) });
      this.add("text", { class: "tick", x: this.left - 6, y: this.y(value) + 4, "text-anchor": "end" }, label(value));
    }
    this.add("text", { class: "tick", x: (this.left + this.right) / 2, y: this.bottom + 36, "text-anchor": "middle" }, xLabel);
    const turn = `rotate(-90) translate(${-(this.top + this.bottom) / 2} 12)`;
    this.add("text", { class: "tick", transform: turn, "text-anchor": "middle" }, yLabel);
  }

  add(name, attributes, text) {
    const made = shape(name, attributes, text);
    this.svg.append(made);
    return made;
  }

  x(value) {
    return this.left + (value / this.xMost) * (this.right - this.left);
  }

  y(value) {
    return this.bottom - ((value - this.yLeast) / (this.yMost - this.yLeast)) * (this.bottom - this.top);
  }

  values(event) {
    const [x, y] = placeOf(this.svg, event);
    const inside = (value, least, most) => Math.min(most, Math.max(least, value));
    const along = ((x - this.left) / (this.right - this.left)) * this.xMost;
    const up = this.yLeast + ((this.bottom - y) / (this.bottom - this.top)) * (this.yMost - this.yLeast);
    return [inside(along, 0, this.xMost), inside(up, this.yLeast, this.yMost)];
  }

  line(xs, ys, kind) {
    const points = xs.map((value, i) => `${this.x(value).toFixed(1)},${this.y(ys[i]).toFixed(1)}`);
    return this.add("path", { class: `line ${kind}`, d: `M${points.join("L")}` });
  }
}

// Calls `moved` while a pointer that went down on `target` is held.
function draggable(target, moved) {
  target.addEventListener("pointerdown", (event) => {
    target.setPointerCapture(event.pointerId);
    moved(event);
  });
  target.addEventListener("pointermove", (event) => {
    if (target.hasPointerCapture(event.pointerId)) moved(event);
  });
}

// Draws what needs the overview; says so where that cannot be done.
async function begin(draw) {
  try {
    const overview = await unpacked("overview");
    for (const section of document.querySelectorAll(".live")) section.hidden = false;
    draw(overview);
    byId("state").hidden = true;
    document.documentElement.dataset.ready = Math.round(performance.now());
  } catch (error) {
    byId("state").textContent = `Charts and questions cannot be shown: ${error.message}`;
    throw error;
  }
}

// The values at a place of each column, by the column's name.
const rowAt = (columns, place) => Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values[place]]));

// A verdict in words, with a sign, so that no colour is needed to read it.
const verdictOf = (correct) => ({ 0: "wrong", 1: "right" })[correct] ?? "partly right";
const SIGNS = { right: "✓", wrong: "✕", "partly right": "◐" };
const tone = (verdict) => (verdict === "right" || verdict === "wrong" ? verdict : "unknown");
const mark = (verdict) => element("span", { class: `mark ${tone(verdict)}` }, `${SIGNS[verdict] ?? "–"} ${verdict}`);

offerTheme();
