"""Baseline tables and the check that no number has moved."""
