"""What a site lets a job do: refused in words, before data are read, and before anything leaves."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import yaml

from colonnade import methods
from colonnade.batches import BatchPlan
from colonnade.codecs import Scalar, TopK
from colonnade.config import parse_config
from colonnade.config.models import ObjectiveConfig
from colonnade.config.tables import SplitConfig
from colonnade.deployment.aligning import AligningTogether
from colonnade.deployment.guest import Guest
from colonnade.deployment.job import Task, job_of
from colonnade.deployment.leaving import Leaving, leaving_in_training
from colonnade.deployment.metered import Metered
from colonnade.deployment.policy import NO_POLICY, PolicyConfig, load_policy
from colonnade.deployment.site import load_site, notes_of
from colonnade.drivers.couriered import GATEKEEPER
from colonnade.drivers.player import Parcel
from colonnade.errors import Aborted, ConfigurationError
from colonnade.models import Mean, Sum
from colonnade.privacy import Budget, FixedPoint
from colonnade.run_read import load_run
from colonnade.stragglers import Fastest
from colonnade.testing.methods import DRIVER, TRAINING, small_federation
from colonnade.training import EarlyStopping
from test_coded import polynomials
from test_deployment import (  # noqa: F401  # a fixture
    Mesh,
    configuration,
    failing,
    in_one_process,
    play,
    prepared,
)
from test_masked import bounded

PAGE = Path(__file__).parent.parent / "docs" / "policy.md"

pytestmark = pytest.mark.usefixtures("no_pictures")


def a_job(method="svfl", task="train", without=None, at="site", **training):
    told = configuration("nowhere", method, **{"secrets": "system", **training})
    job = job_of(parse_config(told), "first", task, at)
    return job.model_copy(update={"fallbacks": without or {}})


def why(policy, job, name="bank"):
    """Return why a job is refused; nothing if it is not."""
    return _said(lambda: policy.check_job(job, name))


def why_then(policy, leaving, name="bank", job=None):
    """Return why what was agreed on is refused; nothing if it is not."""
    return _said(lambda: policy.check_leaving(job or a_job(), name, leaving))


def _said(check):
    try:
        check()
    except ConfigurationError as error:
        return str(error)
    return ""


# What follows from the job

SHARED = {"name": "fedbcd", "local_steps": 2, "labels": "shared"}
COMPOSED = {"name": "mine", "uplink": {"uplink": "plain"}}
SUMS = {"name": "pbm_vfl", "trials": 4, "beta": 0.05}
HOSTED = "label_holder_at allows site, and the job wants server"


@pytest.mark.parametrize(
    ("said", "job", "name", "refused"),
    [
        ({}, a_job(), "bank", ""),
        ({"tasks": ["train"]}, a_job(), "bank", ""),
        ({"tasks": ["align"]}, a_job(), "bank", "tasks allows align, and the job wants train"),
        ({"tasks": ["train"]}, a_job(task="align"), "bank", "and the job wants align"),
        ({"methods": ["pbm_vfl", "svfl"]}, a_job(), "bank", ""),
        (
            {"methods": ["pbm_vfl", "wait_dp"]},
            a_job(),
            "bank",
            "methods allows pbm_vfl, wait_dp, and the job wants svfl",
        ),
        ({"methods": []}, a_job(task="align"), "bank", ""),
        ({"methods": ["composition"]}, a_job(COMPOSED), "bank", ""),
        ({"methods": ["svfl"]}, a_job(COMPOSED), "bank", "and the job wants composition"),
        ({"label_holders": ["insurer"]}, a_job(), "bank", ""),
        (
            {"label_holders": ["registry"]},
            a_job(),
            "bank",
            "label_holders allows registry, and the job wants insurer",
        ),
        ({"label_holders": []}, a_job(), "insurer", ""),
        *(
            ({"label_holders": ["insurer"]}, a_job(task=task, at="server"), "bank", HOSTED)
            for task in get_args(Task)
        ),
        ({"label_holder_at": ["site", "server"]}, a_job(at="server"), "bank", ""),
        ({"label_holder_at": ["server"]}, a_job(), "bank", "allows server, and the job wants site"),
        ({}, a_job(at="server"), "insurer", ""),
        ({"parties": ["shop"]}, a_job(), "bank", ""),
        ({"parties": []}, a_job(), "bank", "parties allows none, and the job wants shop"),
        ({"parties": ["bank"]}, a_job(), "insurer", "parties allows bank, and the job wants shop"),
        ({"labels": "shared"}, a_job(SHARED), "insurer", ""),
        ({}, a_job(SHARED), "insurer", "labels allows private, and the job wants shared"),
        ({}, a_job(SHARED), "bank", ""),
        ({"embeddings": ["secure_sum"]}, a_job(SUMS), "bank", ""),
        (
            {"embeddings": ["secure_sum"]},
            a_job("wait_dp"),
            "bank",
            "embeddings asks for secure_sum, and by the job's method wait_dp each party's are",
        ),
        ({"simulations": True}, a_job(secrets="seed"), "bank", ""),
        ({}, a_job(secrets="seed"), "bank", "simulations allows none, and the job declares one"),
        ({}, a_job(secrets="seed", task="align"), "bank", ""),
        ({}, a_job(SHARED, "predict", secrets="seed"), "insurer", ""),
        (
            {"tasks": ["align", "train"], "embeddings": ["secure_sum"]},
            a_job(task="predict"),
            "bank",
            "tasks allows align, train, and the job wants predict; embeddings asks for secure_sum",
        ),
        ({"embeddings": ["secure_sum"]}, a_job(SUMS, "predict"), "bank", ""),
        *(
            (
                {"embeddings": ["secure_sum"]},
                a_job(SUMS, task, without={"shop": "zeros"}),
                "bank",
                "embeddings asks for secure_sum, and a sum of one party's hides nothing",
            )
            for task in ("predict", "serve")
        ),
    ],
)
def test_what_a_job_wants_is_compared_with_what_is_allowed(said, job, name, refused):
    told = why(PolicyConfig(**said), job, name)
    assert refused in told
    assert bool(refused) == bool(told)
    assert not told or told.startswith(f"{name!r} refuses the job 'first' by its policy.yaml: ")
    assert not why(NO_POLICY, job, name)


def test_a_site_is_told_who_has_what_it_sends_where_the_server_is_the_label_holder(tmp_path):
    site = site_at(tmp_path / "bank", "label_holder_at: [server]\n")
    [note] = notes_of(a_job(at="server"), site)
    assert note == (
        "the role of 'insurer' is played at the server: whoever runs that sees what is sent to "
        "'insurer'"
    )
    assert notes_of(a_job(), site) == ()
    open_to_all = site_at(tmp_path / "other")
    assert notes_of(a_job(at="server"), open_to_all) == (*open_to_all.notes, note)
    holder = open_to_all.model_copy(update={"organisation": "insurer"})
    assert notes_of(a_job(at="server"), holder) == holder.notes


@pytest.mark.parametrize(
    ("said", "later"),
    [
        ({}, []),
        ({"methods": ["svfl"], "embeddings": ["secure_sum"]}, []),
        ({"max_bytes": 9, "max_epsilon": 0}, ["max_bytes", "max_epsilon"]),
        ({"min_rows": 1}, ["min_rows"]),
        (
            {"kinds": [], "embeddings": ["differential_privacy"]},
            ["kinds", "differential_privacy"],
        ),
    ],
)
def test_what_no_job_tells_is_compared_later(said, later):
    assert PolicyConfig(**said).compared_later == later


def site_at(folder, policy=None):
    """Return a site of which no table and no alignment is there."""
    folder.mkdir(exist_ok=True)
    (folder / "site.yaml").write_text("organisation: bank\nid: id\ntable: {source: gone.csv}\n")
    if policy is not None:
        (folder / "policy.yaml").write_text(policy)
    return load_site(folder / "site.yaml")


@pytest.mark.parametrize("task", ["train", "align"])
def test_a_job_is_refused_with_every_reason_before_any_data_are_read(tmp_path, task):
    site = site_at(tmp_path / "bank", "methods: [pbm_vfl]\nparties: []\nlabel_holders: []\n")
    told = []
    guest = Guest(a_job(task=task), site, lambda *sent: told.append(sent), "threads")
    with pytest.raises(ConfigurationError, match="'bank' refuses") as refused:
        guest.attend()
    assert str(refused.value).count(" allows ") == {"train": 3, "align": 2}[task]
    assert {peer for peer, _ in told} == {GATEKEEPER}
    assert any(b"refuses the job" in datagram for _, datagram in told)
    assert str(tmp_path) not in str(refused.value)


# What follows from what was agreed on


@pytest.mark.parametrize(
    ("said", "leaving", "refused"),
    [
        ({"kinds": ["embedding"]}, Leaving(frozenset({"embedding"})), ""),
        (
            {"kinds": ["masked_embedding", "offer"]},
            Leaving(frozenset({"embedding", "offer"})),
            "kinds allows masked_embedding, offer, and the job wants embedding",
        ),
        ({"max_bytes": 1000}, Leaving(frozenset(), 1000), ""),
        ({"max_bytes": 1000}, Leaving(frozenset()), ""),
        (
            {"max_bytes": 1000},
            Leaving(frozenset(), 1001),
            "max_bytes allows 1,000, and by what was agreed up to 1,001 would leave",
        ),
    ],
)
def test_what_leaves_is_compared_with_what_is_allowed(said, leaving, refused):
    told = why_then(PolicyConfig(**said), leaving)
    assert refused in told
    assert bool(refused) == bool(told)
    assert not why_then(NO_POLICY, leaving)


FEW = "asks for 5 or more rows, and the job's metrics of validation may be of 1: let it evaluate on"


@pytest.mark.parametrize(
    ("policy", "name", "reported", "refused"),
    [
        (NO_POLICY, "insurer", {"train_loss": 5, "metrics of test": 5}, ""),
        (NO_POLICY, "bank", {"metrics of validation": 1}, ""),
        (
            NO_POLICY,
            "insurer",
            {"metrics of validation": 1},
            f", as it has no policy.yaml that lets it run: min_rows, as by default, {FEW}",
        ),
        (
            PolicyConfig(),
            "insurer",
            {"metrics of validation": 1},
            f" by its policy.yaml: min_rows, as by default, {FEW}",
        ),
        (PolicyConfig(min_rows=1), "insurer", {"metrics of validation": 1}, ""),
        (
            PolicyConfig(min_rows=20),
            "insurer",
            {"train_loss": 19},
            "min_rows asks for 20 or more rows, and the job's train_loss may be of 19",
        ),
    ],
)
def test_no_metric_is_of_fewer_rows_than_the_label_holder_lets(policy, name, reported, refused):
    told = why_then(policy, Leaving(frozenset(), reported=reported), name)
    assert refused in told
    assert bool(refused) == bool(told)


@pytest.mark.parametrize(("every", "segments"), [(1, 1), (2, 1), (7, 1), (30, 1), (2, 3), (5, 3)])
def test_a_loss_is_of_as_many_rows_as_are_trained_on_between_two_reports(every, segments):
    plan = BatchPlan(np.arange(23), batch_size=6, epochs=5, seed=3).in_groups(segments)
    sizes = [len(plan.rows(round)) for round in range(plan.rounds)]
    fewest = min(sum(sizes[begin : begin + every]) for begin in range(0, plan.rounds, every))
    told = plan.fewest_rows(every)
    assert told == fewest if segments == 1 else fewest - segments < told <= fewest


@pytest.mark.parametrize(
    ("rows", "every", "fewest"), [(9, 1, 1), (9, 2, 9), (52, 7, 52), (52, 3, 4)]
)
def test_a_group_that_is_short_is_in_an_epoch_that_is_not_whole(rows, every, fewest):
    assert BatchPlan(np.arange(rows), 8, 1, 0).in_groups(8).fewest_rows(every) == fewest


def test_what_is_reported_is_known_by_its_rows_before_it_is():
    method = methods.svfl()
    federation = small_federation(method)
    often = replace(TRAINING, evaluate_every=1)
    agreement = federation.agreement(method, often)
    reported = leaving_in_training(agreement, agreement.layout.label_holder).reported
    watched, last = agreement.evaluation.watched, agreement.evaluation.final
    held_out = {f"metrics of {each.name}": len(each.rows) for each in (watched, last) if each}
    assert held_out
    assert reported == held_out | {"train_loss": min(agreement.batches.sizes)}


def test_a_job_that_evaluates_on_one_row_is_refused_by_the_label_holder(tmp_path):
    _, job, sites = prepared(tmp_path)
    split = SplitConfig(validation=0.005, test=0.0, seed=3)
    rows = job.rows.model_copy(update={"split": split})
    objective = ObjectiveConfig.model_validate({"metrics": ["accuracy"]})
    job = job.model_copy(update={"rows": rows, "objective": objective})
    failed = play(job, sites, Mesh())
    assert set(failed) == {"bank", "shop", "insurer", GATEKEEPER}
    for error in failed.values():
        assert f"min_rows, as by default, {FEW}" in str(error)
    allowed = with_policy(sites, "insurer", "min_rows: 1\nsimulations: true\n")
    assert play(job, allowed, Mesh()) == {}


@pytest.mark.parametrize(
    ("said", "name", "account", "refused"),
    [
        ({"max_epsilon": 2}, "bank", {"epsilon": 2.0, "delta": 1e-5}, ""),
        (
            {"max_epsilon": 2},
            "bank",
            {"epsilon": 2.5, "delta": 1e-5},
            "max_epsilon allows 2, and that of the job's embeddings is 2.5",
        ),
        (
            {"max_epsilon": 2},
            "insurer",
            {"epsilon": 2.5, "delta": 1e-5},
            "max_epsilon allows 2, and that of the job's labels is 2.5",
        ),
        (
            {"max_epsilon": 2},
            "bank",
            {"epsilon": 1.0, "delta": 1e-3},
            "max_delta allows 1e-05, and the job's account of embeddings is told at 0.001",
        ),
        ({"max_epsilon": 2, "max_delta": 0.001}, "bank", {"epsilon": 1.0, "delta": 1e-3}, ""),
        ({"max_epsilon": 2}, "bank", {"epsilon": None, "delta": 1e-5}, "and nothing bounds that"),
        ({"max_epsilon": 2}, "bank", {}, "and nothing bounds that of the job's embeddings"),
        (
            {"embeddings": ["differential_privacy"]},
            "bank",
            {"epsilon": None, "delta": 1e-5},
            "embeddings asks for differential_privacy, and nothing bounds what",
        ),
        ({"embeddings": ["differential_privacy"]}, "bank", {"epsilon": 9.0, "delta": 1e-5}, ""),
    ],
)
def test_an_account_is_compared_with_what_may_be_told(said, name, account, refused):
    accounts = {"of_labels" if name == "insurer" else "of_embeddings": account}
    told = why_then(PolicyConfig(**said), Leaving(frozenset(), 0, **accounts), name)
    assert refused in told
    assert bool(refused) == bool(told)
    aligns = Leaving(frozenset({"sizes"}))
    assert not why_then(PolicyConfig(**said), aligns, name, a_job(task="align"))
    of_predictions = why_then(
        PolicyConfig(**said), Leaving(frozenset(), 0, **accounts), name, a_job(task="predict")
    )
    assert of_predictions.replace("'predict'", "") == ("" if "labels" in told else told)


EXACT = methods.pbm_vfl(trials=4, beta=0.05, held_out=FixedPoint())
METHODS = [
    (methods.svfl(), small_federation),
    (replace(methods.svfl(fusion=Mean()), stragglers=Fastest(2)), small_federation),
    (methods.lean(), small_federation),
    (methods.celu(), small_federation),
    (methods.vafl(), small_federation),
    (methods.efvfl(TopK(ratio=0.1), labels="shared"), small_federation),
    (methods.cvfl(Scalar(bits=4), 2, Sum(), "shared", others="total"), small_federation),
    (methods.wait_dp(budget=Budget(epsilon=30, delta=1e-5)), small_federation),
    (methods.pbm_vfl(trials=4, beta=0.05), bounded),
    (EXACT, bounded),
    (methods.fedvs(), partial(polynomials, parties=3)),
]


@pytest.mark.parametrize(
    ("method", "federation"), METHODS, ids=lambda each: getattr(each, "name", "")
)
def test_nobody_sends_more_than_is_told_before(method, federation):
    training = replace(TRAINING, early_stopping=EarlyStopping(patience=None))
    federation = federation(method)
    agreement = federation.agreement(method, training)
    run = federation.train(method, training, driver=DRIVER, report=False)
    for name in (federation.parties[0].name, federation.label_holder.name):
        leaving = leaving_in_training(agreement, name)
        mine = [entry for entry in run.ledger if entry.sender == name]
        assert {entry.kind for entry in mine} <= leaving.kinds
        sent = sum(entry.framed_bytes for entry in mine)
        assert sent <= leaving.bytes < 2.5 * sent
    spent = run.summary["privacy_loss"]
    told = leaving.of_embeddings.get("epsilon")
    assert told == (None if spent is None else pytest.approx(spent["epsilon"]))


def test_what_leaves_in_an_alignment_is_known_by_its_kinds(tmp_path):
    together = AligningTogether(a_job(task="align"), site_at(tmp_path / "bank"))
    assert together.leaving == Leaving(frozenset({"sizes", "blinded"}))


def test_a_message_that_goes_beyond_the_limit_stays():
    sent = []

    class Carried:
        def send(self, receiver, parcel):
            sent.append(receiver)

    metered = Metered(Carried(), "bank", most=250, left=30)
    parcel = Parcel(bytes(16), bytes(80), ())  # 100 bytes on a stream
    metered.send("shop", parcel)
    metered.send("insurer", parcel)
    with pytest.raises(ConfigurationError, match=r"max_bytes allows 250, and .* 330 would have"):
        metered.send("shop", parcel)
    assert sent == ["shop", "insurer"]


def test_the_example_of_the_page_lets_secure_sums_with_noise_run():
    said = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    policy = PolicyConfig(**yaml.safe_load(said))
    for task in ("align", "train"):
        assert not why(policy, a_job(SUMS, task))
    job, method = a_job(SUMS), methods.pbm_vfl(trials=4, beta=0.05)
    agreement = bounded(method).agreement(method, replace(TRAINING, epochs=1))
    assert not why_then(policy, leaving_in_training(agreement, "party_0"), job=job)
    longer = bounded(method).agreement(method, replace(TRAINING, epochs=99))
    assert "max_epsilon" in why_then(policy, leaving_in_training(longer, "party_0"), job=job)


# Over the mesh


def with_policy(sites, name, said):
    """Give a site a policy."""
    folder = sites[name].runs.parent
    (folder / "policy.yaml").write_text(said)
    return sites | {name: load_site(folder / "site.yaml")}


def between_organisations(mesh):
    """Return the datagrams that organisations send each other, as they do."""
    found, usual = [], mesh.post

    def post(own):
        carry = usual(own)

        def heard(peer, datagram):
            if GATEKEEPER not in (own, peer):
                found.append(datagram)
            carry(peer, datagram)

        return heard

    mesh.post = post
    return found


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("methods: [pbm_vfl]\nsimulations: true\n", "methods allows pbm_vfl, and the job wants"),
        ("kinds: [offer]\nmax_bytes: 9\nsimulations: true\n", "kinds allows offer, and the job"),
    ],
    ids=["by the job", "by what was agreed"],
)
def test_all_sites_are_told_who_refuses_and_why_and_nothing_leaves(tmp_path, said, reason):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()
    sent = between_organisations(mesh)
    failed = play(job, with_policy(sites, "bank", said), mesh)
    assert set(failed) == {"bank", "shop", "insurer", GATEKEEPER}
    for error in failed.values():
        assert f"'bank' refuses the job 'first' by its policy.yaml: {reason}" in str(error)
    assert isinstance(failed["shop"], Aborted)
    assert not sent
    assert not sites["bank"].runs.exists()


def test_an_alignment_ends_before_more_leaves_than_may(tmp_path):
    _, job, sites = prepared(tmp_path)
    aligns = job.model_copy(update={"task": "align"})
    failed = play(aligns, with_policy(sites, "shop", "max_bytes: 1000\n"), Mesh())
    assert set(failed) == {"bank", "shop", "insurer", GATEKEEPER}
    for error in failed.values():
        assert "'shop' ends the run by its policy.yaml: max_bytes allows 1,000" in str(error)


def test_what_left_before_a_failure_counts(tmp_path):
    _, job, sites = prepared(tmp_path, epochs=6, checkpoint_every=1000)
    assert play(job, sites, failing(Mesh(), "bank", 20))
    enough_for_one = "max_bytes: 12_300\nsimulations: true\n"
    failed = play(job, with_policy(sites, "bank", enough_for_one), Mesh())
    assert set(failed) == {"bank", "shop", "insurer", GATEKEEPER}
    assert "'bank' ends the run by its policy.yaml: max_bytes allows 12,300" in str(failed["bank"])


# Files


def test_a_site_without_a_policy_says_so(tmp_path):
    site = site_at(tmp_path / "bank")
    assert site.notes == ("'bank' has no policy.yaml, so its site lets every job run",)
    assert load_policy(site.policy) == NO_POLICY
    assert not site_at(tmp_path / "bank", "tasks: [align]\n").notes


def test_what_is_allowed_runs_and_the_summary_says_where_there_is_no_policy(tmp_path):
    _, job, sites = prepared(tmp_path, epochs=1)
    allowed = "methods: [svfl]\nkinds: [embedding]\nmax_bytes: 100_000\nsimulations: true\n"
    assert play(job, with_policy(sites, "bank", allowed), Mesh()) == {}
    warnings = load_run(sites["insurer"].runs / "first").summary["warnings"]
    assert "'insurer' has no policy.yaml, so its site lets every job run" in warnings


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("method: [svfl]", "method: unknown key; there are tasks, methods,"),
        ("max_bytes: -1", "max_bytes: input should be greater than or equal to 1, not -1"),
        ("max_epsilon: -0.5", "max_epsilon: input should be greater than or equal to 0"),
        ("max_epsilon: .inf", "max_epsilon: input should be less than"),
        ("max_delta: 0", "max_delta: input should be greater than 0"),
        ("embeddings: [noise]", "embeddings.0: input should be 'secure_sum' or"),
        ("methods: [svlf]", "methods: there is no method 'svlf'; there are "),
        (
            "methods: [mine]",
            "methods: there is no method 'mine'; there are ",
        ),  # any could be called
        ("tasks: train", "tasks: input should be a valid list"),
        ("labels: hidden", "labels: input should be 'private' or 'shared'"),
        ("", "expected keys and values"),
        ("- svfl", "expected keys and values"),
        ("tasks: [", "is not valid YAML"),
    ],
)
def test_a_policy_that_says_something_else_is_refused_with_its_path(tmp_path, text, said):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        load_policy(path)
    assert str(refused.value).startswith(str(path))
    assert said in str(refused.value)


def test_a_policy_that_is_named_and_not_there_is_no_missing_one(tmp_path):
    assert site_at(tmp_path).policy is None
    (tmp_path / "policy.yaml").symlink_to("nowhere.yaml")
    with pytest.raises(ConfigurationError, match=r"policy\.yaml cannot be read"):
        load_policy(load_site(tmp_path / "site.yaml").policy)
    with (tmp_path / "site.yaml").open("a") as file:
        file.write("policy: ours.yaml\n")
    with pytest.raises(ConfigurationError, match=r"ours\.yaml cannot be read"):
        load_policy(load_site(tmp_path / "site.yaml").policy)
