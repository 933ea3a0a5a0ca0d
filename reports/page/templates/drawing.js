// What the explorer draws with: curves unpacked from their steps, markers as in the figures, numbers as text.
"use strict";
const SVG = "http://www.w3.org/2000/svg";
// Columns hold differences; null where there is no value.
function decode(steps, unit) {
  let last = 0;
  return steps.map((step) => (step === null ? null : (last += step) * unit));
}
function decodeCurve(curve, task, units) {
  const line = { signal: curve.signal, dash: curve.dash ?? null, score: decode(curve.score, units.score), stored: curve.stored ?? [], exact: Boolean(curve.exits) };
  if (curve.exits) {
    line.exits = curve.exits.map((layer) => decode(layer, 1));
    line.speed = line.score.map((_, k) => (task.costs.at(-1) * task.rows) / line.exits.reduce((sum, layer, m) => sum + task.costs[m] * layer[k], 0));
    line.thresholds = curve.thresholds;
    line.rates = curve.rates.map((rate) => decode(rate, units.rate));
  } else {
    line.speed = decode(curve.cost, units.cost).map((cost) => 1 / cost);
  }
  if (curve.band) {
    line.band = { speed: decode(curve.band.cost, units.cost).map((cost) => 1 / cost), low: decode(curve.band.low, units.score), high: decode(curve.band.high, units.score) };
  }
  return line;
}

function make(name, attributes, parent, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}
// The markers of the figures, as paths in a square of side 2.
const shapes = {
  o: "M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0", s: "M-.85-.85h1.7v1.7h-1.7z", D: "M0-1.15 1.15 0 0 1.15-1.15 0z", d: "M0-1.2 .75 0 0 1.2-.75 0z",
  "^": "M0-1 1 .8H-1z", v: "M0 1 1-.8H-1z", "<": "M-1 0 .8-1V1z", ">": "M1 0-.8-1V1z",
  P: "M-.35-1h.7v.65h.65v.7h-.65v.65h-.7v-.65h-.65v-.7h.65z", X: "M-1-.5-.5-1 0-.5 .5-1 1-.5 .5 0 1 .5 .5 1 0 .5-.5 1-1 .5-.5 0z",
  x: "M-1-.75-.75-1 0-.25 .75-1 1-.75 .25 0 1 .75 .75 1 0 .25-.75 1-1 .75-.25 0z",
  ".": "M-.55,0a.55,.55 0 1,0 1.1,0a.55,.55 0 1,0 -1.1,0", H: "M-1 0-.5-.87H.5L1 0 .5 .87H-.5z", 8: "M-.4-.95H.4L.95-.4V.4L.4 .95H-.4L-.95 .4V-.4z",
  p: "M0-1 .95-.3 .6 .8H-.6L-.95-.3z", h: "M0-1 .87-.5V.5L0 1-.87 .5V-.5z", "*": "M0-1.1 .3-.35 1.1-.3 .5 .2 .7 1 0 .55-.7 1-.5 .2-1.1-.3-.3-.35z",
};
function marker(parent, look, x, y, size, extra = {}) {
  return make("path", { d: shapes[look.marker] ?? shapes.o, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${size})`, "vector-effect": "non-scaling-stroke", ...extra }, parent);
}
function key(look) {
  const icon = make("svg", { viewBox: "0 0 32 16", class: "key", "aria-hidden": "true", style: `--c: ${look.colour}` });
  make("line", { x1: 1, x2: 31, y1: 8, y2: 8, "stroke-width": 2.2 }, icon);
  marker(icon, look, 16, 8, 5);
  return icon;
}
const fixed = (value, places) => (value === null || value === undefined || !Number.isFinite(value) ? "–" : value.toFixed(places));
const thresholdText = (value) => (value === null || value === undefined ? "–" : typeof value === "string" ? value : String(Number(value.toPrecision(6))));
function niceStep(span) {
  const raw = span / 6, power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= raw);
}
// A word as a POSIX shell reads it back.
const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`);
// The value of one column at a place in another that rises or falls, on the line between its neighbours; null outside.
function between(places, values, at) {
  for (let k = 1; k < places.length; k += 1) {
    const [a, b] = [places[k - 1], places[k]];
    if ((at - a) * (at - b) <= 0) return a === b ? values[k] : values[k - 1] + ((values[k] - values[k - 1]) * (at - a)) / (b - a);
  }
  return null;
}
// The operating point nearest to a speed-up; of two as near, the faster.
function nearest(line, speed) {
  let best = 0;
  for (let k = 1; k < line.speed.length; k += 1) {
    const closer = Math.abs(line.speed[k] - speed) - Math.abs(line.speed[best] - speed);
    if (closer < 0 || (closer === 0 && line.speed[k] > line.speed[best])) best = k;
  }
  return best;
}
