"""Alignment without showing ids: who is in all tables, who sees what, and what is refused."""

from __future__ import annotations

import builtins
import hashlib
import json
import struct
import tracemalloc
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade import cli
from colonnade.alignment import (
    Kept,
    align_privately,
    read_alignment,
    who_learns_what,
    write_alignment,
)
from colonnade.config import parse_config
from colonnade.config.aligning import aligning
from colonnade.drivers import Assignment, Processes, Simulate
from colonnade.effects import Send
from colonnade.errors import ConfigurationError, DataError, DataWarning, RemoteProtocolError
from colonnade.roles.align import AlignLabelHolder, AlignParty, Meeting
from colonnade.roles.align_bodies import read_count, read_marks, read_points
from colonnade.secure import POINT_BYTES, CurveBlinding, Keystream, Secrets, in_all, shuffle
from colonnade.tables import IdForm, align
from colonnade.tables.own_ids import OwnIds

NAMES = ("bank", "shop", "clinic", "insurer")


class Symbolic:
    """Points that tell whose keys and veils are on them: to see who could compare what."""

    def __init__(self, source: Any) -> None:
        self.bit = 1 << NAMES.index(source.name)

    def _points(self, ids: Any, veil: int) -> bytes:
        return b"".join(
            b"\2"
            + hashlib.sha256(each.encode()).digest()[:16]
            + self.bit.to_bytes(8, "little")
            + veil.to_bytes(8, "little")
            for each in ids
        )

    def blind(self, ids: Any) -> bytes:
        return self._points(ids, 0)

    def veiled(self, ids: Any) -> bytes:
        return self._points(ids, self.bit)

    def _changed(self, points: bytes, at: int) -> bytes:
        made = np.frombuffer(points, np.uint8).reshape(-1, POINT_BYTES).copy()
        assert not (made[:, 17] & self.bit).any() if at == 17 else (made[:, 25] == self.bit).all()
        made[:, at] ^= self.bit
        return made.tobytes()

    def again(self, points: bytes) -> bytes:
        return self._changed(points, 17)

    def unveiled(self, points: bytes) -> bytes:
        return self._changed(points, 25)


class Through:
    """A role whose messages are seen, and maybe changed, as they leave."""

    def __init__(self, role: Any, change: Any = None) -> None:
        self.role, self.sent = role, list[Send]()
        self.name, self.peers, self.round, self.agreed = role.name, role.peers, 0, role.agreed
        self._change = change

    async def run(self) -> None:
        inner, answer = self.role.run(), None
        while True:
            try:
                effect = inner.send(answer)
            except StopIteration:
                return
            if isinstance(effect, Send):
                if self._change is not None:
                    effect.body = self._change(effect)
                self.sent.append(effect)
            answer = await effect

    def state_dict(self) -> dict[str, Any]:
        return dict(self.role.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.role.load_state_dict(state)


def names_of(count: int) -> tuple[str, ...]:
    return (*NAMES[: count - 1], NAMES[-1])


def cast(tables: dict[str, Any], piece: int = 3, blinding: Any = CurveBlinding) -> list[Any]:
    *parties, holder = tables
    meeting = Meeting(tuple(parties), holder, piece=piece)
    own = {name: OwnIds(name, {name: {"id": ids}}, "id") for name, ids in tables.items()}
    secret = Secrets.insecure(7)
    return [
        *(AlignParty(meeting, name, own[name], secret, blinding) for name in parties),
        AlignLabelHolder(meeting, own[holder], secret, blinding),
    ]


def aligned(tables: dict[str, Any], driver: Any = None, **more: Any) -> tuple[list[Any], Any, Any]:
    """Return the ids in common, which are the same at all; the record; the roles."""
    roles = cast(tables, **more)
    meeting = Meeting(tuple(tables)[:-1], tuple(tables)[-1], piece=more.get("piece", 3))
    record = (driver or Simulate()).run(roles, Assignment(limits=meeting.limits()))
    found = [role.ids.values[role.places.numpy()].to_list() for role in roles]
    assert all(each == found[0] for each in found)
    return found[0], record, roles


def subsets(of: int) -> list[list[int]]:
    return [list(some) for n in range(1, of + 1) for some in combinations(range(of), n)]


# What is in common


@pytest.mark.parametrize(("count", "of"), [(2, 3), (3, 2), (4, 2)])
def test_all_small_tables(count: int, of: int) -> None:
    for tables in product(subsets(of), repeat=count):
        given_ = dict(zip(names_of(count), tables, strict=True))
        found, _, roles = aligned(given_, piece=2, blinding=Symbolic)
        assert found == sorted(set.intersection(*map(set, tables)))
        last = set(tables[-1])
        assert list(roles[-1].absent.values()) == [len(last - set(each)) for each in tables[:-1]]
        assert roles[0].counts == {name: len(ids) for name, ids in given_.items()}


@pytest.mark.parametrize(
    "tables",
    [
        [[5, -3, 2**63 - 1, 0], [0, -3, 7, 2**63 - 1]],
        [["b", "a", "\u00e9", "e\u0301"], ["\u00e9", "x\0y", "b", " b"], ["b", "\u00e9", "x\0y"]],
        [["\U0001f600", "\ufb01", "0", "-1", "a,b\n"], ["a,b\n", "f", "\U0001f600", "0"]],
        [["same", "all"]] * 4,
        [["x"], ["y"]],
        [list(range(40)), list(range(30, 32)), list(range(20, 60)), [31, 30, 29]],
    ],
)
def test_curve_points_find_what_an_open_alignment_finds(tables: list[Any]) -> None:
    given_ = dict(zip(names_of(len(tables)), tables, strict=True))
    found, _, _ = aligned(given_)
    frames = {name: pl.DataFrame({"id": ids}) for name, ids in given_.items()}
    if found:
        assert found == align(frames, "id").ids.to_list()
    else:
        with pytest.raises(DataError, match="no id occurs in all tables"):
            align(frames, "id")


def test_both_drivers_send_the_same_and_find_the_same() -> None:
    tables = {name: list(range(k, 40, k + 1)) for k, name in enumerate(NAMES)}
    found, expected, _ = aligned(tables, piece=8)
    again, record, roles = aligned(tables, Processes(), piece=8)
    assert again == found == [x for x in range(40) if all(x in ids for ids in tables.values())]
    assert record.ledger.without_time() == expected.ledger.without_time()
    lacks = {n: len({*tables["insurer"]} - {*ids}) for n, ids in tables.items() if n != "insurer"}
    assert roles[-1].absent == lacks
    assert [role.round for role in roles] == [1] * 4
    Simulate().run(roles, Assignment())  # what is aligned stays as it is
    assert roles[0].ids.values[roles[0].places.numpy()].to_list() == found


def test_a_key_is_of_one_alignment_alone() -> None:
    tables = {"bank": ["ann", "bob"], "insurer": ["bob", "eve"]}
    meeting = Meeting(("bank",), "insurer")
    bodies = set()
    for secret in [Secrets.system()] * 2:  # one root, two starts
        own = {name: OwnIds(name, {name: {"id": ids}}, "id") for name, ids in tables.items()}
        bank = Through(AlignParty(meeting, "bank", own["bank"], secret))
        holder = AlignLabelHolder(meeting, own["insurer"], secret)
        Simulate().run([bank, holder], Assignment())
        (points,) = (send.body for send in bank.sent if send.part == 0 and send.kind == "blinded")
        bodies |= {points[:POINT_BYTES], points[POINT_BYTES:]}
    assert len(bodies) == 4


@given(st.lists(st.sets(st.integers(0, 12), max_size=9), min_size=1, max_size=4))
@settings(max_examples=60)
def test_what_is_in_all_is_that_of_sets(tables: list[set[int]]) -> None:
    values = [
        np.array([[n % 3] * 8 + [n] * 8 for n in each], np.uint8).reshape(-1, 16) for each in tables
    ]
    found = in_all(values)
    common = set.intersection(*tables)
    for each, marks in zip(tables, found.shared, strict=True):
        assert {n for n, mark in zip(each, marks, strict=True) if mark} == common
    assert list(found.absent) == [len(tables[-1] - each) for each in tables]
    if tables[0]:
        assert in_all([np.concatenate([values[0], values[0][:1]]), *values[1:]]).twice == 0


def test_a_shuffle_has_every_number_once_and_every_order_as_often() -> None:
    stream = Keystream(bytes(16))
    seen = [tuple(shuffle(3, stream)) for _ in range(6000)]
    counts = [seen.count(order) for order in {*seen}]
    assert len(counts) == 6
    # Chi-squared with 5 degrees of freedom: 30 is passed once in 10^5 times; this is one stream.
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 30
    assert shuffle(0, stream).tolist() == []


# Who sees what


@pytest.mark.parametrize("count", [2, 3, 4])
def test_parties_together_see_no_two_tables_that_can_be_compared(count: int) -> None:
    tables = {name: list(range(k, k + 9)) for k, name in enumerate(names_of(count))}
    roles = [Through(role) for role in cast(tables, piece=4, blinding=Symbolic)]
    Simulate().run(roles, Assignment())
    heard = [(send, role.name) for role in roles for send in role.sent]
    holder = names_of(count)[-1]
    parties = names_of(count)[:-1]
    for size in range(1, count):
        for coalition in combinations(parties, size):
            own = sum(1 << NAMES.index(name) for name in coalition)
            seen: dict[tuple[int, int], set[str]] = {}
            for send, _ in heard:
                if send.receiver in coalition and send.kind == "blinded" and send.body:
                    whose = names_of(count)[send.part % count]
                    keys, veils = send.body[17] & ~own, send.body[25] & ~own
                    seen.setdefault((keys, veils), set()).add(whose)
            for (keys, veils), owners in seen.items():
                if owners - {*coalition}:  # what is blinded by nobody else they could guess at
                    assert keys or veils, (coalition, owners)
                    assert len(owners) == 1, (coalition, owners)
    for send, sender in heard:  # and to the label holder everything comes without a veil
        if send.receiver == holder and send.kind == "blinded" and send.body:
            assert send.body[25] == 0
            assert names_of(count)[send.part % count] == sender


def test_no_id_travels_and_orders_are_hidden() -> None:
    tables = {name: [f"planted-{n:03}" for n in range(k, k + 50)] for k, name in enumerate(NAMES)}
    roles = [Through(role) for role in cast(tables, piece=16)]
    record = Simulate().run(roles, Assignment())
    bodies = [send.body for role in roles for send in role.sent]
    assert not any(b"planted" in body or b"001" in body for body in bodies)
    assert "planted" not in str(record.history)
    symbolic = [Through(role) for role in cast(tables, piece=50, blinding=Symbolic)]
    Simulate().run(symbolic, Assignment())
    order = [hashlib.sha256(each.encode()).digest()[:16] for each in tables["insurer"]]

    def points(role: Through, kind: str) -> list[bytes]:
        (body,) = (s.body for s in role.sent if s.kind == kind and s.part % 4 == 3 and s.body)
        return [body[at + 1 : at + 17] for at in range(0, len(body), POINT_BYTES)]

    sent, back = points(symbolic[3], "blinded"), points(symbolic[2], "shuffled")
    assert sorted(order) == sorted(sent) == sorted(back)
    assert len({tuple(order), tuple(sent), tuple(back)}) == 3


def test_the_statement_names_who_learns_more() -> None:
    two, four = (" ".join(who_learns_what(Meeting(parties, "x"))) for parties in (("a",), NAMES))
    assert "'x'" not in two  # with one party all is symmetric
    assert "if 'x' and a party put together" in four
    assert "with 'insurer' who has each id of 'x'" in four


# What is refused


def test_ids_that_are_missing_or_twice_are_told_by_row_and_not_shown() -> None:
    with pytest.raises(DataError, match=r"^'bank' has the same id in row 1 and in row 2 ") as told:
        OwnIds("bank", {"bank": {"id": ["u-771", "u-772", "u-772"]}}, "id")
    assert "u-77" not in str(told.value)
    for gap in (None, ""):
        with pytest.raises(DataError, match=r"^'bank' has no id in row 1"):
            OwnIds("bank", {"bank": {"id": ["u-771", gap]}}, "id")
    with pytest.raises(DataError, match="'bank, labels' has the same id in row 0 and in row 1"):
        OwnIds("bank", {"bank": {"id": ["a"]}, "labels": {"id": ["A", "a "]}}, "id", IdForm())
    with pytest.raises(DataError, match="no id occurs in all tables of 'bank'"):
        OwnIds("bank", {"bank": {"id": ["a"]}, "labels": {"id": ["b"]}}, "id")
    with pytest.raises(DataError, match="text in another"):
        OwnIds("bank", {"bank": {"id": ["a"]}, "labels": {"id": [1]}}, "id")


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=str)
def test_ids_of_two_kinds_are_refused_in_words(driver: Any) -> None:
    tables = {"bank": {"id": [1, 2]}, "insurer": {"id": ["1", "2"]}}
    with pytest.raises(DataError, match=r"ids of '\w+' are .* and those of '\w+' .*give both"):
        align_privately(tables, "insurer", id="id", driver=driver)
    found = align_privately(tables, "insurer", id="id", normalise=IdForm())
    assert found["bank"].ids.to_list() == ["1", "2"]


def test_nobody_in_common_is_refused_in_words() -> None:
    tables = {"bank": {"id": [1]}, "shop": {"id": [2]}, "insurer": {"id": [1, 2]}}
    with pytest.raises(DataError, match="no id is in all tables of 'bank', 'shop', 'insurer'"):
        align_privately(tables, "insurer", id="id")
    with pytest.raises(ConfigurationError, match="'bakery' has no table"):
        align_privately(tables, "bakery", id="id")
    with pytest.raises(ConfigurationError, match="needs a party"):
        Meeting((), "insurer")
    with pytest.raises(ConfigurationError, match="'shop' is no party"):
        AlignParty(Meeting(("bank",), "insurer"), "shop", cast_ids(), Secrets.insecure(1))


def cast_ids() -> OwnIds:
    return OwnIds("shop", {"shop": {"id": [1]}}, "id")


def test_who_agreed_on_another_piece_or_form_does_not_align() -> None:
    one, other = (Meeting(("bank",), "insurer", piece=piece) for piece in (2, 3))
    bank = AlignParty(one, "bank", cast_ids(), Secrets.insecure(1))
    with pytest.raises(ConfigurationError, match="agreements of 'bank' and of 'insurer' differ"):
        Simulate().run(
            [bank, AlignLabelHolder(other, cast_ids(), Secrets.insecure(1))], Assignment()
        )


SPOILT = {
    "shorter": lambda body: body[:-1],
    "longer": lambda body: body + b"\0",
    "filled": lambda body: b"\xff" * len(body),
}


@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize(
    ("who", "kind"),
    [
        ("bank", "sizes"),
        ("insurer", "sizes"),
        ("bank", "blinded"),
        ("shop", "blinded"),
        ("insurer", "blinded"),
        ("shop", "shuffled"),
        ("insurer", "next"),
        ("insurer", "common"),
        ("insurer", "common_shuffled"),
        ("shop", "common"),
    ],
)
def test_what_is_spoilt_is_refused_by_the_name_of_who_sent_it(
    who: str, kind: str, how: str
) -> None:
    if (kind, how) in (("next", "shorter"), ("next", "filled"), ("shuffled", "filled")):
        pytest.skip("it has no byte to lose, or is compared as it is: see below")
    tables = {"bank": [1, 2, 3], "shop": [3, 2, 9], "insurer": [2, 4, 3]}

    def change(send: Send) -> bytes:
        empty = send.kind == "blinded" and not send.body
        return SPOILT[how](send.body) if send.kind == kind and not empty else send.body

    roles = [Through(role, change if role.name == who else None) for role in cast(tables, 4)]
    with pytest.raises(RemoteProtocolError, match=f"'{who}'"):
        Simulate().run(roles, Assignment())


@pytest.mark.parametrize("who", ["bank", "shop"])
def test_a_count_that_is_claimed_takes_no_memory(who: str) -> None:
    def change(send: Send) -> bytes:
        return struct.pack("<BQ", send.body[0], 2**29) if send.kind == "sizes" else send.body

    tables = {"bank": [1, 2, 3], "shop": [3, 2, 9], "insurer": [2, 4, 3]}
    roles = [Through(role, change if role.name == who else None) for role in cast(tables, 4)]
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match=f"'{who}'"):
            Simulate().run(roles, Assignment())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**26


def test_digits_of_several_lengths_that_became_text_are_told() -> None:
    """A spreadsheet took zeros off some of them, and nobody else can see that."""
    digits = {"bank": {"id": [990275, 1090275, 2]}}
    with pytest.warns(DataWarning, match=r"'bank' are digits, 1 to 7 of them.*pad: 7"):
        assert len(OwnIds("bank", digits, "id", IdForm())) == 3
    OwnIds("bank", digits, "id", IdForm(pad=7))
    OwnIds("bank", digits, "id")
    OwnIds("bank", {"bank": {"id": ["u-77", "u-771"]}}, "id", IdForm())
    OwnIds("bank", {"bank": {"id": [990275, 190275]}}, "id", IdForm())


def test_an_id_that_comes_twice_is_refused_by_the_name_of_whose_it_is() -> None:
    tables = {"bank": [1, 2, 3], "shop": [3, 2, 9], "insurer": [2, 4, 3]}

    def twice(kind: str, whose: int) -> Any:
        def change(send: Send) -> bytes:
            if (send.kind, send.receiver, send.part % 3) != (kind, "insurer", whose):
                return send.body
            return send.body[:POINT_BYTES] * (len(send.body) // POINT_BYTES)

        return change

    for who, kind, whose, told in (
        ("bank", "blinded", 0, "an id of 'bank' came twice.*it was sent twice, or.*'shop'"),
        ("shop", "shuffled", 2, "an id of 'insurer' came twice.*hands it went.*'shop'"),
    ):
        change = twice(kind, whose)
        roles = [Through(role, change if role.name == who else None) for role in cast(tables, 4)]
        with pytest.raises(RemoteProtocolError, match=told):
            Simulate().run(roles, Assignment())


@given(st.binary(max_size=80), st.integers(0, 40))
@settings(max_examples=200)
def test_any_body_is_read_or_refused(body: bytes, count: int) -> None:
    for read, size in (
        (lambda: read_count(body, "bank"), 2),
        (lambda: read_points(body, count, "bank"), count * POINT_BYTES),
        (lambda: read_marks(body, count, "bank"), count),
    ):
        told = ""
        try:
            assert len(read()) == size
        except RemoteProtocolError as error:
            told = str(error)
        assert "'bank'" in told or not told


BLINDING = CurveBlinding(Secrets.insecure(3).begin("bank", 0))


@given(st.one_of(st.binary(max_size=99), st.binary(min_size=32, max_size=32).map(b"\2".__add__)))
@settings(max_examples=150)
def test_any_points_are_blinded_or_refused(points: bytes) -> None:
    try:
        assert len(BLINDING.again(points)) == len(points)
        assert BLINDING.unveiled(points) != BLINDING.again(points) or not points
    except RemoteProtocolError:
        pass


def test_points_are_those_of_every_release() -> None:
    """Frozen: organisations whose libraries hash ids to other points would find nobody."""
    points = BLINDING.blind(["ann", "\u00e9"]) + BLINDING.veiled(["ann"])
    assert hashlib.sha256(points).hexdigest()[:16] == "324f317d1fff2177"


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("private_set_intersection"):
            raise ImportError("GLIBC_2.35 not found")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigurationError, match=r"pip install 'colonnade\[align\]' \(GLIBC_2.35"):
        CurveBlinding(Secrets.insecure(3).begin("bank", 0))


# Files, configurations and the command


def kept(organisation: str = "bank", ids: Any = (3, 5), **more: Any) -> Kept:
    values = pl.Series("id", ids)
    everybody = ("bank", "insurer")
    return Kept(organisation, everybody, "id", "", {organisation: 9}, values, **more)


@pytest.mark.parametrize("ids", [[3, 5], ["7", "é\n", '"'], [-(2**63), 2**63 - 1]])
def test_a_file_holds_what_was_kept(tmp_path: Path, ids: list[Any]) -> None:
    write_alignment(kept(ids=ids, absent={"shop": 2}, learned=("all",)), tmp_path)
    found = read_alignment(tmp_path)["bank"]
    assert found.ids.to_list() == ids
    assert (found.left_out, found.absent) == ({"bank": 9 - len(ids)}, {"shop": 2})
    assert found.learned == ("all",)


def test_files_that_are_damaged_or_of_other_alignments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no alignment"):
        read_alignment(tmp_path)
    path = write_alignment(kept(), tmp_path)
    good = path.read_text()
    for bad, told in (
        (good.replace("[3, 5]", "[3, 6]"), "damaged"),
        (good.replace("[3, 5]", '[3, "5"]'), "ids that are text"),
        (good.replace("[3, 5]", f"[3, {2**64}]"), "no alignment"),
        (good.replace('"rows"', '"lines"'), "no alignment"),
        (good.replace('"bank": 9', '"bank": 8'), "it is not what was written"),
        (good.replace('"learned": []', '"learned": ["none"]'), "it is not what was written"),
        (good.replace('"absent": {}', '"absent": {"shop": 1}'), "it is not what was written"),
        (good.replace('"id": "id"', '"id": "key"'), "it is not what was written"),
        (good.replace("insurer", "insur\udce5r"), "no alignment"),  # bytes that are no UTF-8
        (good.replace("insurer", "insur\\ud800r"), "no alignment"),
        ("[" * 9999, "no alignment"),
    ):
        path.write_bytes(bad.encode(errors="surrogateescape"))
        with pytest.raises(DataError, match=told):
            read_alignment(tmp_path)
    path.write_text(good)
    (tmp_path / "other.json").write_text(good)
    with pytest.raises(DataError, match=r"two files in .* are those of 'bank'"):
        read_alignment(tmp_path)
    (tmp_path / "other.json").unlink()
    write_alignment(kept("insurer", (3, 7)), tmp_path)
    with pytest.raises(DataError, match=r"different alignments \(bank, insurer\)"):
        read_alignment(tmp_path)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the tables of three companies, and a configuration of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLONNADE_DATA", raising=False)
    people = [f"p{n:03}" for n in range(120)]
    tables = {
        "bank": pl.DataFrame({"ID": people[:100], "income": [n % 7 for n in range(100)]}),
        "shop": pl.DataFrame({"ID": people[::-1][:110], "visits": [n % 5 for n in range(110)]}),
        "labels": pl.DataFrame({"ID": people[5:], "ill": [n % 2 for n in range(115)]}),
    }
    for name, frame in tables.items():
        frame.write_csv(f"{name}.csv")
    config = {
        "data": {
            "id": "ID",
            "parties": {name: {"source": f"{name}.csv"} for name in ("bank", "shop")},
            "labels": {"source": "labels.csv", "column": "ill"},
        },
        "label_holder": {"name": "insurer"},
        "training": {"epochs": 1},
    }
    Path("three.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["colonnade", *words])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return int(left.value.code or 0)


def test_the_command_writes_what_a_run_takes(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "align", "three.yaml") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "bank bank 100 90 10 20" in told
    assert "insurer labels 115 90 25" in told
    assert "p0" not in told
    config = yaml.safe_load(Path("three.yaml").read_text())
    plain = parse_config(config).data.load()
    config["data"]["alignment"] = "aligned/three"
    taken = parse_config(config).data.load()
    assert (taken.ids == plain.ids).all()
    assert (taken.features["shop"] == plain.features["shop"]).all()
    assert taken.left_out == plain.left_out == {"bank": 10, "shop": 20, "labels": 25}
    more = pl.DataFrame({"ID": ["p119"], "income": [3]})
    pl.concat([pl.read_csv("bank.csv"), more]).write_csv("bank.csv")  # who came later is left out
    assert (parse_config(config).data.load().ids == plain.ids).all()
    pl.read_csv("bank.csv").filter(pl.col("ID") != "p050").write_csv("bank.csv")
    with pytest.raises(DataError, match="1 of the 90 people that were aligned are not in all"):
        parse_config(config).data.load()
    config["data"]["ids"] = {}
    with pytest.raises(ConfigurationError, match=r"data\.alignment: .* is of ids in the column"):
        parse_config(config).data.load()


def test_who_is_left_out_is_neither_aligned_nor_read(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of what `align` wrote asked for the file of who was left out."""
    config = yaml.safe_load(Path("three.yaml").read_text())
    config["data"] |= {"leave_out": ["shop"], "alignment": "aligned/two"}
    Path("two.yaml").write_text(yaml.safe_dump(config))
    Path("shop.csv").unlink()
    assert command(monkeypatch, "align", "two.yaml", "--set", "data.leave_out=[shop]") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "colonnade run two.yaml --set 'data.leave_out=[shop]' --set data.align" in told
    data = parse_config(config).data.load()
    assert [*data.features] == ["bank"]
    assert len(data.ids) == 95
    assert command(monkeypatch, "run", "two.yaml", "--quiet", "--set", "training.epochs=1") == 0
    for wrong, said in (
        ("data.leave_out=[pub]", "data.leave_out: there is no party 'pub'; there are bank, shop"),
        ("data.leave_out=[bank, shop]", "data.leave_out: leaves out every party"),
        ("label_holder.holds=shop", "label_holder.holds: there is no table 'shop'; there are bank"),
        ("label_holder.holds=bank", "a federation needs a party besides the label holder"),
    ):
        for words in (("align",), ("deploy", "--to", "job")):
            capsys.readouterr()
            assert command(monkeypatch, words[0], "two.yaml", *words[1:], "--set", wrong) == 2
            assert said in " ".join(capsys.readouterr().err.split())
            assert not Path("job").exists()


def test_each_organisation_in_its_own_process(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("align", "three.yaml", "--out", "apart", "--json", "--set", "driver=processes")
    two = ("--set", "data.leave_out=[shop]")  # a process takes seconds to start
    assert command(monkeypatch, *words, *two) == 0
    told = capsys.readouterr()
    rows = {each["organisation"]: each for each in map(json.loads, told.out.splitlines())}
    assert {name: each["in_common"] for name, each in rows.items()} == {"bank": 95, "insurer": 95}
    assert rows["insurer"]["absent"] == {"bank": 20}
    blinded = [json.loads(line) for line in told.err.splitlines()]
    assert blinded[-1]["ids"] == blinded[-1]["of"] == 2 * (100 + 115)
    assert (
        read_alignment(place / "apart")["bank"].ids == [f"p{n:03}" for n in range(5, 100)]
    ).all()


def test_the_command_says_what_is_wrong(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other").mkdir()
    Path("other/notes.json").write_text("{}")
    assert command(monkeypatch, "align", "three.yaml", "--out", "other") == 2
    assert "holds notes.json" in capsys.readouterr().err
    Path("mine").mkdir()
    Path("mine/bank.json").write_text("{}")
    assert command(monkeypatch, "align", "three.yaml", "--out", "mine") == 2
    assert "was not written by Colonnade" in capsys.readouterr().err
    assert command(monkeypatch, "align", "three.yaml", "--set", "data=mnist5k") == 2
    assert "align tables of their own" in capsys.readouterr().err
    assert command(monkeypatch, "align", "three.yaml", "--set", "label_holder.name=shop") == 2
    assert "{holds: shop} if the labels are its own" in capsys.readouterr().err
    again = pl.read_csv("shop.csv").with_columns(pl.col("ID").replace("p119", "p118"))
    again.write_csv("shop.csv")
    assert command(monkeypatch, "align", "three.yaml") == 2
    told = capsys.readouterr().err
    assert "'shop' has the same id in row 0 and in row 1" in told
    assert "p118" not in told
    assert not Path("aligned").exists()


def test_who_has_labels_and_columns_aligns_both_of_its_tables_by_itself(place: Path) -> None:
    config = yaml.safe_load(Path("three.yaml").read_text())
    config["label_holder"] = {"name": "insurer", "holds": "bank"}
    meeting, organisations = aligning(parse_config(config))
    assert (meeting.parties, meeting.label_holder) == (("shop",), "insurer")
    own = organisations[-1].read()
    assert own.rows == {"bank": 100, "labels": 115}
    assert len(own) == 95
    config["data"]["id"] = None
    config["data"]["aligned"] = True
    with pytest.raises(ConfigurationError, match="which column says whom"):
        aligning(parse_config(config))
