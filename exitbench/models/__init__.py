"""Multi-exit models on Hugging Face encoders: train, collect, infer live, count the cost.

The only room that knows transformers, datasets and accelerate.
"""

from exitbench.models.batches import Batch, Tokens, tokenize
from exitbench.models.data import Columns, Examples, load_examples
from exitbench.models.families import FAMILIES, Context
from exitbench.models.inference import Answer, EarlyExitClassifier
from exitbench.models.network import MultiExitConfig, MultiExitModel

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
