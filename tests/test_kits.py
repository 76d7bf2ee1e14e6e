"""A kit of FLARE's is prepared: jobs are ours alone, and what the owner has said stays."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from colonnade import cli
from colonnade.deployment.flare_paths import check_folder, check_program
from colonnade.deployment.folders import CLASSES, GUARD, OPERATOR_GUARD, TRACKERS, VALIDATOR
from colonnade.deployment.kits import prepare_kit
from colonnade.errors import ConfigurationError, DataError

USUAL = {
    "format_version": 2,
    "class_allow_list": ["nvflare.their.One"],
    "allow_log_streaming": True,
    "snapshot_persistor": {"args": {"storage": {"args": {"root_dir": "/tmp/nvflare/snapshots"}}}},
    "components": [
        {"id": "job_scheduler", "args": {"max_jobs": 4}},
        {"id": "job_manager", "args": {"uri_root": "/tmp/nvflare/jobs-storage"}},
    ],
}


RIGHTS = {
    "format_version": "1.0",
    "permissions": {
        "project_admin": "any",
        "lead": {"submit_job": "any", "shell_commands": "o:site", "byoc": "any", "cat": "any"},
        "member": {"view": "any"},
    },
}


@pytest.fixture
def kit(tmp_path):
    (tmp_path / "local").mkdir()
    for name, said in (("resources", USUAL), ("authorization", RIGHTS)):
        file = tmp_path / f"local/{name}.json.default"
        file.write_text(json.dumps(said), encoding="utf-8")
    return tmp_path


def kept(settings):
    """Return where a server keeps jobs and snapshots."""
    storage = settings["snapshot_persistor"]["args"]["storage"]
    return settings["components"][1]["args"]["uri_root"], storage["args"]["root_dir"]


def test_a_server_lets_jobs_in_and_keeps_all_in_its_kit(kit):
    settings = json.loads(prepare_kit(kit).read_text(encoding="utf-8"))
    assert settings["class_allow_list"] == [*CLASSES]
    assert settings["allow_log_streaming"] is False
    assert kept(settings) == (str(kit / "jobs"), str(kit / "snapshots"))
    assert settings["components"][0] == USUAL["components"][0]


def test_twice_is_as_once_and_what_the_owner_said_stays(kit):
    file = prepare_kit(kit)
    once = file.read_bytes()
    assert prepare_kit(kit).read_bytes() == once
    listed = ["nvflare.their.One", *CLASSES, "owners.Own"]  # as an earlier version left them
    own = json.loads(once) | {"own": 7, "class_allow_list": listed}
    own["components"][1]["args"]["uri_root"] = "/srv/jobs"
    file.write_text(json.dumps(own), encoding="utf-8")
    settings = json.loads(prepare_kit(kit).read_text(encoding="utf-8"))
    assert settings["class_allow_list"] == ["owners.Own", *CLASSES]
    assert settings["own"] == 7
    assert kept(settings)[0] == "/srv/jobs"


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_server_lets_a_job_name_the_receiver_that_it_was_written_with(kit, monkeypatch, tracker):
    monkeypatch.setattr(sys, "argv", ["colonnade", "prepare-kit", str(kit), "--track", tracker])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 0
    settings = json.loads((kit / "local/resources.json").read_text(encoding="utf-8"))
    assert settings["class_allow_list"] == [*CLASSES, TRACKERS[tracker]]


def test_nobody_may_bring_code_or_use_a_shell(kit):
    for _ in range(2):
        prepare_kit(kit)
        rights = json.loads((kit / "local/authorization.json").read_text(encoding="utf-8"))
        assert rights["format_version"] == "1.0"
        for role, theirs in rights["permissions"].items():
            assert {theirs[right] for right in ("byoc", "shell_commands")} == {"none"}, role
    assert rights["permissions"]["project_admin"]["submit_job"] == "any"
    assert rights["permissions"]["lead"]["submit_job"] == "any"
    assert "submit_job" not in rights["permissions"]["member"]


RUNNING_JOBS = (
    "list_jobs",
    "get_job_log",
    "report_version",
    "download_job",
    "abort_job",
    "delete_job",
    "restart",
)
"""What docs/deploy.md lets an operator do, as FLARE asks whether it may."""


def test_flare_reads_these_rights_so(kit):
    authz = pytest.importorskip("nvflare.fuel.sec.authz")
    security = pytest.importorskip("nvflare.security.security")
    prepare_kit(kit)
    rights = json.loads((kit / "local/authorization.json").read_text(encoding="utf-8"))
    authz.AuthorizationService.initialize(security.FLAuthorizer("clinic", rights))
    for role in ("project_admin", "lead", "member", "nobody"):
        who = authz.Person("ann", "clinic", role)
        asked = {
            right: authz.AuthorizationService.authorize(authz.AuthzContext(right, who, who))[0]
            for right in ("byoc", "head", "cat", "submit_job", "check_status", *RUNNING_JOBS)
        }
        if role == "project_admin":
            assert all(asked[right] for right in RUNNING_JOBS)
        assert not any(asked[right] for right in ("byoc", "head", "cat"))
        assert asked["submit_job"] == (role in ("project_admin", "lead"))
    authz.AuthorizationService.the_authorizer = None


def test_a_site_and_a_server_have_a_guard(kit):
    site = {"class_allow_list": [], "components": [{"id": "launcher", "path": "a.B", "args": {}}]}
    receiver = {"id": "r", "path": "nvflare.app_common.logging.job_log_receiver.JobLogReceiver"}
    file = kit / "local/resources.json"
    for settings in (site, USUAL):
        said = settings | {"components": [*settings["components"], receiver]}
        file.write_text(json.dumps(said), encoding="utf-8")  # it writes what members send
        for _ in range(2):
            prepare_kit(kit)
            *others, guard = json.loads(file.read_text(encoding="utf-8"))["components"]
            assert guard["path"] == GUARD
            assert (
                json.loads(file.read_text(encoding="utf-8"))["app_validator"]["path"] == VALIDATOR
            )
            assert [each["id"] for each in others] == [
                each["id"] for each in settings["components"]
            ]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"permissions": {"a": 7}}', '{"permissions": 1}']
)
def test_rights_that_flare_did_not_write_are_told_and_left(kit, text):
    file = kit / "local/authorization.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"authorization\.json is not as FLARE writes it: "):
        prepare_kit(kit)
    assert file.read_text(encoding="utf-8") == text
    assert not (kit / "local/resources.json").exists()


def test_a_kit_without_rights_is_none(kit):
    (kit / "local/authorization.json.default").unlink()
    with pytest.raises(ConfigurationError, match=r"has no local/authorization\.json\.default"):
        prepare_kit(kit)


def test_what_is_no_kit_is_told(tmp_path):
    with pytest.raises(ConfigurationError, match="is no kit of a site, a server or an operator"):
        prepare_kit(tmp_path)


@pytest.mark.parametrize("name", ["my kit", "my\tkit", "kit's", 'kit"s"', "kit#1", "kit\\1"])
def test_a_kit_in_which_flare_can_start_no_process_is_told(kit, name):
    moved = kit / name
    moved.mkdir()
    (kit / "local").rename(moved / "local")
    with pytest.raises(ConfigurationError, match=r"by which FLARE splits .* choose a path without"):
        prepare_kit(moved)
    assert not (moved / "local/resources.json").exists()


def test_a_program_counts_as_it_is_called_and_a_folder_as_links_lead_to_it_too(tmp_path):
    plain, spaced = tmp_path / "plain", tmp_path / "my own"
    for folder in (plain, spaced):
        folder.mkdir()
        (folder / "python").touch()
    (plain / "link").symlink_to(spaced / "python")
    (spaced / "link").symlink_to(plain / "python")
    check_program(plain / "link")
    with pytest.raises(ConfigurationError, match="/my own/link' has white space"):
        check_program(spaced / "link")
    (tmp_path / "to_spaced").symlink_to(spaced)
    (tmp_path / "to plain").symlink_to(plain)
    for link, told in (("to_spaced", "my own"), ("to plain", "to plain")):
        with pytest.raises(ConfigurationError, match=f"/{told}' has white space"):
            check_folder(tmp_path / link)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "[]",
            "7",
            "{}",
            "[" * 10**5,
            '{"class_allow_list": 7}',
            '{"class_allow_list": "abc"}',
            "\x00",
            "1" * 5000,
        ),
        '{"class_allow_list": [], "components": [{}]}',
        '{"class_allow_list": [], "components": [{"id": "job_manager", "args": {"uri_root": 7}}]}',
        '{"class_allow_list": [], "snapshot_persistor": []}',
        " " * 2**20 + "{}",
    ],
)
def test_settings_that_flare_did_not_write_are_told_and_left(kit, text):
    file = kit / "local/resources.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"resources\.json is not as FLARE writes it: "):
        prepare_kit(kit)
    assert file.read_text(encoding="utf-8") == text


def test_the_command(kit, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["colonnade", "prepare-kit", str(kit)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 0
    assert "guards this kit" in capsys.readouterr().out
    assert (kit / "local/resources.json").is_file()


def test_a_real_kit(tmp_path):
    pytest.importorskip("nvflare")
    from colonnade.deployment.local import SERVER, local_federation

    with local_federation(tmp_path / "f", ["bank"]) as local:
        for name in (SERVER, "bank"):
            settings = json.loads((local.folder / name / "local/resources.json").read_text())
            assert settings["class_allow_list"] == [*CLASSES]
            assert "/tmp/nvflare" not in json.dumps(settings)
        assert not list(Path(local.folder).rglob("*.writing-*"))


@pytest.fixture
def operators(tmp_path):
    for folder in ("startup", "local"):
        (tmp_path / folder).mkdir()
    (tmp_path / "startup/fed_admin.json").write_text("{}", encoding="utf-8")
    usual = {"format_version": 1, "admin": {"prompt": "> "}}
    (tmp_path / "local/resources.json.default").write_text(json.dumps(usual), encoding="utf-8")
    return tmp_path


def test_an_operators_programs_have_a_guard(operators):
    for _ in range(2):
        settings = json.loads(prepare_kit(operators).read_text(encoding="utf-8"))
        assert settings == {
            "format_version": 1,
            "admin": {"prompt": "> "},
            "handlers": [{"path": OPERATOR_GUARD, "args": {}}],
        }
    assert {file.name for file in (operators / "local").iterdir()} == {
        "resources.json",
        "resources.json.default",
    }
    for text in ('{"handlers": [7]}', "[]", '[["handlers", []]]'):
        (operators / "local/resources.json").write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=r"resources\.json is not as FLARE writes it: "):
            prepare_kit(operators)


def test_an_operator_tracks_nothing(operators):
    with pytest.raises(ConfigurationError, match="is an operator's kit: the server's is told to"):
        prepare_kit(operators, "mlflow")
    assert not (operators / "local/resources.json").exists()


def test_flare_makes_the_guard_of_an_operators_program(tmp_path, monkeypatch):
    pytest.importorskip("nvflare")
    from nvflare.apis.workspace import Workspace
    from nvflare.fuel.hci.client.config import secure_load_admin_config

    from colonnade.deployment.cell_guard import check_guarded
    from colonnade.deployment.local import local_federation
    from toy_guarded import put_back

    put_back(monkeypatch)
    with local_federation(tmp_path / "f", ["bank"]) as local:
        kit = local.folder / "operator@colonnade.local"
        read = secure_load_admin_config(Workspace(root_dir=str(kit)))
    assert [f"{type(each).__module__}.{type(each).__name__}" for each in read.handlers] == [
        OPERATOR_GUARD
    ]
    assert read.get_admin_config()["server_identity"] == "localhost"
    check_guarded()
