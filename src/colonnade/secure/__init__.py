"""Secrets and what is built on them: keys, seals, masks and shares of secrets. One idea a file."""

from colonnade.secure.keystream import Keystream
from colonnade.secure.secrets import Secrets

__all__ = ["Keystream", "Secrets"]
