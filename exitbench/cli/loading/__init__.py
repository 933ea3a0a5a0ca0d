"""What a verb does without the libraries that take long to load, until it needs them."""
