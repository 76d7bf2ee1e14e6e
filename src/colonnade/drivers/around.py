"""A driver around another: the roles play under that, and others stand before some of them.

What stands before a role sees its effects before the driver does, and their answers before the role
does: it notes them, as an audit, or changes them, as an attack.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from colonnade.channels import Network
from colonnade.drivers.driver import Assignment, Driver, RunRecord
from colonnade.effects import Role
from colonnade.roles.courses import Through

__all__ = ["Around", "Before"]


@dataclass(frozen=True)
class Around(Driver):
    """Another driver, for whose roles others may be played in their stead.

    Parameters
    ----------
    driver
        How the roles are run.
    """

    driver: Driver

    @abstractmethod
    def instead(self, role: Role) -> Role:
        """Return what is played in the stead of a role, or the role."""
        ...

    @property
    def label(self) -> str:
        """See ``Driver``."""
        return self.driver.label

    @property
    def clock(self) -> Mapping[str, str]:
        """See ``Driver``."""
        return self.driver.clock

    @property
    def network(self) -> Network | None:
        """See ``Driver``."""
        return self.driver.network

    @property
    def timing(self) -> str | None:
        """See ``Driver``."""
        return self.driver.timing

    @property
    def repeats(self) -> bool:
        """See ``Driver``."""
        return self.driver.repeats

    def run(self, roles: Sequence[Role], assignment: Assignment) -> RunRecord:
        """See ``Driver``."""
        return self.driver.run([self.instead(role) for role in roles], assignment)


class Before(Through[None]):
    """Stands before a role, and is it in all but what it does at each of its effects.

    Parameters
    ----------
    role
        The role.
    """

    def __init__(self, role: Role) -> None:
        self.role = role

    def __getattr__(self, name: str) -> Any:
        if name == "role":  # which is not there yet where this is being copied
            raise AttributeError(name)
        return getattr(self.role, name)

    async def run(self) -> None:
        """Play the role."""
        self._course = self.role.run()
        await self
