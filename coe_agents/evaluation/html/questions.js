// The table of questions, a page at a time; a question's responses are unpacked when it is opened.
const COLUMNS = [
  ["text", "question"],
  ["verdict", "verdict"],
  ["answer", "the group’s answer", "wide"],
  ["regime", "regime", "wide"],
  ["coe", "CoE"],
  ["aleatoric", "aleatoric", "wide"],
  ["epistemic", "epistemic", "wide"],
];


class Questions extends Folded {
  constructor(rows, plane, block) {
    super();
    Object.assign(this, { rows, plane, block, sorted: "text", rising: true, first: 0, mark: null, opened: new Set() });
    this.blocks = new Map();
    this.found = rows;
    this.heads = COLUMNS.map(([key, name, wide]) => this.head(key, name, wide));
    byId("questions").tHead.rows[0].append(...this.heads);
    for (const id of ["search", "verdict", "regime"]) byId(id).addEventListener("input", () => this.look());
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    byId("before").addEventListener("click", () => this.turn(-PAGE));
    byId("after").addEventListener("click", () => this.turn(PAGE));
    byId("all").addEventListener("click", () => this.only(null));
    byId("plane").addEventListener("click", (event) => {
      const near = event.target.classList.contains("grip") ? new Set() : plane.near(event);
      if (near.size) this.only(near);
    });
    NARROW.addEventListener("change", () => this.render());
    plane.listeners.push(() => this.regimesMoved());
    byId("mistakes").addEventListener("click", () => this.order("mistake", true));
    this.order("mistake", true);
  }

  head(key, name, wide = "") {
    const button = element("button", { type: "button" }, name);
    button.addEventListener("click", () => this.order(key, this.sorted === key ? !this.rising : key !== "coe"));
    const head = element("th", { scope: "col", class: wide }, button);
    head.dataset.key = key;
    return head;
  }

  order(key, rising) {
    Object.assign(this, { sorted: key, rising });
    const value = (row) => (key === "regime" ? this.plane.regime(row) : row[key]);
    const compared = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    const sign = rising ? 1 : -1;
    this.rows.sort((a, b) => {
      const [left, right] = [value(a), value(b)];
      if (left === null || right === null) return (left === null) - (right === null); // what is not known comes last
      return sign * compared(left, right) || (key === "mistake" && compared(a.coe, b.coe)) || compared(a.id, b.id);
    });
    for (const head of this.heads) {
      head.setAttribute("aria-sort", head.dataset.key === key ? (rising ? "ascending" : "descending") : "none");
      head.firstChild.dataset.sorted = head.dataset.key === key ? (rising ? "▲" : "▼") : "";
    }
    byId("mistakes").setAttribute("aria-pressed", key === "mistake");
    this.look();
  }

  only(mark) {
    this.mark = mark;
    byId("all").hidden = mark === null;
    this.look();
    if (mark) byId("questions-title").scrollIntoView();
  }

  look() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [verdict, regime] = [byId("verdict").value, byId("regime").value];
    this.found = this.rows.filter(
      (row) =>
        (!verdict || row.verdict === verdict) &&
        (!regime || this.plane.regime(row) === regime) &&
        (!this.mark || this.mark.has(row)) &&
        words.every((word) => row.sought.includes(word)),
    );
    this.first = 0;
    this.render();
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
    const [button, detail] = this.folded(row, COLUMNS);
    const regime = element("td", { class: "wide" }, this.plane.regime(row) ?? "–");
    this.cells.push([row, regime]);
    const line = element(
      "tr",
      {},
      element("th", { scope: "row" }, button),
      element("td", {}, mark(row.verdict)),
      element("td", { class: "wide said" }, row.answer ?? "–"),
      regime,
      element("td", {}, nats(row.coe)),
      element("td", { class: "wide" }, nats(row.aleatoric)),
      element("td", { class: "wide" }, nats(row.epistemic)),
    );
    return [line, detail];
  }

  async fill(row, cell) {
    const number = Math.floor(row.place / this.block);
    if (!this.blocks.has(number)) this.blocks.set(number, unpacked(`block-${number}`));
    const detail = (await this.blocks.get(number))[row.place % this.block];
    cell.replaceChildren(element("div", { class: "detail" }, ...describeQuestion(row, detail)));
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
  const verdict = correct === null ? null : { 0: "wrong", 1: "right" }[correct] ?? "partly right";
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
