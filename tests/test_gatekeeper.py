"""The gate, without processes: who may go on, who is saved, and when nobody will ever go on."""

from __future__ import annotations

import pytest

from colonnade.checkpoints import CheckpointStore
from colonnade.drivers import Assignment, control
from colonnade.drivers.account import Account
from colonnade.drivers.gatekeeper import Gatekeeper
from colonnade.errors import (
    ConfigurationError,
    Deadlock,
    Diverged,
    RemoteProtocolError,
    RoleFailed,
    Unwritten,
)

NOTHING = Account().packed()


class Watched:
    """A gatekeeper of the roles a and b, who are there, and what it says and keeps."""

    def __init__(self, are_there=True, answers_within=None, **assignment):
        self.said, self.kept = [], []
        self.keeper = Gatekeeper(
            "ab",
            Assignment(**assignment),
            lambda name, message: self.said.append((name, message)),
            lambda: control.Begin(7),
            self.kept.append,
            patience=60.0,
            answers_within=answers_within,
        )
        if are_there:
            for name, peer in ("ab", "ba"):
                self.hears(name, control.Waiting([peer]))
            self.said.clear()

    def hears(self, name, *messages):
        for message in messages:
            self.keeper.heed(name, message)
            self.keeper.look_after()

    def reached(self, round, sent=0):
        for name, other in ("ab", "ba"):
            self.hears(name, control.Reached(round, {other: sent}, 0))

    def last(self):
        said, self.said = self.said, []
        return said

    def asked(self):
        """Let it ask how it stands; return the number of the question."""
        self.keeper._inquiry._heard -= 10.0
        self.keeper.look_after()
        ((_, ask), _) = self.last()
        assert isinstance(ask, control.Ask)
        return ask.number

    def stands(self, number, name, waits="waits for x", sent=3, received=3, lost=(), came=0):
        other = "b" if name == "a" else "a"
        counts = {other: sent}, {other: received}, list(lost), {other: came}
        standing = control.Standing(number, waits, *counts)
        self.hears(name, standing)


def saved():
    return control.Saved(b"", NOTHING, [], [], [], 0.0)


def played(round=9, **sent):
    return control.Played(True, round, b"", NOTHING, [], [], sent, None)


def test_all_begin_when_all_are_there():
    watched = Watched(are_there=False)
    watched.hears("a", control.Cast("x"), control.Waiting(["b"]))
    assert not watched.last()
    watched.hears("b", control.Cast("x"), control.Waiting(["a"]))
    assert watched.last() == [("a", control.Begin(7)), ("b", control.Begin(7))]


def test_who_was_cast_from_another_agreement_is_refused():
    watched = Watched(are_there=False)
    watched.hears("a", control.Cast("x"))
    with pytest.raises(ConfigurationError, match="the agreements of 'a' and of 'b' differ"):
        watched.hears("b", control.Cast("y"))


@pytest.mark.parametrize(
    "told",
    [
        [control.Waiting([]), control.Waiting([])],
        [control.Waiting([]), control.Cast("x")],
        [control.Cast("x"), control.Cast("x")],
        [control.Reached(0, {}, 0)],
        [control.Waiting([]), control.Reported({"x": 1})],
    ],
)
def test_nobody_plays_before_all_are_there_or_comes_twice(told):
    *before, last = told
    watched = Watched(are_there=False)
    watched.hears("a", *before)
    with pytest.raises(RemoteProtocolError, match=f"'a' told {type(last).__name__} out of turn"):
        watched.hears("a", last)


@pytest.mark.parametrize("told", [control.Waiting([]), control.Cast("x")])
def test_all_begin_once(told):
    """A second beginning set the clocks of all back, and who told what it had waited was blamed."""
    watched = Watched()
    with pytest.raises(RemoteProtocolError, match=r"'a' told .* out of turn"):
        watched.hears("a", told)
    assert not watched.last()


def test_the_gate_keeps_ahead_of_the_fastest_and_stops_at_what_is_due(tmp_path):
    watched = Watched()
    first = watched.keeper.gate
    watched.reached(first // 2)
    (_, moved), _ = watched.last()
    assert moved.round > first
    due = Watched(store=CheckpointStore(tmp_path, {"run": "x"}), checkpoint_every=5)
    assert due.keeper.gate == 5
    due.reached(4)
    assert not due.last()


def test_who_is_stopped_is_not_told_of_every_gate_that_others_come_to():
    """What waited at its door filled it, and the run ended as if it did not listen any more."""
    watched = Watched()
    for round in range(1, 2000):
        watched.hears("b", control.Reached(round, {}, 0))
    told = watched.last()
    assert len([name for name, _ in told if name == "a"]) <= 3
    newest = watched.keeper.gate
    assert newest > 2000
    for round in range(1, 200):
        watched.hears("a", control.Reached(round, {}, 0))
    assert watched.last() == [("a", control.Gate(newest))]


def test_who_is_behind_is_told_of_the_gate_though_others_are_at_their_end():
    watched = Watched()
    for round in range(1, 300):
        watched.hears("b", control.Reached(round, {}, 0))
    watched.hears("b", played(299))
    watched.last()
    for round in range(1, 100):
        watched.hears("a", control.Reached(round, {}, 0))
    assert watched.last() == [("a", control.Gate(watched.keeper.gate))]


def test_all_save_at_the_gate_what_was_sent_before_it_and_go_on(tmp_path):
    watched = Watched(store=CheckpointStore(tmp_path, {"run": "x"}), checkpoint_every=5)
    watched.hears("a", control.Reached(5, {"b": 11}, 0))
    assert not watched.last()
    watched.hears("b", control.Reached(5, {"a": 12}, 0))
    assert watched.last() == [("a", control.Save({"b": 12})), ("b", control.Save({"a": 11}))]
    watched.hears("b", saved())
    assert (watched.last(), watched.kept) == ([], [])
    watched.hears("a", saved())
    assert watched.kept == [5]
    assert watched.last() == [("a", control.Gate(10)), ("b", control.Gate(10))]


@pytest.mark.parametrize("way", ["stop_before", "interrupted"])
def test_it_stops_at_a_gate_when_all_have_saved(way):
    settings = {"stop_before": 3} if way == "stop_before" else {"interrupted": lambda: True}
    watched = Watched(**settings)
    gate = watched.keeper.gate
    watched.reached(gate)
    watched.last()
    watched.hears("a", saved())
    watched.hears("b", saved())
    assert watched.kept == [gate]
    assert watched.last() == [("a", control.Stop()), ("b", control.Stop())]


def test_nobody_saves_unasked():
    with pytest.raises(RemoteProtocolError, match="'a' has saved, which nobody asked it to"):
        Watched().hears("a", saved())


def test_who_is_done_leaves_when_all_is_there_that_was_sent():
    watched = Watched()
    watched.hears("a", played(b=4))
    assert not watched.keeper.roll.everybody_has_played
    watched.hears("b", played(a=5))
    assert watched.keeper.roll.everybody_has_played
    watched.keeper.let_leave()
    assert watched.last() == [("a", control.Stop({"b": 5})), ("b", control.Stop({"a": 4}))]
    for name in "ab":
        watched.hears(name, control.Left({}, [], 0.0))
    assert watched.keeper.roll.everybody_has_left


def test_all_wait_and_nothing_is_under_way():
    watched = Watched()
    number = watched.asked()
    watched.stands(number, "a")
    with pytest.raises(Deadlock, match=r"a waits for x; b waits for y$"):
        watched.stands(number, "b", "waits for y")


NO_DEADLOCK = {
    "one is at work": {"waits": None},
    "a message is under way to it": {"received": 2},
    "a message is under way from it": {"sent": 4},
}


@pytest.mark.parametrize("why", NO_DEADLOCK)
def test_no_deadlock_where(why):
    watched = Watched()
    number = watched.asked()
    watched.stands(number, "a")
    watched.stands(number, "b", **NO_DEADLOCK[why])


def test_an_answer_to_an_earlier_question_says_nothing():
    watched = Watched()
    earlier = watched.asked()
    watched.hears("a", control.Reached(1, {"b": 3}, 0))
    for name in "ab":
        watched.stands(earlier, name)
    number = watched.asked()
    watched.stands(number, "a")
    with pytest.raises(RemoteProtocolError, match="'b' told Standing out of turn"):
        watched.stands(earlier, "b")


def test_an_answer_before_somebody_went_on_says_nothing():
    watched = Watched()
    number = watched.asked()
    watched.stands(number, "a")
    watched.hears("a", control.Reached(1, {"b": 3}, 0))
    watched.stands(number, "b")


def test_nobody_is_asked_again_before_all_have_answered():
    watched = Watched()
    number = watched.asked()
    watched.stands(number, "a")
    watched.keeper._inquiry._heard -= 10.0
    watched.keeper.look_after()
    assert not watched.last()
    watched.stands(number, "b", None)
    assert watched.asked() > number


def looks(watched, seconds):
    """Let it look that long whether it is answered."""
    for _ in range(seconds):
        watched.keeper._inquiry._looked -= 1.0
        watched.keeper.look_after()


def test_who_is_there_and_answers_nothing_is_named():
    """It was waited for without end."""
    watched = Watched(answers_within=60.0)
    number = watched.asked()
    watched.stands(number, "a")
    looks(watched, 59)
    watched.keeper._inquiry._looked -= (
        3600.0  # we were stopped ourselves, and answers may lie there
    )
    watched.stands(number, "b", None)
    looks(watched, 59)
    watched.stands(watched.asked(), "a")
    with pytest.raises(RemoteProtocolError, match=r"'b' is there, and has not answered for 6. s"):
        looks(watched, 62)
    watched = Watched()  # where one may be stopped for as long as anybody likes
    watched.stands(watched.asked(), "a")
    looks(watched, 7200)


@pytest.mark.parametrize("number", [0, 5])
def test_nobody_answers_what_was_not_asked(number):
    """Who answered any number counted as one who answers, and kept all others waiting."""
    watched = Watched()
    watched.asked()
    with pytest.raises(RemoteProtocolError, match="'b' told Standing out of turn"):
        watched.stands(number, "b")
    with pytest.raises(RemoteProtocolError, match="'b' told Standing out of turn"):
        Watched().stands(number, "b")


def test_an_answer_comes_after_what_is_told_before_it():
    """A slow line was taken for silence, as all was told that had been sent before a crash."""
    watched = Watched(answers_within=60.0)
    watched.stands(watched.asked(), "a")
    for _ in range(100):
        watched.keeper.heed("b", control.Recorded([], [], before=True), 184_320)
        looks(watched, 45)
    with pytest.raises(RemoteProtocolError, match="'b' is there, and has not answered"):
        looks(watched, 61)


def test_reports_are_no_answer():
    """For so many bytes a second, nobody ever had to answer."""
    watched = Watched(answers_within=60.0)
    watched.stands(watched.asked(), "a")
    looks(watched, 58)
    watched.keeper.heed("b", control.Reported({"x": 1.0}), 2**20)
    with pytest.raises(RemoteProtocolError, match="'b' is there, and has not answered"):
        looks(watched, 4)


@pytest.mark.parametrize("stops", [False, True])
def test_nobody_leaves_before_all_may(stops):
    """Who left while others played was waited for without end: nobody was asked any more."""
    watched = Watched(stop_before=1) if stops else Watched()
    if stops:
        watched.reached(1)
        for name in "ab":
            watched.hears(name, saved())
    watched.hears("a", control.Played(not stops, 1, b"", NOTHING, [], [], {}, None))
    leaves = control.Left({}, [], 0.0, {})
    if stops:
        watched.hears("a", leaves)
    else:
        with pytest.raises(RemoteProtocolError, match="'a' told that it left, and is not to leave"):
            watched.hears("a", leaves)


def test_who_keeps_telling_nothing_is_no_sign_that_it_goes_on():
    watched = Watched()
    number = watched.asked()
    watched.stands(number, "a")
    watched.hears("b", control.Recorded([], []))
    with pytest.raises(Deadlock):
        watched.stands(number, "b")


def ended(**given):
    """Return a gatekeeper whose roles have played, of whom a has left."""
    watched = Watched(**given)
    for name, other in ("ab", "ba"):
        watched.hears(name, played(**{other: 3}))
    watched.keeper.let_leave()
    watched.hears("a", control.Left({}, [], 0.0, {}))
    watched.last()
    return watched


def asks_b(watched):
    """Let it ask, and look for a second; return the number of the question."""
    watched.keeper._inquiry._heard -= 10.0
    looks(watched, 1)
    return watched.keeper._inquiry._question


LEAVES_NOT = {
    "all has come": lambda turn: {},
    "less has come each other time": lambda turn: {"received": 3 - turn % 2},
    "it works": lambda turn: {"waits": None},
}


@pytest.mark.parametrize("way", LEAVES_NOT)
def test_who_does_not_leave_when_all_has_come_is_named(way):
    """Whoever kept that back kept what was trained from the label holder."""
    watched = ended(answers_within=60.0)

    def answers(turns):
        for turn in range(turns):
            watched.stands(asks_b(watched), "b", **{"waits": "", **LEAVES_NOT[way](turn)})

    answers(50)
    with pytest.raises(RemoteProtocolError, match="'b' does not leave, though all has come"):
        answers(20)


def test_who_has_something_to_come_is_waited_for_as_long_as_it_comes():
    watched = ended(answers_within=60.0)
    for came in range(0, 3000, 10):
        looks(watched, 10)
        watched.stands(asks_b(watched), "b", None, received=2, came=came)


def test_what_a_lost_peer_had_sent_is_not_waited_for():
    watched = Watched()
    watched.hears("a", control.Played(True, 0, b"", NOTHING, [], [], {"b": 3}, None))
    number = watched.asked()
    watched.stands(number, "a", "", received=1, lost=["b"])
    with pytest.raises(Deadlock, match="a has lost its connection to b; finished: a"):
        watched.stands(number, "b", "waits for y")


def test_errors_are_told_as_what_they_are():
    for error, message, told in [
        (Diverged, "no number", "no number"),
        (Unwritten, "the disk is full", "at a: the disk is full"),
        (Unwritten, "at 'a': the disk is full", "at 'a': the disk is full"),
    ]:
        with pytest.raises(error, match=f"^{told}\n"):
            Watched().hears("a", control.Failed(error.__name__, message, ""))
    for message, told in [("bad", "a failed: ValueError: bad"), ("at 'a': bad", "at 'a': bad")]:
        with pytest.raises(RoleFailed, match=f"^{told}\n"):
            Watched().hears("a", control.Failed("ValueError", message, ""))


PLAYED = control.Played(True, 0, b"", NOTHING, [], [], {}, None)


def test_nobody_leaves_before_its_end_or_ends_twice():
    left = control.Left({}, [], 0.0)
    with pytest.raises(RemoteProtocolError, match="'a' told that it left, and is not to leave"):
        Watched().hears("a", left)
    watched = Watched()
    watched.hears("a", PLAYED)
    watched.hears("b", PLAYED)
    watched.keeper.let_leave()
    watched.hears("a", left)
    with pytest.raises(RemoteProtocolError, match="'a' told that it left, and is not to leave"):
        watched.hears("a", left)
    watched = Watched()
    watched.hears("a", PLAYED)
    with pytest.raises(RemoteProtocolError, match="'a' has told its end before"):
        watched.hears("a", PLAYED)


def test_an_end_that_is_not_told_is_missed():
    watched = Watched()
    number = watched.asked()
    with pytest.raises(RemoteProtocolError, match="'a' is at its end, and has told none"):
        watched.stands(number, "a", "")


def test_messages_that_never_come_end_a_run_by_the_name_of_who_tells_of_them():
    watched = Watched()
    more = control.Played(True, 0, b"", NOTHING, [], [], {"b": 5}, None)
    watched.hears("a", more)
    watched.hears("b", PLAYED)
    watched.keeper.let_leave()
    watched.hears("a", control.Left({}, [], 0.0))
    for _ in range(4):
        watched.stands(watched_asks(watched), "b", "waits for what is still under way", received=3)
    with pytest.raises(
        RemoteProtocolError, match=r"'a' tells .* 'b' 5 messages, and 'b' that 3 came"
    ):
        watched.stands(watched_asks(watched), "b", "waits for what is still under way", received=3)


def watched_asks(watched):
    """Let it ask how it stands; return the number of the question, whoever is asked."""
    watched.keeper._inquiry._heard -= 10.0
    watched.keeper.look_after()
    return watched.last()[-1][1].number


def test_who_has_not_saved_is_named_where_nobody_goes_on():
    watched = Watched(kept_apart=True, checkpoint_every=2)
    watched.reached(2, 3)
    watched.hears("b", saved())
    number = watched_asks(watched)
    watched.stands(number, "a", "waits for the others at the boundary before round 2")
    with pytest.raises(Deadlock, match="a has not told that it saved"):
        watched.stands(number, "b", "waits for the others at the boundary before round 2")


def test_what_is_told_to_be_sent_and_does_not_come_is_not_waited_for_without_end():
    """Of an honest one, over whatever line, something comes."""
    watched = Watched()

    def all_wait(came):
        watched.keeper._inquiry._came_at -= 50.0
        number = watched.asked()
        watched.stands(number, "a", sent=6)
        watched.stands(number, "b", received=5, came=came)

    for came in range(5):
        all_wait(came)
    all_wait(came)
    watched.hears("a", control.Reached(1, {"b": 6}, 0))  # and this shows that it did not
    for _ in range(2):
        all_wait(came)
    with pytest.raises(
        RemoteProtocolError, match="'a' tells that it has sent 'b' 6 messages, and 'b' that 5 came"
    ):
        all_wait(came)


@pytest.mark.parametrize("lie", ["sent", "received"])
def test_who_tells_of_more_and_more_keeps_nobody_waiting(lie):
    """Each time that it told of one more, all were waited for anew."""
    watched = Watched()
    for more in range(3):
        watched.keeper._inquiry._came_at -= 50.0
        number = watched.asked()
        watched.stands(number, "a", sent=6 + more if lie == "sent" else 4)
        received = 5 if lie == "sent" else 5 + more
        if more < 2:
            watched.stands(number, "b", received=received)
    with pytest.raises(RemoteProtocolError, match="'a' tells that it has sent 'b'"):
        watched.stands(number, "b", received=received)


def test_whose_exchange_the_other_knows_nothing_of_is_refused():
    watched = Watched(are_there=False)
    watched.hears("a", control.Waiting(["b"]))
    with pytest.raises(
        RemoteProtocolError,
        match="'a' tells that it exchanges messages with 'b', who tells of none with 'a'",
    ):
        watched.hears("b", control.Waiting([]))


@pytest.mark.parametrize("told", [control.Reached(1, {"b": 1, "c": 3}, 0), played(c=3)])
def test_nobody_has_another_wait_for_what_is_not_exchanged(told):
    """The other refused it as what the gatekeeper told, and was said to have failed."""
    watched = Watched()
    with pytest.raises(RemoteProtocolError, match="'a' tells of messages to or of 'c', with whom"):
        watched.hears("a", told)


def test_who_reports_and_reports_keeps_nobody_from_asking():
    watched = Watched()
    watched.keeper._inquiry._heard -= 10.0
    watched.keeper.heed("a", control.Reported({"x": 1}))
    watched.keeper.look_after()
    assert [type(told) for _, told in watched.last()] == [control.Ask, control.Ask]


def test_a_boundary_is_reached_once():
    watched = Watched()
    watched.hears("a", control.Reached(0, {"b": 0}, 0), control.Reached(1, {"b": 0}, 0))
    with pytest.raises(RemoteProtocolError, match="'a' told before that it is before round 1"):
        watched.hears("a", control.Reached(1, {"b": 0}, 0))


def test_what_one_waits_for_is_told_as_its_own_word():
    """It went on after a semicolon, of another, in the words of the gatekeeper."""
    watched = Watched()
    number = watched.asked()
    watched.stands(number, "a", f"waits for nothing; b has not told that it saved\n{'x' * 9000}")
    with pytest.raises(
        Deadlock, match=r"a waits for nothing, b has not .*x; b waits for x"
    ) as said:
        watched.stands(number, "b")
    assert len(str(said.value)) < 2200
    assert "\n" not in str(said.value)


def test_what_was_told_at_a_boundary_is_not_taken_back():
    """A wait for what was said to be sent ended as one of the honest, who had not saved."""
    watched = Watched()
    watched.hears("a", control.Reached(1, {"b": 9}, 0))
    sentence = "'a' tells that it has sent 'b' 3 messages, and told of 9 before"
    with pytest.raises(RemoteProtocolError, match=sentence):
        watched.stands(watched.asked(), "a")
    for told in (control.Reached(2, {"b": 3}, 0), played(b=3)):
        with pytest.raises(RemoteProtocolError, match=sentence):
            watched.hears("a", told)


def test_who_has_not_told_where_it_is_is_named():
    watched = Watched(are_there=False)
    watched.hears("a", control.Waiting(["b"]))
    number = watched.asked()
    watched.stands(number, "a", "waits for the others to be there")
    with pytest.raises(Deadlock, match="b has not told that it is there"):
        watched.stands(number, "b", "waits for the others to be there")
    watched = Watched()
    watched.hears("a", control.Reached(2, {"b": 3}, 0))
    number = watched.asked()
    watched.stands(number, "a", "waits for the others at the boundary before round 2")
    with pytest.raises(Deadlock, match="b has not told that it is before round 2"):
        watched.stands(number, "b", "waits for the others at the boundary before round 2")


@pytest.mark.parametrize("are_there", [False, True])
@pytest.mark.parametrize("of", [{"sent": {"c": 1}}, {"received": {"c": 1}}, {"lost": ["c"]}])
def test_who_tells_of_strangers_is_refused_by_name(of, are_there):
    watched = Watched(are_there)
    told = {"sent": {"b": 1}, "received": {"b": 1}, "lost": []} | of
    standing = control.Standing(watched.asked(), "waits for x", **told)
    with pytest.raises(
        RemoteProtocolError, match="'a' tells of messages to or of 'c', with whom it exchanges none"
    ):
        watched.hears("a", standing)


def test_who_tells_nothing_of_what_it_sent_is_no_error_of_ours():
    watched = Watched()
    number = watched.asked()
    watched.hears("a", control.Standing(number, "waits for x", {}, {"b": 0}, []))
    with pytest.raises(Deadlock):
        watched.hears("b", control.Standing(number, "waits for x", {"a": 0}, {"a": 0}, []))
