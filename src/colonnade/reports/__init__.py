"""Reports: what a run looks like to a person."""

from colonnade.reports.pictures import draw_comparison, draw_run
from colonnade.reports.tables import comparison_table, human_bytes, human_seconds

__all__ = ["comparison_table", "draw_comparison", "draw_run", "human_bytes", "human_seconds"]
