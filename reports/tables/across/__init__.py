"""Tables across the tasks and networks of a run."""
