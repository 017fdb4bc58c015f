"""What both Python clients share: the command line, trust and credentials, the record of what went over
the wire, and the run of the scenarios.

Uses nothing of an SDK, so that either virtual environment can import it. A scenario is an async function
that takes a `Session` and returns what it saw; the driver compares that between a direct run and one through
the gateway, so it must not depend on ids or on timing. It raises `AssertionError` when what it saw is wrong,
and `NotApplicable` with the reason when the SDK or the agent cannot do it.
"""

import argparse
import asyncio
import json
import ssl
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx


def call_of(error: Exception):
    """What gRPC says of the call that failed; SDKs raise that or have it as a cause."""
    return next((one for one in (error, error.__cause__) if hasattr(one, 'trailing_metadata')), None)


def is_grpc_of(target: str, base: str) -> bool:
    """gRPC is at the host and port of the base; of an agent without TLS, whose gRPC has a port of its own, at another port."""
    parts = urlsplit(base)
    return target == parts.netloc or (parts.scheme == 'http' and target.rpartition(':')[0] == parts.hostname)


def is_under(url: str, base: str) -> bool:
    """Whether a card's address is one below the base."""
    return url.rstrip('/') == base or url.startswith(f'{base}/') or is_grpc_of(url, base)


class NotApplicable(Exception):
    """The scenario has no meaning for this pair; the text says why."""


def equal(actual, expected, what: str) -> None:
    if actual != expected:
        raise AssertionError(f'{what}: {actual!r} instead of {expected!r}')


def check(condition, what: str) -> None:
    if not condition:
        raise AssertionError(what)


async def ends(stream) -> str:
    """Whether a stream ends after its task was canceled: servers on the Python SDK 0.3 leave it open for ever."""

    async def rest() -> None:
        async for _ in stream:
            pass

    try:
        await asyncio.wait_for(rest(), 3)
    except TimeoutError:
        return 'the stream stays open'
    return 'the stream ends'


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument('--base', required=True, help='URL under which /.well-known/agent-card.json stands')
    parser.add_argument('--ca', help='PEM file to trust instead of the system')
    parser.add_argument('--bearer', help='sent as Authorization: Bearer')
    parser.add_argument('--header', action='append', default=[], help="'Name: value', sent with every request")
    parser.add_argument('--scenario', default='all', help='a name, several with commas, or all')
    parser.add_argument('--other', help='the same agent behind another gateway, for the scenario handover')
    parser.add_argument('--stranger', help='the bearer token of another caller, for the scenario handover')
    parser.add_argument('--webhook', help='somebody listens at the addresses below this one, for the scenario webhook')
    parser.add_argument('--only', help='the one generation to speak, whatever else the card offers')
    binding = parser.add_mutually_exclusive_group()
    binding.add_argument('--rest', action='store_true', help='speak HTTP+JSON instead of JSON-RPC')
    binding.add_argument('--grpc', action='store_true', help='speak gRPC instead of JSON-RPC')
    parser.add_argument('--expect-auth', action='store_true', help='calls without a credential must get 401')
    parser.add_argument('--timeout', type=float, default=20, help='seconds for one scenario')
    parser.add_argument('--trace', action='store_true', help='stack traces of failures on stderr')
    return parser.parse_args()


class Session:
    """What one scenario sends, and what came back."""

    def __init__(self, args: argparse.Namespace, base: str | None = None) -> None:
        self.args = args
        self.base = (base or args.base).rstrip('/')
        self.other: Session | None = None
        self.urls: list[str] = []
        self.answers: list[tuple[int, str | None]] = []
        # Where channels of gRPC went.
        self.targets: list[str] = []

    def _headers(self, credential: dict[str, str | None]) -> dict[str, str]:
        """`bearer` in `credential` replaces the one of the command line; None stands for no credential at all."""
        bearer = credential.get('bearer', self.args.bearer)
        if 'bearer' in credential and not bearer:
            return {}
        headers = dict(line.split(': ', 1) for line in self.args.header)
        if bearer:
            headers['Authorization'] = f'Bearer {bearer}'
        return headers

    @asynccontextmanager
    async def http(self, **credential):
        """A client that trusts `--ca` and shows the credential."""

        async def on_request(request: httpx.Request) -> None:
            self.urls.append(str(request.url))

        async def on_response(response: httpx.Response) -> None:
            self.answers.append((response.status_code, response.headers.get('www-authenticate')))

        verify = ssl.create_default_context(cafile=self.args.ca) if self.args.ca else True
        async with httpx.AsyncClient(
            verify=verify,
            headers=self._headers(credential),
            timeout=httpx.Timeout(self.args.timeout),
            event_hooks={'request': [on_request], 'response': [on_response]},
            trust_env=False,
        ) as client:
            yield client

    @asynccontextmanager
    async def channels(self, **credential):
        """What makes the SDK's channels of gRPC, which trust `--ca` and show the credential with every call; closes them at the
        end. None for the other bindings."""
        if not self.args.grpc:
            yield None
            return
        # One of the environments does not have it.
        import grpc.aio

        metadata = [(name.lower(), value) for name, value in self._headers(credential).items()]
        trusted = Path(self.args.ca).read_bytes() if self.args.ca else None
        opened = []

        def channel(target: str):
            self.targets.append(target)
            if self.base.startswith('https:'):
                calls = grpc.metadata_call_credentials(lambda context, give: give(metadata, None))
                secure = grpc.composite_channel_credentials(grpc.ssl_channel_credentials(trusted), calls)
                opened.append(grpc.aio.secure_channel(target, secure))
            else:
                check(not metadata, 'gRPC shows no credential in the clear')
                opened.append(grpc.aio.insecure_channel(target))
            return opened[-1]

        try:
            yield channel
        finally:
            for one in opened:
                await one.close()

    def webhook(self, way: str) -> dict[str, str]:
        """Where the driver listens, for each way to set a webhook."""
        if not self.args.webhook:
            raise NotApplicable('nobody listens at webhooks')
        return {'id': way, 'url': f'{self.args.webhook}/{way}', 'token': f'{way}-token'}

    def elsewhere(self) -> 'Session':
        """The same agent behind the other gateway."""
        if not self.args.other:
            raise NotApplicable('there is no second gateway')
        self.other = Session(self.args, self.args.other)
        return self.other

    def refused(self, what: str, error: Exception) -> None:
        """The last answer was a 401, or what gRPC has for it, that says how to do better."""
        if self.args.grpc:
            call = call_of(error)
            equal(call and call.code().name, 'UNAUTHENTICATED', f'{what}: status')
            told = [*(call.initial_metadata() or ()), *(call.trailing_metadata() or ())]
            challenge = next((value for name, value in told if name == 'www-authenticate'), None)
        else:
            status, challenge = self.answers[-1]
            equal(status, 401, f'{what}: HTTP status')
        check(challenge, f'{what}: refused without WWW-Authenticate')

    def stayed(self) -> None:
        """A client that left the published base would go round the gateway unnoticed."""
        for url in self.urls:
            check(url == self.base or url.startswith(f'{self.base}/'), f'the client went to {url}, outside {self.base}')
            # JSON-RPC goes to the base itself, HTTP+JSON never does.
            check(not (self.args.rest and url.rstrip('/') == self.base), 'the client spoke JSON-RPC')
            # By HTTP a client of gRPC fetches the card and nothing else.
            check(not self.args.grpc or '/.well-known/' in url, f'the client of gRPC asked for {url}')
        for target in self.targets:
            check(is_grpc_of(target, self.base), f'the client went to {target}')
        if self.other:
            self.other.stayed()


Scenario = Callable[[Session], Awaitable[object]]


async def _one(name: str, scenario: Scenario, args: argparse.Namespace) -> dict:
    session = Session(args)
    started = time.monotonic()
    result: dict = {'scenario': name, 'ok': True, 'detail': '', 'observed': None}
    try:
        result['observed'] = await asyncio.wait_for(scenario(session), args.timeout)
        session.stayed()
    except NotApplicable as reason:
        result |= {'ok': None, 'detail': str(reason)}
    except TimeoutError:
        result |= {'ok': False, 'detail': f'no end after {args.timeout} s'}
    except Exception as error:  # a failed scenario must not stop the others
        result |= {'ok': False, 'detail': f'{type(error).__name__}: {error}'}
        if args.trace:
            traceback.print_exc()
    result['ms'] = round((time.monotonic() - started) * 1000)
    return result


def run(scenarios: dict[str, Scenario]) -> None:
    """Runs what the command line asks for, one line of JSON each; ends the process with 1 if one failed."""
    args = arguments()
    # Without a second gateway there is nothing to hand over to.
    every = [name for name in scenarios if name != 'handover' or args.other]
    names = every if args.scenario == 'all' else args.scenario.split(',')
    if unknown := [name for name in names if name not in scenarios]:
        raise SystemExit(f'no scenario {", ".join(unknown)}; there are: {", ".join(scenarios)}')

    async def everything() -> bool:
        good = True
        for name in names:
            result = await _one(name, scenarios[name], args)
            print(json.dumps(result), flush=True)
            good = good and result['ok'] is not False
        return good

    sys.exit(0 if asyncio.run(everything()) else 1)


# Texts that every client sends, so that the runs compare.
UNICODE = 'Grüße, 你好, 🚢 "quoted" \\ back\nnew line\ttab \u2028 end'
# Below the 100 kB at which Express' JSON reader gives up.
LARGE = '0123456789abcdef' * 4096
UNKNOWN_TASK = '00000000-0000-4000-8000-000000000000'
HOOK = 'http://127.0.0.1:9/hook'
# HTTP+JSON of 0.3 gives Python callers nothing but the status: the JSON-RPC code that it stands for, where that is one.
CODE_OF_STATUS = {404: -32001, 409: -32002, 500: -32603, 501: -32004} if '--rest' in sys.argv else {}
