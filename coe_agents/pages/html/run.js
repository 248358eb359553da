// What the policy did, drawn: risk over coverage, and both in the order of the file.
function showCurves(rows) {
  const own = rows.map((row) => row.run).filter((run) => run.coe !== null);
  const judged = own.filter((run) => run.leading !== null).sort((a, b) => a.coe - b.coe);
  const points = [];
  let wrong = 0;
  judged.forEach((run, i) => {
    wrong += 1 - run.leading;
    if (i + 1 === judged.length || judged[i + 1].coe !== run.coe) points.push([(i + 1) / judged.length, wrong / (i + 1)]);
  });
  const steps = [];
  let [n, given, known, mistakes] = [0, 0, 0, 0];
  for (const run of own) {
    n += 1;
    given += ANSWERED.has(run.state);
    if (ANSWERED.has(run.state) && run.leading !== null) {
      known += 1;
      mistakes += 1 - run.leading;
    }
    steps.push([n, given / n, known ? mistakes / known : 0]);
  }
  const most = Math.max(0.1, ...points.map(([, y]) => y), known ? mistakes / known : 0);
  const plot = new Plot(byId("risk-coverage"), { xMost: 1, yMost: Math.min(1, Math.ceil(most * 10) / 10), xLabel: "coverage", yLabel: "risk" });
  const shares = new Plot(byId("running"), { xMost: 1, yMost: 1, xLabel: `share of ${plural(Math.max(1, n), "question")}`, yLabel: "answered, risk" });
  const curve = thinned(points);
  if (curve.length) plot.line(curve.map(([x]) => x), curve.map(([, y]) => y), "curve-0");
  if (known) plot.add("circle", { class: "did fill-0", r: 6, cx: plot.x(given / n), cy: plot.y(mistakes / known) });
  const running = thinned(steps);
  for (const part of [1, 2]) {
    if (running.length) shares.line(running.map(([x]) => x / n), running.map((step) => step[part]), part === 2 ? "curve-0 thin" : "curve-0");
  }
}

function thinned(points) {
  const step = Math.max(1, Math.ceil(points.length / 300));
  return points.filter((_, i) => i % step === 0 || i + 1 === points.length);
}

begin(({ ids, texts, columns, block }) => {
  let most = 0.1;
  const rows = ids.map((id, place) => {
    const [run, text] = [rowAt(columns, place), texts[place]];
    for (const [a, e] of run.rounds) most = Math.max(most, (a ?? 0) + (e ?? 0));
    const sought = [text, id, run.answer, run.reason].join(" ").toLowerCase();
    return { id, place, text, run, sought, sort: { ...run, text: text.toLowerCase(), n: run.rounds.length } };
  });
  showCurves(rows);
  new Decisions([...rows], most, block);
  byId("state-of").append(...[...new Set(rows.map((row) => row.run.state))].sort().map((state) => element("option", {}, state)));
});
