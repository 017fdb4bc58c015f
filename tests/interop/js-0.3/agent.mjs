// An A2A 0.3 agent on the JavaScript SDK 0.3: JSON-RPC at `/`, tasks and push configurations in memory.
//
// The tasks are known to this process only: a request that reaches another replica fails, and that is what
// the suite looks for. Webhooks are told by the SDK's own sender. The card stands at the path of 0.2 as well.

import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import {
  DefaultPushNotificationSender,
  DefaultRequestHandler,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
} from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import express from 'express';

const { values: args } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    'card-url': { type: 'string' },
    name: { type: 'string', default: 'agent' },
    replica: { type: 'string', default: 'r1' },
  },
});

if (!process.env.AGENT_LOG) {
  // "boom" makes the SDK print a stack trace for each call, which would hide what matters.
  console.error = console.warn = () => {};
}

const textPart = (text) => ({ kind: 'text', text });
const replica = (text) => `${text}@${args.replica}`;

class Executor {
  #contexts = new Map();
  #canceled = new Set();

  async execute(request, bus) {
    const text = request.userMessage.parts.map((part) => part.text ?? '').join('');
    const space = text.indexOf(' ');
    const word = space < 0 ? text : text.slice(0, space);
    const rest = space < 0 ? '' : text.slice(space + 1);
    const { taskId, contextId } = request;
    const message = (words, inTask = true) => ({
      kind: 'message',
      messageId: randomUUID(),
      contextId,
      taskId: inTask ? taskId : undefined,
      role: 'agent',
      parts: [textPart(replica(words))],
    });
    const status = (state, words) =>
      bus.publish({
        kind: 'status-update',
        taskId,
        contextId,
        status: { state, message: words && message(words), timestamp: new Date().toISOString() },
        final: !['submitted', 'working'].includes(state),
      });
    const artifact = (artifactId, words, { append = false, lastChunk = true } = {}) =>
      bus.publish({
        kind: 'artifact-update',
        taskId,
        contextId,
        artifact: { artifactId, name: artifactId, parts: [textPart(words)] },
        append,
        lastChunk,
      });

    if (word === 'boom') throw new Error('boom as asked');
    if (word === 'message') {
      bus.publish(message(rest, false));
      bus.finished();
      return;
    }
    const asked = request.task?.status?.state === 'input-required';
    this.#contexts.set(taskId, contextId);
    bus.publish(
      request.task ?? {
        kind: 'task',
        id: taskId,
        contextId,
        status: { state: 'submitted', timestamp: new Date().toISOString() },
        artifacts: [],
        history: [request.userMessage],
      },
    );
    if (asked) {
      status('working');
      artifact('answer', replica(`answered ${text}`));
      status('completed');
    } else if (word === 'echo') {
      status('working');
      artifact('echo', replica(rest));
      status('completed');
    } else if (word === 'stream') {
      status('working');
      const count = Number(rest);
      for (let number = 1; number <= count; number += 1) {
        artifact('stream', `chunk ${number}`, { append: number > 1, lastChunk: number === count });
        await sleep(20);
      }
      status('completed', 'done');
    } else if (word === 'slow') {
      const [steps, pause = '100'] = rest.split(' ');
      for (let number = 0; number < Number(steps); number += 1) {
        if (this.#canceled.delete(taskId)) return;
        status('working', `step ${number}`);
        await sleep(Number(pause));
      }
      if (this.#canceled.delete(taskId)) return;
      artifact('slow', replica(`slow ${rest}`));
      status('completed');
    } else if (word === 'gate') {
      status('working', 'waiting');
      for (let tries = 0; !existsSync(rest); tries += 1) {
        if (tries === 750) throw new Error('nobody opened the gate within 15 s');
        await sleep(20);
      }
      status('completed');
    } else if (word === 'ask') {
      status('input-required', 'which one?');
    } else if (word === 'fail') {
      status('failed', 'failed as asked');
    } else {
      status('rejected', `no skill '${word}'`);
    }
  }

  async cancelTask(taskId, bus) {
    this.#canceled.add(taskId);
    bus.publish({
      kind: 'status-update',
      taskId,
      contextId: this.#contexts.get(taskId) ?? '',
      status: { state: 'canceled', timestamp: new Date().toISOString() },
      final: true,
    });
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
const server = app.listen(Number(args.port), '127.0.0.1', () => {
  const { port } = server.address();
  const card = {
    name: args.name,
    description: 'Interop agent on the JavaScript SDK 0.3',
    version: '1.0.0',
    protocolVersion: '0.3.0',
    url: args['card-url'] ?? `http://127.0.0.1:${port}/`,
    preferredTransport: 'JSONRPC',
    capabilities: { streaming: true, pushNotifications: true },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: Object.entries(skills).map(([id, description]) => ({
      id,
      name: id,
      description,
      tags: ['interop'],
      examples: [id],
    })),
    supportsAuthenticatedExtendedCard: true,
  };
  const hooks = new InMemoryPushNotificationStore();
  const handler = new DefaultRequestHandler(
    card,
    new InMemoryTaskStore(),
    new Executor(),
    undefined,
    hooks,
    new DefaultPushNotificationSender(hooks),
    async () => ({ ...card, name: `${args.name} (extended)` }),
  );
  for (const path of ['agent-card.json', 'agent.json']) {
    app.use(`/.well-known/${path}`, agentCardHandler({ agentCardProvider: handler }));
  }
  app.use(jsonRpcHandler({ requestHandler: handler, userBuilder: UserBuilder.noAuthentication }));
  console.log(`READY ${port}`);
});
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(0));
