"""Trained parts on disk: each organisation's own, in a folder of its own, without pickle.

A folder holds a safetensors file for each module (``bottom``, and the label holder's ``top``), what
a reader must know in ``part.json``, and, where asked for, the bottom as a program that
``torch.export`` wrote, which runs without the code that defined it. ``part.json`` has digests of
the other files and of itself.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from colonnade import __version__
from colonnade.checkpoints import decode_state, encode_state
from colonnade.drawing import drawing_apart
from colonnade.errors import CheckpointError, ConfigurationError, DataError
from colonnade.faults import explained, of_the_disk, unread_or_damaged
from colonnade.models import Features, copied, put_state, state_of, versions_of
from colonnade.ordinary import NOT_ORDINARY
from colonnade.outputs import (
    CONFIGURATION,
    MARK,
    PART,
    PROGRAM,
    SIGNATURE,
    TENSORS,
    Kind,
    check_outputs,
    check_place,
    is_ours,
    replacing,
)
from colonnade.paths import as_path
from colonnade.telling import first_line, short

__all__ = [
    "MEAN_FILE",
    "PARTS",
    "PART_FILE",
    "Part",
    "blank",
    "check_no_runs_parts",
    "check_parts",
    "export_part",
    "form_of",
    "load_part",
    "read_mean",
    "write_mean",
]

PARTS = "parts"
"""The folder in a run's in which it keeps its parts."""

PART_FILE = "part.json"
"""What says all of a part: what a reader must know, and digests of the other files."""

MEAN_FILE = "mean.json"
"""What the mean of its embeddings is called there, which is for the party to give."""

_LARGEST_MEAN = 2**26  # bytes
_LARGEST_PART_FILE = 2**30  # bytes; all categories of all columns may be in it
_FORMAT = 2  # 1 had no digests
_PROGRAM = "bottom.pt2"
_MODULES = ("bottom", "top")


@dataclass(frozen=True)
class Part:
    """One organisation's trained part, read from its folder.

    Parameters
    ----------
    organisation
        Its name.
    details
        What training said about it: method, widths, versions, and how its table becomes features.
    tensors
        For each module its parameters and buffers by name, and what else it saves of itself.
    versions
        For each module by which version of its class each part of it saved that.
    """

    organisation: str
    details: Mapping[str, Any]
    tensors: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def said(self, what: str) -> Any:
        """Return one of the details.

        Raises
        ------
        DataError
            If there is no such one.
        """
        if what not in self.details:
            raise DataError(f"the part of {self.organisation!r} does not say {what!r}")
        return self.details[what]

    @property
    def classes(self) -> list[Any] | None:
        """What each class stands for, told by the label holder's part; None of numbers.

        Raises
        ------
        DataError
            If the part does not say, or they are not several texts, whole numbers or truth values,
            all different.
        """
        told = self.said("classes")
        if told is None:
            return None
        kinds = {type(each) for each in told} if isinstance(told, list) else set()
        alike = len(kinds) == 1 and kinds <= {str, int, float, bool}
        if not alike or len(told) < 2 or len(set(told)) < len(told):
            raise DataError(
                f"the part of {self.organisation!r} names no classes that could be told apart: "
                f"{short(str(told))}"
            )
        return list(told)

    def load_into(self, module: nn.Module, part: str = "bottom") -> nn.Module:
        """Give ``module``, of the structure that was trained, the trained values; return it.

        Raises
        ------
        DataError
            If there is no such part, or the module has another structure.
        """
        if part not in self.tensors:
            raise DataError(
                f"{self.organisation!r} has no {part}; it has {', '.join(self.tensors)}"
            )
        try:
            put_state(module, self.tensors[part], self.versions.get(part, {}))
        except Exception as error:  # a user's module may look at what it loads
            what = " ".join(str(error).split())
            raise DataError(
                f"the {part} of {self.organisation!r} does not fit this module: {what}"
            ) from None
        return module


@drawing_apart()
def export_part(
    folder: Path,
    organisation: str,
    modules: Mapping[str, nn.Module],
    details: Mapping[str, Any],
    example: Features | None = None,
) -> None:
    """Write the trained part of one organisation.

    Parameters
    ----------
    folder
        Where; made if it is not there.
    organisation
        Whose part it is.
    modules
        Its modules by name.
    details
        What else a reader should know: JSON values.
    example
        Two rows or more of its features: the bottom is then also written as a program,
        ``bottom.pt2``, for any number of rows.

    Raises
    ------
    ConfigurationError
        If one of its files is there, and Colonnade did not write it.
    DataError
        If torch cannot export the bottom as a program.
    Unwritten
        If the folder cannot be written.
    """
    check_outputs(folder, {PART_FILE: PART, _PROGRAM: PROGRAM} | _files_of(modules))
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        digests, encoded = {}, {}
        for name, module in modules.items():
            state, encoded[name] = _as_tensors(module)
            data = bytes(safetensors.torch.save(state, {"by": SIGNATURE}))
            digests[name] = _digest(data)
            _write(folder / f"{name}.safetensors", data)
        written = {"format": _FORMAT, "by": SIGNATURE, "organisation": organisation}
        versions = {name: _whole_versions(module) for name, module in modules.items()}
        written |= {"parts": digests, "encoded": encoded, "versions": versions}
        written["details"] = dict(details)
        written["digest"] = _digest(json.dumps(written).encode())
        _write(folder / PART_FILE, (json.dumps(written, indent=2) + "\n").encode())
    if example is not None and "bottom" in modules:
        program = _program(organisation, modules["bottom"], example)
        with explained(folder):
            _write(folder / _PROGRAM, program)


def check_parts(folder: Path) -> None:
    """Raise what ``export_part`` would, of what is already in a run's folder of parts.

    Parameters
    ----------
    folder
        The folder; it may not be there yet.

    Raises
    ------
    ConfigurationError
        If Colonnade did not write a file that would be replaced, or nobody may read it.
    Unwritten
        If one of the folders cannot be written.
    """
    check_place(folder)
    for own in folder.glob("*"):
        if own.is_dir():
            check_outputs(own, {PART_FILE: PART} | _files_of(_MODULES))


def _files_of(modules: Iterable[str]) -> dict[str, Kind]:
    return {f"{name}.safetensors": TENSORS for name in modules}


def write_mean(folder: Path, organisation: str, mean: Tensor, training: str | None = None) -> None:
    """Write a party's mean into a folder, for the party to give when it leaves.

    Parameters
    ----------
    folder, organisation, mean
        Where, whose, and ``[E]``.
    training
        What tells the training that it is of from others by the same job; see ``read_mean``.

    Raises
    ------
    Unwritten
        If it cannot be written.
    """
    told: dict[str, Any] = {"by": SIGNATURE, "organisation": organisation, "training": training}
    told["mean"] = mean.tolist()
    told["digest"] = _digest(json.dumps(told).encode())
    with explained(folder / MEAN_FILE), replacing(folder / MEAN_FILE) as partial:
        partial.write_text(json.dumps(told) + "\n", encoding="utf-8")


def read_mean(file: Path, organisation: str, training: str | None = None) -> Tensor:
    """Return the mean that a party has handed over, ``[E]``.

    Parameters
    ----------
    file, organisation
        Where, and whose it is.
    training
        Of which training it is to be, where parts say so; a run that one hand has knows its means
        by their digests.

    Raises
    ------
    DataError
        If there is none, or the file is damaged, another's, or of another training.
    """
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST_MEAN:
            raise ValueError("it is no ordinary file of such a size")
        told = json.loads(file.read_bytes())
        if told.pop("digest") != _digest(json.dumps(told).encode()):
            raise ValueError("it was changed after it was written")
        if told["organisation"] != organisation:
            raise ValueError(f"it is of {told['organisation']!r}")
        if told.get("training") != training:
            raise ValueError("it is of another training")
        values = told["mean"]
        if not isinstance(values, list) or any(type(each) is not float for each in values):
            raise ValueError("it has a value that is no number")
        mean = torch.tensor(values)
        if not len(mean) or not mean.isfinite().all():
            raise ValueError("it has a value that is no finite number")
    except FileNotFoundError:
        raise DataError(f"there is no {file} with the mean of {organisation!r}") from None
    except OSError as error:
        raise unread_or_damaged(file, error) from None
    except _DAMAGED as error:
        raise DataError(
            f"{file} is not the mean that {organisation!r} wrote: {first_line(error)}"
        ) from None
    return mean


def check_no_runs_parts(folder: Path) -> None:
    """Raise ``ConfigurationError`` where a run keeps its own parts, which no other may replace."""
    place = folder.absolute().resolve()
    for each in (place, *place.parents):
        config = each.parent / "config.yaml"
        if each.name == PARTS and config.is_file() and is_ours(config, CONFIGURATION):
            raise ConfigurationError(
                f"{folder} is where the run in {each.parent} keeps its own trained parts; choose "
                "another folder"
            )


def form_of(features: Features) -> dict[str, Any]:
    """Return of which types and shapes the features of a row are, as JSON values.

    >>> form_of(torch.zeros(10, 3))
    {'': ['float32', [3]]}
    """
    named = {"": features} if isinstance(features, Tensor) else features
    return {
        name: [str(values.dtype).removeprefix("torch."), list(values.shape[1:])]
        for name, values in named.items()
    }


def blank(form: Mapping[str, Any], rows: int = 2) -> Features:
    """Return features of the form that ``form_of`` told, all of them zero.

    >>> blank({"": ["float32", [3]]}).shape
    torch.Size([2, 3])
    """
    made = {
        name: torch.zeros((rows, *shape), dtype=getattr(torch, dtype))
        for name, (dtype, shape) in form.items()
    }
    return made.get("", made)


_DAMAGED = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError),
    MemoryError,  # of a file that is larger than that
)


def load_part(folder: str | Path) -> Part:
    """Read what ``export_part`` wrote.

    Raises
    ------
    ConfigurationError
        If this is no path.
    DataError
        If a file is missing or damaged, or was written by a later version.
    """
    folder = as_path("a part is read from the path of its folder", folder)
    path = folder / PART_FILE
    try:
        written = json.loads(_read(path, _LARGEST_PART_FILE))
        if type(written["format"]) is not int or written["format"] not in (1, _FORMAT):
            raise DataError(f"{path} has the format {written['format']!r}, not {_FORMAT}")
        is_older = written["format"] == 1
        digest = written.pop("digest", None)
        if not is_older and digest != _digest(json.dumps(written).encode()):
            raise ValueError("it is not what was written")
        organisation, details = str(written["organisation"]), _details(written["details"])
        versions = {name: dict(its) for name, its in written.get("versions", {}).items()}
        tensors = {}
        for name in written["parts"]:
            if name not in _MODULES:
                raise DataError(f"{path} names a part {name!r}; there are bottom and top")
            path = folder / f"{name}.safetensors"
            data = _read_tensors(path, None if is_older else written["parts"][name])
            encoded = [] if is_older else written["encoded"][name]
            tensors[name] = _decoded(safetensors.torch.load(data), encoded)
    except FileNotFoundError:
        raise DataError(f"there is no {path}: it is no exported part") from None
    except (*_DAMAGED, safetensors.SafetensorError, CheckpointError) as error:
        raise unread_or_damaged(path, error) from None
    return Part(organisation, details, tensors, versions)


class _Details(msgspec.Struct):
    """What is read again of a part's details; others are for people to read."""

    classes: list[str | int | float | bool] | None = None
    transformer: dict[str, Any] | None = None
    features: dict[str, tuple[str, list[int]]] | None = None
    embedding_width: int | None = None
    widths: dict[str, int] | None = None
    training: str | None = None
    # `traces` of an earlier version are of another form, and are not read.
    data_traces: dict[str, tuple[int, int] | None] | None = None


def _details(told: Any) -> dict[str, Any]:
    """Return a part's details, if they are of the kinds that are written; else ``ValueError``."""
    try:
        msgspec.convert(told, _Details)
        msgspec.json.encode(told)  # half a character is no text
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    return dict(told)


def _read(path: Path, most: float = math.inf) -> bytes:
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ValueError(NOT_ORDINARY)
    if (size := path.stat().st_size) > most:
        raise ValueError(f"it has {size:,} bytes, and at most {most:,} are written")
    return path.read_bytes()


def _read_tensors(path: Path, digest: str | None) -> bytes:
    """Return a file of tensors, once it is known to be one: in its place may be a huge hole."""
    if path.is_file():
        with path.open("rb") as file:  # safetensors opens none whose name is not in UTF-8
            told = int.from_bytes(file.read(8), "little")
            ends = _ends(file.read(min(told, _LARGEST_PART_FILE)))
            if path.stat().st_size != 8 + told + ends:
                raise ValueError("it is not as long as it says")
            file.seek(0)
            if digest is not None and hashlib.file_digest(file, _hashed).hexdigest() != digest:
                raise ValueError("it is not what was written")
    return _read(path)


def _ends(header: bytes) -> int:
    """Return how many bytes the tensors take of which a header of safetensors tells."""
    told = json.loads(header)
    told.pop("__metadata__", None)
    return max((int(its["data_offsets"][1]) for its in told.values()), default=0)


def _as_tensors(module: nn.Module) -> tuple[dict[str, Tensor], list[str]]:
    """Return what a module saves of itself as plain tensors, and of which that is an encoding."""
    state: dict[str, Tensor] = {}
    encoded = []
    for key, value in state_of(module).items():
        if isinstance(value, Tensor) and value.layout is torch.strided:
            # A copy: safetensors refuses tensors that share memory, as tied weights do.
            state[key] = value.detach().cpu().clone().contiguous()
        else:
            data = bytearray(encode_state({"value": value}))
            state[key] = torch.frombuffer(data, dtype=torch.uint8)
            encoded.append(key)
    return state, encoded


def _decoded(state: Mapping[str, Tensor], encoded: Sequence[str]) -> dict[str, Any]:
    values = {key: decode_state(state[key].numpy().tobytes())["value"] for key in encoded}
    return {**state, **values}


def _whole_versions(module: nn.Module) -> dict[str, int]:
    return {part: own for part, own in versions_of(module).items() if isinstance(own, int)}


def _write(path: Path, data: bytes) -> None:
    with replacing(path) as partial:
        partial.write_bytes(data)


def _hashed(data: bytes = b"") -> Any:
    return hashlib.blake2b(data, digest_size=16)


def _digest(data: bytes) -> str:
    return str(_hashed(data).hexdigest())


def _program(name: str, bottom: nn.Module, example: Features) -> bytes:
    model = copied(bottom).cpu().eval()
    rows = torch.export.Dim("rows", min=1)
    shapes: Any = (
        {0: rows} if isinstance(example, Tensor) else {column: {0: rows} for column in example}
    )
    try:
        inputs = example if isinstance(example, Tensor) else dict(example)
        program = torch.export.export(model, (inputs,), dynamic_shapes=(shapes,))
    except Exception as error:  # a user's module may be anything
        why = f"torch.export cannot write the bottom of {name!r}"
        raise of_the_disk(why, error) or DataError(f"{why}: {first_line(error)}") from error
    saved = io.BytesIO()  # torch ends the interpreter where a file of its own is not written
    torch.export.save(program, saved, extra_files={MARK: __version__})
    return saved.getvalue()
