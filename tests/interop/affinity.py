#!/usr/bin/env python3
"""Does every call about a task reach the replica that made it, also after the gateway was killed?

    affinity.py --gateway BINARY

Two replicas stand behind one agent entry; each knows only its own tasks, so a call that reaches the wrong one gets
TaskNotFound. Which replica made a task is asked of the replicas themselves, past the gateway. 200 tasks are made for
each agent by bare JSON-RPC calls, then read, continued, canceled and followed through the gateway; then the gateway is
killed without notice and started again, and the same is done with what is left. Standard library only.
"""

import argparse
import contextlib
import http.client
import json
import sys
import tempfile
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from suite import AGENTS, Agent, Credentials, Failed, Gateway, require_setup, stop_on_sigterm

WORKERS = 8
SECONDS = 20
KINDS = ('py1', 'py03', 'js1')
# By skill: finished at once; waiting for an answer; working until they are canceled.
TASKS = {'echo': 120, 'ask': 60, 'slow': 20}
# Each replica must have made at least this many of the 200, or the run shows nothing.
SHARE = 20


class Wrong(Exception):
    """An answer that is not the right one."""


class Refused(Wrong):
    """An answer that refuses: by its HTTP status, or by the code of its error."""

    def __init__(self, text: str, status: int, code: int | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Dialect:
    """How a generation says it on the wire."""

    send: str
    get: str
    cancel: str
    subscribe: str
    headers: dict[str, str]
    return_at_once: dict
    user: str

    def message(self, text: str, task: 'Task | None' = None) -> dict:
        part = {'text': text} if self.headers else {'kind': 'text', 'text': text}
        message = {'messageId': str(uuid.uuid4()), 'role': self.user, 'parts': [part]}
        if not self.headers:
            message['kind'] = 'message'
        if task:
            message |= {'taskId': task.id, 'contextId': task.context}
        return message

    def task(self, result: dict) -> dict:
        """The task in the answer to a send: 1.0 wraps it."""
        return result.get('task', result)


DIALECTS = {
    '1.0': Dialect(
        'SendMessage', 'GetTask', 'CancelTask', 'SubscribeToTask',
        {'A2A-Version': '1.0'}, {'returnImmediately': True}, 'ROLE_USER',
    ),
    '0.3': Dialect(
        'message/send', 'tasks/get', 'tasks/cancel', 'tasks/resubscribe', {}, {'blocking': False}, 'user',
    ),
}  # fmt: skip


@dataclass
class Task:
    id: str
    context: str
    skill: str
    number: int
    replica: str = ''
    state: str = ''


def plain(state: str) -> str:
    return state.removeprefix('TASK_STATE_').lower().replace('_', '-')


class Caller:
    """Bare JSON-RPC over a connection of its own for each call, so that no connection can carry the affinity."""

    def __init__(self, url: str, dialect: Dialect, token: str | None = None, trust=None) -> None:
        self.url = urlsplit(url)
        self.dialect = dialect
        self.token = token
        self.trust = trust

    @contextlib.contextmanager
    def _open(self, method: str, params: dict, accept: str):
        if self.url.scheme == 'https':
            connection = http.client.HTTPSConnection(self.url.netloc, timeout=SECONDS, context=self.trust)
        else:
            connection = http.client.HTTPConnection(self.url.netloc, timeout=SECONDS)
        headers = {'Content-Type': 'application/json', 'Accept': accept} | self.dialect.headers
        if self.token:
            headers['Authorization'] = f'Bearer {self.token}'
        body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params})
        try:
            connection.request('POST', self.url.path or '/', body, headers)
            yield connection.getresponse()
        finally:
            connection.close()

    def call(self, method: str, params: dict) -> dict:
        with self._open(method, params, 'application/json') as response:
            text = response.read()
            if response.status != 200:
                raise Refused(f'{method}: HTTP {response.status} {text[:300]!r}', response.status)
        answer = json.loads(text)
        if 'error' in answer:
            code = answer['error']['code']
            raise Refused(f'{method}: {code} {answer["error"]["message"]}', 200, code)
        return answer['result']

    def follow(self, params: dict, enough: int):
        """The first events of a subscription; the connection is dropped after `enough`."""
        with self._open(self.dialect.subscribe, params, 'text/event-stream') as response:
            kind = response.headers.get('Content-Type', '')
            if response.status != 200 or not kind.startswith('text/event-stream'):
                raise Wrong(f'subscribe: HTTP {response.status} {kind} {response.read(300)!r}')
            events = []
            # Pings keep the socket busy, so its timeout alone would wait for ever.
            deadline = time.monotonic() + SECONDS
            while len(events) < enough:
                line = response.readline()
                if time.monotonic() > deadline:
                    raise Wrong(f'{len(events)} events within {SECONDS} s')
                if not line:
                    raise Wrong(f'the stream ended after {len(events)} events')
                if line.startswith(b'data:'):
                    event = json.loads(line[5:])
                    if 'error' in event:
                        raise Wrong(f'subscribe: {event["error"]["code"]} {event["error"]["message"]}')
                    events.append(event['result'])
            return events


class Run:
    """One agent kind with its two replicas behind the gateway: tasks are made by `makes`, all else is asked of `through`."""

    def __init__(self, name: str, gateway: Gateway, replicas: list[Agent]) -> None:
        generation = replicas[0].kind.generations[0]
        self.name = name
        self.dialect = DIALECTS[generation]
        # A dropped subscription leaves a queue behind that nobody reads. In the Python SDK 0.3, canceling that task
        # then waits for the queue with the lock of the queue manager held, and the agent answers no send, cancel or
        # subscription any more, whatever the task. So there a task is either followed or canceled.
        self.follow_or_cancel = replicas[0].kind.name == 'py03'
        self.makes = Caller(gateway.base(name), self.dialect, gateway.credentials.token, gateway.trust())
        self.through = self.makes
        self.direct = {agent.replica: Caller(agent.url, self.dialect) for agent in replicas}
        self.tasks: list[Task] = []
        self.failures: list[str] = []
        self.passed = 0

    def each(self, what: str, tasks: list[Task], work) -> None:
        """Does it for all tasks, some at a time; every one counts."""

        def guarded(task: Task) -> str | None:
            try:
                work(task)
            except (Wrong, OSError, http.client.HTTPException, ValueError, LookupError) as error:
                return f'{self.name} {what} {task.skill} {task.number} ({task.replica or "?"}): {type(error).__name__}: {error}'
            return None

        with ThreadPoolExecutor(WORKERS) as pool:
            failures = [failure for failure in pool.map(guarded, tasks) if failure]
        self.passed += len(tasks) - len(failures)
        self.failures += failures
        print(f'  {self.name:<5} {what:<34} {len(tasks):>4} tasks, {len(failures)} failed', flush=True)

    # What is done with one task.

    def make(self, task: Task) -> None:
        texts = {'echo': f'echo {task.number}', 'ask': 'ask', 'slow': 'slow 2400 500'}
        configuration = self.dialect.return_at_once if task.skill == 'slow' else {}
        params = {'message': self.dialect.message(texts[task.skill]), 'configuration': configuration}
        made = self.dialect.task(self.makes.call(self.dialect.send, params))
        task.id, task.context = made['id'], made['contextId']
        # The gateway must know the owner before the answer leaves: ask at once.
        seen = self.through.call(self.dialect.get, {'id': task.id})
        if seen['id'] != task.id:
            raise Wrong(f'asked for {task.id}, got {seen["id"]}')
        task.state = {'echo': 'completed', 'ask': 'input-required', 'slow': 'working'}[task.skill]

    def owner(self, task: Task) -> None:
        """Asks the replicas, past the gateway."""
        owners = []
        for replica, caller in self.direct.items():
            with contextlib.suppress(Wrong):
                caller.call(self.dialect.get, {'id': task.id})
                owners.append(replica)
        if len(owners) != 1:
            raise Wrong(f'known to {owners or "no replica"}')
        task.replica = owners[0]

    def signed(self, task: Task, text: str) -> None:
        """Agents sign what they say with the name of their replica."""
        if not text.endswith(f'@{task.replica}'):
            raise Wrong(f'{text!r} is not from {task.replica}')

    def get(self, task: Task) -> None:
        seen = self.through.call(self.dialect.get, {'id': task.id})
        state = plain(seen['status']['state'])
        # What works has perhaps not begun yet.
        if seen['id'] != task.id or (state != task.state and (state, task.state) != ('submitted', 'working')):
            raise Wrong(f'{seen["id"]} {state} instead of {task.id} {task.state}')
        for artifact in seen.get('artifacts') or []:
            self.signed(task, artifact['parts'][0]['text'])
        if message := seen['status'].get('message'):
            self.signed(task, message['parts'][0]['text'])

    def answer(self, task: Task) -> None:
        params = {'message': self.dialect.message(f'number {task.number}', task), 'configuration': {}}
        done = self.dialect.task(self.through.call(self.dialect.send, params))
        task.state = plain(done['status']['state'])
        if done['id'] != task.id or task.state != 'completed':
            raise Wrong(f'{done["id"]} {task.state} instead of {task.id} completed')
        text = done['artifacts'][-1]['parts'][0]['text']
        if text != f'answered number {task.number}@{task.replica}':
            raise Wrong(f'artifact {text!r}')

    def cancel(self, task: Task) -> None:
        done = self.through.call(self.dialect.cancel, {'id': task.id})
        task.state = plain(done['status']['state'])
        if done['id'] != task.id or task.state != 'canceled':
            raise Wrong(f'{done["id"]} {task.state} instead of {task.id} canceled')

    def follow(self, task: Task) -> None:
        said = 0
        for event in self.through.follow({'id': task.id}, enough=3):
            inner = event if 'kind' in event else next(iter(event.values()))
            if (inner.get('taskId') or inner.get('id')) != task.id:
                raise Wrong(f'an event of {inner}')
            if message := inner['status'].get('message'):
                self.signed(task, message['parts'][0]['text'])
                said += 1
        if not said:
            raise Wrong('no event says which replica it is from')

    # The two halves.

    def of(self, skill: str, state: str) -> list[Task]:
        return [task for task in self.tasks if task.skill == skill and task.state == state]

    def use(self, when: str) -> None:
        """Reads everything, follows what works, answers and cancels one half of what is still open."""
        self.each(f'get, {when}', self.tasks, self.get)
        slow = self.of('slow', 'working')
        if self.follow_or_cancel:
            followed, slow = [task for task in slow if task.number % 2], [task for task in slow if not task.number % 2]
            self.each(f'subscribe, {when}', followed, self.follow)
        else:
            self.each(f'subscribe, {when}', slow, self.follow)
        asked = self.of('ask', 'input-required')
        self.each(f'answer, {when}', asked[: len(asked) // 3], self.answer)
        self.each(f'cancel while it waits, {when}', asked[len(asked) // 3 : len(asked) // 2], self.cancel)
        self.each(f'cancel while it works, {when}', slow[: len(slow) // 2], self.cancel)
        self.each(f'get again, {when}', self.tasks, self.get)

    def before(self) -> None:
        self.make_all(TASKS, SHARE)
        self.use('before')

    def make_all(self, counts: dict[str, int], least: int) -> None:
        order = [skill for skill, count in counts.items() for _ in range(count)]
        tasks = [Task('', '', skill, number) for number, skill in enumerate(order)]
        self.each('make', tasks, self.make)
        self.tasks = [task for task in tasks if task.id]
        self.each('ask the replicas whose it is', self.tasks, self.owner)
        share = Counter(task.replica for task in self.tasks)
        print(f'  {self.name:<5} made by: {dict(share)}')
        for replica in self.direct:
            if share[replica] < least:
                self.failures.append(f'{self.name}: {replica} made only {share[replica]} of {len(self.tasks)} tasks')

    def after(self) -> None:
        self.use('after the restart')
        slow = [task for task in self.of('slow', 'working') if not (self.follow_or_cancel and task.number % 2)]
        rest = self.of('ask', 'input-required') + slow
        self.each('cancel the rest', rest, self.cancel)
        self.each('get at the end', self.tasks, self.get)


def run(binary: Path, folder: Path, kinds: tuple[str, ...] = KINDS) -> tuple[int, int]:
    """The whole thing; gives passed and failed."""
    folder.mkdir(parents=True, exist_ok=True)
    print('\ntwo replicas behind one agent entry')
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        agents: dict[str, list[Agent]] = {}
        for kind in kinds:
            agents[kind] = []
            for replica in ('ra', 'rb'):
                agents[kind].append(Agent.start(AGENTS[kind], folder, replica))
                stack.callback(agents[kind][-1].process.stop)
        gateway = Gateway(binary, Credentials.make(folder), agents)
        stack.callback(gateway.stop)
        gateway.start()
        runs = [Run(kind, gateway, replicas) for kind, replicas in agents.items()]
        for one in runs:
            one.before()
        gateway.process.kill()
        gateway.stop()
        gateway.start()
        print(f'  the gateway was killed and started again after {time.monotonic() - started:.0f} s')
        for one in runs:
            one.after()
        code = gateway.stop()
        failures = [failure for one in runs for failure in one.failures]
        if code:
            failures.append(f'the gateway ended with {code} after SIGTERM')
        for failure in failures[:40]:
            print(f'  FAIL {failure}')
        if len(failures) > 40:
            print(f'  ... and {len(failures) - 40} more')
        if failures:
            print(f'  the end of the log of the gateway:\n{gateway.process.tail()}')
        return sum(one.passed for one in runs), len(failures)


def alone(part) -> int:
    """A part of the suite as a program of its own."""
    stop_on_sigterm()
    parser = argparse.ArgumentParser()
    parser.add_argument('--gateway', type=Path, metavar='BINARY', required=True)
    parser.add_argument('--agent', choices=KINDS, action='append', help='only this one; may be repeated')
    parser.add_argument('--keep', type=Path, help='work in this folder and leave it (logs, configuration)')
    args = parser.parse_args()
    if not args.gateway.is_file():
        parser.error(f'{args.gateway} is not a file')
    require_setup()
    with contextlib.ExitStack() as stack:
        folder = args.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='interop-')))
        try:
            passed, failed = part(args.gateway.resolve(), folder.resolve(), tuple(args.agent or KINDS))
        except Failed as error:
            print(f'FAIL {error}')
            passed, failed = 0, 1
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(alone(run))
