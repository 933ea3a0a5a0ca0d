"""NumPy's large arrays in files without a name, where they would not fit into the memory budget."""
