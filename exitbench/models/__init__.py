"""Multi-exit models on Hugging Face encoders: train, collect, infer live, count the cost.

The only room that knows transformers, datasets and accelerate, which the extra ``exitbench[models]`` installs; without
them its import is refused in one line. ``__init__.pyi`` beside this file lists the names.
"""

from importlib.util import find_spec

import lazy_loader

from exitbench.errors import MissingExtraError

if missing := [name for name in ("transformers", "datasets", "accelerate") if find_spec(name) is None]:
    raise MissingExtraError(
        f"a model needs the models extra: pip install 'exitbench[models]' (found no {', '.join(missing)})"
    )

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
