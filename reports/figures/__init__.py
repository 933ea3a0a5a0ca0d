"""Figures: which a run has, how each signal looks, and in ``drawing`` how they are put on paper."""
