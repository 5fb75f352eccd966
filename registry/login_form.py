"""The login of the admin site: Django's form, with a limit on guessing.

Owns where a try is counted; how often is too often is `registry.login_throttle`'s. Outside of
`registry.admin`: the site needs its form before the pages that register with it can be imported.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from django import forms
from unfold.forms import AuthenticationForm

from registry.login_throttle import LoginThrottle

if TYPE_CHECKING:
    from django.contrib.admin.forms import AdminAuthenticationForm
else:
    AdminAuthenticationForm = AuthenticationForm

THROTTLE = LoginThrottle()


class LoginForm(AdminAuthenticationForm):
    def clean(self) -> Any:
        name = str(self.cleaned_data.get("username", ""))[:150]
        address = self.request.META.get("REMOTE_ADDR", "") if self.request is not None else ""
        wait_s = THROTTLE.wait_s(name, address)
        if wait_s > 0:
            # Before the password is looked at: a right one must not be told from a wrong one.
            raise forms.ValidationError(
                f"Too many failed logins; try again in {math.ceil(wait_s / 60)} min.", "throttled"
            )
        try:
            cleaned = super().clean()
        except forms.ValidationError:
            THROTTLE.failed(name, address)
            raise
        THROTTLE.succeeded(name, address)
        return cleaned
