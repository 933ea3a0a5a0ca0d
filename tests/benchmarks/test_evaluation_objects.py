"""What ``evaluate`` returns shows itself: as text, as a frame, as HTML and as a picture; the notebook runs."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exitbench.benchmarks.api import Evaluation, evaluate
from exitbench.cache import synthetic_cache
from exitbench.errors import InputError

pytestmark = pytest.mark.long

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    cache = synthetic_cache(tmp_path_factory.mktemp("objects") / "demo", rows=90, layers=4, width=4)
    return evaluate(cache, ["deebert", "cap[alpha=0.1|1]"], resamples=5, speed_ups=[2.0, 3.0])


def test_a_frame_has_a_row_for_each_signal_with_the_numbers_of_the_results(evaluation: Evaluation) -> None:
    frame = evaluation.to_frame("in-sample", 3.0)
    assert list(frame.columns) == ["accuracy", "low", "high", "speed_up", "dis_1", "dis_2", "dis_3"]
    assert list(dict.fromkeys(frame.index.get_level_values("signal")))[:2] == ["deebert", "cap"]
    results = evaluation.results
    for (signal, parameters), (_, row) in zip(frame.index.tolist(), frame.iterrows(), strict=True):
        own = results[(results.signal == signal) & (results.parameters == parameters)]
        own = own[(own.protocol == "in-sample") & (own.decisions == "")]
        near = own[own.operating_point == "speed_up=3"]
        assert row["accuracy"] == near[near.measure == "accuracy"]["value"].item()
        assert row["speed_up"] == near[near.measure == "speed_up"]["value"].item()
        dis = own[(own.measure == "dis") & (own.layer == 2)]["value"]
        assert len(dis) == 0 or row["dis_2"] == dis.item()
    assert "detectable" not in frame.index.get_level_values("signal")


def test_the_object_is_text_and_html(evaluation: Evaluation) -> None:
    first, *rest = repr(evaluation).splitlines()
    assert first == "Evaluation of deebert, cap on demo (cross-fit, near 2x)"
    assert any(line.startswith("deebert") for line in rest)
    assert "<table" in evaluation._repr_html_() and "dis_3" in evaluation._repr_html_()


def test_a_plot_goes_through_the_points_of_the_curves(evaluation: Evaluation) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    axes = evaluation.plot("in-sample")
    lines = {line.get_label(): line for line in axes.lines}
    curve = evaluation.curves[(evaluation.curves.signal == "deebert") & (evaluation.curves.protocol == "in-sample")]
    points = curve[curve.kind == "point"].sort_values("speed_up")
    label = next(name for name in lines if str(name).startswith("deebert"))
    assert np.asarray(lines[label].get_ydata()).tolist() == points["score"].tolist()
    axes.figure.clear()


@pytest.mark.parametrize(("arguments", "line"), [(("held-out",), "protocols"), ((None, 7.0), "speed-ups")])
def test_what_was_not_asked_for_cannot_be_shown(evaluation: Evaluation, arguments: tuple[Any, ...], line: str) -> None:
    with pytest.raises(InputError, match=line):
        evaluation.to_frame(*arguments)


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "MPLBACKEND", "agg")
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    assert isinstance(names["evaluation"], Evaluation)
    assert len(names["frame"]) >= 4  # type: ignore[arg-type]
