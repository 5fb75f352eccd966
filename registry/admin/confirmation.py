"""The page between a click and its effect: says what will happen, and does it on POST alone.

Knows nothing about the action itself. Works without JavaScript.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import reverse

from registry.admin.base import BaseAdmin
from registry.errors import InvalidValue, RegistryError

CONFIRMED = "confirmed"


@dataclass(frozen=True)
class Done:
    """What an effect did, as a sentence, and where to look at it; empty: back to the row."""

    said: str
    url: str = ""


@dataclass(frozen=True)
class Confirmation:
    """`effect` gets the valid form; `form_class` makes one from what was sent and `initial`."""

    title: str
    submit: str
    effect: Callable[[Any], Done]
    facts: Sequence[tuple[str, str]] = ()
    warning: str = ""
    is_dangerous: bool = False
    form_class: Callable[..., forms.Form] = forms.Form
    initial: dict[str, Any] = field(default_factory=dict)


def row_or_404(model_admin: BaseAdmin, request: HttpRequest, object_id: str) -> Any:
    row = model_admin.get_object(request, object_id)
    if row is None:
        raise Http404(f"There is no {model_admin.opts.verbose_name} {object_id}.")
    return row


def confirm(
    model_admin: BaseAdmin, request: HttpRequest, row: Model, confirmation: Confirmation
) -> HttpResponse:
    """The page on GET; the effect and a redirect on POST. A refusal is shown on the page."""
    back = admin_url(row, "change")
    sent = request.POST if request.method == "POST" else None
    return _answer(model_admin, request, confirmation, sent, back, rows=[row])


def confirm_in_list(
    model_admin: BaseAdmin, request: HttpRequest, confirmation: Confirmation
) -> HttpResponse:
    """The same for what concerns no row of the list yet."""
    opts = model_admin.opts
    back = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
    sent = request.POST if request.method == "POST" else None
    return _answer(model_admin, request, confirmation, sent, back)


def confirm_selected(
    model_admin: BaseAdmin, request: HttpRequest, rows: Sequence[Model], confirmation: Confirmation
) -> HttpResponse:
    """The same for an action on selected rows of a list, whose first POST only asks for the page."""
    kept = [(ACTION_CHECKBOX_NAME, str(row.pk)) for row in rows]
    hidden = [*kept, ("action", request.POST["action"]), (CONFIRMED, "yes")]
    sent = request.POST if CONFIRMED in request.POST else None
    back = request.get_full_path()
    return _answer(model_admin, request, confirmation, sent, back, rows=rows, hidden=hidden)


def _answer(
    model_admin: BaseAdmin,
    request: HttpRequest,
    confirmation: Confirmation,
    sent: QueryDict | None,
    back: str,
    *,
    rows: Sequence[Model] = (),
    hidden: Sequence[tuple[str, str]] = (),
) -> HttpResponse:
    form = confirmation.form_class(sent, initial=confirmation.initial)
    if form.is_valid():
        try:
            done = confirmation.effect(form)
        except InvalidValue as error:
            _add_error(form, error)
        except RegistryError as error:
            form.add_error(None, str(error))
        else:
            for row in rows:
                model_admin.log_change(request, row, done.said)
            messages.success(request, done.said)
            return HttpResponseRedirect(done.url or back)
    context = {
        **model_admin.admin_site.each_context(request),
        "title": confirmation.title,
        "opts": model_admin.opts,
        "back": back,
        "form": form,
        "confirmation": confirmation,
        "hidden": hidden,
    }
    return TemplateResponse(request, "admin/registry/confirmation.html", context)


def _add_error(form: forms.Form, error: InvalidValue) -> None:
    """At the field, under the name that it has on the page; above all where the page has no such field."""
    if error.field in form.fields:
        form.add_error(error.field, f"{error.reason[:1].upper()}{error.reason[1:]}.")
    else:
        form.add_error(None, str(error))


def nothing_to_do(request: HttpRequest, row: Model, why: str) -> HttpResponse:
    messages.warning(request, why)
    return HttpResponseRedirect(admin_url(row, "change"))


def admin_url(row: Model, page: str) -> str:
    opts = row._meta
    return reverse(f"admin:{opts.app_label}_{opts.model_name}_{page}", args=[row.pk])
