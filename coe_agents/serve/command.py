"""Owns the command `serve`."""

import webbrowser
from functools import partial
from typing import Annotated, Literal

import typer

from coe_agents.cli.inputs import find_config, load_quietly
from coe_agents.cli.options import ConfigOption
from coe_agents.cli.stores import AuditRateOption, RecordOption, open_recording
from coe_agents.cli.terminal import clean_up_after_interrupt, print_lines

_LOOPBACK = "127.0.0.1"


def serve(
    config: ConfigOption = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the model for callers; default: that of the file, or tinyworld."
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(help="Address to listen at; another than the default requires --api-key-env."),
    ] = _LOOPBACK,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen at; 0 for a free one.")
    ] = 8000,
    api_key_env: Annotated[
        str | None,
        typer.Option(help="NAME of the environment variable with the key that callers must send."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A further name under which callers reach the server, without port; repeatable."
        ),
    ] = None,
    max_requests: Annotated[
        int,
        typer.Option(
            min=1, help="Questions that are answered at a time; further ones get status 429."
        ),
    ] = 256,
    max_bytes: Annotated[
        int, typer.Option(min=1, help="The largest request; larger ones get status 413.")
    ] = 1_000_000,
    grace: Annotated[
        int,
        typer.Option(
            min=1, help="Seconds in which questions in flight are answered before the server ends."
        ),
    ] = 30,
    refusals: Annotated[
        Literal["content", "field"],
        typer.Option(
            help='Where a reply says why there is no answer: "content" is where an answer stands, too, since many '
            'clients drop "refusal"; "field" is "refusal" alone.'
        ),
    ] = "content",
    record: RecordOption = None,
    audit_rate: AuditRateOption = None,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Offer metrics for Prometheus at /metrics.")
    ] = False,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the server's page in the browser.")
    ] = False,
) -> None:
    """Offer the group as one model to OpenAI's clients: an answer, or a refusal where the group does not agree.

    A caller can make the gate stricter for a question, never looser.
    """
    from coe_agents.config.models import read_key

    try:
        key = None if api_key_env is None else read_key(api_key_env)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--api-key-env") from error
    if key is None and host != _LOOPBACK:
        message = f"without a key the server listens at {_LOOPBACK} only. Add --api-key-env"
        raise typer.BadParameter(message, param_hint="--host")
    config = find_config(config)
    settings = load_quietly(config)
    from coe_agents.serve import Group, create_app
    from coe_agents.serve.access import LOOPBACK
    from coe_agents.serve.http_server import address_of, open_socket
    from coe_agents.serve.http_server import serve as serve_app

    if config is None or settings is None:
        create = partial(Group.from_tinyworld, name=name or "tinyworld")
    else:
        from coe_agents.config import load

        create = partial(Group.from_configuration, load(config), name=name or config.stem)
    hosts = {*LOOPBACK, host, *(allow_host or ())}
    hosts -= {"0.0.0.0", "::"}  # all addresses of the machine, not names
    with open_recording(settings, record, audit_rate) as recording:
        group = create(**recording)
        app = create_app(
            group,
            key=key,
            hosts=hosts,
            max_requests=max_requests,
            max_bytes=max_bytes,
            metrics=metrics,
            refusals=refusals,
        )
        clean_up_after_interrupt()
        with open_socket(host, port) as listening:
            address = address_of(listening)
            print_lines(
                f"Open {address}/ in a browser, or give OpenAI's clients the base URL {address}/v1 and"
            )
            print_lines(f'the model "{group.name}". Ctrl-C ends the server.')
            if open_page:
                webbrowser.open(address)  # the socket is open: the browser waits for the server
            serve_app(app, listening, grace=grace)
