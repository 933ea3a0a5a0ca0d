"""Speed as ratios inside one run, each beside its goal: ``tox -e speed``; ``docs/performance.md`` has the answers."""
