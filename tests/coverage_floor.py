"""Ends with 1 when a room's branch coverage falls below its floor. Run after ``pytest --cov``."""

import io
import sys

import coverage

FLOORS = {"signals/*": 95.0, "benchmarks/*": 95.0, "exitbench/cache/*": 95.0}


def main() -> int:
    """Print each room's coverage against its floor."""
    data = coverage.Coverage()
    data.load()
    failed = False
    for room, floor in FLOORS.items():
        percent = data.report(include=[room], file=io.StringIO())
        verdict = "ok" if percent >= floor else "TOO LOW"
        failed |= percent < floor
        sys.stdout.write(f"coverage of {room}: {percent:.1f}%, floor {floor:.0f}%: {verdict}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
