"""An A2A agent on the Python SDK 0.3, or on 0.2 where the environment holds that one: JSON-RPC at `/`, or with `--rest`
HTTP+JSON below `/v1`, or with `--grpc` gRPC on another port; tasks and push configurations in memory.

The tasks are known to this process only: a request that reaches another replica fails, and that is
what the suite looks for. Webhooks are told by the SDK's own sender.
"""

import asyncio

import httpx
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentSkill,
    Part,
    TaskNotCancelableError,
    TaskState,
    TextPart,
)
from a2a.utils import new_agent_text_message, new_task
from a2a.utils.errors import ServerError

from serving import arguments, listen, serve, serve_grpc, skills, until_there


def text_parts(text: str) -> list[Part]:
    return [Part(root=TextPart(text=text))]


class Executor(AgentExecutor):
    def __init__(self, replica: str) -> None:
        self.replica = replica

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        word, _, rest = context.get_user_input().partition(' ')
        if word == 'boom':
            raise RuntimeError('boom as asked')
        if word == 'message':
            await event_queue.enqueue_event(
                new_agent_text_message(f'{rest}@{self.replica}', context_id=context.context_id)
            )
            return
        task = context.current_task
        if task is None:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)

        def say(text: str):
            return updater.new_agent_message(text_parts(f'{text}@{self.replica}'))

        if task.status.state == TaskState.input_required:
            await updater.start_work()
            await updater.add_artifact(
                text_parts(f'answered {context.get_user_input()}@{self.replica}'), name='answer', last_chunk=True
            )
            await updater.complete()
        elif word == 'echo':
            await updater.start_work()
            await updater.add_artifact(text_parts(f'{rest}@{self.replica}'), name='echo', last_chunk=True)
            await updater.complete()
        elif word == 'stream':
            await updater.start_work()
            count = int(rest)
            for number in range(1, count + 1):
                await updater.add_artifact(
                    text_parts(f'chunk {number}'),
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
            await updater.add_artifact(text_parts(f'slow {rest}@{self.replica}'), name='slow', last_chunk=True)
            # Whoever subscribed loses what it has not read by the end, and over gRPC that takes a moment.
            await asyncio.sleep(0.1)
            await updater.complete()
        elif word == 'gate':
            await updater.start_work(say('waiting'))
            await until_there(rest)
            await updater.complete()
        elif word == 'ask':
            await updater.update_status(TaskState.input_required, say('which one?'), final=True)
        elif word == 'fail':
            await updater.failed(say('failed as asked'))
        else:
            await updater.reject(say(f'no skill {word!r}'))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        ended = (TaskState.completed, TaskState.failed, TaskState.rejected, TaskState.canceled)
        if context.current_task and context.current_task.status.state in ended:
            # 0.3 sees to it before it comes to this.
            raise ServerError(error=TaskNotCancelableError())
        await TaskUpdater(event_queue, context.task_id, context.context_id).update_status(
            TaskState.canceled, final=True
        )


def main() -> None:
    args = arguments()
    if args.compat:
        raise SystemExit('this SDK speaks one generation only')
    bound = listen(args.port)
    card = AgentCard(
        name=args.name,
        description='Interop agent on the Python SDK 0',
        version='1.0.0',
        url=args.card_url or f'http://127.0.0.1:{bound.getsockname()[1]}/',
        preferred_transport='HTTP+JSON' if args.rest else 'GRPC' if args.grpc else 'JSONRPC',
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=['text/plain'],
        default_output_modes=['text/plain'],
        skills=[AgentSkill(**skill) for skill in skills()],
        supports_authenticated_extended_card=True,
    )
    extended = card.model_copy(deep=True, update={'name': f'{args.name} (extended)'})
    hooks = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=Executor(args.replica),
        task_store=InMemoryTaskStore(),
        push_config_store=hooks,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(trust_env=False), hooks),
    )
    application = A2AStarletteApplication
    if args.rest:
        # 0.2 does not have it.
        from a2a.server.apps import A2ARESTFastAPIApplication as application

    async def grpc() -> None:
        from a2a.grpc.a2a_pb2_grpc import add_A2AServiceServicer_to_server
        from a2a.server.request_handlers.grpc_handler import GrpcHandler

        port = await serve_grpc(add_A2AServiceServicer_to_server, GrpcHandler(extended, handler))
        card.url = extended.url = f'127.0.0.1:{port}'

    serve(application(card, handler, extended_agent_card=extended).build(), bound, grpc if args.grpc else None)


if __name__ == '__main__':
    main()
