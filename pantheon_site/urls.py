"""Every URL of the project. The API's and the control API's routes are matched before the admin site's."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from pantheon_site.static import serve_static
from registry.admin.playground import playground

urlpatterns = [
    path("", include("inference.api.urls")),
    path("static/<path:path>", serve_static),
    path("admin/playground/", playground, name="playground"),
    path("admin/", admin.site.urls),
]
