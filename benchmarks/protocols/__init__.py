"""Which rows choose and which are scored: splits, the points of each part, the choice, and parts merged again."""
