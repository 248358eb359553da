// The plane of aleatoric and epistemic uncertainty, with the questions of the session and where the gate answers

import { obstacle, REGIMES } from "./decision.js";
import { label, placeOf, shape, ticks } from "./parts.js";
import { number } from "./text.js";

const HEADROOM = 1.35; // above the farthest question, for the names of the quadrants

export class Plane {
  // `moved` is called with the limits that a dragged line stands for
  constructor(svg, moved) {
    Object.assign(this, { svg, left: 56, right: 470, top: 12, bottom: 330 });
    svg.setAttribute("viewBox", "0 0 480 376");
    svg.addEventListener("pointerdown", (event) => {
      this.held = event.target.closest(".grip")?.dataset.part;
      if (this.held) svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (svg.hasPointerCapture(event.pointerId)) moved({ [this.held]: this.values(event)[this.held] });
    });
  }

  x(value) {
    return this.left + (value / this.far.aleatoric) * (this.right - this.left);
  }

  y(value) {
    return this.bottom - (value / this.far.epistemic) * (this.bottom - this.top);
  }

  values(event) {
    const [x, y] = placeOf(this.svg, event);
    const along = (x - this.left) / (this.right - this.left);
    const up = (this.bottom - y) / (this.bottom - this.top);
    const rounded = (value) => Math.max(0, Math.round(100 * value) / 100);
    const [aleatoric, epistemic] = [rounded(along * this.far.aleatoric), rounded(up * this.far.epistemic)];
    return { aleatoric, epistemic, coe: rounded(aleatoric + epistemic) };
  }

  add(name, attributes, text) {
    const made = shape(name, attributes, text);
    this.svg.append(made);
    return made;
  }

  // Draws decisions that have a regime: too few agents look certain. `lines` divide the regimes; `limits` are the gate's.
  draw({ decisions, shown, lines, limits, own }) {
    this.far = Object.fromEntries(
      ["aleatoric", "epistemic"].map((part) => {
        const gate = Math.min(4 * lines[part], 1.25 * (own.coe ?? 0));
        const most = Math.max(2 * lines[part], gate, ...decisions.map((each) => HEADROOM * each[part]));
        return [part, Math.ceil(10 * most) / 10];
      }),
    );
    this.svg.replaceChildren();
    this.area(limits);
    this.axes(shown?.regime ? shown : null);
    this.cuts(limits);
    this.quadrants(lines);
    for (const decision of decisions) if (decision !== shown) this.mark(decision, 5);
    if (shown?.regime) this.here(shown);
  }

  // A text on a plate, so that no line crosses it
  label(kind, attributes, words) {
    const text = this.add("text", { class: kind, ...attributes }, words);
    const { x, y, width, height } = text.getBBox();
    text.before(shape("rect", { class: "plate", x: x - 3, y, width: width ? width + 6 : 0, height }));
  }

  // `here` is the place of the question that is shown: its ring would cross the number of a tick beside it
  axes(here) {
    const { left, right, top, bottom } = this;
    const [ringX, ringY] = here ? [this.x(here.aleatoric), this.y(here.epistemic)] : [-100, -100];
    const tick = (text, attributes) => {
      const isNear = Math.abs(attributes.x - ringX) < 30 && Math.abs(attributes.y - ringY) < 24;
      if (!isNear) this.add("text", { class: "tick", ...attributes }, text);
    };
    for (const value of ticks(0, this.far.aleatoric)) {
      const x = this.x(value);
      this.add("line", { class: "axis", x1: x, x2: x, y1: bottom, y2: bottom + 5 });
      tick(label(value), { x, y: bottom + 19, "text-anchor": "middle" });
    }
    for (const value of ticks(0, this.far.epistemic)) {
      const y = this.y(value);
      this.add("line", { class: "axis", x1: left - 5, x2: left, y1: y, y2: y });
      tick(label(value), { x: left - 9, y: y + 4, "text-anchor": "end" });
    }
    this.add("rect", { class: "frame", x: left, y: top, width: right - left, height: bottom - top });
    const middle = { x: (left + right) / 2, y: bottom + 39, "text-anchor": "middle" };
    tick("doubt within agents (aleatoric) →", middle);
    const turned = { transform: `rotate(-90) translate(${-(top + bottom) / 2} 14)`, "text-anchor": "middle" };
    tick("disagreement between them (epistemic) →", turned);
  }

  // The four regimes, each named where it has room
  quadrants(lines) {
    const { left, right, top, bottom } = this;
    const [x, y] = [this.x(lines.aleatoric), this.y(lines.epistemic)];
    this.add("line", { class: "divide", x1: x, x2: x, y1: top, y2: bottom });
    this.add("line", { class: "divide", x1: left, x2: right, y1: y, y2: y });
    Object.entries(REGIMES).forEach(([name, [words]], place) => {
      const [isRight, isHigh] = [place > 1, place % 2 === 1];
      const width = isRight ? right - x : x - left;
      const height = isHigh ? y - top : bottom - y;
      const at = { x: isRight ? right - 9 : left + 9, "text-anchor": isRight ? "end" : "start" };
      const first = (isHigh ? top : y) + 19;
      if (width > 90 && height > 24) this.label("quadrant", { ...at, y: first }, name);
      if (width > 150 && height > 42) this.label("tick halo", { ...at, y: first + 16 }, words);
    });
  }

  // Where the gate answers: below a diagonal, or in a rectangle
  area({ coe, aleatoric, epistemic }) {
    const { aleatoric: a, epistemic: e } = this.far;
    const right = Math.min(a, coe ?? aleatoric);
    const high = Math.min(e, coe ?? epistemic);
    const between = coe === undefined ? [[right, high]] : this.ends(coe);
    const corners = [[0, 0], [0, high], ...between, [right, 0]];
    const places = corners.map(([along, up]) => `${this.x(along).toFixed(1)} ${this.y(up).toFixed(1)}`);
    this.add("path", { class: "open-area", d: `M${places.join("L")}Z` });
  }

  // Where the diagonal of a limit enters and leaves the plane
  ends(coe) {
    const { aleatoric: a, epistemic: e } = this.far;
    const along = Math.min(a, Math.max(0, coe - e));
    const up = Math.min(e, Math.max(0, coe - a));
    return [[along, Math.min(e, coe)], [Math.min(a, coe), up]];
  }

  cuts({ coe, aleatoric, epistemic }) {
    const { aleatoric: a, epistemic: e } = this.far;
    if (coe < a + e) this.cut("coe", ...this.ends(coe));
    if (aleatoric <= a) this.cut("aleatoric", [aleatoric, 0], [aleatoric, e]);
    if (epistemic <= e) this.cut("epistemic", [0, epistemic], [a, epistemic]);
  }

  cut(part, from, to) {
    const places = { x1: this.x(from[0]), y1: this.y(from[1]), x2: this.x(to[0]), y2: this.y(to[1]) };
    this.add("line", { class: "cut", ...places });
    this.add("line", { class: `grip ${part}`, "data-part": part, ...places });
  }

  mark(decision, r) {
    const { aleatoric, epistemic } = decision;
    const [x, y] = [this.x(aleatoric), this.y(epistemic)];
    if (decision.action === "answer") this.add("circle", { class: "given", cx: x, cy: y, r });
    else this.add("path", { class: "withheld", d: `M${x - r} ${y - r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}` });
  }

  // The question that is shown, with the way that it took from round to round
  here(decision) {
    const { aleatoric, epistemic } = decision;
    const factor = decision.epistemic ? epistemic / decision.epistemic : 1;
    const [x, y] = [this.x(aleatoric), this.y(epistemic)];
    const rounds = decision.trajectory.filter((each) => each.coe !== null);
    const places = rounds.map((each) => {
      const along = Math.min(each.aleatoric, this.far.aleatoric);
      const up = Math.min(factor * each.epistemic, this.far.epistemic);
      return `${this.x(along).toFixed(1)} ${this.y(up).toFixed(1)}`;
    });
    if (places.length > 1) this.add("path", { class: "path", d: `M${places.join("L")}` });
    for (const place of places.slice(0, -1)) this.add("path", { class: "former", d: `M${place}h0` });
    this.add("circle", { class: "ring", cx: x, cy: y, r: 14 });
    this.mark(decision, 7);
    const former = rounds.length > 1 ? this.x(rounds.at(-2).aleatoric) : 0;
    const isRight = x > (this.left + this.right) / 2 || (former > x && x > this.left + 130); // away from where it was
    const at = { x: x + (isRight ? -20 : 20), y: y > this.bottom - 40 ? y - 12 : y + 5 };
    this.label("here", { ...at, "text-anchor": isRight ? "end" : "start" }, "this question");
  }
}

// The place of a decision in words, for those who do not see the plane
export function describePlace(decision) {
  if (decision.regime === null) return `This question is not on the plane: ${obstacle(decision)}.`;
  const { aleatoric, epistemic } = decision;
  const scale = epistemic === decision.epistemic ? "" : ", on the scale of KL";
  const regime = `: ${decision.regime}, ${REGIMES[decision.regime][1]}`;
  const parts = `doubt within the agents ${number(aleatoric, 2)}, disagreement between them ${number(epistemic, 2)}`;
  return `This question: ${parts}${scale}${regime}.`;
}
