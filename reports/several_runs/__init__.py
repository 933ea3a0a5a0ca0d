"""Several runs as one: what they share, one table of all their signals, paired tests between runs, a verdict."""
