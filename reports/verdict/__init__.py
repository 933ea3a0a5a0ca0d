"""The verdict: who leads, by how much, and what to be warned of."""
