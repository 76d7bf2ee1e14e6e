"""Trained parts on disk: each organisation's own, in a folder of its own, without pickle.

A folder holds a safetensors file for each module (``bottom``, and the label holder's ``top``), what
a reader must know in ``part.json``, and, where asked for, the bottom as a program that
``torch.export`` wrote, which runs without the code that defined it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from colonnade import __version__
from colonnade.errors import DataError
from colonnade.models import Features, copied
from colonnade.outputs import MARK, PART, PROGRAM, SIGNATURE, TENSORS, check_outputs
from colonnade.telling import first_line

__all__ = ["Part", "export_part", "load_part"]

_FORMAT = 1
_DETAILS = "part.json"
_PROGRAM = "bottom.pt2"


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
        For each module its parameters and buffers by name.
    """

    organisation: str
    details: Mapping[str, Any]
    tensors: Mapping[str, Mapping[str, Tensor]]

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
            module.load_state_dict(dict(self.tensors[part]))
        except RuntimeError as error:
            what = " ".join(str(error).split())
            raise DataError(
                f"the {part} of {self.organisation!r} does not fit this module: {what}"
            ) from None
        return module


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
        If the folder cannot be written, or torch cannot export the bottom as a program.
    """
    tensors = {f"{name}.safetensors": TENSORS for name in modules}
    check_outputs(folder, {_DETAILS: PART, _PROGRAM: PROGRAM} | tensors)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, module in modules.items():
            # Copies: safetensors refuses tensors that share memory, as tied weights do.
            state = {
                key: value.detach().cpu().clone().contiguous()
                for key, value in module.state_dict().items()
            }
            safetensors.torch.save_file(state, folder / f"{name}.safetensors", {"by": SIGNATURE})
        written = {"format": _FORMAT, "by": SIGNATURE}
        written |= {"organisation": organisation, "parts": list(modules)}
        text = json.dumps(written | {"details": dict(details)}, indent=2) + "\n"
        (folder / _DETAILS).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error.strerror}") from None
    if example is not None and "bottom" in modules:
        _export_program(folder / _PROGRAM, organisation, modules["bottom"], example)


_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


def load_part(folder: str | Path) -> Part:
    """Read what ``export_part`` wrote.

    Raises
    ------
    DataError
        If a file is missing or damaged.
    """
    folder = Path(folder)
    path = folder / _DETAILS
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        if written["format"] != _FORMAT:
            raise DataError(f"{path} has the format {written['format']!r}, not {_FORMAT}")
        organisation, details = str(written["organisation"]), dict(written["details"])
        tensors = {}
        for name in written["parts"]:
            if name not in ("bottom", "top"):
                raise DataError(f"{path} names a part {name!r}; there are bottom and top")
            path = folder / f"{name}.safetensors"
            tensors[name] = safetensors.torch.load_file(path)
    except FileNotFoundError:
        raise DataError(f"there is no {path}: it is no exported part") from None
    except (*_DAMAGED, safetensors.SafetensorError) as error:
        raise DataError(f"{path} is damaged: {error}") from None
    return Part(organisation, details, tensors)


def _export_program(path: Path, name: str, bottom: nn.Module, example: Features) -> None:
    model = copied(bottom).cpu().eval()
    rows = torch.export.Dim("rows", min=1)
    shapes: Any = (
        {0: rows} if isinstance(example, Tensor) else {column: {0: rows} for column in example}
    )
    try:
        inputs = example if isinstance(example, Tensor) else dict(example)
        program = torch.export.export(model, (inputs,), dynamic_shapes=(shapes,))
    except Exception as error:  # a user's module may be anything
        what = first_line(error)
        raise DataError(f"torch.export cannot write the bottom of {name!r}: {what}") from error
    torch.export.save(program, path, extra_files={MARK: __version__})
