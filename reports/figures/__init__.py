"""Figures: which a run has, and how they are drawn."""
