"""What FLARE's processes hear, and of whom, where a kit is prepared."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, MessagePropKey, MessageType
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import STREAM_CHANNEL, StreamHeaderKey

from colonnade.deployment.guard import Guard
from colonnade.deployment.heard import check_guarded, may_ask
from colonnade.errors import ConfigurationError

JOB, OTHER = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "5c0a7d7e-1111-4b2d-9b5d-ab8dfbbd4bed"
OPERATOR = "_admin_1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
ORIGIN, URL = MessageHeaderKey.ORIGIN, MessageHeaderKey.CONN_URL


class Process:
    """A process with a cell, as FLARE begins it: a guard, then a cell, then filters of its own."""

    def __init__(self, name, monkeypatch):
        monkeypatch.setattr(CoreCell, "start", lambda cell: setattr(cell, "began", True))
        Guard(), Guard()
        self.name, self.cell = name, CoreCell.__new__(CoreCell)
        self.cell.my_info = SimpleNamespace(fqcn=name)
        self.cell.log_error = lambda *_, **__: None
        self.cell.logger = SimpleNamespace(debug=lambda *_: None)
        registry = importlib.import_module("nvflare.fuel.f3.cellnet.registry")
        self.cell.in_filter_reg = registry.Registry()
        self.cell.start()
        assert self.cell.began

    def hears(self, origin, channel, topic, by=None, *, streamed=False, to=None, **headers):
        """Whether a message comes through; ``by`` is whose connection it came by."""
        message = self.message = Message(dict(headers.pop("said", {})))
        on = {MessageHeaderKey.CHANNEL: channel, MessageHeaderKey.TOPIC: topic}
        if streamed:
            on = {MessageHeaderKey.CHANNEL: STREAM_CHANNEL, MessageHeaderKey.TOPIC: "sm__DATA"}
            on |= {StreamHeaderKey.CHANNEL: channel, StreamHeaderKey.TOPIC: topic}
        headers = {MessageHeaderKey.MSG_TYPE: MessageType.REQ} | headers
        destination = {MessageHeaderKey.DESTINATION: to or self.name}
        message.add_headers(headers | on | destination | {ORIGIN: origin})
        message.set_prop(MessagePropKey.ENDPOINT, SimpleNamespace(name=by or origin))
        filters = self.cell.in_filter_reg.find(channel, topic)
        assert len(filters) == 1  # however many guards were made
        return not any(
            self.cell._try_cb(message, each.cb, *each.args, **each.kwargs) for each in filters
        )


@pytest.fixture
def process(monkeypatch):
    return lambda name: Process(name, monkeypatch)


JOINS = ("challenge", "register", "heart_beat", "quit", "report_job_failure")
SEALED, KEYS = "colonnade-sealed", "credential_manager"
SAID = [  # what is said in a run: to whom, by whom, on which channel, about what
    *(("server", "bank", "task", topic) for topic in JOINS),
    *(("server", OPERATOR, "task", topic) for topic in JOINS),
    ("server", OPERATOR, "hci_channel", "command"),
    ("server", OPERATOR, "aux_communication", "ObjectStreamer.Request"),
    ("server", OPERATOR, "aux_communication", "ObjectStreamer.Abort"),
    ("server", f"server.{JOB}", "server_parent_listener", "heartbeat"),
    ("server", OPERATOR, "sm__STREAM", "sm__ACK"),
    (f"server.{JOB}", f"bank.{JOB}", "sm__STREAM", "sm__ACK"),
    (f"bank.{JOB}", f"server.{JOB}", "sm__STREAM", "sm__ACK"),
    ("server", f"bank.{JOB}", "cellnet.channel", "bye"),
    (f"server.{JOB}", f"bank.{JOB}", "server_command", "get_task"),
    (f"server.{JOB}", f"bank.{JOB}", "server_command", "submit_update"),
    (f"server.{JOB}", f"bank.{JOB}", "aux_communication", "__sync_runner__"),
    (f"server.{JOB}", f"bank.{JOB}", "aux_communication", "__job_heartbeat__"),
    (f"server.{JOB}", f"bank.{JOB}", "aux_communication", "__task_check__"),
    (f"server.{JOB}", f"bank.{JOB}", SEALED, "to_gatekeeper"),
    (f"server.{JOB}", f"bank.{JOB}", KEYS, "key_exchange"),
    (f"server.{JOB}", "server", "server_command", "abort"),
    ("bank", "server", "admin", "admin"),
    ("bank", f"bank.{JOB}", "admin", "train.notify_job_status"),
    (f"bank.{JOB}", "bank", "client_command", "abort"),
    (f"bank.{JOB}", f"server.{JOB}", "aux_communication", "__end_run__"),
    (f"bank.{JOB}", f"server.{JOB}", "return_only", "server_command:get_task"),
    ("server", OPERATOR, "return_only", "any"),
    (f"server.{JOB}", f"bank.{JOB}", "return_only", "any"),
    (f"bank.{JOB}", f"server.{JOB}", SEALED, "to_role"),
    (f"bank.{JOB}", f"server.{JOB}", KEYS, "key_exchange"),
    (f"bank.{JOB}", f"shop.{JOB}", SEALED, "between"),
    (f"bank.{JOB}", f"shop.{JOB}", KEYS, "key_exchange"),
]
WHATEVER = (SEALED, KEYS, "admin", "return_only")  # channels whose topics somebody else looks at
NO_STREAM = ("sm__STREAM", "cellnet.channel")
NAMES = ("server", "bank", "shop", OPERATOR, f"server.{JOB}", f"bank.{JOB}", f"shop.{JOB}")
STRANGERS = (f"server.{OTHER}", f"clinic.{OTHER}", "clinic", f"shop.{JOB}.x", "bankrupt")


def root(name):
    return name.split(".")[0]


def sort(name):
    """Return of what sort a cell is: all sites are alike."""
    kinds = {"server": "server", root(OPERATOR): "operator"}
    return (kinds.get(root(name), "site"), *name.split(".")[1:])


def asked(own, origin, channel, topic):
    return sort(own), sort(origin), channel, None if channel in WHATEVER else topic


IN_A_RUN = {asked(*said) for said in SAID if root(said[0]) != root(said[1])}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("own", ["server", "bank", f"server.{JOB}", f"bank.{JOB}"])
def test_what_a_run_says_is_heard_and_of_nobody_else(process, own, streamed):
    """Members ended others' jobs, had events fired and asked how connections are."""
    cell = process(own)
    for origin in (*NAMES, *STRANGERS):
        for channel, topic in {
            tuple(on) for _, _, *on in SAID if not streamed or on[0] not in NO_STREAM
        }:
            heard = cell.hears(origin, channel, topic, streamed=streamed)
            assert heard == may_ask(own, origin, channel, topic)
            said = asked(own, origin, channel, topic)
            its_own = root(own) == root(origin)
            assert heard == (its_own or topic == "bye" or said in IN_A_RUN), said


@pytest.mark.parametrize(
    ("own", "origin", "channel", "topic"),
    [
        ("server", "bank", "server_parent_listener", "get_clients"),
        ("server", "bank", "_net_manager", "stop_cell"),
        ("server", "bank", "aux_communication", "fed.event"),
        ("server", "bank", "aux_communication", "ObjectStreamer.Request"),
        ("server", "bank", "hci_channel", "command"),
        ("server", "bank", "cellnet.channel", "bulk"),
        ("server", f"bank.{JOB}", "download_service__", "download"),
        (f"server.{JOB}", f"bank.{JOB}", "server_command", "abort"),
        (f"server.{JOB}", f"bank.{JOB}", "server_command", "get_errors"),
        (f"server.{JOB}", f"bank.{JOB}", "aux_communication", "fed.event"),
        (f"server.{JOB}", f"bank.{OTHER}", "server_command", "get_task"),
        (f"server.{JOB}", "bank", "server_command", "get_task"),
        (f"server.{JOB}", OPERATOR, "server_command", "abort"),
        ("bank", "server", "aux_communication", "fed.event"),
        ("bank", "server", "_net_manager", "process_info"),
        ("bank", f"server.{JOB}", "admin", "train.abort"),
        ("bank", "shop", "admin", "train.abort"),
        ("bank", OPERATOR, "admin", "train.abort"),
        (f"bank.{JOB}", "server", "client_command", "abort"),
        (f"bank.{JOB}", f"server.{JOB}", "client_command", "abort"),
        (f"bank.{JOB}", f"server.{JOB}", "aux_communication", "fed.event"),
        (f"bank.{JOB}", f"server.{OTHER}", "aux_communication", "__end_run__"),
        (f"bank.{JOB}", f"shop.{JOB}", "aux_communication", "__end_run__"),
        (f"bank.{JOB}", f"shop.{OTHER}", SEALED, "between"),
        (f"bank.{JOB}", "shop", SEALED, "between"),
        ("server", "bank", "sm__STREAM", "sm__ACK"),
        (f"server.{JOB}", f"bank.{OTHER}", "sm__STREAM", "sm__ACK"),
        (f"bank.{JOB}", f"shop.{JOB}", "sm__STREAM", "sm__ERR"),
    ],
)
def test_what_is_on_no_list_is_dropped(process, own, origin, channel, topic):
    for streamed in (False, True):
        assert not process(own).hears(origin, channel, topic, streamed=streamed)


@pytest.mark.parametrize("own", ["server", f"server.{JOB}", "bank", f"bank.{JOB}"])
def test_nobody_speaks_in_the_name_of_another(process, own):
    """Each message of the server brought what proved any other to be its own."""
    cell = process(own)
    for claimed in ("server", f"server.{JOB}", "bank", f"bank.{JOB}", "clinic", OPERATOR):
        for to in (own, "somebody-else"):
            assert not cell.hears(claimed, "cellnet.channel", "bye", by="shop", to=to)
            assert not cell.hears(claimed, "cellnet.channel", "bye", by=f"shop.{JOB}", to=to)
    for kind in (MessageType.REPLY, MessageType.RETURN, None, 7):
        heads = {MessageHeaderKey.MSG_TYPE: kind}
        assert not cell.hears("clinic", "admin", "admin", by="shop", **heads)


@pytest.mark.parametrize("own", ["server", "bank", f"bank.{JOB}"])
def test_nobody_takes_leave_but_who_is_connected(process, own):
    """One that was passed on took leave for who had passed it on: a site lost its server."""
    cell = process(own)
    assert cell.hears("shop", "cellnet.channel", "bye")
    assert cell.hears("server", "cellnet.channel", "bye")
    for by in ("server", f"shop.{JOB}"):
        assert not cell.hears("shop", "cellnet.channel", "bye", by=by)


def test_what_the_server_passes_on_is_heard(process):
    assert process(f"bank.{JOB}").hears(f"shop.{JOB}", SEALED, "between", by="server")
    assert process("server").hears(f"shop.{JOB}", "any", "any", by="shop", to=f"bank.{JOB}")
    assert not process("bank").hears("shop", "admin", "train.abort", by="server")


@pytest.mark.parametrize("kind", [MessageType.REQ, MessageType.REPLY])
def test_nobody_is_told_where_to_connect(process, kind):
    """FLARE connected to any address that came with a message, without certificates."""
    heads = {MessageHeaderKey.MSG_TYPE: kind, URL: "tcp://shop:1"}
    for own, origin in ((f"bank.{JOB}", f"shop.{JOB}"), ("server", f"shop.{JOB}")):
        cell = process(own)
        assert cell.hears(origin, "any", "any", by="shop", to="clinic", said=heads)
        assert URL not in cell.message.headers


@pytest.mark.parametrize("wrong", [None, 7, b"server", ["server"], ""])
def test_what_is_no_name_is_dropped(process, wrong):
    cell = process("server")
    assert not cell.hears(wrong, "task", "register", by="shop")
    assert not cell.hears("shop", wrong, "register")
    assert not cell.hears("shop", "task", wrong)


def test_a_kit_without_a_guard_takes_part_in_nothing(process):
    """One that an earlier Colonnade prepared heard everybody."""
    check_guarded(process(f"bank.{JOB}").cell)
    bare = CoreCell.__new__(CoreCell)
    registry = importlib.import_module("nvflare.fuel.f3.cellnet.registry")
    bare.in_filter_reg = registry.Registry()
    with pytest.raises(ConfigurationError, match="prepare-kit` prepare it again"):
        check_guarded(bare)
