"""Caches on the Hugging Face hub: :mod:`push <exitbench.hub.push_cache>` and :mod:`pull <exitbench.hub.pull_cache>`.

Needs huggingface_hub, which the extra ``exitbench[hub]`` installs (``exitbench[models]`` brings it too).
"""

from importlib.util import find_spec

from exitbench.errors import MissingExtraError

if find_spec("huggingface_hub") is None:
    raise MissingExtraError("the hub needs the hub extra: pip install 'exitbench[hub]' (found no huggingface_hub)")
