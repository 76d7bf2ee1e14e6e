"""Organisations over NVIDIA FLARE, for real: every method, faults, and members that lie.

Real processes, certificates and connections; see ``docs/deploy.md``, "How it was tried".
"""
