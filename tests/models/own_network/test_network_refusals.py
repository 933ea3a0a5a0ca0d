"""A network that answers in a wrong form, and options that contradict each other, are refused in one line."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from exitbench.errors import InputError
from exitbench.models import Network
from tests.support.command_line import exit_code
from tests.support.own_networks import CLASSES, ROWS, collected

LOGITS, FEATURES = torch.randn(ROWS, 3), torch.randn(ROWS, 5)


def two_exits(**changes: Any) -> Network:
    """Two exits of random numbers, or what ``answers`` lists."""
    answers = changes.pop("answers", [(LOGITS, FEATURES), (LOGITS, FEATURES)])
    fields = {"labels": [0] * ROWS, "classes": CLASSES, "batch": lambda rows: rows}
    return Network(exits=lambda rows: answers, **{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": [(FEATURES, None)]}, r"logits at exit 1 of shape \[11, 3\], found \[11, 5\]"),
        ({"answers": [(LOGITS[0], None)]}, r"logits at exit 1 of shape \[11, 3\], found \[3\]"),
        ({"answers": [LOGITS]}, r"a tuple \(logits, features\).* at exit 1, found a Tensor"),
        ({"answers": torch.stack([LOGITS, LOGITS])}, "the exits one after another, found a Tensor"),
        ({"answers": 3}, "the exits one after another, found a int"),
        ({"answers": [(LOGITS, None)]}, "at least two exits, found 1"),
        ({"answers": [(LOGITS, FEATURES[..., None])]}, r"features at exit 1 of shape \[11, width\]"),
        ({"answers": [(LOGITS.long(), None)]}, "logits at exit 1 as a .* numbers, found a tensor of torch.int64"),
        ({"answers": [(LOGITS, [1.0])]}, "features at exit 1 as a tensor of real numbers, found a list"),
        ({"answers": [(LOGITS, None, [1])]}, "outputs by name at exit 1, found a list"),
        ({"answers": [(LOGITS, None, {"p": LOGITS[0]})]}, r"output p at exit 1 of shape \[11\]"),
        ({"answers": [(LOGITS, FEATURES), (LOGITS, None)]}, "features at every exit or at none, found none at exit 2"),
        (
            {"answers": [(LOGITS, None)] * 2, "heads": [nn.Linear(5, 3)] * 2},
            "the features that head 1 reads, found none",
        ),
        ({"heads": [nn.Linear(5, 3)]}, "2 heads, one for each exit, found 1"),
        ({"heads": [nn.Linear(4, 3)] * 2}, r"head 1 of weight \[3, 5\] and bias \[3\], found \[3, 4\]"),
        ({"heads": [nn.Linear(5, 3, bias=False)] * 2}, r"the logits W x \+ b of head 1 at exit 1, found them"),
        ({"heads": ["head"] * 2}, r"head 1 as \(weight, bias\) or nn.Linear, found a str"),
        ({"ids": [1, 2]}, "11 ids, one for each row, found 2"),
        ({"ids": ["a"] * 11}, "whole numbers of 64 bits as ids, found others"),
        ({"groups": [2**70] * 11}, "whole numbers of 64 bits as groups, found others"),
        ({"labels": [None] * 11}, "whole numbers of 64 bits as labels, found others"),
        ({"labels": None}, "labels, or rows with the number of unlabelled rows, found neither"),
        ({"rows": 12}, "12 labels, as rows says, found 11"),
        ({"labels": []}, "at least one row, found none"),
    ],
)
def test_a_wrong_form_is_one_line_that_names_the_exit(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^nets.py:f: expected {message}"):
        collected(two_exits(**changes), tmp_path / "cache", reference="nets.py:f")
    assert not (tmp_path / "cache").exists()


def test_more_rows_than_a_cache_can_list_are_refused_before_the_network_is_asked(tmp_path: Path) -> None:
    network = Network(lambda rows: [], pytest.fail, CLASSES, rows=10**18)
    with pytest.raises(InputError, match=r"^nets.py:f: .*at most 10,000 shards, found 1,000,000,000,000,000,000 rows"):
        collected(network, tmp_path / "cache", reference="nets.py:f")
    assert not (tmp_path / "cache").exists()


A, B, C = torch.ones(3, 3), torch.ones(3, 4), torch.ones(3)


@pytest.mark.parametrize(
    ("later", "message"),
    [
        ([(A, B, {"p": C})], "expected 2 exits, as in the first batch, found 1"),
        ([(A, torch.ones(3, 7), {"p": C})] * 2, "expected features of width 4 at exit 1, found 7"),
        ([(A, B, {"p": A})] * 2, r"outputs p \[n\] at exit 1, found p \[n, 3\]"),
        ([(A, B)] * 2, r"outputs p \[n\] at exit 1, found none"),
    ],
)
def test_a_later_batch_has_the_form_of_the_first(later: list[Any], message: str, tmp_path: Path) -> None:
    first = [(torch.ones(8, 3), torch.ones(8, 4), {"p": torch.ones(8)})] * 2
    network = Network(lambda rows: first if len(rows) == 8 else later, lambda rows: rows, CLASSES, labels=[0] * ROWS)
    with pytest.raises(InputError, match=message):
        collected(network, tmp_path / "cache", batch_size=8)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--network", "nets.py:f", "--model", "m"], "without --model; found both"),
        (["--network", "nets.py:f", "--id", "number"], "without --id; found both"),
        (["--network", "nets.py:f", "--data-dir", "d"], "without --data-dir; found both"),
        (["--network", "nets.py:f"], "expected --task with the name of the task beside --network"),
        ([], "expected --model with a folder made by `exitbench train`, or --network, found neither"),
        (["--network", "NETS:network", "--task", "t", "--features", "half"], "expected --features float16"),
        (["--network", "NETS:network", "--task", "t", "--role", "tset"], "Did you mean test?"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    words: list[str], message: str, cnn: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word.replace("NETS", str(cnn)) for word in words]
    assert exit_code("collect", *given, "--out", tmp_path / "cache") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
