"""Sections made from signatures: the arguments of a class or function are the keys of its section.

Codecs, links, methods and the like are frozen values. What one is made from says all about its
section: arguments are keys, annotations their types, defaults their defaults, the docstring what
they mean; and what it refuses is refused at that section. An argument annotated as a part that can
be chosen itself - ``Codec``, ``Fusion | None``, ``tuple[Codec, ...]`` - is chosen by name inside.

``chosen("codecs")`` is the type of a field that is chosen from a group of the registry. It is
resolved when a name is validated, so a package's codec is a section like any other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints
from warnings import simplefilter

import pydantic
from pydantic import Field, StrictInt
from pydantic_core import (
    PydanticCustomError,
    PydanticSerializationError,
    core_schema,
    to_jsonable_python,
)

from colonnade.assembly import ModuleBottom, ModuleTop
from colonnade.config.docstrings import about_parameters, summary
from colonnade.config.foreign import guarded
from colonnade.config.registry import GROUPS, OURS, Group, Part, find, group_of, names
from colonnade.config.sections import Chosen, Name, Number, near
from colonnade.errors import ConfigurationError
from colonnade.method import Method
from colonnade.quiet import warning_otherwise
from colonnade.telling import plain, shown

__all__ = [
    "PLACEHOLDER",
    "Choice",
    "MadeSection",
    "MethodChoice",
    "MethodSection",
    "chosen",
    "composing",
    "composition",
    "schema_of",
    "section",
    "unusable",
    "usable",
    "written",
]

PLACEHOLDER = "x-colonnade-group"
"""Where a schema will refer to the sections of a group; see ``parse.json_schema``."""


# A section from a signature


class MadeSection(Chosen):
    """A section whose fields are the arguments of what its part is made by."""

    part: ClassVar[Part]
    arguments: ClassVar[Mapping[str, str]]
    """Keys by argument."""
    left_out: ClassVar[frozenset[str]]
    """Keys whose null means the part's own default, for which there is no name."""

    def build(self) -> Any:
        """Return the value."""
        given = {
            argument: _built(getattr(self, key))
            for argument, key in self.arguments.items()
            if key not in self.left_out or getattr(self, key) is not None
        }
        return _BUILDERS.get(self.part.group.name, _call)(self.part, given)


_STEPS = ("local_steps", "steps", "reuses")
"""How methods and policies call the number of their local steps."""


class MethodSection(MadeSection):
    """A section that stands for a method."""

    name: str

    @classmethod
    def _near(cls) -> list[str]:
        return [*cls.model_fields, *composing()]

    @classmethod
    def _meant(cls, said: str) -> str:
        called = next((key for key in _STEPS if key in cls.model_fields), None)
        if said in _STEPS and called is not None:
            return f"; {called!r} is what says how many local steps there are"
        return super()._meant(said)

    def build(self) -> Method:
        """Return the method."""
        method: Method = super().build()
        return method


def section(part: Part) -> type[Chosen]:
    """Return the section of a part: one it has, or one made from its signature.

    Raises
    ------
    ConfigurationError
        If a package's part has a signature that no section can be made from.

    Examples
    --------
    >>> list(section(find(GROUPS["codecs"], "top_k")).model_fields)
    ['codec', 'ratio', 'scope', 'by', 'values']
    """
    made, at = part.make, (part.group.name, part.name)
    known, of = _SECTIONS.get(at, (None, Chosen))
    if known is not made:
        if part.origin == OURS:
            of = _section_of(part)
        else:
            with guarded(_whose(part), "cannot be described"):
                of = _section_of(part)
                _check_section(part, of)
        _SECTIONS[at] = made, of
    return of


_SECTIONS: dict[tuple[str, str], tuple[Any, type[Chosen]]] = {}


def _section_of(part: Part) -> type[Chosen]:
    made = part.make
    return made if isinstance(made, type) and issubclass(made, Chosen) else _made(part)


def _check_section(part: Part, of: type[Chosen]) -> None:
    """Refuse a package's section that cannot be named, written to a file or put in the schema."""
    if part.group.key not in of.model_fields:
        raise _useless(part, f"is a section without the key {part.group.key!r}")
    if part.group.name == "methods":
        if part.name == _CUSTOM:
            raise _useless(part, "is called like a composition without a name")
        for key in composing():
            if key in of.model_fields:
                raise _useless(part, f"has a setting {key!r}, which only a composition has")
    for key, field in of.model_fields.items():
        if field.is_required():
            continue
        try:
            to_jsonable_python(field.get_default(call_default_factory=True))
        except PydanticSerializationError:
            raise _useless(part, f"has a default of {key!r} that no file can say") from None
    schema_of(part, of)


def schema_of(part: Part, of: type[Chosen]) -> dict[str, Any]:
    """Return the JSON schema of a part's section.

    Raises
    ------
    ConfigurationError
        If a package's part takes what no file can say.
    """
    if part.origin == OURS:
        return of.model_json_schema(mode="validation")
    with guarded(_whose(part), "has a setting that no schema describes"), warning_otherwise():
        simplefilter("ignore")  # of defaults that are left out
        return of.model_json_schema(mode="validation")


def _made(part: Part, tag: tuple[Any, Any] | None = None) -> type[MadeSection]:
    """Make a section; ``tag`` is the type of what tells it from others, by default its name."""
    group = part.group
    about = about_parameters(part.make)
    content: dict[str, Any] = {group.key: tag or (Literal[part.name], part.name)}
    arguments, left_out = {}, set()
    for argument, (hint, default) in _arguments(part).items():
        key = group.keys.get(argument, argument)
        if tag is not None and key == group.key:
            arguments[argument] = key
            continue
        if key in content or hasattr(Chosen, key):
            raise _useless(part, f"has an argument {argument!r}, which no section can have")
        annotation = part.group.numbers if hint is float else _annotation(hint)
        if default is inspect.Parameter.empty:
            default = ...
        elif (said := written(default)) is not None:
            default = said
        elif default is not None and group_of(_bare(hint)) is not None:
            annotation, default = annotation | None, None
            left_out.add(key)
        content[key] = (annotation, Field(default, description=about.get(argument)))
        arguments[argument] = key
    name = "".join(word.title() for word in f"{part.name}_{group.one}".replace("-", "_").split("_"))
    base = MethodSection if group.name == "methods" else MadeSection
    try:
        made = _created(name.replace(" ", ""), base, summary(part.make), content)
    except Exception as error:  # whatever pydantic says of annotations of somebody else
        why = (str(error) or type(error).__name__).splitlines()[0]
        raise _useless(part, f"has annotations that no section can have: {why}") from error
    made.part, made.arguments, made.left_out = part, arguments, frozenset(left_out)
    return made


def _created(
    name: str, base: type[MadeSection], about: str, content: dict[str, Any]
) -> type[MadeSection]:
    return pydantic.create_model(name, __base__=base, __doc__=about, **content)


def _arguments(part: Part) -> dict[str, tuple[Any, Any]]:
    """Return the annotation and default of each argument that is a setting."""
    make = part.make
    plain_class = isinstance(make, type) and not is_dataclass(make)
    try:
        hints = get_type_hints(make.__init__ if plain_class else make, include_extras=True)
        parameters = inspect.signature(make).parameters
    except (NameError, SyntaxError, TypeError, ValueError) as error:
        raise _useless(part, f"has annotations that say nothing: {error}") from error
    factories = {}
    if is_dataclass(make):
        factories = {f.name: f.default_factory for f in fields(make)}
    found = {}
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if name in part.group.given:
            continue
        if name not in hints or parameter.kind is parameter.POSITIONAL_ONLY:
            raise _useless(part, f"does not say of which type its argument {name!r} is, or by name")
        factory: Any = factories.get(name, MISSING)
        default = parameter.default if factory is MISSING else factory()
        found[name] = (hints[name], default)
    return found


def _useless(part: Part, why: str) -> ConfigurationError:
    return ConfigurationError(f"{_whose(part)} {plain(why)}")


def _whose(part: Part) -> str:
    return f"the {part.group.one} {part.name!r} of {part.origin}"


def _bare(hint: Any) -> Any:
    """Return an annotation without its ``| None``."""
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(arg for arg in get_args(hint) if arg is not type(None))]  # noqa: UP007
    return hint


def _annotation(hint: Any) -> Any:
    """Return the type of a field for an argument: parts inside it are chosen by name."""
    group = group_of(hint)
    if group is not None:
        return chosen(group.name)
    if hint is int:
        return StrictInt  # yes is not 1
    if hint is float:
        return Number
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(_annotation(inside[0]), *hint.__metadata__)]
    if origin in (Union, UnionType):
        if type(None) in inside:
            return _annotation(_bare(hint)) | None
        return Union[tuple(map(_annotation, inside))]  # noqa: UP007
    if origin in (list, tuple, dict, Sequence, Mapping):
        return origin[tuple(map(_annotation, inside))]
    return hint


def _built(value: Any) -> Any:
    if isinstance(value, Chosen):
        return value.build()
    if isinstance(value, list | tuple):
        return type(value)(map(_built, value))
    if isinstance(value, dict):
        return {key: _built(each) for key, each in value.items()}
    return value


def _call(part: Part, given: Mapping[str, Any]) -> Any:
    if part.origin == OURS:
        return part.make(**given)
    with guarded(_whose(part), "failed", (ConfigurationError, ValueError)):
        made = part.make(**given)
        _check(part, made)
    return made


def _check(part: Part, made: Any) -> None:
    """Refuse what a package made if it is nothing that the group's name promises."""
    expected: tuple[Any, ...] = (Method,) if part.group.name == "methods" else part.group.kinds[:1]
    for kind in expected:
        if getattr(kind, "_is_runtime_protocol", True) and not isinstance(made, kind):
            raise _useless(part, f"makes no {kind.__name__}, but {shown(made)}")


def _has(part: Part, method: str) -> bool:
    with guarded(_whose(part), "failed"):
        return hasattr(part.make, method)


def _bottom(part: Part, given: Mapping[str, Any]) -> Any:
    if _has(part, "bottom"):
        return _call(part, given)
    return ModuleBottom(part.make, part.name, given)


def _top(part: Part, given: Mapping[str, Any]) -> Any:
    if _has(part, "top"):
        return _call(part, given)
    return ModuleTop(part.make, part.name, given)


_BUILDERS: dict[str, Callable[[Part, Mapping[str, Any]], Any]] = {"models": _bottom, "tops": _top}


def ours(group: str, name: str) -> Any:
    """Return a section of ours with its defaults, whatever packages are there."""
    return section(Part(GROUPS[group], name, GROUPS[group].ours[name]))()


def usable(group: Group) -> list[Part]:
    """Return the parts of a group that can be chosen, ours first; packages are imported for it."""
    return _sorted_out(group)[0]


def unusable(group: Group) -> list[str]:
    """Return why other names of a group cannot be chosen, a sentence each."""
    return _sorted_out(group)[1]


def _sorted_out(group: Group) -> tuple[list[Part], list[str]]:
    good, bad = [], []
    for name in names(group):
        try:
            part = find(group, name)
            section(part)
        except ConfigurationError as error:
            bad.append(plain(str(error)))
        else:
            good.append(part)
    return good, bad


def written(value: Any) -> Any:
    """Return the section of a value that has one; None where no part of ours makes it.

    >>> from colonnade.codecs import Scalar
    >>> written(Scalar(bits=4))
    ScalarCodec(codec='scalar', bits=4, low=None, high=None, dither=True)
    """
    if isinstance(value, tuple):
        inside = tuple(map(written, value))
        return None if None in inside else inside
    if value is None or isinstance(value, str | int | float | list | dict):
        return None
    for group in GROUPS.values():
        for name, make in group.ours.items():
            if make is type(value):
                of = section(Part(group, name, make))
                return of.model_validate(_attributes(of, value))
    return None


def _attributes(of: type[Chosen], value: Any) -> dict[str, Any]:
    """Return the keys and values of a value's section."""
    assert issubclass(of, MadeSection)
    found = {}
    for argument, key in of.arguments.items():
        held = getattr(value, argument)
        inside = written(held)
        found[key] = held if inside is None else inside
    return found


# A choice among sections


@dataclass(frozen=True)
class Choice:
    """What pydantic is told of a field that is chosen from a group: by name, or as a section.

    Parameters
    ----------
    group
        What it is chosen from.
    """

    group: Group

    def validate(self, value: Any) -> Chosen:
        """Return the section that a value from a file means."""
        if isinstance(value, Chosen):
            return value
        name, content = self._named(value)
        try:
            part = find(self.group, name)
            of = section(part)
            if part.origin == OURS:
                return self._section(of, content)
            with guarded(_whose(part), "failed", (ValueError,)):  # what pydantic says is one
                return self._section(of, content)
        except ConfigurationError as error:
            raise _refused(str(error)) from None

    def _section(self, of: type[Chosen], content: dict[Any, Any]) -> Chosen:
        return of.model_validate(content)

    def _named(self, value: Any) -> tuple[str, dict[Any, Any]]:
        """Return the name that is chosen, and the section around it."""
        key, group = self.group.key, self.group
        if isinstance(value, str):
            value = {key: value}
        if not isinstance(value, Mapping):
            raise _refused(f"expected a name or keys and values, not {shown(value)}")
        name = value.get(key, group.default)
        if group.name == "codecs" and (name is None or str(name) not in names(group)):
            links = names(GROUPS["links"])
            said = [each for each in (value.get("link"), name) if isinstance(each, str)]
            link = next((each for each in said if each in links), None)
            if link is not None:
                raise _refused(
                    f"a codec is expected here, and {link!r} is a link; a link belongs into a "
                    "composition, as in uplink: {uplink: plain, link: ...}"
                )
        if name is None:
            raise _refused(f"the key {key!r} is missing, which says what it is")
        known = names(group)
        if not isinstance(name, str) or name not in known:
            there = ", ".join(map(repr, known)) + near(str(name), known)
            raise _refused(f"{shown(name)} names none of {there}{self._otherwise()}")
        return name, {key: name} | dict(value)

    def _otherwise(self) -> str:
        """Return what else there is besides names, for who gave none of them."""
        return ""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.validate)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {PLACEHOLDER: self.group.name}


class LinkChoice(Choice):
    """A link; a codec in its place is a direct link through it."""

    def _named(self, value: Any) -> tuple[str, dict[Any, Any]]:
        codecs = GROUPS["codecs"]
        if isinstance(value, str) and value in names(self.group) and value in names(codecs):
            raise _refused(
                f"there is a link and a codec called {value!r}, so it is not clear which is meant; "
                f"say {{link: {value}}} or {{codec: {value}}}"
            )
        bare = isinstance(value, str) and value not in names(self.group) and value in names(codecs)
        within = isinstance(value, Mapping) and self.group.key not in value and codecs.key in value
        return super()._named(
            {self.group.key: "direct", codecs.key: value} if bare or within else value
        )


class MethodChoice(Choice):
    """A method by its name, or one composed of parts.

    A section that has a key of a part which no named method has - uplink, exchange, local_updates,
    stragglers - is a composition, and its name is what tables call it.
    """

    def validate(self, value: Any) -> Chosen:
        """Return the section that a value from a file means."""
        if isinstance(value, Mapping) and not isinstance(value.get("name"), str):
            value = {key: each for key, each in value.items() if key != "name" or each is not None}
        here = [key for key in composing() if key in value] if isinstance(value, Mapping) else []
        if here:
            name = value.get("name", _CUSTOM)
            if name == _CUSTOM or name not in names(self.group):
                return self._section(composition(), dict(value))
            said = [key for key in here if value[key] is not None]
            if said:
                raise _refused(
                    f"{name!r} is a method there is, and a composition, which has the key "
                    f"{said[0]!r}, may not carry a method's name; call it otherwise, or leave out "
                    f"{' and '.join(said)}"
                )
        return super().validate(value)

    def _otherwise(self) -> str:
        return f"; a composition of your own has one of the keys {', '.join(composing())}"

    def _section(self, of: type[Chosen], content: dict[Any, Any]) -> Chosen:
        # So that a key can be taken back on the command line: --set method.top=null
        kept = {k: v for k, v in content.items() if v is not None or k in of.model_fields}
        return of.model_validate(kept)


_CUSTOM = "custom"


@cache
def composition() -> type[MadeSection]:
    """Return the section of a method composed of parts: the fields of ``Method``."""
    part = Part(GROUPS["methods"], "composition", Method)
    return _made(
        part,
        (Name, Field(_CUSTOM, description="what tables call it; no name of a method there is")),
    )


def composing() -> list[str]:
    """Return the keys that only a composition has."""
    return [key for key in composition().model_fields if key not in ("name", "fusion")]


def chosen(group: str) -> Any:
    """Return the type of a field that is chosen from a group of the registry."""
    choice = {"methods": MethodChoice, "links": LinkChoice}.get(group, Choice)
    return Annotated[Chosen, choice(GROUPS[group])]


def _refused(message: str) -> PydanticCustomError:
    return PydanticCustomError("choice", message)
