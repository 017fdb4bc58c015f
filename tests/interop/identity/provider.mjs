// An identity provider on `oidc-provider`, for the tests of the gateway's token schemes.
//
//     provider.mjs PORT
//
// Clients get tokens with their own credential (RFC 6749 §4.4) for one of the resources below: signed ones (RFC 9068), or
// opaque ones, which can be asked about (RFC 7662) and revoked (RFC 7009). `POST /rotate` gives it another signing key, which
// no `oidc-provider` does by itself: a new one takes its place, with the same issuer and the same memory. Prints `ready URL`.

import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import Provider from 'oidc-provider';

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const RESOURCES = {
  'urn:test:signed': { audience: 'a2a', accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } },
  'urn:test:opaque': { audience: 'a2a', accessTokenFormat: 'opaque' },
  'urn:test:elsewhere': { audience: 'elsewhere', accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } },
};

function client(id, grants) {
  return { client_id: id, client_secret: `${id} & its secret`, grant_types: grants, redirect_uris: [], response_types: [] };
}

function provider() {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), alg: 'ES256', use: 'sig' };
  return new Provider(issuer, {
    jwks: { keys: [key] },
    clients: [client('caller', ['client_credentials']), client('a2a-gateway', [])],
    // Of both clients; there is no other signature than ES256.
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    features: {
      clientCredentials: { enabled: true },
      introspection: { enabled: true },
      revocation: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context, resource) => ({ scope: 'a2a.invoke', accessTokenTTL: 600, ...RESOURCES[resource] }),
      },
    },
  });
}

let handle = provider().callback();
const server = createServer((request, response) => {
  if (request.method === 'POST' && request.url === '/rotate') {
    handle = provider().callback();
    response.end();
    return;
  }
  handle(request, response);
});
server.listen(port, '127.0.0.1', () => console.log(`ready ${issuer}`));
process.on('SIGTERM', () => process.exit(0));
