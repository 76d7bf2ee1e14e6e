"""A federation of real processes and certificates: a worker is killed, and the run goes on."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare")

import polars as pl
import psutil
import yaml
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import Encoding, MessageHeaderKey, MessageType, ReturnCode
from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.message import Message

from colonnade import cli
from colonnade.alone import alone_in
from colonnade.config import parse_config
from colonnade.config.registry import GROUPS, names
from colonnade.deployment.cells import CellPost
from colonnade.deployment.flare import Preside
from colonnade.deployment.folders import write_job, write_site
from colonnade.deployment.local import Local, _end_all_in, local_federation
from colonnade.deployment.proving import Place, _epochs_in, _lengths, _reasons, prove
from colonnade.drivers.couriered import GATEKEEPER
from colonnade.errors import ConfigurationError, DataError, RoleFailed, Unwritten
from colonnade.run_read import load_run
from test_deployment import prepared, same_as
from toy_sites import configuration, tables

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from sites.methods import METHODS

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.usefixtures("no_pictures"),
]


def worker(site, number):
    """Return the process in which a site plays its role in a job."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
        except (OSError, ValueError):
            continue
        if number in words and f"uid={site}" in words and "-m" in words:
            return int(process.name)
    raise AssertionError(f"{site} has no process of the job {number}")


def marked(folder, markers):
    """Return which files of a folder have one of these texts in them."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in files if any(m in path.read_bytes() for m in markers)]


def test_a_run_whose_worker_is_killed_goes_on_to_the_simulators_bits(tmp_path, monkeypatch):
    settings = {"epochs": 120, "checkpoint_every": 20, "evaluate_every": 200}
    config, job, sites = prepared(tmp_path, parties=["bank"], **settings)  # each is a process
    write_job(job, tmp_path / "job")
    monkeypatch.chdir(tmp_path)
    federation = Path("federation")
    with local_federation(federation, job.everybody) as local:
        for name in job.everybody:
            own = {"alignment": tmp_path / name / "aligned", "runs": tmp_path / name / "runs"}
            write_site(config, name, local.site(name), folder=tmp_path, **own)
        local.start(job.everybody)
        number = local.submit(tmp_path / "job")
        checkpoints = sites["bank"].runs / "first" / "checkpoint"
        deadline = time.monotonic() + 120
        while not list(checkpoints.glob("round-*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(worker("bank", number), signal.SIGKILL)
        assert not local.wait(number)
        assert local.wait(local.submit(tmp_path / "job"))
    expected = same_as(config, sites)
    run = load_run(sites["insurer"].runs / "first")
    assert run.ledger.without_time() == expected.ledger.without_time()
    assert run.summary["driver"] == "flare"
    # No log, job or file of the engine's holds an id, a label or a row of a table.
    assert marked(federation, [b"person-", b"bought"]) == []


def test_files_that_are_missing_are_found_before_anything_is_started(tmp_path):
    config, _, _ = prepared(tmp_path)
    (tmp_path / "shop.csv").unlink()
    (tmp_path / "labels.csv").unlink()
    with pytest.raises(DataError, match=r"no file .*shop\.csv \(shop\), and none .*labels\.csv"):
        prove(config, "first", Place(tmp_path / "deployed"), print)
    new = {name: f"{tmp_path}/{name}-new.csv" for name in ("bank", "shop", "insurer")}
    config, _, _ = prepared(tmp_path)
    with pytest.raises(DataError, match=r"bank-new\.csv \(bank, new people\)"):
        prove(config, "first", Place(tmp_path / "deployed"), print, new=new)
    assert not (tmp_path / "deployed").exists()


def test_a_table_that_cannot_be_used_is_found_before_anything_is_started(tmp_path):
    config, _, _ = prepared(tmp_path)
    shop = pl.read_csv(tmp_path / "shop.csv")
    shop.with_columns(since=pl.date(2024, 1, 31)).write_csv(tmp_path / "shop.csv")
    with pytest.raises(DataError, match=r"'shop': column 'since' holds Date; .* name it in dates"):
        prove(config, "first", Place(tmp_path / "deployed"), print)
    assert not (tmp_path / "deployed").exists()


@pytest.mark.parametrize("there", ["a link to nothing", "a folder"])
def test_a_policy_that_cannot_be_read_is_not_none(tmp_path, there):
    config, _, _ = prepared(tmp_path)
    place, said = Place(tmp_path / "deployed"), []
    policy = place.of("shop") / "policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.mkdir() if there == "a folder" else policy.symlink_to("nothing.yaml")
    with pytest.raises(ConfigurationError, match=r"shop/policy\.yaml"):
        prove(config, "first", place, said.append)
    assert said == []


def test_a_loss_that_no_defence_covers_is_refused_before_anything_is_started(tmp_path):
    tables(tmp_path)
    labels = pl.read_csv(tmp_path / "labels.csv")
    labels.with_columns(y=pl.col("f") * 3).write_csv(tmp_path / "labels.csv")
    defence = {"defence": "gaussian", "bound": 1.0, "multiplier": 1.0}
    method = {"exchange": {"exchange": "split", "defence": defence}}
    config = parse_config(configuration(tmp_path, method))
    said = []
    with pytest.raises(ConfigurationError, match=r"know mean and scale of all training labels"):
        prove(config, "first", Place(tmp_path / "deployed"), said.append)
    assert said == []
    assert not (tmp_path / "deployed").exists()


@pytest.mark.parametrize(
    ("method", "parties", "training", "said"),
    [
        ("pbm_vfl", ("bank",), {}, "needs two parties or more"),
        ("fedvs", ("bank", "shop"), {}, "model: polynomial"),
        ("svfl", ("bank", "shop"), {"early_stopping": {"patience": 2}}, "by validation rows"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_started(
    tmp_path, method, parties, training, said
):
    tables(tmp_path)
    wanted = configuration(tmp_path, method, **training)
    wanted["data"]["parties"] = {name: {"source": f"{name}.csv"} for name in parties}
    wanted["data"]["split"] = {"validation": 0.0}
    with pytest.raises(ConfigurationError, match=said):
        prove(parse_config(wanted), "first", Place(tmp_path / "deployed"), print)
    assert not (tmp_path / "deployed").exists()


def test_a_place_where_another_is_at_work_is_left_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("colonnade.alone._DYING", 0.0)
    config, _, _ = prepared(tmp_path)
    place = Place(tmp_path / "deployed")
    used = place.folder / "federation" / "flare" / "server.key"
    used.parent.mkdir(parents=True)
    used.touch()
    with (
        alone_in(place.folder),
        pytest.raises(ConfigurationError, match=r"another run is at work in .*deployed; wait"),
    ):
        prove(config, "second", place, print)
    assert [path for path in place.folder.rglob("*") if path.is_file()] == [used]


def test_a_place_in_which_flare_can_start_no_process_is_refused_before_anything(
    tmp_path, monkeypatch
):
    config, _, _ = prepared(tmp_path)
    told = []
    with pytest.raises(ConfigurationError, match=r"/dep dir' has white space, .* choose a path"):
        prove(config, "first", Place(tmp_path / "dep dir"), told.append)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "my env" / "bin" / "python"))
    with pytest.raises(ConfigurationError, match=r"/my env/bin/python' has white space"):
        prove(config, "first", Place(tmp_path / "deployed"), told.append)
    assert told == []
    assert not (tmp_path / "dep dir").exists()


def test_what_a_process_said_that_died_before_it_could_log_is_the_reason(tmp_path):
    line = "runner_process.py: error: unrecognized arguments: dir/federation\n"
    logged = "2026-01-31 10:00:00,000 - Engine - INFO - error: the job 7 has ended\n"
    (tmp_path / "localhost" / "7").mkdir(parents=True)
    (tmp_path / "localhost" / "7" / "error_log.txt").touch()
    (tmp_path / "localhost.log").write_text(f"usage: runner_process.py\n{line}{logged}")
    (tmp_path / "bank.log").write_text(logged)
    assert _reasons(tmp_path, "7", {}) == f" (localhost: {line.strip()})"
    (tmp_path / "localhost.log").write_text(logged)
    assert _reasons(tmp_path, "7", {}) == ""


def test_what_a_process_of_an_earlier_job_said_is_no_reason(tmp_path):
    log = tmp_path / "bank.log"
    log.write_text("ä\nMemoryError\n", encoding="utf-8")
    before = _lengths(tmp_path)
    assert _reasons(tmp_path, "7", before) == ""
    with log.open("a") as screen:
        screen.write("ImportError: no nvflare\n")
    assert _reasons(tmp_path, "7", before) == " (bank: ImportError: no nvflare)"


def test_epochs_are_counted_by_what_the_server_logs(tmp_path):
    log = tmp_path / "log.txt"
    assert _epochs_in(log) == 0
    line = "2026 - Preside - INFO - round {}, epoch {}, train_loss 0.5, organisation insurer\n"
    log.write_text("started\n" + line.format(12, 2.0) + line.format(21, 3.5) + "round 3, epo")
    assert _epochs_in(log) == 3


def told(word):
    """Return the processes in whose commands a word is."""
    return [p.pid for p in psutil.process_iter(["cmdline"]) if word in (p.info["cmdline"] or ())]


FLARES = ("-m", "nvflare.private.fed.app.client.worker_process", "-m")
"""How a command of Python's says that it is a worker of the engine's; then comes its kit."""


def test_who_looks_at_a_federation_is_not_ended_with_it(tmp_path):
    looks, works = "import time; time.sleep(60)", str(tmp_path / "bank")
    left = [
        subprocess.Popen([sys.executable, "-c", looks, *as_, works])
        for as_ in ((), ("-m", "pandas"), FLARES)
    ]
    try:
        _end_all_in(tmp_path)
        assert [each.poll() is None for each in left[:2]] == [True, True]
        assert left[2].wait(10) == -signal.SIGKILL
    finally:
        for each in left:
            each.kill()
            each.wait()


def test_a_federation_that_is_taken_down_leaves_no_worker(tmp_path):
    kit, job = tmp_path / "bank", str(tmp_path / "bank" / "job")
    worker = f"{sys.executable} -c 'import time; time.sleep(60)' {' '.join(FLARES)} {job}"
    (kit / "startup").mkdir(parents=True)
    # As the engine does it: a worker has a session of its own, and outlives whoever started it.
    (kit / "startup" / "sub_start.sh").write_text(f"setsid {worker} &\nexec sleep 60\n")
    local = Local(tmp_path)
    local.start_one("bank")
    deadline = time.monotonic() + 10
    while not told(job) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert told(job)
    local.stop()
    assert not told(job)


@pytest.mark.parametrize("spelling", ["federation", "link/federation"])
def test_what_a_killed_command_left_at_work_is_ended_before_its_keys_are_removed(
    tmp_path, monkeypatch, spelling
):
    def provisioned(folder, names):
        assert left.wait(60) == -signal.SIGKILL  # else it ends by itself, without keys
        assert not list(folder.iterdir())
        raise Unwritten("this is all that is tried")

    monkeypatch.setattr("colonnade.deployment.local._provisioned", provisioned)
    key = tmp_path.resolve() / "federation" / "clinic" / "client.key"
    key.parent.mkdir(parents=True)
    key.touch()
    (tmp_path / "link").symlink_to(tmp_path)
    program = f"import os, time\nwhile os.path.exists({str(key)!r}): time.sleep(0.01)"
    left = subprocess.Popen(
        [sys.executable, "-c", program, *FLARES, str(key)], start_new_session=True
    )
    with (
        pytest.raises(Unwritten, match="all that is tried"),
        local_federation(tmp_path / spelling, ["clinic"]),
    ):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_asks_again_to_end_a_federation_does_not_break_its_end_off(
    tmp_path, monkeypatch, number
):
    def asked(number, frame):
        raise KeyboardInterrupt(number)

    def stop(local):
        signal.raise_signal(number)
        ended.append(local.folder)

    ended = []
    module = "colonnade.deployment.local"
    monkeypatch.setattr(f"{module}._provisioned", lambda folder, names: folder)
    monkeypatch.setattr(f"{module}.prepare_kit", lambda kit: None)
    monkeypatch.setattr(f"{module}.Local.stop", stop)
    before = signal.signal(number, asked)
    try:
        with pytest.raises(KeyboardInterrupt), local_federation(tmp_path / "federation", []):
            pass
        assert signal.getsignal(number) is asked
    finally:
        signal.signal(number, before)
    assert ended == [(tmp_path / "federation").resolve()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_asks_a_deployment_to_end_is_heard_unless_that_was_ignored(
    tmp_path, monkeypatch, number
):
    def asked(*_, **__):
        signal.raise_signal(number)
        raise Unwritten("nobody has asked")

    (tmp_path / "run.yaml").write_text(yaml.safe_dump(configuration(tmp_path)), encoding="utf-8")
    tables(tmp_path)
    monkeypatch.setattr("colonnade.deployment.proving.prove", asked)
    monkeypatch.setattr("sys.argv", ["colonnade", "deploy", f"{tmp_path}/run.yaml", "--local"])
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for set_to, code in ((signal.SIG_DFL, 128 + number), (signal.SIG_IGN, 3)):
            signal.signal(number, set_to)
            with pytest.raises(SystemExit) as ended:
                cli.main()
            assert ended.value.code == code
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def test_a_process_that_ended_is_told_by_its_name(tmp_path):
    """The server awaited it for long before it gave a job up that had not started."""
    local = Local(tmp_path)
    for name, code in (("bank", "pass"), ("shop", "print('it was killed')")):
        with local.log(name).open("wb") as log:
            local.processes[name] = subprocess.Popen([sys.executable, "-c", code], stdout=log)
    local.processes["shop"].wait()
    local.processes.pop("bank").wait()
    with pytest.raises(RoleFailed, match=r"'shop' ended \(it was killed\); see .*shop\.log"):
        local.check_alive()


def test_every_method_is_among_those_that_are_tried_over_the_engine():
    tried = [said["method"] for said in METHODS.values()]
    named = {said if isinstance(said, str) else said["name"] for said in tried}
    assert named >= set(names(GROUPS["methods"]))


NUMBERS = itertools.count()  # the engine knows each name of a cell once in a process


def cell(**credentials):
    return CoreCell(f"site{next(NUMBERS)}", "tcp://localhost:1", True, credentials)


@pytest.mark.parametrize("security", ["tls", "clear"])
def test_a_cell_whose_peers_need_not_prove_who_they_are_is_refused(security):
    with pytest.raises(ConfigurationError, match="not secured by mutual TLS"):
        CellPost(cell(connection_security=security), "bank", {})
    CellPost(cell(connection_security="mtls"), "bank", {})


CELLS = {"bank": "bank.job", "shop": "shop.job", GATEKEEPER: "server.job"}
INTRODUCTIONS, SEALED = "colonnade-introductions", "colonnade-sealed"
ENCRYPTED = {MessageHeaderKey.SECURE: True, MessageHeaderKey.ENCRYPTED: True}
BYTES = {MessageHeaderKey.PAYLOAD_ENCODING: Encoding.BYTES}


def answered(own, headers, payload=b"bytes"):
    """Let a cell take a datagram with these headers besides; return what it answers at once."""
    told = {
        MessageHeaderKey.MSG_TYPE: MessageType.REQ,
        MessageHeaderKey.CHANNEL: INTRODUCTIONS,
        MessageHeaderKey.TOPIC: "between",
        MessageHeaderKey.ORIGIN: "shop.job",
        MessageHeaderKey.DESTINATION: own.get_fqcn(),
    }
    return own._process_received_msg(Endpoint("server"), None, Message(told | headers, payload))


def listening(name="bank", cells=CELLS):
    """Return a cell that decrypts nothing, its post, and what that hears."""
    own, heard = cell(), []
    own.decrypt_payload = lambda message: None
    own.fire_and_forget = lambda *_, **__: None
    post = CellPost(own, name, cells)
    post.listen(lambda *what: heard.append(what))
    return own, post, heard


def ends(own, cells=CELLS):
    """Return the other ends of a post's conversations, by name."""
    posts = {name: CellPost(cell(), name, cells) for name in cells if name != own}
    return {name: post._talks[own] for name, post in posts.items()}


def met(own, post, other, name="shop"):
    """Let a cell and the other end of a conversation introduce themselves to each other."""
    origin = {MessageHeaderKey.ORIGIN: CELLS[name]}
    other.introduced(post._talks[name].introduction())
    answered(own, ENCRYPTED | BYTES | origin, other.introduction())


@pytest.mark.parametrize("headers", [[], [MessageHeaderKey.SECURE], [MessageHeaderKey.ENCRYPTED]])
def test_an_introduction_in_the_clear_is_heard_by_nobody(headers):
    own, post, _ = listening()
    body = ends("bank")["shop"].introduction()
    answer = answered(own, dict.fromkeys(headers, True) | BYTES, body)
    assert answer.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.UNAUTHENTICATED
    assert post._talks["shop"]._heard is None
    answered(own, ENCRYPTED | BYTES, body)
    assert post._talks["shop"]._heard is not None


def test_a_datagram_that_is_not_sealed_by_who_is_said_to_send_it_is_heard_by_nobody():
    own, post, heard = listening()
    shop, stranger = ends("bank")["shop"], ends("bank")["shop"]
    met(own, post, shop)
    stranger.introduced(post._talks["shop"].introduction())
    stranger.seals = shop.seals = True
    sealed = BYTES | {MessageHeaderKey.CHANNEL: SEALED}
    for body in (b"in the clear", stranger.sealed(b"of another process"), b"", shop._key.public):
        answered(own, sealed, body)
    other = sealed | {MessageHeaderKey.ORIGIN: "server.job", MessageHeaderKey.TOPIC: "to_role"}
    answered(own, other, shop.sealed(b"in another's name"))
    answered(own, sealed, shop.sealed(b"two"))
    assert heard == [("shop", b"two")]


def connected(lost=()):
    """Return the posts of two whose engines hand messages to each other's, and what passed.

    Those that are lost are counted from 0.
    """
    carried, places = [], {"bank": listening("bank"), "shop": listening("shop")}

    def carry(own, into):
        def fire_and_forget(channel, topic, to, message, secure, optional):
            carried.append((own, channel, secure))
            if len(carried) - 1 in lost:
                return
            headers = BYTES | {MessageHeaderKey.CHANNEL: channel, MessageHeaderKey.TOPIC: topic}
            headers |= {MessageHeaderKey.ORIGIN: CELLS[own]} | (ENCRYPTED if secure else {})
            answered(places[into][0], headers, message.payload)

        return fire_and_forget

    for own, into in (("bank", "shop"), ("shop", "bank")):
        places[own][0].fire_and_forget = carry(own, into)
    return places["bank"], places["shop"], carried


def test_two_posts_introduce_themselves_once_and_what_was_kept_comes_in_order():
    (_, bank, to_bank), (_, shop, to_shop), carried = connected()
    for turn in range(3):
        bank("shop", b"%d" % turn)
        shop("bank", b"%d" % turn)
    assert to_shop == [("bank", b"%d" % turn) for turn in range(3)]
    assert to_bank == [("shop", b"%d" % turn) for turn in range(3)]
    assert [secure for _, channel, secure in carried if channel == INTRODUCTIONS] == [True] * 4
    assert [secure for _, channel, secure in carried if channel == SEALED] == [False] * 6


@pytest.mark.parametrize("lost", [{0}, {1}, {0, 1}, {2}, {0, 2, 3}])
def test_introductions_that_are_lost_come_with_the_next_datagram(lost):
    (_, bank, _), (_, shop, to_shop), _ = connected(lost)
    for turn in range(6):
        bank("shop", b"%d" % turn)
        shop("bank", b"?")
    assert [datagram for _, datagram in to_shop][-1] == b"5"
    came = [int(datagram) for _, datagram in to_shop]
    assert came == sorted(came)
    assert len(came) >= 5  # one that was sealed may be among the lost, which are sent again


def test_flare_is_told_that_a_run_failed():
    def failing():
        raise ConfigurationError("the sites have different jobs")

    said, preside = [], object.__new__(Preside)
    preside._host = SimpleNamespace(preside=failing)
    preside._job = SimpleNamespace(label_holder_at="site")
    preside.broadcast = lambda *_, **__: None
    preside.system_panic = lambda reason, context: said.append(reason)
    preside.control_flow(Signal(), None)
    assert said == ["ConfigurationError: the sites have different jobs"]


ORIGINS = {  # topic, origin: whose word it is
    ("between", "shop.job"): "shop",
    ("between", "server.job"): None,
    ("between", "bank.job"): "bank",
    ("to_role", "server.job"): GATEKEEPER,
    ("to_role", "shop.job"): None,
    ("to_gatekeeper", "shop.job"): "shop",
    ("to_gatekeeper", "server.job"): None,
} | {
    (topic, stranger): None
    for topic in ("between", "to_role", "to_gatekeeper")
    for stranger in ("shop", "shop.other", "shop.job.more", "server", "server.other", "thief.job")
}


@pytest.mark.parametrize(("topic", "origin"), ORIGINS)
def test_who_speaks_is_known_by_its_cell(topic, origin):
    listens = GATEKEEPER if topic == "to_gatekeeper" else "bank"
    own, post, heard = listening(listens)
    post._introduce = lambda peer: None
    whose = ORIGINS[topic, origin]
    about = BYTES | {MessageHeaderKey.TOPIC: topic, MessageHeaderKey.ORIGIN: origin}
    for name, other in ends(listens).items():
        heard.clear()
        other.introduced(post._talks[name].introduction())
        answered(own, ENCRYPTED | about, other.introduction())
        other.introduced(post._talks[name].introduction())
        assert other.seals == (name == whose)
        other.seals = True
        answered(own, about | {MessageHeaderKey.CHANNEL: SEALED}, other.sealed(b"bytes"))
        assert heard == ([(name, b"bytes")] if name == whose else [])


@pytest.mark.parametrize("channel", [INTRODUCTIONS, SEALED])
@pytest.mark.parametrize("encoding", [Encoding.FOBS, Encoding.NONE, None, "other"])
def test_nothing_but_bytes_is_made_of_a_datagram(encoding, channel):
    own, post, heard = listening()
    decrypted = []
    own.decrypt_payload = decrypted.append  # after it what the bytes stand for is made
    headers = ENCRYPTED | {MessageHeaderKey.CHANNEL: channel}
    body = ends("bank")["shop"].introduction()
    answer = answered(own, headers | {MessageHeaderKey.PAYLOAD_ENCODING: encoding}, body)
    assert answer.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.INVALID_REQUEST
    assert decrypted == heard == []
    assert post._talks["shop"]._heard is None
    answered(own, ENCRYPTED | BYTES, body)
    assert post._talks["shop"]._heard is not None
