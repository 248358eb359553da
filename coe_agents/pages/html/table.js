const PAGE = 20;
const NARROW = matchMedia("(max-width: 44rem)"); // as in page.css, where it hides what is "wide"
const compared = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// The table of questions, a page at a time; what belongs to a question is unpacked when it is opened.
//
// A column is its key, its name, and "wide" where a narrow screen hides it. A page says of its own table by which
// `value` of a row a column sorts, which column `risesFirst`, which row of a `tie` comes first, what the `filter` lets
// pass, what the `line` of a row is, and how to `describe` what is unpacked.
class QuestionTable {
  constructor(rows, columns, block) {
    Object.assign(this, { rows, columns, block, first: 0, opened: new Set(), blocks: new Map() });
    this.heads = columns.map((column) => this.head(...column));
    byId("questions").tHead.rows[0].append(...this.heads);
    byId("filters").addEventListener("input", () => this.look());
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    byId("before").addEventListener("click", () => this.turn(-PAGE));
    byId("after").addEventListener("click", () => this.turn(PAGE));
    NARROW.addEventListener("change", () => this.render());
  }

  head(key, name, wide = "") {
    const button = element("button", { type: "button" }, element("bdi", {}, name));
    button.addEventListener("click", () => this.order(key, this.sorted === key ? !this.rising : this.risesFirst(key)));
    const head = element("th", { scope: "col", class: wide }, button);
    head.dataset.key = key;
    return head;
  }

  order(key, rising) {
    Object.assign(this, { sorted: key, rising });
    const sign = rising ? 1 : -1;
    this.rows.sort((a, b) => {
      const [left, right] = [this.value(a, key), this.value(b, key)];
      if (left === null || right === null) return (left === null) - (right === null) || this.tie(a, b); // unknown comes last
      return sign * compared(left, right) || this.tie(a, b);
    });
    for (const head of this.heads) {
      head.setAttribute("aria-sort", head.dataset.key === key ? (rising ? "ascending" : "descending") : "none");
      head.firstChild.dataset.sorted = head.dataset.key === key ? (rising ? "▲" : "▼") : "";
    }
    this.look();
  }

  look() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const passes = this.filter();
    this.found = this.rows.filter((row) => passes(row) && words.every((word) => row.sought.includes(word)));
    this.first = 0;
    this.render();
  }

  turn(by) {
    this.first += by;
    this.render();
  }

  render() {
    const shown = this.found.slice(this.first, this.first + PAGE);
    byId("questions").tBodies[0].replaceChildren(...shown.flatMap((row) => this.line(row)));
    const last = this.first + shown.length;
    byId("page").textContent = shown.length ? `${this.first + 1} to ${last} of ${this.found.length}` : "no question matches";
    byId("before").disabled = this.first === 0;
    byId("after").disabled = last >= this.found.length;
  }

  // The row of a question with these cells, and the row under it that a button opens.
  folded(row, ...cells) {
    const button = element("button", { type: "button", class: "open said" }, row.text || row.id);
    const width = this.columns.filter(([, , wide]) => !(wide && NARROW.matches)).length;
    const detail = element("tr", { hidden: "" }, element("td", { colspan: width }));
    const opening = (open) => {
      button.setAttribute("aria-expanded", open);
      detail.hidden = !open;
      if (open) this.opened.add(row);
      else this.opened.delete(row);
      if (open && !detail.firstChild.hasChildNodes()) this.fill(row, detail.firstChild);
    };
    opening(this.opened.has(row));
    button.addEventListener("click", () => opening(detail.hidden));
    return [element("tr", {}, element("th", { scope: "row" }, button), ...cells), detail];
  }

  async fill(row, cell) {
    const number = Math.floor(row.place / this.block);
    if (!this.blocks.has(number)) this.blocks.set(number, unpacked(`block-${number}`));
    const found = (await this.blocks.get(number))[row.place % this.block];
    cell.replaceChildren(element("div", { class: "detail" }, ...this.describe(row, found)));
  }
}
