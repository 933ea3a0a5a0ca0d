"""Networks of a user's own: what a function hands over, how it is found, how its answers become a cache."""
