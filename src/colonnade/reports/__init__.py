"""Reports: what a run looks like to a person."""

from colonnade.reports.pictures import draw_comparison, draw_run

__all__ = ["draw_comparison", "draw_run"]
