"""The service on a socket, in a thread of its own."""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.errors import ConfigurationError
from colonnade.serving.answers import Answers
from colonnade.serving.certificate import check_certificate
from colonnade.serving.config import ServeConfig

if TYPE_CHECKING:
    import uvicorn

__all__ = ["Service", "check_installed", "serving"]

_START = 30.0  # seconds in which it listens, or never
_LOOK = 0.01
_END = 5  # seconds in which answers that are under way may be sent


@dataclass(frozen=True)
class Service:
    """A service that listens.

    Parameters
    ----------
    url
        Where.
    token
        The file with what a request has to show.
    """

    url: str
    token: Path


def check_installed() -> None:
    """Raise ``ConfigurationError`` if a package is missing that serving takes."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f"predictions are served by FastAPI ({error}); install colonnade[serve]"
        ) from None


@contextmanager
def serving(answers: Answers, config: ServeConfig) -> Iterator[Service]:
    """Serve predictions until the context ends.

    Whoever makes ``answers`` ends them before: so all who wait are told why.

    Parameters
    ----------
    answers
        Who predicts.
    config
        Where, and to whom.

    Raises
    ------
    ConfigurationError
        If a package is missing, or it cannot listen there, or files are of no use.
    Unwritten
        If no token can be written.
    """
    check_installed()
    import uvicorn

    from colonnade.serving.connections import Listener, Punctual, kept_at_most
    from colonnade.serving.service import service

    token = config.read_token()
    config.check_key()
    check_certificate(config)
    bound = _bound(Listener, config.host, config.port)
    try:
        settings = uvicorn.Config(
            service(answers, token),
            loop="asyncio",  # others take connections past the listener
            http=Punctual,
            limit_concurrency=kept_at_most() // 2,  # with as many, a request is answered 503
            log_config=None,
            log_level=logging.ERROR,  # who sends nonsense fills no log
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            ssl_certfile=config.certificate,
            ssl_keyfile=config.key,
            timeout_graceful_shutdown=_END,
        )
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
        thread.start()
        try:
            _await_start(server, thread)
            yield Service(_url(config, bound), config.token)
        finally:
            server.should_exit = True
            thread.join()
    finally:
        bound.close()


def _await_start(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + _START
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise ConfigurationError("the service could not start")
        time.sleep(_LOOK)


def _bound(listener: type[socket.socket], host: str, port: int) -> socket.socket:
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = listener(family, kind, number)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"cannot listen at {host}: {error}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(128)
    except OSError as error:
        bound.close()
        remedy = "port 0 takes one that is free (--port 0; YAML: serve: {port: 0})"
        if error.errno == errno.EADDRNOTAVAIL:
            remedy = "name an address of this machine"
        raise ConfigurationError(
            f"cannot listen at port {port} of {host}: {error.strerror}; {remedy}"
        ) from None
    return bound


def _url(config: ServeConfig, bound: socket.socket) -> str:
    scheme = "http" if config.certificate is None else "https"
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"{scheme}://{host}:{bound.getsockname()[1]}"
