"""Links to pages of rows in the admin site, as words or buttons. Knows nothing about who may follow them."""

from __future__ import annotations

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString


def row_link(page: str, pk: object, text: str) -> SafeString:
    """`page` is the name of a URL, such as admin:registry_replica_change."""
    return format_html('<a class="underline" href="{}">{}</a>', reverse(page, args=[pk]), text)


def row_button(page: str, pk: object, text: str) -> SafeString:
    look = {"href": reverse(page, args=[pk]), "children": text, "size": "xs", "variant": "default"}
    return render_to_string("unfold/components/button.html", look)
