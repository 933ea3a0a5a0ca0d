from .benchmarks.api import evaluate as evaluate
from .benchmarks.api import replay as replay
from .benchmarks.scoring.score_cache import score as score
from .cache import Cache as Cache
from .cache import CacheWriter as CacheWriter
from .signals import Continuous as Continuous
from .signals import Direction as Direction
from .signals import ExitSignal as ExitSignal
from .signals import Input as Input
from .signals import Integers as Integers
from .signals import Layer as Layer
from .signals import Reference as Reference
from .signals import State as State
from .signals import Tensor as Tensor
from .signals import learned as learned
from .signals import parameter as parameter

__version__: str
__all__ = [
    "Cache",
    "CacheWriter",
    "Continuous",
    "Direction",
    "ExitSignal",
    "Input",
    "Integers",
    "Layer",
    "Reference",
    "State",
    "Tensor",
    "evaluate",
    "learned",
    "parameter",
    "replay",
    "score",
]
