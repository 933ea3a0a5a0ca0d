"""From a cache and signals to scores: one score per sample and internal layer, beside what every answer is worth."""
