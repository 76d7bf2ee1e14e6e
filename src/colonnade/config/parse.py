"""From a file, plain values and ``--set`` to a configuration; errors name the field by its path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pydantic
import yaml
from pydantic import BaseModel

from colonnade.config.run import RunConfig
from colonnade.errors import ConfigurationError

__all__ = ["json_schema", "load_config", "override", "parse_config"]


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a configuration file, by which editors complete and check it.

    >>> json_schema()["title"]
    'Colonnade run'
    """
    schema = RunConfig.model_json_schema(mode="validation")
    return (
        {"$schema": "https://json-schema.org/draft/2020-12/schema"}
        | schema
        | {"title": "Colonnade run"}
    )


def parse_config(data: Any, source: str = "configuration") -> RunConfig:
    """Validate a configuration given as plain values.

    Raises
    ------
    ConfigurationError
        Naming ``source``, the path to the first wrong field, and what is wrong with it.

    Examples
    --------
    >>> parse_config({"method": {"embedding": {"codec": "scalar", "bits": 4}}}).method.build().name
    'svfl'
    >>> parse_config({"training": {"epoch": 3}})
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: configuration: training.epoch: unknown key; \
there are epochs, batch_size, seed, threads, evaluate_every, evaluation_rows, checkpoint_every, \
schedule_every, early_stopping
    """
    if data is None:
        data = {}
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{source}: expected keys and values, found {data!r}")
    try:
        return RunConfig.model_validate(data)
    except pydantic.ValidationError as error:
        # An unknown key first: it is likely why another one is missing.
        first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        path = ".".join(_trail(first["loc"])[0])
        more = error.error_count() - 1
        raise ConfigurationError(
            f"{source}: {path}: {_said(first)}" + (f" (and {more} more)" if more else "")
        ) from None


def _said(error: Any) -> str:
    """Return what is wrong with a field, in a few words."""
    if error["type"] == "extra_forbidden":
        return f"unknown key; there are {', '.join(_trail(error['loc'][:-1])[1])}"
    if error["type"] == "secret":
        return str(error["msg"])
    if error["type"] == "missing":
        return "is required"
    if error["type"] == "union_tag_not_found":
        return f"the key {error['ctx']['discriminator']} is missing, which says what it is"
    if error["type"] == "union_tag_invalid":
        return f"names none of {error['ctx']['expected_tags']}"
    if error["type"] == "string_pattern_mismatch":
        return f"a name is made of letters, digits and . _ -, not {error['input']!r}"
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] in ("model_type", "model_attributes_type", "dict_type"):
        message = "input should be a valid dictionary of keys and values"
    value = error.get("input")
    if isinstance(value, (str, int, float, bool)) and repr(value) not in message:
        message += f", not {value!r}"
    return message[:1].lower() + message[1:]


def _trail(location: tuple[int | str, ...]) -> tuple[list[str], list[str]]:
    """Return the path to a field as a user writes it, and the keys of the section it leads to."""
    path: list[str] = []
    section: type[BaseModel] | None = RunConfig
    entries: Any = None
    alternatives: dict[str, type[BaseModel]] = {}
    for part in map(str, location):
        if part == "[key]":  # pydantic's note that it is the name of an entry that is wrong
            continue
        if part in alternatives:  # pydantic's note of which alternative it took: no key
            section, alternatives = alternatives[part], {}
            continue
        path.append(part)
        if entries is not None:  # the name of an entry, chosen by the user
            annotation, entries = entries, None
        else:
            field = section.model_fields.get(part) if section is not None else None
            annotation = None if field is None else field.annotation
        if get_origin(annotation) is dict:
            section, entries, alternatives = None, get_args(annotation)[1], {}
            continue
        members = _sections(annotation)
        section = members[0] if len(members) == 1 else None
        alternatives = {tag: m for m in members[1:] and members for tag in _tags(m)}
    return path, list(section.model_fields) if section is not None else []


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """Return the section types that an annotation names."""
    if get_origin(annotation) is Annotated:
        return _sections(get_args(annotation)[0])
    return [
        member
        for member in (annotation, *get_args(annotation))
        if isinstance(member, type) and issubclass(member, BaseModel)
    ]


def _tags(section: type[BaseModel]) -> tuple[str, ...]:
    """Return the names that choose this section among its alternatives.

    They are those that the first of its own fields may have: what alternatives have in common
    comes from a class above them.
    """
    literals = [
        get_args(field.annotation)
        for field in section.model_fields.values()
        if get_origin(field.annotation) is Literal and field.default in get_args(field.annotation)
    ]
    return tuple(map(str, literals[0]))


# PyYAML lets through what Python says of the date 2024-99-99, and of too deep a nesting.
_NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)


def load_config(path: Path, overrides: list[str] | None = None) -> RunConfig:
    """Read a YAML file, apply overrides such as ``training.epochs=3``, and validate.

    Raises
    ------
    ConfigurationError
        If the file is missing, is not YAML, or does not validate.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not valid YAML (not text in UTF-8)") from None
    except _NOT_YAML as error:
        where = getattr(error, "problem_mark", None)
        line = f" (line {where.line + 1})" if where else ""
        raise ConfigurationError(f"{path} is not valid YAML{line}") from None
    data = {} if data is None else data
    if isinstance(data, dict):
        data = override(data, overrides or [])
    return parse_config(data, str(path))


def override(data: Any, overrides: list[str]) -> Any:
    """Set ``a.b=value`` in nested plain values; the value is read as YAML.

    >>> override({"training": {"epochs": 1}}, ["training.epochs=3", "data.parties=2"])
    {'training': {'epochs': 3}, 'data': {'parties': 2}}
    """
    for text in overrides:
        path, equals, value = text.partition("=")
        *parents, last = path.strip().split(".")
        if not equals or not last:
            raise ConfigurationError(f"--set {text}: expected path.to.key=value")
        section = data
        for parent in parents:
            if not isinstance(section, dict):
                break
            section = section.setdefault(parent, {})
        if not isinstance(section, dict):
            raise ConfigurationError(f"--set {text}: {'.'.join(parents)} is not a section")
        try:
            section[last] = yaml.safe_load(value)
        except _NOT_YAML:
            raise ConfigurationError(f"--set {text}: {value!r} is not a valid value") from None
    return data
