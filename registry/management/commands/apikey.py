"""`manage.py apikey`: make, list and revoke API keys from a shell. The rules are the services'."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from typing import Any

from django.core.management import CommandError
from django.utils import timezone
from django_rich.management import RichCommand
from rich.table import Table
from rich.text import Text

from registry.errors import RegistryError
from registry.models import SCOPES, ApiKey
from registry.services import api_key_create, api_key_revoke


class Command(RichCommand):
    help = "Make, list and revoke API keys."

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_subparsers(dest="what", required=True)
        create = what.add_parser("create", help="Make a key and print it, once.")
        create.add_argument("name", help="What the key is for.")
        create.add_argument(
            "--scope",
            dest="scopes",
            action="append",
            choices=SCOPES,
            help="What it may do; may be given twice. Default: inference.",
        )
        create.add_argument(
            "--expires-days", type=_days, help="Days it is valid. Default: forever."
        )
        what.add_parser("list", help="Show every key without its secret.")
        revoke = what.add_parser("revoke", help="End a key.")
        revoke.add_argument("key", help="Its name or prefix.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            match options["what"]:
                case "create":
                    self._create(options)
                case "list":
                    self._list()
                case "revoke":
                    key = api_key_revoke(wanted=options["key"], actor=shell_actor())
                    self._say(f"{key} is revoked.")
        except RegistryError as error:
            raise CommandError(str(error)) from error

    def _create(self, options: dict[str, Any]) -> None:
        days = options["expires_days"]
        key, secret = api_key_create(
            name=options["name"],
            scopes=options["scopes"] or ["inference"],
            expires_at=timezone.now() + timedelta(days=days) if days is not None else None,
            actor=shell_actor(),
        )
        self._say(f"The key {key.name} may do: {key.scopes}. It is not shown again.")
        # By itself on a line, and past rich's wrapping: it is going to be copied.
        self.stdout.write(secret)

    def _list(self) -> None:
        table = Table("Name", "Prefix", "Scopes", "State", "Expires")
        for key in ApiKey.objects.all():
            expires = f"{key.expires_at:%Y-%m-%d %H:%M}" if key.expires_at else "never"
            table.add_row(Text(key.name), key.prefix, key.scopes, key.state, expires)
        self.console.print(table)

    def _say(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)


def _days(text: str) -> int:
    days = int(text)
    if not 1 <= days <= 36_500:
        raise ArgumentTypeError("must lie between 1 and 36500")
    return days


def shell_actor() -> str:
    """Who the audit trail is told did it."""
    try:
        return f"shell:{getpass.getuser()}"
    except (KeyError, OSError):  # an account without a name, as in a container
        return "shell"
