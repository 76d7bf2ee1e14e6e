"""The section about the method: one by its name, or one composed of parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from colonnade.config.choices import MethodSection, chosen

__all__ = ["MethodConfig"]

if TYPE_CHECKING:
    MethodConfig: TypeAlias = MethodSection
else:
    MethodConfig = chosen("methods")
