"""Mechanisms that make what is released private, and the exact account of what that costs."""
