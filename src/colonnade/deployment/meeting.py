"""What a site and the gatekeeper tell each other before any role plays, and after the last.

Each site says what it brings; when all have, each is told of all, and casts its role from the same
agreement; each says which rounds it could go on from, and is told the newest that all hold. No
value of a table is in any of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec

from colonnade.drivers import control
from colonnade.errors import RemoteProtocolError

__all__ = [
    "PROTOCOL",
    "Brings",
    "Came",
    "Concluding",
    "Done",
    "End",
    "Everybody",
    "FromServer",
    "FromSite",
    "Go",
    "Held",
    "Labels",
    "Top",
    "encode",
    "from_server",
    "from_site",
]

PROTOCOL = 5  # of these messages, and of those that roles send

_Message = TypeVar("_Message")
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
_Parameters = Annotated[int, msgspec.Meta(ge=0, le=2**28)]  # where they travel, all make them
_Width = Annotated[int, msgspec.Meta(ge=1, le=2**20)]  # models are made of it
_Which = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{32})?\Z")]  # a training, or none
_Text = Annotated[str, msgspec.Meta(max_length=1024)]
_Numbers = Annotated[list[int | float], msgspec.Meta(max_length=2**20)]  # one for each class
_Learned = bool | int | float | _Text | _Numbers | None
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=2.0**30)]  # as nanoseconds in a number, with room
_Sum = Annotated[float, msgspec.Meta(ge=0, le=2.0**60)]


class Brings(msgspec.Struct, tag=True):
    """What an organisation brings: how much of it, not what.

    ``rows`` are of the people in the alignment, whose digest is ``people``; ``width`` is that of
    its embeddings, None without columns; ``terms`` see ``Layout``; ``trained`` is which training
    its part of the model is of, empty where none is used, or nobody has said.
    """

    protocol: int
    version: _Text
    job: _Text
    rows: _Count
    people: _Text
    width: _Width | None
    terms: _Width | None
    trained: _Which = ""


class Everybody(msgspec.Struct, tag=True):
    """What all bring, by name, the label holder last; and what the label holder says of its own.

    It is asked for that first: then that is None.
    """

    widths: Annotated[dict[str, _Width], control.MANY]
    terms: Annotated[dict[str, _Width], control.MANY]
    top: Top | None

    def widths_of(self, names: Sequence[str]) -> dict[str, int]:
        """Return the widths of all who have one, in this order, whichever they were told in."""
        return {name: self.widths[name] for name in names if name in self.widths}


class Labels(msgspec.Struct):
    """What all know of labels before these are shared."""

    form: tuple[str, Annotated[tuple[_Width, ...], msgspec.Meta(max_length=16)], int, int]
    classes: _Width | None
    learned: Annotated[dict[_Text, _Learned], msgspec.Meta(max_length=64)]


class Top(msgspec.Struct, tag=True):
    """How many parameters the label holder's top model has, and what others must know of labels.

    That is None unless the exchange shares the labels: then ``form`` are the fields of their
    ``LabelForm``, ``classes`` how many there are, None for numbers, and ``learned`` what a loss
    knows of the training rows (``Objective.learned``). ``training`` tells a training from any other
    by the same job: what one has left behind fits nothing of another.
    """

    parameters: _Parameters
    labels: Labels | None = None
    training: _Which = ""


class Held(msgspec.Struct, tag=True):
    """What must be alike at all, and the rounds that the role could go on from.

    ``agreed`` is the digest of the agreement, and of what the site was told to make it of. Sites
    compare it among themselves too: a server could tell each something else of the others.

    ``seconds`` is how long the run had taken until the last of them, ``every`` after how many
    rounds the agreement has checkpoints, ``has_begun`` whether it had begun the run before.
    """

    agreed: _Text
    rounds: Annotated[list[_Count], control.MANY]
    seconds: _Seconds
    every: _Count
    has_begun: bool

    @property
    def can_begin_anew(self) -> bool:
        """Whether all that is lost by it is the first checkpoint, which others may lack."""
        return self.has_begun and all(round <= self.every for round in self.rounds)


class Go(msgspec.Struct, tag=True):
    """Go on from this round, None to begin, and do not enter that of the gate yet."""

    round: int | None
    gate: int


class Concluding(msgspec.Struct, tag=True):
    """The label holder's role has played, and it asks what came of the whole run."""


class Done(msgspec.Struct, tag=True):
    """The organisation has written its results."""


class Came(msgspec.Struct, tag=True):
    """A piece of what came of the run: of its messages, or of what a role's awaits were given.

    There is no end to how many there are, and there is to the size of a message.
    """

    entries: control.Entries = []  # msgspec copies defaults
    discarded: Annotated[list[tuple[str, str, int]], control.MANY] = []
    decided: tuple[str, control.Decisions] | None = None


class End(msgspec.Struct, tag=True):
    """The rest of it, for the label holder: of each role if it has finished, round, and account.

    ``received`` is what each says has come from the others.
    """

    parts: Annotated[dict[str, tuple[bool, _Count, msgspec.Raw]], control.MANY]
    received: Annotated[dict[str, control.Received | None], control.MANY]
    seconds_wall: _Sum
    seconds_cpu: _Sum


FromSite = Brings | Top | Held | Concluding | Done | control.FromPlayer
"""Also what its player tells, and that it failed, with or without one."""

FromServer = Everybody | Go | Came | End | control.Abort

_encode = msgspec.msgpack.Encoder().encode
_from_site: msgspec.msgpack.Decoder[FromSite] = msgspec.msgpack.Decoder(FromSite)
_from_server: msgspec.msgpack.Decoder[FromServer] = msgspec.msgpack.Decoder(FromServer)


def encode(message: FromSite | FromServer | control.FromGatekeeper) -> bytes:
    """Return a message as bytes."""
    return _encode(message)


def from_site(data: bytes, name: str) -> FromSite:
    """Return the message of a site.

    Raises
    ------
    RemoteProtocolError
        If these bytes are none.
    """
    return _decoded(_from_site, data, repr(name))


def from_server(data: bytes) -> FromServer:
    """Return the message of the gatekeeper.

    Raises
    ------
    RemoteProtocolError
        If these bytes are none.
    """
    return _decoded(_from_server, data, "the server")


def _decoded(decoder: msgspec.msgpack.Decoder[_Message], data: bytes, who: str) -> _Message:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"{who} told what cannot be read: {error}") from None
