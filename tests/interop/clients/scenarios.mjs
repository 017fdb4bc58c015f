// The scenarios of the JavaScript clients. What differs between the versions of the SDK comes in as `sdk`.
//
// A scenario returns what it saw; the driver compares that between a direct run and one through the gateway, so
// it must not depend on ids or on timing.

import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { args, check, collect, equal, HOOK, isUnder, LARGE, NotApplicable, UNICODE, UNKNOWN_TASK } from './harness.mjs';

export function scenariosOf(sdk) {
  const { event, idOf, message, refusal, state, task, words } = sdk;
  const texts = (made) => (made.artifacts ?? []).map((artifact) => words(artifact.parts));
  const history = (made) => (made.history ?? []).map((one) => words(one.parts).slice(0, 40));

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
    const seen = [];
    let [pageToken, turn] = ['', 0];
    do {
      const page = await sdk.page(turn % 2 ? there : here, { completed: true, pageSize: 3, pageToken });
      seen.push(...page.tasks.map((one) => one.id));
      pageToken = page.nextPageToken;
      turn += 1;
    } while (pageToken && turn < 100);
    check(turn > 1, 'one page holds everything');
    equal(seen.length, new Set(seen).size, 'a task is listed once');
    equal(made.filter((id) => !seen.includes(id)), [], 'missing in the list');
  }

  return {
    async card(session) {
      const { name, urls, streaming, ...rest } = sdk.facts(await session.card());
      check(name, 'a card without a name');
      check(urls.length, 'a card without an interface');
      for (const url of urls) check(isUnder(url, session.base), `the card shows ${url}`);
      check(streaming, 'streaming is not announced');
      return { name, ...rest };
    },

    async 'extended-card'(session) {
      const { name, urls, skills } = sdk.facts(await (await session.connect()).getAgentCard());
      check(name.endsWith('(extended)'), `'${name}' is not the extended card`);
      for (const url of urls) check(isUnder(url, session.base), `the extended card shows ${url}`);
      return { name, skills };
    },

    send: (session) => echo(session, 'hello'),
    unicode: (session) => echo(session, UNICODE),
    large: (session) => echo(session, LARGE),

    async message(session) {
      const answer = await (await session.connect()).sendMessage(message('message hello'));
      check(words(answer.parts).startsWith('hello@'), `message '${words(answer.parts)}'`);
      equal(answer.role, sdk.agent, 'role');
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
      let responses;
      try {
        responses = await collect(client.resubscribeTask(task(made.id)));
      } catch (error) {
        return refusal(error);
      }
      // Agents on the JavaScript SDK 0.3 tell the task and end.
      equal(responses.map((one) => [event(one), idOf(one)]), [['task completed', made.id]], 'events');
      return responses.map(event);
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
      const hooks = sdk.hooks(client, taskId);
      const made = await hooks.create('hook-1', HOOK, 'secret');
      equal([made.taskId, made.id, made.url], [taskId, 'hook-1', HOOK], 'created');
      const got = await hooks.get('hook-1');
      equal([got.taskId, got.id, got.url], [taskId, 'hook-1', HOOK], 'got');
      equal((await hooks.list()).map((one) => one.id), ['hook-1'], 'listed');
      await hooks.remove('hook-1');
      equal(await hooks.list(), [], 'left after the delete');
      await client.cancelTask(task(taskId));
      return { token: got.token };
    },

    async 'push-unknown'(session) {
      const client = await session.connect();
      const seen = await refused(() => sdk.hooks(client, UNKNOWN_TASK).create('hook-1', HOOK, ''));
      equal(seen.code, -32001, 'code');
      return seen;
    },

    // The driver listens, and judges what it hears of these tasks by the way in which their webhooks were set.
    async webhook(session) {
      const client = await session.connect();
      const send = (text, way, later = false) => message(text, {}, { hook: session.webhook(way), later });
      const sent = await client.sendMessage(send('echo hello', 'send'));
      const later = await client.sendMessage(send('slow 2', 'later', true));
      const [streamed] = await collect(client.sendMessageStream(send('stream 3', 'stream')));
      const asked = await client.sendMessage(message('ask'));
      const { id, url, token } = session.webhook('set');
      await sdk.hooks(client, asked.id).create(id, url, token);
      await client.sendMessage(message('the left one', { taskId: asked.id, contextId: asked.contextId }));
      return { send: sent.id, later: later.id, stream: idOf(streamed), set: asked.id };
    },

    async 'list-tasks'(session) {
      const client = await session.connect();
      if (!sdk.lists(client)) throw new NotApplicable('A2A 0.3 has no ListTasks');
      const contextId = randomUUID();
      const made = [];
      for (let n = 0; n < 3; n += 1) made.push((await client.sendMessage(message(`echo ${n}`, { contextId }))).id);
      const whole = await sdk.page(client, { contextId, includeArtifacts: true });
      equal(whole.tasks.map((one) => one.id).sort(), [...made].sort(), 'tasks of the context');
      const paged = [];
      let pageToken = '';
      for (let n = 0; n < 5; n += 1) {
        const page = await sdk.page(client, { contextId, pageSize: 2, pageToken });
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

      const lists = sdk.lists(here);
      if (lists) await oneList(here, there, made);
      for (const gateway of [session, other]) {
        const client = await gateway.connect(args.stranger);
        for (const id of made) equal((await refused(() => client.getTask(task(id)))).code, -32001, 'for a stranger');
        if (lists) equal((await sdk.page(client, {})).tasks, [], 'tasks of a stranger');
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
}
