#!/usr/bin/env python3
"""Do the official SDKs believe the signatures of the gateway's cards, and no others?

    signatures.py --gateway BINARY
    signatures.py --record               writes what each SDK signs of the recorded cards (`tests/cards/signing/canonical.json`)

The cards are those that the gateway publishes of SDK agents, in one form for all and in one for each version, and their extended
cards; the checks are those of the SDKs (`signing/`), with the keys at `/.well-known/jwks.json`. Each card must be believed as it
came, and not when somebody has put another address into it. That the SDKs sign what is recorded is checked too.
"""

import argparse
import contextlib
import json
import re
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from suite import AGENTS, HERE, LOOPBACK, PYTHON_03, PYTHON_1, Agent, Credentials, Failed, Gateway, require_setup, stop_on_sigterm

CARDS = HERE.parent / 'cards'
RECORD = CARDS / 'signing/canonical.json'
CHECKERS = {
    'python-1.x': [PYTHON_1, HERE / 'signing/check.py'],
    'javascript-1.x': ['node', HERE / 'signing/check.mjs'],
    'python-0.3': [PYTHON_03, HERE / 'signing/check.py'],
}
OF_1_0 = ('python-1.x', 'javascript-1.x')
BEHIND = ('py1-compat', 'js1', 'py03')
KEYS = {
    'p256': ('-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256'),
    'ed25519': ('-algorithm', 'ed25519'),
    'rsa': ('-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048'),
}
SECONDS = 30


def ask(checker: str, *arguments: object) -> list:
    command = [str(part) for part in [*CHECKERS[checker], *arguments]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise Failed(f'{checker}: {done.stderr}')
    return json.loads(done.stdout)


def canonical() -> dict[str, dict[str, str | None]]:
    """By the path of a card and the name of an SDK."""
    cards = sorted([*CARDS.glob('[0-9h]*.json'), *CARDS.glob('signing/[0-9h]*.json')])
    found = {str(card.relative_to(CARDS)): {} for card in cards}
    for checker in CHECKERS:
        for name, text in zip(found, ask(checker, 'canonical', *cards), strict=True):
            found[name][checker] = text
    return found


class SigningGateway(Gateway):
    """Entries whose name ends so have a card for each version."""

    BY_VERSION = '-versions'

    def entry(self, name: str, route: str, replicas: list[Agent], limits: str | None = None) -> list[str]:
        lines = super().entry(name, route, replicas, limits)
        return [*lines, '    card: { form: by_version }'] if name.endswith(self.BY_VERSION) else lines


class Run:
    def __init__(self, gateway: Gateway, credentials: Credentials, folder: Path) -> None:
        self.gateway, self.credentials, self.folder = gateway, credentials, folder
        self.context = ssl.create_default_context(cafile=str(credentials.ca))
        self.passed, self.failed = 0, 0
        # By checker, with what must come of it.
        self.wanted: dict[str, list[tuple[Path, bool]]] = {name: [] for name in CHECKERS}

    def get(self, path: str, version: str, body: dict | None = None) -> dict:
        headers = {'A2A-Version': version, 'Authorization': f'Bearer {self.credentials.token}'}
        data = None
        if body:
            data, headers['Content-Type'] = json.dumps(body).encode(), 'application/json'
        url = f'https://{LOOPBACK}:{self.gateway.port}{path}'
        request = urllib.request.Request(url, data, headers)
        with urllib.request.urlopen(request, timeout=SECONDS, context=self.context) as answer:
            return json.load(answer)

    def add(self, name: str, card: dict, checkers: tuple[str, ...]) -> None:
        """The card, and what nobody may believe: the same with another address."""
        if not card.get('signatures'):
            raise Failed(f'{name} is not signed: {card}')
        forged = json.loads(re.sub(r'https://127[0-9.]+:', 'https://attacker.example:', json.dumps(card)))
        if forged == card:
            raise Failed(f'{name} has no address: {card}')
        stripped = {key: value for key, value in card.items() if key != 'signatures'}
        for kind, one, good in (('good', card, True), ('forged', forged, False), ('stripped', stripped, False)):
            file = self.folder / f'{name}.{kind}.json'
            file.write_text(json.dumps(one))
            for checker in checkers:
                self.wanted[checker].append((file, good))

    def fetch(self) -> None:
        everybody = tuple(CHECKERS)
        for agent in BEHIND:
            base = f'/agents/{agent}'
            self.add(f'{agent}-card', self.get(f'{base}/.well-known/agent-card.json', '1.0'), everybody)
            for version, method, path in (
                ('1.0', 'GetExtendedAgentCard', 'extendedAgentCard'),
                ('0.3', 'agent/getAuthenticatedExtendedCard', 'v1/card'),
            ):
                readers = OF_1_0 if version == '1.0' else ('python-0.3', 'python-1.x')
                card = self.get(f'{base}-versions/.well-known/agent-card.json', version)
                self.add(f'{agent}-card-{version}', card, readers)
                answer = self.get(base, version, {'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': {}})
                self.add(f'{agent}-extended-{version}', answer['result'], everybody)
                self.add(f'{agent}-extended-rest-{version}', self.get(f'{base}/{path}', version), everybody)
            # Each SDK takes what gRPC of its own version says.
            target = self.gateway.host_base(agent).removeprefix('https://')
            for version, python, readers in (('1.0', PYTHON_1, OF_1_0), ('0.3', PYTHON_03, ('python-0.3',))):
                self.add(f'{agent}-extended-grpc-{version}', self.over_grpc(python, target, version), readers)

    def over_grpc(self, python: Path, target: str, version: str) -> dict:
        command = [python, HERE / 'signing/extended.py', target, self.credentials.ca, self.credentials.token, version]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise Failed(f'the extended card over gRPC of {target}: {done.stderr}')
        return json.loads(done.stdout)

    def check(self) -> None:
        keys = self.folder / 'keys.json'
        keys.write_text(json.dumps(self.get('/.well-known/jwks.json', '1.0')))
        for checker, wanted in self.wanted.items():
            files = [file for file, _ in wanted]
            for (file, good), said in zip(wanted, ask(checker, 'verify', keys, *files), strict=True):
                self.expect(f'{checker} {"believes" if good else "refuses"} {file.name} ({said})', (said == 'ok') == good)
        # Each algorithm by itself.
        card = json.loads((self.folder / f'{BEHIND[0]}-card.good.json').read_text())
        ids = {one['kid']: one['alg'] for one in json.loads(keys.read_text())['keys']}
        for kid, algorithm in ids.items():
            only = self.folder / f'only-{algorithm}.json'
            only.write_text(json.dumps({'keys': [one for one in json.loads(keys.read_text())['keys'] if one['kid'] == kid]}))
            for checker in CHECKERS:
                said = ask(checker, 'verify', only, self.folder / f'{BEHIND[0]}-card.good.json')
                self.expect(f'{checker} believes {algorithm} ({said[0]})', said == ['ok'])
        self.expect('there are three algorithms', len(set(ids.values())) == len(KEYS) and bool(card))

    def expect(self, what: str, holds: bool) -> None:
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f'  FAIL {what}')


def run(binary: Path, folder: Path) -> tuple[int, int]:
    print('\nsignatures of cards, checked by the SDKs')
    folder.mkdir(parents=True, exist_ok=True)
    one = None
    with contextlib.ExitStack() as stack:
        try:
            credentials = Credentials.make(folder)
            for name, kind in KEYS.items():
                command = ['openssl', 'genpkey', *kind, '-out', str(folder / f'{name}.pem')]
                subprocess.run(command, capture_output=True, check=True)
            agents = {}
            for name in BEHIND:
                agents[name] = Agent.start(AGENTS[name], folder)
                stack.callback(agents[name].process.stop)
            behind = {name: [agent] for name, agent in agents.items()}
            behind |= {f'{name}{SigningGateway.BY_VERSION}': [agent] for name, agent in agents.items()}
            keys = ', '.join(f'{{ private_key: {name}.pem, id: {name} }}' for name in KEYS)
            more = (f'card_signatures: {{ keys: [ {keys} ] }}',)
            gateway = SigningGateway(binary, credentials, behind, more=more, hosted=BEHIND)
            gateway.start()
            stack.callback(gateway.stop)
            one = Run(gateway, credentials, folder)
            recorded = json.loads(RECORD.read_text())
            for name, by_sdk in canonical().items():
                one.expect(f'what the SDKs sign of {name} is recorded', recorded.get(name) == by_sdk)
            one.fetch()
            one.check()
            one.expect("the gateway's exit code", gateway.stop() == 0)
        except Failed as error:
            print(f'  FAIL {error}')
            return (one.passed if one else 0), (one.failed if one else 0) + 1
    print(f'  {one.passed} of {one.passed + one.failed}')
    return one.passed, one.failed


def main() -> int:
    stop_on_sigterm()
    parser = argparse.ArgumentParser()
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument('--gateway', type=Path, metavar='BINARY')
    mode.add_argument('--record', action='store_true')
    args = parser.parse_args()
    require_setup()
    if args.record:
        RECORD.write_text(json.dumps(canonical(), indent=1, ensure_ascii=False) + '\n')
        return 0
    if not args.gateway.is_file():
        parser.error(f'{args.gateway} is not a file')
    with tempfile.TemporaryDirectory(prefix='signatures-') as folder:
        passed, failed = run(args.gateway.resolve(), Path(folder))
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
