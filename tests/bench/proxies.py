"""The programs that are compared: how each is configured, started and found ready.

All get the same task: plain HTTP/1.1 on one port of the loopback interface, one thread of work, upstream connections
kept and reused, event streams handed on at once, no access log where the name does not say so.
"""

import hashlib
import http.client
import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

from procs import Failed, children, descriptors

HOST = "127.0.0.1"
READY_SECONDS = 20
CARD = "/.well-known/agent-card.json"

# As many connections as the proxies are told to allow; more than the benchmark opens.
MANY = 30000

CALL = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": "ready",
        "method": "SendMessage",
        "params": {"message": {"messageId": "ready", "role": "ROLE_USER", "parts": [{"text": "berth for 120 m"}]}},
    }
)


def free_port():
    """A port to listen on, below those that the system gives to outgoing connections."""
    for _ in range(200):
        port = random.randint(20000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise Failed("no free port between 20000 and 30000")


def request(port, method, path, body=None, headers=None, timeout=5):
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def wait_for(what, probe, process=None, log=None):
    """Asks `probe` until it is true, a bounded time."""
    until = time.monotonic() + READY_SECONDS
    last = "no answer"
    while time.monotonic() < until:
        if process is not None and process.poll() is not None:
            said = Path(log).read_text(errors="replace")[-1500:].strip() if log else ""
            raise Failed(f"{what} ended at its start with {process.returncode}: {said}")
        try:
            if probe():
                return
        except (OSError, http.client.HTTPException) as error:
            last = str(error)
        time.sleep(0.02)
    raise Failed(f"{what} was not ready in {READY_SECONDS} s: {last}")


def call(port, path="/", credential=None):
    """One call; status and parsed body."""
    headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
    if credential:
        name, value = credential
        headers[name] = value
    status, body = request(port, "POST", path, CALL, headers)
    try:
        return status, json.loads(body)
    except ValueError:
        return status, None


# A token of "ann" that ends in 2100, signed with ES256 by a key that is used nowhere else, and that key.
TOKEN = (
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6ImsxIn0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwiYXVkIjoiYT"
    "JhIiwic3ViIjoiYW5uIiwiZXhwIjo0MTAyNDQ0ODAwLCJzY29wZSI6ImEyYS5pbnZva2UiLCJyZWFsbV9hY2Nlc3MiOnsicm9sZXMiOlsic3Rh"
    "ZmYiLCJ0cmVhc3VyeSJdfSwib3JnIjp7ImlkIjoiYWNtZSJ9fQ.GJjPHv2wh_gedrl5Jksvr_Z_QuC5SNiI4R4q_eTykvYEL9V1nPOWcUSRsZ1"
    "4SgsIlebxsSfLvF1QM7C55JBN7Q"
)
TOKEN_KEYS = '''{"keys": [{"kty": "EC", "crv": "P-256", "kid": "k1", "x": "MGhbnOrPidfCxOvUPxB-4IpbOre-snl1sd4c448QsiE", "y": "GUsAaLZF2JmocBMbO_zuVLC4iGkikWxIc-GMWKzAT4k"}]}'''


class Proxy:
    """One program in one setting. `start` gives a running one; a proxy object is used once."""

    name = ""
    path = "/"
    # A field of the head that shows who calls: its name and its value.
    credential = None
    # Calls of 0.3, which something has to translate for the agent.
    old = False
    has_process = True
    # Whether it is worth measuring with many streams open, and whether in a quick run too.
    has_memory = True
    has_memory_quick = True

    def __init__(self):
        self.process = None
        self.port = None
        self.log = None

    @staticmethod
    def version():
        return None

    def argv(self, agent, folder):
        """The command; writes its configuration into `folder`."""
        raise NotImplementedError

    def is_ready(self):
        return request(self.port, "GET", CARD)[0] == 200

    def pids(self):
        """The processes whose time and memory count."""
        return [self.process.pid]

    def start(self, processes, agent, folder, core):
        self.port = free_port()
        self.log = folder / "proxy.log"
        self.process = processes.start(self.argv(agent, folder), core, self.log)
        wait_for(self.name, self.is_ready, self.process, self.log)
        status, body = call(self.port, self.path, self.credential)
        if status != 200 or not body or "result" not in body:
            raise Failed(f"{self.name} answered a call with {status} {body}")


class Direct(Proxy):
    """No proxy: what the load generator and the agent make of a call without anything between them."""

    name = "direct"
    has_process = False
    has_memory = has_memory_quick = False

    def start(self, processes, agent, folder, core):
        self.port = agent


class Bare(Proxy):
    name = "bare"
    program = None

    def argv(self, agent, folder):
        return [self.program, "--listen", f"{HOST}:{self.port}", "--upstream", f"{HOST}:{agent}"]


class Nginx(Proxy):
    name = "nginx"
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")

    @classmethod
    def version(cls):
        said = subprocess.run([cls.binary, "-v"], capture_output=True, text=True, check=False)
        return said.stderr.strip().removeprefix("nginx version: ")

    def argv(self, agent, folder):
        user = "user root;" if os.geteuid() == 0 else ""
        config = folder / "nginx.conf"
        # Answers are buffered whole unless they are event streams: those carry X-Accel-Buffering: no, as agents send it.
        # The buffers hold the largest body, so nothing goes to a file.
        config.write_text(f"""
{user}
daemon off;
worker_processes 1;
worker_rlimit_nofile {descriptors()};
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections {MANY}; }}
http {{
  access_log off;
  tcp_nodelay on;
  keepalive_timeout 300s;
  keepalive_requests 1000000000;
  client_max_body_size 16m;
  client_body_buffer_size 128k;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream agent {{
    server {HOST}:{agent};
    keepalive 1024;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
  }}
  server {{
    listen {HOST}:{self.port} backlog=4096;
    location / {{
      proxy_pass http://agent;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffers 16 8k;
      proxy_read_timeout 1h;
      proxy_send_timeout 1h;
    }}
  }}
}}
""")
        return [self.binary, "-p", folder, "-c", config]

    def pids(self):
        """The workers: the master takes no part in a call."""
        return children(self.process.pid)


class Haproxy(Proxy):
    name = "haproxy"
    binary = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")

    @classmethod
    def version(cls):
        said = subprocess.run([cls.binary, "-v"], capture_output=True, text=True, check=False)
        return said.stdout.splitlines()[0].split(" - ")[0]

    def argv(self, agent, folder):
        config = folder / "haproxy.cfg"
        # A connection takes two descriptors; some are needed besides. Without http-no-delay haproxy holds the events of
        # a stream back for some 100 ms; without abortonclose it does not notice that the caller of a silent one left.
        connections = min(MANY, (descriptors() - 200) // 2)
        config.write_text(f"""
global
  nbthread 1
  maxconn {connections}
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  timeout http-keep-alive 300s
  option http-no-delay
  option abortonclose
  http-reuse always
frontend public
  bind {HOST}:{self.port} backlog 4096
  default_backend agent
backend agent
  server agent {HOST}:{agent}
""")
        return [self.binary, "-db", "-f", config]


class Gateway(Proxy):
    """API key, rate limit and task affinity on; no access log; records in memory."""

    name = "gateway"
    path = "/agents/bench"
    program = None
    state = "{ store: memory }"
    # Of the rate limit. Without a shared store it is each gateway's own.
    limit = "shared: false"
    access_log = "false"
    policy = "{}"
    # Of the agent, and a section besides.
    mount = path
    front_door = ""

    def __init__(self):
        super().__init__()
        self.credential = ("X-API-Key", secrets.token_hex(16))
        self.admin = None

    @classmethod
    def version(cls):
        said = subprocess.run([cls.program, "--version"], capture_output=True, text=True, check=False)
        return said.stdout.strip() or "unknown"

    def argv(self, agent, folder):
        while self.admin in (None, self.port):
            self.admin = free_port()
        config = folder / "gateway.yaml"
        state = self.state.replace("FOLDER", str(folder))
        config.write_text(f"""
public_url: http://{HOST}:{self.port}
listeners: [ {{ name: public, address: "{HOST}:{self.port}" }} ]
admin: {{ address: "{HOST}:{self.admin}" }}
state: {state}
workers: 1
log: {{ format: json, access: {self.access_log}, level: warn }}
limits: {{ connections: {MANY}, connections_per_address: {MANY} }}
security_schemes:
  key: {{ {self.scheme(folder)} }}
security: [ {{ key: [] }} ]
agents:
  - name: bench
    path: {self.mount}
    upstream: {{ endpoints: [ {{ url: "http://{HOST}:{agent}/" }} ], max_connections: {MANY}, max_in_flight: {MANY} }}
    limits: [ {{ per: principal, rate: "100000000/min", burst: 1000000, {self.limit} }} ]
    policy: {self.policy}
{self.front_door}
""")
        return [self.program, "run", "--config", config]

    def scheme(self, _folder):
        digest = hashlib.sha256(self.credential[1].encode()).hexdigest()
        return f'type: apiKey, in: header, name: X-API-Key, keys: [ {{ id: bench, hash: "sha256:{digest}" }} ]'

    def is_ready(self):
        return request(self.admin, "GET", "/ready")[0] == 200

    def start(self, processes, agent, folder, core):
        super().start(processes, agent, folder, core)
        # What is measured is a gateway that asks who calls.
        status, _ = call(self.port, self.path)
        if status != 401:
            raise Failed(f"{self.name} answered a call without a key with {status}, not 401")


class GatewayAccessLog(Gateway):
    """The same with its access log, written to a file."""

    name = "gateway, access log"
    has_memory = has_memory_quick = False
    access_log = "true"


class GatewayToken(Gateway):
    """The same with a signed token, which is verified once and then remembered."""

    name = "gateway, token"
    has_memory = has_memory_quick = False

    def __init__(self):
        super().__init__()
        self.credential = ("Authorization", f"Bearer {TOKEN}")

    def scheme(self, folder):
        keys = folder / "keys.json"
        keys.write_text(TOKEN_KEYS)
        return f'type: http, scheme: bearer, issuer: "https://login.example.com", audience: [ a2a ], jwks_file: "{keys}"'


class GatewayRules(Gateway):
    """The same with an API key and a rule that reads the caller and the call."""

    name = "gateway, rules"
    has_memory = has_memory_quick = False
    policy = """{ allow: [ { operations: [ list ] }, { when: "principal.name == 'bench' && operation in ['send', 'get', 'stream']" } ] }"""


class GatewayFrontDoor(Gateway):
    """The same with calls to the front door, which name no agent and go to the default one."""

    name = "gateway, front door"
    path = "/front"
    has_memory = has_memory_quick = False
    front_door = "front_door: { path: /front, default: bench }"


class GatewayTranslating(Gateway):
    """The same with callers of 0.3, for whom every call, answer and event is translated."""

    name = "gateway, 0.3 to 1.0"
    has_memory_quick = False
    old = True


class GatewayEmbedded(Gateway):
    """The same with task records in its embedded store."""

    name = "gateway, embedded store"
    has_memory_quick = False
    state = '{ store: embedded, path: "FOLDER/state" }'
