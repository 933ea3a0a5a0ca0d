"""The result files: their vocabulary, columns, reading and writing."""
