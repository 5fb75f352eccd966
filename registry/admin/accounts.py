"""Django's accounts and groups, in the site's look. Accounts are the business of superusers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from registry.admin.base import BaseAdmin

if TYPE_CHECKING:
    DjangoUserAdmin = UserAdmin[Any]
else:
    DjangoUserAdmin = UserAdmin

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class SiteUserAdmin(DjangoUserAdmin, BaseAdmin):
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class SiteGroupAdmin(GroupAdmin, BaseAdmin):
    pass
