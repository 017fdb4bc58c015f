// The client on the JavaScript SDK 0.3, which speaks 0.3 only; with `--rest` over HTTP+JSON, with `--grpc` over gRPC.

import { randomUUID } from 'node:crypto';

import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';

import { args, codeOf, run } from '../clients/harness.mjs';
import { scenariosOf } from '../clients/scenarios.mjs';

// Loaded where it is used: it takes its time.
const grpc = args.grpc ? await import('@grpc/grpc-js') : undefined;
const Transport = args.grpc
  ? (await import('@a2a-js/sdk/client/grpc')).GrpcTransportFactory
  : args.rest
    ? RestTransportFactory
    : JsonRpcTransportFactory;

const card = (fetchImpl, base) => new DefaultAgentCardResolver({ fetchImpl }).resolve(base);

async function connect(fetchImpl, base, known, transport) {
  const factory = new ClientFactory({
    transports: [transport(Transport)],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  });
  return known ? factory.createFromAgentCard(known) : factory.createFromUrl(base);
}

const facts = (one) => ({
  name: one.name,
  urls: [one.url, ...(one.additionalInterfaces ?? []).map((other) => other.url)],
  told: [one.preferredTransport, one.protocolVersion],
  skills: one.skills.map((skill) => skill.id),
  streaming: one.capabilities.streaming,
  push: one.capabilities.pushNotifications,
  extended: one.supportsAuthenticatedExtendedCard,
});

const state = ({ status }) => status.state;
const words = (parts) => (parts ?? []).map((part) => part.text).join('|');
const idOf = (one) => (one.kind === 'task' ? one.id : one.taskId);

function event(one) {
  if (one.kind === 'task') return `task ${state(one)}`;
  if (one.kind === 'message') return `message ${words(one.parts)}`;
  if (one.kind === 'status-update') return `status ${state(one)} ${words(one.status.message?.parts)}`.trim();
  return `artifact ${one.append ? '+' : '='}${one.lastChunk ? '.' : ''} ${words(one.artifact.parts)}`;
}

const message = (text, ids = {}, asked = undefined) => ({
  message: { kind: 'message', messageId: randomUUID(), role: 'user', parts: [{ kind: 'text', text }], ...ids },
  configuration: asked && { pushNotificationConfig: asked.hook, blocking: !asked.later },
});

const task = (id) => ({ id });

// An error on a stream comes as a plain Error with the typed one as its cause.
function refusal(error) {
  if (args.rest || args.grpc) return { error: error.constructor.name, code: codeOf(error, error.constructor.name) };
  const typed = error.errorResponse ? error : error.cause?.errorResponse ? error.cause : error;
  return { error: typed.constructor.name, code: typed.errorResponse?.error.code ?? null };
}

function hooks(client, taskId) {
  const flat = (one) => ({ taskId: one.taskId, ...one.pushNotificationConfig });
  return {
    create: async (id, url, token) =>
      flat(await client.setTaskPushNotificationConfig({ taskId, pushNotificationConfig: { id, url, token } })),
    get: async (id) => flat(await client.getTaskPushNotificationConfig({ id: taskId, pushNotificationConfigId: id })),
    list: async () => (await client.listTaskPushNotificationConfig({ id: taskId })).map(flat),
    remove: (id) => client.deleteTaskPushNotificationConfig({ id: taskId, pushNotificationConfigId: id }),
  };
}

const lists = () => false;

const sdk = { agent: 'agent', card, connect, event, facts, grpc, hooks, idOf, lists, message, refusal, state, task, words };
await run(sdk, scenariosOf(sdk));
