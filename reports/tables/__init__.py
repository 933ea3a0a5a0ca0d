"""Tables as values: every cell knows its number and the row it came from."""
