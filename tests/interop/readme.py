#!/usr/bin/env python3
"""Follows `README.md` to the letter: its Python agent, its gateway command, its calls.

    readme.py --gateway BINARY

The agent runs on the pinned SDK, which must be the version that the README tells people to install. Ports are those
of the README; one that is taken here is replaced in the agent and in the commands. The admin port cannot be chosen
without a configuration file, so that one has to be free.
"""

import argparse
import json
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from suite import HERE, PYTHON_1, START_SECONDS, Failed, Process, free_port, require_setup, stop_on_sigterm

README = HERE.parents[1] / 'README.md'
PORTS = ('9999', '8080')
ADMIN_PORT = 9901
CALL_SECONDS = 30


def block(text: str, language: str, begin: str) -> str:
    """The one fenced block of a language that has a line beginning so."""
    found = [
        body
        for body in re.findall(rf'^```{language}\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
        if any(line.startswith(begin) for line in body.splitlines())
    ]
    if len(found) != 1:
        raise Failed(f'{README.name} has {len(found)} {language} blocks with a line `{begin}…`, not one')
    return found[0]


def check_version(text: str) -> None:
    told = re.search(r"pip install 'a2a-sdk\[http-server\]==([\d.]+)' uvicorn", text)
    pinned = re.search(r'^a2a-sdk==(\S+)$', (HERE / 'requirements-1.x.txt').read_text(), re.MULTILINE)
    if not told or told[1] != pinned[1]:
        raise Failed(f'{README.name} must say how to install a2a-sdk {pinned[1]}, which its agent is tried with')


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(('127.0.0.1', port))
        except OSError:
            return False
        return True


def wait_until(process: Process, what: str, holds) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.alive():
        if holds():
            return
        time.sleep(0.05)
    raise Failed(f'{process.name} {what}\n{process.tail()}')


def takes_connections(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(('127.0.0.1', port)) == 0


def is_ready() -> bool:
    """The gateway has the agent's card."""
    try:
        with urllib.request.urlopen(f'http://127.0.0.1:{ADMIN_PORT}/ready', timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def answers(calls: str) -> list[dict]:
    """What the calls print, one JSON document after the other."""
    done = subprocess.run(
        ['bash', '-euc', calls], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CALL_SECONDS, check=False
    )
    if done.returncode:
        raise Failed(f'the calls end with exit code {done.returncode}: {done.stdout}{done.stderr}')
    decoder, rest, documents = json.JSONDecoder(), done.stdout.strip(), []
    while rest:
        try:
            document, end = decoder.raw_decode(rest)
        except ValueError as error:
            raise Failed(f'an answer is not JSON: {rest}') from error
        documents.append(document)
        rest = rest[end:].strip()
    return documents


def expect(what: str, seen: object, wanted: object) -> None:
    if seen != wanted:
        raise Failed(f'{what} is {seen!r}, not {wanted!r}')


def follow(binary: Path, folder: Path) -> None:
    text = README.read_text()
    check_version(text)
    if not is_free(ADMIN_PORT):
        raise Failed(f'port {ADMIN_PORT} is taken, and `run --agent` puts its admin listener there: stop what uses it')
    chosen = {port: port if is_free(int(port)) else str(free_port()) for port in PORTS}
    agent, command, calls = (
        re.sub('|'.join(PORTS), lambda match: chosen[match[0]], part)
        for part in (
            block(text, 'python', 'import '),
            block(text, 'sh', 'a2a-gateway run --agent '),
            block(text, 'sh', 'curl '),
        )
    )
    agent_port, gateway_port = chosen.values()
    program, *arguments = shlex.split(command)
    expect('the program', program, 'a2a-gateway')
    if gateway_port not in PORTS:
        arguments += ['--listen', f'127.0.0.1:{gateway_port}']
    (folder / 'agent.py').write_text(agent)
    running = []
    try:
        running.append(Process('the agent', [str(PYTHON_1), 'agent.py'], folder / 'agent.log', folder))
        wait_until(running[-1], f'does not listen on {agent_port}', lambda: takes_connections(int(agent_port)))
        running.append(Process('the gateway', [str(binary), *arguments], folder / 'gateway.log', folder))
        wait_until(running[-1], 'does not become ready', is_ready)
        documents = answers(calls)
    finally:
        codes = [process.stop() for process in reversed(running)]
    if len(documents) != 2:
        raise Failed(f'the calls must fetch the card and send one message; the answers are {documents}')
    card, answer = documents
    interfaces = [(interface.get('protocolBinding'), interface.get('url')) for interface in card.get('supportedInterfaces', [])]
    expect('the first address', interfaces[:1], [('JSONRPC', f'http://127.0.0.1:{gateway_port}/')])
    # Of gRPC the address is a host and a port alone.
    places = [str(url).removeprefix('http://').partition('/')[0] for _, url in interfaces]
    strange = [place for place in places if place != f'127.0.0.1:{gateway_port}']
    expect('addresses that are not of the gateway', strange, [])
    task = answer.get('result', {}).get('task')
    if not task:
        raise Failed(f'the answer has no task: {answer}')
    expect('the state of the task', task['status']['state'], 'TASK_STATE_COMPLETED')
    expect('what the agent made', [artifact['parts'] for artifact in task['artifacts']], [[{'text': 'You said: hi'}]])
    expect("the gateway's exit code", codes[0], 0)


def main() -> int:
    stop_on_sigterm()
    parser = argparse.ArgumentParser()
    parser.add_argument('--gateway', type=Path, metavar='BINARY', required=True)
    args = parser.parse_args()
    if not args.gateway.is_file():
        parser.error(f'{args.gateway} is not a file')
    require_setup()
    with tempfile.TemporaryDirectory(prefix='readme-') as folder:
        try:
            follow(args.gateway.resolve(), Path(folder))
        except Failed as error:
            print(f'FAIL {README.name}: {error}')
            return 1
    print(f'{README.name}: its agent answers through the gateway')
    return 0


if __name__ == '__main__':
    sys.exit(main())
