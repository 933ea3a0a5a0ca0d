// Choosing among tasks: one select where there are few; with many, selects of model and task narrow it to the networks.
"use strict";
const FEW_TASKS = 24;
// Items have a value, a text, and a group: model, task and network. Returns what chooses an item by its value.
function fillChoice(select, items, changed) {
  const fill = (node, pairs, kept) => {
    node.replaceChildren(...pairs.map(([value, text]) => create("option", { value }, text)));
    if (pairs.some(([value]) => String(value) === String(kept))) node.value = kept;
  };
  select.addEventListener("change", changed);
  if (items.length <= FEW_TASKS) {
    fill(select, items.map(({ value, text }) => [value, text]));
    return (value) => { select.value = value; };
  }
  const label = select.closest("label");
  label.firstElementChild.textContent = "Network";
  const [model, task] = ["Model", "Task"].map((word) => {
    const node = create("select", { class: "narrows" });
    label.before(create("label", { class: "field" }, create("span", {}, word), node));
    return node;
  });
  const among = (...wanted) => items.filter((item) => wanted.every((name, depth) => item.group[depth] === name));
  const names = (some, depth) => [...new Set(some.map((item) => item.group[depth]))].map((name) => [name, name]);
  // What was chosen before stays chosen where it is among what is left.
  function narrow() {
    fill(task, names(among(model.value), 1), task.value);
    const before = items.find((item) => String(item.value) === select.value)?.group[2];
    const left = among(model.value, task.value);
    fill(select, left.map((item) => [item.value, item.group[2]]), left.find((item) => item.group[2] === before)?.value);
  }
  for (const node of [model, task]) node.addEventListener("change", () => { narrow(); changed(); });
  fill(model, names(items, 0));
  narrow();
  return (value) => {
    const chosen = items.find((item) => String(item.value) === String(value));
    if (!chosen) return;
    model.value = chosen.group[0];
    fill(task, names(among(model.value), 1), chosen.group[1]);
    fill(select, among(model.value, task.value).map((item) => [item.value, item.group[2]]), value);
  };
}
// What the page has no room for: the command that makes it.
function leftOut(what, verb, name) {
  return create("p", { class: "fine left-out" }, `${what} is left out, so that this page stays below 5 MB. In the folder of the run this makes it: `, create("code", {}, `exitbench ${verb} . ${quoted(name)}`));
}
