"""What a run will cost, before any training."""

from colonnade.planning.memory import Memory
from colonnade.planning.planner import Plan, plan

__all__ = ["Memory", "Plan", "plan"]
