"""Options of `amends serve` by which somebody else says who people are: a provider of single sign-on, or a proxy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from amends.errors import InputError
from amends.source.marked import duration_s

if TYPE_CHECKING:
    from amends.http.console.oidc import OidcSettings
    from amends.http.console.proxy import TrustedProxy

LONGEST_AGE_S: Final = 24 * 3600.0
SECRET_ENV: Final = "AMENDS_OIDC_SECRET"  # noqa: S105 - a name, not a secret
F = TypeVar("F", bound=Callable[..., Any])


class SignOn(NamedTuple):
    """Each is None where it is not used."""

    oidc: OidcSettings | None
    proxy: TrustedProxy | None


_OPTIONS: Final = (
    click.option("--oidc-issuer", metavar="URL", help="Have people log in at this provider of OpenID Connect."),
    click.option("--oidc-client", metavar="ID", help="The client that this server is to the provider."),
    click.option(
        "--oidc-secret-file", metavar="FILE", type=click.Path(), help=f"The client's secret; or {SECRET_ENV} holds it."
    ),
    click.option("--oidc-name", metavar="CLAIM", default="email", show_default=True, help="What names a person."),
    click.option("--oidc-groups", metavar="CLAIM", default="groups", show_default=True, help="What has their groups."),
    click.option(
        "--oidc-age",
        metavar="DURATION",
        default="1h",
        show_default=True,
        help="How long the provider's word counts before it is asked again.",
    ),
    click.option(
        "--role", "roles", metavar="GROUP=SCOPES", multiple=True, help="What a group's members may: oncall=view,decide."
    ),
    click.option("--proxy-header", metavar="NAME", help="Where the proxy before it names who is logged in."),
    click.option(
        "--proxy-groups", metavar="NAME", default="X-Forwarded-Groups", show_default=True, help="And their groups."
    ),
    click.option(
        "--proxy-address",
        "proxy_addresses",
        metavar="NET",
        multiple=True,
        help="Where the proxy is.  [default: loopback]",
    ),
)


def with_sign_on(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def sign_on(  # noqa: PLR0913 - one for each option
    *,
    url: str | None,
    behind_proxy: bool,
    oidc_issuer: str | None,
    oidc_client: str | None,
    oidc_secret_file: str | None,
    oidc_name: str,
    oidc_groups: str,
    oidc_age: str,
    roles: tuple[str, ...],
    proxy_header: str | None,
    proxy_groups: str,
    proxy_addresses: tuple[str, ...],
) -> SignOn:
    """The options as they were given. Raises InputError for what lacks, or fits nothing."""
    from amends.http.console.oidc import OidcSettings
    from amends.http.console.proxy import TrustedProxy, read_addresses
    from amends.http.console.roles import read_roles

    may, oidc, proxy = read_roles(roles), None, None
    if oidc_issuer is not None:
        oidc = OidcSettings(
            issuer=oidc_issuer,
            client=_needed(oidc_client, "--oidc-client ID"),
            secret=_secret(oidc_secret_file),
            url=_needed(url, "--url URL"),
            roles=may,
            name_claim=oidc_name,
            groups_claim=oidc_groups,
            age_s=_age_s(oidc_age),
        )
    if proxy_header is not None:
        if not behind_proxy:
            raise InputError("--proxy-header takes --behind-proxy: a header counts only where a proxy stands before it")
        addresses = read_addresses(proxy_addresses)
        proxy = TrustedProxy(name_header=proxy_header, groups_header=proxy_groups, addresses=addresses, roles=may)
    if may and oidc is None and proxy is None:
        raise InputError("--role takes --oidc-issuer or --proxy-header: somebody has to say who is in a group")
    return SignOn(oidc, proxy)


def _age_s(given: str) -> float:
    age_s = duration_s(given)
    if age_s is None or age_s > LONGEST_AGE_S:
        raise InputError(
            f"--oidc-age {given}: give 1s to 24h, as in 30m; a group that somebody has left counts as long"
        )
    return age_s


def _needed(given: str | None, option: str) -> str:
    if not given:
        raise InputError(f"single sign-on takes {option} too")
    return given


def _secret(file: str | None) -> str:
    """The client's secret: of a file, or of the environment; never an argument, which others can see."""
    if file is None:
        return _needed(os.environ.get(SECRET_ENV), f"--oidc-secret-file FILE, or {SECRET_ENV}")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"--oidc-secret-file {file} cannot be read: {exc}") from None
