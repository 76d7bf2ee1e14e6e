"""The command ``colonnade``: a file for each of its commands; those that list parts are in one."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from colonnade import __version__
from colonnade.cli.align import align
from colonnade.cli.audit import audit
from colonnade.cli.check_site import check_site
from colonnade.cli.clicks import clicks
from colonnade.cli.compare import compare
from colonnade.cli.demo import demo
from colonnade.cli.deploy import deploy
from colonnade.cli.export import export
from colonnade.cli.listing import codecs, datasets, methods, models, parts, schema
from colonnade.cli.plan import plan
from colonnade.cli.predict import predict
from colonnade.cli.prepare_kit import prepare_kit
from colonnade.cli.reproduce import reproduce
from colonnade.cli.run import run
from colonnade.cli.serve import serve
from colonnade.cli.told import INTERRUPTED, TOLD, UNWRITTEN
from colonnade.errors import (
    CheckpointError,
    ColonnadeError,
    ConfigurationError,
    InvalidInput,
    Unwritten,
)
from colonnade.faults import refused
from colonnade.progress import err, out, say

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """All commands; one that is interrupted says so, where typer would end it without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            err.print("stopped")
            raise typer.Exit(INTERRUPTED) from None


_NOWHERE = "no locator available"  # says numba

app = typer.Typer(
    name="colonnade",
    cls=_Commands,
    help="Train one model over columns of several organisations, none of which shows its own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _colonnade(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
) -> None:
    if version:
        out.print(f"colonnade {__version__}", highlight=False)
        raise typer.Exit


for _command in (
    *(
        demo,
        run,
        compare,
        plan,
        align,
        deploy,
        prepare_kit,
        check_site,
        predict,
        serve,
        export,
        audit,
    ),
    *(reproduce, datasets, clicks, codecs, methods, models, parts, schema),
):
    app.command()(_command)


_OF_TABLES = ("--table", "--new", "--set")  # the options that name a table, as bank=URL


def _check_arguments(arguments: Sequence[str]) -> None:
    """Raise ``ConfigurationError`` where one is no text, or a password is where no table is.

    The first could not be told of, nor written; and the second would be, as what is wrong there.
    """
    for option, each in pairwise(["", *arguments]):
        try:
            each.encode()
        except UnicodeEncodeError:
            raise ConfigurationError(
                f"{each!r} is not UTF-8; give what it names another name, or say in which encoding "
                "names are (LC_ALL=C.UTF-8)"
            ) from None
        if "://" not in each:
            continue
        of, said = each.split("=", 1) if re.match("--[a-z]+=", each) else (option, each)
        is_a_tables = of in _OF_TABLES and "=" in said.partition("://")[0]
        if not is_a_tables and _has_password(said):
            raise ConfigurationError(
                "a URL with a password stands where no table goes; say whose table it is, as in "
                "bank=URL, and put the password into an environment variable: "
                "bank=postgresql://ann:$BANK_PASSWORD@db/crm"
            )


def _has_password(url: str) -> bool:
    from colonnade.config.variables import holds_a_secret  # only here: it takes its time

    return holds_a_secret(url)


def _write_whatever_is_said() -> None:
    """Let characters that the output's encoding lacks be written as standard error has them."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def main() -> None:
    """Run the command; one sentence says what is wrong.

    What a user gave exits with 2; a full disk, a folder that is gone, or what else the system does
    not read or write with 3; what else is known to go wrong with 1.
    """
    _write_whatever_is_said()
    try:
        _check_arguments(sys.argv[1:])
        try:
            with TOLD:
                app()
        except OSError as error:
            raise refused(error) from error
        except RuntimeError as error:
            if _NOWHERE not in str(error):
                raise
            raise Unwritten(
                "compiled loops cannot be kept, neither beside Colonnade nor in a cache of this "
                "user's; name a folder for them in NUMBA_CACHE_DIR"
            ) from error
    except ColonnadeError as error:
        err.print("[bold red]error:[/] ", end="")
        say(err, " ".join(str(error).split()))
        given = isinstance(error, (InvalidInput, CheckpointError))
        sys.exit(2 if given else UNWRITTEN if isinstance(error, Unwritten) else 1)
    except KeyboardInterrupt:
        err.print("stopped")
        sys.exit(INTERRUPTED)
