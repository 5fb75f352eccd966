"""Static files of installed apps are served without a collection step, from memory."""

from __future__ import annotations

from django.test import AsyncClient

PATH = "/static/admin/css/base.css"


async def test_a_file_of_an_app_is_served() -> None:
    answer = await AsyncClient().get(PATH)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/css"
    assert len(answer.content) > 1000


async def test_an_unchanged_file_is_not_sent_twice() -> None:
    first = await AsyncClient().get(PATH)
    again = await AsyncClient().get(PATH, headers={"If-None-Match": first["ETag"]})
    assert again.status_code == 304
    assert again.content == b""


async def test_nothing_outside_the_static_folders_is_served() -> None:
    for path in ("../pantheon_site/settings.py", "%2e%2e/manage.py", "/etc/passwd", "no/such.css"):
        answer = await AsyncClient().get(f"/static/{path}")
        assert answer.status_code in (400, 404), path
