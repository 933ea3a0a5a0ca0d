"""The file that ``exitbench new-signal`` writes, and its test: a signal that works, to be changed into another."""

import keyword
import string

SIGNAL = string.Template('''"""$title: leave when the best class is well ahead of the second.

The score is the margin between the two largest logits. To make it another signal, change the sentence above, what is
declared in the class, and ``score``. A signal that remembers earlier layers writes ``step(self, layer, state)``, and
one that learns writes ``fit(self, calibration, labels)`` as well: docs/adding-a-signal.md shows both.
"""

from dataclasses import dataclass
from typing import ClassVar

from exitbench import Direction, ExitSignal, Input, Layer, Reference, Tensor, parameter


@dataclass(frozen=True)
class $class_name(ExitSignal):
    """The margin between the two largest logits, or between their probabilities."""

    name: ClassVar[str] = "$name"  # the key on the command line and in result tables
    title: ClassVar[str] = "$title"  # the name to print
    reference: ClassVar[Reference] = Reference("unpublished", $year, "")  # paper, year, link
    exits_when: ClassVar[Direction] = ">="  # a sample leaves when its score is at least the threshold
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})  # of logits, features, offset_norm, head, ids
    shift_invariant = True  # a constant added to all logits changes nothing; the checks hold it to that

    probabilities: bool = parameter(False, help="compare probabilities, not logits")

    def score(self, layer: Layer) -> Tensor:
        """One float64 for each sample: shape [samples]."""
        values = layer.log_probabilities.exp() if self.probabilities else layer.logits64
        best, second = values.topk(2, dim=1).values.unbind(dim=1)
        return best - second
''')

TEST = string.Template('''"""$title passes the checks that every signal passes, and gives the numbers that it should."""

from pathlib import Path

from exitbench.signals import signals_in
from exitbench.signals.conformance.checks import run_checks
from exitbench.signals.conformance.synthetic_layers import synthetic_layers

(SIGNAL,) = signals_in(Path(__file__).with_name("$stem.py"))


def test_${stem}_conforms() -> None:
    """Every check passes, or is an exception that the signal declares with its reason."""
    failed = [outcome for outcome in run_checks(SIGNAL) if outcome.status == "fail"]
    assert not failed, failed


def test_${stem}_is_the_lead_of_the_largest_logit() -> None:
    """The scores equal those of a plain loop over the samples."""
    layer = synthetic_layers(classes=3).layers[0]
    ranked = [sorted(logits, reverse=True) for logits in layer.logits.tolist()]
    assert SIGNAL().score(layer).tolist() == [best - second for best, second, _ in ranked]
''')

TAKEN = {"ClassVar", "Direction", "ExitSignal", "Input", "Layer", "Reference", "Tensor"}
"""Names that the file imports, which its class must not take."""


def file_stem(name: str) -> str:
    """The name of a signal's file without ``.py``: hyphens become underscores.

    >>> file_stem("my-margin")
    'my_margin'
    """
    return name.replace("-", "_")


def class_name(name: str) -> str:
    """The name of a signal's class.

    >>> class_name("my-margin"), class_name("layer"), class_name("none")
    ('MyMargin', 'LayerRule', 'NoneRule')
    """
    words = "".join(word.capitalize() for word in name.split("-"))
    return f"{words}Rule" if words in TAKEN or keyword.iskeyword(words) else words


def sources(name: str, *, year: int) -> tuple[str, str]:
    """The text of the signal's file and of its test."""
    given = {
        "name": name,
        "title": " ".join(word.capitalize() for word in name.split("-")),
        "class_name": class_name(name),
        "stem": file_stem(name),
        "year": year,
    }
    return SIGNAL.substitute(given), TEST.substitute(given)
