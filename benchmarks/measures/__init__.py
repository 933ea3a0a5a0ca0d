"""What is measured: the ranking of a layer, exit rates, the cost of a network."""
