"""Where a service listens, and what it asks of whoever calls."""

from __future__ import annotations

import os
import secrets
from ipaddress import ip_address
from pathlib import Path

import pydantic
from pydantic import Field

from colonnade.config.sections import Section
from colonnade.errors import ConfigurationError
from colonnade.faults import misnamed_or_unwritten
from colonnade.outputs import replacing
from colonnade.tables.there import is_file

__all__ = ["ServeConfig"]

_SHORTEST = 16  # characters of a token
_LONGEST = 4096


class ServeConfig(Section):
    """Where predictions are served, and to whom."""

    host: str = Field(
        "127.0.0.1", min_length=1, description="the address to listen at; 0.0.0.0 is every one"
    )
    port: int = Field(8008, ge=0, le=65535, description="the port; 0 takes one that is free")
    token: Path = Field(
        Path("token"),
        description="the file with what a request has to show; where there is none one is made, "
        "which its owner alone may read",
    )
    certificate: Path | None = Field(
        None, description="the certificate of the address, with its chain, as PEM: makes it HTTPS"
    )
    key: Path | None = Field(None, description="the certificate's private key, as PEM")

    @pydantic.model_validator(mode="after")
    def _both(self) -> ServeConfig:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key belong together: say both, or neither")
        return self

    def within(self, folder: Path) -> ServeConfig:
        """Return it with paths that are relative to a folder."""
        files = {"token": self.token, "certificate": self.certificate, "key": self.key}
        placed = {name: folder / file for name, file in files.items() if file is not None}
        return self.model_copy(update=placed)

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known of it, a sentence each."""
        if self.certificate is not None or _is_loopback(self.host):
            return ()
        return (
            f"predictions are served at {self.host} without TLS: who is on the way reads them and "
            "the token; say certificate: and key:, or put a proxy in front",
        )

    def read_token(self) -> str:
        """Return what a request has to show; where there is none yet, make it.

        Raises
        ------
        ConfigurationError
            If the file says nothing of use, others can read it, or none can be there.
        Unwritten
            If none can be written.
        """
        if not os.path.lexists(self.token):
            try:
                self.token.parent.mkdir(parents=True, exist_ok=True)
                _write_secret(self.token, secrets.token_urlsafe(32))
            except OSError as error:
                raise misnamed_or_unwritten(self.token, error) from None
        text = _read_secret(self.token, "the token").strip()
        if not (_SHORTEST <= len(text) <= _LONGEST) or not _is_a_word(text):
            raise ConfigurationError(
                f"{self.token}: a token is one word of {_SHORTEST} to {_LONGEST} ASCII characters"
            )
        return text

    def check_key(self) -> None:
        """Raise ``ConfigurationError`` if the private key is not there, or others can read it.

        A certificate that is no ordinary file is refused too.
        """
        if self.key is not None:
            _read_secret(self.key, "the private key")
        if self.certificate is not None:
            _check_ordinary(self.certificate, "the certificate")


def _write_secret(path: Path, text: str) -> None:
    """Write a file that its owner alone may read; it appears whole, or not at all."""
    with replacing(path) as partial:
        partial.chmod(0o600)  # while it is empty
        partial.write_text(f"{text}\n", encoding="ascii")


def _check_ordinary(path: Path, what: str) -> None:
    """Refuse what is there and no ordinary file: a pipe would be waited for."""
    if os.path.lexists(path) and not is_file(path):
        raise ConfigurationError(f"{path}: {what} cannot be read: it is no ordinary file")


def _read_secret(path: Path, what: str) -> str:
    _check_ordinary(path, what)
    try:
        with path.open(encoding="utf-8") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                raise ConfigurationError(
                    f"{path}: others can read {what}; let its owner alone (chmod 600)"
                )
            return file.read(2**20)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"{path}: {what} cannot be read: {error}") from None


def _is_a_word(text: str) -> bool:
    return all("!" <= letter <= "~" for letter in text)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
