"""The service itself: what is asked over HTTP, and what is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StringConstraints
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as AnyHTTPException

from colonnade import __version__
from colonnade.errors import (
    BudgetExhausted,
    ColonnadeError,
    ConfigurationError,
    ServiceBusy,
    ServiceEnded,
    UnknownPerson,
)
from colonnade.ledger import Ledger
from colonnade.prediction import ROWS_TOGETHER, Prediction, class_names
from colonnade.serving.answers import Answers
from colonnade.serving.bodies import BoundedBodies
from colonnade.serving.entitled import showing
from colonnade.serving.measured import PLAIN_TEXT, Measured

__all__ = ["AskedFor", "service"]

_STATUS: tuple[tuple[type[ColonnadeError], int], ...] = (
    (UnknownPerson, 404),
    (ServiceBusy, 429),
    (ServiceEnded, 503),
    (BudgetExhausted, 403),
    (ConfigurationError, 403),  # a policy that does not let it
)

_AN_ID = "an id is a text of up to 1,000 characters or a whole number from -2^63 to 2^64 - 1"
_Text = Annotated[str, StringConstraints(strict=True, max_length=1000)]
_Id = _Text | Annotated[StrictInt, Field(ge=-(2**63), lt=2**64)]


class AskedFor(BaseModel):
    """Whom a request asks for."""

    model_config = ConfigDict(extra="forbid")

    ids: list[_Id] = Field(
        min_length=1,
        max_length=ROWS_TOGETHER,
        description="their ids, as the organisations' tables have",
    )


class Predicted(BaseModel):
    """What is predicted of one."""

    id: str | int = Field(description="as it was asked for")
    predicted: Any = Field(description="the class, or the number")
    probabilities: dict[str, float] | None = Field(description="of each class; null of numbers")


class Answered(BaseModel):
    """What is predicted, in the order in which it was asked for."""

    run: str
    predictions: list[Predicted]


class Health(BaseModel):
    """How the service stands."""

    state: Literal["starting", "serving", "ended"]
    version: str


def service(answers: Answers, token: str) -> FastAPI:
    """Return the service as an application.

    Parameters
    ----------
    answers
        Who predicts.
    token
        What a request has to show: ``Authorization: Bearer TOKEN``.
    """
    app = FastAPI(
        title="Colonnade",
        version=__version__,
        description="Predictions by a model whose parts several organisations hold.",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
    )
    measured = Measured()
    app.add_middleware(BoundedBodies)

    @app.middleware("http")
    async def measure(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        began, status = time.monotonic(), 500
        try:
            response = await call_next(request)
            status = response.status_code
            return response
        finally:
            measured.answered(_path_of(request), status, time.monotonic() - began)

    entitled = APIRouter(route_class=showing(token))

    @entitled.post("/predict")
    async def predict(asked: AskedFor) -> Answered:
        """Predict people whom all organisations know something of."""
        rows = answers.people.rows(asked.ids)
        once, places = np.unique(rows, return_inverse=True)
        scores = await asyncio.wrap_future(answers.ask(once))
        told = await run_in_threadpool(_told, answers, scores)
        measured.predicted(len(once))
        predictions = [
            Predicted(id=id, **told[place]) for id, place in zip(asked.ids, places, strict=True)
        ]
        return Answered(run=answers.run, predictions=predictions)

    @app.get("/health")
    async def health(response: Response) -> Health:
        """Say how the service stands: 200 where it answers, else 503."""
        state = answers.state
        response.status_code = 200 if state == "serving" else 503
        return Health(state=state, version=__version__)

    @entitled.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Say how often and how long it answered, as Prometheus reads it."""
        return Response(measured.as_text(), media_type=PLAIN_TEXT)

    app.include_router(entitled)

    @app.exception_handler(ColonnadeError)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        return _refusal(status, str(error), {"Retry-After": "1"} if status == 429 else None)

    @app.exception_handler(RequestValidationError)
    async def misunderstood(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        kind = request.headers.get("content-type", "")
        if first["loc"] == ("body",) and first["type"] != "missing" and "json" not in kind:
            return _refusal(422, "the body is no JSON: say Content-Type: application/json")
        if first["type"] == "json_invalid":
            return _refusal(422, f"the body is no JSON: {first['ctx']['error']}")
        if first["loc"][:2] == ("body", "ids") and len(first["loc"]) > 2:  # of one of them
            return _refusal(422, f"ids.{first['loc'][2]}: {_AN_ID}")
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        return _refusal(422, f"{place}: {first['msg']}".removeprefix(": "))

    @app.exception_handler(AnyHTTPException)
    async def refused(request: Request, error: AnyHTTPException) -> JSONResponse:
        return _refusal(error.status_code, error.detail, error.headers)

    return app


def _told(answers: Answers, scores: Any) -> list[dict[str, Any]]:
    """Return what is predicted of each row."""
    prediction, classes = Prediction(scores, Ledger()), answers.classes
    if classes is None:
        return [{"predicted": value, "probabilities": None} for value in scores.flatten().tolist()]
    chosen = pl.Series([*classes]).gather(prediction.classes(answers.threshold).numpy()).to_list()
    names = class_names(classes)
    return [
        {"predicted": value, "probabilities": dict(zip(names, each, strict=True))}
        for value, each in zip(chosen, prediction.probabilities().tolist(), strict=True)
    ]


def _refusal(status: int, why: str, headers: Any = None) -> JSONResponse:
    return JSONResponse({"error": why}, status, headers)


def _path_of(request: Request) -> str:
    """Return which of the service's paths was asked for; foreign ones are not told apart."""
    path = request.url.path
    return path if path in ("/predict", "/health", "/metrics") else "other"
