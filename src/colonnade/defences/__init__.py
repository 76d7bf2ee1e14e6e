"""Defences of labels: what becomes of derivatives before they leave the label holder."""

from colonnade.defences.contract import Bare, Defence, Guard
from colonnade.defences.derivative_game import DerivativeGame
from colonnade.defences.gaussian_derivatives import GaussianDerivatives

__all__ = ["Bare", "Defence", "DerivativeGame", "GaussianDerivatives", "Guard"]
