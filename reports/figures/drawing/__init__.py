"""Figures for paper, drawn by matplotlib and seaborn; only who wants a figure's file imports this folder.

matplotlib is loaded here, before any module of this folder asks for it: as it loads, it would read a
``matplotlibrc`` of the current folder, which may be a stranger's cache.
"""

from exitbench.reports.figures.drawing.matplotlib_loading import load_matplotlib

load_matplotlib()
