"""Derived caches: the same rows with other answers, made by a method fitted on a calibration cache, or by a cascade."""
