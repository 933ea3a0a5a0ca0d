"""The notebook as a page: its texts, and its cells as code; a test runs them."""

import json
from pathlib import Path


def notebook_page(path: Path) -> str:
    """The cells of a notebook as Markdown."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"]).strip()
        parts.append(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text)
    parts.append(f"As a file to run: [{path.name}]({path.name}).")
    return "\n\n".join(parts) + "\n"
