"""The table of the systems that the paper compares."""
