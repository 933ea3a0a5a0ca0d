"""What the speed benchmarks are written with."""
