"""Tables, pictures and pages that people look at."""

from colonnade.reports.chart import Chart, Curve, draw_charts
from colonnade.reports.epsilons import epsilon_facts, epsilon_line, human_epsilon
from colonnade.reports.page import write_comparison, write_page, write_sheets
from colonnade.reports.pictures import draw_comparison, draw_run
from colonnade.reports.sheet import Sheet
from colonnade.reports.tables import (
    comparison_table,
    comparison_tables,
    human_bytes,
    human_seconds,
    reaching_table,
    reaching_tables,
)
from colonnade.reports.words import judged, left_out

__all__ = [
    "Chart",
    "Curve",
    "Sheet",
    "comparison_table",
    "comparison_tables",
    "draw_charts",
    "draw_comparison",
    "draw_run",
    "epsilon_facts",
    "epsilon_line",
    "human_bytes",
    "human_epsilon",
    "human_seconds",
    "judged",
    "left_out",
    "reaching_table",
    "reaching_tables",
    "write_comparison",
    "write_page",
    "write_sheets",
]
