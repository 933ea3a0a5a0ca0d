"""Replay of exits, measures, statistics, cost arithmetic and suites."""
