"""The cost tables: the paper's printed figures, hand calculations, and the files that carry them."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exitbench.benchmarks.measures import network_cost as cost
from exitbench.benchmarks.measures.cost_file import Cost, TimedSignal, Timing, read_cost, write_cost
from exitbench.errors import InputError
from exitbench.output_folder import INVENTORY
from exitbench.places import PUBLISHED

BERT_BASE = cost.Shape()
REPRODUCED = ("embedding", "encoder", "pooler", "classifier", "projection_matrix", "cap")


def published(name: str) -> list[dict[str, str]]:
    with (PUBLISHED / name).open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("module", REPRODUCED)
def test_the_published_operations_come_out_to_their_printed_digits(module: str, classes: int) -> None:
    printed = {(row["module"], row["classes"]): row["flops"] for row in published("flops_bert_base.csv")}
    counted = {row.module: row for row in cost.operations(BERT_BASE, [classes])}
    assert cost.short(counted[module].published_convention) == printed[module, str(classes)]
    assert counted[module].published == printed[module, str(classes)]


@pytest.mark.parametrize("classes", [2, 3])
def test_the_published_parameters_come_out_to_their_printed_digits(classes: int) -> None:
    printed = {
        row["model"]: row["params"] for row in published("params_bert_base.csv") if row["classes"] == str(classes)
    }
    counted = {row.part: row for row in cost.parameter_table(BERT_BASE, [classes])}
    assert cost.short(counted["extra_heads"].parameters, 2) == printed["CAP extra"] == counted["extra_heads"].published
    assert cost.short(counted["encoder"].parameters, 2) == printed["BERT-base"] == counted["encoder"].published


def test_the_offset_vector_is_shown_as_published_and_never_counted() -> None:
    rows = [row for row in cost.operations(BERT_BASE, [2, 3]) if row.module == "offset_vector"]
    assert [(row.published_convention, row.with_attention, row.published) for row in rows] == [
        (None, None, "4.4K"),
        (None, None, "8.4K"),
    ]


def test_attention_adds_its_two_products_to_every_block() -> None:
    rows = {row.module: row for row in cost.operations(BERT_BASE, [2])}
    block, whole = rows["encoder"], rows["network"]
    assert block.with_attention is not None and block.published_convention is not None
    # Two products of S x S x N multiplications and additions each.
    assert block.with_attention - block.published_convention == 2 * (2 * 128 * 128 * 768)
    assert whole.with_attention is not None and whole.published_convention is not None
    assert whole.with_attention - whole.published_convention == 12 * 2 * (2 * 128 * 128 * 768)


def test_the_suite_needs_a_thousandth_of_the_projector() -> None:
    rows = {row.module: row.published_convention for row in cost.operations(BERT_BASE, [2])}
    assert rows["cap_suite"] == rows["nsp_suite"] == 2 * 768 + 2 * 4
    assert rows["cap"] == 2 * 768 * 768
    assert rows["cap"] / rows["cap_suite"] > 700


def test_a_block_by_hand() -> None:
    # Two tokens of width 3, feed-forward width 5: four 3x3 maps, 3x5 and 5x3, two layer norms of 8 per element.
    shape = cost.Shape(layers=2, width=3, intermediate=5, length=2)
    by_hand = 2 * (4 * 2 * 9 + 2 * 15 + 2 * 15) + 2 * 8 * 2 * 3
    assert cost.encoder_block(shape) == by_hand
    assert cost.network_total(shape, 4) == 8 * 2 * 3 + 2 * by_hand + 2 * 9 + 2 * 3 * 4


@given(width=st.integers(1, 40), classes=st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_the_projection_matrix_is_counted_product_by_product(width: int, classes: int) -> None:
    def product(rows: int, inner: int, columns: int) -> int:
        return sum(2 * inner - 1 for _ in range(rows * columns))

    N, C = width, classes
    by_hand = product(C, N, C) + C**3 + product(N, C, C) + product(N, C, N)
    assert cost.projection_matrix(cost.Shape(width=N), C) == by_hand


@pytest.mark.parametrize(
    "changes", [{"width": 1024}, {"length": 64}, {"intermediate": 2048}], ids=["width", "length", "intermediate"]
)
def test_another_shape_has_no_published_operations_beside_it(changes: dict[str, int]) -> None:
    rows = cost.operations(dataclasses.replace(BERT_BASE, **changes), [2, 3])
    assert {row.published for row in rows} == {""}


def test_four_classes_have_no_published_figures() -> None:
    assert {row.published for row in cost.operations(BERT_BASE, [4])} == {""}
    assert {row.published for row in cost.parameter_table(BERT_BASE, [4])} == {""}


def test_a_pooler_for_every_exit_is_counted_as_well_as_the_heads() -> None:
    rows = {row.part: row.parameters for row in cost.parameter_table(BERT_BASE, [2])}
    assert rows["extra_poolers_per_layer"] == 11 * (768 * 768 + 768)
    assert rows["extra_poolers_shared"] == 0


def test_the_published_overheads_are_read_with_their_seconds() -> None:
    overheads = cost.published_overheads()
    assert overheads["CAP"] == (8.9, 6.4)
    assert overheads["BERT-base"] == (8.36, 0.0)


def test_a_shape_without_layers_is_refused() -> None:
    with pytest.raises(InputError, match="expected layers of at least 1, found 0"):
        cost.Shape(layers=0)


def example(timed: bool) -> Cost:
    row = TimedSignal("cap[alpha=0.1]", "CAP", 0.25, 0.2, 0.31, 1.5, -0.2, 3.25, 6.4)
    unpublished = dataclasses.replace(row, signal="nsp", title="NSP", published_overhead=None)
    timing = Timing({"rounds": 9, "device": "cpu", "versions": {"torch": "2"}}, (row, unpublished)) if timed else None
    tables = tuple(cost.operations(BERT_BASE, [2, 3])), tuple(cost.parameter_table(BERT_BASE, [2, 3]))
    return Cost("a model", BERT_BASE, *tables, timing)


@pytest.mark.parametrize("timed", [True, False])
def test_the_cost_file_gives_back_what_was_written(timed: bool, tmp_path: Path) -> None:
    written = write_cost(tmp_path / "new" / "folder", example(timed))
    names = ["operations.csv", "parameters.csv", *(["timing.csv"] if timed else []), "cost.json"]
    assert [path.name for path in written] == names
    assert {path.name for path in (tmp_path / "new" / "folder").iterdir()} == {INVENTORY, *names}
    assert read_cost(tmp_path / "new" / "folder") == example(timed)


def test_the_csv_tables_hold_whole_numbers_and_leave_unknown_cells_empty(tmp_path: Path) -> None:
    write_cost(tmp_path, example(timed=True))
    with (tmp_path / "operations.csv").open(newline="") as stream:
        rows = {(row["module"], row["classes"]): row for row in csv.DictReader(stream)}
    assert rows["encoder", "2"]["published_convention"] == "1813512192"
    assert rows["offset_vector", "3"]["published_convention"] == ""
    assert rows["offset_vector", "3"]["published"] == "8.4K"
    with (tmp_path / "timing.csv").open(newline="") as stream:
        timed = list(csv.DictReader(stream))
    assert [row["published_overhead"] for row in timed] == ["6.4", ""]


def test_a_folder_without_a_cost_file_has_no_cost(tmp_path: Path) -> None:
    assert read_cost(tmp_path) is None


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": 1}', '{"schema": 2, "timing": null}'])
def test_a_damaged_cost_file_is_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "cost.json").write_text(content)
    with pytest.raises(InputError, match=r"cost\.json: expected"):
        read_cost(tmp_path)


def test_the_cost_file_is_plain_json(tmp_path: Path) -> None:
    write_cost(tmp_path, example(timed=True))
    record = json.loads((tmp_path / "cost.json").read_text())
    assert record["schema"] == 1
    assert record["timing"]["rows"][0]["overhead"] == 1.5
