"""The names in `network` -> the hosts a sandbox may reach, and what tells its programs the way.

Pure: no socket, no resolver. A host is an exact name in ASCII with a port, 443 unless it is
given: no wildcard, and an IP address only where the user wrote that address.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import NamedTuple

from skillgate.errors import ConfigError

HTTPS_PORT = 443

_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# two labels at least, and the last is no number: what ends in one is read as an address by some
_NAME = re.compile(rf"(?=.{{4,253}}$)(?:{_LABEL}\.)+(?![0-9]+$|0x[0-9a-f]*$){_LABEL}")
_HOST_AND_PORT = re.compile(
    r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,254}?)\.?(?::([1-9][0-9]{0,4}))?", re.I | re.A
)
# what `is_global` lets through, in some versions of Python or in all
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # the wire server of Azure, on which much of CI runs
        "192.0.0.0/24",  # metadata of Oracle's cloud
        "224.0.0.0/4",
        "::/96",  # these three hold an IPv4 address, any one
        "::ffff:0:0/96",
        "2002::/16",
        "64:ff9b:1::/48",  # translated inside an operator's network
        "fec0::/10",
        "ff00::/8",
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Endpoint(NamedTuple):
    """A host in lower case, an IPv6 address without brackets, and a port."""

    host: str
    port: int

    @property
    def is_address(self) -> bool:
        """Say whether the host is an IP address rather than a name."""
        return _address(self.host) is not None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def hosts_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the hosts as one spells them, each once, in the order of `names`.

    Raises: ConfigError when a name is none.
    """
    return tuple(dict.fromkeys(map(_host_of, names)))


def endpoint(text: str) -> Endpoint | None:
    """Read `host` or `host:port`; None when it is not exactly that."""
    parts = _HOST_AND_PORT.fullmatch(text)
    if parts is None:
        return None
    host, port = parts[1].lower(), int(parts[2] or HTTPS_PORT)
    address = _address(host[1:-1] if host.startswith("[") else host)
    if address is not None:
        if (address.version == 6) != host.startswith("["):
            return None
        host = address.compressed
    elif not _NAME.fullmatch(host):
        return None
    return Endpoint(host, port) if port <= 65535 else None


def is_public(text: str) -> bool:
    """Say whether an address is one of the internet: not this machine, its network or its cloud's."""
    address = _address(text)
    if address is None or not address.is_global or any(address in network for network in _NOT_PUBLIC):
        return False
    if address in _NAT64:
        return is_public(str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)))
    return True


def environment(port: int) -> dict[str, str]:
    """Return the variables that send programs in the sandbox to a proxy on their own loopback.

    Both spellings, because Go and Node read one and wget the other, and curl takes `http_proxy`
    in lower case only. Plain HTTP goes there too, to hear why it is refused rather than that no
    name resolves. `ALL_PROXY` is left out: it adds schemes that are no HTTP and refused anyway.
    """
    url = f"http://127.0.0.1:{port}"
    own = "127.0.0.1,localhost,::1"  # servers that a test starts for itself
    both = {"http_proxy": url, "https_proxy": url, "no_proxy": own}
    return {
        **both,
        **{name.upper(): value for name, value in both.items()},
        "NODE_USE_ENV_PROXY": "1",  # Node's `fetch` and `https` read the others only with it
        # Maven reads none of them, and without the last one not even Java's own
        "MAVEN_OPTS": f"-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort={port}"
        " -Daether.connector.http.useSystemProperties=true",
    }


def _host_of(name: str) -> str:
    found = endpoint(name)
    if found is not None:
        return str(found).removesuffix(f":{HTTPS_PORT}")
    raise ConfigError(f"`network`: `{name}` is no host name", _hint(name))


def _hint(name: str) -> str:
    if "://" in name or "/" in name:
        return "Write the host alone, without scheme and path."
    if "*" in name:
        return "There are no wildcards: list each host."
    if not name.isascii():
        return "Write its ASCII form (xn--...)."
    return "Write an exact host name like api.example.com, with :port unless that is 443."


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
