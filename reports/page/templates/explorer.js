// The explorer: curves of one task, a point on each, and what happens there.
"use strict";
(async () => {
  const runs = await unpack("explorer-data");
  const at = (id) => document.getElementById(`explorer-${id}`);
  let W = 720, H = 430;
  const LEFT = 54, RIGHT = 18, TOP = 14, BOTTOM = 44;

  const tasks = runs.flatMap((run) => run.tasks.map((task) => ({
    ...task, label: run.run ? `${task.label} (${run.run})` : task.label, looks: run.signals, units: run.units, primary: run.primary, lines: null,
  })));
  if (tasks.length === 0) {
    document.getElementById("explorer-fallback").textContent = "This run stored no curves to explore.";
    return;
  }
  const state = { task: null, chosen: new Set(), mode: "speed", speed: tasks[0].primary, leader: null, point: 0 };

  const scoreName = (task) => (task.score === "f1" ? "F1" : "Accuracy");
  const drawn = () => state.task.lines.filter((line) => state.chosen.has(line.signal));

  function valuesAt(line, point, speed) {
    const rate = Number(at("decisions").value);
    if (line.exact) {
      return { score: line.score[point], speed: line.speed[point], threshold: line.thresholds[point], premature: line.rates[rate][point], delayed: line.rates[rate + 1][point], exits: line.exits.map((layer) => layer[point]) };
    }
    // Merged folds: rates and exits were stored at the suite's operating points only, so they show only there.
    const stored = line.stored.find((point) => Math.abs(point.at - speed) < 0.005);
    return { score: stored?.score ?? line.score[point], speed: stored?.speed_up ?? line.speed[point], threshold: null, premature: stored?.rates[rate] ?? null, delayed: stored?.rates[rate + 1] ?? null, exits: stored?.exits ?? null };
  }

  const banded = (lines) => lines.length <= 3;
  // Scales: speed-ups on a log axis, so that relative cost is read evenly; scores over what is drawn.
  function scales() {
    const lines = drawn();
    const fastest = Math.max(1.2, ...lines.map((line) => Math.max(...line.speed)));
    let low = Infinity, high = -Infinity;
    const reach = (values) => { for (const score of values) { if (score < low) low = score; if (score > high) high = score; } };
    for (const line of lines) {
      reach(line.score);
      if (line.band && banded(lines)) { reach(line.band.low); reach(line.band.high); }
    }
    if (state.task.final !== null) { low = Math.min(low, state.task.final); high = Math.max(high, state.task.final); }
    if (!Number.isFinite(low)) { low = 0; high = 100; }
    const room = Math.max(0.5, (high - low) * 0.05);
    low -= room; high += room;
    const span = Math.log(fastest);
    return {
      fastest, low, high,
      x: (speed) => LEFT + (Math.log(Math.max(1, speed)) / span) * (W - LEFT - RIGHT),
      y: (score) => H - BOTTOM - ((score - low) / (high - low)) * (H - TOP - BOTTOM),
      speedAt: (x) => Math.exp(((Math.min(Math.max(x, LEFT), W - RIGHT) - LEFT) / (W - LEFT - RIGHT)) * span),
    };
  }

  let scale = null;
  function draw() {
    W = Math.max(320, Math.min(760, at("chart").clientWidth - 16));
    H = Math.round(Math.max(280, 0.58 * W));
    scale = scales();
    const lines = drawn();
    const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${scoreName(state.task)} against speed-up on ${state.task.label}, ${state.task.protocol}, for ${lines.length} signals; the table below holds the values at the chosen point.` });
    let lastTick = -Infinity;
    for (const tick of [1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48].filter((speed) => speed <= scale.fastest)) {
      const x = scale.x(tick);
      if (x - lastTick < 34) continue;
      lastTick = x;
      make("line", { x1: x, x2: x, y1: TOP, y2: H - BOTTOM, class: "grid" }, svg);
      make("text", { x, y: H - BOTTOM + 17, "text-anchor": "middle" }, svg, `${tick}×`);
    }
    const step = niceStep(scale.high - scale.low);
    for (let tick = Math.ceil(scale.low / step) * step; tick <= scale.high; tick += step) {
      const y = scale.y(tick);
      make("line", { x1: LEFT, x2: W - RIGHT, y1: y, y2: y, class: "grid" }, svg);
      make("text", { x: LEFT - 7, y: y + 4, "text-anchor": "end" }, svg, fixed(tick, step < 1 ? 1 : 0));
    }
    make("path", { d: `M${LEFT} ${TOP}V${H - BOTTOM}H${W - RIGHT}`, class: "axis", fill: "none" }, svg);
    make("text", { x: (LEFT + W - RIGHT) / 2, y: H - 6, "text-anchor": "middle" }, svg, state.task.own_costs ? "speed-up (cost of the last layer ÷ mean cost paid), log scale" : "speed-up (layers ÷ mean exit layer), log scale");
    make("text", { x: 14, y: (TOP + H - BOTTOM) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(TOP + H - BOTTOM) / 2})` }, svg, scoreName(state.task));
    if (state.task.final !== null) {
      const y = scale.y(state.task.final);
      make("line", { x1: LEFT, x2: W - RIGHT, y1: y, y2: y, class: "axis", "stroke-dasharray": "6 4" }, svg);
      make("text", { x: W - RIGHT, y: y - 5, "text-anchor": "end" }, svg, "final layer");
    }
    for (const line of lines) {
      const look = state.task.looks[line.signal];
      if (line.band && banded(lines)) {
        const forth = line.band.speed.map((speed, k) => `${scale.x(speed).toFixed(1)} ${scale.y(line.band.high[k]).toFixed(1)}`);
        const back = line.band.speed.map((speed, k) => `${scale.x(speed).toFixed(1)} ${scale.y(line.band.low[k]).toFixed(1)}`).reverse();
        make("polygon", { points: [...forth, ...back].join(" "), fill: look.colour, opacity: 0.14 }, svg);
      }
      make("polyline", { points: line.speed.map((speed, k) => `${scale.x(speed).toFixed(1)},${scale.y(line.score[k]).toFixed(1)}`).join(" "), fill: "none", stroke: look.colour, "stroke-width": 1.8, "stroke-linejoin": "round", ...(line.dash ? { "stroke-dashoffset": -line.dash[0], "stroke-dasharray": line.dash.slice(1).join(" ") } : {}) }, svg);
      let last = -Infinity;
      for (let k = 0; k < line.speed.length; k += 1) {
        const x = scale.x(line.speed[k]);
        if (x - last < 90 + 13 * (line.signal % 5) && k > 0) continue;
        last = x;
        marker(svg, look, x, scale.y(line.score[k]), 3.6);
      }
    }
    make("g", { id: "explorer-cursor" }, svg);
    at("chart").replaceChildren(svg);
  }

  function update() {
    const leader = state.task.lines.find((line) => line.signal === state.leader);
    const followed = state.mode === "threshold" && leader;
    const speed = followed ? leader.speed[state.point] : state.speed;
    const rows = drawn().map((line) => {
      const point = followed && line === leader ? state.point : nearest(line, speed);
      return { line, look: state.task.looks[line.signal], ...valuesAt(line, point, followed ? -1 : state.speed) };
    });
    const description = followed
      ? `threshold ${thresholdText(leader.thresholds[state.point])} · ${fixed(speed, 2)}×`
      : `${fixed(state.speed, 2)}×`;
    at("output").textContent = description;
    at("range").setAttribute("aria-valuetext", followed ? `${state.task.looks[state.leader].label}: ${description}` : description);
    const cursor = document.getElementById("explorer-cursor");
    cursor.replaceChildren();
    make("line", { x1: scale.x(speed), x2: scale.x(speed), y1: TOP, y2: H - BOTTOM, class: "cursor" }, cursor);
    for (const row of rows) marker(cursor, row.look, scale.x(row.speed), scale.y(row.score), 6, { class: "dot" });

    const body = at("readout").tBodies[0];
    body.replaceChildren(...rows.map((row) => {
      const line = document.createElement("tr");
      const name = document.createElement("th");
      name.scope = "row";
      const label = document.createElement("bdi");
      label.textContent = row.look.label;
      name.append(key(row.look), label);
      line.append(name);
      for (const text of [fixed(row.score, 2), `${fixed(row.speed, 2)}×`, thresholdText(row.threshold), fixed(row.premature, 1), fixed(row.delayed, 1)]) {
        line.insertCell().textContent = text;
      }
      return line;
    }));
    at("histograms").replaceChildren(...rows.map(histogram));
  }

  function histogram(row) {
    const box = document.createElement("div");
    box.className = "histogram";
    const title = document.createElement("h4");
    const label = document.createElement("bdi");
    label.textContent = row.look.label;
    title.append(key(row.look), label);
    box.append(title);
    if (!row.exits) {
      const note = document.createElement("p");
      note.className = "remark";
      note.textContent = state.task.lines[0] && row.line.stored.length ? "stored at the marked speed-ups only" : "not stored";
      box.append(note);
      return box;
    }
    const total = row.exits.reduce((sum, count) => sum + count, 0) || 1;
    if (row.exits.includes(total)) {
      const note = document.createElement("p");
      note.className = "remark";
      note.textContent = `every sample exits at layer ${row.exits.indexOf(total) + 1}: a fixed layer, not the signal`;
      box.append(note);
    }
    const share = row.exits.map((count) => count / total);
    const width = 190, height = 84, floor = 68, each = width / share.length, top = Math.max(...share) || 1;
    const words = share.map((part, layer) => `layer ${layer + 1}: ${(100 * part).toFixed(1)} %`).join(", ");
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Exits of ${row.look.label}: ${words}` });
    share.forEach((part, layer) => {
      const tall = (part / top) * (floor - 12);
      const bar = make("rect", { x: layer * each + each * 0.12, y: floor - tall, width: each * 0.76, height: tall, fill: row.look.colour, class: "bar" }, svg);
      make("title", {}, bar, `layer ${layer + 1}: ${row.exits[layer]} samples, ${(100 * part).toFixed(1)} %`);
      if (share.length <= 12 || layer % 4 === 0) make("text", { x: (layer + 0.5) * each, y: height - 6, "text-anchor": "middle" }, svg, layer + 1);
    });
    make("text", { x: 0, y: 8 }, svg, `largest ${(100 * top).toFixed(0)} %`);
    make("line", { x1: 0, x2: width, y1: floor, y2: floor, stroke: "currentColor", opacity: 0.4 }, svg);
    box.append(svg);
    return box;
  }

  // The slider: a speed-up on the log axis, or the operating points of one signal.
  function fitRange() {
    const range = at("range"), leader = state.task.lines.find((line) => line.signal === state.leader);
    const label = document.querySelector('label[for="explorer-range"]');
    if (state.mode === "threshold" && leader) {
      range.max = leader.speed.length - 1;
      state.point = Math.min(state.point, leader.speed.length - 1);
      range.value = state.point;
      label.textContent = `Threshold of ${state.task.looks[state.leader].label}`;
    } else {
      range.max = 1000;
      range.value = Math.round((1000 * Math.log(state.speed)) / Math.log(scale.fastest));
      label.textContent = "Speed-up";
    }
  }
  function refresh() { draw(); fitRange(); update(); }

  function rated(task) {
    const speeds = new Set(task.lines.flatMap((line) => line.stored.filter((point) => point.rates[0] !== null).map((point) => `${point.at}×`)));
    return speeds.size ? [...speeds].join(", ") : "none";
  }
  function option(select, value, text) {
    const choice = document.createElement("option");
    choice.value = value;
    choice.textContent = text;
    select.append(choice);
  }
  function chooseTask() {
    const label = at("task").value;
    const candidates = tasks.filter((task) => task.label === label);
    const protocol = at("protocol");
    const chosen = protocol.value;
    protocol.replaceChildren();
    for (const task of candidates) option(protocol, task.protocol, task.protocol);
    protocol.value = candidates.some((task) => task.protocol === chosen) ? chosen : candidates[0].protocol;
    const before = state.task;
    state.task = candidates.find((task) => task.protocol === protocol.value);
    state.task.lines ??= state.task.curves.map((curve) => decodeCurve(curve, state.task, state.task.units));
    if (!before || before.looks !== state.task.looks) fillSignals();
    const exact = state.task.lines.filter((line) => line.exact);
    at("threshold-mode").disabled = exact.length === 0;
    if (exact.length === 0 && state.mode === "threshold") { state.mode = "speed"; document.querySelector('input[name="explorer-mode"][value="speed"]').checked = true; }
    const leader = at("leader");
    leader.replaceChildren();
    for (const line of exact) option(leader, line.signal, state.task.looks[line.signal].label);
    if (!exact.some((line) => line.signal === state.leader)) state.leader = exact.length ? exact[0].signal : null;
    if (state.leader !== null) leader.value = state.leader;
    at("leader-field").hidden = state.mode !== "threshold";
    at("score-heading").textContent = scoreName(state.task);
    at("remark").textContent = exact.length > 0
      ? "Bands (95 %) show with up to three signals. Random has an expected curve only."
      : `Merged folds have no common threshold: each fold has its own. Exit layers are stored at the suite's speed-ups only, rates at ${rated(state.task)}; the buttons jump there.`;
    const stops = [...new Set(state.task.lines.flatMap((line) => line.stored.map((point) => point.at)))];
    const jumps = (stops.length ? stops : [1.5, 2, 3, 4]).sort((a, b) => a - b);
    at("jumps").replaceChildren(...jumps.map((speed) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "button";
      button.textContent = `${speed}×`;
      button.addEventListener("click", () => {
        state.mode = "speed";
        document.querySelector('input[name="explorer-mode"][value="speed"]').checked = true;
        at("leader-field").hidden = true;
        state.speed = speed;
        refresh();
      });
      return button;
    }));
    refresh();
  }
  function fillSignals() {
    state.chosen = new Set(state.task.lines.map((line) => line.signal).slice(0, 8));
    at("signals").replaceChildren(...state.task.looks.map((look, number) => {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.value = number;
      box.checked = state.chosen.has(number);
      box.addEventListener("change", () => { if (box.checked) state.chosen.add(number); else state.chosen.delete(number); refresh(); });
      const name = document.createElement("bdi");
      name.textContent = look.label;
      label.append(box, key(look), name);
      return label;
    }));
  }

  for (const label of new Set(tasks.map((task) => task.label))) option(at("task"), label, label);
  for (const id of ["task", "protocol"]) at(id).addEventListener("change", chooseTask);
  at("decisions").addEventListener("change", update);
  at("leader").addEventListener("change", () => { state.leader = Number(at("leader").value); refresh(); });
  for (const radio of document.querySelectorAll('input[name="explorer-mode"]')) {
    radio.addEventListener("change", () => {
      state.mode = radio.value;
      at("leader-field").hidden = state.mode !== "threshold";
      const leader = state.task.lines.find((line) => line.signal === state.leader);
      if (state.mode === "threshold" && leader) state.point = nearest(leader, state.speed);
      refresh();
    });
  }
  at("range").addEventListener("input", () => {
    const value = Number(at("range").value);
    if (state.mode === "threshold") state.point = value; else state.speed = Math.exp((value / 1000) * Math.log(scale.fastest));
    update();
  });

  // Hovering reads every drawn curve at the pointer; a press moves the point there.
  const chart = at("chart");
  const reader = document.createElement("div");
  reader.className = "reader";
  reader.hidden = true;
  function speedUnder(event) {
    const box = chart.querySelector("svg").getBoundingClientRect();
    return scale.speedAt(((event.clientX - box.left) / box.width) * W);
  }
  chart.addEventListener("pointermove", (event) => {
    const speed = speedUnder(event);
    const head = document.createElement("b");
    head.textContent = `${fixed(speed, 2)}×`;
    const table = document.createElement("table");
    for (const line of drawn()) {
      const point = nearest(line, speed), look = state.task.looks[line.signal], row = table.insertRow();
      const name = row.insertCell();
      name.append(key(look), look.label);
      row.insertCell().textContent = fixed(line.score[point], 2);
      row.insertCell().textContent = `${fixed(line.speed[point], 2)}×`;
    }
    reader.replaceChildren(head, table);
    reader.hidden = false;
    if (!reader.isConnected) chart.append(reader);
    const box = chart.getBoundingClientRect(), x = event.clientX - box.left;
    reader.style.left = `${x + 16 + reader.offsetWidth > box.width ? Math.max(0, x - reader.offsetWidth - 16) : x + 16}px`;
    reader.style.top = `${Math.max(0, event.clientY - box.top - reader.offsetHeight / 2)}px`;
    if (event.buttons === 1 && state.mode === "speed") { state.speed = speed; fitRange(); update(); }
  });
  chart.addEventListener("pointerleave", () => { reader.hidden = true; });
  chart.addEventListener("pointerdown", (event) => { if (state.mode === "speed") { state.speed = speedUnder(event); fitRange(); update(); } });

  document.getElementById("explorer-fallback").hidden = true;
  document.getElementById("explorer-body").hidden = false;
  chooseTask();
  let width = chart.clientWidth;
  new ResizeObserver(() => { if (chart.clientWidth !== width) { width = chart.clientWidth; refresh(); } }).observe(chart);
})();
