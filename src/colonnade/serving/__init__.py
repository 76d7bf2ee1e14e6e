"""Predictions over HTTP, at the organisation that learns them: the label holder."""

from colonnade.serving.answers import Answers, State
from colonnade.serving.config import ServeConfig
from colonnade.serving.of_runs import RunAnswers
from colonnade.serving.people import People
from colonnade.serving.server import Service, check_installed, serving
from colonnade.serving.waiting import Waiting

__all__ = [
    "Answers",
    "People",
    "RunAnswers",
    "ServeConfig",
    "Service",
    "State",
    "Waiting",
    "check_installed",
    "serving",
]
