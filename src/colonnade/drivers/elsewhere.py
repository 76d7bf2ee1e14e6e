"""A role that is cast where it is played, so that its organisation's data are nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from colonnade.drivers.handed import packed
from colonnade.effects import Role
from colonnade.errors import ConfigurationError

__all__ = ["Elsewhere"]


def _nothing(role: Role) -> None:
    """Do nothing with a role that has played."""


@dataclass(frozen=True)
class Elsewhere:
    """What ``Processes`` takes in place of a role that shall be made in its own process.

    The process that starts the run holds neither the organisation's data nor its model: it passes
    on this description, which names a function and what to call it with, such as a path. The
    role's process is spawned, so it inherits no memory, and is given nothing of the others. What it
    tells of itself is to whom it sent how much, when and how long it worked, what it reported, and
    its error if it fails; its state leaves it for a checkpoint only, where the run keeps any. What
    it committed stays in its journal, so a trace lacks it.

    Parameters
    ----------
    name
        The organisation's name.
    peers
        Names of the roles that it exchanges messages with.
    cast
        Makes the role, in its process. It is pickled, so it is a function that can be imported, or
        a ``functools.partial`` of one.
    finish
        Is given the role when it has played to its end, and all others have: to write the trained
        part, say. Not called where the run is interrupted.

    Examples
    --------
    ::

        def bank(folder: Path) -> Role: ...
        def write_part(role: Role) -> None: ...

        roles = [
            Elsewhere("bank", ["hospital"], partial(bank, Path("/srv/bank")), write_part),
            Elsewhere("hospital", ["bank"], partial(hospital, Path("/srv/hospital"))),
        ]
        record = Processes().run(roles, Assignment())
    """

    name: str
    peers: Sequence[str]
    cast: Callable[[], Role]
    finish: Callable[[Role], None] = _nothing

    def check(self) -> None:
        """Raise ``ConfigurationError`` if it cannot be handed to another process."""
        for what, function in (("cast", self.cast), ("finish", self.finish)):
            try:
                packed(function)
            except RuntimeError:
                pass  # locks, say, can be handed over only while a process is started
            except Exception as error:
                raise ConfigurationError(
                    f"what {self.name!r} is to {what} with cannot be handed to its process "
                    f"({error}): give a function that can be imported, or a functools.partial of "
                    "one with arguments that can be pickled"
                ) from None

    def role(self) -> Role:
        """Cast the role, and check that it is the one described.

        Raises
        ------
        ConfigurationError
            If it has another name, or needs peers that were not described.
        """
        role = self.cast()
        if role.name != self.name:
            raise ConfigurationError(f"{self.name!r} was described, but {role.name!r} was cast")
        more = set(role.peers) - set(self.peers)
        if more:
            raise ConfigurationError(
                f"{self.name!r} was cast with the peers {', '.join(sorted(more))}, which its "
                "description does not name"
            )
        return role
