"""Names in tables of the report."""

from hypothesis import given
from hypothesis import strategies as st

from experiments.evaluation.report import escape


@given(st.text())
def test_any_name_stays_one_cell_of_one_line(name):
    line = f"| {escape(name)} |"
    assert len(line.splitlines()) == 1
    assert line.replace("\\\\", "").replace("\\|", "").count("|") == 2
