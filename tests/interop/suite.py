"""What the drivers share: where things stand, processes that are started and stopped by their id, the credentials,
and the gateway with its configuration and its store. Standard library only.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON_02 = HERE / '.venv-0.2/bin/python'
PYTHON_03 = HERE / '.venv-0.3/bin/python'
PYTHON_1 = HERE / '.venv-1.x/bin/python'
LOOPBACK = '127.0.0.1'
# The paths of gRPC are whole, so behind a gateway that serves several agents each needs a host of its own. All of 127/8 is the
# loopback on Linux.
HOSTS = tuple(f'127.0.0.{number}' for number in range(11, 25))
ISSUER = 'https://issuer.example'
AUDIENCE = 'a2a'

# All scenarios of one client; a single one has its own bound inside the client.
CLIENT_SECONDS = 300
START_SECONDS = 30
STOP_SECONDS = 15


class Failed(Exception):
    """Something that the suite needs did not come up."""


@dataclass(frozen=True)
class AgentKind:
    """An agent program; `generations` is what it answers, `like` the agents that show what a caller of another one should see.
    0.2 and 0.3 have the same calls; answering 0.2 means that the card stands at the path of 0.2 too. One that has a `binding`
    answers that alone, and what its callers should see is shown by the same program over JSON-RPC. Callers of 0.1 should see
    the same everywhere, which the scripted agent shows."""

    name: str
    command: tuple[str, ...]
    generations: tuple[str, ...]
    like: tuple[str, ...] = ()
    binding: str | None = None

    def over(self, binding: str) -> 'AgentKind':
        command, like = (*self.command, f'--{binding}'), (self.name, *self.like)
        # 0.2 has JSON-RPC alone.
        generations = tuple(one for one in self.generations if one != '0.2')
        return AgentKind(f'{self.name}-{binding}', command, generations, like, binding)


REST, GRPC = 'rest', 'grpc'
_JSON_RPC_AGENTS = (
    AgentKind('py02', (str(PYTHON_02), 'agents/agent_py0.py'), ('0.2',), like=('py03', 'py1')),
    AgentKind('py03', (str(PYTHON_03), 'agents/agent_py0.py'), ('0.3', '0.2'), like=('py1',)),
    AgentKind('js03', ('node', 'js-0.3/agent.mjs'), ('0.3', '0.2'), like=('js1',)),
    AgentKind('py1', (str(PYTHON_1), 'agents/agent_py1.py'), ('1.0',), like=('py1-compat',)),
    AgentKind('js1', ('node', 'agents/agent_js1.mjs'), ('1.0',), like=('js1-compat',)),
    AgentKind('py1-compat', (str(PYTHON_1), 'agents/agent_py1.py', '--compat'), ('1.0', '0.3', '0.2')),
    AgentKind('js1-compat', ('node', 'agents/agent_js1.mjs', '--compat'), ('1.0', '0.3', '0.2')),
)
SCRIPTED = AgentKind('v01', (str(PYTHON_03), 'agents/agent_v01.py'), ('0.1',), like=('py1-compat',))
_REST_AGENTS = tuple(one.over(REST) for one in _JSON_RPC_AGENTS if one.name in ('py03', 'py1', 'js1'))
_GRPC_AGENTS = tuple(one.over(GRPC) for one in _JSON_RPC_AGENTS if one.name in ('py03', 'py1', 'js1'))
AGENTS = {one.name: one for one in (*_JSON_RPC_AGENTS, *_REST_AGENTS, *_GRPC_AGENTS, SCRIPTED)}


@dataclass(frozen=True)
class Client:
    """A client program; `generations` is what it speaks, first what it takes where a card offers all of them. One that has a
    `binding` is the client over JSON-RPC of the same name, told to speak that one."""

    name: str
    command: tuple[str, ...]
    generations: tuple[str, ...]
    binding: str | None = None

    def over_json_rpc(self) -> 'Client':
        name, _, _ = self.name.partition('+')
        return next(one for one in (*JSON_RPC_CLIENTS, SCRIPTED_CLIENT) if one.name == name)

    def over(self, binding: str) -> 'Client':
        return Client(f'{self.name}+{binding}', (*self.command, f'--{binding}'), self.generations, binding)


JSON_RPC_CLIENTS = (
    Client('py02', (str(PYTHON_02), 'clients/client_py0.py'), ('0.2',)),
    Client('py03', (str(PYTHON_03), 'clients/client_py0.py'), ('0.3',)),
    Client('js03', ('node', 'js-0.3/client.mjs'), ('0.3',)),
    Client('py1', (str(PYTHON_1), 'clients/client_py1.py'), ('1.0', '0.3')),
    Client('py1@0.3', (str(PYTHON_1), 'clients/client_py1.py', '--only', '0.3'), ('0.3',)),
    Client('js1', ('node', 'clients/client_js1.mjs'), ('1.0',)),
    Client('js1-compat', ('node', 'clients/client_js1.mjs', '--compat'), ('1.0', '0.3')),
    Client('js1@0.3', ('node', 'clients/client_js1.mjs', '--compat', '--only', '0.3'), ('0.3',)),
)
SCRIPTED_CLIENT = Client('v01', (str(PYTHON_03), 'clients/client_v01.py'), ('0.1',))
# Not py02, as 0.2 has neither HTTP+JSON nor gRPC that its SDK could use, nor js1-compat, which would do the same as js1.
BEYOND_JSON_RPC = tuple(one for one in JSON_RPC_CLIENTS if one.name not in ('py02', 'js1-compat'))
CLIENTS = (
    *JSON_RPC_CLIENTS,
    *(one.over(binding) for binding in (REST, GRPC) for one in BEYOND_JSON_RPC),
    SCRIPTED_CLIENT,
)


class Process:
    """A child with its errors in a file; stopped by its id, and by nothing else."""

    def __init__(self, name: str, command: list[str], log: Path, cwd: Path = HERE) -> None:
        self.name = name
        self.log = log
        self._file = log.open('ab')
        self.child = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._file
        )

    def first_line(self, start: str) -> str:
        """Waits for a line on stdout that begins so."""
        deadline = time.monotonic() + START_SECONDS
        seen = b''
        while time.monotonic() < deadline:
            readable, _, _ = select.select([self.child.stdout], [], [], 0.1)
            if readable:
                piece = os.read(self.child.stdout.fileno(), 4096)
                if not piece:
                    break
                seen += piece
                for line in seen.decode(errors='replace').splitlines():
                    if line.startswith(start):
                        return line
        raise Failed(f'{self.name} did not come up: {seen!r}\n{self.tail()}')

    def alive(self) -> bool:
        return self.child.poll() is None

    def kill(self) -> None:
        """Without notice, as a crash would."""
        self.child.kill()
        self.child.wait()

    def stop(self) -> int:
        """Asks, then insists; gives the exit code."""
        if self.alive():
            self.child.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(STOP_SECONDS)
        if self.alive():
            self.kill()
        self.child.stdout.close()
        self._file.close()
        return self.child.returncode

    def tail(self, lines: int = 30) -> str:
        """The end of the log without the access records, which would bury the rest."""
        kept = [line for line in self.log.read_text(errors='replace').splitlines() if ' access ' not in line]
        return '\n'.join(kept[-lines:])


@dataclass
class Agent:
    kind: AgentKind
    replica: str
    process: Process
    url: str
    # Of one that speaks gRPC, which is not served where the card is.
    grpc: str | None = None

    @staticmethod
    def start(kind: AgentKind, folder: Path, replica: str = 'r1', name: str | None = None) -> 'Agent':
        command = [*kind.command, '--port', '0', '--name', name or kind.name, '--replica', replica]
        log = folder / f'agent-{name or kind.name}-{replica}.log'
        process = Process(f'agent {kind.name} {replica}', command, log)
        try:
            port = process.first_line('READY ').split()[1]
            agent = Agent(kind, replica, process, f'http://127.0.0.1:{port}/')
            if kind.binding == GRPC:
                agent.grpc = agent.offered()
        except (Failed, OSError):
            process.stop()
            raise
        return agent

    def offered(self) -> str:
        """Where its card says that it is; of gRPC that is a host and a port."""
        with urllib.request.urlopen(self.card, timeout=START_SECONDS) as response:
            card = json.load(response)
        one = card['supportedInterfaces'][0] if '1.0' in self.kind.generations else card
        return f'http://{one["url"]}'

    @property
    def base(self) -> str:
        return self.url.rstrip('/')

    @property
    def card(self) -> str:
        return f'{self.base}/.well-known/agent-card.json'


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


@dataclass(frozen=True)
class Credentials:
    """A CA, a server certificate for the loopback and the addresses of `HOSTS`, a key set and the tokens of two callers that it
    verifies; all in one folder."""

    folder: Path
    ca: Path
    token: str
    stranger: str

    @staticmethod
    def make(folder: Path) -> 'Credentials':
        def openssl(*arguments: str) -> None:
            done = subprocess.run(['openssl', *arguments], cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Failed(f'openssl {arguments[0]}: {done.stderr}')

        curve = ('-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes')
        openssl(
            'req', '-x509', *curve, '-days', '2', '-subj', '/CN=interop CA', '-keyout', 'ca.key', '-out', 'ca.crt',
            '-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign,cRLSign',
        )  # fmt: skip
        openssl('req', *curve, '-subj', '/CN=localhost', '-keyout', 'server.key', '-out', 'server.csr')
        (folder / 'server.ext').write_text(
            f'subjectAltName=DNS:localhost,{",".join(f"IP:{host}" for host in (LOOPBACK, *HOSTS))}\n'
            'basicConstraints=critical,CA:FALSE\n'
            'keyUsage=critical,digitalSignature\n'
            'extendedKeyUsage=serverAuth\n'
        )
        openssl(
            'x509', '-req', '-in', 'server.csr', '-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial',
            '-days', '2', '-extfile', 'server.ext', '-out', 'server.crt',
        )  # fmt: skip
        mint = [str(PYTHON_1), str(HERE / 'mint.py'), 'jwks.json', ISSUER, AUDIENCE, 'interop', 'stranger']
        tokens = subprocess.run(mint, cwd=folder, capture_output=True, text=True, check=True).stdout.split()
        return Credentials(folder, folder / 'ca.crt', *tokens)


@dataclass
class Gateway:
    """The binary under test, in front of agents; `agents` maps the name of an entry to its replicas, `limits` to its rate
    limits. Those that are `hosted` have a second entry, with a host, and those that serve callers of 0.1 (`v0_1`) one with a path of
    its own, as it has a card of its own. `name` tells the files of gateways in one folder apart."""

    binary: Path
    credentials: Credentials
    agents: dict[str, list[Agent]]
    port: int = field(default_factory=free_port)
    admin_port: int = field(default_factory=free_port)
    process: Process | None = None
    name: str = 'gateway'
    state: str = '{ store: embedded, path: ./state }'
    more: tuple[str, ...] = ()
    limits: dict[str, str] = field(default_factory=dict)
    hosted: tuple[str, ...] = ()
    v0_1: tuple[str, ...] = ()
    # Where agents reach it without TLS, so that they need not trust the CA of the run.
    plain_port: int = field(default_factory=free_port)

    def base(self, name: str) -> str:
        return f'https://{LOOPBACK}:{self.port}/agents/{name}'

    def root(self) -> str:
        return f'https://{LOOPBACK}:{self.port}'

    def v0_1_base(self, name: str) -> str:
        return f'https://{LOOPBACK}:{self.port}/v0.1/{name}'

    def host_base(self, name: str) -> str:
        return f'https://{self.hosts()[name]}:{self.port}'

    def hosts(self) -> dict[str, str]:
        return dict(zip(self.hosted, HOSTS, strict=False))

    def configuration(self) -> str:
        lines = [f'public_url: https://{LOOPBACK}:{self.port}', 'listeners:']
        for name, address in {'public': LOOPBACK, **self.hosts()}.items():
            lines += [
                f'  - name: {name}',
                f'    address: "{address}:{self.port}"',
                '    tls: { certificate: server.crt, private_key: server.key }',
                f'  - {{ name: {name}-plain, address: "{address}:{self.plain_port}" }}',
            ]
        lines += [
            f'admin: {{ address: "{LOOPBACK}:{self.admin_port}" }}',
            f'state: {self.state}',
            'push:',
            '  keys: [ { value: a key for webhooks that is no secret } ]',
            f'  url: http://{LOOPBACK}:{self.plain_port}',
            '  http: true',
            '  networks: [ 127.0.0.0/8 ]',
            *self.more,
            'security_schemes:',
            '  corp:',
            '    type: http',
            '    scheme: bearer',
            '    bearerFormat: JWT',
            f'    issuer: "{ISSUER}"',
            f'    audience: [{AUDIENCE}]',
            '    jwks_file: jwks.json',
            'security: [ { corp: [] } ]',
            'agents:',
        ]
        for name, replicas in self.agents.items():
            lines += self.entry(name, f'path: /agents/{name}', replicas, self.limits.get(name))
        for name, host in self.hosts().items():
            lines += self.entry(f'{name}-host', f'host: {host}', self.agents[name])
        for name in self.v0_1:
            lines += [*self.entry(f'{name}-v01', f'path: /v0.1/{name}', self.agents[name]), '    v0_1: true']
        return '\n'.join(lines) + '\n'

    def entry(self, name: str, route: str, replicas: list[Agent], limits: str | None = None) -> list[str]:
        lines = [f'  - name: {name}', f'    {route}']
        if limits:
            lines.append(f'    limits: {limits}')
        if replicas[0].grpc:
            lines.append(f'    card: {{ url: "{replicas[0].card}" }}')
        lines += ['    upstream:']
        if replicas[0].kind == SCRIPTED:
            # A card of 0.1 that asks for no credential looks like one of 0.2.
            lines.append('      protocol: { generation: "0.1" }')
        lines.append('      endpoints:')
        return lines + [f'        - {{ url: "{agent.grpc or agent.url}" }}' for agent in replicas]

    def start(self) -> None:
        folder = self.credentials.folder
        (folder / 'state').mkdir(exist_ok=True)
        file = folder / f'{self.name}.yaml'
        file.write_text(self.configuration())
        command = [str(self.binary), 'run', '--config', str(file)]
        # stdout goes to the same file as stderr: nobody reads a pipe here, and a full one would stop the gateway.
        shell = ['/bin/sh', '-c', 'exec "$@" >&2', 'sh', *command]
        self.process = Process(self.name, shell, folder / f'{self.name}.log', cwd=folder)
        deadline = time.monotonic() + START_SECONDS
        answer = 'no answer'
        while time.monotonic() < deadline and self.process.alive():
            try:
                with urllib.request.urlopen(f'http://127.0.0.1:{self.admin_port}/ready', timeout=2) as response:
                    if response.status == 200:
                        return
                    answer = f'HTTP {response.status}'
            except urllib.error.HTTPError as error:
                answer = f'HTTP {error.code} {error.read(500)!r}'
            except OSError as error:
                answer = str(error)
            time.sleep(0.1)
        self.process.stop()
        raise Failed(f'{self.name} did not become ready ({answer})\n{self.process.tail()}')

    def stop(self) -> int:
        return self.process.stop() if self.process else 0

    def readiness(self) -> dict:
        with urllib.request.urlopen(f'http://127.0.0.1:{self.admin_port}/ready', timeout=2) as response:
            return json.load(response)

    def metrics(self) -> list[str]:
        with urllib.request.urlopen(f'http://127.0.0.1:{self.admin_port}/metrics', timeout=2) as response:
            return response.read().decode().splitlines()

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.credentials.ca))


class Redis:
    """A real server in a folder of its own. It keeps its data in memory only: killed and started again, it is empty."""

    def __init__(self, folder: Path) -> None:
        if not shutil.which('redis-server'):
            raise Failed('there is no redis-server: install the package of this name')
        self.folder = folder
        self.port = free_port()
        self.process: Process | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f'redis://127.0.0.1:{self.port}'

    def start(self) -> None:
        command = [
            'redis-server', '--port', str(self.port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no',
            '--dir', str(self.folder), '--logfile', str(self.folder / 'server.log'),
        ]  # fmt: skip
        self.process = Process('redis-server', command, self.folder / 'redis.log', cwd=self.folder)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.alive():
            with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', self.port), 2) as connection:
                connection.sendall(b'PING\r\n')
                if connection.recv(16).startswith(b'+PONG'):
                    return
            time.sleep(0.1)
        self.stop()
        raise Failed(f'redis-server did not come up; its log is {self.folder}/server.log')

    def kill(self) -> None:
        """Without notice, as a crash would."""
        if self.process:
            self.process.kill()
            self.stop()

    def stop(self) -> None:
        if self.process:
            self.process.stop()
            self.process = None


def run_client(client: Client, base: str, extra: list[str], scenarios: str) -> dict[str, dict]:
    """The results of one client against one base URL, by scenario."""
    command = [*client.command, '--base', base, '--scenario', scenarios, *extra]
    try:
        done = subprocess.run(
            command, cwd=HERE, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CLIENT_SECONDS, check=False
        )
        output, trouble = done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b'').decode(errors='replace')
        trouble = f'no end after {CLIENT_SECONDS} s'
    results = {}
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            result = json.loads(line)
            results[result['scenario']] = result
    if not results or 'no end' in trouble:
        results['client'] = {'scenario': 'client', 'ok': False, 'detail': trouble.strip()[-500:], 'observed': None}
    return results


def stop_on_sigterm() -> None:
    """Lets the driver end what it started when it is asked to end itself."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def require_setup() -> None:
    """Runs the set-up, which returns at once when nothing has changed."""
    subprocess.run([str(HERE / 'setup.sh')], check=True)
