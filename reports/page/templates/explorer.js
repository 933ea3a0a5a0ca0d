// The explorer: the curves of one task, a point on each, and what happens there.
"use strict";
(async () => {
  const runs = await unpack("explorer");
  const at = (id) => document.getElementById(`explorer-${id}`);
  const LEFT = 46, RIGHT = 14, TOP = 10, BOTTOM = 40, MOST_READ = 10;
  let W = 700, H = 430, scale = null, near = null, swept = null;

  const tasks = runs.flatMap((run) => run.tasks.map((task) => ({
    ...task, label: run.run ? `${task.label} (${run.run})` : task.label, group: run.run ? [`${task.group[0]} (${run.run})`, ...task.group.slice(1)] : task.group, looks: run.signals, units: run.units, primary: run.primary, lines: null,
  })));
  if (tasks.length === 0) {
    at("remark").textContent = "This run stored no curves to explore.";
    document.querySelector(".explorer").hidden = true;
    at("exits").hidden = true;
    return;
  }
  const state = { task: null, hidden: new Set(), speed: tasks[0].primary, from: 1, to: null };
  const meanings = {
    unmatched: "† too far from the wanted speed-up for its score to be compared; listed last.",
    unreliable: "‡ too few samples of one kind or no spread: to be read with care.",
    degenerate: "§ every sample exits at one and the same layer: a fixed layer, not the signal; listed last.",
  };
  const scoreName = (task) => (task.score === "f1" ? "F1" : "Accuracy");
  const drawn = () => state.task.lines.filter((line) => !state.hidden.has(line.signal));

  // Where a task stores operating points (merged folds), a stored one near the speed-up is read; else the curve.
  function valuesAt(line, speed) {
    const rate = Number(at("decisions").value), stored = line.stored.find((point) => Math.abs(point.at - speed) < 0.005);
    const point = nearest(line, speed);
    const values = { score: line.score[point], speed: line.speed[point], threshold: null, premature: null, delayed: null, exits: null, low: null, high: null };
    if (line.exact) {
      Object.assign(values, { threshold: line.thresholds[point], premature: line.rates[rate][point], delayed: line.rates[rate + 1][point], exits: line.exits.map((layer) => layer[point]) });
    }
    if (stored) {
      Object.assign(values, { score: stored.score ?? values.score, speed: stored.speed_up ?? values.speed, low: stored.low ?? null, high: stored.high ?? null, status: stored.status ?? "" });
      if (!line.exact) Object.assign(values, { premature: stored.rates[rate], delayed: stored.rates[rate + 1], exits: stored.exits, threshold: stored.threshold ?? null });
    }
    if (values.low === null && line.band) {
      values.low = between(line.band.speed, line.band.low, values.speed);
      values.high = between(line.band.speed, line.band.high, values.speed);
    }
    return values;
  }

  function fastest() { return Math.max(1.2, ...state.task.lines.map((line) => Math.max(...line.speed))); }
  // Speed-ups on a log axis, so that relative cost is read evenly; scores over what is drawn inside the zoom.
  function scales() {
    const from = state.from, to = Math.min(state.to ?? Infinity, fastest());
    let low = Infinity, high = -Infinity;
    const reach = (score) => { if (score < low) low = score; if (score > high) high = score; };
    for (const line of drawn()) line.speed.forEach((speed, k) => { if (speed >= from * 0.99 && speed <= to * 1.01) reach(line.score[k]); });
    if (state.task.final !== null && from < 1.2) reach(state.task.final);
    if (!Number.isFinite(low)) { low = 0; high = 100; }
    const room = Math.max(0.3, (high - low) * 0.05), span = Math.log(to / from);
    low -= room; high += room;
    return {
      from, to, low, high,
      x: (speed) => LEFT + (Math.log(speed / from) / span) * (W - LEFT - RIGHT),
      y: (score) => H - BOTTOM - ((score - low) / (high - low)) * (H - TOP - BOTTOM),
      speedAt: (x) => from * Math.exp(((Math.min(Math.max(x, LEFT), W - RIGHT) - LEFT) / (W - LEFT - RIGHT)) * span),
    };
  }

  function draw() {
    W = Math.max(300, Math.min(900, at("chart").clientWidth - 14));
    H = Math.round(Math.min(Math.max(260, 0.62 * W), 430));
    scale = scales();
    const lines = drawn();
    const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${scoreName(state.task)} against speed-up on ${state.task.label}, ${state.task.protocol}, for ${lines.length} signals; the table beside it holds the values at the chosen point.` });
    const clip = make("clipPath", { id: "explorer-inside" }, make("defs", {}, svg));
    make("rect", { x: LEFT, y: TOP, width: W - LEFT - RIGHT, height: H - TOP - BOTTOM }, clip);
    let lastTick = -Infinity;
    const ticks = [1, 1.1, 1.2, 1.25, 1.3, 1.4, 1.5, 1.6, 1.75, 1.8, 1.9, 2, 2.1, 2.2, 2.25, 2.5, 2.75, 3, 3.5, 4, 5, 6, 8, 12, 16, 24, 32, 48];
    for (const tick of ticks.filter((speed) => speed >= scale.from && speed <= scale.to)) {
      const x = scale.x(tick);
      if (x - lastTick < 42) continue;
      lastTick = x;
      make("line", { x1: x, x2: x, y1: TOP, y2: H - BOTTOM, class: "grid" }, svg);
      make("text", { x, y: H - BOTTOM + 16, "text-anchor": "middle" }, svg, `${tick}×`);
    }
    const step = niceStep(scale.high - scale.low);
    for (let tick = Math.ceil(scale.low / step) * step; tick <= scale.high; tick += step) {
      const y = scale.y(tick);
      make("line", { x1: LEFT, x2: W - RIGHT, y1: y, y2: y, class: "grid" }, svg);
      make("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, svg, fixed(tick, step < 0.1 ? 2 : step < 1 ? 1 : 0));
    }
    make("path", { d: `M${LEFT} ${TOP}V${H - BOTTOM}H${W - RIGHT}`, class: "axis", fill: "none" }, svg);
    make("text", { x: (LEFT + W - RIGHT) / 2, y: H - 6, "text-anchor": "middle" }, svg, state.task.own_costs ? "speed-up (cost of the last layer ÷ mean cost paid), log scale" : "speed-up (layers ÷ mean exit layer), log scale");
    make("text", { x: 12, y: (TOP + H - BOTTOM) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(TOP + H - BOTTOM) / 2})` }, svg, scoreName(state.task));
    const inside = make("g", { "clip-path": "url(#explorer-inside)" }, svg);
    if (state.task.final !== null) {
      const y = scale.y(state.task.final);
      make("line", { x1: LEFT, x2: W - RIGHT, y1: y, y2: y, class: "axis", "stroke-dasharray": "6 4" }, inside);
      make("text", { x: W - RIGHT - 3, y: y - 5, "text-anchor": "end" }, inside, "full network");
    }
    for (const line of lines) {
      const look = state.task.looks[line.signal];
      const group = make("g", { class: "curve", "data-signal": line.signal, style: `--c: ${look.colour}` }, inside);
      make("polyline", { points: line.speed.map((speed, k) => `${scale.x(speed).toFixed(1)},${scale.y(line.score[k]).toFixed(1)}`).join(" "), ...(line.dash ? { "stroke-dashoffset": -line.dash[0], "stroke-dasharray": line.dash.slice(1).join(" ") } : {}) }, group);
      let last = -Infinity;
      for (let k = 0; k < line.speed.length; k += 1) {
        const x = scale.x(line.speed[k]);
        if (x - last < 90 + 13 * (line.signal % 5) && k > 0) continue;
        last = x;
        marker(group, look, x, scale.y(line.score[k]), 3.6);
      }
    }
    make("g", { id: "explorer-cursor" }, inside);
    at("chart").replaceChildren(svg);
    near = null;
  }

  // The hovered signal stands out, and it alone has its band.
  function light(signal) {
    if (signal === near) return;
    near = signal;
    at("chart").classList.toggle("lit", signal !== null);
    for (const old of at("chart").querySelectorAll(".band")) old.remove();
    for (const curve of at("chart").querySelectorAll(".curve")) {
      const own = Number(curve.dataset.signal) === signal;
      curve.classList.toggle("near", own);
      const line = own ? state.task.lines.find((candidate) => candidate.signal === signal) : null;
      if (line?.band) {
        const edge = (values) => line.band.speed.map((speed, k) => `${scale.x(speed).toFixed(1)} ${scale.y(values[k]).toFixed(1)}`);
        curve.prepend(make("polygon", { class: "band", points: [...edge(line.band.high), ...edge(line.band.low).reverse()].join(" ") }));
      }
    }
    for (const row of at("readout").tBodies[0].rows) row.classList.toggle("near", Number(row.dataset.signal) === signal);
  }

  function command(line, speed) {
    const look = state.task.looks[line.signal];
    return `exitbench threshold ${quoted(state.task.cache)} --signal ${quoted(look.text)} --speed-up ${Number(speed.toFixed(2))}`;
  }
  async function copy(text) {
    try { await navigator.clipboard.writeText(text); at("copied").textContent = `copied: ${text}`; }
    catch { at("copied").textContent = text; }
  }

  function update() {
    const rows = drawn().map((line) => ({ line, look: state.task.looks[line.signal], ...valuesAt(line, state.speed) }));
    // What misses the speed-up does not lead those that reach it: its score was paid for with another one.
    const apart = (row) => row.status === "unmatched" || row.status === "degenerate";
    rows.sort((a, b) => apart(a) - apart(b) || b.score - a.score);
    at("output").textContent = `${fixed(state.speed, 2)}×`;
    at("range").setAttribute("aria-valuetext", at("output").textContent);
    at("range").value = Math.round((1000 * Math.log(state.speed)) / Math.log(fastest()));
    const cursor = at("cursor");
    cursor.replaceChildren();
    make("line", { x1: scale.x(state.speed), x2: scale.x(state.speed), y1: TOP, y2: H - BOTTOM, class: "cursor" }, cursor);
    for (const row of rows) marker(cursor, row.look, scale.x(row.speed), scale.y(row.score), 5.5, { class: "dot", style: `--c: ${row.look.colour}` });
    at("readout").tBodies[0].replaceChildren(...rows.map((row) => {
      const cells = [["Score", fixed(row.score, 2)], ["Speed-up", `${fixed(row.speed, 2)}×`], ["Threshold", thresholdText(row.threshold)], ["Too early", fixed(row.premature, 1)], ["Too late", fixed(row.delayed, 1)]].map(([label, text]) => create("td", { "data-label": label, class: label.startsWith("Too") ? "rate" : "" }, create("span", {}, text)));
      if (marks[row.status]) cells[0].append(create("sup", {}, marks[row.status]));
      if (row.low !== null && row.low !== undefined) cells[0].append(" ", create("small", {}, `[${fixed(row.low, 1)}, ${fixed(row.high, 1)}]`));
      if (row.look.text) {
        const button = create("button", { type: "button", class: "copy", "aria-label": `Copy as exitbench threshold: ${row.look.label}`, title: command(row.line, state.speed) }, "copy");
        button.addEventListener("click", () => copy(command(row.line, state.speed)));
        cells.push(create("td", {}, button));
      } else cells.push(create("td"));
      const line = create("tr", { "data-signal": row.line.signal }, create("th", { scope: "row", class: isLong(row.look.label) ? "long" : "" }, key(row.look), bdi(row.look.label)), ...cells);
      line.addEventListener("pointerenter", () => light(row.line.signal));
      line.addEventListener("pointerleave", () => light(null));
      return line;
    }));
    const rated = rows.some((row) => row.premature !== null || row.delayed !== null);
    at("readout").classList.toggle("unrated", !rated);
    at("decisions").closest(".field").hidden = !rated;
    at("marks").textContent = [...new Set(rows.map((row) => row.status))].filter((status) => meanings[status]).map((status) => meanings[status]).join(" ");
    if (at("exits").open) at("histograms").replaceChildren(...rows.map(histogram));
    remember();
  }

  function histogram(row) {
    const box = create("div", { class: "histogram", style: `--c: ${row.look.colour}` }, create("h4", {}, key(row.look), bdi(row.look.label)));
    if (!row.exits) {
      box.append(create("p", { class: "remark" }, row.line.stored.length ? "stored at the marked speed-ups only" : "not stored"));
      return box;
    }
    const total = row.exits.reduce((sum, count) => sum + count, 0) || 1;
    if (row.exits.includes(total)) box.append(create("p", { class: "remark" }, `every sample exits at layer ${row.exits.indexOf(total) + 1}: a fixed layer, not the signal`));
    const share = row.exits.map((count) => count / total);
    const width = 220, height = 92, floor = 74, each = width / share.length, top = Math.max(...share) || 1;
    const words = share.map((part, layer) => `layer ${layer + 1}: ${(100 * part).toFixed(1)} %`).join(", ");
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Exits of ${row.look.label}: ${words}` });
    share.forEach((part, layer) => {
      const tall = (part / top) * (floor - 14);
      const bar = make("rect", { x: layer * each + each * 0.12, y: floor - tall, width: each * 0.76, height: tall, class: "bar" }, svg);
      make("title", {}, bar, `layer ${layer + 1}: ${row.exits[layer]} samples, ${(100 * part).toFixed(1)} %`);
      if (share.length <= 12 || layer % 4 === 0) make("text", { x: (layer + 0.5) * each, y: height - 4, "text-anchor": "middle" }, svg, layer + 1);
    });
    make("text", { x: 0, y: 10 }, svg, `largest ${(100 * top).toFixed(0)} %`);
    make("line", { x1: 0, x2: width, y1: floor, y2: floor, class: "floor" }, svg);
    box.append(svg);
    return box;
  }

  // The address remembers what is shown, so that it can be sent to somebody.
  function remember() {
    const words = new URLSearchParams({ task: state.task.label, protocol: state.task.protocol, at: state.speed.toFixed(3) });
    if (state.hidden.size) words.set("without", [...state.hidden].sort((a, b) => a - b).join("."));
    if (state.to !== null) words.set("zoom", `${state.from.toFixed(3)}-${state.to.toFixed(3)}`);
    if (ready) history.replaceState(null, "", `#explorer?${words}`);
  }
  let ready = false;
  function recall() {
    if (!location.hash.startsWith("#explorer?")) return false;
    const words = new URLSearchParams(location.hash.slice("#explorer?".length));
    const task = tasks.find((candidate) => candidate.label === words.get("task") && candidate.protocol === words.get("protocol"));
    if (!task) return false;
    choose(task.label);
    fillProtocols(task.protocol);
    const speed = Number(words.get("at")), [from, to] = (words.get("zoom") ?? "").split("-").map(Number);
    if (speed >= 1 && speed < 100) state.speed = speed;
    state.hidden = new Set((words.get("without") ?? "").split(".").filter(Boolean).map(Number).filter(Number.isInteger));
    if (from >= 1 && to > from && to < 1000) { state.from = from; state.to = to; }
    return true;
  }

  function fillLegend() {
    at("legend").replaceChildren(...state.task.lines.map((line) => {
      const look = state.task.looks[line.signal];
      const button = create("button", { type: "button", "aria-pressed": String(!state.hidden.has(line.signal)), "data-signal": line.signal }, key(look), bdi(look.label));
      button.addEventListener("click", () => {
        if (!state.hidden.delete(line.signal)) state.hidden.add(line.signal);
        button.setAttribute("aria-pressed", String(!state.hidden.has(line.signal)));
        refresh();
      });
      button.addEventListener("pointerenter", () => light(line.signal));
      button.addEventListener("pointerleave", () => light(null));
      return button;
    }));
  }
  function rated(task) {
    const speeds = new Set(task.lines.flatMap((line) => line.stored.filter((point) => point.rates[0] !== null).map((point) => `${point.at}×`)));
    return [...speeds].join(", ") || "no point";
  }
  // Folds have thresholds of their own: where they are stored, the median of them is shown at the stored points.
  function thresholdNote(task) {
    if (task.protocol !== "cross-fit") return "Thresholds are shown at the stored points.";
    const some = task.lines.some((line) => line.stored.some((point) => point.threshold !== null && point.threshold !== undefined));
    return some ? "Each fold has its own threshold; shown, at the stored points, is the median of the folds, and none where folds chose different parameters." : "Each fold has its own threshold, so none is shown.";
  }
  function refresh() { draw(); update(); }
  function option(select, value, text) { select.append(create("option", { value }, text)); }
  function fillProtocols(chosen) {
    const candidates = tasks.filter((task) => task.label === at("task").value);
    at("protocol").replaceChildren();
    for (const task of candidates) option(at("protocol"), task.protocol, task.protocol);
    at("protocol").value = candidates.some((task) => task.protocol === chosen) ? chosen : candidates[0].protocol;
  }
  function chooseTask() {
    fillProtocols(at("protocol").value);
    const before = state.task;
    state.task = tasks.find((task) => task.label === at("task").value && task.protocol === at("protocol").value);
    const room = Boolean(state.task.curves);
    for (const part of [document.querySelector(".explorer"), at("exits")]) part.hidden = !room;
    document.querySelector("#explorer > .left-out")?.remove();
    if (!room) at("remark").after(leftOut("The curve", "figure", state.task.figure));
    state.task.lines ??= (state.task.curves ?? []).map((curve) => decodeCurve(curve, state.task, state.task.units));
    if (before !== null && before.looks !== state.task.looks) state.hidden = new Set();
    const exact = state.task.lines.some((line) => line.exact);
    at("score-heading").textContent = scoreName(state.task);
    at("remark").textContent = `${state.task.rows.toLocaleString("en")} rows; move the pointer to read the curves, press to set the point, drag to zoom, double-click for the whole.`;
    const stops = [...new Set(state.task.lines.flatMap((line) => line.stored.map((point) => point.at)))].sort((a, b) => a - b);
    at("note").textContent = exact
      ? "In-sample: parameters and thresholds were chosen on the rows that are scored here, which flatters. Scores in percent with 95% intervals; too early and too late are the premature and delayed exiting rates."
      : `${thresholdNote(state.task)} Scores have 95% intervals; exits are stored at ${stops.map((stop) => `${stop}×`).join(", ") || "no point"}, where the buttons jump, and too early and too late (the premature and delayed exiting rates) at ${rated(state.task)}.`;
    at("jumps").replaceChildren(...(stops.length ? stops : [1.5, 2, 3, 4]).map((speed) => {
      const button = create("button", { type: "button", class: "button" }, `${speed}×`);
      button.addEventListener("click", () => { state.speed = speed; update(); });
      return button;
    }));
    fillLegend();
    refresh();
  }
  function zoom(from, to) {
    const most = fastest();
    state.from = Math.max(1, Math.min(from, most / 1.02));
    state.to = to >= most * 0.999 && state.from === 1 ? null : Math.min(most, Math.max(to, state.from * 1.02));
    refresh();
  }
  function zoomBy(factor) {
    const middle = Math.log(Math.min(Math.max(state.speed, scale.from), scale.to)), half = (Math.log(scale.to / scale.from) / 2) * factor;
    zoom(Math.exp(middle - half), Math.exp(middle + half));
  }

  // Hovering reads every drawn curve at the pointer; a press moves the point there, a drag zooms.
  const chart = at("chart");
  const reader = create("div", { class: "reader", hidden: "hidden" });
  function pointed(event) {
    const box = chart.querySelector("svg").getBoundingClientRect();
    return { x: ((event.clientX - box.left) / box.width) * W, y: ((event.clientY - box.top) / box.height) * H, box };
  }
  function read(event) {
    const { x, y } = pointed(event), speed = scale.speedAt(x);
    const every = drawn().map((line) => { const point = nearest(line, speed); return { line, look: state.task.looks[line.signal], score: line.score[point], speed: line.speed[point] }; });
    // A curve that has no point near this speed-up says nothing there.
    const rows = every.filter((row) => Math.abs(Math.log(row.speed / speed)) < 0.12);
    rows.sort((a, b) => b.score - a.score);
    if (rows.length === 0) { reader.hidden = true; light(null); return; }
    const closest = rows.reduce((best, row) => (Math.abs(scale.y(row.score) - y) < Math.abs(scale.y(best.score) - y) ? row : best));
    light(closest.line.signal);
    const first = Math.max(0, Math.min(rows.indexOf(closest) - MOST_READ / 2, rows.length - MOST_READ));
    const table = document.createElement("table");
    for (const row of rows.slice(first, first + MOST_READ)) {
      table.append(create("tr", row === closest ? { class: "near" } : {}, create("td", {}, key(row.look), row.look.label), create("td", {}, fixed(row.score, 1)), create("td", {}, `${fixed(row.speed, 2)}×`)));
    }
    const rest = rows.length - Math.min(rows.length, MOST_READ);
    reader.replaceChildren(create("b", {}, `${fixed(speed, 2)}×`), table, rest ? `${rest} more in the table` : "");
    reader.hidden = false;
    if (!reader.isConnected) chart.append(reader);
    // Beside the pointer and the point it names, never over them.
    const box = chart.getBoundingClientRect(), svg = chart.querySelector("svg").getBoundingClientRect();
    const dot = svg.left - box.left + (scale.x(closest.speed) / W) * svg.width, hand = event.clientX - box.left;
    const left = Math.min(dot, hand) - 14 - reader.offsetWidth, right = Math.max(dot, hand) + 14;
    reader.style.left = `${right + reader.offsetWidth <= box.width ? right : Math.max(0, left)}px`;
    reader.style.top = `${Math.min(Math.max(0, event.clientY - box.top - reader.offsetHeight / 2), Math.max(0, box.height - reader.offsetHeight))}px`;
  }
  chart.addEventListener("pointermove", (event) => {
    if (swept !== null && event.buttons === 1) {
      const { x } = pointed(event);
      swept.mark ??= make("rect", { class: "swept", y: TOP, height: H - TOP - BOTTOM }, at("cursor"));
      swept.mark.setAttribute("x", Math.min(x, swept.x));
      swept.mark.setAttribute("width", Math.abs(x - swept.x));
      reader.hidden = true;
      return;
    }
    read(event);
  });
  chart.addEventListener("pointerleave", () => { reader.hidden = true; light(null); });
  chart.addEventListener("pointerdown", (event) => { swept = { x: pointed(event).x, mark: null }; });
  chart.addEventListener("pointerup", (event) => {
    if (swept === null) return;
    const { x } = pointed(event), start = swept.x;
    swept = null;
    if (Math.abs(x - start) > 12) { reader.hidden = true; zoom(scale.speedAt(Math.min(x, start)), scale.speedAt(Math.max(x, start))); return; }
    state.speed = scale.speedAt(x);
    update();
  });
  chart.addEventListener("dblclick", () => zoom(1, Infinity));
  at("closer").addEventListener("click", () => zoomBy(0.6));
  at("wider").addEventListener("click", () => zoomBy(1 / 0.6));
  at("whole").addEventListener("click", () => zoom(1, Infinity));
  at("range").addEventListener("input", () => { state.speed = Math.exp((Number(at("range").value) / 1000) * Math.log(fastest())); update(); });
  at("exits").addEventListener("toggle", update);
  at("protocol").addEventListener("change", chooseTask);
  at("decisions").addEventListener("change", update);

  const labels = new Map(tasks.map((task) => [task.label, task.group]));
  const choose = fillChoice(at("task"), [...labels].map(([label, group]) => ({ value: label, text: label, group })), chooseTask);
  const recalled = recall();
  chooseTask();
  ready = true;
  if (recalled) document.getElementById("explorer").scrollIntoView();
  window.addEventListener("hashchange", () => { if (recall()) chooseTask(); });
  let width = chart.clientWidth;
  new ResizeObserver(() => { if (chart.clientWidth !== width) { width = chart.clientWidth; refresh(); } }).observe(chart);
})();
