// ROC and accuracy-rejection curves of the chosen scores
const MOST_DRAWN = 6;

function showCurves({ curves, labels, baseline }) {
  const names = [...baseline, ...Object.keys(curves).filter((name) => !baseline.includes(name))];
  const drawn = new Map(baseline.slice(0, 5).map((name, place) => [name, place]));
  const boxes = names.map((name) => {
    const box = element("input", { type: "checkbox", value: name });
    const sample = shape("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" });
    sample.append(shape("path", { d: "M0 5H26" }));
    box.addEventListener("change", () => {
      if (box.checked) drawn.set(name, [0, 1, 2, 3, 4, 5].find((place) => ![...drawn.values()].includes(place)));
      else drawn.delete(name);
      draw();
    });
    byId(baseline.includes(name) ? "drawn" : "more").append(element("label", {}, box, sample, labels[name]));
    return { name, box, sample };
  });

  function draw() {
    for (const { name, box, sample } of boxes) {
      box.checked = drawn.has(name);
      box.disabled = !box.checked && drawn.size === MOST_DRAWN;
      sample.toggleAttribute("hidden", !box.checked);
      sample.firstChild.setAttribute("class", `line curve-${drawn.get(name)}`);
    }
    const rates = { xMost: 1, yMost: 1, xLabel: "share of right answers rejected", yLabel: "share of wrong ones rejected" };
    const roc = new Plot(byId("roc"), rates);
    roc.line([0, 1], [0, 1], "chance");
    const least = Math.min(0.9, ...[...drawn.keys()].flatMap((name) => curves[name].accuracy[1]));
    const axes = { xMost: 1, yMost: 1, yLeast: Math.floor(least * 10) / 10, xLabel: "share rejected", yLabel: "accuracy" };
    const kept = new Plot(byId("accuracy"), axes);
    for (const [name, place] of drawn) {
      if (curves[name].roc) roc.line(...curves[name].roc, `curve-${place}`);
      kept.line(...curves[name].accuracy, `curve-${place}`);
    }
  }
  draw();
}

// One threshold on one score: `judged` are the rows that `scores` have values for, in the same order.
// It begins at `limit`, the policy's own [score, value], or near a coverage of 0.8.
function showThreshold({ scores, labels, limit: own }, judged) {
  const [select, slider] = [byId("score"), byId("threshold")];
  select.append(...Object.keys(scores).map((name) => element("option", { value: name }, labels[name])));
  let steps, plot, line, dot;

  // after each different value: how many are answered up to it, and how many of these wrongly
  function cumulated(values) {
    const order = values.map((_, i) => i).sort((a, b) => values[a] - values[b]);
    const found = [{ value: null, given: 0, wrong: 0 }];
    let [given, wrong] = [0, 0];
    order.forEach((row, place) => {
      given += judged[row].given;
      wrong += judged[row].given ? 1 - judged[row].correct : 0;
      if (place + 1 === order.length || values[order[place + 1]] !== values[row]) found.push({ value: values[row], given, wrong });
    });
    return found;
  }

  function choose() {
    steps = cumulated(scores[select.value]);
    slider.max = steps.length - 1;
    const answering = steps.filter((step) => step.given);
    const most = answering.reduce((top, step) => Math.max(top, step.wrong / step.given), 0.1);
    plot = new Plot(byId("risk"), { xMost: 1, yMost: Math.ceil(most * 10) / 10, xLabel: "coverage", yLabel: "risk" });
    plot.line(answering.map((step) => step.given / judged.length), answering.map((step) => step.wrong / step.given), "curve-0");
    line = plot.add("line", { class: "cut", y1: plot.top, y2: plot.bottom });
    dot = plot.add("circle", { class: "dot", r: 7 });
    slider.value = own?.[0] === select.value ? steps.findLastIndex((step) => step.value === null || step.value <= own[1]) : nearest(0.8);
    move();
  }

  function nearest(coverage) {
    const far = (step) => Math.abs(step.given / judged.length - coverage);
    return steps.reduce((best, step, i) => (far(step) < far(steps[best]) ? i : best), 0);
  }

  function move() {
    const { value, given, wrong } = steps[slider.value];
    const place = plot.x(given / judged.length);
    for (const end of ["x1", "x2"]) line.setAttribute(end, place);
    dot.setAttribute("cx", place);
    dot.setAttribute("cy", plot.y(given ? wrong / given : 0));
    const limit = value === null ? "never" : `${labels[select.value]} ≤ ${(Math.ceil(value * 1e4) / 1e4).toFixed(4)}`;
    slider.setAttribute("aria-valuetext", limit);
    byId("outcome").replaceChildren(element("strong", {}, limit), `: ${describeOutcome(given, wrong, judged.length)}.`);
  }

  select.addEventListener("change", choose);
  slider.addEventListener("input", move);
  draggable(byId("risk"), (event) => {
    slider.value = nearest(plot.values(event)[0]);
    move();
  });
  if (own) select.value = own[0];
  choose();
}
