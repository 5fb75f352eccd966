"""What every page of the control plane has in common: rows are shown, and only services change them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from django.contrib.auth.models import AbstractUser
from django.http import HttpRequest
from unfold.enums import ActionVariant

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    # unfold carries no types; its classes extend these.
    from django.contrib import admin

    class BaseAdmin(admin.ModelAdmin[Any]):
        def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]: ...

    BaseInline = admin.TabularInline[Any, Any]

    def action(
        *,
        permissions: Sequence[str],
        description: str,
        icon: str,
        url_path: str | None = None,
        variant: ActionVariant = ActionVariant.DEFAULT,
    ) -> Callable[[F], F]: ...

    def display(
        *, description: str, label: Mapping[str, str], ordering: str | None = None
    ) -> Callable[[F], F]: ...
else:
    from unfold.admin import ModelAdmin as BaseAdmin
    from unfold.admin import TabularInline as BaseInline
    from unfold.decorators import action, display

__all__ = [
    "BaseAdmin",
    "BaseInline",
    "ReadOnlyAdmin",
    "ReadOnlyInline",
    "action",
    "actor_of",
    "display",
]


def actor_of(request: HttpRequest) -> str:
    """The name under which the audit trail knows whoever is logged in."""
    user = request.user
    return f"user:{user.get_username()}" if isinstance(user, AbstractUser) else "anonymous"


class ReadOnlyAdmin(BaseAdmin):
    """Rows can be looked at by those with the view permission, and edited by nobody."""

    actions: Sequence[str] | None = None
    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyInline(BaseInline):
    extra = 0
    hide_title = True  # each row's columns say it already
    can_delete = False
    show_change_link = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
