"""A threshold for a service."""
