"""Organisations on computers of their own: jobs, sites, and how they come together."""
