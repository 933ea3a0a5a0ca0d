// Theme, contents and hover texts. Everything here adds to a page that is complete without it.
"use strict";
// Data lies in the page as compressed JSON.
async function unpack(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (sign) => sign.charCodeAt(0));
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

  // Contents: closed on narrow screens, and following the reader.
  const contents = document.querySelector(".contents details");
  const narrow = window.matchMedia("(max-width: 64rem)");
  const fit = () => { contents.open = !narrow.matches; };
  fit();
  narrow.addEventListener("change", fit);
  const links = new Map();
  for (const link of contents.querySelectorAll('a[href^="#"]')) {
    links.set(decodeURIComponent(link.hash.slice(1)), link);
    link.addEventListener("click", () => { if (narrow.matches) contents.open = false; });
  }
  const visible = new Set();
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) visible.add(entry.target.id); else visible.delete(entry.target.id);
    let marked = false;
    for (const [id, link] of links) {
      const current = !marked && visible.has(id);
      marked = marked || current;
      if (current) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-10% 0px -70% 0px" });
  for (const id of links.keys()) { const section = document.getElementById(id); if (section) watcher.observe(section); }

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
    if (target.matches("button, a")) target.setAttribute("aria-describedby", "tip");
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
    for (const part of closed) part.open = true;
  });
  window.addEventListener("afterprint", () => { for (const part of closed) part.open = false; });
})();
