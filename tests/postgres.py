"""A PostgreSQL of the tests' own: a cluster in a temporary folder, gone when they are.

A shell makes and starts it, waits for a word or for the end of what it reads, and removes it: so it
ends with the tests, whatever they end of. PostgreSQL refuses to run as root, so as root it is
nobody's.

``python tests/postgres.py`` says whether there is one here, and if not, why.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    import psycopg

OWNER, PASSWORD = "owner", "the 0wner's p@ss/word"  # a superuser

# Of what it prints, "ready" alone is waited for, and all else is told where it fails.
_CARETAKER = """
set -e
exec 2>&1
server=
trap '[ -z "$server" ] || { kill -QUIT $server; wait $server || :; }; cd / && rm -rf "$2"' EXIT
cd "$2"
"$1/initdb" -D data -U "$3" --pwfile=password -A scram-sha-256 -E UTF8 --locale=C.UTF-8 --no-sync
cat settings >> data/postgresql.conf
cat hosts > data/pg_hba.conf
"$1/postgres" -D data > log 2>&1 &
server=$!
until "$1/pg_isready" -q -h "$2" -p "$4"; do
    kill -0 $server || { cat log; exit 1; }
done
echo ready
read -r _ || :
"""

_HOSTS = """
local   all     all                 scram-sha-256
hostssl sealed  all 127.0.0.1/32    scram-sha-256
host    sealed  all 127.0.0.1/32    reject
host    all     all 127.0.0.1/32    scram-sha-256
"""


class NoServer(Exception):
    """No PostgreSQL can be had here; it says why."""


@dataclass(frozen=True)
class Server:
    """A server that is running.

    Parameters
    ----------
    folder
        Holds its socket and ``log``, where each statement stands.
    port
        On 127.0.0.1, with TLS or without; the database ``sealed`` wants TLS.
    """

    folder: Path
    port: int

    def url(
        self,
        database: str = "crm",
        user: str = OWNER,
        password: str = PASSWORD,
        port: int | None = None,
        **options: str,
    ) -> str:
        """Return a URL that goes by 127.0.0.1."""
        place = f"{quote(user)}:{quote(password, safe='')}@127.0.0.1:{port or self.port}"
        return f"postgresql://{place}/{database}" + (f"?{urlencode(options)}" if options else "")

    def connect(self, database: str = "crm", user: str = OWNER, password: str = PASSWORD) -> Any:
        """Return a connection that commits each statement."""
        import psycopg

        return psycopg.connect(self.url(database, user, password), autocommit=True)

    def run(self, *statements: str, database: str = "crm") -> None:
        """Run statements as the owner, one by one."""
        connection: psycopg.Connection[Any]
        with self.connect(database) as connection:
            for statement in statements:
                connection.execute(statement)

    def log(self) -> str:
        """Return what the server has told so far."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")


@contextmanager
def running() -> Iterator[Server]:
    """Run a server of one's own.

    Raises
    ------
    NoServer
        If PostgreSQL is not installed, or does not start here.
    """
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        port = _free_port()
        _write(folder, port)
        caretaker = subprocess.Popen(
            ["sh", "-c", _CARETAKER, "sh", str(programs), str(folder), OWNER, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C is for the tests
            **_whose(folder),
        )
        with caretaker:  # closes its input, and waits for it
            assert caretaker.stdout is not None
            told = []
            for line in caretaker.stdout:
                if line == "ready\n":
                    break
                told.append(line.strip())
            else:
                raise NoServer(f"PostgreSQL does not start: {' '.join(filter(None, told[-3:]))}")
            try:
                yield Server(folder, port)
            finally:
                caretaker.communicate("stop\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    """Return the folder of initdb and postgres: that on the path, or Debian's newest."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else []
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    found += sorted(debian, key=lambda path: float(path.parent.name), reverse=True)
    for folder in found:
        if all((folder / name).exists() for name in ("initdb", "pg_ctl", "postgres")):
            return folder
    raise NoServer("PostgreSQL is not installed: there is no initdb")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _write(folder: Path, port: int) -> None:
    """Write what a cluster is made with: its settings, who may come, and a certificate."""
    settings = {
        "port": port,
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": folder,
        "log_statement": "all",
        "max_connections": 20,
        "shared_buffers": "16MB",
        **dict.fromkeys(("fsync", "full_page_writes", "autovacuum", "synchronous_commit"), "off"),
    }
    if _certify(folder):
        settings |= {"ssl": "on", "ssl_cert_file": folder / "cert", "ssl_key_file": folder / "key"}
    lines = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
    (folder / "settings").write_text(lines, encoding="utf-8")
    (folder / "hosts").write_text(_HOSTS, encoding="utf-8")
    (folder / "password").write_text(PASSWORD, encoding="utf-8")


def _certify(folder: Path) -> bool:
    """Write a key, and a certificate of its own; return whether they could be made."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        return False  # where this is run to see whether PostgreSQL starts, before all is installed
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime.datetime(2020, 1, 1))
        .not_valid_after(datetime.datetime(2120, 1, 1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    (folder / "key").chmod(0o600)  # or PostgreSQL does not take it
    (folder / "cert").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return True


def _whose(folder: Path) -> dict[str, Any]:
    """Return as whom to run, and give the folder to it: nobody where we are root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    for path in (folder, *folder.iterdir()):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


if __name__ == "__main__":
    try:
        with running():
            print("PostgreSQL runs here")
    except NoServer as error:
        print(f"tests with PostgreSQL will be skipped: {error}")
        sys.exit(1)
