"""Caches and signals in, result files out.

In the order the data flows: suites, scoring, replay, measures, statistics, protocols, run, then baselines, thresholds
and the notebook interface in ``api``; results holds the files that all of them speak of.
"""
