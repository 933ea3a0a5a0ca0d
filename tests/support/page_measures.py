"""What is measured of a page in a real browser: what is cut off or broken, and what axe says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

AXE = (Path(__file__).parent / "axe.min.js").read_text(encoding="utf-8")
RULES = {
    "light": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
    "dark": ["color-contrast", "link-in-text-block"],
}
"""What axe is asked in each theme: in the dark one only what colours can change."""

CUT_OFF = """
  const wide = (node) => node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX !== "visible";
  return [...document.querySelectorAll("table, th, td, h1, h2, h3, p, li, summary, figure, pre")].filter((node) => {
    const box = node.getBoundingClientRect();
    return box.width > 1 && !node.closest(".visually-hidden, .skip, [hidden], td > i")
      && (box.right > document.documentElement.clientWidth + 1 || box.left < -1 || wide(node));
  }).map((node) => node.outerHTML.slice(0, 160))"""
"""What sticks out of the screen, or is hidden inside its own box."""

BROKEN_WORDS = """
  const broken = [];
  for (const head of document.querySelectorAll("thead th")) {
    const texts = document.createTreeWalker(head, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      for (const word of texts.currentNode.textContent.matchAll(/[\\p{L}\\p{N}.,×]+(?:-[\\p{L}\\p{N}]+)*/gu)) {
        if (word[0].includes("-") && word[0].length > 10) continue;
        const range = document.createRange();
        range.setStart(texts.currentNode, word.index);
        range.setEnd(texts.currentNode, word.index + word[0].length);
        const lines = [...range.getClientRects()].filter((box) => box.width > 0).map((box) => Math.round(box.top));
        if (new Set(lines).size > 1 && head.closest("thead").offsetWidth > 1) broken.push(word[0]);
      }
    }
  }
  return broken"""
"""Words of headings that stand on two lines; only a hyphenated one of more than ten letters may."""

BROKEN_NUMBERS = """
  return [...document.querySelectorAll(".lead td > span, .lead td > bdi")].flatMap((cell) => {
    const broken = [], texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), nodes = [];
    while (texts.nextNode()) nodes.push(texts.currentNode);
    const all = nodes.map((node) => node.textContent).join("");
    let begin = 0;
    for (const piece of all ? all.split(", ") : []) {
      const range = document.createRange(), end = begin + piece.length;
      const at = (place) => {
        let before = 0;
        for (const node of nodes) {
          if (place <= before + node.textContent.length) return [node, place - before];
          before += node.textContent.length;
        }
      };
      range.setStart(...at(begin));
      range.setEnd(...at(end));
      const lines = [...range.getClientRects()].filter((box) => box.width > 1).map((box) => Math.round(box.bottom / 6));
      if (new Set(lines).size > 1) broken.push(piece);
      begin = end + 2;
    }
    return broken;
  })"""
"""Numbers, ranges and counts of the first table that stand on two lines."""

OUT_OF_CARD = """
  return [...document.querySelectorAll(".table table")].filter((table) => {
    const box = table.getBoundingClientRect(), card = table.closest(".table").getBoundingClientRect();
    return box.width > 1 && box.right > card.right + 0.5;
  }).map((table) => table.getAttribute("aria-label") ?? table.outerHTML.slice(0, 80))"""
"""Tables that are wider than the card they lie on."""

ONE_ROW_OF_EACH_FORM = """
const seen = new Set();
for (const row of document.querySelectorAll("tbody tr")) {
  const form = [row, ...row.querySelectorAll("*")].map((part) => part.tagName + part.className).join();
  if (seen.has(form)) row.remove();
  seen.add(form);
}
"""
"""Of rows with the same elements and classes axe would say the same a hundred times, in most of a minute."""


def violations(page: Any, theme: str) -> list[Any]:
    """The serious violations that axe finds in a theme; rows of a form already seen are taken out of the page."""
    page.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
    page.execute_script(ONE_ROW_OF_EACH_FORM)
    page.execute_script(AXE)
    page.set_script_timeout(120)
    every = page.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {resultTypes: ['violations'], runOnly: arguments[0]})"
        ".then((all) => done(all.violations.map((one) =>"
        " [one.impact, one.id, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))])))",
        RULES[theme],
    )
    return [violation for violation in every if violation[0] in ("serious", "critical")]
