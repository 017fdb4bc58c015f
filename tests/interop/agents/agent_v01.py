"""A scripted agent of A2A 0.1, for which there is no SDK: JSON-RPC at `/`, the card at `/.well-known/agent.json` alone.

It answers as the recorded server of the reference implementation does: errors that the server itself finds come with HTTP 400
and without an id, those about a task with 200; a history only on request; events have no session, and no task comes on
a stream. Requests are read to the letter (`schema_v01.py`), so that whoever calls it in another form hears of it. Tasks
and webhooks are known to this process only.
"""

import asyncio
import contextlib
import json
import sys
from datetime import datetime
from pathlib import Path

import httpx
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

sys.path.append(str(Path(__file__).resolve().parent.parent))

from schema_v01 import PARAMS, WrongForm, fits
from serving import arguments, listen, serve, skills, until_there

ENDED = ('completed', 'canceled', 'failed')
NOT_FOUND = (-32001, 'Task not found')
NOT_CANCELABLE = (-32002, 'Task cannot be canceled')
INTERNAL = -32603


class Refusal(Exception):
    """About a task: a JSON-RPC error like any other answer."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.error = {'code': code, 'message': text}


def message(role: str, text: str) -> dict:
    return {'role': role, 'parts': [{'type': 'text', 'text': text}]}


def bare(value: object) -> object:
    """Without what is null; that is how everything is stored and told."""
    if isinstance(value, dict):
        return {name: bare(content) for name, content in value.items() if content is not None}
    return value


class Work:
    """A task, whoever listens to it, and what is done for it."""

    def __init__(self, params: dict, hooks: httpx.AsyncClient) -> None:
        self.id = params['id']
        self.session = params.get('sessionId')
        self.history: list[dict] = []
        self.artifacts: list[dict] = []
        self.hook: dict | None = None
        self.job: asyncio.Task | None = None
        self.listeners: list[asyncio.Queue] = []
        self._hooks = hooks
        self.tell('submitted')

    def tell(self, state: str, text: str | None = None) -> None:
        self.status = {'state': state, 'timestamp': datetime.now().isoformat()}
        if text is not None:
            self.status['message'] = message('agent', text)
            self.history.append(self.status['message'])

    def is_over(self) -> bool:
        """Whether a stream ends here."""
        return self.status['state'] in (*ENDED, 'input-required')

    def event(self) -> dict:
        return {'id': self.id, 'status': self.status, 'final': self.is_over()}

    def told(self, history: int | None) -> dict:
        task = {'id': self.id, 'sessionId': self.session, 'status': self.status, 'artifacts': self.artifacts or None}
        return bare(task | {'history': self.history[-history:] if history else []})

    def publish(self, event: dict) -> None:
        for listener in self.listeners:
            listener.put_nowait(event)

    async def become(self, state: str, text: str | None = None) -> None:
        self.tell(state, text)
        # The recorded agent tells webhooks before anybody else.
        if self.hook:
            token = {'X-A2A-Notification-Token': self.hook['token']} if 'token' in self.hook else {}
            with contextlib.suppress(httpx.HTTPError):
                await self._hooks.post(self.hook['url'], json=self.told(len(self.history)), headers=token)
        self.publish(self.event())

    def add(self, text: str, name: str, append: bool = False, last: bool = True) -> None:
        parts = message('agent', text)['parts']
        if append:
            self.artifacts[-1]['parts'] += parts
        else:
            self.artifacts.append({'name': name, 'parts': list(parts), 'index': len(self.artifacts)})
        told = {} if append else {'name': name}
        told |= {'parts': parts, 'index': len(self.artifacts) - 1, 'append': append, 'lastChunk': last}
        self.publish({'id': self.id, 'artifact': told})


async def work(task: Work, text: str, replica: str) -> None:
    answers = task.status['state'] == 'input-required'
    word, _, rest = text.partition(' ')
    if answers:
        await task.become('working')
        task.add(f'answered {text}@{replica}', 'answer')
        await task.become('completed')
    elif word == 'boom':
        raise RuntimeError('boom as asked')
    elif word == 'message':
        # There are no messages instead of tasks.
        await task.become('completed', f'{rest}@{replica}')
    elif word == 'echo':
        await task.become('working')
        task.add(f'{rest}@{replica}', 'echo')
        await task.become('completed')
    elif word == 'stream':
        await task.become('working')
        for number in range(1, int(rest) + 1):
            task.add(f'chunk {number}', 'stream', append=number > 1, last=number == int(rest))
            await asyncio.sleep(0.02)
        await task.become('completed', f'done@{replica}')
    elif word == 'slow':
        steps, _, pause = rest.partition(' ')
        for number in range(int(steps)):
            await task.become('working', f'step {number}@{replica}')
            await asyncio.sleep(int(pause or 100) / 1000)
        task.add(f'slow {rest}@{replica}', 'slow')
        await task.become('completed')
    elif word == 'gate':
        await task.become('working', f'waiting@{replica}')
        await until_there(rest)
        await task.become('completed')
    elif word == 'ask':
        await task.become('input-required', f'which one?@{replica}')
    elif word == 'fail':
        await task.become('failed', f'failed as asked@{replica}')
    else:
        await task.become('failed', f'no skill {word!r}@{replica}')


class Server:
    def __init__(self, card: dict, replica: str) -> None:
        self.card = card
        self.replica = replica
        self.tasks: dict[str, Work] = {}
        self.hooks = httpx.AsyncClient(trust_env=False)

    def task(self, params: dict) -> Work:
        if params['id'] not in self.tasks:
            raise Refusal(*NOT_FOUND)
        return self.tasks[params['id']]

    def begin(self, params: dict) -> Work:
        """A send under an id that is there goes on with that task, even one that has ended."""
        task = self.tasks.setdefault(params['id'], Work(params, self.hooks))
        said = bare(params['message'])
        said['parts'] = [bare(part) for part in said['parts']]
        task.history.append(said)
        task.hook = bare(params.get('pushNotification')) or task.hook
        text = ''.join(part['text'] for part in said['parts'] if part['type'] == 'text')
        task.job = asyncio.create_task(work(task, text, self.replica))
        return task

    async def send(self, params: dict) -> dict:
        task = self.begin(params)
        await asyncio.wait([task.job])
        if not task.job.cancelled():
            task.job.result()
        return task.told(params.get('historyLength'))

    def subscribe(self, params: dict) -> asyncio.Queue:
        """Listens to the task from here on; one that has ended tells that and no more."""
        task = self.task(params)
        events: asyncio.Queue = asyncio.Queue()
        if task.is_over():
            events.put_nowait(task.event())
        else:
            task.listeners.append(events)
        return events

    def send_subscribe(self, params: dict) -> asyncio.Queue:
        task = self.begin(params)
        events: asyncio.Queue = asyncio.Queue()
        task.listeners.append(events)

        def broken(job: asyncio.Task) -> None:
            if not job.cancelled() and (error := job.exception()):
                said = f'An error occurred while streaming the response: {error}'
                task.publish({'code': INTERNAL, 'message': said})

        task.job.add_done_callback(broken)
        return events

    async def get(self, params: dict) -> dict:
        return self.task(params).told(params.get('historyLength'))

    async def cancel(self, params: dict) -> dict:
        task = self.task(params)
        if task.status['state'] in ENDED:
            raise Refusal(*NOT_CANCELABLE)
        task.job.cancel()
        await task.become('canceled')
        return task.told(None)

    async def set_push(self, params: dict) -> dict:
        if params['id'] not in self.tasks:
            raise Refusal(INTERNAL, 'An error occurred while setting push notification info')
        self.tasks[params['id']].hook = bare(params['pushNotificationConfig'])
        return bare(params)

    async def get_push(self, params: dict) -> dict:
        task = self.tasks.get(params['id'])
        if task is None or task.hook is None:
            raise Refusal(INTERNAL, 'An error occurred while getting push notification info')
        return {'id': task.id, 'pushNotificationConfig': task.hook}

    async def stream(self, request: str | int, task: Work, events: asyncio.Queue):
        try:
            while True:
                event = await events.get()
                kind = 'error' if 'code' in event else 'result'
                yield {'data': json.dumps({'jsonrpc': '2.0', 'id': request, kind: event}, ensure_ascii=False)}
                if kind == 'error' or event.get('final'):
                    return
        finally:
            if events in task.listeners:
                task.listeners.remove(events)

    async def answer(self, http: Request):
        try:
            call = json.loads(await http.body())
        except ValueError:
            return refused(-32700, 'Invalid JSON payload')
        try:
            fits(call, {'jsonrpc': str, 'id': (str, int), 'method': str, 'params': dict}, 'request')
            if call['method'] not in PARAMS:
                raise WrongForm(f'{call["method"]} is no method of 0.1')
            fits(call['params'], PARAMS[call['method']], 'params', nulls=True)
        except WrongForm as reason:
            return refused(-32600, 'Request payload validation error', data=[{'msg': str(reason)}])
        request, params = call['id'], call['params']
        subscribe = {'tasks/sendSubscribe': self.send_subscribe, 'tasks/resubscribe': self.subscribe}
        calls = {
            'tasks/send': self.send,
            'tasks/get': self.get,
            'tasks/cancel': self.cancel,
            'tasks/pushNotification/set': self.set_push,
            'tasks/pushNotification/get': self.get_push,
        }
        try:
            if call['method'] in subscribe:
                events = subscribe[call['method']](params)
                return EventSourceResponse(self.stream(request, self.tasks[params['id']], events))
            return JSONResponse({'jsonrpc': '2.0', 'id': request, 'result': await calls[call['method']](params)})
        except Refusal as refusal:
            return JSONResponse({'jsonrpc': '2.0', 'id': request, 'error': refusal.error})
        except Exception:
            # What the agent's own code raises, the reference server keeps to itself.
            return refused(INTERNAL, 'Internal error')

    async def show_card(self, _: Request) -> JSONResponse:
        return JSONResponse(self.card)


def refused(code: int, text: str, **more) -> JSONResponse:
    return JSONResponse({'jsonrpc': '2.0', 'error': {'code': code, 'message': text, **more}}, status_code=400)


def main() -> None:
    args = arguments()
    if args.compat or args.rest or args.grpc:
        raise SystemExit('0.1 has one form only')
    bound = listen(args.port)
    card = {
        'name': args.name,
        'description': 'Scripted interop agent of A2A 0.1',
        'url': args.card_url or f'http://127.0.0.1:{bound.getsockname()[1]}/',
        'version': '1.0.0',
        'capabilities': {'streaming': True, 'pushNotifications': True, 'stateTransitionHistory': False},
        'defaultInputModes': ['text/plain'],
        'defaultOutputModes': ['text/plain'],
        'skills': skills(),
    }
    server = Server(card, args.replica)
    routes = [
        Route('/', server.answer, methods=['POST']),
        Route('/.well-known/agent.json', server.show_card, methods=['GET']),
    ]
    serve(Starlette(routes=routes), bound)


if __name__ == '__main__':
    main()
