"""An A2A 1.0 agent on the Python SDK 1.x: JSON-RPC at `/`, or with `--rest` HTTP+JSON, or with `--grpc` gRPC on another
port; tasks and push configurations in memory.

With `--compat` it answers 0.3 too, on the same URL, and serves the card at the path of 0.2 as well. The tasks are known to this process only: a request
that reaches another replica fails, and that is what the suite looks for. Webhooks are told by the SDK's own sender.
"""

import asyncio

import httpx
from a2a.helpers import get_message_text, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, TaskState
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from starlette.applications import Starlette

from serving import arguments, listen, serve, serve_grpc, skills, until_there


class Executor(AgentExecutor):
    def __init__(self, replica: str) -> None:
        self.replica = replica

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = get_message_text(context.message)
        word, _, rest = text.partition(' ')
        if word == 'boom':
            raise RuntimeError('boom as asked')
        if word == 'message':
            await event_queue.enqueue_event(
                new_text_message(f'{rest}@{self.replica}', context_id=context.context_id)
            )
            return
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)

        def parts(words: str):
            return [new_text_part(words)]

        def say(words: str):
            return updater.new_agent_message(parts(f'{words}@{self.replica}'))

        if task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
            await updater.start_work()
            await updater.add_artifact(parts(f'answered {text}@{self.replica}'), name='answer', last_chunk=True)
            await updater.complete()
        elif word == 'echo':
            await updater.start_work()
            await updater.add_artifact(parts(f'{rest}@{self.replica}'), name='echo', last_chunk=True)
            await updater.complete()
        elif word == 'stream':
            await updater.start_work()
            count = int(rest)
            for number in range(1, count + 1):
                await updater.add_artifact(
                    parts(f'chunk {number}'),
                    artifact_id='stream',
                    append=number > 1,
                    last_chunk=number == count,
                )
                await asyncio.sleep(0.02)
            await updater.complete(say('done'))
        elif word == 'slow':
            steps, _, pause = rest.partition(' ')
            for number in range(int(steps)):
                await updater.start_work(say(f'step {number}'))
                await asyncio.sleep(int(pause or 100) / 1000)
            await updater.add_artifact(parts(f'slow {rest}@{self.replica}'), name='slow', last_chunk=True)
            await updater.complete()
        elif word == 'gate':
            await updater.start_work(say('waiting'))
            await until_there(rest)
            await updater.complete()
        elif word == 'ask':
            await updater.requires_input(say('which one?'))
        elif word == 'fail':
            await updater.failed(say('failed as asked'))
        else:
            await updater.reject(say(f'no skill {word!r}'))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def main() -> None:
    args = arguments()
    bound = listen(args.port)
    url = args.card_url or f'http://127.0.0.1:{bound.getsockname()[1]}/'
    versions = ['1.0', '0.3'] if args.compat else ['1.0']
    binding = 'HTTP+JSON' if args.rest else 'GRPC' if args.grpc else 'JSONRPC'
    card = AgentCard(
        name=args.name,
        description='Interop agent on the Python SDK 1.x',
        version='1.0.0',
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version=version) for version in versions
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        default_input_modes=['text/plain'],
        default_output_modes=['text/plain'],
        skills=[AgentSkill(**skill) for skill in skills()],
    )
    extended = AgentCard()
    extended.CopyFrom(card)
    extended.name = f'{args.name} (extended)'
    hooks = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=Executor(args.replica),
        task_store=InMemoryTaskStore(),
        agent_card=card,
        push_config_store=hooks,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(trust_env=False), hooks),
        extended_agent_card=extended,
    )
    if args.grpc:
        calls = []
    elif args.rest:
        calls = create_rest_routes(handler, enable_v0_3_compat=args.compat)
    else:
        calls = create_jsonrpc_routes(handler, rpc_url='/', enable_v0_3_compat=args.compat)
    routes = create_agent_card_routes(card) + calls
    if args.compat:
        routes += create_agent_card_routes(card, card_url='/.well-known/agent.json')

    async def grpc() -> None:
        port = await serve_grpc(add_A2AServiceServicer_to_server, GrpcHandler(handler))
        for one in (card, extended):
            for interface in one.supported_interfaces:
                interface.url = f'127.0.0.1:{port}'

    serve(Starlette(routes=routes), bound, grpc if args.grpc else None)


if __name__ == '__main__':
    main()
