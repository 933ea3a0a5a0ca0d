"""What was collected: per-layer logits and features on disk, in JSON and safetensors only.

``__init__.pyi`` beside this file lists the names; each is imported when it is first used: reading a manifest needs no
torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
