"""A transport by courier: a player's messages and words over whatever carries datagrams.

The gatekeeper is a peer like the others, under a name that no organisation has. It is spoken with
before there is a player, too.

What two peers agreed on was told to each by the gatekeeper, and so was that all agree. So the first
frame to a peer is what its sender agreed on, and of a peer who goes by anything else no message is
taken: the gatekeeper cannot change that frame where datagrams between peers are sealed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping

import msgspec

from colonnade.drivers import control
from colonnade.drivers.courier import Courier, Post
from colonnade.drivers.failures import disconnected, ours
from colonnade.drivers.player import Parcel, Player
from colonnade.drivers.writers import Writers
from colonnade.errors import Aborted, RemoteProtocolError

__all__ = ["GATEKEEPER", "CourierTransport"]

GATEKEEPER = ""
_HEADROOM = 256  # bytes of a frame besides its body, at most
_LONGEST = 2**26  # bytes of what a gatekeeper tells
_MOST_WAITING = 4096  # messages of peers that have heard of the beginning before
_MOST_EARLY = 2**28  # bytes of these
_LINGER = 5.0  # seconds in which the last words may be acknowledged


class CourierTransport:
    """Carries a player's messages by a ``Courier``, and its words to the gatekeeper.

    Parameters
    ----------
    post
        Carries datagrams to a peer, or to ``GATEKEEPER``.
    hear, fail
        Take what the gatekeeper tells, and what goes wrong, while there is no player.
    patience
        After how many seconds without a word somebody is given up.
    """

    def __init__(
        self,
        post: Post,
        hear: Callable[[bytes], None],
        fail: Callable[[Exception], None],
        patience: float = 120.0,
    ) -> None:
        self._courier = Courier(post, self._deliver, self._lose, self._fail, patience)
        self._courier.admit(GATEKEEPER, _LONGEST, watched=True)
        self._hear, self._fail_alone = hear, fail
        self._player: Player | None = None
        self._has_played = False
        self._handing_over = threading.Lock()  # whoever hears is the player, or is there besides
        self._words = Writers([GATEKEEPER], 0, self._courier.send, self._fail)
        self._writers = Writers[Parcel]((), 0, self._write, self._fail)
        self._peers: tuple[str, ...] = ()
        self._bytes: dict[str, int] = {}
        self._beginning = threading.Lock()
        self._waiting: list[tuple[str, bytes]] | None = []  # what peers sent before the beginning
        self._early = 0  # bytes of these
        self._limit = 0
        self._agreed = b""
        self._told = set[str]()  # who was told of it
        self._alike = set[str]()  # who has told the same
        self._courier.start()
        self._words.start()

    def say(self, words: bytes) -> None:
        """Send the gatekeeper something, before there is a player."""
        self._words.put(GATEKEEPER, words)

    def admit(self, peers: Collection[str], body: int, agreed: bytes, backlog: int = 64) -> None:
        """Know the peers, before it starts.

        Parameters
        ----------
        peers
            Their names.
        body
            Bytes of a message's body, at most.
        agreed
            What all must have agreed on alike: a digest.
        backlog
            How many messages may wait to be written to a peer.
        """
        self._peers, self._agreed = tuple(peers), agreed
        self._limit = body + _HEADROOM
        self._bytes = dict.fromkeys(self._peers, 0)
        self._writers = Writers(self._peers, backlog, self._write, self._fail)

    def start(self, player: Player) -> None:
        """Hand to ``player`` what comes, and send what it sends, from now on."""
        with self._handing_over:
            self._player = player
        self._writers.start()
        for peer in self._peers:
            self._courier.admit(peer, self._limit)

    def release(self) -> None:
        """Know that the player is done: what the gatekeeper tells is heard as before.

        What it tells players alone may have been under way, and is for nobody any more.

        Raises
        ------
        ColonnadeError
            What ended the run since the player looked last.
        """
        with self._handing_over:
            player, self._player, self._has_played = self._player, None, True
        if player is not None and player.failure is not None:
            raise player.failure

    def receive(self, peer: str, datagram: bytes) -> None:
        """Take a datagram that came of a peer, as whoever carries them knows it; any thread may."""
        try:
            self._courier.receive(peer, datagram)
        except Exception as error:  # such as a lack of memory
            who = repr(peer) if peer else "the server"
            self._fail(ours(f"messages of {who} cannot be received", error))

    def close(self, seconds: float | None = None) -> None:
        """End, when the last words have come, or nobody has heard them in so many seconds."""
        seconds = _LINGER if seconds is None else seconds
        self._words.finish(seconds)
        self._courier.flush((GATEKEEPER, *self._peers), seconds)
        self._courier.close()
        self.abandon()

    # What a player asks of its transport

    @property
    def peers(self) -> Collection[str]:
        """The names of the roles that it can send to."""
        return self._peers

    def send(self, receiver: str, parcel: Parcel) -> None:
        """Take a message that is to be sent; wait while too many are waiting."""
        self._writers.put(receiver, parcel)

    def flush(self) -> None:
        """Wait until all messages have come to their receivers."""
        player = self._player
        self._writers.finish(over=lambda: player is not None and player.failure is not None)
        self._courier.flush(self._peers)

    def abandon(self) -> None:
        """Let no message leave that has not yet, nor one again that has."""
        self._writers.abandon()
        self._courier.abandon(self._peers)

    def tell(self, message: control.FromPlayer) -> None:
        """Tell the gatekeeper something; any thread may."""
        self._words.put(GATEKEEPER, control.encode(message))

    def bytes_received(self) -> Mapping[str, int]:
        """Return the bytes of the frames that came of each peer, without what carried them."""
        return {peer: came + self._courier.in_part(peer) for peer, came in self._bytes.items()}

    # What others do

    def _write(self, peer: str, parcel: Parcel) -> None:
        assert self._player is not None
        if peer not in self._told:
            self._told.add(peer)
            self._courier.send(peer, self._agreed)
        self._player.leaving(parcel)
        self._courier.send(peer, parcel.header, parcel.body)

    def _deliver(self, peer: str, frame: bytes) -> None:
        if peer == GATEKEEPER:
            self._obey(frame)
            return
        if peer not in self._alike:
            self._compare(peer, frame)
            return
        with self._beginning:
            if self._waiting is not None:
                self._early += len(frame)
                if len(self._waiting) >= _MOST_WAITING or self._early > _MOST_EARLY:
                    raise RemoteProtocolError(f"{peer!r} sends before the run has begun")
                self._waiting.append((peer, frame))
                return
        self._accept(peer, frame)

    def _compare(self, peer: str, agreed: bytes) -> None:
        """Know that a peer has agreed on the same."""
        if agreed != self._agreed:
            raise RemoteProtocolError(
                f"{peer!r} goes by another agreement than this site, and the server said that both "
                "go by the same: it told them differently what all bring, or of the labels; "
                "whoever runs it has to explain that before the job is submitted again"
            )
        self._alike.add(peer)

    def _obey(self, frame: bytes) -> None:
        with self._handing_over:
            if self._player is not None:
                self._lead(self._player, frame)
            elif not (self._has_played and _is_for_players(frame)):
                self._hear(frame)

    def _lead(self, player: Player, frame: bytes) -> None:
        """Let a player do as the gatekeeper says."""
        message = _read(frame)
        if not isinstance(message, control.Begin):
            player.obey(message)
            if isinstance(message, control.Abort):
                self.abandon()
            return
        if message.origin > 0:
            raise RemoteProtocolError("the gatekeeper told that the run begins later")
        player.obey(control.Begin(time.monotonic_ns() + message.origin))
        with self._beginning:
            for peer, early in self._waiting or ():
                self._accept(peer, early)
            self._waiting = None

    def _accept(self, peer: str, frame: bytes) -> None:
        player = self._player
        if player is None:  # it is done, and has all that was sent
            return
        self._bytes[peer] += len(frame)
        player.accept(peer, frame)

    def _lose(self, peer: str) -> None:
        player = self._player
        if peer == GATEKEEPER:
            self._fail(Aborted("nothing is heard of the server any more"))
        elif player is not None:
            player.lose(peer)
            self._fail(disconnected(player.role.name, peer))

    def _fail(self, error: Exception) -> None:
        with self._handing_over:
            if self._player is None:
                self._fail_alone(error)
                return
            self._player.fail(error)
        self.abandon()


def _read(frame: bytes) -> control.FromGatekeeper:
    """Return what the gatekeeper tells a player."""
    try:
        return control.from_gatekeeper(frame)
    except msgspec.DecodeError as error:
        raise RemoteProtocolError(f"the gatekeeper told what cannot be read: {error}") from None


def _is_for_players(frame: bytes) -> bool:
    """Whether the gatekeeper tells something that no other than a player would do."""
    try:
        return not isinstance(_read(frame), control.Abort)
    except RemoteProtocolError:
        return False
