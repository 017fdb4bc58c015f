// Scenarios of a client on the JavaScript SDK 1.x. It speaks 1.0; with `--compat` also 0.3, when that is what
// the card offers, and with `--only 0.3` nothing else.
//
// A scenario returns what it saw; the driver compares that between a direct run and one through the gateway, so
// it must not depend on ids or on timing.

import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { Role, TaskState } from '@a2a-js/sdk';
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from '@a2a-js/sdk/client';

const { values: args } = parseArgs({
  options: {
    base: { type: 'string' },
    ca: { type: 'string' },
    bearer: { type: 'string' },
    header: { type: 'string', multiple: true, default: [] },
    scenario: { type: 'string', default: 'all' },
    // The same agent behind another gateway, and the bearer token of another caller: for the scenario handover.
    other: { type: 'string' },
    stranger: { type: 'string' },
    'expect-auth': { type: 'boolean', default: false },
    timeout: { type: 'string', default: '20' },
    compat: { type: 'boolean', default: false },
    // The one generation to speak, whatever else the card offers.
    only: { type: 'string' },
    trace: { type: 'boolean', default: false },
  },
});
if (!args.base) throw new Error('--base is missing');

if (args.ca && process.env.NODE_EXTRA_CA_CERTS !== args.ca) {
  // Node reads further roots at its start only.
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: args.ca };
  process.exit(spawnSync(process.execPath, process.argv.slice(1), { env, stdio: 'inherit' }).status ?? 1);
}

const timeout = Number(args.timeout) * 1000;
const UNICODE = 'Grüße, 你好, 🚢 "quoted" \\ back\nnew line\ttab \u2028 end';
// Below the 100 kB at which Express' JSON reader gives up.
const LARGE = '0123456789abcdef'.repeat(4096);
const UNKNOWN_TASK = '00000000-0000-4000-8000-000000000000';
const HOOK = 'http://127.0.0.1:9/hook';

class NotApplicable extends Error {}

function check(condition, what) {
  if (!condition) throw new Error(what);
}

function equal(actual, expected, what) {
  const [left, right] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${what}: ${left} instead of ${right}`);
}

// The HTTP side of one scenario.
class Session {
  other = null;
  urls = [];
  answers = [];
  // Ends everything that is still open when the scenario is over.
  over = new AbortController();

  constructor(base = args.base) {
    this.base = base.replace(/\/+$/, '');
  }

  // The same agent behind the other gateway.
  elsewhere() {
    if (!args.other) throw new NotApplicable('there is no second gateway');
    this.other = new Session(args.other);
    this.other.over = this.over;
    return this.other;
  }

  // A fetch that shows the credential, unless `bearer` says otherwise (null: no credential at all).
  fetch(bearer = args.bearer) {
    return async (url, init = {}) => {
      this.urls.push(String(url));
      const headers = new Headers(init.headers);
      if (bearer !== null) {
        for (const line of args.header) headers.set(line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim());
        if (bearer) headers.set('Authorization', `Bearer ${bearer}`);
      }
      const signals = [init.signal, this.over.signal].filter(Boolean);
      const response = await fetch(url, { ...init, headers, signal: AbortSignal.any(signals) });
      this.answers.push([response.status, response.headers.get('www-authenticate')]);
      return response;
    };
  }

  resolver() {
    return new DefaultAgentCardResolver({ fetchImpl: this.fetch(), legacyCompat: { enabled: args.compat } });
  }

  card() {
    // The SDK resolves the path like a browser: without the slash the last segment of the base would be lost.
    return this.resolver().resolve(`${this.base}/`);
  }

  // A client made by the SDK from nothing but the published card.
  async connect(bearer, card) {
    const fetchImpl = this.fetch(bearer);
    const legacyCompat = { enabled: args.compat };
    const factory = new ClientFactory({
      transports: [new JsonRpcTransportFactory({ fetchImpl, legacyCompat })],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl, legacyCompat }),
    });
    if (!card && !args.only) return factory.createFromUrl(`${this.base}/`);
    const whole = card ?? (await this.card());
    if (!args.only) return factory.createFromAgentCard(whole);
    const supportedInterfaces = whole.supportedInterfaces.filter((one) => one.protocolVersion.startsWith(args.only));
    check(supportedInterfaces.length, `the card offers no ${args.only}`);
    return factory.createFromAgentCard({ ...whole, supportedInterfaces });
  }

  // The last answer was a 401 that says how to do better.
  refused(what) {
    const [status, challenge] = this.answers.at(-1);
    equal(status, 401, `${what}: HTTP status`);
    check(challenge, `${what}: 401 without WWW-Authenticate`);
  }

  // A client that left the published base would go round the gateway unnoticed.
  stayed() {
    for (const url of this.urls) {
      check(url === this.base || url.startsWith(`${this.base}/`), `the client went to ${url}, outside ${this.base}`);
    }
    this.other?.stayed();
  }
}

const state = ({ status }) => TaskState[status.state].replace('TASK_STATE_', '').toLowerCase().replace('_', '-');
const words = (parts) => (parts ?? []).map((part) => part.content?.value).join('|');
const texts = (task) => task.artifacts.map((artifact) => words(artifact.parts));
const history = (task) => task.history.map((message) => words(message.parts).slice(0, 40));
const idOf = ({ payload }) => (payload.$case === 'task' ? payload.value.id : payload.value.taskId);

function event({ payload: { $case, value } }) {
  if ($case === 'task') return `task ${state(value)}`;
  if ($case === 'message') return `message ${words(value.parts)}`;
  if ($case === 'statusUpdate') return `status ${state(value)} ${words(value.status.message?.parts)}`.trim();
  return `artifact ${value.append ? '+' : '='}${value.lastChunk ? '.' : ''} ${words(value.artifact.parts)}`;
}

function message(text, { taskId = '', contextId = '' } = {}) {
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
    configuration: undefined,
    metadata: undefined,
  };
}

const task = (id) => ({ tenant: '', id, metadata: undefined });

async function collect(stream) {
  const events = [];
  for await (const one of stream) events.push(one);
  return events;
}

// An error on a stream comes as a plain Error with the typed one as its cause.
function refusal(error) {
  const typed = error.envelopeCode === undefined && error.cause?.envelopeCode !== undefined ? error.cause : error;
  return { error: typed.name, code: typed.envelopeCode ?? null };
}

async function refused(call) {
  let answer;
  try {
    answer = await call();
  } catch (error) {
    return refusal(error);
  }
  throw new Error(`no error but ${JSON.stringify(answer)}`);
}

async function echo(session, text) {
  const client = await session.connect();
  const made = await client.sendMessage(message(`echo ${text}`));
  equal(state(made), 'completed', 'state');
  check(made.id && made.contextId, 'a task without ids');
  equal(made.artifacts.length, 1, 'artifacts');
  const at = texts(made)[0].lastIndexOf('@');
  equal(texts(made)[0].slice(0, at), text, 'artifact');
  return { state: state(made), replica: texts(made)[0].slice(at + 1), history: history(made) };
}

// How an agent that raises comes across differs from SDK to SDK; it must not be a success.
async function outcome(call) {
  let answers;
  try {
    answers = await call();
  } catch (error) {
    return { ...refusal(error), message: error.message };
  }
  equal(answers.at(-1).split(' ')[1], 'failed', `last of ${answers}`);
  return answers;
}

async function without(session, bearer) {
  if (!args['expect-auth']) throw new NotApplicable('nothing in front of the agent asks for a credential');
  const client = await session.connect(bearer, await session.card());
  const seen = [];
  const calls = {
    send: () => client.sendMessage(message('echo hello')),
    stream: () => collect(client.sendMessageStream(message('stream 1'))),
    get: () => client.getTask(task(UNKNOWN_TASK)),
    resubscribe: () => collect(client.resubscribeTask(task(UNKNOWN_TASK))),
  };
  for (const [what, call] of Object.entries(calls)) {
    seen.push([what, (await refused(call)).error]);
    session.refused(what);
  }
  return seen;
}

// Each page from the gateway that did not give the one before, so every token is read by the one that did not make it.
async function oneList(here, there, made) {
  const filter = { tenant: '', contextId: '', status: TaskState.TASK_STATE_COMPLETED, statusTimestampAfter: undefined };
  const seen = [];
  let [pageToken, turn] = ['', 0];
  do {
    const page = await (turn % 2 ? there : here).listTasks({ ...filter, pageSize: 3, pageToken });
    seen.push(...page.tasks.map((one) => one.id));
    pageToken = page.nextPageToken;
    turn += 1;
  } while (pageToken && turn < 100);
  check(turn > 1, 'one page holds everything');
  equal(seen.length, new Set(seen).size, 'a task is listed once');
  equal(made.filter((id) => !seen.includes(id)), [], 'missing in the list');
}

const scenarios = {
  async card(session) {
    const card = await session.card();
    check(card.name, 'a card without a name');
    check(card.supportedInterfaces?.length, 'a card without an interface');
    for (const { url } of card.supportedInterfaces) {
      check(url.replace(/\/$/, '') === session.base || url.startsWith(`${session.base}/`), `the card shows ${url}`);
    }
    check(card.capabilities.streaming, 'streaming is not announced');
    return {
      name: card.name,
      told: card.supportedInterfaces.map((one) => [one.protocolBinding, one.protocolVersion]),
      skills: card.skills.map((skill) => skill.id),
      push: card.capabilities.pushNotifications,
      extended: card.capabilities.extendedAgentCard,
    };
  },

  async 'extended-card'(session) {
    const card = await (await session.connect()).getAgentCard();
    check(card.name.endsWith('(extended)'), `'${card.name}' is not the extended card`);
    for (const { url } of card.supportedInterfaces) check(url.startsWith(session.base), `the extended card shows ${url}`);
    return { name: card.name, skills: card.skills.map((skill) => skill.id) };
  },

  send: (session) => echo(session, 'hello'),
  unicode: (session) => echo(session, UNICODE),
  large: (session) => echo(session, LARGE),

  async message(session) {
    const answer = await (await session.connect()).sendMessage(message('message hello'));
    check(words(answer.parts).startsWith('hello@'), `message '${words(answer.parts)}'`);
    equal(answer.role, Role.ROLE_AGENT, 'role');
    return words(answer.parts);
  },

  async 'message-stream'(session) {
    const events = (await collect((await session.connect()).sendMessageStream(message('message hello')))).map(event);
    equal(events.length, 1, 'events');
    check(events[0].startsWith('message hello@'), events[0]);
    return events;
  },

  async stream(session) {
    const responses = await collect((await session.connect()).sendMessageStream(message('stream 20')));
    const events = responses.map(event);
    const expected = ['task submitted', 'status working'];
    for (let n = 1; n <= 20; n += 1) expected.push(`artifact ${n > 1 ? '+' : '='}${n === 20 ? '.' : ''} chunk ${n}`);
    equal(events.slice(0, -1), expected, 'events');
    check(events.at(-1).startsWith('status completed done@'), events.at(-1));
    equal(new Set(responses.map(idOf)).size, 1, 'task ids');
    return events;
  },

  // Events come when they happen: the agent goes on only after what the caller does about the one before.
  async 'stream-live'(session) {
    const folder = mkdtempSync(join(tmpdir(), 'gate-'));
    const gate = join(folder, 'open');
    const events = [];
    try {
      for await (const response of (await session.connect()).sendMessageStream(message(`gate ${gate}`))) {
        events.push(event(response));
        if (events.at(-1).startsWith('status working waiting@')) writeFileSync(gate, '');
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
    check(events.at(-1).startsWith('status completed'), events.at(-1));
    return events;
  },

  async get(session) {
    const client = await session.connect();
    const made = await client.sendMessage(message('echo hello'));
    const got = await client.getTask(task(made.id));
    equal([got.id, got.contextId], [made.id, made.contextId], 'ids');
    check(texts(got)[0].startsWith('hello@'), texts(got)[0]);
    return { state: state(got), artifacts: texts(got), history: history(got) };
  },

  async 'get-unknown'(session) {
    const client = await session.connect();
    const seen = await refused(() => client.getTask(task(UNKNOWN_TASK)));
    equal(seen.code, -32001, 'code');
    return seen;
  },

  async cancel(session) {
    const client = await session.connect();
    const leave = new AbortController();
    const events = client.sendMessageStream(message('slow 150'), { signal: leave.signal });
    const first = (await events.next()).value;
    const second = event((await events.next()).value);
    const canceled = await client.cancelTask(task(idOf(first)));
    // Servers on the Python SDK 0.3 leave the stream open for ever.
    const rest = collect(events).then(() => 'the stream ends');
    rest.catch(() => {});
    const after = await Promise.race([rest, sleep(3000, 'the stream stays open')]);
    leave.abort();
    const got = await client.getTask(task(idOf(first)));
    equal(state(canceled), 'canceled', 'answer to cancel');
    equal(state(got), 'canceled', 'state afterwards');
    return [event(first), second, state(canceled), state(got), after];
  },

  async 'cancel-unknown'(session) {
    const client = await session.connect();
    const seen = await refused(() => client.cancelTask(task(UNKNOWN_TASK)));
    equal(seen.code, -32001, 'code');
    return seen;
  },

  async 'cancel-finished'(session) {
    const client = await session.connect();
    const made = await client.sendMessage(message('echo done'));
    const seen = await refused(() => client.cancelTask(task(made.id)));
    equal(seen.code, -32002, 'code');
    return seen;
  },

  async 'input-required'(session) {
    const client = await session.connect();
    const asked = await client.sendMessage(message('ask'));
    equal(state(asked), 'input-required', 'first answer');
    const done = await client.sendMessage(message('the left one', { taskId: asked.id, contextId: asked.contextId }));
    equal(done.id, asked.id, 'task');
    equal(state(done), 'completed', 'second answer');
    check(texts(done).at(-1).startsWith('answered the left one@'), texts(done).at(-1));
    return [state(asked), state(done), texts(done)];
  },

  async 'send-to-finished'(session) {
    const client = await session.connect();
    const made = await client.sendMessage(message('echo done'));
    return refused(() => client.sendMessage(message('more', { taskId: made.id, contextId: made.contextId })));
  },

  async 'send-to-unknown'(session) {
    const client = await session.connect();
    const seen = await refused(() => client.sendMessage(message('more', { taskId: UNKNOWN_TASK })));
    equal(seen.code, -32001, 'code');
    return seen;
  },

  async resubscribe(session) {
    const client = await session.connect();
    const leave = new AbortController();
    const stream = client.sendMessageStream(message('slow 20'), { signal: leave.signal });
    const id = idOf((await stream.next()).value);
    await stream.next();
    // Closes the connection.
    leave.abort();
    await stream.next().catch(() => {});
    await sleep(300);
    const responses = await collect(client.resubscribeTask(task(id)));
    const events = responses.map(event);
    const got = await client.getTask(task(id));
    equal([...new Set(responses.map(idOf))], [id], 'task ids');
    equal(events.at(-1), 'status completed', 'last event');
    check(events.some((text) => text.startsWith('artifact =. slow 20@')), 'the artifact did not come');
    equal(state(got), 'completed', 'state afterwards');
    return [events[0].split(' ')[0], events.at(-2), events.at(-1), state(got), texts(got)];
  },

  async 'resubscribe-finished'(session) {
    const client = await session.connect();
    const made = await client.sendMessage(message('echo done'));
    return refused(() => collect(client.resubscribeTask(task(made.id))));
  },

  async 'resubscribe-unknown'(session) {
    const client = await session.connect();
    const seen = await refused(() => collect(client.resubscribeTask(task(UNKNOWN_TASK))));
    equal(seen.code, -32001, 'code');
    return seen;
  },

  async push(session) {
    const client = await session.connect();
    const { id: taskId } = await client.sendMessage(message('ask'));
    const config = { tenant: '', id: 'hook-1', taskId, url: HOOK, token: 'secret', authentication: undefined };
    const key = { tenant: '', taskId, id: 'hook-1' };
    const all = { tenant: '', taskId, pageSize: 0, pageToken: '' };
    const made = await client.createTaskPushNotificationConfig(config);
    equal([made.taskId, made.id, made.url], [taskId, 'hook-1', HOOK], 'created');
    const got = await client.getTaskPushNotificationConfig(key);
    equal([got.taskId, got.id, got.url], [taskId, 'hook-1', HOOK], 'got');
    const listed = await client.listTaskPushNotificationConfig(all);
    equal(listed.configs.map((one) => one.id), ['hook-1'], 'listed');
    await client.deleteTaskPushNotificationConfig(key);
    equal((await client.listTaskPushNotificationConfig(all)).configs, [], 'left after the delete');
    await client.cancelTask(task(taskId));
    return { token: got.token };
  },

  async 'push-unknown'(session) {
    const client = await session.connect();
    const config = { tenant: '', id: 'hook-1', taskId: UNKNOWN_TASK, url: HOOK, token: '', authentication: undefined };
    const seen = await refused(() => client.createTaskPushNotificationConfig(config));
    equal(seen.code, -32001, 'code');
    return seen;
  },

  async 'list-tasks'(session) {
    const client = await session.connect();
    if (client.protocolVersion !== '1.0') throw new NotApplicable('A2A 0.3 has no ListTasks');
    const contextId = randomUUID();
    const filter = {
      tenant: '',
      contextId,
      status: TaskState.TASK_STATE_UNSPECIFIED,
      pageToken: '',
      statusTimestampAfter: undefined,
    };
    const made = [];
    for (let n = 0; n < 3; n += 1) made.push((await client.sendMessage(message(`echo ${n}`, { contextId }))).id);
    const whole = await client.listTasks({ ...filter, includeArtifacts: true });
    equal(whole.tasks.map((one) => one.id).sort(), [...made].sort(), 'tasks of the context');
    const paged = [];
    let pageToken = '';
    for (let n = 0; n < 5; n += 1) {
      const page = await client.listTasks({ ...filter, pageSize: 2, pageToken });
      paged.push(...page.tasks.map((one) => one.id));
      pageToken = page.nextPageToken;
      if (!pageToken) break;
    }
    equal(paged.sort(), made.sort(), 'tasks over pages');
    return { total: whole.totalSize, artifacts: whole.tasks.flatMap(texts).sort() };
  },

  // What is made through one gateway is used through another, at the replica that made it, and by nobody else.
  async handover(session) {
    const other = session.elsewhere();
    const [here, there] = [await session.connect(), await other.connect()];
    const made = [];
    for (let n = 0; n < 4; n += 1) {
      const sent = await here.sendMessage(message(`echo ${n}`));
      const got = await there.getTask(task(sent.id));
      equal([got.id, state(got), texts(got)], [sent.id, 'completed', texts(sent)], 'got elsewhere');
      made.push(sent.id);
    }
    const asked = await here.sendMessage(message('ask'));
    const replica = words(asked.status.message.parts).split('@').at(-1);
    const answer = message('the left one', { taskId: asked.id, contextId: asked.contextId });
    const done = await there.sendMessage(answer);
    equal([done.id, state(done)], [asked.id, 'completed'], 'answered elsewhere');
    equal(texts(done).at(-1), `answered the left one@${replica}`, 'who got the answer');
    made.push(asked.id);
    const { id: dropped } = await here.sendMessage(message('ask'));
    const canceled = await there.cancelTask(task(dropped));
    equal([canceled.id, state(canceled)], [dropped, 'canceled'], 'canceled elsewhere');

    const leave = new AbortController();
    const stream = here.sendMessageStream(message('slow 30'), { signal: leave.signal });
    const followed = idOf((await stream.next()).value);
    const home = event((await stream.next()).value).split('@').at(-1);
    leave.abort();
    await stream.next().catch(() => {});
    const responses = await collect(there.resubscribeTask(task(followed)));
    const events = responses.map(event);
    equal([...new Set(responses.map(idOf))], [followed], 'task ids');
    equal(events.at(-1), 'status completed', 'last event');
    check(events.includes(`artifact =. slow 30@${home}`), `no artifact from ${home}`);
    made.push(followed);

    const lists = here.protocolVersion === '1.0';
    if (lists) await oneList(here, there, made);
    for (const gateway of [session, other]) {
      const client = await gateway.connect(args.stranger);
      for (const id of made) equal((await refused(() => client.getTask(task(id)))).code, -32001, 'for a stranger');
      const filter = { tenant: '', contextId: '', status: TaskState.TASK_STATE_UNSPECIFIED, pageToken: '' };
      if (lists) equal((await client.listTasks(filter)).tasks, [], 'tasks of a stranger');
    }
    return made.length;
  },

  async fail(session) {
    const made = await (await session.connect()).sendMessage(message('fail'));
    equal(state(made), 'failed', 'state');
    return [state(made), words(made.status.message?.parts)];
  },

  boom: (session) =>
    outcome(async () => {
      const answer = await (await session.connect()).sendMessage(message('boom'));
      return [`task ${state(answer)}`];
    }),

  'boom-stream': (session) =>
    outcome(async () => (await collect((await session.connect()).sendMessageStream(message('boom')))).map(event)),

  async parallel(session) {
    const client = await session.connect();
    const numbers = Array.from({ length: 10 }, (_, n) => n);
    const [answers, streams] = await Promise.all([
      Promise.all(numbers.map((n) => client.sendMessage(message(`echo ${n}`)))),
      Promise.all(numbers.map(() => collect(client.sendMessageStream(message('stream 5'))))),
    ]);
    answers.forEach((one, n) => check(texts(one)[0].startsWith(`${n}@`), `answer ${n} is ${texts(one)[0]}`));
    for (const events of streams) {
      equal(events.length, 8, 'events of a stream');
      equal(new Set(events.map(idOf)).size, 1, 'task ids in one stream');
    }
    const ids = new Set([...answers.map((one) => one.id), ...streams.map((events) => idOf(events[0]))]);
    equal(ids.size, 20, 'different tasks');
    return answers.length + streams.length;
  },

  unauthenticated: (session) => without(session, null),

  'bad-token': async (session) => {
    if (!args.bearer) throw new NotApplicable('no token to spoil');
    const [head, payload, signature] = args.bearer.split('.');
    return without(session, [head, payload, [...signature].reverse().join('')].join('.'));
  },
};

// Without a second gateway there is nothing to hand over to.
const every = Object.keys(scenarios).filter((name) => name !== 'handover' || args.other);
const names = args.scenario === 'all' ? every : args.scenario.split(',');
let good = true;
for (const name of names) {
  const scenario = scenarios[name];
  if (!scenario) throw new Error(`no scenario ${name}; there are: ${Object.keys(scenarios).join(', ')}`);
  const session = new Session();
  const started = performance.now();
  const result = { scenario: name, ok: true, detail: '', observed: null };
  const clock = new AbortController();
  try {
    const late = sleep(timeout, undefined, { signal: clock.signal }).then(() => {
      throw new Error(`no end after ${args.timeout} s`);
    });
    late.catch(() => {});
    result.observed = (await Promise.race([scenario(session), late])) ?? null;
    session.stayed();
  } catch (error) {
    result.ok = error instanceof NotApplicable ? null : false;
    result.detail = error instanceof NotApplicable ? error.message : `${error.name}: ${error.message}`;
    if (args.trace && result.ok === false) console.error(error);
  } finally {
    clock.abort();
    session.over.abort();
  }
  result.ms = Math.round(performance.now() - started);
  console.log(JSON.stringify(result));
  good &&= result.ok !== false;
}
process.exit(good ? 0 : 1);
