"""Secure sums: what they add, who may be lost when, and what nobody learns."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from colonnade.errors import RemoteProtocolError, TooFewSurvivors
from colonnade.secure import (
    Identity,
    Keystream,
    Secrets,
    SumHolder,
    SumParty,
    Sums,
    double_masking,
    masks,
    recover,
    verify,
    words_of,
)

BITS, WORDS, HOLDER = 9, 11, "holder"


class Sum:
    """Sums of a few parties whose messages the test carries, or loses."""

    def __init__(self, parties: int, threshold: int, incarnation: int = 0, **more) -> None:
        self.names = tuple(f"party_{i}" for i in range(parties))
        self.sums = Sums(self.names, threshold, BITS, **more)
        self.holder = SumHolder(self.sums, HOLDER, incarnation)
        self.parties = {}
        for name in self.names:
            source = Secrets.insecure(5).begin(name, incarnation)
            self.parties[name] = SumParty(self.sums, name, HOLDER, source)
        self.uploads, self.answers, self.requests = {}, {}, {}

    def start(self, gone: Iterable[str] = ()) -> None:
        """Agree on keys, and offer for the first sum; whoever is gone offers nothing."""
        keys = self.holder.meet({name: party.key() for name, party in self.parties.items()})
        here = [name for name in self.names if name not in gone]
        for name in here:
            self.parties[name].meet(keys)
        self.holder.offers({name: self.parties[name].offer() for name in here})
        self.requests = self.holder.requests()
        for name in here:
            self.parties[name].join(self.requests[name])
        self.holder.advance()

    def upload(self, values: dict[str, np.ndarray]) -> None:
        """Let these parties upload; those of them that are no members offer."""
        self.uploads = {
            name: self.parties[name].upload(words_of(mine, BITS))
            for name, mine in values.items()
            if name in self.parties[name].members
        }
        offers = {n: self.parties[n].offer() for n in values if n not in self.uploads}
        self.holder.uploads(self.uploads, WORDS)
        self.holder.offers(offers)
        self.requests = self.holder.requests()

    def reveal(self, lost: Iterable[str] = ()) -> np.ndarray:
        """Let everybody answer but those that are lost, and return the sum."""
        self.ask(lost)
        total = self.holder.total(self.answers)
        self.holder.advance()
        return total

    def ask(self, lost: Iterable[str] = ()) -> None:
        """Let everybody answer but those that are lost; contributors confirm where one is."""
        here = [name for name in self.names if name not in lost]
        heard = {name: self.parties[name].hear(self.requests[name]) for name in here}
        self.answers = {name: due.answer for name, due in heard.items() if due.answer is not None}
        signed = {n: due.confirmation for n, due in heard.items() if due.confirmation is not None}
        if signed:
            told = self.holder.confirmations(signed)
            self.answers = {name: self.parties[name].confirmed(told) for name in signed}

    def request(self, to: str, contributors: Iterable[str], members: Iterable[str]) -> bytes:
        """Return what a label holder might tell one party, and another one otherwise."""
        holder, members = self.holder, tuple(members)
        body = holder._tag(HOLDER, holder._number)
        body += self.sums.marked(contributors) + self.sums.marked(members)
        return body + (holder._offered_to(to, members) if to in members else b"")


def drawn(seed: int, names: Iterable[str]) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: generator.integers(0, 2**BITS // 8, WORDS) for name in names}


def plain(values: dict[str, np.ndarray], names: Iterable[str]) -> np.ndarray:
    return sum(values[name] for name in names) % 2**BITS


STAGES = ("stays", "after keys", "after shares", "after masks")


UP_TO_FIVE = [(m, t) for m in range(2, 6) for t in range(2, m + 1)]


@pytest.mark.parametrize(
    ("parties", "threshold", "incarnation"),
    [(m, t, 0) for m, t in [*UP_TO_FIVE, (6, 4), (6, 5), (6, 6)]]
    + [(m, t, 3) for m, t in UP_TO_FIVE if m < 5],
)
def test_a_sum_is_that_of_those_who_uploaded_whoever_is_lost_when(
    parties, threshold, incarnation, monkeypatch
):
    """Every pattern of up to M - threshold parties lost at every stage; of four, after a resume."""
    monkeypatch.setattr(double_masking, "verify", functools.cache(verify))  # each party does
    for lost in _lost(parties, parties - threshold):
        _add(parties, threshold, incarnation, lost)


def test_sums_of_six_with_many_lost():
    """As before, of patterns with more lost than a majority allows; every thirtieth of them."""
    for threshold in (2, 3):
        for lost in itertools.islice(_lost(6, 6 - threshold), 0, None, 30):
            _add(6, threshold, 0, lost)


def _add(parties, threshold, incarnation, lost):
    sums = Sum(parties, threshold, incarnation)
    stage = {name: lost.get(i, 0) for i, name in enumerate(sums.names)}
    sums.start(gone=[name for name in sums.names if stage[name] == 1])
    values = drawn(7, sums.names)
    here = [name for name in sums.names if stage[name] in (0, 3)]
    sums.upload({name: values[name] for name in here})
    told = sums.reveal(lost=[name for name in sums.names if stage[name]])
    assert np.array_equal(told, plain(values, here)), stage


def _lost(parties: int, most: int):
    """Yield every choice of up to ``most`` parties with a stage for each at which it is lost."""
    for count in range(most + 1):
        for who in itertools.combinations(range(parties), count):
            for stages in itertools.product((1, 2, 3), repeat=count):
                yield dict(zip(who, stages, strict=True))


def test_a_party_that_was_late_comes_back():
    sums = Sum(4, 2)
    sums.start()
    names = sums.names
    present = [
        names,
        names[1:],  # the first is late,
        names[1:],  # offers anew,
        names,  # and is a member again
        (names[0], names[2]),
        (names[0], names[2]),
        names,
    ]
    for number, here in enumerate(present):
        values = drawn(number, names)
        offering = names if number in (2, 5) else here
        sums.upload({name: values[name] for name in offering})
        contributors = sums.uploads
        assert set(contributors) <= set(here)
        told = sums.reveal()
        assert np.array_equal(told, plain(values, contributors)), number
    assert set(contributors) == set(names)


def test_fewer_than_the_threshold_is_an_abort_that_asks_nobody():
    sums = Sum(4, 3)
    sums.start()
    values = drawn(1, sums.names[:2])
    with pytest.raises(TooFewSurvivors, match="only party_0, party_1 uploaded to sum 0") as found:
        sums.upload(values)
    assert "party_2, party_3 did not" in str(found.value)
    with pytest.raises(TooFewSurvivors, match="nobody uploaded to sum 0, and the"):
        sums.upload({})
    sums = Sum(4, 3)
    sums.start()
    sums.upload(drawn(1, sums.names))
    with pytest.raises(TooFewSurvivors, match="only party_3 revealed their shares"):
        sums.reveal(lost=sums.names[:3])


# What the label holder learns


def test_an_upload_that_comes_late_stays_masked_by_what_nobody_reveals():
    """All that was said for the sum, and the late upload, are no more than the others' sum."""
    told = []
    for value in (0, 2**BITS - 1):
        sums = Sum(3, 2)
        sums.start()
        values = drawn(3, sums.names) | {"party_0": np.full(WORDS, value)}
        late = sums.parties["party_0"].upload(words_of(values["party_0"], BITS))
        sums.upload({name: values[name] for name in sums.names[1:]})
        assert np.array_equal(sums.reveal(), plain(values, sums.names[1:]))
        assert set(sums.answers) == set(sums.names[1:])
        # Its mask key is known now, and with it its masks with the others; its own mask is not.
        (own,) = (sums.sums.holder_number("party_0"),)
        revealed = {
            sums.sums.holder_number(name): body[double_masking.TAG_BYTES :][:32]
            for name, body in sums.answers.items()
        }
        assert own not in revealed
        told.append((late, sums.answers))
    # The two courses differ in nothing but the words of the late upload.
    (one, answers), (other, others) = told
    assert answers == others
    head = Sum(3, 2).sums.offer_bytes
    assert one[:head] == other[:head]
    assert one[head:] != other[head:]


def test_a_party_reveals_one_secret_of_each_member_and_only_once():
    sums = Sum(3, 2)
    sums.start()
    sums.upload(drawn(2, sums.names))
    party, request = sums.parties["party_0"], sums.requests["party_0"]
    contributors, answer, confirmation = party.hear(request)
    assert len(answer) == sums.sums.answer_bytes
    assert confirmation is None  # nobody is lost
    assert contributors == sums.names
    with pytest.raises(RemoteProtocolError, match="another sum than number 1"):
        party.hear(request)  # the label holder asks again, as it might with other contributors


@pytest.mark.parametrize(
    ("named", "wrong"),
    [
        ("", "'holder' names nobody as contributing to sum 0, where 3 are the least"),
        ("b", "'holder' names only party_1 as contributing to sum 0, where 3 are the least"),
        ("ab", "'holder' names only party_0, party_1 as contributing to sum 0, where 3 are"),
        ("abcd", "names party_3 as contributing to sum 0, to which only party_0, party_1, party_2"),
        ("bcd", "names party_3 as contributing to sum 0, to which only party_0, party_1, party_2"),
    ],
)
def test_a_label_holder_that_names_too_few_or_strangers_is_refused(named, wrong):
    sums = Sum(4, 3)
    sums.start(gone=["party_3"])
    sums.upload(drawn(2, sums.names[:3]))
    request = sums.request("party_0", of(sums, named), sums.names[:3])
    with pytest.raises(RemoteProtocolError, match=wrong):
        sums.parties["party_0"].hear(request)


@pytest.mark.parametrize(
    ("named", "wrong"), [("abc", "names party_2 as contributing"), ("ab", "names only party_0")]
)
def test_who_is_no_member_refuses_what_cannot_be_of_others(named, wrong):
    sums = Sum(4, 3)
    sums.start()
    values = drawn(2, sums.names)
    here = {name: values[name] for name in of(sums, "abd")}
    sums.upload(here)
    sums.reveal()
    sums.upload(here)
    party = sums.parties["party_2"]
    assert party.members == ()
    with pytest.raises(RemoteProtocolError, match=wrong):
        party.hear(sums.request("party_2", of(sums, named), ()))


def test_nobody_contributes_where_members_are_told_alone():
    sums = Sum(3, 2)
    keys = sums.holder.meet({name: party.key() for name, party in sums.parties.items()})
    for party in sums.parties.values():
        party.meet(keys)
    sums.holder.offers({name: party.offer() for name, party in sums.parties.items()})
    request = sums.request("party_0", sums.names[:2], sums.names)
    with pytest.raises(RemoteProtocolError, match="party_0, party_1 as contributing, where"):
        sums.parties["party_0"].join(request)


# A label holder that lies


def told_apart(contributors=None, members=None, threshold=3):
    """Return sums of five whose label holder tells each party what it likes, and their words."""
    sums = Sum(5, threshold)
    names = sums.names
    keys = sums.holder.meet({name: party.key() for name, party in sums.parties.items()})
    for party in sums.parties.values():
        party.meet(keys)
    sums.holder.offers({name: party.offer() for name, party in sums.parties.items()})
    for name, party in sums.parties.items():
        party.join(sums.request(name, (), (members or {}).get(name, names)))
    sums.holder.advance()
    sums.listed = {name: party.members for name, party in sums.parties.items()}
    values = drawn(4, names)
    sums.upload(values)
    for name in names:
        told = (contributors or {}).get(name, sums.parties[name].members)
        sums.requests[name] = sums.request(name, told, names)
    return sums, values


def of(sums, letters):
    """Return the parties that letters stand for: "ac" is the first and the third."""
    return tuple(sums.names["abcde".index(letter)] for letter in letters)


NAMES = Sum(5, 3)


def test_who_is_told_of_fewer_members_than_the_threshold_refuses():
    lists = {"party_0": ("party_0",)}
    with pytest.raises(
        RemoteProtocolError, match="names only party_0 as members of sum 0, where 3"
    ):
        told_apart(members=lists)


@pytest.mark.parametrize("told", ["abd abe abc abd abe", "abc abd abc abd abe"])
def test_parties_that_are_told_of_other_contributors_reveal_nothing(told):
    """Such sets of three would tell the words of two; no three are the same."""
    lists = dict(zip(NAMES.names, (of(NAMES, each) for each in told.split()), strict=True))
    sums, _ = told_apart(lists)
    heard = {name: party.hear(sums.requests[name]) for name, party in sums.parties.items()}
    assert all(due.answer is None for due in heard.values())
    confirming = {n: due.confirmation for n, due in heard.items() if due.confirmation is not None}
    for name in confirming:
        for chosen in itertools.combinations(confirming, 3):
            sums.holder._uploads = {n: sums.uploads[n] for n in heard[name].contributors}
            told = sums.holder.confirmations({n: confirming[n] for n in chosen})
            with pytest.raises(RemoteProtocolError, match="did not sign the members and contr"):
                sums.parties[name].confirmed(told)


def test_who_uploaded_for_other_members_is_not_revealed():
    """All but one confirm that it contributed, and would give its masks with its members away."""
    lists = {"party_0": of(NAMES, "abc")}
    told = dict.fromkeys(NAMES.names, of(NAMES, "ade")) | {"party_0": of(NAMES, "abc")}
    sums, _ = told_apart(told, lists)
    confirming = {name: sums.parties[name].hear(sums.requests[name]) for name in of(sums, "de")}
    confirming = {name: due.confirmation for name, due in confirming.items()}
    sums.holder._uploads = {name: sums.uploads[name] for name in of(sums, "ade")}
    sums.holder._sums = Sums(sums.names, 2, BITS)  # it lies; two are too few, though
    with pytest.raises(RemoteProtocolError, match="has confirmations of 2 for sum 0, where 3"):
        sums.parties["party_3"].confirmed(sums.holder.confirmations(confirming))
    told = dict.fromkeys(NAMES.names, of(NAMES, "acde")) | {"party_0": of(NAMES, "abc")}
    sums, _ = told_apart(told, lists)
    confirming = {name: sums.parties[name].hear(sums.requests[name]) for name in of(sums, "cde")}
    confirming = {name: due.confirmation for name, due in confirming.items()}
    sums.holder._uploads = {name: sums.uploads[name] for name in of(sums, "acde")}
    for name in confirming:
        with pytest.raises(RemoteProtocolError, match="'party_0' did not sign the members"):
            sums.parties[name].confirmed(sums.holder.confirmations(confirming))


def test_masks_of_parties_that_were_told_of_other_members_do_not_vanish():
    """All reveal, since all of their members contributed: own masks are known, and no others."""
    alone, _ = told_apart(members={"party_0": of(NAMES, "abc")})
    same, values = told_apart(members=dict.fromkeys(of(NAMES, "abc"), of(NAMES, "abc")))
    for sums in (alone, same):
        sums.answers = {n: p.hear(sums.requests[n]).answer for n, p in sums.parties.items()}
        assert None not in sums.answers.values()
    three = of(NAMES, "abc")
    own = {name: masks_off(same, name) for name in three}
    assert np.array_equal(plain(own, three), plain(values, three))  # which they were told of
    own = {name: masks_off(alone, name) for name in NAMES.names}
    for count in range(1, 6):
        for chosen in itertools.combinations(NAMES.names, count):
            assert not np.array_equal(plain(own, chosen), plain(values, chosen)), chosen


def masks_off(sums, name):
    """Return an upload without its own mask, from what was revealed of that."""
    total = masks.Total(WORDS, BITS)
    total.add(sums.uploads[name][sums.sums.head_bytes :], name)
    shares = {}
    for other, answer in sums.answers.items():
        members = sums.listed[other]
        if name in members:
            start = double_masking.TAG_BYTES + 32 * members.index(name)
            shares[sums.sums.holder_number(other)] = answer[start : start + 32]
    secret = recover(shares, sums.sums.threshold, 32, "a self mask")
    total.unmask(added=[sums.holder._self_mask(secret)])
    return total.values.astype(np.int64)


# What uploads tell


def _uploads(value: int, seed: int, parties: int, bits: int, count: int) -> np.ndarray:
    """Return what parties with the same words upload, unpacked, [parties, words]."""
    names = tuple(f"party_{i}" for i in range(parties))
    sums = Sums(names, 2, bits)
    ends = {}
    for name in names:
        source = Secrets.insecure(seed).begin(name, 0)
        ends[name] = SumParty(sums, name, HOLDER, source)
    holder = SumHolder(sums, HOLDER, 0)
    keys = holder.meet({name: end.key() for name, end in ends.items()})
    for end in ends.values():
        end.meet(keys)
    holder.offers({name: end.offer() for name, end in ends.items()})
    for name, request in holder.requests().items():
        ends[name].join(request)
    told = []
    for place, name in enumerate(names):
        mine = np.full(count, value if place == 0 else 1)
        total = masks.Total(count, bits)
        total.add(ends[name].upload(words_of(mine, bits))[sums.head_bytes :], name)
        told.append(total.values)
    return np.array(told)


@pytest.mark.parametrize("value", [0, 3])
def test_all_uploads_together_are_uniform(value):
    """Of 3 parties with words of 2 bits: 64 cells, 200 000 draws, at a level of 1e-6.

    While nothing is revealed all uploads are uniform together, since each has a mask of its own; so
    those of any M - 1 are, and their distribution is the same for every input.
    """
    from scipy.stats import chi2

    counts = np.zeros(64)
    for seed in range(4):
        told = _uploads(value, seed, 3, 2, 50_000).astype(np.int64)
        counts += np.bincount(told[0] + 4 * told[1] + 16 * told[2], minlength=64)
    expected = counts.sum() / 64
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < chi2.isf(1e-6, 63)


@pytest.mark.parametrize("value", [0, 3])
def test_with_their_own_masks_off_uploads_tell_their_sum_and_nothing_else(monkeypatch, value):
    """Any M - 1 of M are then uniform together: 16 cells, 200 000 draws, at a level of 1e-6."""
    from scipy.stats import chi2

    class Nothing(Keystream):
        def fill(self, words):
            words[:] = 0

    monkeypatch.setattr(SumParty, "_self_mask", lambda self, secret: Nothing(bytes(16)))
    counts = {pair: np.zeros(16) for pair in itertools.combinations(range(3), 2)}
    for seed in range(4):
        told = _uploads(value, seed, 3, 2, 50_000).astype(np.int64)
        assert (told.sum(axis=0) % 4 == (value + 2) % 4).all()
        for one, other in counts:
            counts[one, other] += np.bincount(told[one] + 4 * told[other], minlength=16)
    for found in counts.values():
        expected = found.sum() / 16
        statistic = float(((found - expected) ** 2 / expected).sum())
        assert statistic < chi2.isf(1e-6, 15)


def test_no_keystream_is_used_twice(monkeypatch):
    """Keys of streams over sums, losses and starts: each masks one upload, or a pair's two."""
    used = []

    class Remembered(Keystream):
        def __init__(self, key):
            super().__init__(key)
            self.key = key
            used.append(self)

    monkeypatch.setattr(double_masking, "Keystream", Remembered)
    seen = set()
    for incarnation in (0, 1):
        sums = Sum(4, 2, incarnation)
        sums.start()
        for number in range(3):
            here = sums.names if number != 1 else sums.names[1:]
            values = drawn(number, sums.names)
            del used[:]
            sums.upload({name: values[name] for name in here})
            members = [name for name in here if name in sums.uploads]
            times = Counter(stream.key for stream in used)
            taken = WORDS * np.dtype(np.uint16).itemsize
            assert all(stream.position == taken for stream in used)  # from its beginning, once
            among = len(members) * (len(members) - 1) // 2
            lost = len(sums.parties["party_3"].members) - len(members)
            assert Counter(times.values()) == Counter(
                {2: among, 1: len(members) * (1 + lost)} if among else {1: len(members)}
            )
            assert not seen & set(times)
            seen |= set(times)
            sums.reveal()


# What is refused by name


def test_what_belongs_elsewhere_is_refused_by_name():
    sums = Sum(3, 2)
    sums.start()
    first = {n: sums.parties[n].upload(words_of(v, BITS)) for n, v in drawn(1, sums.names).items()}
    sums.holder.uploads(first, WORDS)
    sums.requests = sums.holder.requests()
    sums.reveal()
    for wrong, what in (
        (first, "'party_0' sent an offer of another sum than number 2"),
        ({"party_0": first["party_1"]}, "'party_0' sent an offer of another sum"),
        ({"party_0": first["party_0"][:-1]}, "'party_0' uploaded"),
        ({"nobody": first["party_0"]}, "'nobody' uploaded to sum 1, of which it is no member"),
    ):
        with pytest.raises(RemoteProtocolError, match=what):
            sums.holder.uploads(wrong, WORDS)
    with pytest.raises(RemoteProtocolError, match="'holder' sent a request of another sum"):
        sums.parties["party_1"].hear(sums.requests["party_1"])


def test_another_start_is_another_session():
    old, new = Sum(3, 2, incarnation=0), Sum(3, 2, incarnation=1)
    old.start()
    new.start()
    body = old.parties["party_0"].upload(words_of(np.zeros(WORDS, np.int64), BITS))
    with pytest.raises(RemoteProtocolError, match="another sum than number"):
        new.holder.uploads({"party_0": body}, WORDS)


def test_a_wrong_share_is_noticed_where_it_decides():
    sums = Sum(3, 2)
    sums.start()
    values = drawn(1, sums.names)
    sums.upload({name: values[name] for name in sums.names[1:]})
    sums.ask(lost=["party_0"])
    changed = bytearray(sums.answers["party_1"])
    changed[double_masking.TAG_BYTES + 9] ^= 1
    with pytest.raises(RemoteProtocolError, match="the mask key of 'party_0'"):
        sums.holder.total(sums.answers | {"party_1": bytes(changed)})


@pytest.mark.parametrize("pinned", [True, False])
def test_keys_in_place_of_a_partys_are_noticed_where_identities_are_pinned(pinned):
    identities = {}
    if pinned:
        for name in ("party_0", "party_1", "party_2"):
            identities[name] = Identity.of(Secrets.insecure(5), name).public
    sums = Sum(3, 2, identities=identities)
    false = Secrets.insecure(99).begin("party_1", 0)
    told = {name: party.key() for name, party in sums.parties.items()}
    told["party_1"] = SumParty(sums.sums, "party_1", HOLDER, false).key()
    keys = sums.holder.meet(told)
    if not pinned:
        sums.parties["party_0"].meet(keys)  # which the privacy statement says
        return
    with pytest.raises(RemoteProtocolError, match="'party_1' is not signed by the identity"):
        sums.parties["party_0"].meet(keys)


@pytest.mark.parametrize(
    ("pinned", "wrong"), [(True, "that is pinned, .* compare"), (False, "that came with it, .* no")]
)
def test_a_spoilt_key_is_refused_by_the_identity_that_is_known(pinned, wrong):
    public = Identity.of(Secrets.insecure(5), "party_1").public
    sums = Sum(3, 2, identities={"party_1": public} if pinned else {})
    told = {name: party.key() for name, party in sums.parties.items()}
    told["party_1"] = told["party_1"][:-1] + bytes([told["party_1"][-1] ^ 1])
    with pytest.raises(RemoteProtocolError, match=f"'party_1' is not signed by the .* {wrong}"):
        sums.parties["party_0"].meet(sums.holder.meet(told))


@pytest.mark.parametrize("start", [-7, 2**53])
def test_a_start_that_cannot_be_is_the_label_holders_fault(start):
    sums = Sum(3, 2, 0)
    sums.holder = SumHolder(sums.sums, HOLDER, start)
    with pytest.raises(RemoteProtocolError, match=f"'holder' says that it was started {start}"):
        sums.start()


def test_a_partys_own_key_cannot_be_exchanged():
    sums = Sum(3, 2)
    false = Secrets.insecure(99).begin("party_1", 0)
    told = {name: party.key() for name, party in sums.parties.items()}
    told["party_1"] = SumParty(sums.sums, "party_1", HOLDER, false).key()
    with pytest.raises(RemoteProtocolError, match="another key of 'party_1' than it sent"):
        sums.parties["party_1"].meet(sums.holder.meet(told))


def test_bytes_of_anybody_are_refused_without_harm():
    """Every prefix, every flipped bit of every tenth byte, and noise, of each kind of message."""
    sums = Sum(3, 2)
    keys = sums.holder.meet({name: party.key() for name, party in sums.parties.items()})
    sums.start()
    generator = np.random.default_rng(0)
    upload = sums.parties["party_0"].upload(words_of(np.ones(WORDS, np.int64), BITS))
    request = sums.requests["party_1"]
    takers = [
        (keys, sums.parties["party_1"].meet),
        (upload, lambda body: sums.holder.uploads({"party_0": body}, WORDS)),
        (request, sums.parties["party_1"].hear),
    ]
    for body, take in takers:
        broken = [body[:size] for size in range(0, len(body), 7)]
        for place in range(0, len(body), 10):
            broken.append(body[:place] + bytes([body[place] ^ 4]) + body[place + 1 :])
        broken += [generator.bytes(size) for size in (0, 1, 8, len(body), 3 * len(body))]
        refused = 0
        for each in broken:
            try:
                take(each)
            except (RemoteProtocolError, TooFewSurvivors):
                refused += 1
        # What is masked cannot be told from what was changed on its way: only that is taken.
        assert refused >= len(broken) - (WORDS * BITS) // 80 - sums.sums.offer_bytes // 10 - 1
