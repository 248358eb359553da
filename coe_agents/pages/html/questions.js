// The questions of saved responses, and their responses.
const COLUMNS = [
  ["text", "question"],
  ["verdict", "verdict"],
  ["answer", "the group’s answer", "wide"],
  ["regime", "regime", "wide"],
  ["coe", "CoE"],
  ["aleatoric", "aleatoric", "wide"],
  ["epistemic", "epistemic", "wide"],
];

class Questions extends QuestionTable {
  constructor(rows, plane, block) {
    super(rows, COLUMNS, block);
    Object.assign(this, { plane, mark: null });
    byId("all").addEventListener("click", () => this.only(null));
    byId("plane").addEventListener("click", (event) => {
      const near = event.target.classList.contains("grip") ? new Set() : plane.near(event);
      if (near.size) this.only(near);
    });
    plane.listeners.push(() => this.regimesMoved());
    byId("mistakes").addEventListener("click", () => this.order("mistake", true));
    this.order("mistake", true);
  }

  order(key, rising) {
    byId("mistakes").setAttribute("aria-pressed", key === "mistake");
    super.order(key, rising);
  }

  value(row, key) {
    return key === "regime" ? this.plane.regime(row) : row[key];
  }

  risesFirst(key) {
    return key !== "coe";
  }

  tie(a, b) {
    return (this.sorted === "mistake" && compared(a.coe, b.coe)) || compared(a.id, b.id);
  }

  only(mark) {
    this.mark = mark;
    byId("all").hidden = mark === null;
    this.look();
    if (mark) byId("questions-title").scrollIntoView();
  }

  filter() {
    const [verdict, regime] = [byId("verdict").value, byId("regime").value];
    return (row) =>
      (!verdict || row.verdict === verdict) && (!regime || this.plane.regime(row) === regime) && (!this.mark || this.mark.has(row));
  }

  regimesMoved() {
    if (byId("regime").value) this.look();
    else for (const [row, cell] of this.cells) cell.textContent = this.plane.regime(row) ?? "–";
  }

  render() {
    this.cells = [];
    super.render();
  }

  line(row) {
    const regime = element("td", { class: "wide" }, this.plane.regime(row) ?? "–");
    this.cells.push([row, regime]);
    return this.folded(
      row,
      element("td", {}, mark(row.verdict)),
      element("td", { class: "wide said" }, row.answer ?? "–"),
      regime,
      element("td", {}, nats(row.coe)),
      element("td", { class: "wide" }, nats(row.aleatoric)),
      element("td", { class: "wide" }, nats(row.epistemic)),
    );
  }

  describe(row, found) {
    return describeQuestion(row, found);
  }
}

function* describeQuestion(row, { references, clusters = [], agents = [], responses = [], failures }) {
  if (row.text) yield element("p", { class: "note said" }, `id: ${row.id}`);
  yield element("p", { class: "said" }, references.length ? `Right would be: ${references.join(" | ")}` : "No reference is known.");
  if (row.answer !== null) {
    const kind = row.kind === "answer" ? "" : row.kind === "tie" ? " share the lead (never given)" : ` (${row.kind}: never given)`;
    yield element("p", { class: "said" }, `The group: ${row.answer || "nothing"}${kind}`);
  }
  const ranked = clusters.map((_, cluster) => cluster).sort((a, b) => clusters[b][1] - clusters[a][1]);
  yield element("ol", { class: "clusters" }, ...ranked.map((cluster) => describeCluster(cluster, clusters[cluster], agents, responses)));
  const own = agents.map(([name, n, weighting, entropy]) => `${name}: ${plural(n, "response")} by ${weighting}, entropy ${nats(entropy)} nats`);
  if (own.length) yield element("p", { class: "note said" }, own.join("\n"));
  for (const [name, error] of failures) yield element("p", { class: "wrong said" }, `${name} failed: ${error}`);
}

function describeCluster(cluster, [text, support, correct], agents, responses) {
  const verdict = correct === null ? null : verdictOf(correct);
  const head = element("h3", {}, element("span", { class: "said" }, text || "(empty)"));
  if (verdict) head.append(" ", mark(verdict));
  const bar = element("meter", { min: 0, max: 1, value: support, class: tone(verdict), "aria-label": "share of the group" });
  const said = agents.map((agent, place) => [agent[0], agent[4][cluster], responses.filter((each) => each[0] === place && each[1] === cluster)]);
  const voices = said.filter(([, , own]) => own.length);
  const by = voices.map(([name, p]) => `${name} ${share(p, 1)}`).join(", ");
  const wordings = voices.flatMap(([name, , own]) => own.map((each) => response(name, each)));
  const count = voices.flatMap(([, , own]) => own).reduce((sum, each) => sum + each[5], 0);
  return element(
    "li",
    {},
    head,
    element("p", { class: "support" }, bar, ` ${share(support, 1)} of the group`),
    element("p", { class: "note said" }, by),
    element("details", {}, element("summary", {}, plural(count, "response")), element("ul", {}, ...wordings)),
  );
}

function response(name, [, , text, answer, correct, n]) {
  const times = n > 1 ? ` ×${n}` : "";
  const read = answer === null ? "" : `, read as “${answer}”`;
  const labelled = correct === null ? "" : correct ? ", labelled right" : ", labelled wrong";
  return element("li", {}, element("small", { class: "said" }, `${name}${times}${read}${labelled}: `), element("span", { class: "said" }, text || "(empty)"));
}
