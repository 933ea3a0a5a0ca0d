"""Training: the loop, losses, checkpoints."""
