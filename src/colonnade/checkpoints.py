"""Checkpoints: the state of a whole federation between two rounds, on disk, or not at all.

A checkpoint is a folder ``round-00000120`` that holds one safetensors file a role, the ledger so
far and ``manifest.json`` with the digest of every file, and of itself. It is written beside its
final place, flushed to the disk, and renamed: a process killed at any moment leaves the previous
checkpoint whole. States are nested containers of tensors, numbers and strings; no pickle is
involved.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from errno import ENOENT, ENOTEMPTY
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch

from colonnade.clocks import NOT_NOTED, Clock, continued, why_refused
from colonnade.errors import CheckpointError
from colonnade.faults import explained, unread
from colonnade.ordinary import read_ordinary

__all__ = ["Checkpoint", "CheckpointStore", "Draft", "decode_state", "encode_state"]

FORMAT = 6
_SUFFIXES = frozenset({".safetensors", ".parquet", ".json"})  # of all that a checkpoint has
_LEFT = re.compile(r"\.DS_Store$|Thumbs\.db$|desktop\.ini$|\.nfs")  # by whoever has looked

State = dict[str, Any]
_SAVED = frozenset(
    getattr(torch, name)
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex64"),
        *("float8_e4m3fn", "float8_e5m2"),
    )
)
"""Types of numbers that safetensors writes and reads again."""


def encode_state(state: State) -> bytes:
    """Encode nested dicts, lists and tuples of tensors, arrays, numbers, strings and bytes.

    The result is a safetensors file: its tensors, and a JSON skeleton that says where they go.

    >>> state = {"round": 3, "moments": [torch.zeros(2)], "betas": (0.9, 0.999)}
    >>> decode_state(encode_state(state))
    {'round': 3, 'moments': [tensor([0., 0.])], 'betas': (0.9, 0.999)}
    """
    tensors: dict[str, torch.Tensor] = {}

    def hold(tensor: torch.Tensor) -> str:
        if tensor.layout is not torch.strided or tensor.dtype not in _SAVED:
            kind = f"{tensor.dtype}, {tensor.layout}".replace("torch.", "")
            raise CheckpointError(f"a state holds a tensor ({kind}) that cannot be saved")
        # A copy of our own: safetensors refuses tensors that share memory, as tied weights do.
        tensors[f"t{len(tensors)}"] = tensor.detach().cpu().clone().contiguous()
        return f"t{len(tensors) - 1}"

    def skeleton(value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        match value:
            case torch.Tensor() if value.layout is torch.sparse_coo:
                # As it is: what is there twice is added up by who uses it, and in that order.
                own = value.detach()
                parts = [hold(own._indices()), hold(own._values()), [*own.shape]]
                return {"sparse": [*parts, own.is_coalesced()]}
            case torch.Tensor():
                return {"tensor": hold(value)}
            case np.ndarray():
                # A copy, as torch warns of read-only arrays; ascontiguousarray would lose shape ().
                return {"array": hold(torch.from_numpy(np.array(value, order="C")))}
            case bytes():
                return {"bytes": base64.b64encode(value).decode()}
            case dict():
                return {"dict": [[skeleton(k), skeleton(v)] for k, v in value.items()]}
            case list():
                return [skeleton(item) for item in value]
            case tuple():
                return {"tuple": [skeleton(item) for item in value]}
        raise CheckpointError(f"a state holds a {type(value).__name__}, which cannot be saved")

    text = json.dumps(skeleton(state))
    return bytes(safetensors.torch.save(tensors | {"skeleton": _text_tensor(text)}))


def decode_state(data: bytes) -> State:
    """Decode what ``encode_state`` wrote.

    Raises
    ------
    CheckpointError
        If the bytes are not such a state.
    """
    try:
        tensors = safetensors.torch.load(data)
        root = json.loads(tensors["skeleton"].numpy().tobytes())
        state = _filled(root, tensors)
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"a saved state cannot be read: {error}") from None
    if not isinstance(state, dict):
        raise CheckpointError("a saved state is not a dictionary")
    return state


def _text_tensor(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


def _filled(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_filled(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "tensor":
            return tensors[content]
        case "sparse":
            indices, values, shape, *is_coalesced = content  # all were, before that was written
            read = torch.sparse_coo_tensor(
                tensors[indices], tensors[values], shape, check_invariants=True
            )
            return read if is_coalesced == [False] else read.coalesce()
        case "array":
            return tensors[content].numpy()
        case "bytes":
            return base64.b64decode(content, validate=True)
        case "dict":
            return {_filled(k, tensors): _filled(v, tensors) for k, v in content}
        case "tuple":
            return tuple(_filled(item, tensors) for item in content)
    raise ValueError(f"unknown entry {kind!r}")


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk.

    Parameters
    ----------
    folder
        Where it lies.
    manifest
        Its round, the fingerprint of its run, the digest of each file, and the driver's account.
    """

    folder: Path
    manifest: dict[str, Any]

    @property
    def round(self) -> int:
        """The round that comes next."""
        return int(self.manifest["round"])

    @property
    def account(self) -> dict[str, Any]:
        """What the driver noted besides the roles' own states."""
        account: dict[str, Any] = self.manifest["account"]
        return account

    def read(self, file: str) -> bytes:
        """Return the content of one of its files.

        Raises
        ------
        CheckpointError
            If it is not what the manifest says, or that does not name it.
        Unwritten
            If the system refuses to read it.
        """
        path = self.folder / file
        try:
            data = read_ordinary(path)
        except OSError as error:
            raise unread(path, error) from error
        except ValueError as error:
            raise CheckpointError(f"{path} is not what was written: {error}") from None
        if self.manifest["files"].get(file) != _digest(data):
            raise CheckpointError(f"{path} is not what was written")
        return data

    def state(self, role: str) -> State:
        """Return the state of ``role``."""
        if f"{role}.safetensors" not in self.manifest["files"]:
            raise CheckpointError(f"{self.folder} has no state of {role!r}")
        return decode_state(self.read(f"{role}.safetensors"))


class Draft:
    """A checkpoint being written; it does not exist for anyone until ``commit``."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self.folder = target.with_name(f"writing-{target.name}")
        with explained(self.folder):
            _remove(self.folder)
            self.folder.mkdir()

    def write(self, file: str, data: bytes) -> None:
        """Write one file and flush it to the disk."""
        with explained(self.folder / file), (self.folder / file).open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())

    def commit(
        self,
        round: int,
        fingerprint: Mapping[str, str],
        account: dict[str, Any],
        timing: str | None,
        clocks: Sequence[Clock] = (),
    ) -> None:
        """Write the manifest, and move the checkpoint to its place in one step."""
        with explained(self.folder):
            written = sorted(self.folder.iterdir())
            files = {path.name: _digest(path.read_bytes()) for path in written}
        manifest = {
            "format": FORMAT,
            "round": round,
            "fingerprint": dict(fingerprint),
            "timing": timing,
            "clocks": [clock.as_json() for clock in clocks],
            "files": files,
            "account": account,
        }
        manifest["digest"] = _digest(_canonical(manifest))
        self.write("manifest.json", json.dumps(manifest).encode())
        with explained(self._target):
            _sync_folder(self.folder)
            _remove(self._target)  # only ever a damaged one
            self.folder.rename(self._target)
            _sync_folder(self._target.parent)


def _anything(checkpoint: Checkpoint) -> None:
    """Check nothing: a checkpoint holds all that it needs."""


class CheckpointStore:
    """The checkpoints of one run.

    Parameters
    ----------
    folder
        Where they lie; made by ``make``, or when the first is written.
    fingerprint
        What tells the run from others: digests, by what they are of, as a refusal says it. A
        checkpoint of another run is refused. One of an earlier version may lack a digest, which is
        then not compared: so a thing of which there is one for each organisation has to change
        another digest as well when there are more of it.
    keep
        How many to keep, the newest ones.
    timing
        What the run's times are computed from, where they decide its course; a checkpoint of a run
        with other times is refused. None where they do not, or are not computed.
    clock
        How seconds come about, also where they decide nothing; a checkpoint of a run over another
        modelled network, or at other modelled costs, is refused. None where nobody tells of it.
    anew
        What a refusal says that whoever runs it may do instead of going on.
    """

    def __init__(
        self,
        folder: Path,
        fingerprint: Mapping[str, str],
        keep: int = 2,
        timing: str | None = None,
        clock: Clock | None = None,
        anew: str = "start a new one in a new folder",
    ) -> None:
        self.folder = folder
        self._anew = anew
        self.fingerprint = dict(fingerprint)
        self._keep = keep
        self._made: tuple[int, int] | None = None  # which folder it is
        self._timing = None if timing is None else _digest(timing.encode())
        self._clock = None if clock is None else _digested(clock)
        self.clocks: tuple[Clock, ...] = () if self._clock is None else (self._clock,)
        """How the run's seconds came about, from its first round on."""

    def holds(self, round: int) -> bool:
        """Whether there is a whole checkpoint before ``round`` of this run already."""
        manifest = _manifest(self._place(round))
        return (
            manifest is not None
            and manifest["format"] == FORMAT
            and manifest["fingerprint"] == self.fingerprint
        )

    def make(self) -> None:
        """Make the folder, once: where it is gone later, so is the run that it belongs to.

        Raises
        ------
        Unwritten
            If it cannot be made.
        """
        with explained(self.folder):
            if self._made is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._made = _identity(self.folder)
            if _identity(self.folder) != self._made:
                raise FileNotFoundError(ENOENT, os.strerror(ENOENT))  # another is in its place

    def draft(self, round: int) -> Draft:
        """Begin to write the checkpoint before ``round``.

        Raises
        ------
        Unwritten
            If it cannot be written.
        """
        self.make()
        return Draft(self._place(round))

    def commit(self, draft: Draft, round: int, account: dict[str, Any]) -> None:
        """Finish a draft, and remove checkpoints that are no longer needed."""
        draft.commit(round, self.fingerprint, account, self._timing, self.clocks)
        self.make()
        with explained(self.folder):
            for old in (*self._folders()[: -self._keep], *self._folders("writing-")):
                with _left_if_more_is_there():
                    _remove(old)

    def latest(self, check: Callable[[Checkpoint], None] = _anything) -> Checkpoint | None:
        """Return the newest complete checkpoint, or None when there is none; see ``held``."""
        return next(self.held(check), None)

    def held(self, check: Callable[[Checkpoint], None] = _anything) -> Iterator[Checkpoint]:
        """Yield the complete checkpoints, the newest first.

        Parameters
        ----------
        check
            Raises ``CheckpointError`` where files elsewhere that a checkpoint needs, as of a
            surrogate table, are not whole. It is then passed over.

        Raises
        ------
        CheckpointError
            If it was written by another version or belongs to a run of another configuration, with
            other times that decide its course or over another modelled network, or all that exist
            are damaged or refused.
        Unwritten
            If the system refuses to read one.
        """
        damaged: list[str] = []
        refused: list[CheckpointError] = []
        there = False
        for folder in (*self._folders(), *self._folders("writing-")):
            _check_own(folder)
        for folder in reversed(self._folders()):
            manifest = _manifest(folder)
            if manifest is None:
                damaged.append(folder.name)
                continue
            _check_format(folder, manifest)
            if differing := _differing(manifest["fingerprint"], self.fingerprint):
                raise CheckpointError(
                    f"{folder} was written by a run of another configuration or other data: "
                    f"{' and '.join(differing)} {'was' if len(differing) == 1 else 'were'} "
                    f"different; go on with what the run had, or {self._anew}"
                )
            if None not in (self._timing, manifest["timing"]) and (
                self._timing != manifest["timing"]
            ):
                raise CheckpointError(
                    f"{folder} was written by a run over another network, with other costs or "
                    "delays, or in real time where this one is simulated or the reverse, and in "
                    "this method time decides what is learned; resume as the run began, or "
                    f"{self._anew}"
                )
            if begun := self._of_another_clock(manifest):
                raise CheckpointError(
                    f"{folder} was written by a run that was begun {begun}; go on with that, or "
                    f"{self._anew}"
                )
            checkpoint = Checkpoint(folder, manifest)
            try:
                check(checkpoint)
            except CheckpointError as error:
                refused.append(error)
            else:
                there = True
                yield checkpoint
        if refused and not there:
            raise refused[0]
        if damaged and not there:
            raise CheckpointError(
                f"no checkpoint in {self.folder} is whole ({', '.join(damaged)} damaged), so the "
                f"run cannot go on; {self._anew}"
            )

    def check_format(self) -> None:
        """Raise ``CheckpointError`` if the newest checkpoint was written by another version.

        So its run is refused before its configuration is read, which this version may not know.

        Raises
        ------
        Unwritten
            If the system refuses to read one.
        """
        for folder in reversed(self._folders()):
            manifest = _manifest(folder)
            if manifest is not None:
                _check_format(folder, manifest)
                return

    def go_back_to(self, checkpoint: Checkpoint | None) -> None:
        """Go on from a checkpoint, and remove newer ones, which are left without what they need.

        To go back to none is to begin anew, which leaves all of them without it.

        Raises
        ------
        Unwritten
            If they cannot be removed.
        """
        with explained(self.folder):
            for folder in self._folders():
                if checkpoint is None or folder > checkpoint.folder:
                    _remove(folder)
        if self._clock is not None:
            before = () if checkpoint is None else self._clocks_of(checkpoint.manifest)
            self.clocks = continued(
                before, self._clock, 0 if checkpoint is None else checkpoint.round
            )

    def clocks_before(self, round: int) -> tuple[Clock, ...]:
        """Return how the seconds of the rounds before one came about, or of a run of none."""
        return tuple(clock for clock in self.clocks if clock.round < round) or self.clocks[:1]

    def _clocks_of(self, manifest: Mapping[str, Any]) -> tuple[Clock, ...]:
        """Return the clocks of a run until a checkpoint; an earlier version's did not tell them."""
        if "clocks" in manifest:
            return tuple(Clock(**told) for told in manifest["clocks"])
        known = self._timing is not None and self._timing == manifest["timing"]
        return (self._clock,) if known and self._clock is not None else (NOT_NOTED,)

    def _of_another_clock(self, manifest: Mapping[str, Any]) -> str | None:
        """Return how a checkpoint's run was begun, if this one may not go on from there."""
        if self._clock is None:
            return None
        refused = (why_refused(clock, self._clock) for clock in self._clocks_of(manifest))
        return next(filter(None, refused), None)

    def _place(self, round: int) -> Path:
        return self.folder / f"round-{round:08d}"

    def _folders(self, before: str = "") -> list[Path]:
        """Return checkpoints, or those that are being written; nothing else that lies there."""
        ours = re.compile(f"{before}round-[0-9]{{8,}}")
        try:
            there = [*self.folder.iterdir()] if self.folder.is_dir() else []
            return sorted(path for path in there if ours.fullmatch(path.name) and path.is_dir())
        except OSError as error:
            raise unread(self.folder, error) from error


def _check_own(folder: Path) -> None:
    """Raise ``CheckpointError`` where there is what no checkpoint has: they are removed in time."""
    try:
        linked = folder.is_symlink()
        others = [folder] if linked else sorted(p for p in folder.iterdir() if not _is_own(p))
    except OSError as error:
        raise unread(folder, error) from error
    if others:
        raise CheckpointError(f"{others[0]} is no part of a checkpoint: move it away")


@contextmanager
def _left_if_more_is_there() -> Iterator[None]:
    """Go on where something was put into a checkpoint that nobody needs any more."""
    try:
        yield
    except OSError as error:
        if error.errno != ENOTEMPTY:
            raise


def _is_own(path: Path) -> bool:
    return (path.suffix in _SUFFIXES or bool(_LEFT.match(path.name))) and not path.is_dir()


def _remove(folder: Path) -> None:
    """Remove a checkpoint, and nothing that is none, if it is there."""
    if folder.is_dir():
        for path in [] if folder.is_symlink() else filter(_is_own, [*folder.iterdir()]):
            path.unlink()
        folder.rmdir()  # which the system refuses where more is in it, and of a link


def _check_format(folder: Path, manifest: Mapping[str, Any]) -> None:
    if manifest["format"] != FORMAT:
        raise CheckpointError(
            f"{folder} was written by another version of colonnade (format "
            f"{manifest['format']}, this one has {FORMAT}); resume with that version, or "
            "start a new run in a new folder"
        )


def _manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a checkpoint whose files are all whole, else None.

    Raises
    ------
    Unwritten
        If the system refuses to read one, which says nothing of whether it is whole.
    """
    try:
        manifest: dict[str, Any] = json.loads(read_ordinary(folder / "manifest.json"))
        digest = manifest.pop("digest", None)
        if digest != _digest(_canonical(manifest)) and (digest or manifest["format"] == FORMAT):
            return None  # others than this version may have had no digest of the manifest itself
        whole = type(manifest["format"]) is int and all(
            _digest(read_ordinary(folder / file)) == digest
            for file, digest in manifest["files"].items()
        )
        return manifest if whole and isinstance(manifest["fingerprint"], (str, dict)) else None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None  # it is not there, or something else is
    except OSError as error:
        raise unread(error.filename or folder, error) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _differing(written: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return of what two fingerprints differ, but for what an older checkpoint does not tell."""
    return [what for what, digest in written.items() if now.get(what) != digest]


def _digested(clock: Clock) -> Clock:
    """Return a clock with a digest in place of what may hold whole traces of delays."""
    timing = None if clock.timing is None else _digest(clock.timing.encode())
    return replace(clock, timing=timing)


def _identity(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_dev, found.st_ino


def _canonical(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, sort_keys=True).encode()


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
