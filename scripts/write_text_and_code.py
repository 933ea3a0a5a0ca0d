"""Writes ``docs/text-and-code.md`` from what the signals of this repository declare.

python scripts/write_text_and_code.py
"""

from pathlib import Path

from exitbench.atomic_files import write_text
from exitbench.signals import load_registry
from exitbench.signals.registry.text_and_code import text_and_code

PAGE = Path(__file__).resolve().parents[1] / "docs" / "text-and-code.md"

if __name__ == "__main__":
    write_text(PAGE, text_and_code(load_registry()))
