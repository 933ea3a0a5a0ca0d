"""What a signal class declares is checked when it is loaded, and an error says how to write it right."""

from pathlib import Path

import pytest

from exitbench.errors import InputError
from exitbench.signals import signals_in
from tests.support.signal_files import SIGNAL


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('"mine"', '"My Signal"', "name must be lower-case words joined by hyphens, such as 'my-signal', found 'My"),
        ('"mine"', "7", "name must be lower-case"),
        ('"Mine"', '""', "title must be the name to print in tables, found ''"),
        ('Reference("none", 2026, "")', '"a paper"', r"reference must be Reference\(paper, year, link\), found 'a p"),
        ('">"', '"above"', "exits_when must be one of < <= > >=, found 'above'"),
        ('frozenset({"logits"})', '"logits"', "inputs must be a frozenset of logits, features, offset_norm, head, ids"),
        ('frozenset({"logits"})', 'frozenset({"logit"})', "inputs must be a frozenset"),
        ('frozenset({"logits"})', 'frozenset({"outputs:"})', "ids or outputs:NAME, found frozenset.{'outputs:'}"),
        ('frozenset({"logits"})', 'frozenset({"outputs:../lte"})', "inputs must be a frozenset"),
        ('frozenset({"logits"})', "property(lambda self: {'lte'})", "inputs must be a frozenset of .* found {'lte'}"),
        ("@dataclass(frozen=True)", "@dataclass", r"TypeError: cannot inherit non-frozen"),
        ("@dataclass(frozen=True)", "", r"put @dataclass\(frozen=True\) above it"),
        ("def score", "def scores", r"write score\(self, layer\), or step"),
        ("    def score", "    tags: list = None\n\n    def score", "tags must be annotated int, float, bool or str"),
        ("    def score", "    alpha: float = -1.0\n    beta: str = ''\n\n    def score", "a default is not allowed"),
        ("    def score", "    thresholds: ClassVar = 3\n\n    def score", "thresholds must be Continuous"),
        ("    def score", "    exceptions: ClassVar = {'a': ''}\n\n    def score", "exceptions must be a mapping"),
        (
            "    def score",
            "    beyond_the_score: ClassVar = (3,)\n\n    def score",
            "must be a tuple of sentences, found",
        ),
        (
            "    def score",
            "    probability_of: ClassVar = 'wrong'\n\n    def score",
            "probability_of must be empty, or",
        ),
        ("    def score", "    forms: ClassVar = ('cap',)\n\n    def score", "forms must be a tuple of Form"),
        (
            "    def score",
            "    alpha: float = signals.parameter(1.0, grid=('a',))\n\n    def score",
            "grid or choices of alpha hold a value that is not allowed: .* found 'a'",
        ),
        (
            "    def score",
            "    alpha: float = dataclasses.field(kw_only=True)\n\n    def score",
            r"alpha needs a default: write alpha: float = parameter\(\.\.\.\)",
        ),
    ],
)
def test_a_wrong_declaration_is_an_error_that_teaches(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    source = SIGNAL.format(name="mine").replace(right, wrong, 1)
    (tmp_path / "mine.py").write_text("import dataclasses\nfrom exitbench import signals\n" + source)
    with pytest.raises(InputError, match=message):
        signals_in(tmp_path / "mine.py")


def test_a_base_class_without_a_name_is_no_signal(tmp_path: Path) -> None:
    base = "from dataclasses import dataclass\nfrom exitbench import ExitSignal\n"
    base += "@dataclass(frozen=True)\nclass Base(ExitSignal):\n    pass\n"
    (tmp_path / "mine.py").write_text(base + SIGNAL.format(name="mine").replace("Mine(ExitSignal)", "Mine(Base)"))
    assert [signal.name for signal in signals_in(tmp_path / "mine.py")] == ["mine"]
