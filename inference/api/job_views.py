"""The control routes of slow work: pull a model file, look at jobs, cancel one.

Parses and answers; `inference.job_control` acts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from inference import job_control
from inference.api.auth import control_caller
from inference.api.body import read_body
from inference.api.control_threads import on_control_thread
from inference.api.endpoint import endpoint
from inference.api.reply import json_response

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase


class PullBody(Struct, frozen=True):
    source: str


class Jobs(Struct, frozen=True):
    jobs: tuple[job_control.JobStatus, ...]


_PULL_DECODER = msgspec.json.Decoder(PullBody)


@endpoint("POST")
async def pull(request: HttpRequest) -> HttpResponseBase:
    """Answers 202 with the job: a model file takes minutes to come."""
    caller = await control_caller(request, "registry.pull_model")
    body = (await read_body(request, _PULL_DECODER)).value
    status = await on_control_thread(lambda: job_control.pull(body.source, caller.actor))
    return json_response(status, status=202)


@endpoint("GET")
async def jobs(request: HttpRequest) -> HttpResponseBase:
    await control_caller(request, "registry.view_job")
    return json_response(Jobs(await on_control_thread(job_control.newest)))


@endpoint("GET")
async def job(request: HttpRequest, job_id: str) -> HttpResponseBase:
    await control_caller(request, "registry.view_job")
    return json_response(await on_control_thread(lambda: job_control.job(job_id)))


@endpoint("POST")
async def cancel(request: HttpRequest, job_id: str) -> HttpResponseBase:
    caller = await control_caller(request, "registry.pull_model")
    return json_response(await on_control_thread(lambda: job_control.cancel(job_id, caller.actor)))
