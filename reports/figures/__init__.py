"""Figures: which a run has, and how they are drawn.

matplotlib is loaded here, before any module of this folder asks for it: as it loads, it would read a
``matplotlibrc`` of the current folder, which may be a stranger's cache.
"""

from exitbench.reports.figures.matplotlib_loading import load_matplotlib

load_matplotlib()
