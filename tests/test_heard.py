"""Who may ask FLARE's processes for what, where a kit is prepared."""

from __future__ import annotations

import pytest

pytest.importorskip("nvflare")

from colonnade.deployment.heard import may_ask

JOB, OTHER = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "5c0a7d7e-1111-4b2d-9b5d-ab8dfbbd4bed"
OPERATOR = "_admin_1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
SITES = ("bank", "shop")  # of the job

JOINS = ("challenge", "register", "heart_beat", "quit", "report_job_failure")
DOWNLOAD = ("download_service__", "download_service__download")
SEALED, KEYS = "colonnade-sealed", "credential_manager"
SAID = [  # what is said in a run: to whom, by whom, on which channel, about what
    *(("server", "bank", "task", topic) for topic in JOINS),
    *(("server", OPERATOR, "task", topic) for topic in ("challenge", "register")),
    *(("server", OPERATOR, "hci_channel", topic) for topic in ("command", "SESSION_EXPIRED")),
    ("server", OPERATOR, "aux_communication", "ObjectStreamer.Request"),
    ("server", OPERATOR, "aux_communication", "ObjectStreamer.Abort"),
    ("server", OPERATOR, *DOWNLOAD),
    ("server", f"server.{JOB}", "server_parent_listener", "heartbeat"),
    ("server", OPERATOR, "sm__STREAM", "sm__ACK"),
    ("server", OPERATOR, "sm__STREAM", "sm__ERROR"),
    (OPERATOR, "server", "sm__STREAM", "sm__ACK"),
    (OPERATOR, "server", "sm__STREAM", "sm__ERROR"),
    (OPERATOR, "server", "return_only", "any"),
    (OPERATOR, "server", "hci_channel", "SESSION_EXPIRED"),
    (f"server.{JOB}", f"bank.{JOB}", "sm__STREAM", "sm__ACK"),
    (f"server.{JOB}", f"bank.{JOB}", "sm__STREAM", "sm__ERROR"),
    (f"bank.{JOB}", f"server.{JOB}", "sm__STREAM", "sm__ACK"),
    (f"bank.{JOB}", f"server.{JOB}", "sm__STREAM", "sm__ERROR"),
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
    (f"bank.{JOB}", "server", "sm__STREAM", "sm__ERROR"),
    (f"bank.{JOB}", "shop", "sm__STREAM", "sm__ERROR"),
    (f"server.{JOB}", "bank", "sm__STREAM", "sm__ERROR"),
    ("server", OPERATOR, "return_only", "any"),
    (f"server.{JOB}", f"bank.{JOB}", "return_only", "any"),
    (f"bank.{JOB}", f"server.{JOB}", SEALED, "to_role"),
    (f"bank.{JOB}", f"server.{JOB}", KEYS, "key_exchange"),
    (f"bank.{JOB}", f"shop.{JOB}", SEALED, "between"),
    (f"bank.{JOB}", f"shop.{JOB}", KEYS, "key_exchange"),
]
WHATEVER = (SEALED, KEYS, "admin", "return_only")  # channels whose topics somebody else looks at
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


@pytest.mark.parametrize("own", ["server", "bank", OPERATOR, f"server.{JOB}", f"bank.{JOB}"])
def test_what_a_run_says_may_be_asked_and_nothing_else(own):
    """Members ended others' jobs, had events fired and asked how connections are."""
    for origin in (*NAMES, *STRANGERS):
        for channel, topic in {tuple(on) for _, _, *on in SAID}:
            said = asked(own, origin, channel, topic)
            its_own = root(own) == root(origin)
            may = may_ask(own, origin, channel, topic, SITES)
            if root(origin) in ("clinic", "bankrupt") and topic == "sm__ERROR":
                said = None  # of members, those who are in the job alone
            assert may == (its_own or topic == "bye" or said in IN_A_RUN), said


@pytest.mark.parametrize(
    ("own", "origin", "channel", "topic"),
    [
        ("server", "bank", "server_parent_listener", "get_clients"),
        ("server", "bank", "_net_manager", "stop_cell"),
        ("server", "bank", "aux_communication", "fed.event"),
        ("server", "bank", "aux_communication", "ObjectStreamer.Request"),
        ("server", "bank", "hci_channel", "command"),
        ("server", "bank", "cellnet.channel", "bulk"),
        ("server", "bank", *DOWNLOAD),
        (f"server.{JOB}", f"bank.{JOB}", *DOWNLOAD),
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
        (OPERATOR, "server", "admin", "train.abort"),
        (OPERATOR, "server", "hci_channel", "command"),
        (OPERATOR, "server", "aux_communication", "fed.event"),
        (OPERATOR, "server", "_net_manager", "stop_cell"),
        (OPERATOR, "bank", "hci_channel", "SESSION_EXPIRED"),
        (f"bank.{JOB}", "server", "client_command", "abort"),
        (f"bank.{JOB}", f"server.{JOB}", "client_command", "abort"),
        (f"bank.{JOB}", f"server.{JOB}", "aux_communication", "fed.event"),
        (f"bank.{JOB}", f"server.{OTHER}", "aux_communication", "__end_run__"),
        (f"bank.{JOB}", f"shop.{JOB}", "aux_communication", "__end_run__"),
        (f"bank.{JOB}", f"shop.{OTHER}", SEALED, "between"),
        (f"bank.{JOB}", "shop", SEALED, "between"),
        ("server", "bank", "sm__STREAM", "sm__ACK"),
        (f"server.{JOB}", f"bank.{OTHER}", "sm__STREAM", "sm__ACK"),
        (f"bank.{JOB}", f"shop.{JOB}", "sm__STREAM", "sm__ERROR"),
        (f"bank.{JOB}", "clinic", "sm__STREAM", "sm__ERROR"),
        (f"bank.{JOB}", "server", "sm__STREAM", "sm__ACK"),
        (f"bank.{JOB}", f"clinic.{JOB}", KEYS, "key_exchange"),
        (f"bank.{JOB}", f"{OPERATOR}.{JOB}", KEYS, "key_exchange"),
        (f"bank.{JOB}", f"clinic.{JOB}", SEALED, "between"),
        ("server", OPERATOR, "task", "heart_beat"),
    ],
)
def test_what_is_on_no_list_may_not_be_asked(own, origin, channel, topic):
    assert not may_ask(own, origin, channel, topic, SITES)


@pytest.mark.parametrize("sites", [(), ("clinic",)])
def test_a_process_of_a_job_hears_the_sites_of_the_job(sites):
    """Who takes no part ended it by an update that cannot be decoded, or cut sites off."""
    assert not may_ask(f"server.{JOB}", f"bank.{JOB}", "server_command", "submit_update", sites)
    assert not may_ask(f"shop.{JOB}", f"bank.{JOB}", KEYS, "key_exchange", sites)
    assert may_ask(f"shop.{JOB}", f"server.{JOB}", KEYS, "key_exchange", sites)
