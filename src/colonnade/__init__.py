"""Colonnade: vertical federated learning, with every byte, second and epsilon accounted for."""

__version__ = "0.1.0"
