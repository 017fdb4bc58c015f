// An A2A 1.0 agent on the JavaScript SDK 1.x: JSON-RPC at `/`, or with `--rest` HTTP+JSON, or
// with `--grpc` gRPC on another port; tasks and push configurations in memory.
//
// With `--compat` it answers 0.3 too, on the same URL, and serves the card at the path of 0.2 as well; which card it
// serves then depends on `A2A-Version`.
// The tasks are known to this process only: a request that reaches another replica fails, and that is what
// the suite looks for. Webhooks are told by the SDK's own sender.

import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';

import { Role, TaskState } from '@a2a-js/sdk';
import { duplicateInterfacesForLegacy } from '@a2a-js/sdk/compat/v0_3';
import { createLegacyAwarePushNotificationSender } from '@a2a-js/sdk/compat/v0_3/server';
import { AgentEvent, DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import express from 'express';

const { values: args } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    'card-url': { type: 'string' },
    name: { type: 'string', default: 'agent' },
    replica: { type: 'string', default: 'r1' },
    compat: { type: 'boolean', default: false },
    rest: { type: 'boolean', default: false },
    grpc: { type: 'boolean', default: false },
  },
});

if (!process.env.AGENT_LOG) {
  // "boom" makes the SDK print a stack trace for each call, which would hide what matters.
  console.error = console.warn = () => {};
}

const textPart = (text) => ({ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' });
const replica = (text) => `${text}@${args.replica}`;

class Executor {
  #contexts = new Map();
  #canceled = new Set();

  async execute(request, bus) {
    const text = request.userMessage.parts.map((part) => part.content?.value ?? '').join('');
    const space = text.indexOf(' ');
    const word = space < 0 ? text : text.slice(0, space);
    const rest = space < 0 ? '' : text.slice(space + 1);
    const { taskId, contextId } = request;
    const message = (words, inTask = true) => ({
      messageId: randomUUID(),
      contextId,
      taskId: inTask ? taskId : '',
      role: Role.ROLE_AGENT,
      parts: [textPart(replica(words))],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    });
    const status = (state, words) =>
      bus.publish(
        AgentEvent.statusUpdate({
          taskId,
          contextId,
          status: { state, message: words && message(words), timestamp: new Date().toISOString() },
          metadata: undefined,
        }),
      );
    const artifact = (artifactId, words, { append = false, lastChunk = true } = {}) =>
      bus.publish(
        AgentEvent.artifactUpdate({
          taskId,
          contextId,
          artifact: { artifactId, name: artifactId, description: '', parts: [textPart(words)], metadata: undefined, extensions: [] },
          append,
          lastChunk,
          metadata: undefined,
        }),
      );

    if (word === 'boom') throw new Error('boom as asked');
    if (word === 'message') {
      bus.publish(AgentEvent.message(message(rest, false)));
      bus.finished();
      return;
    }
    const asked = request.task?.status?.state === TaskState.TASK_STATE_INPUT_REQUIRED;
    this.#contexts.set(taskId, contextId);
    bus.publish(
      AgentEvent.task(
        request.task ?? {
          id: taskId,
          contextId,
          status: { state: TaskState.TASK_STATE_SUBMITTED, message: undefined, timestamp: new Date().toISOString() },
          artifacts: [],
          history: [request.userMessage],
          metadata: undefined,
        },
      ),
    );
    if (asked) {
      status(TaskState.TASK_STATE_WORKING);
      artifact('answer', replica(`answered ${text}`));
      status(TaskState.TASK_STATE_COMPLETED);
    } else if (word === 'echo') {
      status(TaskState.TASK_STATE_WORKING);
      artifact('echo', replica(rest));
      status(TaskState.TASK_STATE_COMPLETED);
    } else if (word === 'stream') {
      status(TaskState.TASK_STATE_WORKING);
      const count = Number(rest);
      for (let number = 1; number <= count; number += 1) {
        artifact('stream', `chunk ${number}`, { append: number > 1, lastChunk: number === count });
        await sleep(20);
      }
      status(TaskState.TASK_STATE_COMPLETED, 'done');
    } else if (word === 'slow') {
      const [steps, pause = '100'] = rest.split(' ');
      for (let number = 0; number < Number(steps); number += 1) {
        if (this.#canceled.delete(taskId)) return;
        status(TaskState.TASK_STATE_WORKING, `step ${number}`);
        await sleep(Number(pause));
      }
      if (this.#canceled.delete(taskId)) return;
      artifact('slow', replica(`slow ${rest}`));
      status(TaskState.TASK_STATE_COMPLETED);
    } else if (word === 'gate') {
      status(TaskState.TASK_STATE_WORKING, 'waiting');
      for (let tries = 0; !existsSync(rest); tries += 1) {
        if (tries === 750) throw new Error('nobody opened the gate within 15 s');
        await sleep(20);
      }
      status(TaskState.TASK_STATE_COMPLETED);
    } else if (word === 'ask') {
      status(TaskState.TASK_STATE_INPUT_REQUIRED, 'which one?');
    } else if (word === 'fail') {
      status(TaskState.TASK_STATE_FAILED, 'failed as asked');
    } else {
      status(TaskState.TASK_STATE_REJECTED, `no skill '${word}'`);
    }
  }

  async cancelTask(taskId, bus) {
    this.#canceled.add(taskId);
    bus.publish(
      AgentEvent.statusUpdate({
        taskId,
        contextId: this.#contexts.get(taskId) ?? '',
        status: { state: TaskState.TASK_STATE_CANCELED, message: undefined, timestamp: new Date().toISOString() },
        metadata: undefined,
      }),
    );
  }
}

const skills = {
  echo: 'echo TEXT: a finished task with TEXT as artifact',
  message: 'message TEXT: a message, no task',
  stream: 'stream N: N artifact chunks',
  slow: 'slow N [MS]: works for N times 100 (or MS) ms',
  gate: 'gate PATH: says that it waits, and finishes once the file PATH is there',
  ask: 'ask: asks back; the next message finishes the task',
  fail: 'fail: a failed task',
  boom: 'boom: raises',
};

const app = express();
const server = app.listen(Number(args.port), '127.0.0.1', async () => {
  const { port } = server.address();
  const url = args['card-url'] ?? `http://127.0.0.1:${port}/`;
  const binding = args.rest ? 'HTTP+JSON' : args.grpc ? 'GRPC' : 'JSONRPC';
  const interfaces = [{ url, protocolBinding: binding, tenant: '', protocolVersion: '1.0' }];
  const card = {
    name: args.name,
    description: 'Interop agent on the JavaScript SDK 1.x',
    version: '1.0.0',
    supportedInterfaces: args.compat ? duplicateInterfacesForLegacy(interfaces, [binding]) : interfaces,
    provider: undefined,
    capabilities: { streaming: true, pushNotifications: true, extensions: [], extendedAgentCard: true },
    securitySchemes: {},
    securityRequirements: [],
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: Object.entries(skills).map(([id, description]) => ({
      id,
      name: id,
      description,
      tags: ['interop'],
      examples: [id],
      inputModes: [],
      outputModes: [],
      securityRequirements: [],
    })),
    signatures: [],
  };
  const hooks = new InMemoryPushNotificationStore();
  const handler = new DefaultRequestHandler(
    card,
    new InMemoryTaskStore(),
    new Executor(),
    undefined,
    hooks,
    createLegacyAwarePushNotificationSender(hooks),
    async () => ({ ...card, name: `${args.name} (extended)` }),
  );
  const legacyCompat = { enabled: args.compat };
  const paths = args.compat ? ['agent-card.json', 'agent.json'] : ['agent-card.json'];
  for (const path of paths) {
    app.use(`/.well-known/${path}`, agentCardHandler({ agentCardProvider: handler, legacyCompat }));
  }
  if (args.grpc) {
    const { A2AService, grpcService, UserBuilder: GrpcUserBuilder } = await import('@a2a-js/sdk/server/grpc');
    const { Server, ServerCredentials } = await import('@grpc/grpc-js');
    const grpc = new Server();
    grpc.addService(A2AService, grpcService({ requestHandler: handler, userBuilder: GrpcUserBuilder.noAuthentication }));
    const bind = promisify(grpc.bindAsync.bind(grpc));
    const grpcPort = await bind('127.0.0.1:0', ServerCredentials.createInsecure());
    for (const one of card.supportedInterfaces) one.url = `127.0.0.1:${grpcPort}`;
  } else {
    const calls = args.rest ? restHandler : jsonRpcHandler;
    app.use(calls({ requestHandler: handler, userBuilder: UserBuilder.noAuthentication, legacyCompat }));
  }
  console.log(`READY ${port}`);
});
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(0));
