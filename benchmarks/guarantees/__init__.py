"""Thresholds with a guarantee: p-values, procedures, and what they certify."""
