"""Where a publication's text and its public code part: each form of the score, by the parameters that give it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """One published form of a signal.

    ``parameters`` are those of the signal's text form (``divergence=mean-entropy``), ``source`` says who uses it (the
    text, the code, another system), ``score`` what is then computed.
    """

    source: str
    parameters: str
    score: str
