"""Names and addresses: what is allowed is what was written, and nothing near it."""

from __future__ import annotations

import ipaddress

import pytest

from skillgate.bench.network.hosts import Endpoint, endpoint, environment, hosts_of, is_public
from skillgate.errors import ConfigError


def test_hosts_in_their_order_each_once() -> None:
    assert hosts_of(["PyPI.org", "pypi.org", "Example.org.", "example.org:8443", "example.org:443"]) == (
        "pypi.org",
        "example.org",
        "example.org:8443",
    )
    assert hosts_of([]) == ()


@pytest.mark.parametrize("name", ["10.1.2.3:8080", "[2001:db8::1]:8443", "[2001:db8::1]"])
def test_an_address_is_allowed_as_it_is_written(name: str) -> None:
    assert hosts_of([name]) == (name,)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("pypi", "Write an exact host name like api.example.com, with :port unless that is 443."),
        ("https://pypi.org", "Write the host alone, without scheme and path."),
        ("pypi.org/simple", "Write the host alone, without scheme and path."),
        ("*.pypi.org", "There are no wildcards: list each host."),
        ("pypi.örg", "Write its ASCII form (xn--...)."),
        ("pypi.org:99999", "Write an exact host name like api.example.com, with :port unless that is 443."),
    ],
)
def test_what_is_no_host_is_an_error_with_a_way_on(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        hosts_of(["example.org", name])
    assert (caught.value.message, caught.value.hint) == (
        f"`network`: `{name}` is no host name",
        hint,
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pypi.org", Endpoint("pypi.org", 443)),
        ("PyPI.Org.:8443", Endpoint("pypi.org", 8443)),
        ("_acme.a-b.example", Endpoint("_acme.a-b.example", 443)),
        ("10.0.0.1:80", Endpoint("10.0.0.1", 80)),
        ("[2001:DB8:0::1]:80", Endpoint("2001:db8::1", 80)),
        ("pypi.org:65535", Endpoint("pypi.org", 65535)),
    ],
)
def test_an_endpoint_has_one_spelling(text: str, found: Endpoint) -> None:
    assert endpoint(text) == found
    assert endpoint(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", ":443", "pypi.org:", "pypi.org:0", "pypi.org:65536", "pypi.org:0443", "pypi.org:+443"),
        *(
            "pypi.org..",
            ".pypi.org",
            "pypi..org",
            "-a.org",
            "a-.org",
            "pypi.org\n",
            " pypi.org",
            "pypi.org:\u0664",
        ),
        *(
            "user@pypi.org",
            "pypi.org#",
            "pypi.org/",
            "pypi.org:443:443",
            "pypi.örg",
            "p\u0443pi.org",
            "py\0pi.org",
            "\u212aeep.org",
        ),
        *("localhost", "2130706433", "127.1", "0x7f.1", "1.0x7f", "1.2.3.04", "1.2.3.4.5", "[1.2.3.4]"),
        *("::1", "[::1", "[::1%lo]", "[pypi.org]", f"{'a' * 64}.org", "a." * 127 + "org"),
    ],
)
def test_what_is_not_exactly_a_host_and_a_port_is_nothing(text: str) -> None:
    assert endpoint(text) is None


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "64:ff9b::101:101"])
def test_addresses_of_the_internet(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.255.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1"),
        *("169.254.169.254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254"),
        *("224.0.0.1", "239.255.255.250", "255.255.255.255", "240.0.0.1", "198.18.0.1"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1", "ff0e::1", "2001:db8::1"),
        *(
            "::ffff:127.0.0.1",
            "::ffff:1.1.1.1",
            "::127.0.0.1",
            "::1.1.1.1",
            "2002:7f00:1::",
            "2001:0:7f00:1::",
        ),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "pypi.org", ""),
    ],
)
def test_addresses_of_this_machine_its_network_or_its_cloud(address: str) -> None:
    assert not is_public(address)


def test_an_endpoint_knows_whether_it_is_an_address() -> None:
    assert [Endpoint(host, 1).is_address for host in ("10.0.0.1", "::1", "pypi.org")] == [True, True, False]
    assert str(Endpoint("::1", 443)) == "[::1]:443"
    assert ipaddress.ip_address("::1").compressed == "::1"


def test_programs_are_sent_to_the_proxy_but_for_their_own_loopback() -> None:
    url, own = "http://127.0.0.1:3128", "127.0.0.1,localhost,::1"
    assert environment(3128) == {
        "http_proxy": url,
        "https_proxy": url,
        "no_proxy": own,
        "HTTP_PROXY": url,
        "HTTPS_PROXY": url,
        "NO_PROXY": own,
        "NODE_USE_ENV_PROXY": "1",
        "MAVEN_OPTS": (
            "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128"
            " -Daether.connector.http.useSystemProperties=true"
        ),
    }
