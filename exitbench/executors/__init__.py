"""Who does the units of a run: the processes of this machine, or a cluster."""
