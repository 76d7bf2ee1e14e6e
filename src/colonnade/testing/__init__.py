"""Kits that tell whether somebody's own part keeps its contract: what Colonnade's own tests run."""
