"""A module's docstring as Markdown: formulas become MathML, which browsers draw without a script."""

import re

import latex2mathml.converter

FORMULA = re.compile(r"^\.\. math:: (.*(?:\n {3}\S.*)*)", re.MULTILINE)
INLINE = re.compile(r":math:`([^`]+)`")
MODULE = re.compile(r":mod:`exitbench\.signals\.(\w+)`")
CODE = re.compile(r"``([^`]+)``")


def as_markdown(docstring: str, page_of: dict[str, str]) -> str:
    """The text of a docstring; ``page_of`` has the page of each module that it may refer to."""
    formulas: list[str] = []

    def kept(html: str) -> str:
        """A mark in the place of a formula: its letters are not Markdown."""
        formulas.append(html)
        return f"\u27e6{len(formulas) - 1}\u27e7"

    text = FORMULA.sub(lambda match: kept(block(" ".join(match[1].split()))), docstring)
    text = INLINE.sub(lambda match: kept(mathml(match[1], "inline")), text)
    text = MODULE.sub(lambda match: f"[{match[1]}]({page_of[match[1]]})", text)
    text = CODE.sub(r"`\1`", text)
    return re.sub(r"\u27e6(\d+)\u27e7", lambda match: formulas[int(match[1])], text)


def block(formula: str) -> str:
    """A formula on a line of its own."""
    return f'<div class="formula">{mathml(formula, "block")}</div>'


def mathml(formula: str, display: str) -> str:
    """A formula of LaTeX as MathML in one line."""
    return str(latex2mathml.converter.convert(formula, display=display))
