"""Matplotlib's SVG in a third of the bytes, for pages that carry many: what is seen stays the same.

Coordinates are rounded to a tenth of a point, level and upright strokes take their short form, repeated styles become
classes, and names of groups that nothing refers to go. Only tags are touched, never the text between them.
"""

from __future__ import annotations

import hashlib
import re

NUMBER = re.compile(r"-?\d+\.\d{2,}")
STEP = re.compile(r"([ML]) (-?[\d.]+) (-?[\d.]+)")
PLACES = re.compile(r'\s(d|x|y|x1|x2|y1|y2|width|height|points)="([^"]*)"')


def rounded(text: str) -> str:
    """Numbers with one decimal at most.

    >>> rounded("12.3456 -0.04 7.0")
    '12.3 0 7'
    """
    short = NUMBER.sub(lambda match: f"{float(match[0]):.1f}", text)
    return re.sub(r"(\d)\.0(?!\d)", r"\1", short).replace("-0 ", "0 ")


def short_path(path: str) -> str:
    """A path with H and V for level and upright strokes.

    >>> short_path("M 1 2 L 3 2 L 3 5 L 4 6 z")
    'M1 2H3V5L4 6z'
    """
    words = " ".join(path.split())
    x = y = ""
    pieces, end = [], 0
    for step in STEP.finditer(words):
        if words[end : step.start()].strip():
            x = y = ""  # a curve or a closed part: where the pen is now is not known here
        pieces.append(words[end : step.start()])
        end = step.end()
        command, to_x, to_y = step.groups()
        if command == "L" and (x, y) == (to_x, to_y):
            pass
        elif command == "L" and y == to_y:
            pieces.append(f"H{to_x}")
        elif command == "L" and x == to_x:
            pieces.append(f"V{to_y}")
        else:
            pieces.append(f"{command}{to_x} {to_y}")
        x, y = to_x, to_y
    pieces.append(words[end:])
    return re.sub(r" ?([A-Za-z]) ?", r"\1", "".join(pieces))


def smaller(svg: str, name: str) -> str:
    """The same picture in fewer bytes; class names begin with a digest of ``name``: pictures may share a page."""
    svg = re.sub(r"<\?xml[^>]*>\s*|<!DOCTYPE[^>]*>\s*", "", svg)
    svg = re.sub(r">\s*\n\s*<", "><", svg)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
    prefix = "c" + hashlib.sha256(name.encode()).hexdigest()[:6]
    classes: dict[str, str] = {}

    def style(match: re.Match[str]) -> str:
        return f' class="{classes.setdefault(match[1], f"{prefix}{len(classes)}")}"'

    def rounded_position(match: re.Match[str]) -> str:
        value = rounded(match[2])
        return f' {match[1]}="{short_path(value) if match[1] == "d" else value}"'

    def tag(match: re.Match[str]) -> str:
        text = match[0]
        if text.startswith(("</", "<svg", "<style", "<image")):
            return text
        text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
        text = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", text)
        return re.sub(r' style="([^"]*)"', style, PLACES.sub(rounded_position, text))

    svg = re.sub(r"<[^>]*>", tag, svg)
    rules = "".join(f".{word}{{{rule}}}" for rule, word in classes.items())
    return svg.replace("</style>", f"{rules}</style>", 1)
