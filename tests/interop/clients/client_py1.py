"""Scenarios of a client on the Python SDK 1.x. It speaks 1.0, or 0.3 when that is all that the card offers or what
`--only` asks for, over JSON-RPC or, with `--rest`, HTTP+JSON or, with `--grpc`, gRPC.
"""

import asyncio
import tempfile
import uuid
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.helpers import get_artifact_text, get_message_text, new_text_message
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError, MethodNotFoundError

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


def state(task_or_update) -> str:
    return TaskState.Name(task_or_update.status.state).removeprefix('TASK_STATE_').lower().replace('_', '-')


def texts(task) -> list[str]:
    return [get_artifact_text(artifact, delimiter='|') for artifact in task.artifacts]


def refusal(error: Exception) -> dict:
    code = JSON_RPC_ERROR_CODE_MAP.get(type(error))
    # The SDK's HTTP+JSON of 0.3: it takes the type from a member that nobody sends, and otherwise goes by the status.
    if isinstance(error, (A2AClientError, MethodNotFoundError)) and isinstance(error.__cause__, httpx.HTTPStatusError):
        code = CODE_OF_STATUS.get(error.__cause__.response.status_code)
    return {'error': type(error).__name__, 'code': code}


def event(response) -> str:
    kind = response.WhichOneof('payload')
    if kind == 'task':
        return f'task {state(response.task)}'
    if kind == 'message':
        return f'message {get_message_text(response.message)}'
    if kind == 'status_update':
        said = get_message_text(response.status_update.status.message)
        return f'status {state(response.status_update)} {said}'.strip()
    update = response.artifact_update
    flags = f'{"+" if update.append else "="}{"." if update.last_chunk else ""}'
    return f'artifact {flags} {get_artifact_text(update.artifact)}'


def task_id_of(response) -> str:
    kind = response.WhichOneof('payload')
    return response.task.id if kind == 'task' else getattr(response, kind).task_id


def request(text: str, task_id: str = '', context_id: str = '', **configuration) -> SendMessageRequest:
    return SendMessageRequest(
        message=new_text_message(text, role=Role.ROLE_USER, task_id=task_id, context_id=context_id),
        configuration=SendMessageConfiguration(**configuration) if configuration else None,
    )


@asynccontextmanager
async def connect(session: Session, streaming: bool = True, card=None, **credential):
    """A client made by the SDK from nothing but the published card."""
    async with session.http(**credential) as http, session.channels(**credential) as channel:
        yield await build(session, http, channel, streaming, card)


def binding(session: Session) -> str:
    if session.args.grpc:
        return TransportProtocol.GRPC
    return TransportProtocol.HTTP_JSON if session.args.rest else TransportProtocol.JSONRPC


async def build(session: Session, http, channel, streaming: bool, card):
    config = ClientConfig(
        streaming=streaming,
        httpx_client=http,
        grpc_channel_factory=channel,
        supported_protocol_bindings=[binding(session)],
    )
    factory = ClientFactory(config)
    if only := session.args.only:
        card = card or await A2ACardResolver(http, session.base).get_agent_card()
        offered = [one for one in card.supported_interfaces if one.protocol_version.startswith(only)]
        check(offered, f'the card offers no {only}')
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(offered)
    return factory.create(card) if card else await factory.create_from_url(session.base)


async def send(client, text: str, **more):
    """The one answer of a call that does not stream: a task or a message."""
    answers = [answer async for answer in client.send_message(request(text, **more))]
    equal(len(answers), 1, 'answers to a unary send')
    return getattr(answers[0], answers[0].WhichOneof('payload'))


async def failure(awaitable) -> A2AError:
    try:
        answer = await awaitable
    except A2AError as error:
        return error
    raise AssertionError(f'no error but {answer!r}')


async def refused(awaitable) -> dict:
    return refusal(await failure(awaitable))


async def collect(stream) -> list:
    return [response async for response in stream]


def is_03(client) -> bool:
    return type(client._transport).__name__.startswith('Compat')


async def card_(session: Session):
    async with session.http() as http:
        card = await A2ACardResolver(http, session.base).get_agent_card()
    check(card.name, 'a card without a name')
    check(card.supported_interfaces, 'a card without an interface')
    for interface in card.supported_interfaces:
        check(is_under(interface.url, session.base), f'the card shows {interface.url}')
    check(card.capabilities.streaming, 'streaming is not announced')
    return {
        'name': card.name,
        'told': [[i.protocol_binding, i.protocol_version] for i in card.supported_interfaces],
        'skills': [skill.id for skill in card.skills],
        'push': card.capabilities.push_notifications,
        'extended': card.capabilities.extended_agent_card,
    }


async def extended_card(session: Session):
    async with connect(session) as client:
        card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
    check(card.name.endswith('(extended)'), f'{card.name!r} is not the extended card')
    for interface in card.supported_interfaces:
        check(is_under(interface.url, session.base), f'the extended card shows {interface.url}')
    return {'name': card.name, 'skills': [skill.id for skill in card.skills]}


async def _echo(session: Session, text: str):
    async with connect(session, streaming=False) as client:
        task = await send(client, f'echo {text}')
    equal(state(task), 'completed', 'state')
    check(task.id and task.context_id, 'a task without ids')
    equal(len(task.artifacts), 1, 'artifacts')
    said, _, replica = texts(task)[0].rpartition('@')
    equal(said, text, 'artifact')
    return {'state': state(task), 'replica': replica, 'history': [get_message_text(m)[:40] for m in task.history]}


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
    equal(answer.role, Role.ROLE_AGENT, 'role')
    return get_message_text(answer)


async def message_stream(session: Session):
    async with connect(session) as client:
        events = [event(e) for e in await collect(client.send_message(request('message hello')))]
    equal(len(events), 1, 'events')
    check(events[0].startswith('message hello@'), events[0])
    return events


async def stream(session: Session):
    async with connect(session) as client:
        responses = await collect(client.send_message(request('stream 20')))
    events = [event(e) for e in responses]
    expected = ['task submitted', 'status working']
    expected += [f'artifact {"+" if n > 1 else "="}{"." if n == 20 else ""} chunk {n}' for n in range(1, 21)]
    equal(events[:-1], expected, 'events')
    check(events[-1].startswith('status completed done@'), events[-1])
    equal(len({task_id_of(e) for e in responses}), 1, 'task ids')
    return events


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
        task = await client.get_task(GetTaskRequest(id=made.id))
    equal(task.id, made.id, 'id')
    equal(task.context_id, made.context_id, 'context')
    check(texts(task)[0].startswith('hello@'), texts(task)[0])
    return {'state': state(task), 'artifacts': texts(task), 'history': [get_message_text(m) for m in task.history]}


async def get_unknown(session: Session):
    async with connect(session) as client:
        seen = await refused(client.get_task(GetTaskRequest(id=UNKNOWN_TASK)))
    equal(seen['code'], -32001, 'code')
    return seen


async def cancel(session: Session):
    async with connect(session) as client:
        async with aclosing(client.send_message(request('slow 150'))) as events:
            first = await anext(events)
            task_id = task_id_of(first)
            second = event(await anext(events))
            canceled = await client.cancel_task(CancelTaskRequest(id=task_id))
            after = await ends(events)
        task = await client.get_task(GetTaskRequest(id=task_id))
    equal(state(canceled), 'canceled', 'answer to cancel')
    equal(state(task), 'canceled', 'state afterwards')
    return [event(first), second, state(canceled), state(task), after]


async def cancel_unknown(session: Session):
    async with connect(session) as client:
        seen = await refused(client.cancel_task(CancelTaskRequest(id=UNKNOWN_TASK)))
    equal(seen['code'], -32001, 'code')
    return seen


async def cancel_finished(session: Session):
    async with connect(session, streaming=False) as client:
        task = await send(client, 'echo done')
        seen = await refused(client.cancel_task(CancelTaskRequest(id=task.id)))
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


async def _subscribe(client, task_id: str):
    return await collect(client.subscribe(SubscribeToTaskRequest(id=task_id)))


async def resubscribe(session: Session):
    async with connect(session) as client:
        events = client.send_message(request('slow 20'))
        task_id = task_id_of(await anext(events))
        await anext(events)
        await events.aclose()
    # Leaving the block has closed the connection as well.
    await asyncio.sleep(0.3)
    async with connect(session) as client:
        responses = await _subscribe(client, task_id)
        task = await client.get_task(GetTaskRequest(id=task_id))
    equal({task_id_of(e) for e in responses}, {task_id}, 'task ids')
    equal(event(responses[-1]), 'status completed', 'last event')
    check(any(event(e).startswith('artifact =. slow 20@') for e in responses), 'the artifact did not come')
    equal(state(task), 'completed', 'state afterwards')
    return [event(responses[0]).split()[0], event(responses[-2]), event(responses[-1]), state(task), texts(task)]


async def resubscribe_finished(session: Session):
    async with connect(session, streaming=False) as client:
        task = await send(client, 'echo done')
    async with connect(session) as client:
        try:
            events = await _subscribe(client, task.id)
        except A2AError as error:
            return refusal(error)
    # Agents on the JavaScript SDK 0.3 tell the task and end.
    equal([(event(one), task_id_of(one)) for one in events], [('task completed', task.id)], 'events')
    return [event(one) for one in events]


async def resubscribe_unknown(session: Session):
    async with connect(session) as client:
        seen = await refused(_subscribe(client, UNKNOWN_TASK))
    # In 0.3 the client misses the code of an error that a JavaScript agent puts on the stream.
    if not (is_03(client) and seen['code'] is None):
        equal(seen['code'], -32001, 'code')
    return seen


async def push(session: Session):
    async with connect(session, streaming=False) as client:
        task = await send(client, 'ask')
        made = await client.create_task_push_notification_config(
            TaskPushNotificationConfig(task_id=task.id, id='hook-1', url=HOOK, token='secret')
        )
        equal((made.task_id, made.id, made.url), (task.id, 'hook-1', HOOK), 'created')
        got = await client.get_task_push_notification_config(
            GetTaskPushNotificationConfigRequest(task_id=task.id, id='hook-1')
        )
        equal((got.task_id, got.id, got.url), (task.id, 'hook-1', HOOK), 'got')
        # Over HTTP+JSON of 0.3 this SDK has no list and no delete.
        if not (session.args.rest and is_03(client)):
            listed = await client.list_task_push_notification_configs(
                ListTaskPushNotificationConfigsRequest(task_id=task.id)
            )
            equal([config.id for config in listed.configs], ['hook-1'], 'listed')
            await client.delete_task_push_notification_config(
                DeleteTaskPushNotificationConfigRequest(task_id=task.id, id='hook-1')
            )
            left = await client.list_task_push_notification_configs(
                ListTaskPushNotificationConfigsRequest(task_id=task.id)
            )
            equal(len(left.configs), 0, 'left after the delete')
        await client.cancel_task(CancelTaskRequest(id=task.id))
    return {'token': got.token}


async def push_unknown(session: Session):
    async with connect(session) as client:
        seen = await refused(
            client.create_task_push_notification_config(
                TaskPushNotificationConfig(task_id=UNKNOWN_TASK, id='hook-1', url=HOOK)
            )
        )
    equal(seen['code'], -32001, 'code')
    return seen


async def webhook(session: Session):
    """The driver listens, and judges what it hears of these tasks by the way in which their webhooks were set."""

    def hook(way: str) -> dict:
        return {'task_push_notification_config': TaskPushNotificationConfig(**session.webhook(way))}

    async with connect(session, streaming=False) as client:
        sent = await send(client, 'echo hello', **hook('send'))
        later = await send(client, 'slow 2', return_immediately=True, **hook('later'))
        asked = await send(client, 'ask')
        await client.create_task_push_notification_config(
            TaskPushNotificationConfig(task_id=asked.id, **session.webhook('set'))
        )
        await send(client, 'the left one', task_id=asked.id, context_id=asked.context_id)
    async with connect(session) as client:
        streamed = await collect(client.send_message(request('stream 3', **hook('stream'))))
    return {'send': sent.id, 'later': later.id, 'set': asked.id, 'stream': task_id_of(streamed[0])}


async def list_tasks(session: Session):
    async with connect(session, streaming=False) as client:
        if is_03(client):
            raise NotApplicable('A2A 0.3 has no ListTasks')
        context = str(uuid.uuid4())
        made = [(await send(client, f'echo {n}', context_id=context)).id for n in range(3)]
        whole = await client.list_tasks(ListTasksRequest(context_id=context, include_artifacts=True))
        equal({task.id for task in whole.tasks}, set(made), 'tasks of the context')
        paged, token = [], ''
        for _ in range(5):
            page = await client.list_tasks(ListTasksRequest(context_id=context, page_size=2, page_token=token))
            paged += [task.id for task in page.tasks]
            token = page.next_page_token
            if not token:
                break
        equal(sorted(paged), sorted(made), 'tasks over pages')
    return {'total': whole.total_size, 'artifacts': sorted(t for task in whole.tasks for t in texts(task))}


async def handover(session: Session):
    """What is made through one gateway is used through another, at the replica that made it, and by nobody else."""
    other = session.elsewhere()
    made = []
    async with connect(session, streaming=False) as here, connect(other, streaming=False) as there:
        for n in range(4):
            task = await send(here, f'echo {n}')
            got = await there.get_task(GetTaskRequest(id=task.id))
            equal((got.id, state(got), texts(got)), (task.id, 'completed', texts(task)), 'got elsewhere')
            made.append(task.id)
        asked = await send(here, 'ask')
        _, _, replica = get_message_text(asked.status.message).rpartition('@')
        done = await send(there, 'the left one', task_id=asked.id, context_id=asked.context_id)
        equal((done.id, state(done)), (asked.id, 'completed'), 'answered elsewhere')
        equal(texts(done)[-1], f'answered the left one@{replica}', 'who got the answer')
        made.append(asked.id)
        asked = await send(here, 'ask')
        canceled = await there.cancel_task(CancelTaskRequest(id=asked.id))
        equal((canceled.id, state(canceled)), (asked.id, 'canceled'), 'canceled elsewhere')
    async with connect(session) as here, connect(other) as there:
        async with aclosing(here.send_message(request('slow 30'))) as events:
            task_id = task_id_of(await anext(events))
            _, _, replica = event(await anext(events)).rpartition('@')
        responses = await _subscribe(there, task_id)
        equal({task_id_of(e) for e in responses}, {task_id}, 'task ids')
        equal(event(responses[-1]), 'status completed', 'last event')
        check(f'artifact =. slow 30@{replica}' in map(event, responses), f'no artifact from {replica}')
        made.append(task_id)
        if not is_03(here):
            await _one_list(here, there, made)
    stranger = {'bearer': session.args.stranger}
    async with connect(session, **stranger) as here, connect(other, **stranger) as there:
        for client in (here, there):
            for task_id in made:
                equal((await refused(client.get_task(GetTaskRequest(id=task_id))))['code'], -32001, 'for a stranger')
            if not is_03(client):
                equal(len((await client.list_tasks(ListTasksRequest())).tasks), 0, 'tasks of a stranger')
    return len(made)


async def _one_list(here, there, made: list[str]) -> None:
    """Each page from the gateway that did not give the one before, so every token is read by the one that did not make it."""
    seen, token = [], ''
    for turn in range(100):
        asked = ListTasksRequest(status=TaskState.TASK_STATE_COMPLETED, page_size=3, page_token=token)
        page = await (there if turn % 2 else here).list_tasks(asked)
        seen += [task.id for task in page.tasks]
        token = page.next_page_token
        if not token:
            break
    check(turn > 0, 'one page holds everything')
    equal(len(seen), len(set(seen)), 'a task is listed once')
    equal(set(made) - set(seen), set(), 'missing in the list')


async def fail(session: Session):
    async with connect(session, streaming=False) as client:
        task = await send(client, 'fail')
    equal(state(task), 'failed', 'state')
    return [state(task), get_message_text(task.status.message)]


async def _outcome(awaitable):
    """How an agent that raises comes across differs from SDK to SDK; it must not be a success."""
    try:
        answers = await awaitable
    except A2AError as error:
        return refusal(error) | {'message': str(error)}
    equal(answers[-1].split()[:2][-1], 'failed', f'last of {answers}')
    return answers


async def boom(session: Session):
    async def call():
        async with connect(session, streaming=False) as client:
            return [event(e) for e in await collect(client.send_message(request('boom')))]

    return await _outcome(call())


async def boom_stream(session: Session):
    async def call():
        async with connect(session) as client:
            return [event(e) for e in await collect(client.send_message(request('boom')))]

    return await _outcome(call())


async def parallel(session: Session):
    async with connect(session, streaming=False) as client, connect(session) as streamer:
        answers = await asyncio.gather(
            *(send(client, f'echo {n}') for n in range(10)),
            *(collect(streamer.send_message(request('stream 5'))) for _ in range(10)),
        )
    for n, task in enumerate(answers[:10]):
        check(texts(task)[0].startswith(f'{n}@'), f'answer {n} is {texts(task)[0]}')
    for events in answers[10:]:
        equal(len(events), 8, 'events of a stream')
        equal(len({task_id_of(e) for e in events}), 1, 'task ids in one stream')
    equal(len({task.id for task in answers[:10]} | {task_id_of(e[0]) for e in answers[10:]}), 20, 'different tasks')
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
        'get': (True, lambda c: c.get_task(GetTaskRequest(id=UNKNOWN_TASK))),
        'resubscribe': (True, lambda c: _subscribe(c, UNKNOWN_TASK)),
    }
    for what, (streaming, call) in calls.items():
        async with connect(session, streaming=streaming, card=card, **credential) as client:
            error = await failure(call(client))
        session.refused(what, error)
        seen.append([what, refusal(error)['error']])
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
