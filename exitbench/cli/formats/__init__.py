"""What verbs print, in several formats."""
