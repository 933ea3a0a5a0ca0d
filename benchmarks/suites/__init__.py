"""What is asked: suites, the questions in them, and their TOML files, one per suite that comes with exitbench."""
