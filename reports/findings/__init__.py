"""The findings of a run as one Markdown page."""
