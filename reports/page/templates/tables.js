// Tables, built from the page's data when they are opened: folded to the width there is, sorted, filtered, downloaded.
"use strict";
const types = { csv: "text/csv", tex: "application/x-tex", md: "text/markdown" };
const files = { r: "results", p: "pairs", a: "across" };
const marks = { unmatched: "†", unreliable: "‡", degenerate: "§", "no-exit": "¶" };
const NARROW = window.matchMedia("(max-width: 40rem)");

function create(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== "" && value !== null) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
function bdi(text) { return create("bdi", {}, text); }
// A heading whose short hyphenated words stay whole, as the page's own are.
function wholeWords(text) {
  const words = text.split(/(?<![\w-])(\w+(?:-\w+)+)(?![\w-])/);
  return create("bdi", {}, ...words.map((word, k) => (k % 2 && word.length <= 10 ? create("span", { class: "whole" }, word) : word)));
}
const isLong = (text) => text.split(/\s+/).some((word) => word.length > 26);
function cellOf(value) {
  const [text, flags = 0, status = "", interval = "", hint = "", numbers = []] = Array.isArray(value) ? value : [value];
  return { text, best: Boolean(flags & 1), tied: Boolean(flags & 2), status, interval, hint, numbers };
}
// The whole key of a number, such as 0/results/12/value.
function keyOf(run, short) {
  const parts = short.split(":"), own = parts.length > 1 ? parts.shift() : run;
  const [place, column = "value"] = parts[0].split("/");
  return `${own}/${files[place[0]]}/${place.slice(1)}/${column}`;
}
// A cell's text cut at its numbers, each naming the row it was read from.
function pieces(run, cell) {
  const nodes = [];
  let rest = cell.text;
  for (let k = 0; k < cell.numbers.length; k += 2) {
    const at = rest.indexOf(cell.numbers[k]);
    if (at > 0) nodes.push(rest.slice(0, at));
    nodes.push(create("b", cell.numbers[k + 1] ? { "data-key": keyOf(run, cell.numbers[k + 1]) } : {}, cell.numbers[k]));
    rest = rest.slice(at + cell.numbers[k].length);
  }
  return rest ? [...nodes, rest] : nodes;
}
function drawCell(run, cell, column, isFirst) {
  const [title, group, measure] = column;
  if (isFirst) return create("th", { scope: "row", title: cell.hint, class: isLong(cell.text) ? "long" : "" }, bdi(cell.text));
  const label = group ? `${group}, ${title}` : title;
  if (!measure && cell.numbers.length === 0) return create("td", { class: isLong(cell.text) ? "label long" : "label", "data-label": label, title: cell.hint }, bdi(cell.text));
  const classes = [cell.best ? "best" : cell.tied ? "level" : "", cell.status].filter(Boolean).join(" ");
  const node = create("td", { class: classes, "data-label": label, title: cell.hint }, create("span", {}, ...pieces(run, cell)));
  if (marks[cell.status]) node.append(create("sup", {}, marks[cell.status]));
  if (cell.best) node.append(create("i", {}, " best")); else if (cell.tied) node.append(create("i", {}, " level with the best"));
  if (cell.interval) node.append(" ", create("small", {}, cell.interval));
  return node;
}
// Empty cells go last in either direction; equal cells keep the order of the run.
function compare(a, b, sign) {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
}
function sortKey(cell, isLabel) {
  if (isLabel && cell.numbers.length === 0) return cell.text;
  if (cell.numbers.length === 0) return null;
  const text = cell.numbers[0].replace("−", "-").replace("∞", "Infinity");
  return text.startsWith("<") ? Number(text.slice(1)) / 2 : Number(text);
}

class ShownTable {
  constructor(data, run, texts, glossary) {
    Object.assign(this, { data, run, texts, glossary, words: "", order: null, sorted: null });
    this.rows = data.rows.map(([kind, ...cells], position) => ({ kind, position, cells: cells.map(cellOf) }));
    this.place = create("div", { class: "folds" });
    this.count = create("span", { class: "count", role: "status" });
    this.node = create("div", { class: "table", "data-name": data.name, "data-run": run }, this.head(), this.place, this.notes());
  }
  head() {
    const titles = create("div", { class: "titles" }, create("h3", {}, bdi(this.data.title)), create("span", { class: "muted" }, create("small", {}, this.data.question)));
    const box = create("input", { type: "search", "aria-label": `Filter rows: ${this.data.title}`, placeholder: "Filter rows", autocomplete: "off", spellcheck: "false" });
    box.addEventListener("input", () => { this.words = box.value.trim().toLocaleLowerCase(); this.draw(); });
    const buttons = Object.entries({ csv: "CSV", tex: "LaTeX", md: "Markdown" }).map(([kind, word]) => {
      const button = create("button", { type: "button", class: "button", "data-download": kind, "aria-label": `Download as ${word}: ${this.data.title}` }, word);
      button.addEventListener("click", async () => this.download(kind, await this.texts()));
      return button;
    });
    return create("div", { class: "table-head" }, titles, create("div", { class: "tools" }, this.count, box, ...buttons));
  }
  notes() {
    const remarks = [];
    for (const row of this.rows) {
      row.cells.forEach((cell, index) => {
        const [title, group] = this.data.columns[index];
        if (marks[cell.status] && cell.hint) remarks.push(`${[row.cells[0].text, group, title].filter(Boolean).join(", ")}: ${cell.hint}`);
      });
    }
    const node = create("div", { class: "notes" }, ...this.data.notes.map((note) => create("p", {}, bdi(note))));
    if (remarks.length) {
      const list = create("ul", {}, ...[...new Set(remarks)].map((remark) => create("li", {}, bdi(remark))));
      node.append(create("details", {}, create("summary", {}, `${remarks.length} ${remarks.length === 1 ? "remark" : "remarks"} on single cells`), list));
    }
    return node;
  }
  download(kind, texts) {
    if (!texts[this.data.name]) {
      const made = leftOut("This file", "table", this.data.name);
      made.lastChild.append(` --format ${kind === "tex" ? "latex" : kind}`);
      if (!this.node.querySelector(".left-out")) this.place.before(made);
      return;
    }
    const link = create("a", { href: URL.createObjectURL(new Blob([texts[this.data.name][kind]], { type: `${types[kind]};charset=utf-8` })), download: `${this.data.name}.${kind}` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  shown() {
    const rows = this.rows.filter((row) => this.words === "" || row.cells.some((cell) => cell.text.toLocaleLowerCase().includes(this.words)));
    this.count.textContent = this.words === "" ? "" : `${rows.length} of ${this.rows.length} rows`;
    if (this.sorted === null) return rows;
    const { index, sign } = this.sorted, isLabel = !this.data.columns[index][2];
    return [...rows].sort((a, b) => compare(sortKey(a.cells[index], isLabel), sortKey(b.cells[index], isLabel), sign) || a.position - b.position);
  }
  sort(index) {
    const first = this.data.columns[index][3] === "higher" ? -1 : 1;
    const again = this.sorted !== null && this.sorted.index === index && this.sorted.sign === first;
    this.sorted = { index, sign: again ? -first : first };
    this.draw(`.sort[data-index="${index}"]`);
  }
  // Columns in as many parts as the width asks for; a shared heading is not cut where it need not be.
  draw(focused = "") {
    const last = this.data.columns.length - 1, rows = this.shown();
    const room = this.place.clientWidth;
    for (let parts = 1; ; parts += 1) {
      this.place.replaceChildren(...this.split(last, parts).map((columns) => this.fold(columns, rows)));
      const wide = [...this.place.children].some((table) => table.offsetWidth > room + 1);
      if (room === 0 || NARROW.matches || !wide || parts >= last) break;
    }
    if (focused) this.place.querySelector(focused)?.focus();
  }
  split(last, parts) {
    const columns = this.data.columns, all = Array.from({ length: last }, (_, k) => k + 1);
    if (parts === 1) return [all];
    const size = Math.ceil(last / parts), chunks = [];
    let rest = all;
    while (rest.length > size) {
      let cut = size;
      while (cut > 1 && columns[rest[cut]][1] && columns[rest[cut]][1] === columns[rest[cut - 1]][1]) cut -= 1;
      if (cut === 1) cut = size;
      chunks.push(rest.slice(0, cut));
      rest = rest.slice(cut);
    }
    return rest.length ? [...chunks, rest] : chunks;
  }
  fold(columns, rows) {
    const shown = [0, ...columns], groups = [];
    for (const index of shown) {
      const group = this.data.columns[index][1];
      if (groups.length && group && groups.at(-1).group === group) groups.at(-1).span += 1; else groups.push({ group, span: 1, index });
    }
    const starts = new Set(groups.filter((one) => one.index).map((one) => one.index));
    const head = create("thead");
    if (groups.some((one) => one.group)) {
      head.append(create("tr", {}, ...groups.map(({ group, span, index }) => (group
        ? create("th", { scope: "colgroup", colspan: span, class: `group${index ? " group-start" : ""}${isLong(group) ? " long" : ""}` }, wholeWords(group)) : create("td", index ? { class: "group-start" } : {})))));
    }
    head.append(create("tr", {}, ...shown.map((index) => {
      const [title, , measure, better] = this.data.columns[index], term = this.glossary[measure];
      const button = create("button", { type: "button", class: "sort", "data-index": index, title: term ? `${term} ${{ higher: "Higher is better.", lower: "Lower is better." }[better] ?? ""}`.trim() : "" }, wholeWords(title));
      button.addEventListener("click", () => this.sort(index));
      const heading = create("th", { scope: "col", class: [measure ? "" : "label", isLong(title) ? "long" : "", starts.has(index) && groups.some((one) => one.group) ? "group-start" : ""].filter(Boolean).join(" ") }, button);
      if (this.sorted !== null && this.sorted.index === index) heading.setAttribute("aria-sort", this.sorted.sign < 0 ? "descending" : "ascending");
      return heading;
    })));
    const table = create("table", { class: "fold", "aria-label": this.data.title }, head);
    for (const kind of new Set(rows.map((row) => row.kind))) {
      table.append(create("tbody", { class: kind }, ...rows.filter((row) => row.kind === kind).map((row) => create("tr", {}, ...shown.map((index) => drawCell(this.run, row.cells[index], this.data.columns[index], index === 0))))));
    }
    return table;
  }
}
// Every table that is on the page, to be drawn again when the width changes or the page is printed.
const onPage = new Map();
function place(parent, table) {
  parent.append(table.node);
  onPage.set(table.node, table);
  table.draw();
}
let lastWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === lastWidth) return;
  lastWidth = window.innerWidth;
  for (const [node, table] of onPage) if (node.isConnected) table.draw(); else onPage.delete(node);
});
