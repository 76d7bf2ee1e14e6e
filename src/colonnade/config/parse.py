"""From a file, plain values and ``--set`` to a configuration; errors name the field by its path."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import pydantic
from pydantic.fields import FieldInfo

from colonnade.config.choices import PLACEHOLDER, composition, schema_of, section, usable
from colonnade.config.data import as_data_section
from colonnade.config.registry import GROUPS, Group, Part, find
from colonnade.config.run import RunConfig
from colonnade.config.sections import Chosen, Section, near
from colonnade.config.tables import holds_a_source
from colonnade.errors import ConfigurationError
from colonnade.paths import as_path
from colonnade.telling import plain, short, shown
from colonnade.yaml_text import MOST_CHARACTERS, MOST_LEVELS, MOST_VALUES, NOT_YAML, read_yaml

__all__ = ["json_schema", "load_config", "override", "parse_config", "parse_section", "read_file"]


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a configuration file, by which editors complete and check it.

    It covers what other packages add, as far as that can be imported.

    >>> json_schema()["title"]
    'Colonnade run'
    """
    schema = RunConfig.model_json_schema(mode="validation")
    defined = schema["$defs"]
    for group in GROUPS.values():
        bare, refs = [], []
        for part, of, own in _schemas(group):
            for name, each in own.pop("$defs", {}).items():
                defined.setdefault(name, each)
            name, number = re.sub(r"\W", "_", of.__name__), 2
            while name in defined:
                name, number = f"{name}{number}", number + 1
            if part is not None and part.name != group.default:
                own["required"] = sorted({group.key, *own.get("required", [])})
            defined[name] = own
            refs.append({"$ref": f"#/$defs/{name}"})
            if part is not None and not any(each.is_required() for each in _fields(of)):
                bare.append(part.name)
        defined[group.name] = {
            "description": group.about,
            "anyOf": [*([{"enum": bare}] if bare else []), *refs],
        }
    defined["links"]["anyOf"].append({"$ref": "#/$defs/codecs"})  # a codec in a link's place
    whole: dict[str, Any] = _referring(schema)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | whole | {"title": "Colonnade run"}


def _schemas(group: Group) -> Iterator[tuple[Part | None, type[Chosen], dict[str, Any]]]:
    """Yield the sections of a group with their schemas; None is the part of a composition."""
    for part in usable(group):
        of = section(part)
        try:
            own = schema_of(part, of)
        except ConfigurationError:  # the package has changed its mind
            continue
        yield part, of, own
    if group.name == "methods":
        yield None, composition(), composition().model_json_schema(mode="validation")


def _fields(of: type[Chosen]) -> Iterable[FieldInfo]:
    return of.model_fields.values()


def _referring(schema: Any) -> Any:
    """Return a schema in which every choice refers to the sections of its group."""
    if isinstance(schema, list):
        return list(map(_referring, schema))
    if not isinstance(schema, dict):
        return schema
    found = {
        key: _referring(value)
        for key, value in schema.items()
        if key != PLACEHOLDER and not (isinstance(value, float) and not math.isfinite(value))
    }
    if PLACEHOLDER in schema:
        found["$ref"] = f"#/$defs/{schema[PLACEHOLDER]}"
    return found


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
schedule_every, early_stopping, secrets; 'epochs' is near
    """
    return parse_section(RunConfig, {} if data is None else data, source)


Sections = TypeVar("Sections", bound=Section)


def parse_section(of: type[Sections], data: Any, source: str) -> Sections:
    """Validate a section of its own given as plain values; see ``parse_config``.

    Raises
    ------
    ConfigurationError
        Naming ``source``, the path to the first wrong field, and what is wrong with it.
    """
    _refuse_bombs(data, source)
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{source}: expected keys and values, found {shown(data)}")
    try:
        return of.model_validate(data)
    except pydantic.ValidationError as error:
        # An unknown key first: it is likely why another one is missing.
        first = min(error.errors(), key=lambda each: each["type"] != "unknown_key")
        path = ".".join(_path(first["loc"]))
        more = error.error_count() - 1
        said = plain(_said(first)) + (f" (and {more} more)" if more else "")
        # What is wrong with several sections together has no path.
        parts = (source, short(path), said)
        raise ConfigurationError(": ".join(part for part in parts if part)) from None


_MOST_DIGITS = 300  # what is no float has more
_TOO_LARGE = 10**_MOST_DIGITS

_OUR_OWN = ("choice", "secret", "unknown_key")  # types of errors whose message is complete


def _said(error: Any) -> str:
    """Return what is wrong with a field, in a few words."""
    if error["type"] in _OUR_OWN:
        return str(error["msg"])
    if error["type"] == "missing":
        return "is required"
    if error["type"] == "union_tag_not_found":
        return f"the key {error['ctx']['discriminator']} is missing, which says what it is"
    if error["type"] == "union_tag_invalid":
        tag, expected = error["ctx"]["tag"], error["ctx"]["expected_tags"]
        close = near(tag, expected.replace("'", "").split(", "))
        return f"{shown(tag)} names none of {expected}{close}"
    if error["type"] == "string_pattern_mismatch":
        return f"a name is made of letters a to z, digits and . _ -, not {shown(error['input'])}"
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] in ("model_type", "model_attributes_type", "dict_type"):
        message = "input should be a valid dictionary of keys and values"
    value = error.get("input")
    if isinstance(value, (str, int, float, bool)) and shown(value) not in message:
        message += f", not {shown(value)}"
    return message[:1].lower() + message[1:] if message[1:2].islower() else message  # C-VFL


def _path(location: tuple[int | str, ...]) -> list[str]:
    """Return the path to a field as a user writes it, without pydantic's notes."""
    path = [str(part) for part in location if part != "[key]"]  # the name of an entry is wrong
    if path[:1] == ["data"] and len(path) > 1:  # which kind of data it took: no key
        del path[1]
    return path


def _refuse_bombs(data: Any, source: str) -> None:
    """Refuse values nested without an end, too many or too long: Python's own may be, too."""
    seen, level = 0, [("", data)]
    for _ in range(MOST_LEVELS):
        deeper: list[tuple[str, Any]] = []
        for path, value in level:
            _refuse_long(path, value, source)
            if isinstance(value, Mapping | list | tuple | set):
                seen += len(value)
                if seen > MOST_VALUES:  # before they are there
                    raise ConfigurationError(f"{source}: more than {MOST_VALUES:,} values")
                for key in value if isinstance(value, Mapping) else ():
                    _refuse_long(path, key, source)
                deeper += _within(path, value)
        if not deeper:
            return
        level = deeper
    raise ConfigurationError(f"{source}: nested more than {MOST_LEVELS} levels deep")


def _refuse_long(path: str, value: Any, source: str) -> None:
    """Refuse a whole number that Python would not write in a message."""
    if isinstance(value, int) and not -_TOO_LARGE < value < _TOO_LARGE:
        where = f"{short(path)}: " if path else ""
        raise ConfigurationError(
            f"{source}: {where}a whole number of more than {_MOST_DIGITS} digits"
        )


def _within(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what is in a collection, each with its path."""
    of = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, each in of:
        yield f"{path}.{key}" if path else str(key), each


def load_config(path: str | Path, overrides: list[str] | None = None) -> RunConfig:
    """Read a YAML file, apply overrides such as ``training.epochs=3``, and validate.

    Raises
    ------
    ConfigurationError
        If this is no path, or the file is missing, is not YAML, or does not validate.
    """
    path = as_path("a configuration is read from the path of a file", path)
    data = read_file(path)
    data = {} if data is None else data
    if isinstance(data, dict):
        data = override(beside(data, path.absolute().parent), overrides or [])
        data = beside(data, Path.cwd())  # what --set says is relative to where it is said
        if not data:
            raise ConfigurationError(
                f"{path} is empty; the least that a run can be told is its data, in one line: "
                "'data: mnist5k' for digits that come along, and for tables of your own the lines "
                "that docs/tables.md begins with"
            )
    return parse_config(data, str(path))


def read_file(path: Path) -> Any:
    """Return what a YAML file holds, as plain values.

    Raises
    ------
    ConfigurationError
        If the file is missing, or is not YAML.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MOST_CHARACTERS + 1)  # one too many is refused there
        return read_yaml(text)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not valid YAML (not text in UTF-8)") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    except NOT_YAML as error:
        where = getattr(error, "problem_mark", None)
        line = f" (line {where.line + 1})" if where else ""
        raise ConfigurationError(f"{path} is not valid YAML{line}") from None


def beside(data: Any, folder: Path) -> Any:
    """Return plain values with paths, as far as they are relative, put into a folder.

    Tables without a ``folder`` are looked for in this one, unless none is there and
    ``COLONNADE_DATA`` names another.

    >>> beside({"data": {"name": "mnist", "folder": "digits"}}, Path("/srv"))
    {'data': {'name': 'mnist', 'folder': '/srv/digits'}}
    """
    return _data_beside(_delays_beside(data, folder), folder)


def _delays_beside(data: Any, folder: Path) -> Any:
    costs = data.get("costs")
    delays = costs.get("delays") if isinstance(costs, dict) else None
    if not isinstance(costs, dict) or not isinstance(delays, dict):
        return data
    placed = {name: _placed(GROUPS["delays"], delay, folder) for name, delay in delays.items()}
    return data | {"costs": costs | {"delays": placed}}


def _placed(group: Group, content: Any, folder: Path) -> Any:
    """Return a part's section with each of its paths put into a folder."""
    name = content.get(group.key) if isinstance(content, dict) else None
    if not isinstance(name, str):
        return content
    try:
        fields = section(find(group, name)).model_fields
    except ConfigurationError:  # it is refused where it is validated
        return content
    paths = {
        key: str(folder / content[key])
        for key, field in fields.items()
        if Path in (field.annotation, *get_args(field.annotation))
        and isinstance(content.get(key), str)
    }
    return content | paths


def _data_beside(data: Any, folder: Path) -> Any:
    section = data.get("data")
    if not isinstance(section, dict):
        return data
    placed = {
        key: str(folder / path)
        for key in ("alignment", "folder", "store")
        if isinstance(path := section.get(key), str)
    }
    if section.get("folder") is None and (sources := _sources(as_data_section(section))):
        there = holds_a_source(folder, (each for each in sources if isinstance(each, str)))
        if there or "COLONNADE_DATA" not in os.environ:
            placed["folder"] = str(folder)
    return data | {"data": section | placed} if placed else data


def _sources(section: Mapping[str, Any]) -> list[Any]:
    """Return the user's own files that a section about data names."""
    if section.get("name") == "streamed":
        files = section.get("files")
        return files if isinstance(files, list) else []
    if section.get("name") != "tables":
        return []
    parties = section.get("parties")
    tables = [*(parties.values() if isinstance(parties, dict) else []), section.get("labels")]
    return [table.get("source") for table in tables if isinstance(table, dict)]


def override(data: Any, overrides: list[str]) -> Any:
    """Set ``a.b=value`` in nested plain values; the value is read as YAML.

    >>> override({"training": {"epochs": 1}}, ["training.epochs=3", "data.parties=2"])
    {'training': {'epochs': 3}, 'data': {'parties': 2}}
    """
    for text in overrides:
        path, equals, value = text.partition("=")
        *parents, last = path.strip().split(".")
        if not equals or not last:
            raise ConfigurationError(f"--set {short(text)}: expected path.to.key=value")
        section = data
        for parent in parents:
            if not isinstance(section, dict):
                break
            section = section.setdefault(parent, {})
        if not isinstance(section, dict):
            named = short(".".join(parents))
            raise ConfigurationError(f"--set {short(text)}: {named} is not a section")
        try:
            section[last] = read_yaml(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"--set {short(text)}: {error}") from None
        except NOT_YAML:
            raise ConfigurationError(
                f"--set {short(text)}: {shown(value)} is not a valid value"
            ) from None
    return data
