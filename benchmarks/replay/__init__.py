"""From scores to exits: exit events, the exact trade-off curve, operating points on it, and bounds."""
