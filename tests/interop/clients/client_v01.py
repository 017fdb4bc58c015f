"""Scenarios of a scripted client of A2A 0.1, for which there is no SDK: it sends what the recorded one of the reference
implementation does, explicit nulls included, and reads every answer to the letter (`schema_v01.py`). In 0.1 it names its
tasks itself.
"""

import asyncio
import json
import sys
import tempfile
import uuid
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

sys.path.append(str(Path(__file__).resolve().parent.parent))

from harness import (
    HOOK,
    LARGE,
    UNICODE,
    UNKNOWN_TASK,
    NotApplicable,
    Session,
    check,
    ends,
    equal,
    is_under,
    run,
)
from schema_v01 import CARD, ERROR, RESULT, fits

PUSH_NOT_SUPPORTED = -32003
# Of every kind that 0.1 has; the agents go by the text alone.
PARTS = [
    {'type': 'text', 'text': 'echo hello'},
    {'type': 'data', 'data': {'berth': 14, 'free': True, 'ships': ['a', None, {'tons': 21.5}]}},
    {'type': 'file', 'file': {'name': 'plan.txt', 'mimeType': 'text/plain', 'bytes': 'SGFyYm91ciBwbGFu'}},
    {'type': 'file', 'file': {'name': '77.pdf', 'mimeType': 'application/pdf', 'uri': 'https://files.example/77.pdf'}},
]


class Refused(Exception):
    """An error as an answer or an event; without a code, a stream that broke off."""

    def __init__(self, code: int | None, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Caller:
    """Calls the one URL that the card shows."""

    http: httpx.AsyncClient
    card: dict

    async def call(self, method: str, params: dict, known: str | None = None) -> dict:
        """`known`: the method whose result it would be, where this one has none."""
        request = envelope(method, params)
        answer = await self.http.post(self.card['url'], json=request)
        return result(answer.json(), request['id'], RESULT[known or method], answer.status_code)

    async def stream(self, method: str, params: dict):
        """The results of the events until the final one."""
        request = envelope(method, params)
        headers = {'Accept': 'text/event-stream', 'Cache-Control': 'no-store'}
        final = False
        try:
            async with self.http.stream('POST', self.card['url'], json=request, headers=headers) as answer:
                if not answer.headers['content-type'].startswith('text/event-stream'):
                    whole = json.loads(await answer.aread())
                    result(whole, request['id'], RESULT[method], answer.status_code)
                    raise AssertionError(f'no stream and no error but {whole}')
                async for data in events(answer):
                    check(not final, f'after the final event there is {data}')
                    told = result(json.loads(data), request['id'], RESULT[method], answer.status_code)
                    equal(told['id'], params['id'], 'task of an event')
                    final = told.get('final', False)
                    yield told
        except httpx.RemoteProtocolError as error:
            raise Refused(None, f'broken off: {error}') from error
        if not final:
            raise Refused(None, 'the stream ended without a final event')


def envelope(method: str, params: dict) -> dict:
    return {'jsonrpc': '2.0', 'id': uuid.uuid4().hex, 'method': method, 'params': params}


async def events(answer: httpx.Response):
    """The data of the events of a stream; comments keep it alive."""
    data: list[str] = []
    async for line in answer.aiter_lines():
        if line.startswith('data:'):
            data.append(line.removeprefix('data:').removeprefix(' '))
        elif not line and data:
            yield '\n'.join(data)
            data = []


def result(answer: dict, request: str, form, status: int) -> dict:
    """What an answer or an event says, if that is one of 0.1."""
    members = {'jsonrpc', 'id', 'error' if 'error' in answer else 'result'}
    equal(answer.get('jsonrpc'), '2.0', 'jsonrpc')
    if 'error' in answer:
        # The reference server has lost the id by the time that it answers 400, and who is refused unread gets none back.
        lost = {400: 'id' not in answer, 401: answer.get('id', request) is None}.get(status, False)
        equal(set(answer), members - {'id'} if lost and status == 400 else members, 'members')
        equal(answer.get('id'), None if lost else request, 'id')
        fits(answer['error'], ERROR, 'error')
        raise Refused(answer['error']['code'], answer['error']['message'])
    equal((status, set(answer), answer.get('id')), (200, members, request), 'HTTP status, members and id')
    fits(answer['result'], form, 'result')
    return answer['result']


@asynccontextmanager
async def connect(session: Session, card: dict | None = None, **credential):
    async with session.http(**credential) as http:
        yield Caller(http, card or await fetch(session, http))


async def fetch(session: Session, http: httpx.AsyncClient) -> dict:
    answer = await http.get(f'{session.base}/.well-known/agent.json')
    equal(answer.status_code, 200, 'HTTP status of the card')
    fits(answer.json(), CARD, 'card')
    return answer.json()


def named(text: str, task: str | None = None, parts: list | None = None, **more) -> dict:
    """The parameters of a send, as the reference client writes them: what is not said is null."""
    parts = parts or [{'type': 'text', 'text': text, 'metadata': None}]
    return {
        'id': task or str(uuid.uuid4()),
        'sessionId': uuid.uuid4().hex,
        'message': {'role': 'user', 'parts': parts, 'metadata': None},
        'acceptedOutputModes': None,
        'pushNotification': None,
        'historyLength': None,
        'metadata': None,
        **more,
    }


async def send(caller: Caller, text: str, **more) -> dict:
    """The task, which must go by the name and the session that it was given."""
    params = named(text, **more)
    task = await caller.call('tasks/send', params)
    equal((task['id'], task.get('sessionId')), (params['id'], params['sessionId']), 'task and session')
    return task


def about(task: str, **more) -> dict:
    return {'id': task, 'metadata': None, **more}


async def get(caller: Caller, task: str) -> dict:
    return await caller.call('tasks/get', about(task, historyLength=10))


async def refused(awaitable) -> dict:
    try:
        answer = await awaitable
    except Refused as error:
        return {'code': error.code}
    raise AssertionError(f'no error but {answer!r}')


def text_of(holder: dict | None) -> str:
    return '|'.join(part['text'] for part in (holder or {}).get('parts', []) if part['type'] == 'text')


def state(task: dict) -> str:
    return task['status']['state']


def texts(task: dict) -> list[str]:
    return [text_of(artifact) for artifact in task.get('artifacts', [])]


def asked(task: dict) -> list[str]:
    """What the caller has said. What agents said themselves they choose differently."""
    return [text_of(message)[:40] for message in task.get('history', []) if message['role'] == 'user']


def word(event: dict) -> str:
    if 'artifact' in event:
        artifact = event['artifact']
        flags = f'{"+" if artifact.get("append") else "="}{"." if artifact.get("lastChunk") else ""}'
        return f'artifact {artifact["index"]} {flags} {text_of(artifact)}'
    return f'status {state(event)} {text_of(event["status"].get("message"))}'.strip()


def stream(caller: Caller, params: dict):
    return caller.stream('tasks/sendSubscribe', params)


async def words(stream) -> list[str]:
    """0.1 does not say how a stream begins: agents of later generations tell that the task is there, in 0.1 they did not."""
    return [text async for text in (word(event) async for event in stream) if text != 'status submitted']


async def card_(session: Session):
    async with session.http() as http:
        card = await fetch(session, http)
    check(card['name'], 'a card without a name')
    check(is_under(card['url'], session.base), f'the card shows {card["url"]}')
    check(card['capabilities'].get('streaming'), 'streaming is not announced')
    schemes = card.get('authentication', {}).get('schemes')
    equal(schemes, ['Bearer'] if session.args.expect_auth else None, 'schemes')
    return {'name': card['name'], 'skills': [skill['id'] for skill in card['skills']]}


async def extended_card(session: Session):
    raise NotApplicable('A2A 0.1 has no extended card')


async def _echo(session: Session, text: str):
    async with connect(session) as caller:
        task = await send(caller, f'echo {text}', historyLength=10)
    equal(state(task), 'completed', 'state')
    equal(len(task['artifacts']), 1, 'artifacts')
    said, _, replica = texts(task)[0].rpartition('@')
    equal(said, text, 'artifact')
    return {'state': state(task), 'replica': replica, 'asked': asked(task)}


async def send_(session: Session):
    return await _echo(session, 'hello')


async def unicode_(session: Session):
    return await _echo(session, UNICODE)


async def large(session: Session):
    return await _echo(session, LARGE)


async def parts(session: Session):
    """They come back as they went."""
    async with connect(session) as caller:
        task = await send(caller, '', parts=PARTS)
        sent = (await get(caller, task['id']))['history'][0]
    # Agents add empty metadata.
    return [{name: content for name, content in part.items() if content != {}} for part in sent['parts']]


async def names(session: Session):
    """Any text is a name."""
    seen = []
    async with connect(session) as caller:
        for form in ('mine', 'Grüße/你好?a=b#c', '../mine:cancel', ' ', 'x' * 200):
            # What the agent still knows from another run is another task.
            name = f'{form}{uuid.uuid4()}'
            made = await send(caller, f'echo {form}', task=name)
            got = await get(caller, name)
            equal((got['id'], texts(got)), (name, texts(made)), 'got')
            seen.append(texts(got))
    return seen


async def message(session: Session):
    """0.1 has nothing but tasks."""
    async with connect(session) as caller:
        task = await send(caller, 'message hello')
    check(text_of(task['status']['message']).startswith('hello@'), f'{task}')
    return [state(task), text_of(task['status']['message']), texts(task)]


async def message_stream(session: Session):
    async with connect(session) as caller:
        seen = await words(stream(caller, named('message hello')))
    equal(len(seen), 1, 'events')
    check(seen[0].startswith('status completed hello@'), seen[0])
    return seen


async def message_get(session: Session):
    async with connect(session) as caller:
        task = await send(caller, 'message hello')
        try:
            return state(await get(caller, task['id']))
        except Refused as error:
            return {'code': error.code}


async def stream_(session: Session):
    async with connect(session) as caller:
        seen = await words(stream(caller, named('stream 20')))
    expected = ['status working']
    expected += [f'artifact 0 {"+" if n > 1 else "="}{"." if n == 20 else ""} chunk {n}' for n in range(1, 21)]
    equal(seen[:-1], expected, 'events')
    check(seen[-1].startswith('status completed done@'), seen[-1])
    return seen


async def stream_live(session: Session):
    """Events come when they happen: the agent goes on only after what the caller does about the one before."""
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        gate = Path(folder, 'open')
        async with connect(session) as caller:
            async for event in stream(caller, named(f'gate {gate}')):
                seen.append(word(event))
                if seen[-1].startswith('status working waiting@'):
                    gate.touch()
    check(seen[-1].startswith('status completed'), seen[-1])
    return [text for text in seen if text != 'status submitted']


async def get_(session: Session):
    async with connect(session) as caller:
        made = await send(caller, 'echo hello')
        task = await get(caller, made['id'])
    equal((task['id'], task['sessionId']), (made['id'], made['sessionId']), 'task and session')
    check(texts(task)[0].startswith('hello@'), texts(task)[0])
    return {'state': state(task), 'artifacts': texts(task), 'asked': asked(task)}


async def get_unknown(session: Session):
    async with connect(session) as caller:
        seen = await refused(get(caller, UNKNOWN_TASK))
    equal(seen['code'], -32001, 'code')
    return seen


async def cancel(session: Session):
    params = named('slow 150')
    async with connect(session) as caller:
        async with aclosing(stream(caller, params)) as running:
            seen = []
            while len(seen) < 2:
                text = word(await anext(running))
                seen += [text] if text != 'status submitted' else []
            canceled = await caller.call('tasks/cancel', about(params['id']))
            after = await ends(running)
        task = await get(caller, params['id'])
    equal((canceled['id'], state(canceled)), (params['id'], 'canceled'), 'answer to cancel')
    equal(state(task), 'canceled', 'state afterwards')
    return [*seen, state(canceled), state(task), after]


async def cancel_unknown(session: Session):
    async with connect(session) as caller:
        seen = await refused(caller.call('tasks/cancel', about(UNKNOWN_TASK)))
    equal(seen['code'], -32001, 'code')
    return seen


async def cancel_finished(session: Session):
    async with connect(session) as caller:
        task = await send(caller, 'echo done')
        seen = await refused(caller.call('tasks/cancel', about(task['id'])))
    equal(seen['code'], -32002, 'code')
    return seen


async def input_required(session: Session):
    async with connect(session) as caller:
        first = await send(caller, 'ask')
        equal(state(first), 'input-required', 'first answer')
        check(text_of(first['status']['message']).startswith('which one?@'), 'no question')
        done = await send(caller, 'the left one', task=first['id'], sessionId=first['sessionId'])
    equal(state(done), 'completed', 'second answer')
    check(texts(done)[-1].startswith('answered the left one@'), texts(done)[-1])
    return [state(first), state(done), texts(done)]


async def input_required_stream(session: Session):
    """A stream ends with its question, too."""
    params = named('ask')
    async with connect(session) as caller:
        seen = await words(stream(caller, params))
        check(seen[-1].startswith('status input-required which one?@'), seen[-1])
        done = await words(stream(caller, named('the left one', task=params['id'], sessionId=params['sessionId'])))
    check(done[-2].startswith('artifact 0 =. answered the left one@'), done[-2])
    equal(done[-1], 'status completed', 'end')
    return [seen[-1], done[-2:]]


async def send_to_finished(session: Session):
    async with connect(session) as caller:
        task = await send(caller, 'echo done')
        try:
            again = await send(caller, 'echo more', task=task['id'], sessionId=task['sessionId'])
        except Refused as error:
            return {'code': error.code}
    return [state(again), texts(again)]


async def send_to_unknown(session: Session):
    raise NotApplicable('in A2A 0.1 a send under a name that nobody knows begins a task')


def resubscription(caller: Caller, task: str):
    return caller.stream('tasks/resubscribe', about(task, historyLength=None))


async def resubscribe(session: Session):
    params = named('slow 20')
    async with connect(session) as caller:
        async with aclosing(stream(caller, params)) as running:
            await anext(running)
            await anext(running)
    # Leaving the block has closed the connection as well.
    await asyncio.sleep(0.3)
    async with connect(session) as caller:
        seen = await words(resubscription(caller, params['id']))
        task = await get(caller, params['id'])
    equal(seen[-1], 'status completed', 'last event')
    check(any(text.startswith('artifact 0 =. slow 20@') for text in seen), 'the artifact did not come')
    equal(state(task), 'completed', 'state afterwards')
    return [seen[0].split()[0], seen[-2], seen[-1], state(task), texts(task)]


async def resubscribe_finished(session: Session):
    async with connect(session) as caller:
        task = await send(caller, 'echo done')
        try:
            return await words(resubscription(caller, task['id']))
        except Refused as error:
            return {'code': error.code}


async def resubscribe_unknown(session: Session):
    async with connect(session) as caller:
        seen = await refused(words(resubscription(caller, UNKNOWN_TASK)))
    equal(seen['code'], -32001, 'code')
    return seen


async def push(session: Session):
    """What the card says of webhooks must be so."""
    async with connect(session) as caller:
        task = await send(caller, 'ask')
        config = {
            'url': HOOK,
            'token': 'secret',
            'authentication': {'schemes': ['Bearer'], 'credentials': None},
        }
        setting = caller.call('tasks/pushNotification/set', {'id': task['id'], 'pushNotificationConfig': config})
        getting = caller.call('tasks/pushNotification/get', about(task['id']))
        sending = send(caller, 'echo hello', pushNotification=config)
        if caller.card['capabilities'].get('pushNotifications'):
            made, got = await setting, await getting
            for one in (made, got):
                equal((one['id'], one['pushNotificationConfig']['url']), (task['id'], HOOK), 'task and URL')
            seen = got['pushNotificationConfig']
            seen = {'token': seen.get('token'), 'authentication': seen.get('authentication')}
            equal(state(await sending), 'completed', 'a send with a webhook')
        else:
            seen = [await refused(one) for one in (setting, getting, sending)]
            equal(seen, [{'code': PUSH_NOT_SUPPORTED}] * 3, 'webhooks that the card says there are none of')
        await caller.call('tasks/cancel', about(task['id']))
    return seen


async def push_unknown(session: Session):
    async with connect(session) as caller:
        config = {'id': UNKNOWN_TASK, 'pushNotificationConfig': {'url': HOOK, 'token': None, 'authentication': None}}
        return await refused(caller.call('tasks/pushNotification/set', config))


async def webhook(session: Session):
    """The driver listens, and judges what it hears of these tasks by the way in which their webhooks were set."""
    hooks = {way: session.webhook(way) for way in ('send', 'stream', 'set')}
    for hook in hooks.values():
        # They have no id in 0.1.
        del hook['id']
    async with connect(session) as caller:
        if not caller.card['capabilities'].get('pushNotifications'):
            raise NotApplicable('the card says that there are no webhooks')
        sent = await send(caller, 'echo hello', pushNotification=hooks['send'])
        streamed = named('stream 3', pushNotification=hooks['stream'])
        await words(stream(caller, streamed))
        first = await send(caller, 'ask')
        config = {'id': first['id'], 'pushNotificationConfig': hooks['set']}
        await caller.call('tasks/pushNotification/set', config)
        await send(caller, 'the left one', task=first['id'], sessionId=first['sessionId'])
    return {'send': sent['id'], 'stream': streamed['id'], 'set': first['id']}


async def list_tasks(session: Session):
    raise NotApplicable('A2A 0.1 has no ListTasks')


async def unknown_method(session: Session):
    """The reference server says that this is no request, later generations that there is no such method."""
    async with connect(session) as caller:
        return await refused(caller.call('tasks/erase', about(UNKNOWN_TASK), known='tasks/get'))


async def fail(session: Session):
    async with connect(session) as caller:
        task = await send(caller, 'fail')
    equal(state(task), 'failed', 'state')
    return [state(task), text_of(task['status']['message'])]


async def boom(session: Session):
    """How an agent that raises comes across differs from SDK to SDK; it must not be a success."""
    async with connect(session) as caller:
        try:
            task = await send(caller, 'boom')
        except Refused as error:
            return {'code': error.code}
    equal(state(task), 'failed', 'state')
    return [state(task)]


async def boom_stream(session: Session):
    async with connect(session) as caller:
        try:
            seen = await words(stream(caller, named('boom')))
        except Refused as error:
            return {'code': error.code}
    equal(seen[-1].split()[:2], ['status', 'failed'], f'last of {seen}')
    return seen


async def parallel(session: Session):
    async with connect(session) as caller:
        answers = await asyncio.gather(
            *(send(caller, f'echo {n}') for n in range(10)),
            *(words(stream(caller, named('stream 5'))) for _ in range(10)),
        )
    for n, task in enumerate(answers[:10]):
        check(texts(task)[0].startswith(f'{n}@'), f'answer {n} is {texts(task)[0]}')
    for seen in answers[10:]:
        equal(len(seen), 7, 'events of a stream')
    return len(answers)


async def _without(session: Session, **credential):
    if not session.args.expect_auth:
        raise NotApplicable('nothing in front of the agent asks for a credential')
    async with session.http() as http:
        card = await fetch(session, http)
    seen = []
    calls = {
        'send': lambda caller: send(caller, 'echo hello'),
        'stream': lambda caller: words(stream(caller, named('stream 1'))),
        'get': lambda caller: get(caller, UNKNOWN_TASK),
        'resubscribe': lambda caller: words(resubscription(caller, UNKNOWN_TASK)),
    }
    for what, call in calls.items():
        async with connect(session, card=card, **credential) as caller:
            try:
                await call(caller)
                raise AssertionError(f'{what} is answered')
            except Refused as error:
                session.refused(what, error)
                seen.append([what, error.code])
    return seen


async def unauthenticated(session: Session):
    return await _without(session, bearer=None)


async def bad_token(session: Session):
    if not session.args.bearer:
        raise NotApplicable('no token to spoil')
    head, payload, signature = session.args.bearer.split('.')
    return await _without(session, bearer='.'.join((head, payload, signature[::-1])))


if __name__ == '__main__':
    run(
        {
            'card': card_,
            'extended-card': extended_card,
            'send': send_,
            'unicode': unicode_,
            'large': large,
            'parts': parts,
            'names': names,
            'message': message,
            'message-stream': message_stream,
            'message-get': message_get,
            'stream': stream_,
            'stream-live': stream_live,
            'get': get_,
            'get-unknown': get_unknown,
            'cancel': cancel,
            'cancel-unknown': cancel_unknown,
            'cancel-finished': cancel_finished,
            'input-required': input_required,
            'input-required-stream': input_required_stream,
            'send-to-finished': send_to_finished,
            'send-to-unknown': send_to_unknown,
            'resubscribe': resubscribe,
            'resubscribe-finished': resubscribe_finished,
            'resubscribe-unknown': resubscribe_unknown,
            'push': push,
            'push-unknown': push_unknown,
            'webhook': webhook,
            'list-tasks': list_tasks,
            'unknown-method': unknown_method,
            'fail': fail,
            'boom': boom,
            'boom-stream': boom_stream,
            'parallel': parallel,
            'unauthenticated': unauthenticated,
            'bad-token': bad_token,
        }
    )
