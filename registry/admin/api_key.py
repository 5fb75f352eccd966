"""API keys: made here, shown once, revoked here. The secret is never in a message, a cookie or a log."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.enums import ActionVariant

from registry import services
from registry.admin.base import ReadOnlyAdmin, action, actor_of, display
from registry.admin.confirmation import Confirmation, Done, confirm, nothing_to_do, row_or_404
from registry.admin.forms import ApiKeyForm
from registry.models import ApiKey

KEY_LABELS = {"usable": "success", "revoked": "", "expired": "warning"}


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    list_display = ("name", "prefix", "scopes", "shown_state", "created_at", "expires_at")
    list_filter = ("scopes",)
    search_fields = ("name", "prefix")
    actions_row = ("revoke",)
    actions_detail = ("revoke",)
    form = ApiKeyForm
    add_fieldsets = ((None, {"fields": ("name", "scopes", "expires_at")}),)
    fieldsets = (
        (None, {"fields": ("name", "prefix", "scopes", "state")}),
        ("Times", {"fields": ("created_at", "expires_at", "revoked_at")}),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("registry.add_apikey"))

    def has_revoke_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("registry.change_apikey")

    @display(description="State", label=KEY_LABELS)
    def shown_state(self, key: ApiKey) -> tuple[str, str]:
        return key.state, key.state.capitalize()

    def save_model(
        self, request: HttpRequest, obj: ApiKey, form: ModelForm[ApiKey], change: bool
    ) -> None:
        data = form.cleaned_data
        key, secret = services.api_key_create(
            name=data["name"],
            scopes=data["scopes"].split(),
            expires_at=data["expires_at"],
            actor=actor_of(request),
        )
        obj.pk, obj.prefix, obj.scopes = key.pk, key.prefix, key.scopes
        request.api_key_secret = secret  # type: ignore[attr-defined]  # for response_add, once

    def response_add(
        self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None
    ) -> HttpResponse:
        """The one page that ever shows the secret; a redirect would have to carry it somewhere."""
        messages.success(request, f"The API key {obj.name} was made.")
        context = {
            **self.admin_site.each_context(request),
            "title": f"API key {obj.name}",
            "opts": self.opts,
            "secret": request.api_key_secret,  # type: ignore[attr-defined]
        }
        return TemplateResponse(request, "admin/registry/api_key_secret.html", context)

    @action(
        description="Revoke…",
        icon="block",
        permissions=["revoke"],
        variant=ActionVariant.DANGER,
    )
    def revoke(self, request: HttpRequest, object_id: str) -> HttpResponse:
        key: ApiKey = row_or_404(self, request, object_id)
        if key.revoked_at is not None:
            return nothing_to_do(request, key, f"{key} is revoked already.")

        def effect(form: Any) -> Done:
            services.api_key_revoke(wanted=key.prefix, actor=actor_of(request))
            return Done(f"{key} is revoked.")

        return confirm(
            self,
            request,
            key,
            Confirmation(
                title=f"Revoke {key}",
                submit="Revoke",
                effect=effect,
                warning="Whoever uses this key is refused from now on. This cannot be undone.",
                is_dangerous=True,
            ),
        )
