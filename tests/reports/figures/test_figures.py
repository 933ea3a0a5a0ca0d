"""Figures are drawn for any run, the same each time, with names as text and one look per signal."""

import itertools
import re
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

import matplotlib.colors
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exitbench.reports.figures.catalogue import ReportFigure, figures_of
from exitbench.reports.figures.drawing.parts import PAPERS
from exitbench.reports.figures.drawing.render import KINDS, render
from exitbench.reports.figures.drawing.shrink_svg import short_path, smaller
from exitbench.reports.figures.looks import looks_of
from exitbench.reports.figures.style import KNOWN, colour, marker, shortened
from exitbench.reports.run_data.finished_run import FinishedRun
from tests.support.page_runs import HOSTILE, hostile_run, main_run
from tests.support.table_runs import sixty_signals, small_run, three_rows

PNG = b"\x89PNG\r\n\x1a\n"

ACROSS = {"ranks", "profile"}
"""The figures over many tasks, which one cache does not have."""


def texts_of(svg: bytes) -> list[str]:
    return [
        "".join(element.itertext()) for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("}text")
    ]


def drawn(run: FinishedRun, kind: str, formats: Sequence[str] = ("svg", "png"), width: str = "text") -> list[bytes]:
    figure = next(figure for figure in figures_of(run) if figure.spec.kind == kind)
    return list(render(run, figure, formats, width).values())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return FinishedRun(small_run(tmp_path_factory))


def test_a_run_has_a_figure_of_every_kind(small: FinishedRun) -> None:
    assert {figure.spec.kind for figure in figures_of(small)} == set(KINDS) - ACROSS


@pytest.mark.e2e
def test_a_run_over_two_models_has_every_figure_under_its_own_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = FinishedRun(main_run(tmp_path_factory))
    figures = figures_of(run)
    names = [figure.name for figure in figures]
    assert len(set(names)) == len(names)
    curves = [(figure.cache, figure.protocol) for figure in figures if figure.spec.kind == "trade-off"]
    assert curves == [(cache.name, protocol) for protocol in run.protocols for cache in run.caches]


@pytest.mark.long
def test_the_users_settings_of_matplotlib_change_no_figure(small: FinishedRun) -> None:
    usual = drawn(small, "trade-off")
    user_settings = {"lines.linewidth": 9, "axes.facecolor": "red", "figure.figsize": (2, 2), "svg.fonttype": "path"}
    with matplotlib.rc_context(user_settings):
        assert drawn(small, "trade-off") == usual
        assert matplotlib.rcParams["lines.linewidth"] == 9


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(set(KINDS) - ACROSS))
def test_a_figure_is_the_same_bytes_each_time(small: FinishedRun, kind: str) -> None:
    svg, png, pdf = drawn(small, kind, ("svg", "png", "pdf"))
    assert [svg, png, pdf] == drawn(small, kind, ("svg", "png", "pdf"))
    assert png.startswith(PNG)
    assert pdf.startswith(b"%PDF-") and b"/Type3" not in pdf
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert not re.search(rb"<script|http://(?!www\.w3\.org)|https://", svg)


@pytest.mark.long
@pytest.mark.parametrize(("width", "millimetres"), [("column", 85), ("text", 175)])
def test_a_figure_is_as_wide_as_it_is_printed(small: FinishedRun, width: str, millimetres: int) -> None:
    svg, png = drawn(small, "rates", width=width)
    points = float(str(ElementTree.fromstring(svg).get("width")).removesuffix("pt"))
    assert points / 72 * 25.4 == pytest.approx(millimetres, abs=1)
    pixels, _height = struct.unpack(">II", png[16:24])
    assert pixels / 300 * 25.4 == pytest.approx(millimetres, abs=1)


@pytest.mark.long
@pytest.mark.parametrize("width", PAPERS)
def test_nothing_is_written_outside_a_figure(small: FinishedRun, width: str) -> None:
    """A label that does not fit would be cut off: every text begins inside the picture."""
    for kind in sorted(set(KINDS) - ACROSS):
        root = ElementTree.fromstring(drawn(small, kind, ["svg"], width)[0])
        across = float(str(root.get("width")).removesuffix("pt"))
        places = [float(text.get("x", 0)) for text in root.iter() if text.tag.endswith("}text")]
        assert all(0 <= place <= across for place in places), kind


def test_a_heat_map_shows_each_dis_rounded(small: FinishedRun) -> None:
    (svg,) = drawn(small, "dis", ["svg"])
    shown = texts_of(svg)
    cache = small.caches[0]
    for entry in small.entries:
        for layer in range(1, cache.layers):
            row = small.row(cache, "in-sample", entry.signal, entry.parameters, "dis", "", layer)
            if row is not None and row.status != "undefined":
                assert f"{row.value:.0f}" in shown


@pytest.mark.long
def test_a_legend_names_every_signal_and_bound(small: FinishedRun) -> None:
    shown = texts_of(drawn(small, "trade-off", ["svg"])[0])
    assert {"DeeBERT", "PABEE", "CAP", "Final layer", "Random", "Fixed layer"} <= set(shown)


@pytest.mark.e2e
def test_hostile_names_are_text_in_every_figure(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = FinishedRun(hostile_run(tmp_path_factory))
    for kind in ("trade-off", "rates", "exits", "scores"):
        (svg,) = drawn(run, kind, ["svg"])
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(svg).iter()}
        assert tags <= {
            "svg",
            "g",
            "path",
            "defs",
            "use",
            "text",
            "tspan",
            "clipPath",
            "rect",
            "style",
            "image",
            "title",
        }
        if kind == "trade-off":
            shown = texts_of(svg)
            assert all(shortened(name) in shown for name in HOSTILE)


@pytest.mark.e2e
@pytest.mark.parametrize("kind", ["trade-off", "dis", "risk"])
def test_sixty_signals_still_make_a_figure(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    svg, png = drawn(FinishedRun(sixty_signals(tmp_path_factory)), kind)
    assert png.startswith(PNG)
    assert len(svg) < 2_000_000


@pytest.mark.long
def test_three_rows_still_make_every_figure(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = FinishedRun(three_rows(tmp_path_factory))
    for figure in figures_of(run):
        assert isinstance(figure, ReportFigure)
        assert render(run, figure, ["png"], "column")["png"].startswith(PNG)


# Looks


def test_the_known_signals_have_colours_and_markers_of_their_own() -> None:
    colours = [colour(name) for name in KNOWN]
    assert len(set(colours)) == len({marker(name) for name in KNOWN}) == len(KNOWN)
    for rgb, other in itertools.combinations([matplotlib.colors.to_rgb(value) for value in colours], 2):
        assert sum(abs(a - b) for a, b in zip(rgb, other, strict=True)) > 0.25


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_colour_can_be_seen_on_white(name: str) -> None:
    channels = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in matplotlib.colors.to_rgb(colour(name))
    ]
    luminance = 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]
    assert 1.05 / (luminance + 0.05) > 2


@pytest.mark.e2e
def test_a_signal_looks_the_same_in_every_run(small: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = FinishedRun(main_run(tmp_path_factory))
    looks = {look.entry.signal: (look.colour, look.marker) for look in looks_of(other)}
    assert all(looks[look.entry.signal] == (look.colour, look.marker) for look in looks_of(small))


@pytest.mark.long
def test_identical_signals_share_a_line_in_alternating_dashes(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = FinishedRun(main_run(tmp_path_factory))
    cache = run.caches[0]
    lines = {look.entry.signal: look.line for look in looks_of(run, cache, "in-sample")}
    assert lines["deebert"] != lines["right-tool"]
    assert isinstance(lines["deebert"], tuple)
    assert lines["nsp"] == "-"


# Smaller SVG


def walked(path: str) -> list[tuple[float, float]]:
    """The corners a path of M, L, H, V goes through, without standing still."""
    x = y = 0.0
    corners: list[tuple[float, float]] = []
    for command, rest in re.findall(r"([MLHV])([^MLHVz]*)", path):
        values = [float(value) for value in rest.split()]
        if command == "H":
            x = values[0]
        elif command == "V":
            y = values[0]
        else:
            x, y = values
        if not corners or corners[-1] != (x, y) or command == "M":
            corners.append((x, y))
    return corners


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=12))
@settings(max_examples=80, deadline=None)
def test_a_short_path_goes_through_the_same_corners(corners: list[tuple[int, int]]) -> None:
    path = "M {} {} ".format(*corners[0]) + " ".join("L {} {}".format(*corner) for corner in corners[1:])
    assert walked(short_path(path)) == walked(path)
    assert len(short_path(path)) <= len(path)


def test_a_smaller_svg_leaves_text_alone() -> None:
    name = 'x d="1.23456" style="a" id="b"'
    text = f'<text style="fill: red" x="1.23456">{name}</text>'
    svg = f'<svg><defs><style>*{{}}</style></defs>\n <g id="a">{text}</g>\n</svg>'
    shrunk = smaller(svg, "n")
    assert f">{name}</text>" in shrunk
    assert 'x="1.2"' in shrunk
