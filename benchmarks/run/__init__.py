"""A run: the plan, three stages of units, averages, and the record of what was done."""
