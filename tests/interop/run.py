#!/usr/bin/env python3
"""Runs every client against every agent and prints what held.

    run.py --direct               client -> agent, without a gateway: the baseline
    run.py --gateway BINARY       client -> TLS and a signed token -> gateway -> agent, then `front.py`,
                                 `affinity.py`, `pair.py` and `identity.py`

Through the gateway a scenario passes when it succeeds and the client saw the same as in a direct run, which is
made first. Pairs without a generation in common are compared with a direct run of the same client at another agent. What
is known to differ stands in `gaps.toml`, and nothing else may. Nothing is skipped silently: what does not apply to a
pair is listed with its reason.
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
import front
import gaps
import identity
import pair as two_gateways
import webhooks
from suite import (
    AGENTS,
    CLIENTS,
    GRPC,
    REST,
    SCRIPTED,
    Agent,
    Client,
    Credentials,
    Failed,
    Gateway,
    require_setup,
    run_client,
    stop_on_sigterm,
)

# Over HTTP+JSON and gRPC one client of each generation goes to the agent of 0.2: behind the gateway that is as the one of 0.3.
AT_PY02 = ('py03', 'py1')
# What may become of notifications. Webhooks of the scenario `push` are at a port where nobody listens.
PUSHES, TAKEN = 'a2a_gateway_push_deliveries_total{', ('result="delivered"', 'result="untold"', 'result="push_failed"')
SPOKEN = {REST: 'HTTP+JSON', GRPC: 'gRPC'}


@dataclass(frozen=True)
class Pair:
    client: Client
    agent: str

    @property
    def name(self) -> str:
        return f'{self.client.name}>{self.agent}'

    def meets(self) -> bool:
        """Whether the two have a generation in common."""
        return bool(set(self.client.generations) & set(AGENTS[self.agent].generations))

    def baseline(self) -> 'Pair':
        """What a client must see through the gateway, which offers it every generation, so that it takes the one it likes
        best: what it sees directly, over JSON-RPC, where the agent speaks that one, else at the agent most like it that does."""
        kind, wanted = AGENTS[self.agent], self.client.generations[0]
        agents = [kind, *(AGENTS[name] for name in kind.like), SCRIPTED]
        return Pair(self.client.over_json_rpc(), next(one.name for one in agents if not one.binding and wanted in one.generations))


def pairs(only: str | None, gateway: bool) -> tuple[list[Pair], list[tuple[str, str]]]:
    """The pairs to run, and those that cannot be with the reason."""
    chosen, left_out = [], []
    for client in CLIENTS:
        for agent in AGENTS.values():
            pair = Pair(client, agent.name)
            if only and only not in pair.name:
                left_out.append((pair.name, f'not asked for (--pair {only})'))
            elif (spoken := client.binding or agent.binding) and not gateway:
                left_out.append((pair.name, f'directly all speak JSON-RPC, not {SPOKEN[spoken]}'))
            elif client.binding and agent.name == 'py02' and client.over_json_rpc().name not in AT_PY02:
                left_out.append((pair.name, f'{" and ".join(AT_PY02)} show it, and each takes half a minute'))
            elif gateway or pair.meets():
                chosen.append(pair)
            else:
                spoken, answered = ' and '.join(client.generations), ' and '.join(agent.generations)
                left_out.append((pair.name, f'the client speaks {spoken}, the agent answers {answered}'))
    return chosen, left_out


def comparable(observed: object, agent: str, binding: str | None) -> object:
    """What must be the same through the gateway: not what `told` says, which is the gateway's to choose, nor the name of
    the agent, which is another one's in some baselines. Over HTTP+JSON and gRPC an error is as good as its code, as classes and
    texts are the binding's."""
    if isinstance(observed, dict):
        if binding and 'error' in observed:
            return {'code': observed['code']}
        plain = {key: value for key, value in observed.items() if key != 'told'}
        if 'name' in plain:
            plain['name'] = 'the agent' + plain['name'].removeprefix(agent)
        return plain
    return observed


def judge(pair: Pair, direct: dict | None, through: dict) -> dict:
    """Through the gateway a client must see what it sees without."""
    if through['ok'] is not True or direct is None or direct['ok'] is None:
        return through
    baseline = pair.baseline()
    where = 'directly' if baseline == pair else f'directly at {baseline.agent}'
    if direct['ok'] is False:
        return through | {'ok': False, 'detail': f'passes here, but fails {where}: {direct["detail"]}'}
    binding = pair.client.binding
    left, right = comparable(direct['observed'], baseline.agent, binding), comparable(through['observed'], pair.agent, binding)
    if left != right:
        detail = f'{where} {json.dumps(left, ensure_ascii=False)}, through the gateway {json.dumps(right, ensure_ascii=False)}'
        return through | {'ok': False, 'detail': detail}
    return through


def mark(result: dict) -> str:
    if 'gap' in result:
        return f'g{result["gap"]}'
    return {True: 'ok', False: 'FAIL', None: '-'}[result['ok']]


def table(title: str, columns: dict[str, dict[str, dict]], left_out: list[tuple[str, str]]) -> tuple[int, int]:
    """Prints pair by scenario, then the failures, then what did not apply; gives passed and failed."""
    rows = list(dict.fromkeys(name for results in columns.values() for name in results))
    print(f'\n{title}')
    for number, name in enumerate(columns, 1):
        print(f'  {number:>2} {name}')
    print(f'  {"scenario":<22}' + ''.join(f'{number:>5}' for number in range(1, len(columns) + 1)))
    for row in rows:
        cells = [mark(results[row]) if row in results else '' for results in columns.values()]
        print(f'  {row:<22}' + ''.join(f'{cell:>5}' for cell in cells))
    results = [(pair, result) for pair, per_scenario in columns.items() for result in per_scenario.values()]
    failures = [(pair, result) for pair, result in results if result['ok'] is False and 'gap' not in result]
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


def matrix(jobs: int, wanted: list[Pair], run) -> dict[str, dict[str, dict]]:
    with ThreadPoolExecutor(jobs) as pool:
        runs = {pair.name: pool.submit(run, pair) for pair in wanted}
        return {name: run.result() for name, run in runs.items()}


def main() -> int:
    stop_on_sigterm()
    parser = argparse.ArgumentParser()
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument('--direct', action='store_true')
    mode.add_argument('--gateway', type=Path, metavar='BINARY')
    parser.add_argument('--part', choices=['all', 'matrix', 'front', 'affinity', 'pair', 'identity'], default='all')
    parser.add_argument('--pair', help='only pairs whose name (client>agent) contains this')
    parser.add_argument('--scenario', default='all', help='names with commas')
    parser.add_argument('--jobs', type=int, default=3, help='pairs at a time')
    parser.add_argument('--json', type=Path, help='write all results to this file')
    parser.add_argument('--table', action='store_true', help='write the table of tests/README.md anew')
    parser.add_argument('--keep', type=Path, help='work in this folder and leave it (logs, configuration)')
    args = parser.parse_args()

    if args.gateway and not args.gateway.is_file():
        parser.error(f'{args.gateway} is not a file')
    if args.table and (not args.gateway or args.pair or args.scenario != 'all' or args.part not in ('all', 'matrix')):
        parser.error('--table needs --gateway and the whole matrix')
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


def run_matrix(args: argparse.Namespace, folder: Path, stack: contextlib.ExitStack) -> tuple[int, int, dict]:
    """Gives passed, failed and what every client saw."""
    known = gaps.load() if args.gateway else []
    wanted, left_out = pairs(args.pair, bool(args.gateway))
    baselines = list(dict.fromkeys(pair.baseline() for pair in wanted)) if args.gateway else wanted
    agents: dict[str, Agent] = {}
    for name in dict.fromkeys(pair.agent for pair in wanted + baselines):
        agents[name] = Agent.start(AGENTS[name], folder)
        stack.callback(agents[name].process.stop)
    direct = matrix(args.jobs, baselines, lambda pair: run_client(pair.client, agents[pair.agent].base, [], args.scenario))
    record = {'direct': direct}
    if not args.gateway:
        return *table('client > agent, directly', direct, left_out), record
    credentials = Credentials.make(folder)
    hosted = tuple(dict.fromkeys(pair.agent for pair in wanted if pair.client.binding == GRPC))
    served = tuple(dict.fromkeys(pair.agent for pair in wanted if '0.1' in pair.client.generations))
    behind = {name: [agent] for name, agent in agents.items()}
    gateway = Gateway(args.gateway.resolve(), credentials, behind, hosted=hosted, v0_1=served)
    gateway.start()
    stack.callback(gateway.stop)
    extra = ['--ca', str(credentials.ca), '--bearer', credentials.token, '--expect-auth']

    hooks = webhooks.Webhooks()
    stack.callback(hooks.stop)

    def base_of(pair: Pair) -> str:
        if '0.1' in pair.client.generations:
            return gateway.v0_1_base(pair.agent)
        return gateway.host_base(pair.agent) if pair.client.binding == GRPC else gateway.base(pair.agent)

    def run(pair: Pair) -> dict[str, dict]:
        base = base_of(pair)
        results = run_client(pair.client, base, [*extra, '--webhook', hooks.place(pair.name)], args.scenario)
        told = results.get('webhook')
        spoken = pair.client.generations[0]
        # 0.2 has the webhooks of 0.3.
        generation = '0.3' if spoken == '0.2' else spoken
        if told and told['ok'] and (wrong := hooks.judge(pair.name, generation, told['observed'])):
            told |= {'ok': False, 'detail': wrong}
        return results

    through = matrix(args.jobs, wanted, run)
    record['gateway'] = through
    refused = [line for line in gateway.metrics() if line.startswith(PUSHES) and not any(one in line for one in TAKEN)]
    columns = {}
    for pair in wanted:
        beside = direct[pair.baseline().name]
        columns[pair.name] = {name: judge(pair, beside.get(name), one) for name, one in through[pair.name].items()}
    whole = not args.pair and args.scenario == 'all'
    wrong = gaps.apply(known, columns, whole)
    passed, failed = table('client > gateway > agent, compared with a direct run', columns, left_out)
    for gap in known:
        print(f'  g{gap.number:<3} {gap.reason}')
    if whole and not failed and not wrong:
        made = gaps.table(known, columns)
        if args.table:
            gaps.document(made)
        elif made != gaps.documented():
            wrong.append('the table in tests/README.md is out of date: run.py --table writes it')
    for one in wrong + refused:
        print(f'  FAIL {one}')
    died = not gateway.process.alive()
    code = gateway.stop()
    print(f'  the gateway {"died" if died else "was asked to stop"}: exit code {code}')
    failed += len(wrong) + len(refused) + (1 if died or code else 0)
    if failed:
        print(f'  the end of its log:\n{gateway.process.tail()}')
    for agent in agents.values():
        agent.process.stop()
    return passed, failed, record


def run_parts(args: argparse.Namespace, folder: Path, stack: contextlib.ExitStack) -> tuple[int, int]:
    passed = failed = 0
    record = {}
    if args.part in ('all', 'matrix'):
        good, bad, record = run_matrix(args, folder, stack)
        passed, failed = passed + good, failed + bad
    for name, part, reason in (
        ('front', front.run, 'it asks whether a front door finds the right agent'),
        ('affinity', affinity.run, 'it asks whether a gateway finds the right replica'),
        ('pair', two_gateways.run, 'it asks whether two gateways know the same'),
        ('identity', identity.run, 'it asks whether a gateway takes the tokens of a real provider'),
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
