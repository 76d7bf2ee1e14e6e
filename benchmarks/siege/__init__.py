"""Attacks on the whole library, each counted: tried, held, broke. See ``docs/reliability.md``."""
