"""From a cache and signals to scores: one score per sample and internal layer, and which answers are right."""
