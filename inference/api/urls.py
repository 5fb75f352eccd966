"""The API's routes. Each of OpenAI's is there with and without /v1: clients disagree about base URLs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from django.http.response import HttpResponseBase
from django.urls import URLPattern, path

from inference.api import (
    control_views,
    generation_views,
    info_views,
    job_views,
    request_views,
    status_views,
)


def _with_and_without_v1(
    route: str, view: Callable[..., Coroutine[Any, Any, HttpResponseBase]]
) -> list[URLPattern]:
    return [path(f"v1/{route}", view), path(route, view)]


urlpatterns = [
    path("", info_views.root),
    path("health", info_views.health),
    path("metrics", status_views.metrics_page),
    path("slots", status_views.slots),
    path("props", status_views.props),
    path("cache/stats", status_views.cache_stats),
    path("v1/requests/<str:request_id>", request_views.request_status),
    *_with_and_without_v1("models", info_views.models),
    *_with_and_without_v1("models/<path:model_id>", info_views.model),
    *_with_and_without_v1("chat/completions", generation_views.chat_completions),
    *_with_and_without_v1("completions", generation_views.completions),
    path("admin/models/load", control_views.load),
    path("admin/models/unload", control_views.unload),
    path("admin/models/pull", job_views.pull),
    path("admin/jobs", job_views.jobs),
    path("admin/jobs/<str:job_id>", job_views.job),
    path("admin/jobs/<str:job_id>/cancel", job_views.cancel),
    path("admin/dies", control_views.dies),
]
