"""Every error that Colonnade raises, in one tree.

::

    ColonnadeError
    ├── InvalidInput            what a user gave cannot be used; the command exits with 2
    │   ├── ConfigurationError  a setting, or a combination of settings
    │   │   └── Unmeasurable    a metric that cannot be computed of labels
    │   └── DataError           a file, a table, a label, a value
    │       └── UnknownPerson   an id by which not everybody has a row
    ├── ProtocolError
    │   ├── LocalProtocolError  our own code broke the protocol: a bug here
    │   ├── RemoteProtocolError bytes from another party do not parse or do not fit
    │   ├── TooFewAnswers       shares were computed upon by fewer than it takes to tell the result
    │   └── TooFewSurvivors     so many parties are lost that a secure sum would tell of the others
    ├── BudgetExhausted         one more use of a row would disclose more of it than is allowed
    ├── Diverged                training or a prediction left the finite numbers
    ├── OutOfRange              numbers do not fit where they are computed with exactly
    ├── CheckpointError         a checkpoint is missing, damaged, or of another run
    ├── Unwritten               a full disk, a folder that is gone; the command exits with 3
    ├── Deadlock                every role waits, and no message is under way
    ├── ServiceBusy             more requests wait for a prediction than should
    ├── ServiceEnded            nobody answers requests any more
    ├── RoleFailed              a role's process died, or what it called of a user's own raised
    │   └── Disconnected        what a role sent, or was sent, does not come
    └── Aborted                 thrown into a role because another one failed

A message says what was found, what was expected, where, and what to do. What can be used, and
should be known of, is told by a ``DataWarning``; what is disclosed of rows beyond a budget, by a
``PrivacyWarning``.
"""

from __future__ import annotations

__all__ = [
    "Aborted",
    "BudgetExhausted",
    "CheckpointError",
    "ColonnadeError",
    "ConfigurationError",
    "DataError",
    "DataWarning",
    "Deadlock",
    "Disconnected",
    "Diverged",
    "InvalidInput",
    "LocalProtocolError",
    "OutOfRange",
    "PrivacyWarning",
    "ProtocolError",
    "RemoteProtocolError",
    "RoleFailed",
    "ServiceBusy",
    "ServiceEnded",
    "TooFewAnswers",
    "TooFewSurvivors",
    "UnknownPerson",
    "Unmeasurable",
    "Unwritten",
]


class ColonnadeError(Exception):
    """Base of every error that Colonnade raises on purpose."""


class InvalidInput(ColonnadeError):
    """Something the user gave cannot be used; nothing was written."""


class ConfigurationError(InvalidInput):
    """A setting, or a combination of settings, that cannot work."""


class DataError(InvalidInput):
    """A file, table, label or value that cannot be trained on."""


class UnknownPerson(DataError):
    """An id by which not every organisation has a row."""


class DataWarning(UserWarning):
    """What is not wrong with tables, and yet should be known before a model of them is used.

    It may quote a table; ``kept`` is the same without that, where a run keeps it.
    """

    kept = ""


class PrivacyWarning(UserWarning):
    """What is disclosed of rows and no budget holds for."""


class ProtocolError(ColonnadeError):
    """A message that the protocol does not allow."""


class LocalProtocolError(ProtocolError):
    """Our own side broke the protocol: a bug in a role, never the other party's fault."""


class RemoteProtocolError(ProtocolError):
    """Bytes from another party that do not parse, or do not fit what was agreed."""


class TooFewSurvivors(ProtocolError):
    """So few parties are left that a secure sum is not completed; nothing was disclosed."""


class TooFewAnswers(ProtocolError):
    """Fewer answers of holders of shares came than what they are answers to can be told from."""


class BudgetExhausted(ColonnadeError):
    """What was to be released next would exceed the budget of privacy; it was not released."""


class Diverged(ColonnadeError):
    """A loss, embedding, derivative or prediction is no finite number, but NaN or infinite."""


class OutOfRange(ColonnadeError):
    """Numbers do not fit where they were to be computed with exactly; nothing was sent."""


class Unmeasurable(ConfigurationError):
    """A metric that cannot be computed of these labels; why may say something of them."""


class CheckpointError(ColonnadeError):
    """A checkpoint that is missing, damaged, or belongs to another run."""


class Unwritten(ColonnadeError):
    """The system did not let something be written; what was written before is whole."""


class Deadlock(ColonnadeError):
    """Every unfinished role waits for a message, and none is under way."""


class ServiceBusy(ColonnadeError):
    """More requests wait for a prediction than should; there may be fewer later."""


class ServiceEnded(ColonnadeError):
    """Nobody answers requests for predictions any more."""


class RoleFailed(ColonnadeError):
    """A role's process ended without finishing its work, or what it called of a user's raised."""


class Disconnected(RoleFailed):
    """What a role has sent another does not come, or what it was sent, as the network is away."""


class Aborted(ColonnadeError):
    """Thrown into a role, at its next await, because another role failed."""
