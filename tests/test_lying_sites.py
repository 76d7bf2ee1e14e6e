"""A site that lies to the server: what it cannot say, and what is told of what it says."""

from __future__ import annotations

import re
import threading
import time
import tracemalloc
import types
from collections import Counter

import msgspec
import pytest

from colonnade.config.models import ObjectiveConfig
from colonnade.deployment import guest, host, meeting, what_came
from colonnade.deployment.guest import Guest
from colonnade.deployment.host import Host
from colonnade.deployment.training import TrainingTogether
from colonnade.deployment.what_came import WhatCame
from colonnade.drivers import control, couriered, inquiry, player
from colonnade.drivers.account import Account
from colonnade.drivers.courier import Courier
from colonnade.drivers.couriered import GATEKEEPER, CourierTransport
from colonnade.errors import Aborted, Disconnected, RemoteProtocolError, RoleFailed
from colonnade.ledger import Entry
from colonnade.run_read import load_run
from colonnade.wire import Purpose
from toy_sites import Mesh, failing, heard_of, play, prepared

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(autouse=True)
def in_one_process(monkeypatch):
    """Words that nobody hears any more are not waited for as long as between computers."""
    for module in (couriered, host):
        monkeypatch.setattr(module, "_LINGER", 0.3)
    monkeypatch.setattr(guest, "_LAST_WORDS", 0.3)


def lying(mesh, job, lie, name="bank"):
    """Return a server that hears of a site what ``lie`` makes of what it says; None is nothing."""
    server = Host(job, mesh.post(GATEKEEPER))
    deliver = server._courier._deliver

    def heard(peer, frame):
        told = meeting.from_site(frame, peer)
        said = lie(told) if peer == name else told
        if said is not None:
            deliver(peer, meeting.encode(said))

    server._courier._deliver = heard
    return server


def changing(kind, change):
    """Return a lie that tells what is of a kind with other fields."""
    return lambda told: (
        msgspec.structs.replace(told, **change(told)) if isinstance(told, kind) else told
    )


def entry(**changes):
    embedding = Entry("bank", "insurer", "embedding", Purpose.TRAINING, 0, 9999, 10, 20, 5)
    return embedding._replace(**changes)


def with_entry(**changes):
    return lambda told: {"entries": [*told.entries, entry(**changes)]}


def with_account(**changes):
    def changed_in(told):
        account = msgspec.msgpack.decode(told.account) | changes
        return {"account": msgspec.Raw(msgspec.msgpack.encode(account))}

    return changed_in


ENDS = {
    "more bytes than a number holds": with_entry(body_bytes=2**63 + 5),
    "fewer bytes than none": with_entry(body_bytes=-(10**9)),
    "a time that is none": with_entry(nanoseconds=2**63),
    "a message to nobody": with_entry(receiver="nobody"),
    "a message to itself": with_entry(receiver="bank"),
    "a round before the first": lambda told: {"round": -5},
    "another last round": lambda told: {"round": told.round - 1},
    "a round after the last": lambda told: {"round": told.round + 1},
    "an end that is none": lambda told: {"finished": False},
    "more messages than it tells of": lambda told: {"sent": {"insurer": 10**6}},
    "what became of a message": with_entry(discarded=True),
    "what no crash has lost": with_entry(lost=True),
    "fewer bytes in all than of the body": with_entry(framed_bytes=10),
    "more bytes than an envelope has": with_entry(framed_bytes=2**40),
    "a message twice": lambda told: {"entries": [*told.entries, entry(), entry()]},
    "a history of numbers": with_account(history=[1, 2]),
    "a history that is nested": with_account(history=[{"round": 1, "x": {"y": 1}}]),
    "a time spent that is none": with_account(activities=[[0, "work", 1, float("nan"), 1]]),
    "activities of another shape": with_account(activities=[[0]]),
    "no sequence": lambda told: {"account": msgspec.Raw(b"\x80")},
}


@pytest.mark.parametrize("end", ENDS)
def test_what_makes_no_sense_is_refused_by_the_name_of_who_told_it(tmp_path, end):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    lie = changing(control.Played, ENDS[end])
    failed = play(job, sites, mesh, lying(mesh, job, lie))
    assert set(failed) >= {GATEKEEPER, "insurer"}
    for error in failed.values():
        assert "'bank' t" in str(error)  # tells, told or that
    assert play(job, sites, Mesh()) == {}  # without the lie it goes on, to its end


def test_what_a_site_leaves_out_of_its_ledger_is_told(tmp_path):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    left_out = []

    def lie(told):
        if isinstance(told, control.Played | control.Recorded | control.Saved):
            to_holder = [entry for entry in told.entries if entry.receiver == "insurer"]
            left_out.extend(to_holder[:1] if not left_out else ())
            entries = [entry for entry in told.entries if entry not in left_out]
            told = msgspec.structs.replace(told, entries=entries)
        if isinstance(told, control.Played | control.Reached) and told.sent.get("insurer"):
            sent = told.sent | {"insurer": told.sent["insurer"] - 1}
            told = msgspec.structs.replace(told, sent=sent)
        return told

    assert play(job, sites, mesh, lying(mesh, job, lie)) == {}
    run = load_run(sites["insurer"].runs / "first")
    (warning,) = (told for told in run.summary["warnings"] if "tells that it sent" in told)
    assert warning.startswith("'bank' tells that it sent 'insurer' ")
    assert "and 'insurer' that " in warning


@pytest.mark.parametrize(("of", "number"), [("shop", 0), ("shop", 5), ("insurer", 10**6)])
def test_what_a_site_tells_to_have_discarded_and_was_not_sent_is_told(tmp_path, of, number):
    """The label holder said it after it, of messages that it had taken itself."""
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    def lie(told):
        if isinstance(told, control.Left):
            return msgspec.structs.replace(told, discarded=[(of, number)])
        return told

    assert play(job, sites, mesh, lying(mesh, job, lie)) == {}
    run = load_run(sites["insurer"].runs / "first")
    sentence = (
        f"'bank' tells that it discarded 1 messages of '{of}', who tells of no such sent to it"
    )
    assert any(sentence in told for told in run.summary["warnings"])
    assert run.summary["messages_discarded"] == 0
    assert not any(entry.discarded for entry in run.ledger)


@pytest.mark.parametrize(
    "changes", [{"purpose": Purpose.SETUP}, {"round": 2**52}, {"kind": "other"}]
)
def test_what_a_site_tells_otherwise_than_it_came_is_told(tmp_path, changes):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    def lie(told):
        if not isinstance(told, control.Played | control.Recorded | control.Saved):
            return told
        entries = [entry._replace(**changes) for entry in told.entries]
        return msgspec.structs.replace(told, entries=entries)

    assert play(job, sites, mesh, lying(mesh, job, lie)) == {}
    run = load_run(sites["insurer"].runs / "first")
    (warning,) = (told for told in run.summary["warnings"] if "tells that it sent" in told)
    assert "otherwise than they came, as 'insurer' tells: in kind, purpose, round" in warning


def leaving_twice(job, mesh):
    """Return a server that hears twice that the bank left."""
    server = Host(job, mesh.post(GATEKEEPER))
    note = server._came.note

    def noted(name, message, size):
        note(name, message, size)
        if name == "bank" and isinstance(message, control.Left):
            note(name, message, size)

    server._came.note = noted
    return server


@pytest.mark.parametrize("told", [control.Waiting([]), control.Cast("x")])
def test_who_comes_again_while_all_play_is_named(tmp_path, told):
    """All were told to begin once more, and an honest site blamed for a wait of negative length."""
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()
    server = Host(job, mesh.post(GATEKEEPER))
    note = server._came.note

    def noted(name, message, size):
        note(name, message, size)
        if name == "bank" and isinstance(message, control.Reached):
            server._deliver(name, meeting.encode(told))

    server._came.note = noted
    failed = play(job, sites, mesh, server)
    assert "'bank' told " + type(told).__name__ in str(failed[GATEKEEPER])


@pytest.mark.parametrize("left", [1, 2])
def test_nobody_leaves_early_or_twice(tmp_path, left):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()
    if left == 1:
        server = Host(job, mesh.post(GATEKEEPER))
        heard_of(server, "bank", control.Left({}, [], 0.1))
    else:
        server = leaving_twice(job, mesh)
    failed = play(job, sites, mesh, server)
    assert "'bank' told that it left, and is not to leave" in str(failed[GATEKEEPER])


def test_who_has_just_left_hears_that_the_run_is_ended(tmp_path, monkeypatch):
    """Nobody read it of a player that had played, and the label holder waited for what came."""
    _, job, sites = prepared(tmp_path)
    mesh, release = Mesh(), CourierTransport.release

    def released(transport):
        with transport._player.changed:
            assert transport._player.changed.wait_for(lambda: transport._player.failure, 30)
        release(transport)

    monkeypatch.setattr(CourierTransport, "release", released)
    failed = play(job, sites, mesh, leaving_twice(job, mesh))
    assert failed.keys() == {GATEKEEPER, *sites}
    assert {type(failed[name]) for name in sites} == {Aborted}


def test_who_is_given_up_as_it_is_to_be_told_something_is_named(tmp_path):
    _, job, sites = prepared(tmp_path)
    server = Host(job, lambda *_: None)
    for name, site in sites.items():
        brings = Guest(job, site, print, "threads")._engaged().brings()
        server._deliver(name, meeting.encode(brings))
    server._courier._lost.update(sites)
    server._lose("insurer")
    with pytest.raises(RoleFailed, match="nothing is heard of 'insurer' any more"):
        server.preside()


def test_sites_that_cannot_reach_each_other_end_the_run_though_the_server_hears_both(
    tmp_path, monkeypatch
):
    """One gives up, and the other waits, as it has nothing to send."""
    monkeypatch.setattr(CourierTransport.__init__, "__defaults__", (1.0,))
    _, job, sites = prepared(tmp_path)
    mesh, usual, passed = Mesh(), Mesh.post, Counter()

    def post(own):
        carry = usual(mesh, own)

        def cut(peer, datagram):
            between = {own, peer} == {"bank", "insurer"}
            passed[own] += between
            if not between or passed[own] < 8:
                carry(peer, datagram)

        return cut

    mesh.post = post
    failed = play(job, sites, mesh)
    assert failed.keys() == {GATEKEEPER, *sites}
    lost = {type(error) for error in failed.values()}
    assert lost == {Disconnected, Aborted}
    assert " has lost its connection to " in str(failed[GATEKEEPER])


def test_who_is_ended_as_its_role_begins_is_ended(tmp_path):
    _, job, sites = prepared(tmp_path)
    guest, failures = Guest(job, sites["bank"], lambda *_: None, "threads"), []
    begins = types.SimpleNamespace(fail=failures.append)
    take = guest._take

    def taken(heard):
        take(heard)
        guest._player = begins  # which has looked just before

    guest._take = taken
    guest.end("the operator aborted")
    assert [*map(str, failures)] == ["the operator aborted"]
    guest._transport.close()


def test_who_goes_before_the_run_begins_is_given_up(tmp_path):
    _, job, sites = prepared(tmp_path)
    server = Host(job, lambda *_: None, patience=0.1)
    site = Courier(lambda _, datagram: server.receive("bank", datagram), print, print, print)
    site.admit(GATEKEEPER, 10**6)
    site.send(GATEKEEPER, meeting.encode(Guest(job, sites["bank"], print, "")._engaged().brings()))
    site.close()
    with pytest.raises(RoleFailed, match="nothing is heard of 'bank' any more"):
        server.preside()


def test_who_is_done_is_not_waited_for_while_others_are_not(tmp_path, monkeypatch):
    """A label holder may write its run for longer than the server waits for a word."""
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()
    server = Host(job, mesh.post(GATEKEEPER), patience=1.0)
    look, conclude = server._courier._look, TrainingTogether.conclude
    looked, long = [], threading.Event()

    def looks(*peer):
        if {"bank", "shop"} <= server._done:
            looked.append(time.monotonic())
            if looked[-1] - looked[0] > 1.5:  # longer than it takes to be asked and given up
                long.set()
        return look(*peer)

    def concluded(engagement, *came):
        if engagement.site.organisation == "insurer":
            assert long.wait(60)
        return conclude(engagement, *came)

    server._courier._look = looks
    monkeypatch.setattr(TrainingTogether, "conclude", concluded)
    assert play(job, sites, mesh, server) == {}


def test_a_site_that_takes_nothing_keeps_no_other_from_hearing_of_the_end(tmp_path):
    _, job, sites = prepared(tmp_path)
    told, over = {name: threading.Event() for name in sites}, threading.Event()

    def post(name, datagram):
        if name == "bank":
            over.wait(60)
        told[name].set()

    server = Host(job, post, aborted=lambda: True, patience=1.0)

    def presides():
        with pytest.raises(Aborted):
            server.preside()

    thread = threading.Thread(target=presides, daemon=True)
    thread.start()
    assert told["shop"].wait(30)
    assert told["insurer"].wait(30)
    thread.join(30)
    assert not thread.is_alive()
    assert not told["bank"].is_set()
    over.set()


def test_messages_that_nobody_sent_are_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(inquiry, "_QUIET", 0.05)
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    def lie(told):
        if not isinstance(told, control.Played):
            return told
        more = [*told.entries, entry()]
        sent = told.sent | {"insurer": told.sent["insurer"] + 1}
        return msgspec.structs.replace(told, entries=more, sent=sent)

    failed = play(job, sites, mesh, lying(mesh, job, lie))
    assert "'bank' tells that it has sent 'insurer'" in str(failed[GATEKEEPER])


@pytest.mark.parametrize("kinds", [control.Left, control.FromPlayer])
def test_who_is_there_and_says_nothing_of_the_run_is_not_waited_for(tmp_path, monkeypatch, kinds):
    """It kept what was trained from the label holder, without end."""
    monkeypatch.setattr(inquiry, "_QUIET", 0.1)
    monkeypatch.setattr(host, "STALLED", 1.5 / 120)
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    def lie(told):
        is_there = isinstance(told, control.Cast | control.Waiting)
        return None if isinstance(told, kinds | meeting.Done) and not is_there else told

    server = lying(mesh, job, lie)
    finish = server.finish
    server.finish = lambda name: None if name == "bank" else finish(name)
    failed = play(job, sites, mesh, server)
    for name in (GATEKEEPER, "insurer"):
        assert re.search("'bank' (is there, and has not answered|does not l)", str(failed[name]))
    assert play(job, sites, Mesh()) == {}


def test_who_has_ended_and_told_no_last_word_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "_LAST_WORDS", 0.1)
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()
    lie = lying(mesh, job, lambda told: None if isinstance(told, control.Left) else told)
    failed = play(job, sites, mesh, lie)
    assert re.search("'bank' (has ended, and its last|told Done out)", str(failed[GATEKEEPER]))


def test_what_was_told_before_is_weighed_by_the_round_that_a_run_goes_on_from(
    tmp_path, monkeypatch
):
    begun = []
    begin = WhatCame.begin
    monkeypatch.setattr(
        WhatCame, "begin", lambda came, *told: (begun.append(told), begin(came, *told))
    )
    _, job, sites = prepared(tmp_path, epochs=6, checkpoint_every=5)
    assert play(job, sites, failing(Mesh(), "bank", 20)) != {}
    assert play(job, sites, Mesh()) == {}
    first, before = begun[-1]
    assert first >= 5
    assert set(before) == {"bank", "shop", "insurer"}
    came = WhatCame(["bank"], recorded=True)
    with pytest.raises(RemoteProtocolError, match="'bank' tells more of the run than there can"):
        came.admit("bank", 2**25, rows=100)
    came.begin(1000, [])
    came.admit("bank", 2**25, rows=100)
    came.begin(0, ["bank"])  # anew, after much that was lost
    came.admit("bank", 2**25, rows=100)


# A server that lies


def telling(mesh, job, lie):
    """Return a server that tells what ``lie`` makes of what it would tell, by name."""
    server = Host(job, mesh.post(GATEKEEPER))
    tell = server._tell

    def told(name, message):
        for said in lie(name, message):
            tell(name, said)

    server._tell = told
    return server


def test_a_server_that_ends_a_run_early_ends_it_for_itself(tmp_path):
    _, job, sites = prepared(tmp_path, epochs=6, checkpoint_every=5)
    mesh = Mesh()

    def stopping(name, message):
        yield message
        if isinstance(message, control.Save):
            yield control.Stop()

    server = telling(mesh, job, stopping)
    server._came.note = lambda *_: None  # nor does it look at what is told
    failed = play(job, sites, mesh, server)
    for name in ("bank", "shop", "insurer"):
        assert name in failed
        assert not (sites[name].runs / "first" / "parts").exists()
    assert play(job, sites, Mesh()) == {}
    assert load_run(sites["insurer"].runs / "first").summary["completed"]


def changed(message, **changes):
    return [msgspec.structs.replace(message, **changes)]


def test_a_label_holder_takes_what_is_its_own_from_nobody(tmp_path):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    def lie(name, message):
        if not isinstance(message, meeting.Came):
            return [message]
        entries = [
            each._replace(purpose=Purpose.SETUP) if each.sender == "insurer" else each
            for each in message.entries
        ]
        return changed(message, entries=entries)

    assert play(job, sites, mesh, telling(mesh, job, lie)) == {}
    run = load_run(sites["insurer"].runs / "first")
    assert run.summary["bytes_down"] > 0
    assert not any("tells that it sent" in told for told in run.summary["warnings"])


SERVERS = {
    "another end": (
        meeting.End,
        lambda told: {"parts": {n: (True, 5, p[2]) for n, p in told.parts.items()}},
        "the server told of another end",
    ),
    "no end": (
        meeting.End,
        lambda told: {"parts": {n: (False, *p[1:]) for n, p in told.parts.items()}},
        "the server told of another end",
    ),
    "messages of a stranger": (
        control.Stop,
        lambda told: {"received": {"stranger": 3}},
        "the gatekeeper told of 'stranger', of whom nothing can come",
    ),
    "other labels": (
        meeting.Everybody,
        lambda told: {} if told.top is None else {"top": meeting.Top(7)},
        "the server has changed what was told of the labels",
    ),
}


@pytest.mark.parametrize("lie", SERVERS)
def test_a_server_that_lies_is_refused_in_words(tmp_path, lie):
    kind, change, why = SERVERS[lie]
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    def told(name, message):
        if not isinstance(message, kind):
            return [message]
        return changed(message, **change(message))

    failed = play(job, sites, mesh, telling(mesh, job, told))
    assert why in str(failed["insurer"])


def without_end(message):
    """Pieces of what came of a run, several times as much as there can be."""
    if not isinstance(message, meeting.Came) or not message.entries:
        return [message]
    return [*changed(message, entries=message.entries * (6 * 10**4 // len(message.entries)))] * 50


def too_early(message):
    is_met = isinstance(message, meeting.Go)
    return [message, meeting.Came(discarded=[("bank", "shop", 0)])] if is_met else [message]


def many_words(message):
    return [message] * (40 if isinstance(message, meeting.Everybody) else 1)


@pytest.mark.parametrize(
    ("tells", "why"),
    [
        (without_end, "the server tells of more messages than there can be in \\d+ rounds"),
        (too_early, "the server tells what came of the run before its end"),
        (many_words, "the server says more than it was asked|was told of the labels"),
    ],
)
def test_a_server_that_tells_without_end_is_refused_before_memory_is_full(tmp_path, tells, why):
    """All that it told was kept: 360 MB of it in 4 GB."""
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()
    failed = play(job, sites, mesh, telling(mesh, job, lambda name, message: tells(message)))
    assert re.search(why, str(failed["insurer"]))
    assert not (sites["insurer"].runs / "first" / "parts").exists()
    assert play(job, sites, Mesh()) == {}


MARK = "what is not there yet"
LARGE = {
    "learned": meeting.Everybody(
        {}, {}, meeting.Top(1, meeting.Labels(("int64", (), 0, 1), 2, {"counts": MARK}))
    ),
    "widths": meeting.Everybody(MARK, {}, None),
    "an account at the end": meeting.End({"bank": (True, 1, MARK)}, {}, 0.0, 0.0),
    "came too late": meeting.Came(discarded=MARK),
    "decided": meeting.Came(decided=("bank", MARK)),
    "recorded": control.Recorded(MARK),
    "an account": control.Played(True, 0, b"", MARK, [], [], {}, None),
    "peers": control.Waiting(MARK),
    "discarded": control.Left({}, MARK, 0.0),
    "sent": control.Reached(0, MARK, 0),
    "notes": control.Played(True, 0, b"", Account().packed(), [], [], {}, (1, MARK)),
}


@pytest.mark.parametrize("what", LARGE)
def test_no_word_takes_many_times_its_bytes_before_it_is_refused(what):
    """An empty list is a byte of a word, and 72 in memory: 32 MB took 2.3 GB."""
    many = 2**22 + 2**10
    lists = b"\xdd" + many.to_bytes(4, "big") + b"\x90" * many
    word = meeting.encode(LARGE[what]).replace(msgspec.msgpack.encode(MARK), lists)
    assert len(word) > many
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"cannot be read|Expected"):
            read_wholly(word, isinstance(LARGE[what], meeting.FromServer))
        assert tracemalloc.get_traced_memory()[1] < 2 * many
    finally:
        tracemalloc.stop()


def test_an_account_with_what_is_too_deep_is_refused_as_no_account():
    fields = msgspec.msgpack.decode(bytes(Account().packed()))
    deep = b"\x91" * 3000 + b"\0"
    told = b"\xde" + (len(fields) + 1).to_bytes(2, "big") + b"\xa1z" + deep
    told += b"".join(msgspec.msgpack.encode(each) for pair in fields.items() for each in pair)
    with pytest.raises(ValueError, match="recursion"):
        Account.told(msgspec.Raw(told))


def read_wholly(word, is_the_servers):
    try:
        told = meeting.from_server(word) if is_the_servers else meeting.from_site(word, "bank")
    except RemoteProtocolError as error:
        raise ValueError(str(error)) from None
    match told:
        case control.Played(account=account) | meeting.End({"bank": (_, _, account)}):
            Account.told(account)


@pytest.mark.parametrize(
    ("origins", "why"), [([0, 0], "that all begin, twice"), ([10**9], "that the run begins later")]
)
def test_a_server_that_sets_clocks_back_is_refused_in_words(tmp_path, origins, why):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    def told(name, message):
        is_beginning = isinstance(message, control.Begin)
        return [control.Begin(each) for each in origins] if is_beginning else [message]

    failed = play(job, sites, mesh, telling(mesh, job, told))
    assert why in str(failed["insurer"])


def other_counts(top):
    labels = msgspec.structs.replace(top.labels, learned={"counts": [1, 10**6]})
    return msgspec.structs.replace(top, labels=labels)


def another_training(top):
    return msgspec.structs.replace(top, training="0123456789abcdef" * 2)


@pytest.mark.parametrize("lie", [other_counts, another_training])
@pytest.mark.parametrize("parties", [("bank",), ("bank", "shop")])
def test_sites_find_that_a_server_told_them_differently_of_the_labels(
    tmp_path, monkeypatch, lie, parties
):
    monkeypatch.setattr(host, "refuse_disagreement", lambda agreed: None)
    _, job, sites = prepared(tmp_path, {"name": "cvfl", "embedding": "float", "labels": "shared"})
    job = job.model_copy(update={"objective": ObjectiveConfig(class_weights="balanced")})
    mesh = Mesh()

    def told(name, message):
        if not isinstance(message, meeting.Everybody) or name not in parties:
            return [message]
        return changed(message, top=lie(message.top))

    failed = play(job, sites, mesh, telling(mesh, job, told))
    assert set(failed) == {"bank", "shop", "insurer", GATEKEEPER}
    assert "goes by another agreement than this site" in str(failed[GATEKEEPER])
    assert not any((site.runs / "first" / "parts").exists() for site in sites.values())
    assert play(job, sites, Mesh()) == {}  # without the lie


@pytest.mark.parametrize("training", ["../../x", "a" * 32 + "\n", "A" * 32, "a" * 31])
def test_no_training_is_called_what_none_can_be(tmp_path, training):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    def told(name, message):
        if not isinstance(message, meeting.Everybody) or name != "bank":
            return [message]
        return changed(message, top=msgspec.structs.replace(message.top, training=training))

    failed = play(job, sites, mesh, telling(mesh, job, told))
    assert "the server told what cannot be read" in str(failed["bank"])
    assert not (sites["bank"].runs / "first").exists()


def test_a_site_that_says_too_little_came_to_it_is_told(tmp_path):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    def lie(told):
        return (
            msgspec.structs.replace(told, received={}) if isinstance(told, control.Left) else told
        )

    assert play(job, sites, mesh, lying(mesh, job, lie)) == {}
    run = load_run(sites["insurer"].runs / "first")
    told = [told for told in run.summary["warnings"] if "tells that it sent" in told]
    assert [each.split(" bytes, ")[1][:14] for each in told] == ["and 'bank' tha"]


def test_what_comes_after_a_resume_is_counted_with_what_came_before(tmp_path, monkeypatch):
    monkeypatch.setattr(player, "_TOLD", 4)  # so that it is told in several pieces
    _, job, sites = prepared(tmp_path, epochs=6, checkpoint_every=5)
    assert play(job, sites, failing(Mesh(), "bank", 18)) != {}
    assert play(job, sites, Mesh()) == {}
    run = load_run(sites["insurer"].runs / "first")
    assert run.summary["messages_lost"] > 0
    assert not any("tells that it sent" in told for told in run.summary["warnings"])


def test_no_site_refuses_in_the_name_of_another(tmp_path):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()
    forged = control.Failed(
        "ConfigurationError", "'shop' refuses the job\x1b]0;owned\x07\x1b[2J" + "A" * 9000, ""
    )
    lie = lying(mesh, job, lambda told: forged if isinstance(told, meeting.Held) else told)
    failed = play(job, sites, mesh, lie)
    for error in (failed[GATEKEEPER], failed["shop"], failed["insurer"]):
        assert "at 'bank': 'shop' refuses the job" in str(error)
        assert "\x1b" not in str(error)
        assert len(str(error)) < 5000


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 3e9, 1e300])
def test_who_has_no_time_to_tell_is_refused_by_its_own_name(tmp_path, seconds):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    lie = changing(meeting.Held, lambda told: {"seconds": seconds})
    failed = play(job, sites, mesh, lying(mesh, job, lie))
    assert "'bank' told what cannot be read" in str(failed[GATEKEEPER])


def test_a_version_acts_upon_no_terminal(tmp_path):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    lie = changing(meeting.Brings, lambda told: {"version": "0.1\x1b[2J" + "A" * 1000})
    failed = play(job, sites, mesh, lying(mesh, job, lie))
    assert "different versions of colonnade" in str(failed[GATEKEEPER])
    for error in failed.values():
        assert "\x1b" not in str(error)
        assert len(str(error)) < 1000


@pytest.mark.parametrize("round", [10**6, 0])
def test_no_site_is_where_the_gate_does_not_let_it(tmp_path, round):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()

    def lie(told):
        if not isinstance(told, control.Reached) or told.round != 5:
            return told
        return msgspec.structs.replace(told, round=round)

    failed = play(job, sites, mesh, lying(mesh, job, lie))
    assert f"'bank' tells that it is before round {round}, and it was" in str(failed[GATEKEEPER])


def test_a_site_tells_no_more_than_there_can_be(tmp_path, monkeypatch):
    monkeypatch.setattr(what_came, "_OF_A_ROUND", 2**16)
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()
    flood = control.Recorded([], [(("insurer", number),) for number in range(10**6)])
    server = heard_of(Host(job, mesh.post(GATEKEEPER)), "bank", flood)
    failed = play(job, sites, mesh, server)
    assert "'bank' tells more of the run than there can be" in str(failed[GATEKEEPER])


def test_no_site_says_what_another_has_sent(tmp_path):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()
    entry = Entry("shop", "insurer", "embedding", Purpose.TRAINING, 0, 0, 10, 20, None)
    server = heard_of(Host(job, mesh.post(GATEKEEPER)), "bank", control.Recorded([entry]))
    failed = play(job, sites, mesh, server)
    assert "'bank' tells what 'shop' has sent" in str(failed[GATEKEEPER])


def test_no_site_reports_in_the_name_of_another(tmp_path):
    _, job, sites = prepared(tmp_path)
    mesh, told = Mesh(), []
    forged = control.Reported({"organisation": "insurer", "validation_auc": 1.0, "round": 0})
    server = Host(job, mesh.post(GATEKEEPER), on_report=told.append)
    assert play(job, sites, mesh, heard_of(server, "bank", forged)) == {}
    assert [each["organisation"] for each in told if each.get("validation_auc") == 1.0] == ["bank"]


def test_nobody_but_the_label_holder_is_told_what_came_of_all(tmp_path):
    _, job, sites = prepared(tmp_path)
    told = []
    mesh = Mesh()
    server = Host(job, mesh.post(GATEKEEPER))
    server._tell = lambda name, message, tell=server._tell: (
        told.append((name, type(message))),
        tell(name, message),
    )
    note = server._came.note

    def noted(name, message, size):
        note(name, message, size)
        if name == "bank" and isinstance(message, control.Played):
            server._deliver("bank", meeting.encode(meeting.Concluding()))

    server._came.note = noted
    failed = play(job, sites, mesh, server)
    assert "'bank' told Concluding out of turn" in str(failed[GATEKEEPER])
    assert ("bank", meeting.End) not in told
