// The client on the JavaScript SDK 1.x. It speaks 1.0; with `--compat` also 0.3, when that is what
// the card offers, and with `--only 0.3` nothing else; with `--rest` over HTTP+JSON, with `--grpc` over gRPC.

import { randomUUID } from 'node:crypto';

import { Role, TaskState } from '@a2a-js/sdk';
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';

import { args, check, codeOf, run } from './harness.mjs';
import { scenariosOf } from './scenarios.mjs';

const legacyCompat = { enabled: args.compat };

// Loaded where it is used: it takes its time.
const grpc = args.grpc ? await import('@grpc/grpc-js') : undefined;
const Transport = args.grpc
  ? (await import('@a2a-js/sdk/client/grpc')).GrpcTransportFactory
  : args.rest
    ? RestTransportFactory
    : JsonRpcTransportFactory;

const card = (fetchImpl, base) => new DefaultAgentCardResolver({ fetchImpl, legacyCompat }).resolve(base);

async function connect(fetchImpl, base, known, transport) {
  const factory = new ClientFactory({
    transports: [transport(Transport, { legacyCompat })],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl, legacyCompat }),
  });
  if (!known && !args.only) return factory.createFromUrl(base);
  const whole = known ?? (await card(fetchImpl, base));
  if (!args.only) return factory.createFromAgentCard(whole);
  const supportedInterfaces = whole.supportedInterfaces.filter((one) => one.protocolVersion.startsWith(args.only));
  check(supportedInterfaces.length, `the card offers no ${args.only}`);
  return factory.createFromAgentCard({ ...whole, supportedInterfaces });
}

const facts = ({ name, supportedInterfaces, capabilities, skills }) => ({
  name,
  urls: supportedInterfaces.map((one) => one.url),
  told: supportedInterfaces.map((one) => [one.protocolBinding, one.protocolVersion]),
  skills: skills.map((skill) => skill.id),
  streaming: capabilities.streaming,
  push: capabilities.pushNotifications,
  extended: capabilities.extendedAgentCard,
});

const state = ({ status }) => TaskState[status.state].replace('TASK_STATE_', '').toLowerCase().replace('_', '-');
const words = (parts) => (parts ?? []).map((part) => part.content?.value).join('|');
const idOf = ({ payload }) => (payload.$case === 'task' ? payload.value.id : payload.value.taskId);

function event({ payload: { $case, value } }) {
  if ($case === 'task') return `task ${state(value)}`;
  if ($case === 'message') return `message ${words(value.parts)}`;
  if ($case === 'statusUpdate') return `status ${state(value)} ${words(value.status.message?.parts)}`.trim();
  return `artifact ${value.append ? '+' : '='}${value.lastChunk ? '.' : ''} ${words(value.artifact.parts)}`;
}

function message(text, { taskId = '', contextId = '' } = {}, asked = undefined) {
  return {
    tenant: '',
    message: {
      messageId: randomUUID(),
      taskId,
      contextId,
      role: Role.ROLE_USER,
      parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' }],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    },
    configuration: asked && {
      acceptedOutputModes: [],
      taskPushNotificationConfig: { tenant: '', taskId: '', authentication: undefined, ...asked.hook },
      historyLength: undefined,
      returnImmediately: asked.later,
    },
    metadata: undefined,
  };
}

const task = (id) => ({ tenant: '', id, metadata: undefined });

// An error on a stream comes as a plain Error with the typed one as its cause.
function refusal(error) {
  const typed = error.envelopeCode === undefined && error.cause?.envelopeCode !== undefined ? error.cause : error;
  return { error: typed.name, code: typed.envelopeCode ?? (args.rest || args.grpc ? codeOf(typed, typed.name) : null) };
}

function hooks(client, taskId) {
  const all = { tenant: '', taskId, pageSize: 0, pageToken: '' };
  return {
    create: (id, url, token) =>
      client.createTaskPushNotificationConfig({ tenant: '', id, taskId, url, token, authentication: undefined }),
    get: (id) => client.getTaskPushNotificationConfig({ tenant: '', taskId, id }),
    list: async () => (await client.listTaskPushNotificationConfig(all)).configs,
    remove: (id) => client.deleteTaskPushNotificationConfig({ tenant: '', taskId, id }),
  };
}

const lists = (client) => client.protocolVersion === '1.0';

const page = (client, { contextId = '', completed = false, pageToken = '', ...rest }) =>
  client.listTasks({
    tenant: '',
    contextId,
    status: completed ? TaskState.TASK_STATE_COMPLETED : TaskState.TASK_STATE_UNSPECIFIED,
    statusTimestampAfter: undefined,
    pageToken,
    ...rest,
  });

const agent = Role.ROLE_AGENT;
const sdk = { agent, card, connect, event, facts, grpc, hooks, idOf, lists, message, page, refusal, state, task, words };
await run(sdk, scenariosOf(sdk));
