"""FLARE as it was before a guard changed it."""

from __future__ import annotations

import logging
from inspect import getattr_static

from nvflare.apis.impl.job_def_manager import SimpleJobDefManager
from nvflare.app_common.job_schedulers.job_scheduler import DefaultJobScheduler
from nvflare.fuel.f3.cellnet import core_cell
from nvflare.fuel.f3.cellnet.core_cell import CertificateExchanger, CoreCell
from nvflare.fuel.f3.cellnet.identity import CellIdentityResolver
from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from nvflare.fuel.f3.drivers.tcp_driver import TcpStreamServer
from nvflare.fuel.f3.sfm.conn_manager import ConnManager
from nvflare.fuel.f3.sfm.sfm_conn import SfmConnection
from nvflare.fuel.f3.stats_pool import CounterPool, HistPool
from nvflare.fuel.f3.streaming.byte_receiver import ByteReceiver
from nvflare.fuel.f3.streaming.byte_streamer import ByteStreamer, TxTask
from nvflare.fuel.hci.client.api import AdminAPI
from nvflare.fuel.hci.client.file_transfer import FileTransferModule
from nvflare.fuel.sec.audit import Auditor
from nvflare.fuel.utils.fobs import lobs
from nvflare.private import stream_runner
from nvflare.private.fed.server.job_runner import JobRunner
from nvflare.private.fed.server.server_engine import ServerEngine

from colonnade.deployment import cell_guard, streams_kept

CHANGED = (
    (CoreCell, ["process_message"]),
    (CellIdentityResolver, ["require_match"]),
    (CertificateExchanger, ["exchange_certificate"]),
    (core_cell, ["_is_failed_cert_exchange"]),
    (TcpStreamServer, ["__init__", "finish_request"]),
    (SfmConnection, ["__init__"]),
    (SocketConnection, ["read_frame"]),
    (ConnManager, ["update_endpoint", "get_dict_payload"]),
    (HistPool, ["record_value"]),
    (CounterPool, ["increment"]),
    (TxTask, ["__init__"]),
    (ByteStreamer, ["_ack_handler"]),
    (ByteReceiver, ["_data_handler"]),
    (Auditor, ["add_event", "add_job_event"]),
    (logging, ["_logRecordFactory"]),
    (lobs, ["get_datum_dir", "get_dot_handler"]),
    (stream_runner, ["Lock"]),
    (SimpleJobDefManager, ["set_status", "update_meta", "get_jobs_to_schedule"]),
    (JobRunner, ["_check_job_status", "abort_client_run", "_stop_run", "_job_complete_process"]),
    (DefaultJobScheduler, ["_try_job"]),
    (ServerEngine, ["check_client_resources"]),
    (FileTransferModule, ["pull_folder", "generate_module_spec"]),
    (AdminAPI, ["server_execute"]),
    (cell_guard, ["_sites", "_operators", "_dropped"]),
    (streams_kept, ["_waiting"]),
)


def put_back(monkeypatch):
    """Let what a guard changes of FLARE be as it was, afterwards."""
    for changed, names in CHANGED:
        for name in names:
            usual = getattr_static(changed, name)  # a static method as such
            copied = type(usual)(usual) if isinstance(usual, set | dict) else usual
            monkeypatch.setattr(changed, name, copied)
