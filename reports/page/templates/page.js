// Theme, hover texts and paper.
"use strict";
// Data lies in the page as compressed JSON.
async function unpack(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(`data-${id}`).textContent), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");

  // Storage may be refused (private windows, files opened from disk); the choice then lasts as long as the page.
  const remembered = {
    read() { try { return window.localStorage.getItem("exitbench-theme"); } catch { return null; } },
    write(value) { try { window.localStorage.setItem("exitbench-theme", value); } catch { /* kept in the page only */ } },
  };
  const themes = ["auto", "light", "dark"];
  const button = document.getElementById("theme");
  function show(theme) {
    if (theme === "auto") root.removeAttribute("data-theme"); else root.setAttribute("data-theme", theme);
    button.textContent = `Theme: ${theme}`;
    button.dataset.theme = theme;
  }
  const stored = remembered.read();
  show(themes.includes(stored) ? stored : "auto");
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(button.dataset.theme) + 1) % themes.length];
    show(next);
    remembered.write(next);
  });

  // Hover texts: the title attribute serves without scripts; here it also serves the keyboard, and is never cut off.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.id = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);
  let owner = null;
  function open(target) {
    if (target.title) { target.dataset.hint = target.title; target.removeAttribute("title"); }
    if (!target.dataset.hint) return;
    close();
    owner = target;
    tip.textContent = target.dataset.hint;
    tip.hidden = false;
    if (target.matches("button, a, [tabindex]")) target.setAttribute("aria-describedby", "tip");
    const box = target.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left), window.innerWidth - tip.offsetWidth - 8);
    const below = box.bottom + 6 + tip.offsetHeight < window.innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? box.bottom + 6 : box.top - 6 - tip.offsetHeight}px`;
  }
  function close() {
    tip.hidden = true;
    if (owner) owner.removeAttribute("aria-describedby");
    owner = null;
  }
  const hinted = (event) => event.target instanceof Element && event.target.closest("[title], [data-hint]");
  document.addEventListener("pointerover", (event) => { const target = hinted(event); if (target) open(target); else close(); });
  document.addEventListener("focusin", (event) => { const target = hinted(event); if (target) open(target); else close(); });
  document.addEventListener("focusout", close);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  // What the keyboard opened stays with its heading while the page scrolls to it.
  const follow = () => { if (owner !== null && owner === document.activeElement) open(owner); else close(); };
  window.addEventListener("scroll", follow, { passive: true, capture: true });

  // On paper everything is open.
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const part of closed) { part.open = true; }
  });
  window.addEventListener("afterprint", () => { for (const part of closed) part.open = false; });
})();
