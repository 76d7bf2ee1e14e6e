"""Who runs the server chooses no place at an operator's, where its kit is prepared."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.hci import file_transfer_defs as ftd
from nvflare.fuel.hci.client.api import AdminAPI
from nvflare.fuel.hci.client.api_status import APIStatus
from nvflare.fuel.hci.client.file_transfer import FileTransferModule
from nvflare.fuel.hci.reg import CommandSpec

from colonnade.deployment.operator_guard import OperatorGuard
from toy_guarded import put_back

JOB = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    put_back(monkeypatch)
    OperatorGuard(), OperatorGuard()


class Session(AdminAPI):
    """A program of an operator's, connected to a server that answers so, and brings these files."""

    def __init__(self, downloads, files, number="tx", said=None):
        self.in_logout = self._debug = False
        self.files = files
        names = [[name, str(place)] for place, name in enumerate(files)]
        self.meta = said or {"files": names, "tx_id": number, "source_fqcn": "server"}
        self.module = FileTransferModule(str(downloads), str(downloads))

    def _try_command(self, context):
        requester = context.get_requester()
        if requester:
            requester.send_request(self, None, context)
        else:
            context.set_command_result({"status": APIStatus.SUCCESS, "meta": self.meta})

    def download_file(self, source_fqcn, ref_id, file_name):
        if ref_id == "gone":
            return None
        Path(file_name).parent.mkdir(parents=True, exist_ok=True)
        return Path(file_name).write_bytes([*self.files.values()][int(ref_id)])

    def fire_session_event(self, *_):
        pass

    def downloads(self, *args):
        entry = SimpleNamespace(full_command_name=lambda: "download_job", usage="")
        context = self._new_command_context("", [], entry)
        return self.module.pull_folder(["download_job", *(args or [JOB])], context)


def zipped(**files):
    there = io.BytesIO()
    with zipfile.ZipFile(there, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return there.getvalue()


@pytest.fixture
def kit(tmp_path):
    for folder in ("kit/transfer", "kit/startup", "own"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("own/data", "kit/startup/client.key"):
        (tmp_path / file).write_text("own", encoding="utf-8")
    return tmp_path / "kit"


def everything(kit):
    return {
        p.relative_to(kit.parent): p.is_file() and p.read_bytes() for p in kit.parent.rglob("*")
    }


def test_what_a_job_left_is_downloaded(kit):
    files = {"meta.json": b"{}", "job/a": b"a", "run.zip": zipped(log="said")}
    result = Session(kit / "transfer", files).downloads()
    assert result["status"] == APIStatus.SUCCESS
    folder = Path(result["meta"]["location"])
    assert folder == kit / "transfer" / JOB
    there = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert there == {"meta.json": b"{}", "job/a": b"a", "run/log": b"said"}


@pytest.mark.parametrize(
    "name",
    [
        "../../startup/client.key",
        "../../../own/new",
        "{own}/data",
        "a/../../../../own/data",
        "../x__tx/a",
        "link/../../../own/data",
    ],
)
def test_a_file_is_in_the_folder_of_its_transfer(kit, name):
    name = name.format(own=kit.parent / "own")
    before = everything(kit)
    result = Session(kit / "transfer", {"a": b"a", name: b"the server's"}).downloads()
    assert result["status"] == APIStatus.ERROR_RUNTIME
    assert "the server names a file" in result["details"]
    assert everything(kit) == before


@pytest.mark.parametrize("files", [{}, {"a": b"a"}, {"bad.zip": b"is none"}])
@pytest.mark.parametrize(
    "number", ["/../../startup", "/../../../own", "x/../../../own", "/", "", 7]
)
def test_no_folder_of_the_operators_is_removed_or_renamed(kit, files, number):
    """FLARE removed it where a transfer failed, and renamed it where one did not."""
    own = {path: was for path, was in everything(kit).items() if "transfer" not in path.parts}
    Session(kit / "transfer", files, number).downloads()
    after = everything(kit)
    assert {path: after.get(path) for path in own} == own
    assert {path.parts[:2] for path in after if "transfer" in path.parts} == {("kit", "transfer")}


EARLIER = ("", "__1", "__x", "__server")


@pytest.mark.parametrize("source", ["server", ""])
@pytest.mark.parametrize("number", ["", "1", "x", "server"])
@pytest.mark.parametrize(
    ("files", "gone"), [({"a": b"a"}, 0), ({"x": b"a"}, 1), ({"bad.zip": b"is none"}, 0)]
)
def test_an_earlier_download_stays_as_it_is(kit, files, gone, number, source):
    """The server named it as the folder of this transfer, or words of its moved on by one."""
    for of in EARLIER:
        (kit / "transfer" / f"{JOB}{of}").mkdir()
        (kit / "transfer" / f"{JOB}{of}" / "notes").write_text("mine", encoding="utf-8")
    before = everything(kit)
    names = [[name, "gone" if gone else str(place)] for place, name in enumerate(files)]
    said = {"files": names, "tx_id": number, "source_fqcn": source}
    result = Session(kit / "transfer", files, said=said).downloads()
    after = everything(kit)
    assert {path: after.get(path) for path in before} == before
    is_there = result["status"] == APIStatus.SUCCESS
    assert is_there == (not gone and "bad.zip" not in files)
    new = {path.relative_to("kit/transfer").parts[0] for path in after.keys() - before.keys()}
    assert new == ({f"{JOB}__2"} if is_there else set())


@pytest.mark.parametrize(
    "words",
    [
        (f"{JOB} ../startup",),
        ("../startup",),
        ("",),
        (JOB, "../../own/new"),
        (JOB, "{own}/new"),
        (JOB, ".."),
        (JOB, ""),
        (JOB, "a", "b"),
    ],
)
def test_a_download_is_of_a_number_and_has_a_name(kit, words):
    """A server gave a job a number with a place in it, which programs handed on."""
    before = everything(kit)
    words = [word.format(own=kit.parent / "own") for word in words]
    result = Session(kit / "transfer", {"a": b"a"}).downloads(*words)
    assert result["status"] in (APIStatus.ERROR_RUNTIME, APIStatus.ERROR_SYNTAX)
    assert everything(kit) == before
    named = Session(kit / "transfer", {"a": b"a"}).downloads(JOB, "mine")["meta"]["location"]
    assert named == str(kit / "transfer" / "mine")


@pytest.mark.parametrize("number", [f"{JOB} ../x", "/own", "..", f"{JOB}/..", 7, [JOB]])
@pytest.mark.parametrize(
    "around",
    [lambda said: said, lambda said: {"jobs": [{}, said]}, lambda said: {"job_meta": said}],
)
def test_the_server_gives_no_place_for_the_number_of_a_job(kit, around, number):
    answered = Session(kit / "transfer", {}, said=around({"job_id": number})).server_execute
    result = answered("submit_job train")
    assert result["status"] == APIStatus.ERROR_RUNTIME
    assert "for the number of a job" in result["details"]
    assert "meta" not in result


PUSH, PULL = "file_transfer.push_folder", "file_transfer.pull_folder"


@pytest.mark.parametrize(
    ("name", "moves", "is_flares"),
    [
        ("submit_job", PUSH, True),
        ("download_job", PULL, True),
        ("download_job_components", PULL, True),
        ("pull_binary_file", PUSH, False),
        ("pull_binary_file", PULL, False),
        ("download_job", PUSH, False),
        ("list_jobs", PUSH, False),
        ("list_jobs", "", False),
    ],
)
def test_the_server_gives_no_command_another_meaning(kit, name, moves, is_flares):
    """A download was an upload: of a folder whose name the server had made."""
    assert (PUSH, PULL) == (ftd.PUSH_FOLDER_FQN, ftd.PULL_FOLDER_FQN)
    module = Session(kit / "transfer", {}).module
    said = CommandSpec(name, "", "", None, client_cmd=moves, scope_name="job")
    assert (module.generate_module_spec(said) is not None) == is_flares


def test_the_server_does_not_say_where_a_download_is(kit):
    """FLARE moved a folder of the operator's, which the server named, to where it was started."""
    session = Session(kit / "transfer", {}, said={"location": str(kit), "job_id": JOB})
    assert session.server_execute("download_job")["meta"] == {"job_id": JOB}


def test_what_brings_nothing_is_no_download(kit):
    """FLARE's command line said that an operator's own folder was the download, to be moved on."""
    before = everything(kit)
    for said in ({"files": []}, {"files": None}, {"status": "ok"}):
        result = Session(kit / "transfer", {}, said=said).downloads()
        assert result["status"] == APIStatus.ERROR_RUNTIME
        assert "the server gives no files" in result["details"]
    session = Session(kit / "transfer", {}, said={"status": "ok"})
    for name in ("submit_job", "download_job", "download_job_components"):
        entry = SimpleNamespace(name=name)
        for result in (
            session.server_execute(f"{name} {JOB}", cmd_entry=entry),
            session.server_execute(f"{name} {JOB}", None, entry),
        ):
            assert result["details"] == f"the server says that {name} moves no files"
    entry = SimpleNamespace(name="list_jobs")
    assert session.server_execute("list_jobs", cmd_entry=entry)["status"] == APIStatus.SUCCESS
    assert everything(kit) == before


def test_what_others_bring_is_no_number_of_the_servers(kit):
    """What one operator or site had brought closed lists to all."""
    brought = {"jobs": [{"job_id": JOB, "custom_props": {"job_id": "x"}}], "of": {"job_id": "x"}}
    session = Session(kit / "transfer", {}, said=brought)
    assert session.server_execute("list_jobs")["meta"] == session.meta


def test_answers_are_as_they_were(kit):
    session = Session(kit / "transfer", {}, said={"jobs": [{"job_id": JOB}, {"job_id": ""}]})
    assert session.server_execute("list_jobs")["meta"] == session.meta


def test_an_operators_programs_are_no_slower():
    """Each command of FLARE's loaded torch, for seconds."""
    loaded = "import sys, colonnade.deployment.operator_guard; print('torch' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    )
    assert said.stdout == "False\n"
