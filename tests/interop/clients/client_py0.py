"""Scenarios of a client on the Python SDK 0.3, which speaks 0.3 only, over JSON-RPC or, with `--rest`, HTTP+JSON or, with
`--grpc`, gRPC; or on 0.2, where the environment holds that one."""

import asyncio
import tempfile
import uuid
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from a2a import types
from a2a.client import A2ACardResolver
from a2a.client.errors import A2AClientError, A2AClientHTTPError
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationConfig,
    Role,
    TaskArtifactUpdateEvent,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)

try:
    from a2a.client import ClientConfig, ClientFactory
    from a2a.client.errors import A2AClientJSONRPCError
    from a2a.utils import get_message_text
    from a2a.utils.parts import get_text_parts

    # The SDK does not look at the HTTP status of this call: it trips over the content type and says 400.
    BLIND = 'resubscribe'
    # Over gRPC the errors are those of its library.
    from grpc.aio import AioRpcError
except ImportError:
    from a2a.utils.message import get_message_text, get_text_parts

    from sdk_py02 import A2AClientJSONRPCError, ClientConfig, ClientFactory

    BLIND = 'stream'

    class AioRpcError(Exception):
        """This environment has no gRPC."""


from harness import (
    CODE_OF_STATUS,
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

REFUSALS = (A2AClientError, AioRpcError)


def state(task_or_update) -> str:
    return task_or_update.status.state.value


def texts(task) -> list[str]:
    return ['|'.join(get_text_parts(artifact.parts)) for artifact in task.artifacts or []]


def refusal(error: Exception) -> dict:
    seen = {'error': type(error).__name__}
    if isinstance(error, AioRpcError):
        # The class of the error stands before its text. A stream that breaks off is a 503 to the other transports of the SDK.
        name = (error.details() or '').partition(':')[0]
        known = name.endswith('Error') and hasattr(types, name)
        status = error.code().name
        seen['code'] = getattr(types, name)().code if known else {'UNAVAILABLE': 503}.get(status, status)
    if isinstance(error, A2AClientJSONRPCError):
        seen['code'] = error.error.code
    if isinstance(error, A2AClientHTTPError):
        seen['code'] = CODE_OF_STATUS.get(error.status_code, error.status_code)
    return seen


def event(response) -> str:
    """One of what the SDK's iterator gives: a message, or the task so far with the update that changed it."""
    if isinstance(response, Message):
        return f'message {get_message_text(response)}'
    task, update = response
    if update is None:
        return f'task {state(task)}'
    if isinstance(update, TaskArtifactUpdateEvent):
        flags = f'{"+" if update.append else "="}{"." if update.last_chunk else ""}'
        return f'artifact {flags} {"".join(get_text_parts(update.artifact.parts))}'
    said = get_message_text(update.status.message) if update.status.message else ''
    return f'status {state(update)} {said}'.strip()


def task_id_of(response) -> str:
    return response.task_id if isinstance(response, Message) else response[0].id


def request(text: str, task_id: str | None = None, context_id: str | None = None) -> Message:
    return Message(
        message_id=str(uuid.uuid4()),
        role=Role.user,
        parts=[Part(root=TextPart(text=text))],
        task_id=task_id,
        context_id=context_id,
    )


def binding(session: Session, channel) -> dict:
    if session.args.grpc:
        return {'supported_transports': ['GRPC'], 'grpc_channel_factory': channel}
    return {'supported_transports': ['HTTP+JSON']} if session.args.rest else {}


@asynccontextmanager
async def connect(session: Session, streaming: bool = True, card=None, hook=None, polling: bool = False, **credential):
    """A client made by the SDK from nothing but the published card."""
    async with session.http(**credential) as http, session.channels(**credential) as channel:
        hooks = [PushNotificationConfig(**hook)] if hook else []
        config = ClientConfig(
            streaming=streaming,
            polling=polling,
            httpx_client=http,
            push_notification_configs=hooks,
            **binding(session, channel),
        )
        yield await ClientFactory.connect(card or session.base, config)


async def send(client, text: str, **ids):
    """The one answer of a call that does not stream: a task or a message."""
    answers = [answer async for answer in client.send_message(request(text, **ids))]
    equal(len(answers), 1, 'answers to a unary send')
    return answers[0] if isinstance(answers[0], Message) else answers[0][0]


async def failure(awaitable) -> Exception:
    try:
        answer = await awaitable
    except REFUSALS as error:
        return error
    raise AssertionError(f'no error but {answer!r}')


async def refused(awaitable) -> dict:
    return refusal(await failure(awaitable))


async def collect(stream) -> list:
    """The events as text with the task id: the SDK changes one task object in place, so it must be read at once."""
    return [(event(response), task_id_of(response)) async for response in stream]


def words(events: list) -> list[str]:
    return [text for text, _ in events]


async def card_(session: Session):
    async with session.http() as http:
        card = await A2ACardResolver(http, session.base).get_agent_card()
    check(card.name, 'a card without a name')
    for url in [card.url] + [i.url for i in card.additional_interfaces or []]:
        check(is_under(url, session.base), f'the card shows {url}')
    check(card.capabilities.streaming, 'streaming is not announced')
    return {
        'name': card.name,
        'told': [card.preferred_transport, card.protocol_version],
        'skills': [skill.id for skill in card.skills],
        'push': card.capabilities.push_notifications,
        'extended': card.supports_authenticated_extended_card,
    }


async def extended_card(session: Session):
    async with connect(session) as client:
        try:
            card = await client.get_card()
        except A2AClientHTTPError as error:
            # The GET of 0.2, which not every agent answers.
            equal((BLIND, error.status_code), ('stream', 404), 'SDK and HTTP status')
            return refusal(error)
    check(card.name.endswith('(extended)'), f'{card.name!r} is not the extended card')
    for url in [card.url] + [i.url for i in card.additional_interfaces or []]:
        check(is_under(url, session.base), f'the extended card shows {url}')
    return {'name': card.name, 'skills': [skill.id for skill in card.skills]}


async def _echo(session: Session, text: str):
    async with connect(session, streaming=False) as client:
        task = await send(client, f'echo {text}')
    equal(state(task), 'completed', 'state')
    check(task.id and task.context_id, 'a task without ids')
    equal(len(task.artifacts), 1, 'artifacts')
    said, _, replica = texts(task)[0].rpartition('@')
    equal(said, text, 'artifact')
    return {'state': state(task), 'replica': replica, 'history': [get_message_text(m)[:40] for m in task.history or []]}


async def send_(session: Session):
    return await _echo(session, 'hello')


async def unicode_(session: Session):
    return await _echo(session, UNICODE)


async def large(session: Session):
    return await _echo(session, LARGE)


async def message(session: Session):
    async with connect(session, streaming=False) as client:
        answer = await send(client, 'message hello')
    check(get_message_text(answer).startswith('hello@'), f'message {get_message_text(answer)!r}')
    equal(answer.role, Role.agent, 'role')
    return get_message_text(answer)


async def message_stream(session: Session):
    async with connect(session) as client:
        events = words(await collect(client.send_message(request('message hello'))))
    equal(len(events), 1, 'events')
    check(events[0].startswith('message hello@'), events[0])
    return events


async def stream(session: Session):
    async with connect(session) as client:
        events = await collect(client.send_message(request('stream 20')))
    expected = ['task submitted', 'status working']
    expected += [f'artifact {"+" if n > 1 else "="}{"." if n == 20 else ""} chunk {n}' for n in range(1, 21)]
    equal(words(events)[:-1], expected, 'events')
    check(words(events)[-1].startswith('status completed done@'), words(events)[-1])
    equal(len({task_id for _, task_id in events}), 1, 'task ids')
    return words(events)


async def stream_live(session: Session):
    """Events come when they happen: the agent goes on only after what the caller does about the one before."""
    events = []
    with tempfile.TemporaryDirectory() as folder:
        gate = Path(folder, 'open')
        async with connect(session) as client:
            async for response in client.send_message(request(f'gate {gate}')):
                events.append(event(response))
                if events[-1].startswith('status working waiting@'):
                    gate.touch()
    check(events[-1].startswith('status completed'), events[-1])
    return events


async def get(session: Session):
    async with connect(session, streaming=False) as client:
        made = await send(client, 'echo hello')
        task = await client.get_task(TaskQueryParams(id=made.id))
    equal(task.id, made.id, 'id')
    equal(task.context_id, made.context_id, 'context')
    check(texts(task)[0].startswith('hello@'), texts(task)[0])
    return {'state': state(task), 'artifacts': texts(task), 'history': [get_message_text(m) for m in task.history or []]}


async def get_unknown(session: Session):
    async with connect(session) as client:
        seen = await refused(client.get_task(TaskQueryParams(id=UNKNOWN_TASK)))
    equal(seen['code'], -32001, 'code')
    return seen


async def cancel(session: Session):
    async with connect(session) as client:
        async with aclosing(client.send_message(request('slow 150'))) as events:
            response = await anext(events)
            first, task_id = event(response), task_id_of(response)
            second = event(await anext(events))
            canceled = await client.cancel_task(TaskIdParams(id=task_id))
            after = await ends(events)
        task = await client.get_task(TaskQueryParams(id=task_id))
    equal(state(canceled), 'canceled', 'answer to cancel')
    equal(state(task), 'canceled', 'state afterwards')
    return [first, second, state(canceled), state(task), after]


async def cancel_unknown(session: Session):
    async with connect(session) as client:
        seen = await refused(client.cancel_task(TaskIdParams(id=UNKNOWN_TASK)))
    equal(seen['code'], -32001, 'code')
    return seen


async def cancel_finished(session: Session):
    async with connect(session, streaming=False) as client:
        task = await send(client, 'echo done')
        seen = await refused(client.cancel_task(TaskIdParams(id=task.id)))
    equal(seen['code'], -32002, 'code')
    return seen


async def input_required(session: Session):
    async with connect(session, streaming=False) as client:
        asked = await send(client, 'ask')
        equal(state(asked), 'input-required', 'first answer')
        done = await send(client, 'the left one', task_id=asked.id, context_id=asked.context_id)
    equal(done.id, asked.id, 'task')
    equal(state(done), 'completed', 'second answer')
    check(texts(done)[-1].startswith('answered the left one@'), texts(done)[-1])
    return [state(asked), state(done), texts(done)]


async def send_to_finished(session: Session):
    async with connect(session, streaming=False) as client:
        task = await send(client, 'echo done')
        return await refused(send(client, 'more', task_id=task.id, context_id=task.context_id))


async def send_to_unknown(session: Session):
    async with connect(session, streaming=False) as client:
        seen = await refused(send(client, 'more', task_id=UNKNOWN_TASK))
    equal(seen['code'], -32001, 'code')
    return seen


async def _resubscribe(client, task_id: str):
    return await collect(client.resubscribe(TaskIdParams(id=task_id)))


async def resubscribe(session: Session):
    async with connect(session) as client:
        events = client.send_message(request('slow 20'))
        task_id = task_id_of(await anext(events))
        await anext(events)
        await events.aclose()
    # Leaving the block has closed the connection as well.
    await asyncio.sleep(0.3)
    async with connect(session) as client:
        events = await _resubscribe(client, task_id)
        task = await client.get_task(TaskQueryParams(id=task_id))
    equal({seen for _, seen in events}, {task_id}, 'task ids')
    seen = words(events)
    equal(seen[-1], 'status completed', 'last event')
    check(any(text.startswith('artifact =. slow 20@') for text in seen), 'the artifact did not come')
    equal(state(task), 'completed', 'state afterwards')
    return [seen[0].split()[0], seen[-2], seen[-1], state(task), texts(task)]


async def resubscribe_finished(session: Session):
    async with connect(session, streaming=False) as client:
        task = await send(client, 'echo done')
    async with connect(session) as client:
        try:
            events = await _resubscribe(client, task.id)
        except REFUSALS as error:
            return refusal(error)
    # Agents on the JavaScript SDK 0.3 tell the task and end.
    equal(events, [('task completed', task.id)], 'events')
    return words(events)


async def resubscribe_unknown(session: Session):
    async with connect(session) as client:
        seen = await refused(_resubscribe(client, UNKNOWN_TASK))
    equal(seen['code'], -32001, 'code')
    return seen


async def push(session: Session):
    """Set and get: the client of this SDK has no list and no delete."""
    async with connect(session, streaming=False) as client:
        task = await send(client, 'ask')
        config = PushNotificationConfig(id='hook-1', url=HOOK, token='secret')
        made = await client.set_task_callback(
            TaskPushNotificationConfig(task_id=task.id, push_notification_config=config)
        )
        equal((made.task_id, made.push_notification_config.url), (task.id, HOOK), 'made')
        got = await client.get_task_callback(
            GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id='hook-1')
        )
        equal((got.task_id, got.push_notification_config.url), (task.id, HOOK), 'got')
        await client.cancel_task(TaskIdParams(id=task.id))
    return {'id': got.push_notification_config.id, 'token': got.push_notification_config.token}


async def push_unknown(session: Session):
    async with connect(session) as client:
        config = PushNotificationConfig(id='hook-1', url=HOOK)
        seen = await refused(
            client.set_task_callback(
                TaskPushNotificationConfig(task_id=UNKNOWN_TASK, push_notification_config=config)
            )
        )
    equal(seen['code'], -32001, 'code')
    return seen


async def webhook(session: Session):
    """The driver listens, and judges what it hears of these tasks by the way in which their webhooks were set."""
    async with connect(session, streaming=False, hook=session.webhook('send')) as client:
        sent = await send(client, 'echo hello')
    async with connect(session, streaming=False, hook=session.webhook('later'), polling=True) as client:
        later = await send(client, 'slow 2')
    async with connect(session, hook=session.webhook('stream')) as client:
        _, streamed = (await collect(client.send_message(request('stream 3'))))[0]
    async with connect(session, streaming=False) as client:
        asked = await send(client, 'ask')
        config = PushNotificationConfig(**session.webhook('set'))
        await client.set_task_callback(TaskPushNotificationConfig(task_id=asked.id, push_notification_config=config))
        await send(client, 'the left one', task_id=asked.id, context_id=asked.context_id)
    return {'send': sent.id, 'later': later.id, 'stream': streamed, 'set': asked.id}


async def list_tasks(session: Session):
    raise NotApplicable('A2A 0.3 has no ListTasks')


async def handover(session: Session):
    """What is made through one gateway is used through another, at the replica that made it, and by nobody else."""
    other = session.elsewhere()
    made = []
    async with connect(session, streaming=False) as here, connect(other, streaming=False) as there:
        for n in range(4):
            task = await send(here, f'echo {n}')
            got = await there.get_task(TaskQueryParams(id=task.id))
            equal((got.id, state(got), texts(got)), (task.id, 'completed', texts(task)), 'got elsewhere')
            made.append(task.id)
        asked = await send(here, 'ask')
        _, _, replica = get_message_text(asked.status.message).rpartition('@')
        done = await send(there, 'the left one', task_id=asked.id, context_id=asked.context_id)
        equal((done.id, state(done)), (asked.id, 'completed'), 'answered elsewhere')
        equal(texts(done)[-1], f'answered the left one@{replica}', 'who got the answer')
        made.append(asked.id)
        asked = await send(here, 'ask')
        canceled = await there.cancel_task(TaskIdParams(id=asked.id))
        equal((canceled.id, state(canceled)), (asked.id, 'canceled'), 'canceled elsewhere')
    async with connect(session) as here, connect(other) as there:
        async with aclosing(here.send_message(request('slow 30'))) as events:
            task_id = task_id_of(await anext(events))
            _, _, replica = event(await anext(events)).rpartition('@')
        seen = await _resubscribe(there, task_id)
        equal({one for _, one in seen}, {task_id}, 'task ids')
        equal(words(seen)[-1], 'status completed', 'last event')
        check(f'artifact =. slow 30@{replica}' in words(seen), f'no artifact from {replica}')
        made.append(task_id)
    stranger = {'bearer': session.args.stranger}
    async with connect(session, **stranger) as here, connect(other, **stranger) as there:
        for client in (here, there):
            for task_id in made:
                equal((await refused(client.get_task(TaskQueryParams(id=task_id))))['code'], -32001, 'for a stranger')
    return len(made)


async def fail(session: Session):
    async with connect(session, streaming=False) as client:
        task = await send(client, 'fail')
    equal(state(task), 'failed', 'state')
    return [state(task), get_message_text(task.status.message)]


async def _outcome(awaitable):
    """How an agent that raises comes across differs from SDK to SDK; it must not be a success."""
    try:
        answers = await awaitable
    except REFUSALS as error:
        return refusal(error) | {'message': str(error)}
    equal(answers[-1].split()[:2][-1], 'failed', f'last of {answers}')
    return answers


async def boom(session: Session):
    async def call():
        async with connect(session, streaming=False) as client:
            return words(await collect(client.send_message(request('boom'))))

    return await _outcome(call())


async def boom_stream(session: Session):
    async def call():
        async with connect(session) as client:
            return words(await collect(client.send_message(request('boom'))))

    return await _outcome(call())


async def parallel(session: Session):
    async with connect(session, streaming=False) as client, connect(session) as streamer:
        answers = await asyncio.gather(
            *(send(client, f'echo {n}') for n in range(10)),
            *(collect(streamer.send_message(request('stream 5'))) for _ in range(10)),
        )
    ids = set()
    for n, task in enumerate(answers[:10]):
        check(texts(task)[0].startswith(f'{n}@'), f'answer {n} is {texts(task)[0]}')
        ids.add(task.id)
    for events in answers[10:]:
        equal(len(events), 8, 'events of a stream')
        equal(len({task_id for _, task_id in events}), 1, 'task ids in one stream')
        ids.add(events[0][1])
    equal(len(ids), 20, 'different tasks')
    return len(answers)


async def _without(session: Session, **credential):
    if not session.args.expect_auth:
        raise NotApplicable('nothing in front of the agent asks for a credential')
    async with session.http() as http:
        card = await A2ACardResolver(http, session.base).get_agent_card()
    seen = []
    calls = {
        'send': (False, lambda c: send(c, 'echo hello')),
        'stream': (True, lambda c: collect(c.send_message(request('stream 1')))),
        'get': (True, lambda c: c.get_task(TaskQueryParams(id=UNKNOWN_TASK))),
    }
    if BLIND == 'resubscribe':
        calls['resubscribe'] = (True, lambda c: _resubscribe(c, UNKNOWN_TASK))
    for what, (streaming, call) in calls.items():
        async with connect(session, streaming=streaming, card=card, **credential) as client:
            error = await failure(call(client))
        session.refused(what, error)
        if not session.args.grpc:
            equal(refusal(error), {'error': 'A2AClientHTTPError', 'code': 400 if what == BLIND else 401}, what)
        seen.append([what, refusal(error)['code']])
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
            'message': message,
            'message-stream': message_stream,
            'stream': stream,
            'stream-live': stream_live,
            'get': get,
            'get-unknown': get_unknown,
            'cancel': cancel,
            'cancel-unknown': cancel_unknown,
            'cancel-finished': cancel_finished,
            'input-required': input_required,
            'send-to-finished': send_to_finished,
            'send-to-unknown': send_to_unknown,
            'resubscribe': resubscribe,
            'resubscribe-finished': resubscribe_finished,
            'resubscribe-unknown': resubscribe_unknown,
            'push': push,
            'push-unknown': push_unknown,
            'webhook': webhook,
            'list-tasks': list_tasks,
            'handover': handover,
            'fail': fail,
            'boom': boom,
            'boom-stream': boom_stream,
            'parallel': parallel,
            'unauthenticated': unauthenticated,
            'bad-token': bad_token,
        }
    )
