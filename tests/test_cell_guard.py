"""What comes through to FLARE's cells where a kit is prepared."""

from __future__ import annotations

import struct
import threading
import uuid
from types import SimpleNamespace

import msgpack
import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.f3.cellnet import core_cell
from nvflare.fuel.f3.cellnet.core_cell import CertificateExchanger, CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, MessageType, ReturnCode
from nvflare.fuel.f3.cellnet.identity import CellIdentityResolver
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import STREAM_CHANNEL, StreamDataType, StreamHeaderKey
from nvflare.fuel.utils.fobs import lobs
from nvflare.private import stream_runner
from nvflare.private.aux_runner import AuxRunner
from nvflare.private.defs import CellMessageHeaderKeys

from colonnade.deployment import cell_guard, job_numbers
from colonnade.deployment.cell_guard import check_guarded, let_in
from colonnade.deployment.channels import INTRODUCTIONS
from colonnade.deployment.guard import Guard
from colonnade.deployment.held_up import Line
from colonnade.errors import ConfigurationError
from toy_guarded import put_back

JOB, OTHER = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "5c0a7d7e-1111-4b2d-9b5d-ab8dfbbd4bed"
OPERATOR = "_admin_1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
ORIGIN, URL, KIND = MessageHeaderKey.ORIGIN, MessageHeaderKey.CONN_URL, MessageHeaderKey.MSG_TYPE
SEALED = "colonnade-sealed"
ENCRYPTED = (MessageHeaderKey.SECURE, MessageHeaderKey.ENCRYPTED)


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    put_back(monkeypatch)


class Process:
    """A process with a cell, as FLARE begins it: a guard, then a cell."""

    def __init__(self, name, monkeypatch):
        self.came = []
        monkeypatch.setattr(
            CoreCell, "process_message", lambda *given, **_: self.came.append(given[-1])
        )
        Guard(), Guard()
        let_in(["bank", "shop"])
        self.name, self.cell = name, CoreCell.__new__(CoreCell)
        self.cell.my_info, self.cell.waiters = SimpleNamespace(fqcn=name), {}

    def hears(
        self,
        origin,
        channel,
        topic,
        by=None,
        *,
        streamed=False,
        to=None,
        cn=None,
        said=None,
        size=4,
    ):
        """Whether a message comes through; ``by`` is whose connection it came by."""
        on = {MessageHeaderKey.CHANNEL: channel, MessageHeaderKey.TOPIC: topic}
        if streamed:
            on = {MessageHeaderKey.CHANNEL: STREAM_CHANNEL, MessageHeaderKey.TOPIC: "sm__DATA"}
            on |= {StreamHeaderKey.CHANNEL: channel, StreamHeaderKey.TOPIC: topic}
            on |= {StreamHeaderKey.SEQUENCE: 0, StreamHeaderKey.SIZE: size}
            on |= {StreamHeaderKey.DATA_TYPE: StreamDataType.FINAL, StreamHeaderKey.STREAM_ID: 1}
        destination = {MessageHeaderKey.DESTINATION: to or self.name}
        usual = {KIND: MessageType.REQ, ORIGIN: origin} | on | destination
        headers = usual | (said or {})
        has_none = headers.get(StreamHeaderKey.SIZE) == 0  # as what FLARE answers without a body
        self.message = Message(headers, None if has_none else b"a" * size)
        connection = SimpleNamespace(get_conn_properties=lambda: {"peer_cn": cn})
        self.came.clear()
        self.cell.process_message(Endpoint(by or origin), connection, 1, self.message)
        return self.came == [self.message]


@pytest.fixture
def process(monkeypatch):
    return lambda name: Process(name, monkeypatch)


@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_on_a_list_is_heard(process, streamed):
    holder, server = process(f"server.{JOB}"), None
    assert holder.hears(f"bank.{JOB}", "server_command", "get_task", streamed=streamed)
    assert not holder.hears(f"bank.{JOB}", "server_command", "abort", streamed=streamed)
    assert not holder.hears(f"clinic.{JOB}", "server_command", "get_task", streamed=streamed)
    server = process("server")
    said = {CellMessageHeaderKeys.CLIENT_NAME: "bank"}
    assert server.hears("bank", "task", "heart_beat", cn="bank", said=said, streamed=streamed)
    assert not server.hears("bank", "hci_channel", "command", streamed=streamed)


def test_no_site_is_heard_before_it_is_known_who_takes_part(process):
    holder = process(f"server.{JOB}")
    let_in([])
    assert not holder.hears(f"bank.{JOB}", "server_command", "get_task")


@pytest.mark.parametrize("own", ["server", f"server.{JOB}", "bank", f"bank.{JOB}"])
def test_nobody_speaks_in_the_name_of_another(process, own):
    """Each message of the server brought what proved any other to be its own."""
    cell = process(own)
    for claimed in ("server", f"server.{JOB}", "bank", f"bank.{JOB}", "clinic", OPERATOR):
        for to in (own, "somebody-else"):
            for by in ("shop", f"shop.{JOB}"):
                assert not cell.hears(claimed, "cellnet.channel", "bye", by=by, to=to)
                assert not cell.hears(claimed, SEALED, "between", by=by, to=to)


@pytest.mark.parametrize("own", ["bank", f"bank.{JOB}"])
def test_the_server_speaks_in_nobodys_name_to_himself(process, own):
    """By a site's own name all came through, as if a process of its own had said it."""
    for claimed in ("bank", f"bank.{JOB}", "bank.x"):
        for channel, topic in (("_net_manager", "conns"), ("client_command", "show_stats")):
            assert not process(own).hears(claimed, channel, topic, by="server")
            assert process(own).hears(claimed, channel, topic, by="bank")


HOP = [f"bank.{JOB}", 1.7e9]


@pytest.mark.parametrize(
    ("way", "stays"),
    [
        ([HOP], True),
        ([(HOP[0], 1700000000), HOP, ["server", 1.7e9]], True),
        ([], False),
        ([["r" * 60_000, 1.7e9]], False),
        ([HOP] * 100, False),
        ([HOP, ["bank"]], False),
        ([[5, 1.7e9]], False),
        ([["bank", "yesterday"]], False),
        ([["bank", float("nan")]], False),
        ([["bank", None]], False),
        ([None], False),
        ("bank", False),
        ({"bank": 1.7e9}, False),
    ],
)
@pytest.mark.parametrize("to", [None, f"shop.{JOB}"])
def test_a_way_that_is_none_is_taken_off_before_flare_counts_by_it(process, way, stays, to):
    holder = process(f"server.{JOB}")
    said = {MessageHeaderKey.ROUTE: way}
    assert holder.hears(f"bank.{JOB}", "server_command", "get_task", to=to, said=said)
    assert (MessageHeaderKey.ROUTE in holder.message.headers) is stays


def test_a_stream_comes_whole_or_not_at_all(process):
    """Of one that had begun, the rest was waited for when all was over, with room for it all."""
    holder = process(f"server.{JOB}")
    for said in (
        {StreamHeaderKey.DATA_TYPE: StreamDataType.CHUNK},
        {StreamHeaderKey.SEQUENCE: 1},
        {StreamHeaderKey.SIZE: 2**31},
        {StreamHeaderKey.SIZE: None},
        {StreamHeaderKey.SIZE: 4.0},
        {StreamHeaderKey.SEQUENCE: False},
        {StreamHeaderKey.STREAM_ID: [1]},
        {StreamHeaderKey.ERROR_MSG: "gone"},
    ):
        on = (f"bank.{JOB}", "aux_communication", "__sync_runner__")
        for by in ("server", f"bank.{JOB}"):  # the server's own process passes it on
            assert not holder.hears(*on, by, streamed=True, said=said)
            assert holder.hears(*on, by, streamed=True)
    CellIdentityResolver("server").require_match(OPERATOR, "ann@here.example", "connection")
    said = {StreamHeaderKey.DATA_TYPE: StreamDataType.CHUNK}
    assert process("server").hears(OPERATOR, "hci_channel", "command", streamed=True, said=said)


def test_an_operator_is_answered_in_pieces(process):
    """What the server says to an operator may be long, and of nobody else."""
    pieces = {StreamHeaderKey.SIZE: 900, StreamHeaderKey.DATA_TYPE: StreamDataType.CHUNK}
    operator = process(OPERATOR)
    for origin, is_heard in (("server", True), ("bank", False)):
        heard = operator.hears(origin, "return_only", "any", streamed=True, said=pieces)
        assert heard == is_heard
    empty = {StreamHeaderKey.SIZE: 0}
    assert operator.hears("server", "return_only", "any", streamed=True, said=empty)
    assert not operator.hears("server", "admin", "train.abort")
    assert not process("bank").hears("server", "admin", "x", streamed=True, said=pieces)


def test_what_the_server_passes_on_is_heard(process):
    assert process(f"bank.{JOB}").hears(f"shop.{JOB}", SEALED, "between", by="server")
    assert process("server").hears(f"shop.{JOB}", "any", "any", by="shop", to=f"bank.{JOB}")
    assert not process("bank").hears("shop", "admin", "train.abort", by="server")


def test_who_joins_is_called_as_its_certificate_is(process):
    """With what the server had signed for a longer name, one took the place of another."""
    server = process("server")
    for topic in ("register", "heart_beat", "quit", "report_job_failure"):
        for name in ("bank", "ban", "server", "server_job"):
            said = {CellMessageHeaderKeys.CLIENT_NAME: name}
            assert server.hears("bank", "task", topic, cn="bank", said=said) == (name == "bank")
            passed = said | {MessageHeaderKey.SERVER_TRANSIT_REQUIRED: True}
            assert not server.hears("bank", "task", topic, cn="bank", said=passed)
        assert server.hears("bank", "task", topic) == (topic == "register")


def test_an_operator_is_no_site(process):
    """By one message of its own an operator was one of the clients that are there."""
    server, cn = process("server"), "ann@here"
    name = {CellMessageHeaderKeys.CLIENT_NAME: cn}
    enters = name | {CellMessageHeaderKeys.CLIENT_TYPE: "admin"}
    for origin in (OPERATOR, cn):
        assert server.hears(origin, "task", "challenge", cn=cn, said=name)
        assert server.hears(origin, "task", "register", cn=cn, said=enters)
        assert not server.hears(origin, "task", "heart_beat", cn=cn, said=enters)
        for sort in ("regular", "relay", None, 7):
            said = name | {CellMessageHeaderKeys.CLIENT_TYPE: sort}
            assert not server.hears(origin, "task", "register", cn=cn, said=said)
    site = {CellMessageHeaderKeys.CLIENT_NAME: "bank", CellMessageHeaderKeys.CLIENT_TYPE: "admin"}
    assert not server.hears("bank", "task", "register", cn="bank", said=site)


@pytest.mark.parametrize("said", ["secure", "encrypted"])
def test_what_need_not_be_encrypted_is_not(process, said):
    """FLARE had a thread wait an hour for the certificate; a hundred such, and nobody was heard."""
    encrypted = {getattr(MessageHeaderKey, said.upper()): True}
    name = {CellMessageHeaderKeys.CLIENT_NAME: "bank"}
    server, holder, party = process("server"), process(f"server.{JOB}"), process(f"bank.{JOB}")
    assert not server.hears("bank", "task", "challenge", cn="bank", said=name | encrypted)
    assert not holder.hears(f"bank.{JOB}", "server_command", "get_task", said=encrypted)
    for streamed in (False, True):
        on = (f"shop.{JOB}", SEALED, "between")
        assert not party.hears(*on, by="server", said=encrypted, streamed=streamed)
        assert party.hears(*on, by="server", streamed=streamed)
    meets = (f"shop.{JOB}", INTRODUCTIONS, "between")
    assert party.hears(*meets, by="server", said=encrypted)
    assert not party.hears(f"clinic.{JOB}", *meets[1:], by="server", said=encrypted)
    party.cell.waiters["7"] = SimpleNamespace(targets=[f"shop.{JOB}"])
    answers = {KIND: MessageType.REPLY, MessageHeaderKey.REQ_ID: "7"}
    assert party.hears(f"shop.{JOB}", "any", "any", by="server", said=answers)
    assert not party.hears(f"shop.{JOB}", "any", "any", by="server", said=answers | encrypted)


def test_what_is_passed_on_is_encrypted_before_or_not_at_all(process):
    """The server encrypted it itself, and waited for the certificate of who was to have it."""
    server, on = process("server"), (f"shop.{JOB}", SEALED, "between")
    passed = {"by": "shop", "to": f"bank.{JOB}"}
    secure, both = (dict.fromkeys(said, True) for said in (ENCRYPTED[:1], ENCRYPTED))
    for streamed in (False, True):
        assert server.hears(*on, **passed, said=both, streamed=streamed)
        assert server.hears(*on, **passed, streamed=streamed)
        assert not server.hears(*on, **passed, said=secure, streamed=streamed)
    for nowhere in (None, 7, [f"bank.{JOB}"], b"bank"):
        assert not server.hears(*on, by="shop", said={MessageHeaderKey.DESTINATION: nowhere})


def test_what_is_passed_on_takes_room_that_is_its_senders(process):
    """Who sends much to one who takes nothing has it lost, and nobody else's with it."""
    server, written = process("server"), []
    takes, came = threading.Event(), threading.Semaphore(0)

    def write(frame):
        takes.wait()
        written.append(frame)
        came.release()

    line = Line("to the bank", write, server)

    def pass_on(by, body):
        heads = {KIND: MessageType.REQ, ORIGIN: by, MessageHeaderKey.DESTINATION: "bank.x"}
        heard(server.cell, Endpoint(by), None, 1, Message(heads, body))

    heard = cell_guard._guarded(lambda *given: line.put(given[-1].payload))
    for _ in range(1000):
        pass_on("shop", b"junk")
    pass_on("clinic", b"word")
    takes.set()
    for _ in range(257):  # one may be under way before the others wait
        assert came.acquire(timeout=60)
    assert written.index(b"word") <= 2


@pytest.mark.parametrize("header", ["CHANNEL", "TOPIC"])
@pytest.mark.parametrize("headers", [MessageHeaderKey, StreamHeaderKey])
def test_no_channel_or_topic_is_kept_that_is_a_book(process, headers, header):
    """FLARE counts messages by them, and says in its log where one goes to nobody."""
    for to in (None, f"bank.{JOB}"):
        for length in (200, 201):
            said = {getattr(headers, header): "x" * length}
            server = process("server")
            heard = server.hears("server.x", "any", "any", by="server", to=to, said=said)
            assert heard == (length == 200)


def test_no_thread_waits_for_as_long_as_somebody_says(process):
    waits = {StreamHeaderKey.RETRY_TIMEOUT: 3600.0, StreamHeaderKey.RETRY_WAIT: 3600.0}
    holder = process(f"server.{JOB}")
    on = (f"bank.{JOB}", "aux_communication", "__sync_runner__")
    assert holder.hears(*on, streamed=True, said=waits)
    assert not {*waits} & holder.message.headers.keys()


def test_no_thread_waits_for_what_came_whole_to_come_again(process):
    """For each such piece a thread waited 65 s: 85 a second, and a process could begin none."""
    says = {StreamHeaderKey.RELIABLE: True}
    holder = process(f"server.{JOB}")
    for by in ("server", f"bank.{JOB}"):
        on = (f"bank.{JOB}", "server_command", "get_task")
        assert holder.hears(*on, by, streamed=True, said=says)
        assert StreamHeaderKey.RELIABLE not in holder.message.headers
    party = process(f"bank.{JOB}")
    assert party.hears(f"server.{JOB}", "return_only", "any", streamed=True, said=says)
    assert StreamHeaderKey.RELIABLE not in party.message.headers
    passes_on = process("server")
    on = (f"shop.{JOB}", "any", "any")
    assert passes_on.hears(*on, by="shop", to=f"bank.{JOB}", streamed=True, said=says)
    assert StreamHeaderKey.RELIABLE in passes_on.message.headers
    assert process(OPERATOR).hears("server", "return_only", "any", streamed=True, said=says)


FOBS = (
    {MessageHeaderKey.PAYLOAD_ENCODING: "fobs"},
    {MessageHeaderKey.PAYLOAD_ENCODING: "bytes", StreamHeaderKey.PAYLOAD_ENCODING: "fobs"},
)


@pytest.mark.parametrize("encoding", FOBS)
def test_nothing_is_made_of_more_bytes_than_anybody_says(process, encoding):
    """A heartbeat of 100 MB had the server make 4.7 GB of it, and do nothing else for 41 s."""
    name = encoding | {CellMessageHeaderKeys.CLIENT_NAME: "bank"}
    for size, is_heard in ((2**18, True), (2**18 + 1, False)):
        beats = {"cn": "bank", "said": name, "size": size}
        assert process("server").hears("bank", "task", "heart_beat", **beats) == is_heard
        on, said = ("server_command", "submit_update"), {"said": encoding, "size": size}
        for by in ("server", f"bank.{JOB}"):
            assert process(f"server.{JOB}").hears(f"bank.{JOB}", *on, by, **said) == is_heard
        party = process(f"bank.{JOB}")
        assert party.hears(f"shop.{JOB}", SEALED, "between", by="server", **said) == is_heard
        assert process("server").hears("shop", "any", "any", to=f"bank.{JOB}", **said)  # passed on
        assert process(f"server.{JOB}").hears("server", "any", "any", **said)  # our own
    plain = {MessageHeaderKey.PAYLOAD_ENCODING: "bytes"}
    assert process(f"bank.{JOB}").hears(
        f"shop.{JOB}", SEALED, "between", by="server", said=plain, size=2**20
    )


def test_a_job_is_brought_to_a_site_as_large_as_jobs_may_be(process):
    said = {"said": FOBS[0], "size": job_numbers.LARGEST}
    assert process("bank").hears("server", "admin", "admin", **said)
    assert not process(f"bank.{JOB}").hears(f"server.{JOB}", "return_only", "any", **said)
    too_long = said | {"size": job_numbers.LARGEST + 2**19}
    assert not process("bank").hears("server", "admin", "admin", **too_long)


def test_nobody_fills_a_log(process, caplog):
    server = process("server")
    for _ in range(1025):
        assert not server.hears("shop", "hci_channel", "command")
    assert len(caplog.records) == 32 + 5
    assert "by 'shop', 1024 so far: 'command' on 'hci_channel', asked" in caplog.text
    assert not server.hears("clinic", "hci_channel", "command")
    assert "by 'clinic', 1 so far" in caplog.text


def test_a_certificate_is_waited_for_as_long_as_it_may_take(process):
    asked = []

    def send_request(channel, topic, target, request, timeout):
        asked.append((channel, topic, target, request.payload, timeout))
        return make_reply(ReturnCode.TIMEOUT) if target == "shop" else Message({}, {"is": target})

    exchanger = CertificateExchanger(
        SimpleNamespace(send_request=send_request, register_request_cb=lambda *_: None),
        SimpleNamespace(create_request=lambda: "mine", process_response=lambda m: m.payload["is"]),
    )
    process("bank")
    assert exchanger.exchange_certificate("clinic") == "clinic"
    with pytest.raises(RuntimeError, match="no certificate came of 'shop'"):
        exchanger.exchange_certificate("shop")
    on = ("credential_manager", "key_exchange")
    assert asked == [(*on, "clinic", "mine", 10), (*on, "shop", "mine", 10)]


def test_a_certificate_that_is_none_costs_nobody_the_connection(process):
    """One message had a site's own process cut off: others' come by the same connection."""
    failed = make_reply(ReturnCode.PROCESS_EXCEPTION)
    assert core_cell._is_failed_cert_exchange("credential_manager", "key_exchange", failed)
    process("bank")
    assert not core_cell._is_failed_cert_exchange("credential_manager", "key_exchange", failed)


@pytest.mark.parametrize("own", ["server", "bank", f"bank.{JOB}"])
def test_nobody_takes_leave_but_who_is_connected(process, own):
    """One that was passed on took leave for who had passed it on: a site lost its server."""
    cell = process(own)
    assert cell.hears("shop", "cellnet.channel", "bye")
    assert cell.hears("server", "cellnet.channel", "bye")
    for by in ("server", f"shop.{JOB}"):
        assert not cell.hears("shop", "cellnet.channel", "bye", by=by)


@pytest.mark.parametrize("kind", [MessageType.REQ, MessageType.REPLY])
def test_nobody_is_told_where_to_connect(process, kind):
    """FLARE connected to any address that came with a message, without certificates."""
    heads = {KIND: kind, URL: "tcp://shop:1"}
    for own in ("server", f"bank.{JOB}"):
        cell = process(own)
        assert cell.hears(f"shop.{JOB}", SEALED, "between", by="shop", to="clinic", said=heads)
        assert URL not in cell.message.headers


@pytest.mark.parametrize("kind", [MessageType.REPLY, MessageType.RETURN])
def test_an_answer_is_heard_where_it_is_awaited(process, kind):
    """FLARE decoded it before it looked whether anybody waits, and wrote what stood in it."""
    cell = process("bank")
    cell.cell.waiters["7"] = SimpleNamespace(targets=["server"])
    original = {MessageHeaderKey.ORIGINAL_HEADERS: {MessageHeaderKey.DESTINATION: "server"}}
    for numbers in ("7", ["7"]):
        said = {KIND: kind, MessageHeaderKey.REQ_ID: numbers} | original
        assert cell.hears("server", "task", "heart_beat", said=said)
        assert not cell.hears("shop", "task", "heart_beat", by="server", said=said)
    for numbers in ("8", ["7", "8"], [], None, 7, [[]], {}):
        said = {KIND: kind, MessageHeaderKey.REQ_ID: numbers} | original
        assert not cell.hears("server", "task", "heart_beat", said=said)
    for code in (["ok"], 7, {}, "x" * 201):  # FLARE counted by it, in the thread that had asked
        said = {KIND: kind, MessageHeaderKey.REQ_ID: "7", MessageHeaderKey.RETURN_CODE: code}
        assert not cell.hears("server", "task", "heart_beat", said=said | original)
    if kind == MessageType.RETURN:
        for back in (None, 7, {}, {MessageHeaderKey.DESTINATION: "clinic"}):
            said = {MessageHeaderKey.ORIGINAL_HEADERS: back, MessageHeaderKey.REQ_ID: "7"}
            assert not cell.hears("server", "task", "heart_beat", said=said | {KIND: kind})


@pytest.mark.parametrize("wrong", [None, 7, b"server", ["server"], "", [], {}])
def test_what_is_no_name_is_dropped(process, wrong):
    cell = process("server")
    assert not cell.hears(wrong, "task", "register", by="shop")
    assert not cell.hears("shop", wrong, "register")
    assert not cell.hears("shop", "task", wrong)


def test_operators_are_who_have_the_certificate_of_one(process):
    """A site's certificate logged in as an operator, and took the place of one."""
    process("server")
    meets = CellIdentityResolver("server").require_match
    other = OPERATOR.replace("1b9d", "2b9d")
    for name in (OPERATOR, other):
        with pytest.raises(ValueError, match="is no operator's: 'shop'"):
            meets(name, "shop", "connection 1")
    meets(OPERATOR, "ann@here.example", "connection 2")
    meets(OPERATOR, "ann@here.example", "connection 3")
    with pytest.raises(ValueError, match="takes the place of another operator"):
        meets(OPERATOR, "bob@here.example", "connection 4")
    meets(other, "bob@here.example", "connection 5")
    meets("shop", "shop", "connection 6")
    with pytest.raises(ValueError, match="requires identity"):
        meets("bank", "shop", "connection 7")


def test_operators_who_were_there_long_ago_are_forgotten(process, monkeypatch):
    process("server")
    monkeypatch.setattr(cell_guard, "_MOST", 5)
    for _ in range(9):
        meets = CellIdentityResolver("server").require_match
        meets(f"_admin_{uuid.uuid4()}", "ann@here.example", "connection")
    assert len(cell_guard._operators) == 5


@pytest.mark.parametrize("dot", [0, 1])
@pytest.mark.parametrize("marker", [lobs.MARKER_DATUM_FILE, lobs.MARKER_DATUM_BLOB])
def test_no_file_stands_in_a_message_and_nothing_is_to_be_downloaded(
    process, tmp_path, monkeypatch, marker, dot
):
    process("bank")
    monkeypatch.setenv("NVFLARE_DATUM_DIR", str(tmp_path / "datums"))
    main = msgpack.packb({"k": 1})
    section = struct.pack(">BBQ", marker, dot, 16 + 3) + uuid.uuid4().bytes + b"abc"
    body = struct.pack(">BBQ", lobs.MARKER_MAIN, 0, len(main)) + main + section
    if (marker, dot) == (lobs.MARKER_DATUM_BLOB, 0):
        assert lobs.load_from_bytes(body) == {"k": 1}
    else:
        with pytest.raises(ValueError, match="a message of Colonnade's"):
            lobs.load_from_bytes(body)
    assert not (tmp_path / "datums").exists()


def test_who_sends_a_first_piece_twice_is_no_end_of_all(process):
    """FLARE waited for itself, and no operator was heard any more."""
    process("server")
    streamer = stream_runner.ObjectStreamer(AuxRunner(SimpleNamespace()))
    done = SimpleNamespace(stream_done=lambda *_: None)
    streamer.tx_table["x"] = done
    ended = threading.Thread(
        target=lambda: [streamer.tx_lock.acquire(), streamer._end_tx("x", "rc", None)], daemon=True
    )
    ended.start()
    ended.join(30)
    assert not ended.is_alive()
    streamer.shutdown()


def test_a_kit_without_a_guard_takes_part_in_nothing():
    """One that an earlier Colonnade prepared heard everybody."""
    with pytest.raises(ConfigurationError, match="prepare-kit` prepare it again"):
        check_guarded()
    Guard()
    check_guarded()
