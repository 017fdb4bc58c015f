#!/usr/bin/env python3
"""Does the gateway take the tokens of a real identity provider, and only those?

    identity.py --gateway BINARY

The provider is `oidc-provider` (`identity/`). The gateway knows its URL and no key: signed tokens are verified with the keys
that its discovery document names, opaque ones by asking it. Behind it is an agent of the JavaScript SDK. What the gateway writes into its audit trail goes to a
collector that reads it by the published schema of OTLP (`collector.py`). Nothing here is
about speed. Standard library only.
"""

import argparse
import base64
import contextlib
import http.client
import json
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from suite import AGENTS, HERE, LOOPBACK, START_SECONDS, Agent, Failed, Process, free_port, require_setup, stop_on_sigterm

SECONDS = 30
SCOPE = 'a2a.invoke'
# How long an answer about an opaque token holds.
CACHE_SECONDS = 1


def basic(client: str) -> str:
    """RFC 6749 §2.3.1."""
    both = f'{urllib.parse.quote_plus(client)}:{urllib.parse.quote_plus(f"{client} & its secret")}'
    return 'Basic ' + base64.b64encode(both.encode()).decode()


class Provider:
    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f'http://{LOOPBACK}:{self.port}'
        self.folder = folder
        command = ['node', str(HERE / 'identity/provider.mjs'), str(self.port)]
        self.process = Process('the provider', command, folder / 'provider.log')
        self.process.first_line('ready ')

    def post(self, path: str, **form: str) -> bytes:
        body = urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(self.url + path, body, {'Authorization': basic('caller')})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise Failed(f'the provider answers {path} with {error.code}: {error.read(500)!r}') from error

    def token(self, resource: str, scope: str = SCOPE) -> str:
        form = {'grant_type': 'client_credentials', 'resource': f'urn:test:{resource}'}
        if scope:
            form['scope'] = scope
        return json.loads(self.post('/token', **form))['access_token']


class Collector:
    def __init__(self, folder: Path) -> None:
        self.port, self.file = free_port(), folder / 'collected'
        self.file.touch()
        python = HERE / '.venv-1.x/bin/python'
        command = [str(python), str(HERE / 'collector.py'), str(self.port), str(self.file)]
        self.process = Process('the collector', command, folder / 'collector.log')
        self.process.first_line('ready')


class Gateway:
    def __init__(self, binary: Path, provider: Provider, agent: Agent, collector: Collector, folder: Path) -> None:
        self.trail = folder / 'audit.log'
        self.port, self.admin_port = free_port(), free_port()
        file = folder / 'gateway.yaml'
        file.write_text(f"""
public_url: http://{LOOPBACK}:{self.port}
listeners: [ {{ name: public, address: "{LOOPBACK}:{self.port}" }} ]
admin: {{ address: "{LOOPBACK}:{self.admin_port}" }}
state: {{ store: memory }}
log: {{ format: json }}
audit: {{ file: {self.trail}, otlp: {{ url: "http://{LOOPBACK}:{collector.port}/v1/logs" }} }}
security_schemes:
  signed:
    type: openIdConnect
    openIdConnectUrl: {provider.url}/.well-known/openid-configuration
    issuer: {provider.url}
    audience: [ a2a ]
    profile: at+jwt
    jwks_cooldown: 1s
  opaque:
    type: oauth2
    flows: {{ clientCredentials: {{ tokenUrl: "{provider.url}/token", scopes: {{ {SCOPE}: Call agents }} }} }}
    issuer: {provider.url}
    audience: [ a2a ]
    # Of a client's own token the provider does not tell a subject.
    principal_claim: client_id
    introspection:
      url: {provider.url}/token/introspection
      client_id: a2a-gateway
      client_secret: a2a-gateway & its secret
      cache_ttl: {CACHE_SECONDS}s
      negative_ttl: {CACHE_SECONDS}s
security: [ {{ signed: [ {SCOPE} ] }}, {{ opaque: [ {SCOPE} ] }} ]
agents:
  - {{ name: both, path: /both, upstream: {{ endpoints: [ {{ url: "{agent.url}" }} ] }} }}
  # The provider answers 400 when it is asked about a signed token, which says nothing of it.
  - name: signed
    path: /signed
    security: [ {{ signed: [ {SCOPE} ] }} ]
    upstream: {{ endpoints: [ {{ url: "{agent.url}" }} ] }}
""")
        shell = ['/bin/sh', '-c', 'exec "$@" >&2', 'sh', str(binary), 'run', '--config', str(file)]
        self.process = Process('the gateway', shell, folder / 'gateway.log', cwd=folder)
        self.eventually('the gateway is ready', self.is_ready, START_SECONDS)

    def eventually(self, what: str, holds, seconds: float = SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline or not self.process.alive():
                raise Failed(f'{what}: not within {seconds} s\n{self.process.tail()}')
            time.sleep(0.1)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f'http://{LOOPBACK}:{self.admin_port}/ready', timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def send(self, token: str, task: str | None = None, path: str = '/both') -> tuple[int, dict]:
        """A message, or the get of a task: status and answer."""
        if task:
            method, params = 'GetTask', {'id': task}
        else:
            message = {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': 'echo hi'}]}
            method, params = 'SendMessage', {'message': message}
        call = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params})
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=SECONDS)
        with contextlib.closing(connection):
            headers = {'Content-Type': 'application/json', 'A2A-Version': '1.0', 'Authorization': f'Bearer {token}'}
            connection.request('POST', path, call, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def status(self, token: str, path: str = '/both') -> int:
        return self.send(token, path=path)[0]


class Run:
    def __init__(self, provider: Provider, gateway: Gateway) -> None:
        self.provider, self.gateway = provider, gateway
        self.passed = 0

    def expect(self, what: str, seen: object, wanted: object) -> None:
        if seen != wanted:
            raise Failed(f'{what}: {seen!r}, not {wanted!r}\n{self.gateway.process.tail()}')
        self.passed += 1
        print(f'  ok   {what}')

    def all(self) -> None:
        provider, gateway = self.provider, self.gateway
        signed, opaque = provider.token('signed'), provider.token('opaque')
        self.expect('a signed token has three parts', signed.count('.'), 2)
        self.expect('an opaque one has one', opaque.count('.'), 0)
        status, answer = gateway.send(signed)
        self.expect('a signed token is taken', status, 200)
        task = answer['result']['task']['id']
        status, answer = gateway.send(opaque, task)
        self.expect('an opaque token is taken', status, 200)
        self.expect('and is of the same caller, whose task it is', answer.get('result', {}).get('id'), task)

        forged = signed[:-8] + ('A' * 8 if signed[-8:] != 'A' * 8 else 'B' * 8)
        self.expect('a forged one is refused', gateway.status(forged, '/signed'), 401)
        self.expect('an invented one is refused', gateway.status('x' * 43), 401)
        self.expect('one for somebody else is refused', gateway.status(provider.token('elsewhere'), '/signed'), 401)
        self.expect('one without the scope is not enough', gateway.status(provider.token('signed', scope=''), '/signed'), 403)
        self.expect('nor is an opaque one', gateway.status(provider.token('opaque', scope='')), 403)

        provider.post('/token/revocation', token=opaque)
        gateway.eventually('a revoked token is refused', lambda: gateway.status(opaque) == 401)
        self.expect('a revoked token stays refused', gateway.status(opaque), 401)

        provider.post('/rotate')
        rotated = provider.token('signed')
        gateway.eventually('a token of the new key is taken', lambda: gateway.status(rotated) == 200)
        self.expect('one of the key that went is refused', gateway.status(signed, '/signed'), 401)

        fresh, unseen = provider.token('signed'), provider.token('opaque')
        provider.process.kill()
        self.expect('known keys go on without the provider', gateway.status(fresh), 200)
        self.expect('nobody can tell of an opaque token then', gateway.status(unseen), 503)


def run(binary: Path, folder: Path) -> tuple[int, int]:
    """Gives passed and failed."""
    print('\ntokens of a real identity provider')
    folder.mkdir(parents=True, exist_ok=True)
    passed = 0
    with contextlib.ExitStack() as stack:
        try:
            provider = Provider(folder)
            stack.callback(provider.process.stop)
            agent = Agent.start(AGENTS['js1'], folder)
            stack.callback(agent.process.stop)
            collector = Collector(folder)
            stack.callback(collector.process.stop)
            gateway = Gateway(binary, provider, agent, collector, folder)
            stack.callback(gateway.process.stop)
            one = Run(provider, gateway)
            try:
                one.all()
            finally:
                passed = one.passed
            one.expect("the gateway's exit code", gateway.process.stop(), 0)
            trail = gateway.trail.read_text()
            one.expect('the trail tells of refusals', '"authentication_failed"' in trail, True)
            one.expect('the collector has every line of it', collector.file.read_text(), trail)
            passed = one.passed
        except Failed as error:
            print(f'  FAIL {error}')
            return passed, 1
    return passed, 0


def main() -> int:
    stop_on_sigterm()
    parser = argparse.ArgumentParser()
    parser.add_argument('--gateway', type=Path, metavar='BINARY', required=True)
    args = parser.parse_args()
    if not args.gateway.is_file():
        parser.error(f'{args.gateway} is not a file')
    require_setup()
    with tempfile.TemporaryDirectory(prefix='identity-') as folder:
        passed, failed = run(args.gateway.resolve(), Path(folder))
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
