// Tables: sorting by the buttons in their headings, a filter, downloads.
"use strict";
(() => {
  let texts = null;
  const types = { csv: "text/csv", tex: "application/x-tex", md: "text/markdown" };

  // Empty cells go last in either direction; equal cells keep the order of the run.
  function compare(a, b, sign) {
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    const difference = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
    return sign * difference;
  }
  function sortKey(row, index) {
    const cell = row.cells[index];
    if (cell.dataset.v !== undefined) return cell.dataset.v === "" ? null : Number(cell.dataset.v);
    return cell.textContent.trim();
  }
  function sort(table, heading, index) {
    const first = heading.dataset.better === "higher" ? "descending" : "ascending";
    const other = first === "descending" ? "ascending" : "descending";
    const now = heading.getAttribute("aria-sort");
    const next = now === first ? other : first;
    for (const previous of table.querySelectorAll("th[aria-sort]")) previous.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", next);
    for (const body of table.tBodies) {
      const rows = [...body.rows].map((row, position) => ({ row, position, key: sortKey(row, index) }));
      rows.sort((a, b) => compare(a.key, b.key, next === "ascending" ? 1 : -1) || a.position - b.position);
      body.append(...rows.map((sorted) => sorted.row));
    }
  }
  function filter(box, table, count) {
    const words = box.value.trim().toLocaleLowerCase();
    let shown = 0, all = 0;
    for (const row of table.querySelectorAll("tbody tr")) {
      all += 1;
      row.hidden = words !== "" && !row.textContent.toLocaleLowerCase().includes(words);
      if (!row.hidden) shown += 1;
    }
    count.textContent = words === "" ? "" : `${shown} of ${all} rows`;
  }
  function download(name, kind, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: `${types[kind]};charset=utf-8` }));
    link.download = `${name}.${kind}`;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  for (const block of document.querySelectorAll(".table")) {
    const table = block.querySelector("table");
    for (const button of table.querySelectorAll("thead .sort")) {
      const heading = button.closest("th");
      button.addEventListener("click", () => sort(table, heading, Number(heading.dataset.index)));
    }
    const box = block.querySelector('input[type="search"]');
    const count = block.querySelector(".count");
    if (box) box.addEventListener("input", () => filter(box, table, count));
    for (const button of block.querySelectorAll("button[data-download]")) {
      const kind = button.dataset.download;
      button.addEventListener("click", async () => {
        texts ??= await unpack("downloads");
        download(block.dataset.name, kind, texts[block.id][kind]);
      });
    }
  }
})();
