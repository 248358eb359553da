import base64

import pytest

from coe_agents.serve import create_app
from tests.serve.groups import AGREEING, KEY, body_of, client_of, create_group

GROUP = create_group(*AGREEING)
ADDRESSES = ("/v1/models", "/", "/page.js", "/group", "/nowhere")


OWN = ["127.0.0.1:8000", "[::1]:8000", "LOCALHOST:9"]
FOREIGN = [
    "evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1@evil.example",
    "127.0.0.1:x",
    "localhost.",
    "[::1",
    "",
]


async def test_the_servers_own_names_are_taken_and_others_refused_unless_the_operator_adds_them():
    async with client_of(GROUP) as client:
        found = [await client.get("/health", headers={"host": host}) for host in (*OWN, *FOREIGN)]
    assert [response.status_code for response in found] == [200] * len(OWN) + [400] * len(FOREIGN)
    assert all('"Host"' in response.json()["error"]["message"] for response in found[len(OWN) :])
    async with client_of(GROUP, hosts=["ask.example"]) as client:
        assert (await client.get("/health", headers={"host": "ask.example:80"})).status_code == 200
        assert (await client.get("/health", headers={"host": "127.0.0.1"})).status_code == 400


def test_a_blank_key_is_none():
    with pytest.raises(ValueError, match="must not be blank"):
        create_app(GROUP, key=" \n")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8000", 200),
        ("https://127.0.0.1:8000", 200),  # a proxy in front of the server may add TLS
        ("http://localhost:8000", 403),
        ("null", 403),
        ("http://127.0.0.1:8000.evil.example", 403),
        ("http://[", 403),
    ],
)
async def test_only_the_servers_own_page_may_ask(origin, status):
    headers = {"host": "127.0.0.1:8000", "origin": origin}
    async with client_of(GROUP) as client:
        response = await client.post("/v1/chat/completions", json=body_of(), headers=headers)
    assert response.status_code == status
    assert not [name for name in response.headers if name.startswith("access-control")]


def basic(password, user="me"):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "Bearer ",
        f"Bearer {KEY}x",
        f"Token {KEY}",
        "Bearer \xe9",
        "Basic %%%",
        basic("", user=KEY),
    ],
)
async def test_without_the_key_nothing_is_shown(authorization):
    headers = {} if authorization is None else {"authorization": authorization.encode("latin-1")}
    async with client_of(GROUP, key=KEY) as client:
        for path in ADDRESSES:
            response = await client.get(path, headers=headers)
            assert response.status_code == 401
            assert response.json()["error"]["code"] == "invalid_api_key"
            assert response.headers["www-authenticate"].startswith(
                "Bearer" if path.startswith("/v1") else "Basic"
            )
            assert KEY not in response.text


@pytest.mark.parametrize(
    "authorization", [f"Bearer {KEY}", f"bearer  {KEY} ", basic(KEY), basic(KEY, user="")]
)
async def test_with_the_key(authorization):
    async with client_of(GROUP, key=KEY) as client:  # which this address needs not
        assert (await client.get("/health")).json() == {"status": "ok"}
    async with client_of(GROUP, key=KEY, headers={"authorization": authorization}) as client:
        assert (await client.get("/v1/models")).status_code == 200
        assert (await client.get("/")).status_code == 200
        assert (await client.post("/v1/chat/completions", json=body_of())).status_code == 200


@pytest.mark.parametrize("path", ["/", "/health", "/nowhere"])
async def test_every_response_restricts_the_browser(path):
    async with client_of(GROUP) as client:
        headers = (await client.get(path)).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
