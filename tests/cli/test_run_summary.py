"""What ``run`` prints below its tables."""

import pytest

from exitbench.cli.verbs.run import print_summary
from exitbench.reports.run_data.finished_run import FinishedRun
from tests.support.table_runs import three_rows


def test_the_summary_says_in_a_line_of_its_own_what_dis_is(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    print_summary(FinishedRun(three_rows(tmp_path_factory)))
    *_, legend, definition = capsys.readouterr().out.splitlines()
    assert legend.endswith("exit rates")
    assert definition.startswith("DIS: Difficulty Inversion Score, the share in percent of pairs")
