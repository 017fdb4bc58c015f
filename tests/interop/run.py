#!/usr/bin/env python3
"""Runs every client against every agent and prints what held.

    run.py --direct               client -> agent, without a gateway: the baseline
    run.py --gateway BINARY       client -> TLS and a signed token -> gateway -> agent, then `affinity.py` and `pair.py`

Through the gateway a scenario passes when it succeeds and the client saw the same as in a direct run, which is
made first. Nothing is skipped silently: what does not apply to a pair is listed with its reason.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import affinity
import pair as two_gateways
from suite import (
    AGENTS,
    CLIENTS,
    Agent,
    Client,
    Credentials,
    Failed,
    Gateway,
    require_setup,
    run_client,
    stop_on_sigterm,
)

@dataclass(frozen=True)
class Pair:
    client: Client
    agent: str

    @property
    def name(self) -> str:
        return f'{self.client.name}>{self.agent}'


def pairs(only: str | None) -> tuple[list[Pair], list[tuple[str, str]]]:
    """The pairs to run, and those that cannot be with the reason."""
    chosen, left_out = [], []
    for client in CLIENTS:
        for agent in AGENTS.values():
            pair = Pair(client, agent.name)
            if only and only not in pair.name:
                left_out.append((pair.name, f'not asked for (--pair {only})'))
            elif set(client.generations) & set(agent.generations):
                chosen.append(pair)
            else:
                spoken, answered = ' and '.join(client.generations), ' and '.join(agent.generations)
                left_out.append((pair.name, f'the client speaks {spoken}, the agent answers {answered}'))
    return chosen, left_out


def comparable(observed: object) -> object:
    """What must be the same through the gateway: not what `told` says, which is the gateway's to choose."""
    if isinstance(observed, dict):
        return {key: value for key, value in observed.items() if key != 'told'}
    return observed


def judge(direct: dict | None, through: dict) -> dict:
    """Through the gateway a client must see what it sees without."""
    if through['ok'] is not True or direct is None or direct['ok'] is None:
        return through
    if direct['ok'] is False:
        return through | {'ok': False, 'detail': f'passes here, but fails directly: {direct["detail"]}'}
    left, right = comparable(direct['observed']), comparable(through['observed'])
    if left != right:
        detail = f'directly {json.dumps(left, ensure_ascii=False)}, through the gateway {json.dumps(right, ensure_ascii=False)}'
        return through | {'ok': False, 'detail': detail}
    return through


def table(title: str, columns: dict[str, dict[str, dict]], left_out: list[tuple[str, str]]) -> tuple[int, int]:
    """Prints pair by scenario, then the failures, then what did not apply; gives passed and failed."""
    rows = list(dict.fromkeys(name for results in columns.values() for name in results))
    marks = {True: 'ok', False: 'FAIL', None: '-'}
    print(f'\n{title}')
    for number, name in enumerate(columns, 1):
        print(f'  {number:>2} {name}')
    print(f'  {"scenario":<22}' + ''.join(f'{number:>5}' for number in range(1, len(columns) + 1)))
    for row in rows:
        cells = [marks[results[row]['ok']] if row in results else '' for results in columns.values()]
        print(f'  {row:<22}' + ''.join(f'{cell:>5}' for cell in cells))
    results = [(pair, result) for pair, per_scenario in columns.items() for result in per_scenario.values()]
    failures = [(pair, result) for pair, result in results if result['ok'] is False]
    for pair, result in failures:
        print(f'  FAIL {pair} {result["scenario"]}: {result["detail"]}')
    reasons: dict[tuple[str, str], list[str]] = {}
    for pair, result in results:
        if result['ok'] is None:
            reasons.setdefault((result['scenario'], result['detail']), []).append(pair)
    for (scenario, reason), names in reasons.items():
        print(f'  not applicable: {scenario} for {", ".join(names)}: {reason}')
    for pair, reason in left_out:
        print(f'  not applicable: {pair}: {reason}')
    return sum(result['ok'] is True for _, result in results), len(failures)


def matrix(jobs: int, wanted: list[Pair], base_of, extra: list[str], scenarios: str) -> dict[str, dict[str, dict]]:
    with ThreadPoolExecutor(jobs) as pool:
        runs = {pair.name: pool.submit(run_client, pair.client, base_of(pair), extra, scenarios) for pair in wanted}
        return {name: run.result() for name, run in runs.items()}


def main() -> int:
    stop_on_sigterm()
    parser = argparse.ArgumentParser()
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument('--direct', action='store_true')
    mode.add_argument('--gateway', type=Path, metavar='BINARY')
    parser.add_argument('--part', choices=['all', 'matrix', 'affinity', 'pair'], default='all')
    parser.add_argument('--pair', help='only pairs whose name (client>agent) contains this')
    parser.add_argument('--scenario', default='all', help='names with commas')
    parser.add_argument('--jobs', type=int, default=3, help='pairs at a time')
    parser.add_argument('--json', type=Path, help='write all results to this file')
    parser.add_argument('--keep', type=Path, help='work in this folder and leave it (logs, configuration)')
    args = parser.parse_args()

    if args.gateway and not args.gateway.is_file():
        parser.error(f'{args.gateway} is not a file')
    require_setup()
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        if args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
            folder = args.keep.resolve()
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='interop-')))
        try:
            passed, failed = run_parts(args, folder, stack)
        except Failed as error:
            print(f'FAIL {error}')
            passed, failed = 0, 1
    print(f'\nafter {time.monotonic() - started:.0f} s')
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


def run_parts(args: argparse.Namespace, folder: Path, stack: contextlib.ExitStack) -> tuple[int, int]:
    passed = failed = 0
    record = {}
    if args.part in ('all', 'matrix'):
        wanted, left_out = pairs(args.pair)
        names = dict.fromkeys(pair.agent for pair in wanted)
        agents: dict[str, Agent] = {}
        for name in names:
            agents[name] = Agent.start(AGENTS[name], folder)
            stack.callback(agents[name].process.stop)
        direct = matrix(args.jobs, wanted, lambda pair: agents[pair.agent].base, [], args.scenario)
        columns, title = direct, 'client > agent, directly'
        record['direct'] = direct
        gateway = None
        if args.gateway:
            credentials = Credentials.make(folder)
            gateway = Gateway(args.gateway.resolve(), credentials, {name: [agent] for name, agent in agents.items()})
            gateway.start()
            stack.callback(gateway.stop)
            extra = ['--ca', str(credentials.ca), '--bearer', credentials.token, '--expect-auth']
            through = matrix(args.jobs, wanted, lambda pair: gateway.base(pair.agent), extra, args.scenario)
            record['gateway'] = through
            columns = {
                name: {scenario: judge(direct[name].get(scenario), result) for scenario, result in results.items()}
                for name, results in through.items()
            }
            title = 'client > gateway > agent, compared with a direct run'
        good, bad = table(title, columns, left_out)
        passed, failed = passed + good, failed + bad
        if gateway:
            died = not gateway.process.alive()
            code = gateway.stop()
            print(f'  the gateway {"died" if died else "was asked to stop"}: exit code {code}')
            if died or code:
                failed += 1
            if failed:
                print(f'  the end of its log:\n{gateway.process.tail()}')
        for agent in agents.values():
            agent.process.stop()
    for name, part, reason in (
        ('affinity', affinity.run, 'it asks whether a gateway finds the right replica'),
        ('pair', two_gateways.run, 'it asks whether two gateways know the same'),
    ):
        if args.part not in ('all', name):
            continue
        if args.gateway:
            good, bad = part(args.gateway.resolve(), folder / name)
            passed, failed = passed + good, failed + bad
        else:
            print(f'\nnot applicable: {name}: {reason}')
    if args.json:
        args.json.write_text(json.dumps(record, indent=1, ensure_ascii=False))
    return passed, failed


if __name__ == '__main__':
    sys.exit(main())
