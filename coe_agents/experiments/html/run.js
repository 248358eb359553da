// What the policies did, drawn: risk over coverage, and both in the order of the file.
function showCurves(names, rows) {
  const [curve, running] = [[], []];
  names.forEach((_, place) => {
    const own = rows.map((row) => row.runs[place]).filter((run) => run.coe !== null);
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
    curve.push({ points: thinned(points), did: steps.length ? [given / n, known ? mistakes / known : null] : null });
    running.push(thinned(steps));
  });
  const most = Math.max(0.1, ...curve.flatMap(({ points, did }) => [...points.map(([, y]) => y), did?.[1] ?? 0]));
  const plot = new Plot(byId("risk-coverage"), { xMost: 1, yMost: Math.min(1, Math.ceil(most * 10) / 10), xLabel: "coverage", yLabel: "risk" });
  const longest = Math.max(1, ...running.map((steps) => steps.at(-1)?.[0] ?? 0));
  const shares = new Plot(byId("running"), { xMost: 1, yMost: 1, xLabel: `share of ${plural(longest, "question")}`, yLabel: "answered, risk" });
  curve.forEach(({ points, did }, place) => {
    if (points.length) plot.line(points.map(([x]) => x), points.map(([, y]) => y), `curve-${place}`);
    if (did && did[1] !== null) plot.add("circle", { class: `did fill-${place}`, r: 6, cx: plot.x(did[0]), cy: plot.y(did[1]) });
    const steps = running[place];
    for (const part of [1, 2]) {
      const kind = `curve-${place}${part === 2 ? " thin" : ""}`;
      if (steps.length) shares.line(steps.map(([x]) => x / longest), steps.map((step) => step[part]), kind);
    }
  });
  byId("legend").replaceChildren(
    ...names.flatMap((name, place) => {
      const sample = shape("svg", { class: "sample", viewBox: "0 0 26 10", "aria-hidden": "true" });
      sample.append(shape("path", { class: `line curve-${place}`, d: "M0 5H26" }));
      return [sample, element("bdi", {}, ` ${name} `)];
    }),
  );
}

function thinned(points) {
  const step = Math.max(1, Math.ceil(points.length / 300));
  return points.filter((_, i) => i % step === 0 || i + 1 === points.length);
}

// How often each outcome became each other one; a number lists its questions.
function showChanges(rows, decisions) {
  const states = ["right", "partly right", "wrong", "no verdict", "refused", "escalated", "failed", "not in it"];
  const used = states.filter((state) => rows.some((row) => row.runs.some((run) => run.state === state)));
  const select = byId("change");
  const choose = (value) => {
    select.value = value;
    decisions.look();
    byId("questions-title").scrollIntoView();
  };
  byId("changes").tHead.rows[0].append(element("th", { scope: "col" }), ...used.map((state) => element("th", { scope: "col" }, state)));
  const counts = new Map();
  for (const row of rows) counts.set(row.change, (counts.get(row.change) ?? 0) + 1);
  for (const from of used) {
    const cells = used.map((to) => {
      const name = changeOf(from, to);
      const n = counts.get(name) ?? 0;
      if (!n) return element("td", {}, "–");
      const button = element("button", { type: "button", class: from === to ? "same" : "", "aria-label": `${name}: ${n}` }, String(n));
      button.addEventListener("click", () => choose(name));
      return element("td", {}, button);
    });
    byId("changes").tBodies[0].append(element("tr", {}, element("th", { scope: "row" }, from), ...cells));
  }
  select.append(element("option", {}, "any change"), ...[...counts.keys()].sort().map((name) => element("option", {}, name)));
}

const changeOf = (from, to) => (from === to ? `${from} in both` : `${from} → ${to}`);

begin(({ ids, texts, names, runs, block }) => {
  let most = 0.1;
  const rows = ids.map((id, place) => {
    const own = runs.map((columns) => rowAt(columns, place));
    for (const run of own) for (const [a, e] of run.rounds) most = Math.max(most, (a ?? 0) + (e ?? 0));
    const row = { id, place, text: texts[place], runs: own, differs: own.length > 1 && own[0].state !== own[1].state };
    row.change = own.length > 1 ? changeOf(own[0].state, own[1].state) : "";
    row.goesOn = own.some((run) => run.rounds.length > 1);
    row.sought = [row.text, id, ...own.flatMap((run) => [run.answer, run.reason])].join(" ").toLowerCase();
    const [one, other] = own;
    const more = other && one.tokens !== null && other.tokens !== null ? other.tokens - one.tokens : null;
    const n = one.rounds.length;
    row.sort = {
      text: row.text.toLowerCase(), state: one.state, reason: one.reason, regime: one.regime, coe: one.coe, n,
      tokens: other ? more : one.tokens, seconds: one.seconds, change: `${row.differs ? 0 : 1}${row.change}`, coe2: other?.coe ?? null,
    };
    return row;
  });
  showCurves(names, rows);
  const decisions = new Decisions([...rows], names, most, block);
  if (names.length > 1) {
    showChanges(rows, decisions);
    decisions.order("change", true);
  } else {
    byId("state-of").append(...[...new Set(rows.map((row) => row.runs[0].state))].sort().map((state) => element("option", {}, state)));
  }
});
