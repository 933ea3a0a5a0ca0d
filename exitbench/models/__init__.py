"""Multi-exit models on Hugging Face encoders: train, collect, infer live, count the cost.

The only room that knows transformers, datasets and accelerate.
"""

from exitbench.models.data.batches import Batch, Tokens, tokenize
from exitbench.models.data.labelled import Columns, Examples, load_examples
from exitbench.models.inference import Answer, EarlyExitClassifier
from exitbench.models.network.families import FAMILIES, Context
from exitbench.models.network.multi_exit import MultiExitConfig, MultiExitModel

__all__ = [
    "FAMILIES",
    "Answer",
    "Batch",
    "Columns",
    "Context",
    "EarlyExitClassifier",
    "Examples",
    "MultiExitConfig",
    "MultiExitModel",
    "Tokens",
    "load_examples",
    "tokenize",
]
