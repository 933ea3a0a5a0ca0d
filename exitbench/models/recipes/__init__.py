"""Training recipes: one file each, found without being listed anywhere."""
