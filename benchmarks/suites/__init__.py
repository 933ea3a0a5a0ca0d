"""The suites that come with exitbench: one TOML file each, read by :mod:`benchmarks.suite`."""
