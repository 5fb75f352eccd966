"""Pages that follow replicas: an open page asks again while something moves, and loads anew once it has.

Owns the marks by which a page knows what it showed. Without JavaScript the pages are as of when they
were opened. Knows nothing about what the pages show.
"""

from __future__ import annotations

from django.db.models import Count, Max, Q
from django.http import HttpRequest, HttpResponse

from registry.models import Replica
from registry.states import Wanted


def replica_mark(replica: Replica) -> str:
    return f"{replica.state} {replica.wanted}"


def all_replicas_mark() -> str:
    """Changes with every move, wish and row; progress alone leaves it."""
    seen = Replica.objects.aggregate(
        rows=Count("pk"),
        unwanted=Count("pk", filter=Q(wanted=Wanted.UNLOADED)),
        last=Max("changed_at"),
    )
    return f"{seen['rows']} {seen['unwanted']} {seen['last']}"


def page_or_anew(request: HttpRequest, mark: str, page: HttpResponse) -> HttpResponse:
    """The page; but a page that asks again, and showed an older mark, is told to load anew.

    As a whole, not a part of it: its title, buttons and columns must agree. `page` comes from a view that
    has checked who is asking.
    """
    if request.headers.get("X-Seen", mark) == mark:
        return page
    return HttpResponse(headers={"HX-Refresh": "true"})
