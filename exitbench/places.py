"""Where the data that comes with the project lies: the ``fixtures`` folder of the clone."""

from pathlib import Path

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
CACHES = FIXTURES / "caches"
BASELINES = FIXTURES / "baselines"
PUBLISHED = FIXTURES / "published"


def cache_directories() -> list[Path]:
    """Every cache that comes with the clone, by name."""
    return sorted(path.parent for path in CACHES.glob("*/manifest.json"))
