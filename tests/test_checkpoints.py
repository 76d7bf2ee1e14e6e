"""Checkpoints: what is saved comes back, and a kill at any moment loses no finished one."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import nn

from colonnade.checkpoints import CheckpointStore, decode_state, encode_state
from colonnade.drivers import Assignment
from colonnade.errors import CheckpointError, Unwritten
from colonnade.kernels.philox import permutation
from colonnade.methods import svfl
from colonnade.models import Concat, Learner
from colonnade.streams import StreamKey
from test_simulate import DRIVER
from test_training import ADAM, SIMULATE, TRAINING, assert_same, problem
from toys import Counter

# No law here is about how fast a machine is.
unhurried = settings(suppress_health_check=[HealthCheck.too_slow])

# States


@st.composite
def tensors(draw, dtypes):
    dtype = draw(st.sampled_from(dtypes))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    size = int(np.prod(shape)) * dtype.itemsize
    pattern = draw(st.binary(min_size=size, max_size=size))
    if dtype is torch.bool:
        pattern = bytes(byte & 1 for byte in pattern)
    if not size:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(pattern), dtype=dtype).reshape(shape)


NUMPY = [torch.float32, torch.float64, torch.int8, torch.int32, torch.int64, torch.uint8]
TENSORS = tensors([*NUMPY, torch.float16, torch.bfloat16, torch.int16, torch.bool])
ARRAYS = tensors([*NUMPY, torch.bool]).map(lambda tensor: tensor.numpy())
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8)
)
KEYS = SCALARS | st.tuples(SCALARS, SCALARS)
VALUES = st.recursive(
    SCALARS | TENSORS | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)
STATES = st.dictionaries(KEYS, VALUES, max_size=5)


def same(one, other):
    """Equal in type, in order, and to the bit."""
    if type(one) is not type(other):
        return False
    match one:
        case torch.Tensor():
            return one.dtype == other.dtype and same(raw(one), raw(other))
        case np.ndarray():
            alike = one.dtype == other.dtype and one.shape == other.shape
            return alike and one.tobytes() == other.tobytes()
        case dict():
            return same(list(one.items()), list(other.items()))
        case list() | tuple():
            return len(one) == len(other) and all(map(same, one, other))
        case float():
            return repr(one) == repr(other)  # NaN is NaN, and -0.0 is not 0.0
    return one == other


def raw(tensor):
    flat = tensor.detach().contiguous().reshape(-1)
    return tensor.shape, flat.view(torch.uint8).numpy()


@unhurried
@given(STATES)
@example({})
@example({"": [(), [], {}, b"", "", None]})
@example({0: {1: "int keys"}, "0": {"1": "and strings"}})
@example({"tensor": "t0", "dict": [["a", 1]], "tuple": {"tuple": ()}})  # the encoding's own words
@example({"lone surrogate": "\ud800"})
def test_a_state_comes_back_to_the_bit(state):
    assert same(decode_state(encode_state(state)), state)


def test_shapes_and_memory_of_every_sort():
    base = torch.arange(12.0).view(3, 4)
    parameter = nn.Parameter(torch.ones(2))
    constant = np.arange(3)
    constant.setflags(write=False)
    state = {
        "scalar": torch.tensor(7),
        "scalar array": np.array(2.5),
        "empty": torch.empty(0, 3),
        "transposed": base.T,
        "a slice": base[:, 1:3],
        "expanded": torch.ones(1, 2).expand(3, 2),
        "reversed": np.arange(5)[::-1],
        "every other": np.arange(6.0).reshape(2, 3)[:, ::2],
        "read only": constant,
        "same": [base, base, base.view(-1)],
        "parameter": parameter,
    }
    again = decode_state(encode_state(state))
    assert same(again.pop("parameter"), parameter.detach())
    del state["parameter"]
    assert same(again, state)
    again["same"][0][0, 0] = 100.0  # what came back is writable, and no longer shared
    assert again["same"][1][0, 0] == base[0, 0] == 0.0


def test_tied_weights_come_back_into_a_tied_model():
    def tied():
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        model[1].weight = model[0].weight
        return model

    model, other = tied(), tied()
    other.load_state_dict(decode_state(encode_state(dict(model.state_dict()))))
    assert other[0].weight is other[1].weight
    assert torch.equal(other[0].weight, model[0].weight)


@pytest.mark.parametrize(
    "optimiser",
    [
        partial(torch.optim.Adam, lr=0.1, amsgrad=True),
        partial(torch.optim.SGD, lr=0.1, momentum=0.9),
        partial(torch.optim.Adagrad, lr=0.1),
    ],
    ids=["adam", "momentum", "adagrad"],
)
def test_an_optimiser_goes_on_as_if_it_had_never_stopped(optimiser):
    data = torch.randn(4, 20, 3, generator=torch.Generator().manual_seed(0))

    def learner():
        torch.manual_seed(1)
        return Learner(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), optimiser)

    def learn(learner, batches):
        for batch in batches:
            learner(batch, training=True).square().sum().backward()
            learner.step()

    whole, first, second = learner(), learner(), learner()
    learn(whole, data)
    learn(first, data[:2])
    state = first.state_dict()
    saved = decode_state(encode_state(state))
    assert same(saved["optimiser"], state["optimiser"])
    second.load_state_dict(saved)
    learn(second, data[2:])
    assert same(second.state_dict(), whole.state_dict())


@pytest.mark.parametrize(
    "value", [{1, 2}, object(), 1j, np.float32(1), lambda: None], ids=lambda v: type(v).__name__
)
def test_what_cannot_be_saved_is_named(value):
    with pytest.raises(CheckpointError, match=f"holds a {type(value).__name__}, which cannot"):
        encode_state({"a": [1, (value,)]})


def state_or_refused(data):
    try:
        state = decode_state(data)
    except CheckpointError as error:
        state = {"refused": str(error)}
    assert isinstance(state, dict)


@unhurried
@given(st.binary(max_size=200))
@example(b"")
@example(b"\2\0\0\0\0\0\0\0{}")
@example(b"\xff" * 8 + b"{}")
@example(b"\x80\x04\x95")  # how a pickle begins
def test_garbage_is_refused(data):
    with pytest.raises(CheckpointError):
        decode_state(data)


STATE = {"round": 3, "moments": [torch.zeros(2), np.ones(3)], "betas": (0.9, 0.999), "b": b"xyz"}


def test_a_state_cut_anywhere_is_refused():
    data = encode_state(STATE)
    for length in range(len(data)):
        with pytest.raises(CheckpointError):
            decode_state(data[:length])
    with pytest.raises(CheckpointError):
        decode_state(data + b"\0")


@unhurried
@given(st.data())
def test_a_state_with_changed_bytes_is_a_state_or_refused(data):
    saved = bytearray(encode_state(STATE))
    for _ in range(data.draw(st.integers(1, 3))):
        saved[data.draw(st.integers(0, len(saved) - 1))] = data.draw(st.integers(0, 255))
    state_or_refused(bytes(saved))


WORDS = st.sampled_from(["tensor", "array", "bytes", "dict", "tuple", "t0", "t1", "AA==", "A", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=10,
)


def with_skeleton(text: str) -> bytes:
    skeleton = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    return safetensors.torch.save({"skeleton": skeleton, "t0": torch.zeros(2).bfloat16()})


@unhurried
@given(JSON)
@example({"array": "t0"})  # numpy has no bfloat16
@example({"dict": [[{"dict": []}, 1]]})  # not hashable
@example({"dict": [[1]]})
@example({"tuple": 3})
@example({})
def test_any_skeleton_is_a_state_or_refused(skeleton):
    state_or_refused(with_skeleton(json.dumps(skeleton)))
    state_or_refused(with_skeleton(json.dumps({"dict": [["key", skeleton]]})))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"tuple":' * 100_000, "3", "[]", "nonsense"])
def test_a_skeleton_that_is_no_dictionary_is_refused(text):
    with pytest.raises(CheckpointError):
        decode_state(with_skeleton(text))


def test_a_file_without_a_skeleton_is_refused():
    with pytest.raises(CheckpointError, match="skeleton"):
        decode_state(safetensors.torch.save({"weight": torch.zeros(2)}))


# The store


def contents(round):
    return {"round": round, "weights": torch.full((50,), float(round))}


def commit(store, round):
    draft = store.draft(round)
    draft.write("bank.safetensors", encode_state(contents(round)))
    draft.write("shop.safetensors", encode_state(contents(-round)))
    store.commit(draft, round, {"note": f"before round {round}"})


def assert_whole(checkpoint, round):
    assert checkpoint is not None
    assert checkpoint.round == round
    assert checkpoint.account == {"note": f"before round {round}"}
    assert same(checkpoint.state("bank"), contents(round))
    assert same(checkpoint.state("shop"), contents(-round))


def filled(folder, *rounds):
    store = CheckpointStore(folder / "checkpoints", {"run": "fingerprint"})
    for round in rounds:
        commit(store, round)
    return store


def names(store):
    return sorted(path.name for path in store.folder.iterdir())


def damage(store, round, file="bank.safetensors"):
    path = store.folder / f"round-{round:08d}" / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_store_begins_empty_and_gives_the_newest_and_keeps_two(tmp_path):
    store = filled(tmp_path)
    assert store.latest() is None
    for round, kept in ((9, [9]), (10, [9, 10]), (100, [10, 100]), (101, [100, 101])):
        commit(store, round)
        assert_whole(store.latest(), round)
        assert names(store) == [f"round-{number:08d}" for number in kept]
        assert store.holds(round)
    assert not store.holds(9)
    again = CheckpointStore(store.folder, {"run": "fingerprint"})
    assert_whole(again.latest(), 101)


def test_a_draft_does_not_count_before_it_is_committed(tmp_path):
    store = filled(tmp_path, 4)
    store.draft(8).write("bank.safetensors", b"")
    assert_whole(store.latest(), 4)
    assert not store.holds(8)
    commit(store, 8)  # a second draft of the round takes nothing from the first
    assert_whole(store.latest(), 8)


@pytest.fixture
def flushed(monkeypatch):
    """Paths of what was flushed to the disk, in order, as they were then."""
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    paths = []
    fsync = os.fsync

    def noted(descriptor):
        paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return paths


def test_a_checkpoint_and_its_folders_are_flushed_before_and_after_it_gets_its_name(
    tmp_path, flushed, monkeypatch
):
    rename = Path.rename

    def noted(path, target):
        flushed.append("renamed")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", noted)
    store = CheckpointStore(tmp_path, {"run": "fingerprint"})
    commit(store, 4)
    assert_whole(store.latest(), 4)
    before, after = flushed[: flushed.index("renamed")], flushed[flushed.index("renamed") + 1 :]
    draft = tmp_path / "writing-round-00000004"
    files = {draft / file.name for file in store.latest().folder.iterdir()}
    assert set(before[:-1]) == files
    assert before[-1] == draft
    assert after == [tmp_path]


def remove_file(store):
    (store.folder / "round-00000008" / "shop.safetensors").unlink()


def empty_file(store):
    (store.folder / "round-00000008" / "bank.safetensors").write_bytes(b"")


def remove_manifest(store):
    (store.folder / "round-00000008" / "manifest.json").unlink()


def write_manifest(store, text):
    (store.folder / "round-00000008" / "manifest.json").write_text(text)


def cut_manifest(store):
    path = store.folder / "round-00000008" / "manifest.json"
    path.write_bytes(path.read_bytes()[:-1])


DAMAGES = {
    "one bit": partial(damage, round=8),
    "a file is missing": remove_file,
    "a file is empty": empty_file,
    "no manifest": remove_manifest,
    "manifest cut": cut_manifest,
    "manifest empty": partial(write_manifest, text=""),
    "manifest without entries": partial(write_manifest, text="{}"),
    "manifest without a fingerprint": partial(
        write_manifest, text='{"format": 5, "round": 8, "files": {}, "account": {}}'
    ),
    "manifest a list": partial(write_manifest, text="[]"),
    "manifest without end": partial(write_manifest, text="[" * 100_000),
    "no format": partial(
        write_manifest, text='{"format": "4", "fingerprint": "fingerprint", "files": {}}'
    ),
}


@pytest.mark.parametrize("how", list(DAMAGES.values()), ids=list(DAMAGES))
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(tmp_path, how):
    store = filled(tmp_path, 4, 8)
    how(store)
    assert not store.holds(8)
    assert_whole(store.latest(), 4)
    commit(store, 8)  # the run goes on, and comes by once more
    assert_whole(store.latest(), 8)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.EMFILE], ids=errno.errorcode.get)
@pytest.mark.parametrize("file", ["manifest.json", "shop.safetensors"])
def test_a_checkpoint_that_cannot_be_read_is_not_called_damaged(tmp_path, monkeypatch, code, file):
    store = filled(tmp_path, 4, 8)
    before = {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}
    opened = os.open

    def refusing(path, *how):
        if Path(path).name == file and Path(path).parent.name == "round-00000008":
            raise OSError(code, os.strerror(code), str(path))
        return opened(path, *how)

    with monkeypatch.context() as then:
        then.setattr(os, "open", refusing)
        told = f"round-00000008/{file} cannot be read: {os.strerror(code)}"
        with pytest.raises(Unwritten, match=told):
            store.latest()
    found = store.latest()
    with monkeypatch.context() as then:
        then.setattr(os, "open", refusing)
        with pytest.raises(Unwritten, match=told):
            found.read(file)
    assert {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()} == before
    assert_whole(store.latest(), 8)


def test_when_all_are_damaged_it_says_so(tmp_path):
    store = filled(tmp_path, 4, 8)
    damage(store, 4)
    damage(store, 8, "shop.safetensors")
    with pytest.raises(CheckpointError, match="round-00000008, round-00000004 damaged"):
        store.latest()


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    store = filled(tmp_path, 4, 8)
    other = CheckpointStore(store.folder, {"run": "another"})
    with pytest.raises(CheckpointError, match="a run of another configuration"):
        other.latest()
    assert not other.holds(8)


@pytest.mark.parametrize("fingerprint", ["fingerprint", "another"])
@pytest.mark.parametrize("version", [4, 5, 7])
def test_a_checkpoint_of_another_version_is_refused_as_such(tmp_path, version, fingerprint):
    store = filled(tmp_path, 4, 8)
    manifest = json.loads((store.folder / "round-00000008" / "manifest.json").read_text())
    del manifest["digest"]  # as some others had none
    write_manifest(store, json.dumps(manifest | {"format": version, "fingerprint": fingerprint}))
    said = rf"another version of colonnade \(format {version}, this one has 6\)"
    for look in (store.latest, store.check_format):
        with pytest.raises(CheckpointError, match=said):
            look()
    assert not store.holds(8)
    damage(store, 8)  # what is not whole is no checkpoint of any version
    store.check_format()
    assert_whole(store.latest(), 4)


def test_a_role_that_a_checkpoint_lacks_is_named(tmp_path):
    checkpoint = filled(tmp_path, 4).latest()
    with pytest.raises(CheckpointError, match="no state of 'nobody'"):
        checkpoint.state("nobody")


def test_a_manifest_with_any_bit_flipped_is_damaged_and_the_one_before_is_used(tmp_path):
    """Accounts are in the manifest alone: a clock that is off by a bit parses as well."""
    store = filled(tmp_path, 4, 8)
    path = store.folder / "round-00000008" / "manifest.json"
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        assert_whole(store.latest(), 4)
    path.write_bytes(whole)
    assert_whole(store.latest(), 8)


def sealed(store, manifest):
    """Write a manifest for round 8 with the digest that it should have."""
    manifest = {name: value for name, value in manifest.items() if name != "digest"}
    text = json.dumps(manifest, sort_keys=True).encode()
    digest = hashlib.blake2b(text, digest_size=16).hexdigest()
    write_manifest(store, json.dumps(manifest | {"digest": digest}))


def test_a_file_that_a_manifest_does_not_name_is_not_read(tmp_path):
    store = filled(tmp_path, 8)
    manifest = store.latest().manifest
    sealed(store, manifest | {"files": {}})
    checkpoint = store.latest()
    damage(store, 8)
    for read in (lambda: checkpoint.read("bank.safetensors"), lambda: checkpoint.state("bank")):
        with pytest.raises(CheckpointError, match=r"not what was written|no state of 'bank'"):
            read()


def test_a_file_that_is_damaged_after_it_was_found_whole_is_not_read(tmp_path):
    store = filled(tmp_path, 8)
    checkpoint = store.latest()
    damage(store, 8)
    with pytest.raises(CheckpointError, match=r"bank\.safetensors is not what was written"):
        checkpoint.state("bank")


def refusing(*rounds):
    def check(checkpoint):
        if checkpoint.round in rounds:
            raise CheckpointError(f"what round {checkpoint.round} needs is not whole")

    return check


def test_a_checkpoint_that_is_refused_is_given_up_for_the_one_before(tmp_path):
    store = filled(tmp_path, 4, 8)
    with pytest.raises(CheckpointError, match="what round 8 needs"):
        store.latest(refusing(4, 8))
    assert names(store) == ["round-00000004", "round-00000008"]
    older = store.latest(refusing(8))
    assert_whole(older, 4)
    assert names(store) == ["round-00000004", "round-00000008"]  # nobody has gone back yet
    store.go_back_to(older)
    assert names(store) == ["round-00000004"]  # so that it is written anew when the run comes by
    assert store.latest(refusing()).round == 4


@pytest.mark.parametrize("name", ["mail", "ledger", "manifest", "checkpoint"])
def test_a_role_may_have_the_name_of_something_in_a_checkpoint(tmp_path, name):
    def roles():
        return [Counter(name, "z", 6, ahead=2), Counter("z", name, 6, ahead=2)]

    whole, again = roles(), roles()
    DRIVER.run(whole, Assignment())
    store = CheckpointStore(tmp_path, {"run": "fingerprint"})
    DRIVER.run(roles(), Assignment(store=store, stop_before=3))
    DRIVER.run(again, Assignment(resume=store.latest()))
    assert [role.total for role in again] == [role.total for role in whole]


# Killed while writing. This file is also the program that is killed: it makes what is needed,
# and for n = 1, 2, ... a copy of itself that dies before its n-th change to the disk.

CHANGES = {"open", "mkdir", "write", "flush", "fsync", "rename", "unlink", "rmdir"}


def die_before(nth, calls):
    """Kill this process at its ``nth`` call of one of these built-in functions."""
    left = nth

    def watch(frame, event, function):
        nonlocal left
        if event == "c_call" and function.__name__ in calls:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(watch)


def die_before_flush(nth):
    """Kill this process at its ``nth`` flush to the disk, which takes no look at any other call."""
    flush, left = os.fsync, nth

    def counted(file):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        flush(file)

    os.fsync = counted


def killed(action, dying):
    """Do ``action`` in a child that is killed as ``dying`` has it; False if it lived."""
    child = os.fork()
    if child == 0:
        try:
            dying()
            action()
            sys.setprofile(None)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert status == 0, "the child failed of itself"
    return False


# What lies there before round 6 is written, and which of it is damaged.
OTHERS = {
    "none": ((), ()),
    "one": ((4,), ()),
    "two": ((2, 4), ()),
    "damaged": ((4, 6), (6,)),
    "all damaged": ((6,), (6,)),
}


def kill_store(folder, others):
    """Write the checkpoint before round 6 in a folder for each n, killed at the n-th change."""
    rounds, damaged = OTHERS[others]
    for nth in count(1):
        store = filled(folder / others / str(nth), *rounds)
        for round in damaged:
            damage(store, round)
        store.folder.mkdir(parents=True, exist_ok=True)
        if not killed(partial(commit, store, 6), partial(die_before, nth, CHANGES)):
            return nth
    raise AssertionError


TINY = replace(TRAINING, epochs=1, checkpoint_every=2)  # 5 rounds; saves before 2, 4 and the end


def tiny():
    return problem(2, False, Concat(), dropout=0.4, optimiser=ADAM)


def kill_training(folder):
    """Train in a folder for each n, killed at the n-th flush to the disk."""
    # What is compiled and imported here need not be in each child.
    permutation(StreamKey(0, "", "", 0), 2)
    ADAM(nn.Linear(1, 1).parameters())
    train = partial(tiny().train, svfl(), TINY, SIMULATE)
    for nth in count(1, 4):
        action = partial(train, out=folder / "training" / str(nth))
        if not killed(action, partial(die_before_flush, nth)):
            return nth
    raise AssertionError


@pytest.fixture(scope="module")
def graveyard(tmp_path_factory):
    """Everything that was left by being killed, and at which n each lived."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    # In memory where that can be had: hundreds of flushes are then not waited for.
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK) else tmp_path_factory.mktemp("killed")
    with tempfile.TemporaryDirectory(prefix="colonnade-", dir=base) as folder:
        command = [sys.executable, __file__, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        yield Path(folder), json.loads(done.stdout)


@pytest.mark.parametrize("others", OTHERS)
def test_a_kill_while_writing_leaves_the_previous_checkpoint_or_the_new_one(graveyard, others):
    folder, lived = graveyard
    previous = 4 if 4 in OTHERS[others][0] else None
    found = []
    for nth in range(1, lived[others] + 1):
        store = CheckpointStore(folder / others / str(nth) / "checkpoints", {"run": "fingerprint"})
        if (
            others == "all damaged"
            and (store.folder / "round-00000006").exists()
            and (not store.holds(6))
        ):
            with pytest.raises(CheckpointError, match="round-00000006 damaged"):
                store.latest()  # as it was before
            found.append(None)
        else:
            checkpoint = store.latest()
            found.append(None if checkpoint is None else checkpoint.round)
            if checkpoint is not None:
                assert_whole(checkpoint, checkpoint.round)
        for round in (6, 8, 10):
            commit(store, round)
            assert_whole(store.latest(), round)
        assert names(store) == ["round-00000008", "round-00000010"]
    # Once the new checkpoint is there it stays; until then it is the previous one.
    before = found.index(6)
    assert before > 10
    assert found == [previous] * before + [6] * (len(found) - before)


@pytest.mark.usefixtures("no_pictures")
def test_a_training_run_killed_while_it_saves_goes_on_to_the_same_bits(graveyard):
    folder, lived = graveyard
    killed_at = range(1, lived["training"], 4)
    assert len(killed_at) >= 6
    whole = tiny().train(svfl(), TINY, SIMULATE)
    resumed_from = []
    for nth in killed_at:
        out = folder / "training" / str(nth)
        resumed_from.append(len(list(out.glob("**/round-*"))))
        rest = tiny().train(svfl(), TINY, SIMULATE, out=out, resume=True)
        assert rest.summary["completed"]
        assert_same(whole, rest)
    assert set(resumed_from) >= {0, 1, 2}  # checkpoints there were to go on from


if __name__ == "__main__":
    # Children are forked from here, before anything has started a thread that they would lack.
    graves = Path(sys.argv[1])
    ends = {others: kill_store(graves, others) for others in OTHERS}
    print(json.dumps(ends | {"training": kill_training(graves)}))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes that have names")
@pytest.mark.parametrize("name", ["manifest.json", "bank.safetensors"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path, name):
    store = CheckpointStore(tmp_path / "checkpoint", {"run": "fingerprint"})
    store.make()
    for round in (1, 2):
        draft = store.draft(round)
        draft.write("bank.safetensors", encode_state({"round": round}))
        store.commit(draft, round, {})
    newest = tmp_path / "checkpoint" / "round-00000002" / name
    newest.unlink()
    os.mkfifo(newest)
    store.check_format()
    found = store.latest()
    assert found is not None
    assert found.round == 1


@pytest.mark.parametrize("place", ["round-00000003", "writing-round-00000004"])
@pytest.mark.parametrize("what", ["run/config.yaml", "notes.txt", "deep.json/data"])
def test_what_is_no_checkpoints_is_not_removed(tmp_path, place, what):
    """A folder of somebody's in the place of a checkpoint went as the run went on."""
    store = filled(tmp_path, 2)
    own = store.folder / place / what
    own.parent.mkdir(parents=True)
    own.write_text("somebody's", encoding="utf-8")
    with pytest.raises(CheckpointError, match="is no part of a checkpoint: move it away"):
        store.latest()
    with pytest.raises(Unwritten) if place == "round-00000003" else nullcontext():
        commit(store, 3)
    assert own.read_text(encoding="utf-8") == "somebody's"


def test_a_run_goes_on_beside_an_old_checkpoint_with_more_in_it(tmp_path):
    store = filled(tmp_path, 2, 3)
    (store.folder / "round-00000002/notes.txt").touch()
    commit(store, 4)
    commit(store, 5)
    assert names(store) == ["round-00000002", "round-00000004", "round-00000005"]
    assert [file.name for file in (store.folder / "round-00000002").iterdir()] == ["notes.txt"]


def test_a_checkpoint_that_somebody_looked_at_is_one(tmp_path):
    store = filled(tmp_path, 2, 3)
    for name in (".DS_Store", ".nfs0001"):
        (store.folder / "round-00000002" / name).touch()
    assert_whole(store.latest(), 3)
    commit(store, 4)
    assert names(store) == ["round-00000003", "round-00000004"]


def test_a_checkpoint_elsewhere_is_not_removed(tmp_path):
    """Of a link, the files that it names."""
    store = filled(tmp_path, 2, 3)
    kept = (store.folder / "round-00000002").rename(tmp_path / "kept")
    (store.folder / "round-00000002").symlink_to(kept)
    before = {file.name for file in kept.iterdir()}
    with pytest.raises(CheckpointError, match="round-00000002 is no part of a checkpoint"):
        store.latest()
    for removes in (lambda: store.go_back_to(None), lambda: commit(store, 4)):
        with pytest.raises(Unwritten):
            removes()
    assert {file.name for file in kept.iterdir()} == before
