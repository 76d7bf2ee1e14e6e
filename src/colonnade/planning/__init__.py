"""What a run will cost, before any training."""

from colonnade.planning.memory import MemoryUse
from colonnade.planning.planner import Plan, plan

__all__ = ["MemoryUse", "Plan", "plan"]
