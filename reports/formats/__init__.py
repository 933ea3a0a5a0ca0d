"""A table as CSV, Markdown, LaTeX, or for the terminal."""
