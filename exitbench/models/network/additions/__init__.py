"""What a recipe may add to a network beside linear heads: one file each."""
