"""Tables show what the result files hold, and say what they leave out."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import Number, decimals, number
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow
from exitbench.reports.tables.task_scores import backbone_table
from tests.support.page_runs import HOSTILE, hostile_run
from tests.support.shown_numbers import check_numbers, row_of, short_name
from tests.support.table_runs import sixty_signals, small_run, three_rows


@pytest.mark.long
def test_every_number_equals_its_row_in_the_files(run: FinishedRun, tables: list[Table]) -> None:
    assert check_numbers(run, tables) > 500


def test_a_text_is_the_value_rounded_to_the_digits_it_shows(tables: list[Table]) -> None:
    for table in tables:
        for shown in table.numbers():
            if shown.text.startswith("<"):
                assert shown.value < float(shown.text[1:])
            else:
                digits = len(shown.text.partition(".")[2])
                assert abs(float(shown.text) - shown.value) <= 0.5 * 10**-digits + 1e-9


def test_the_text_of_a_cell_holds_the_texts_of_its_numbers(tables: list[Table]) -> None:
    for table in tables:
        for row in table.rows:
            for cell in row.cells:
                assert all(number.text in cell.text for number in cell.numbers)


def test_the_main_table_has_every_signal_every_bound_and_the_published_rows_apart(
    run: FinishedRun, tables: list[Table]
) -> None:
    main = short_name(tables, "main-base")
    kinds = [row.kind for row in main.rows]
    assert kinds == sorted(kinds, key=["signal", "bound", "published", "foot"].index)
    assert [row.cells[0].text for row in main.rows if row.kind == "signal"] == [entry.title for entry in run.entries]
    assert [row.cells[0].text for row in main.rows if row.kind == "bound"] == [
        "Fixed layer",
        "Random",
        "Oracle",
        "Final layer",
    ]
    assert all("published" in row.cells[0].text for row in main.rows if row.kind == "published")
    assert [column.title for column in main.columns] == ["Signal", "SST-2", "MRPC F1", "AVG"]


MATCHED = ("main", "speed-up-", "parameters-cap")
FOOTED = ("main", "speed-up-", "dis", "excess-aurc", "rates-", "loss", "area")


def test_every_matched_table_has_the_fixed_layer_at_exactly_its_speed_up(tables: list[Table]) -> None:
    shown = [table for table in tables if table.name.startswith(MATCHED) and "-dis" not in table.name]
    assert len(shown) > 8
    for table in shown:
        speed_up = re.search(r"near ([\d.]+)×", table.title)
        assert speed_up is not None
        for cell in row_of(table, "Fixed layer").cells[1:]:
            assert cell.numbers[1].value == pytest.approx(float(speed_up[1]))
            assert not cell.best and not cell.tied


def test_every_table_of_a_contest_ends_with_the_smallest_differences_it_could_show(tables: list[Table]) -> None:
    # The tiny network of four layers has no two signals near 4×, so that nothing is compared there.
    shown = [table for table in tables if table.name.startswith(FOOTED) and "tiny" not in table.name]
    assert {next(name for name in FOOTED if table.name.startswith(name)) for table in shown} == set(FOOTED)
    for table in shown:
        single, adjusted = table.rows[-2:]
        assert (single.kind, adjusted.kind) == ("foot", "foot")
        assert any("80% of cases" in note for note in table.notes)
        for one_pair, every_pair in zip(single.cells[1:], adjusted.cells[1:], strict=True):
            if one_pair.numbers:
                assert every_pair.value is not None and one_pair.value is not None
                assert 0 < one_pair.value <= every_pair.value


def test_a_measured_cell_reads_score_and_speed_up(tables: list[Table]) -> None:
    cell = row_of(short_name(tables, "main-base"), "DeeBERT").cells[1]
    assert re.fullmatch(r"\d+\.\d \(\d\.\d\d×\)", cell.text)
    assert [number.key[-1] for number in cell.numbers] == ["accuracy", "speed_up"]


def test_a_model_with_one_task_has_no_average(tables: list[Table]) -> None:
    assert [column.title for column in short_name(tables, "main-tiny").columns] == ["Signal", "MNLI"]


def test_a_grid_has_a_row_for_each_value_and_one_for_the_choice(tables: list[Table]) -> None:
    table = short_name(tables, "parameters-cap-base")
    assert [row.cells[0].text for row in table.rows] == ["alpha=0.1", "alpha=1", "CAP, chosen", "Fixed layer"]


def test_backbones_stand_side_by_side_only_where_tasks_are_shared(tables: list[Table]) -> None:
    assert not [table for table in tables if table.topic == "backbones"]


@pytest.mark.long
def test_a_backbone_heads_its_own_columns(run: FinishedRun) -> None:
    chosen = [(group, group.caches[0]) for group in run.groups]
    table = backbone_table(run, chosen, "cross-fit")
    assert [column.group for column in table.columns] == ["", "base (6 layers)", "tiny (4 layers)"]
    assert check_numbers(run, [table]) >= 4 * len(run.entries)


@pytest.mark.long
def test_names_of_tables_are_safe_file_names_and_differ(
    tables: list[Table], tmp_path_factory: pytest.TempPathFactory
) -> None:
    hostile = tables_of(FinishedRun(hostile_run(tmp_path_factory)))
    for named in (tables, hostile):
        names = [table.name for table in named]
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(r"[a-z0-9-]{1,120}", name) for name in names)


@pytest.mark.long
def test_hostile_names_stay_as_they_are(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = FinishedRun(hostile_run(tmp_path_factory))
    main = short_name(tables_of(run), "main")
    labels = [row.cells[0].text for row in main.rows]
    assert all(title in labels for title in HOSTILE)
    assert check_numbers(run, tables_of(run)) > 100


def test_one_signal_on_three_rows_still_makes_tables_without_pairs(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = FinishedRun(three_rows(tmp_path_factory))
    tables = tables_of(run)
    assert {"main"} <= {table.name for table in tables}
    assert not [table for table in tables if table.topic in ("pairs", "parameters", "backbones", "costs")]
    check_numbers(run, tables)


@pytest.mark.e2e
def test_sixty_entries_of_one_title_have_sixty_different_labels(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = FinishedRun(sixty_signals(tmp_path_factory))
    main = short_name(tables_of(run), "main")
    labels = [row.cells[0].text for row in main.rows if row.kind == "signal"]
    assert len(set(labels)) == 60
    assert labels[0] == "CAP [alpha=0.1]"
    check_numbers(run, [main])


def test_tables_of_a_run_are_the_same_each_time(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = small_run(tmp_path_factory)
    assert tables_of(FinishedRun(path)) == tables_of(FinishedRun(path))


@given(st.floats(-100, 100), st.floats(1e-6, 60))
@settings(max_examples=60, deadline=None)
def test_digits_never_exceed_what_an_interval_supports(value: float, half: float) -> None:
    places = decimals(value - half, value + half)
    assert 0 <= places <= 2
    if half > 0.1:  # the half-width is at least one and less than a hundred units of the last digit
        assert 1 <= half * 10**places * (1 + 1e-9) < 100 or places == 0
    assert number(value, value - half, value + half).interval.startswith("[")


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells in a row of 2 columns"):
        Table(
            name="t",
            title="",
            question="",
            topic="main",
            columns=(TableColumn("a"), TableColumn("b")),
            rows=(TableRow((Cell("x", (Number(1.0, "1"),)),)),),
        )


def test_every_table_with_a_dis_says_what_it_is(tables: list[Table]) -> None:
    ranked = [table for table in tables if any(column.measure == "dis" for column in table.columns)]
    assert ranked
    for table in ranked:
        assert "Difficulty Inversion Score" in table.title or table.topic == "tasks"
        assert any(note.startswith("Difficulty Inversion Score (DIS): over all pairs") for note in table.notes)


def test_rates_over_all_decisions_stand_beside_their_share_of_exits_and_say_why(
    run: FinishedRun, tables: list[Table]
) -> None:
    table = short_name(tables, "rates-all")
    assert [column.title for column in table.columns[1:4]] == ["premature", "delayed", "exits"]
    assert any("exit unequal shares of all decisions" in note for note in table.notes)
    results = run.files.results
    for name in ("DeeBERT", "CAP"):
        key = row_of(table, name).cells[3].key
        premature, delayed, share = (
            results[
                (results.cache == key[0])
                & (results.protocol == key[4])
                & (results.signal == key[5])
                & (results.parameters == key[6])
                & (results.operating_point == "speed_up=4")
                & (results.decisions == "all")
                & (results.measure == measure)
                & results.layer.isna()
            ].value.item()
            for measure in ("premature_rate", "delayed_rate", "exit_share")
        )
        wrongs = wrong_share(run, str(key[0]))
        assert share == pytest.approx(wrongs * premature + (1 - wrongs) * (100 - delayed))


def wrong_share(run: FinishedRun, cache: str) -> float:
    """The share of wrong early predictions among all decisions, from the accuracies of the fixed layers."""
    results = run.files.results
    depth = next(entry.layers for entry in run.caches if entry.name == cache)
    fixed = results[(results.cache == cache) & (results.signal == "fixed") & (results.measure == "accuracy")]
    of_layer = fixed.drop_duplicates("layer").set_index("layer").value
    return 1 - sum(of_layer[layer] for layer in range(1, depth)) / (depth - 1) / 100


def test_at_equal_exit_shares_the_errors_of_both_kinds_are_equally_many(run: FinishedRun, tables: list[Table]) -> None:
    table = short_name(tables, "rates-equal-share")
    for name in ("DeeBERT", "CAP", "PABEE"):
        premature, delayed = row_of(table, name).cells[1:3]
        wrongs = wrong_share(run, str(premature.key[0]))
        assert premature.value is not None
        assert delayed.value is not None
        assert premature.value * wrongs == pytest.approx(delayed.value * (1 - wrongs))


def test_calibration_is_shown_of_probabilities_only_and_the_rest_is_counted(tables: list[Table]) -> None:
    for measure in ("ece", "brier"):
        table = short_name(tables, f"calibration-{measure}")
        assert [row.cells[0].text for row in table.rows] == ["Right-Tool"]
        assert any(note.startswith("7 of 8 signals are not shown") for note in table.notes)
        assert all(cell.numbers for cell in table.rows[0].cells[1:])
