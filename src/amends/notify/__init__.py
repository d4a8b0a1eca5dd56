"""Notices: who is told when a person is needed, and how they come to know. Webhooks, commands, files."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amends.errors import WebhookRefusedError as WebhookRefusedError
    from amends.notify.command import Command as Command
    from amends.notify.file import NoticeFile as NoticeFile
    from amends.notify.signing import verify_webhook as verify_webhook
    from amends.notify.webhook import Webhook as Webhook

_HOMES = {
    "Command": "amends.notify.command",
    "NoticeFile": "amends.notify.file",
    "Webhook": "amends.notify.webhook",
    "WebhookRefusedError": "amends.errors",
    "verify_webhook": "amends.notify.signing",
}
__all__ = ["Command", "NoticeFile", "Webhook", "WebhookRefusedError", "verify_webhook"]


def __getattr__(name: str) -> object:
    """Only what is used is imported: a webhook brings TLS with it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
