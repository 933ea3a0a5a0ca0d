"""The multi-exit network: encoder families, heads, folders on disk, sizes."""
