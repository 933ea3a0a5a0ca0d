from .answers import Answer as Answer
from .data.batches import TokenBatch as TokenBatch
from .data.batches import Tokens as Tokens
from .data.batches import tokenize as tokenize
from .data.labelled import Columns as Columns
from .data.labelled import Examples as Examples
from .data.labelled import load_examples as load_examples
from .inference import EarlyExitClassifier as EarlyExitClassifier
from .network.families import FAMILIES as FAMILIES
from .network.families import Context as Context
from .network.multi_exit import MultiExitConfig as MultiExitConfig
from .network.multi_exit import MultiExitModel as MultiExitModel
from .own_network.contract import Network as Network
from .serving.continuous import continuous_answers as continuous_answers
from .serving.exported import export_segments as export_segments
from .serving.live_service import LiveService as LiveService

__all__ = [
    "FAMILIES",
    "Answer",
    "Columns",
    "Context",
    "EarlyExitClassifier",
    "Examples",
    "LiveService",
    "MultiExitConfig",
    "MultiExitModel",
    "Network",
    "TokenBatch",
    "Tokens",
    "continuous_answers",
    "export_segments",
    "load_examples",
    "tokenize",
]
