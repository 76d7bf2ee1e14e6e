"""Tables, pictures and pages that people look at."""

from colonnade.reports.page import write_comparison, write_page
from colonnade.reports.pictures import draw_comparison, draw_run
from colonnade.reports.tables import comparison_table, human_bytes, human_seconds

__all__ = [
    "comparison_table",
    "draw_comparison",
    "draw_run",
    "human_bytes",
    "human_seconds",
    "write_comparison",
    "write_page",
]
