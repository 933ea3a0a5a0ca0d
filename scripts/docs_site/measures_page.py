"""The page of measures and the glossary, from the texts that reports show."""

from exitbench.reports.run_data.glossary import DECISIONS, EQUAL_SHARES, GLOSSARY, PROTOCOLS

HEAD = """\
# Measures and glossary

What a report means by each of its numbers; these are the texts that it shows itself. How intervals, p-values and
averages are made is on the page [Statistics](statistics.md), what can be *promised* on [Guarantees](guarantees.md).
"""


def measures_page() -> str:
    """The page as Markdown."""
    sections = {
        "Measures": {term.title: (f"`{name}`", term.definition) for name, term in GLOSSARY.items()},
        "Protocols": {name: ("", text) for name, text in PROTOCOLS.items()},
        "Decisions that exit rates count": {
            **{name: ("", text) for name, text in DECISIONS.items()},
            "equal shares": ("", EQUAL_SHARES),
        },
    }
    lines = [HEAD]
    for heading, terms in sections.items():
        lines.append(f"## {heading}\n")
        for title, (column, text) in terms.items():
            lines.append(f"### {title}\n")
            lines.append(
                f"{text[:1].upper()}{text[1:].rstrip('.')}." + (f" In result files: {column}." if column else "")
            )
            lines.append("")
    return "\n".join(lines)
