"""The playground: a page to chat with a loaded model. The page's script talks to the inference API itself.

Owns who may see the page and what it is told; knows nothing about generating.
"""

from __future__ import annotations

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from registry.models import Replica
from registry.page_tokens import page_token
from registry.states import State


@require_safe
def _playground(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perm("registry.view_replica"):
        raise PermissionDenied
    ready = Replica.objects.filter(state=State.READY)
    # Those that can chat come first, so that the page opens with one of them.
    models = ready.order_by("-artifact__has_chat_template", "served_name")
    chats_by_name = dict(models.values_list("served_name", "artifact__has_chat_template"))
    context = {
        **admin.site.each_context(request),
        "title": "Playground",
        "chats_by_name": chats_by_name,
        "asked_for": request.GET.get("model", ""),
        "told": {"token": page_token(request.user.get_username())},
    }
    return TemplateResponse(request, "admin/playground.html", context)


playground = admin.site.admin_view(
    _playground
)  # for staff, and never cached: the token is its user's
