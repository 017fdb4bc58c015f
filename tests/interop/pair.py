#!/usr/bin/env python3
"""Do two gateways that share a Redis know the same, also while it is away?

    pair.py --gateway BINARY

Two gateways and one real `redis-server` stand in front of two replicas of each agent. What is made through the first is
used at once through the second, by clients of the official SDKs and by bare JSON-RPC calls; a second caller gets nothing
of it; a rate that is used up at one is used up at the other; then Redis is killed, and comes back with nothing. Nothing
here is about speed. Standard library only.
"""

import contextlib
import http.client
import secrets
import sys
import time
from pathlib import Path

from affinity import KINDS, Caller, Refused, Run, Task, Wrong, alone
from suite import AGENTS, GRPC, JSON_RPC_CLIENTS, Agent, Credentials, Gateway, Redis, run_client

SECONDS = 30
# By skill, as in `affinity`: 20 tasks for each agent.
TASKS = {'echo': 8, 'ask': 6, 'slow': 6}
# While Redis is away, through each gateway.
MEANWHILE = 4
# An hour, so that no run lasts long enough for a call to be given back.
RATE = 10
LIMITED = 'limited'
TASK_NOT_FOUND = -32001


def eventually(what: str, holds, deadline: float | None = None) -> None:
    """Asks until it holds, at least once; a refusal is a no."""
    deadline = deadline or time.monotonic() + SECONDS
    last: object = None
    while True:
        try:
            if holds():
                return
        except (Wrong, OSError) as error:
            last = error
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    raise Wrong(f'{what}: not within {SECONDS} s ({last})')


class Pair(Run):
    """One agent kind behind both gateways: made at the first, asked of the second unless it is said otherwise."""

    def __init__(self, name: str, gateways: list[Gateway], replicas: list[Agent]) -> None:
        super().__init__(name, gateways[0], replicas)
        self.gateways = gateways

        self.own = [self.caller(one, one.credentials.token) for one in gateways]
        self.strangers = [self.caller(one, one.credentials.stranger) for one in gateways]
        self.through = self.own[1]

    def caller(self, gateway: Gateway, token: str) -> Caller:
        return Caller(gateway.base(self.name), self.dialect, token, gateway.trust())

    def once(self, what: str, work) -> None:
        """Something that is not about one task; it counts as one."""
        try:
            work()
            self.passed += 1
            mark = 'ok'
        except (Wrong, OSError, http.client.HTTPException, ValueError, LookupError) as error:
            self.failures.append(f'{self.name} {what}: {type(error).__name__}: {error}')
            mark = 'failed'
        print(f'  {self.name:<5} {what}: {mark}', flush=True)

    def hidden(self, task: Task) -> None:
        for number, stranger in enumerate(self.strangers, 1):
            try:
                stranger.call(self.dialect.get, {'id': task.id})
            except Refused as refusal:
                if refusal.code == TASK_NOT_FOUND:
                    continue
                raise
            raise Wrong(f'gateway {number} shows it to a stranger')

    def sdk(self, binding: str | None = None) -> None:
        """The client of the agent's own SDK, from nothing but the cards of the two gateways."""
        client = next(one for one in JSON_RPC_CLIENTS if one.name == self.name)
        if binding:
            client = client.over(binding)
        first, second = (one.host_base(self.name) if binding == GRPC else one.base(self.name) for one in self.gateways)
        credentials = self.gateways[0].credentials
        extra = ['--ca', str(credentials.ca), '--bearer', credentials.token, '--stranger', credentials.stranger]
        extra += ['--other', second]
        for result in run_client(client, first, extra, 'handover').values():
            if result['ok'] is not True:
                raise Wrong(result['detail'])

    def listed(self, caller: Caller) -> set[str]:
        """What one page can hold, and no more is there."""
        page = caller.call('ListTasks', {'pageSize': 100})
        return {task['id'] for task in page['tasks']}

    def lists(self) -> None:
        made = {task.id for task in self.tasks}
        for number, (caller, stranger) in enumerate(zip(self.own, self.strangers, strict=True), 1):
            if missing := made - self.listed(caller):
                raise Wrong(f'gateway {number} does not list {missing}')
            if foreign := self.listed(stranger):
                raise Wrong(f'gateway {number} shows a stranger {foreign}')
        # Only what changes no more, so that nothing moves within the list during the walk.
        finished = {task.id for task in self.tasks if task.state == 'completed'}
        seen: list[str] = []
        token = ''
        for turn in range(100):
            params = {'pageSize': 3, 'pageToken': token, 'status': 'TASK_STATE_COMPLETED'}
            page = self.own[turn % 2].call('ListTasks', params)
            seen += [task['id'] for task in page['tasks']]
            token = page.get('nextPageToken')
            if not token:
                break
        if turn == 0 or len(seen) != len(set(seen)) or finished - set(seen):
            raise Wrong(f'{turn + 1} pages with {len(seen)} tasks; missing: {finished - set(seen)}')

    def together(self) -> None:
        self.make_all(TASKS, 1)
        self.use('through the second')
        self.each('get as a stranger, through both', self.tasks, self.hidden)
        if self.dialect.headers:
            self.once('list over both', self.lists)
        else:
            print(f'  not applicable: {self.name} list over both: A2A 0.3 has no ListTasks')
        self.once('handover with the SDK', self.sdk)
        self.once('handover with the SDK over gRPC', lambda: self.sdk(GRPC))

    def apart(self) -> None:
        """Redis is away: what is known, and what is new."""
        known = list(self.tasks)
        for number, caller in enumerate(self.own, 1):
            self.through = caller
            self.each(f'known task, away, through {number}', known, self.get)
            self.makes = caller
            new = [Task('', '', 'echo', 100 * number + count) for count in range(MEANWHILE)]
            self.each(f'new task, away, through {number}', new, self.make)
            new = [task for task in new if task.id]
            self.each('ask the replicas whose it is', new, self.owner)
            self.tasks += new
        asked = self.of('ask', 'input-required')
        self.each('answer, away, through 2', asked[:1], self.answer)
        self.each('cancel, away, through 2', asked[1:2], self.cancel)

    def again(self, newcomer: Gateway) -> None:
        """Redis is back and was empty: everything is found through either gateway, whoever made it and when, and through
        a third one that knows only what the two have written there."""
        for number, caller in enumerate([*self.own, self.caller(newcomer, newcomer.credentials.token)], 1):
            self.through = caller
            # One bound for all of them: if nothing comes back, that is said soon.
            deadline = time.monotonic() + SECONDS

            def found(task: Task) -> None:
                eventually(f'{task.id} is found', lambda: self.get(task) is None, deadline)

            self.each(f'found when it is back, through {number}', self.tasks, found)
        # Until then somebody else's task is unavailable, like any that is not found.
        for gateway in (*self.gateways, newcomer):
            what = f'{gateway.name} has seen that all is written back'
            self.once(what, lambda: eventually(what, lambda: not gateway.readiness()['store_recovering']))
        self.each('get as a stranger when it is back', self.tasks, self.hidden)
        slow = [task for task in self.of('slow', 'working') if not (self.follow_or_cancel and task.number % 2)]
        self.each('cancel the rest', self.of('ask', 'input-required') + slow, self.cancel)
        self.each('get at the end', self.tasks, self.get)


class Limit(Pair):
    """An entry of its own with a rate: what is used up through the first is used up at the second."""

    def spend(self) -> None:
        first, second = self.own
        for _ in range(RATE):
            self.echo(first)
        for caller in (second, first):
            try:
                self.echo(caller)
            except Refused as refusal:
                if refusal.status == 429:
                    continue
                raise
            raise Wrong(f'a call more than the {RATE} an hour went through')
        # It is the caller's budget, not the agent's.
        self.echo(self.strangers[1])

    def echo(self, caller: Caller) -> None:
        caller.call(self.dialect.send, {'message': self.dialect.message('echo limited'), 'configuration': {}})


def run(binary: Path, folder: Path, kinds: tuple[str, ...] = KINDS) -> tuple[int, int]:
    """The whole thing; gives passed and failed."""
    folder.mkdir(parents=True, exist_ok=True)
    print('\ntwo gateways that share a Redis')
    with contextlib.ExitStack() as stack:
        redis = Redis(folder / 'redis')
        stack.callback(redis.stop)
        redis.start()
        agents: dict[str, list[Agent]] = {}
        for kind in kinds:
            agents[kind] = []
            for replica in ('ra', 'rb'):
                agents[kind].append(Agent.start(AGENTS[kind], folder, replica))
                stack.callback(agents[kind][-1].process.stop)
        credentials = Credentials.make(folder)
        (folder / 'page-token-key').write_text(secrets.token_urlsafe(32))
        *gateways, newcomer = (
            Gateway(
                binary,
                credentials,
                agents | {LIMITED: agents[kinds[0]]},
                name=name,
                state=f'{{ store: redis, redis: {{ url: "{redis.url}" }} }}',
                more=('page_tokens: { keys: [ { value_file: page-token-key } ] }',),
                limits={LIMITED: f'[ {{ per: principal, rate: {RATE}/h }} ]'},
                hosted=kinds,
            )
            for name in ('gateway-1', 'gateway-2', 'gateway-3')
        )
        for gateway in gateways:
            stack.callback(gateway.stop)
            gateway.start()
        runs = [Pair(kind, gateways, replicas) for kind, replicas in agents.items()]
        limit = Limit(LIMITED, gateways, agents[kinds[0]])
        for one in runs:
            one.together()
        limit.once('a rate holds over both', limit.spend)

        def degraded(expected: bool) -> None:
            for gateway in gateways:
                what = f'{gateway.name} notices that Redis is {"away" if expected else "back"}'
                limit.once(what, lambda: eventually(what, lambda: gateway.readiness()['store_degraded'] is expected))

        redis.kill()
        print('  redis-server was killed')
        for one in runs:
            one.apart()
        degraded(True)
        redis.start()
        print('  redis-server was started again, empty')
        stack.callback(newcomer.stop)
        newcomer.start()
        for one in runs:
            one.again(newcomer)
        degraded(False)

        failures = [failure for one in (*runs, limit) for failure in one.failures]
        for gateway in (*gateways, newcomer):
            if code := gateway.stop():
                failures.append(f'{gateway.name} ended with {code} after SIGTERM')
        for failure in failures[:40]:
            print(f'  FAIL {failure}')
        if len(failures) > 40:
            print(f'  ... and {len(failures) - 40} more')
        if failures:
            for gateway in (*gateways, newcomer):
                print(f'  the end of the log of {gateway.name}:\n{gateway.process.tail()}')
        return sum(one.passed for one in (*runs, limit)), len(failures)


if __name__ == '__main__':
    sys.exit(alone(run))
