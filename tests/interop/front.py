#!/usr/bin/env python3
"""Do clients that know nothing but the front door complete their work at the agents behind it?

    front.py --gateway BINARY

One gateway at a time, with a front door at its root and four agents behind it, of 0.3 and 1.0, some of which are the default in turn. Every client of the
suite starts from the card of the front door alone; what it makes must be made at that agent, and found there by its task
alone. Standard library only.
"""

import contextlib
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from affinity import KINDS, alone
from suite import AGENTS, CLIENTS, Agent, Client, Credentials, Gateway, run_client

# Behind it; the default is one of `KINDS` at a time.
BEHIND = ('py03', 'js03', 'py1', 'js1')
# Those in which every client and agent sees the same (see `gaps.toml`), whoever it talks to.
SCENARIOS = ('send', 'unicode', 'stream', 'stream-live', 'get', 'cancel', 'input-required', 'resubscribe', 'parallel')
# They do not read `append` there (see `gaps.toml`), so that the artifact of a stream is not what it was.
WITHOUT_APPEND = ('js03+rest', 'js1@0.3+rest', 'js03+grpc', 'js1@0.3+grpc')
JOBS = 3


def scenarios(client: Client) -> str:
    return ','.join(one for one in SCENARIOS if one != 'stream' or client.name not in WITHOUT_APPEND)


def one(binary: Path, folder: Path, agents: dict[str, Agent], default: str) -> tuple[int, list[str]]:
    """All clients, with this agent as the default; gives passed and what failed."""
    credentials = Credentials.make(folder)
    more = (f'front_door: {{ card: {{ name: "All of them" }}, default: {default} }}',)
    gateway = Gateway(binary, credentials, {name: [agent] for name, agent in agents.items()}, more=more)
    gateway.start()
    passed, failures = 0, []
    with contextlib.ExitStack() as stack:
        stack.callback(gateway.stop)
        base = gateway.root()
        extra = ['--ca', str(credentials.ca), '--bearer', credentials.token, '--expect-auth']
        clients = [client for client in CLIENTS if '0.1' not in client.generations]
        with ThreadPoolExecutor(JOBS) as pool:
            runs = {client.name: pool.submit(run_client, client, base, extra, scenarios(client)) for client in clients}
        for name, run in runs.items():
            for scenario, result in run.result().items():
                if result['ok'] is True:
                    passed += 1
                elif result['ok'] is None:
                    print(f'  not applicable: {scenario} for {name}: {result["detail"]}')
                else:
                    failures.append(f'{name} at the front door of {default}, {scenario}: {result["detail"]}')
        chosen = [line for line in gateway.metrics() if line.startswith('a2a_gateway_front_door_calls_total')]
        wrong = [line for line in chosen if 'affinity' not in line and 'default' not in line]
        if wrong or len(chosen) != 2:
            failures.append(f'calls found their agent in other ways: {chosen}')
        others = {name for name in agents if name != default}
        asked = [
            line
            for line in gateway.metrics()
            if line.startswith('a2a_gateway_requests_total') and any(f'agent="{name}"' in line for name in others)
        ]
        if asked:
            failures.append(f'calls went to other agents: {asked}')
        if not gateway.process.alive():
            failures.append(f'the gateway died:\n{gateway.process.tail()}')
        elif code := gateway.stop():
            failures.append(f'the gateway ended with {code}:\n{gateway.process.tail()}')
    return passed, failures


def run(binary: Path, folder: Path, kinds: tuple[str, ...] = KINDS) -> tuple[int, int]:
    """The whole thing; gives passed and failed."""
    folder.mkdir(parents=True, exist_ok=True)
    print('\nthe front door')
    passed, failures = 0, []
    with contextlib.ExitStack() as stack:
        agents = {}
        for name in BEHIND:
            agents[name] = Agent.start(AGENTS[name], folder)
            stack.callback(agents[name].process.stop)
        for default in kinds:
            place = folder / default
            place.mkdir()
            good, bad = one(binary, place, agents, default)
            print(f'  of {default}: {good} passed, {len(bad)} failed', flush=True)
            passed, failures = passed + good, failures + bad
    for failure in failures:
        print(f'  FAIL {failure}')
    return passed, len(failures)


if __name__ == '__main__':
    sys.exit(alone(run))
