"""What the client of the Python SDK 0.3 has and the one of 0.2 lacks, made of the calls that 0.2 has: a factory, answers without
their envelope, errors that are raised. It has no call for a resubscribe; the extended card is fetched with a GET.
"""

import uuid
from dataclasses import dataclass, field

import httpx
from a2a.client import A2ACardResolver, A2AClient, A2AClientError
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    JSONRPCErrorResponse,
    Message,
    MessageSendConfiguration,
    MessageSendParams,
    PushNotificationConfig,
    SendMessageRequest,
    SendStreamingMessageRequest,
    SetTaskPushNotificationConfigRequest,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.constants import EXTENDED_AGENT_CARD_PATH

from harness import NotApplicable


class A2AClientJSONRPCError(A2AClientError):
    def __init__(self, response: JSONRPCErrorResponse) -> None:
        self.error = response.error
        super().__init__(f'JSON-RPC Error {response.error}')


@dataclass(frozen=True)
class ClientConfig:
    streaming: bool = True
    httpx_client: httpx.AsyncClient | None = None
    polling: bool = False
    push_notification_configs: list[PushNotificationConfig] = field(default_factory=list)


def _result(response):
    if isinstance(response.root, JSONRPCErrorResponse):
        raise A2AClientJSONRPCError(response.root)
    return response.root.result


def _named(request, params):
    return request(id=str(uuid.uuid4()), params=params)


class ClientFactory:
    @staticmethod
    async def connect(agent: str | AgentCard, config: ClientConfig) -> 'Client':
        if isinstance(agent, AgentCard):
            return Client(agent.url, A2AClient(config.httpx_client, agent_card=agent), config)
        client = await A2AClient.get_client_from_agent_card_url(config.httpx_client, agent)
        return Client(agent, client, config)


class Client:
    def __init__(self, base: str, calls: A2AClient, config: ClientConfig) -> None:
        self.base, self.calls, self.config = base, calls, config

    async def get_card(self) -> AgentCard:
        return await A2ACardResolver(self.config.httpx_client, self.base).get_agent_card(EXTENDED_AGENT_CARD_PATH)

    async def send_message(self, message: Message):
        """A message, or the task with the update that changed it."""
        configuration = None
        for hook in self.config.push_notification_configs:
            configuration = MessageSendConfiguration(
                accepted_output_modes=[], blocking=not self.config.polling, push_notification_config=hook
            )
        params = MessageSendParams(message=message, configuration=configuration)
        if not self.config.streaming:
            answer = _result(await self.calls.send_message(_named(SendMessageRequest, params)))
            yield answer if isinstance(answer, Message) else (answer, None)
            return
        async for response in self.calls.send_message_streaming(_named(SendStreamingMessageRequest, params)):
            answer = _result(response)
            if isinstance(answer, Message):
                yield answer
            elif isinstance(answer, Task):
                yield answer, None
            else:
                known = answer.status if isinstance(answer, TaskStatusUpdateEvent) else TaskStatus(state=TaskState.unknown)
                yield Task(id=answer.task_id, context_id=answer.context_id, status=known), answer

    async def get_task(self, params):
        return _result(await self.calls.get_task(_named(GetTaskRequest, params)))

    async def cancel_task(self, params):
        return _result(await self.calls.cancel_task(_named(CancelTaskRequest, params)))

    async def set_task_callback(self, params):
        return _result(await self.calls.set_task_callback(_named(SetTaskPushNotificationConfigRequest, params)))

    async def get_task_callback(self, params):
        return _result(await self.calls.get_task_callback(_named(GetTaskPushNotificationConfigRequest, params)))

    async def resubscribe(self, params):
        raise NotApplicable('the client of the Python SDK 0.2 has no resubscribe')
        yield
