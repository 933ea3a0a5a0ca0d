"""Where publications' text and code part, as a page of Markdown made from what the signals declare."""

from exitbench.signals.registry.registry import Registry

BAR = r"\|"
"""A bar inside a cell of a table."""

OPENING = """\
# Where text and code of a publication part

A signal is often published twice: as a formula in a paper and as a program. Where the two compute different *scores*,
both forms are parameters of the signal here; the default is the text's formula. Where only something else differs
(training, a metric's name, how exits are simulated), it is listed below: it changes no score that is read from a
cache. A rule with `<=` in place of `<` has the same operating points under other thresholds.

"Speed-up" has three meanings in published code: layers / mean exit layer (NSP, F-PABEE; the one used here),
1 - mean exit layer / layers (PABEE, PCEE-BERT), and wall clock (DeeBERT).

Written by `python scripts/write_text_and_code.py` from what the signals declare.
"""


def text_and_code(registry: Registry) -> str:
    """The page: per signal its published forms as a table, then what differs beyond the score."""
    parts = [OPENING]
    for name in sorted(registry.signals):
        signal = registry.get(name)
        if not signal.forms and not signal.beyond_the_score:
            continue
        parts.append(f"## {signal.title}\n")
        if signal.forms:
            texts = [f"{name}[{form.parameters}]".replace("|", BAR) for form in signal.forms]
            rows = [
                f"| {form.source} | `{text}` | {form.score} |" for form, text in zip(signal.forms, texts, strict=True)
            ]
            parts.append("\n".join(["| who | here | score |", "|---|---|---|", *rows]) + "\n")
        else:
            parts.append("Text and code have the same score.\n")
        if signal.beyond_the_score:
            parts.append("\n".join(f"- {sentence}" for sentence in signal.beyond_the_score) + "\n")
    return "\n".join(parts)
