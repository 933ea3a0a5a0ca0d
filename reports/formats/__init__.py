"""A table as CSV, Markdown or LaTeX."""
