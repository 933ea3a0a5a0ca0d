from .card import cache_card as cache_card
from .compaction import compact as compact
from .format.manifest import Manifest as Manifest
from .format.manifest import Model as Model
from .format.manifest import Output as Output
from .format.manifest import Target as Target
from .format.manifest import Task as Task
from .format.manifest_file import read_manifest as read_manifest
from .format.tasks import TASKS as TASKS
from .import_arrays import import_arrays as import_arrays
from .reader import Cache as Cache
from .reader import Head as Head
from .reader import head_algebra as head_algebra
from .reader import offset_norms as offset_norms
from .synthetic import synthetic_cache as synthetic_cache
from .verification import unlisted_files as unlisted_files
from .verification import verify as verify
from .writer import CacheWarning as CacheWarning
from .writer import CacheWriter as CacheWriter

__all__ = [
    "TASKS",
    "Cache",
    "CacheWarning",
    "CacheWriter",
    "Head",
    "Manifest",
    "Model",
    "Output",
    "Target",
    "Task",
    "cache_card",
    "compact",
    "head_algebra",
    "import_arrays",
    "offset_norms",
    "read_manifest",
    "synthetic_cache",
    "unlisted_files",
    "verify",
]
