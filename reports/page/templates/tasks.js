// What opens on demand: one task at a time, the tables of each question, risk against coverage, histograms of scores.
"use strict";
(async () => {
  const { glossary, runs } = await unpack("tables");
  let downloads = null, drawings = null;
  const texts = (run) => async () => (downloads ??= await unpack("downloads"))[run];
  const tableOf = (run, data) => new ShownTable(data, run, texts(run), glossary);
  // With many tables, those of one model stand together.
  function fillTables(select, tables) {
    const models = tables.length > FEW_TASKS ? [...new Set(tables.map((table) => table.model))] : [];
    const parts = new Map(models.length > 1 ? models.map((model) => [model, create("optgroup", { label: model || "all models" })]) : []);
    tables.forEach(({ text, model }, index) => (parts.get(model) ?? select).append(create("option", { value: index }, text)));
    select.append(...parts.values());
    select.value = 0;
  }

  // Questions: one table at a time, the leading protocol's first.
  for (const part of document.querySelectorAll("details[data-topic]")) {
    const tables = runs.flatMap((run, number) => run.tables.filter((table) => table.topic === part.dataset.topic).map((data) => ({ number, name: run.name, data })));
    const leads = (entry) => runs[entry.number].joint ? -1 : Number(entry.data.protocol !== "" && !runs[entry.number].leading.includes(entry.data.protocol));
    tables.sort((a, b) => leads(a) - leads(b));
    const built = part.querySelector(".built");
    const title = ({ name, data }) => (name ? `${data.title} · ${name}` : data.title);
    function show(index) {
      built.querySelector(".table, .left-out")?.remove();
      const { number, data } = tables[index];
      if (data.rows) place(built, tableOf(number, data)); else built.append(leftOut("This table", "table", data.name));
    }
    function build() {
      if (built.childElementCount) return;
      if (tables.length > 1) {
        const select = create("select");
        fillTables(select, tables.map((entry) => ({ text: title(entry), model: entry.data.model ?? "" })));
        select.addEventListener("change", () => show(Number(select.value)));
        built.append(create("div", { class: "choose" }, create("label", { class: "field" }, create("span", {}, "Table"), select)));
      }
      show(0);
    }
    part.addEventListener("toggle", () => { if (part.open) build(); });
    // On paper every table of a question stands, not only the chosen one.
    window.addEventListener("beforeprint", () => {
      build();
      const chosen = Number(built.querySelector("select")?.value ?? 0);
      tables.forEach((entry, index) => { if (index !== chosen && entry.data.rows) { const table = tableOf(entry.number, entry.data); table.node.classList.add("paper-only"); place(built, table); } });
      for (const remarks of built.querySelectorAll("details")) remarks.open = true;
    });
    window.addEventListener("afterprint", () => { for (const node of built.querySelectorAll(".paper-only")) node.remove(); });
  }

  // Tasks: one at a time.
  const tasks = runs.flatMap((run, number) => run.tasks.map((task) => ({ ...task, number, title: run.name ? `${task.title} (${run.name})` : task.title, looks: run.signals })));
  const choice = document.getElementById("task-choice"), charts = document.getElementById("task-charts");
  if (tasks.length === 0) { document.getElementById("tasks").hidden = true; return; }
  function showTask() {
    const task = tasks[Number(choice.value)];
    document.getElementById("task-intro").textContent = task.intro ?? "";
    const block = document.getElementById("task-table");
    block.replaceChildren();
    if (task.table) place(block, tableOf(task.number, task.table)); else block.append(leftOut("This table", "table", task.named));
    charts.replaceChildren(
      section("Risk against coverage", "Error rate among the most certain share of the samples; lower is better.", (box) => risks(box, task)),
      section("Scores of right and wrong predictions", "The further apart the two, the better the signal tells right from wrong.", (box) => scores(box, task)),
    );
  }
  function section(title, caption, fill) {
    const box = create("div", { class: "built" });
    const part = create("details", { class: "topic" }, create("summary", {}, title, " ", create("span", { class: "muted" }, caption)), box);
    part.addEventListener("toggle", async () => {
      if (!part.open || box.childElementCount) return;
      drawings ??= await unpack("charts");
      fill(box);
    });
    return part;
  }
  const panel = (title) => create("div", { class: "histogram" }, create("h4", {}, title));
  function risks(box, task) {
    const grid = create("div", { class: "charts wide" });
    if (!drawings[task.number][task.cache]) { box.append(leftOut("This chart", "figure", task.risk)); return; }
    for (const { layer, lines } of drawings[task.number][task.cache].risk) {
      const W = 440, H = 250, left = 40, floor = 215, node = panel(`Layer ${layer}`);
      const decoded = lines.map((line) => ({ look: task.looks[line.signal], coverage: decode(line.coverage, 0.001), risk: decode(line.risk, 0.01) }));
      const top = Math.max(1, ...decoded.flatMap((line) => line.risk));
      const x = (share) => left + share * (W - left - 8), y = (risk) => floor - (risk / top) * (floor - 10);
      const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `Risk against coverage at layer ${layer} on ${task.title}; the table of excess AURC holds the areas.` });
      for (const share of [0, 0.25, 0.5, 0.75, 1]) make("text", { x: x(share), y: floor + 16, "text-anchor": "middle" }, svg, `${100 * share}%`);
      const step = niceStep(top);
      for (let tick = 0; tick <= top; tick += step) make("text", { x: left - 5, y: y(tick) + 4, "text-anchor": "end" }, svg, fixed(tick, step < 1 ? 1 : 0));
      make("path", { d: `M${left} 10V${floor}H${W - 8}`, class: "floor", fill: "none" }, svg);
      for (const line of decoded) {
        const curve = make("polyline", { points: line.risk.map((risk, k) => `${x(line.coverage[k]).toFixed(1)},${y(risk).toFixed(1)}`).join(" "), fill: "none", stroke: "var(--drawn)", "stroke-width": 1.6, style: `--c: ${line.look.colour}` }, svg);
        make("title", {}, curve, line.look.label);
      }
      make("text", { x: (left + W) / 2, y: H - 3, "text-anchor": "middle" }, svg, "coverage; risk in percent");
      node.append(svg);
      grid.append(node);
    }
    if (!grid.childElementCount) { box.append(create("p", { class: "fine" }, "This run stored none.")); return; }
    const legend = create("p", { class: "fine" }, ...task.looks.filter((look) => look.text).flatMap((look) => [key(look), bdi(look.label), "  "]));
    box.append(legend, grid);
  }
  function scores(box, task) {
    const grid = create("div", { class: "charts" });
    if (!drawings[task.number][task.cache]) { box.append(leftOut("This chart", "figure", task.scores)); return; }
    for (const { layer, signal, low, high, right, wrong } of drawings[task.number][task.cache].scores) {
      const look = task.looks[signal], W = 220, H = 100, floor = 80, node = panel("");
      node.firstChild.append(key(look), bdi(look.label), ` layer ${layer}`);
      const rights = decode(right, 1), wrongs = decode(wrong, 1), tops = [rights, wrongs].map((counts) => Math.max(1, ...counts));
      const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `Scores of ${look.label} at layer ${layer}, right and wrong predictions apart, from ${low} to ${high}.` });
      [["right", rights, tops[0]], ["wrong", wrongs, tops[1]]].forEach(([kind, counts, top]) => counts.forEach((count, bin) => {
        const tall = (count / top) * (floor - 6), each = W / counts.length;
        if (count) make("rect", { x: (bin * each).toFixed(1), y: (floor - tall).toFixed(1), width: each.toFixed(1), height: tall.toFixed(1), class: kind }, svg);
      }));
      make("line", { x1: 0, x2: W, y1: floor, y2: floor, class: "floor" }, svg);
      make("text", { x: 0, y: H - 5 }, svg, low);
      make("text", { x: W, y: H - 5, "text-anchor": "end" }, svg, high);
      node.append(svg);
      grid.append(node);
    }
    box.append(create("p", { class: "fine" }, "Blue: right predictions; orange: wrong ones; each scaled to its own highest bin."), grid);
  }
  fillChoice(choice, tasks.map((task, index) => ({ value: index, text: task.title, group: runs[task.number].name ? [`${task.group[0]} (${runs[task.number].name})`, ...task.group.slice(1)] : task.group })), showTask);
  showTask();
})();
