"""A finished run as views see it: rows by key, names, numbers as text, published figures."""
