"""``colonnade serve``."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from colonnade.cli.options import (
    Absent,
    Absentees,
    RunOf,
    Tables,
    Without,
    fallbacks_of,
    sources_of,
)
from colonnade.progress import err, out, say

if TYPE_CHECKING:
    from colonnade.serving import Service

__all__ = ["serve"]


def serve(
    run: RunOf,
    table: Tables = None,
    absent: Absent = Absentees.error,
    without: Without = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 is every one.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 takes one that is free.")
    ] = 8008,
    token: Annotated[
        Path | None,
        typer.Option(
            help="File with what a request has to show; by default `token` in the run's folder, "
            "made where there is none."
        ),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Certificate with its chain, as PEM: makes it HTTPS.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's private key, as PEM.")] = None,
) -> None:
    """Answer over HTTP whoever asks what is predicted of new people, until it is interrupted.

    All parts of the run are here, as `colonnade run` left them. Between organisations it is the job
    serve that `colonnade deploy --to` writes.
    """
    from colonnade.config import load_trained
    from colonnade.config.parse import parse_section
    from colonnade.serving import RunAnswers, ServeConfig, serving

    said = {"host": host, "port": port, "token": token or run / "token"}
    config = parse_section(ServeConfig, said | {"certificate": certificate, "key": key}, "serve")
    trained, left = load_trained(run), fallbacks_of(without or [])
    new = trained.new_people(sources_of(table or []), absent.value, left)
    answers = RunAnswers(trained, new, left)
    with _until_asked_to_end() as wait, serving(answers, config) as service:
        try:
            for note in config.notes:
                err.print(f"[yellow]warning:[/] {escape(note)}")
            say(out, f"{len(answers.people):,} people can be asked for at {service.url}:")
            say(out, _example_of(service, answers.people.some))
            wait()
        finally:
            answers.end()


def _example_of(service: Service, id: str) -> str:
    """Return how somebody is asked for."""
    secure = "--cacert CERTIFICATE " if service.url.startswith("https") else ""
    return (
        f'  curl {secure}-H "Authorization: Bearer $(cat {shlex.quote(str(service.token))})" '
        f"--json {shlex.quote(json.dumps({'ids': [id]}))} {service.url}/predict"
    )


@contextlib.contextmanager
def _until_asked_to_end() -> Iterator[Callable[[], object]]:
    """Yield what waits until somebody interrupts, or asks the process to end."""
    heard, tell = os.pipe()  # a handler may come between any two steps, where no lock is safe
    os.set_blocking(tell, False)

    def asked(*_: object) -> None:
        with contextlib.suppress(BlockingIOError):  # it is full, and has told
            os.write(tell, b"!")

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: os.read(heard, 1)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(heard)
        os.close(tell)
