// What the JavaScript clients share: the command line, trust and credentials, the record of what went over the wire,
// and the run of the scenarios. Uses nothing of an SDK.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

export const { values: args } = parseArgs({
  options: {
    base: { type: 'string' },
    ca: { type: 'string' },
    bearer: { type: 'string' },
    header: { type: 'string', multiple: true, default: [] },
    scenario: { type: 'string', default: 'all' },
    // The same agent behind another gateway, and the bearer token of another caller: for the scenario handover.
    other: { type: 'string' },
    stranger: { type: 'string' },
    // Somebody listens at the addresses below this one: for the scenario webhook.
    webhook: { type: 'string' },
    'expect-auth': { type: 'boolean', default: false },
    timeout: { type: 'string', default: '20' },
    compat: { type: 'boolean', default: false },
    // The one generation to speak, whatever else the card offers.
    only: { type: 'string' },
    // Speak HTTP+JSON, or gRPC, instead of JSON-RPC.
    rest: { type: 'boolean', default: false },
    grpc: { type: 'boolean', default: false },
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
export const UNICODE = 'Grüße, 你好, 🚢 "quoted" \\ back\nnew line\ttab \u2028 end';
// Below the 100 kB at which Express' JSON reader gives up.
export const LARGE = '0123456789abcdef'.repeat(4096);
export const UNKNOWN_TASK = '00000000-0000-4000-8000-000000000000';
export const HOOK = 'http://127.0.0.1:9/hook';

// Over HTTP+JSON and gRPC the SDKs give a class and no code, or a plain error that has the code in its text, or the class of 0.3.
const CODE_OF_CLASS = {
  TaskNotFoundError: -32001,
  TaskNotCancelableError: -32002,
  PushNotificationNotSupportedError: -32003,
  UnsupportedOperationError: -32004,
};

// Over HTTP+JSON `RequestMalformedError` is any 400. The classes after it stand in the texts of 0.3 only.
const CODE_OF_CLASS_OVER_GRPC = {
  ...CODE_OF_CLASS,
  RequestMalformedError: -32602,
  InvalidRequestError: -32600,
  InvalidParamsError: -32602,
  InternalError: -32603,
};

export function codeOf(error, name) {
  if (args.grpc) {
    const named = /\d (\w+Error): /.exec(error.message)?.[1];
    return CODE_OF_CLASS_OVER_GRPC[name] ?? CODE_OF_CLASS_OVER_GRPC[named] ?? null;
  }
  const told = /\(Code: (-\d+)\)/.exec(error.message)?.[1];
  return CODE_OF_CLASS[name] ?? (told ? Number(told) : null);
}

export class NotApplicable extends Error {}

// gRPC is at the host and port of the base; of an agent without TLS, whose gRPC has a port of its own, at another port.
function isGrpcOf(target, base) {
  const { protocol, host, hostname } = new URL(base);
  return target === host || (protocol === 'http:' && target.startsWith(`${hostname}:`));
}

// Whether a card's address is one below the base.
export const isUnder = (url, base) =>
  url.replace(/\/$/, '') === base || url.startsWith(`${base}/`) || isGrpcOf(url, base);

// What a call shows; null stands for no credential at all.
function shown(bearer) {
  if (bearer === null) return [];
  const lines = args.header.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]);
  return bearer ? [...lines, ['Authorization', `Bearer ${bearer}`]] : lines;
}

export function check(condition, what) {
  if (!condition) throw new Error(what);
}

export function equal(actual, expected, what) {
  const [left, right] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${what}: ${left} instead of ${right}`);
}

// What one scenario sends, and what came back.
class Session {
  other = null;
  urls = [];
  answers = [];
  // Where channels of gRPC went.
  targets = [];
  // Ends everything that is still open when the scenario is over.
  over = new AbortController();

  constructor(sdk, base = args.base) {
    this.sdk = sdk;
    this.base = base.replace(/\/+$/, '');
  }

  // Where the driver listens, for each way to set a webhook.
  webhook(way) {
    if (!args.webhook) throw new NotApplicable('nobody listens at webhooks');
    return { id: way, url: `${args.webhook}/${way}`, token: `${way}-token` };
  }

  // The same agent behind the other gateway.
  elsewhere() {
    if (!args.other) throw new NotApplicable('there is no second gateway');
    this.other = new Session(this.sdk, args.other);
    this.other.over = this.over;
    return this.other;
  }

  // A fetch that shows the credential, unless `bearer` says otherwise (null: no credential at all).
  fetch(bearer = args.bearer) {
    return async (url, init = {}) => {
      this.urls.push(String(url));
      const headers = new Headers(init.headers);
      for (const [name, value] of shown(bearer)) headers.set(name, value);
      const signals = [init.signal, this.over.signal].filter(Boolean);
      const response = await fetch(url, { ...init, headers, signal: AbortSignal.any(signals) });
      this.answers.push([response.status, response.headers.get('www-authenticate')]);
      return response;
    };
  }

  // The SDK's transport of gRPC, made of its factory. Its channels trust `--ca` and show the credential with every call.
  grpc(Factory, options, bearer = args.bearer) {
    const { credentials, InterceptingCall, Metadata } = this.sdk.grpc;
    const isSecure = this.base.startsWith('https:');
    check(isSecure || !shown(bearer).length, 'gRPC shows no credential in the clear');
    const perCall = credentials.createFromMetadataGenerator((_, give) => {
      const metadata = new Metadata();
      for (const [name, value] of shown(bearer)) metadata.set(name, value);
      give(null, metadata);
    });
    const watch = (callOptions, next) => {
      const call = next(callOptions);
      this.over.signal.addEventListener('abort', () => call.cancelWithStatus(1, 'the scenario is over'), { once: true });
      let told = [];
      const listener = {
        onReceiveMetadata: (metadata, pass) => {
          told = metadata.get('www-authenticate');
          pass(metadata);
        },
        onReceiveStatus: (status, pass) => {
          this.answers.push([status.code, [...told, ...status.metadata.get('www-authenticate')][0]]);
          pass(status);
        },
      };
      return new InterceptingCall(call, { start: (metadata, _, pass) => pass(metadata, listener) });
    };
    const factory = new Factory({
      ...options,
      grpcChannelCredentials: isSecure
        ? credentials.combineChannelCredentials(credentials.createSsl(args.ca ? readFileSync(args.ca) : null), perCall)
        : credentials.createInsecure(),
      grpcCallOptions: { interceptors: [watch] },
    });
    return {
      protocolName: factory.protocolName,
      create: (url, card) => {
        this.targets.push(url);
        return factory.create(url, card);
      },
    };
  }

  card() {
    // The SDK resolves the path like a browser: without the slash the last segment of the base would be lost.
    return this.sdk.card(this.fetch(), `${this.base}/`);
  }

  // A client made by the SDK from nothing but the published card.
  connect(bearer, card) {
    const fetchImpl = this.fetch(bearer);
    // Of the SDK's factory of transports, with options of its own.
    const transport = (Factory, options) =>
      args.grpc ? this.grpc(Factory, options, bearer) : new Factory({ ...options, fetchImpl });
    return this.sdk.connect(fetchImpl, `${this.base}/`, card, transport);
  }

  // The last answer was a 401, or what gRPC has for it, that says how to do better.
  refused(what) {
    const [status, challenge] = this.answers.at(-1);
    equal(status, args.grpc ? this.sdk.grpc.status.UNAUTHENTICATED : 401, `${what}: status`);
    check(challenge, `${what}: refused without WWW-Authenticate`);
  }

  // A client that left the published base would go round the gateway unnoticed.
  stayed() {
    for (const url of this.urls) {
      check(url === this.base || url.startsWith(`${this.base}/`), `the client went to ${url}, outside ${this.base}`);
      // JSON-RPC goes to the base itself, HTTP+JSON never does.
      check(!args.rest || url.replace(/\/$/, '') !== this.base, 'the client spoke JSON-RPC');
      // By HTTP a client of gRPC fetches the card and nothing else.
      check(!args.grpc || url.includes('/.well-known/'), `the client of gRPC asked for ${url}`);
    }
    for (const target of this.targets) check(isGrpcOf(target, this.base), `the client went to ${target}`);
    this.other?.stayed();
  }
}

export async function collect(stream) {
  const events = [];
  for await (const one of stream) events.push(one);
  return events;
}

// Runs what the command line asks for, one line of JSON each; ends the process with 1 if one failed.
export async function run(sdk, scenarios) {
  // Without a second gateway there is nothing to hand over to.
  const every = Object.keys(scenarios).filter((name) => name !== 'handover' || args.other);
  const names = args.scenario === 'all' ? every : args.scenario.split(',');
  let good = true;
  for (const name of names) {
    const scenario = scenarios[name];
    if (!scenario) throw new Error(`no scenario ${name}; there are: ${Object.keys(scenarios).join(', ')}`);
    const session = new Session(sdk);
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
}
