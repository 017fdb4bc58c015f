// Checks the signatures of cards with the JavaScript SDK 1.x; the commands of `check.py`.
//
// A message that the SDK made of a card keeps schemes in a form that its own check does not read: it is turned into JSON first.

import { readFileSync } from 'node:fs';
import { AgentCard, canonicalizeAgentCard, verifyAgentCardSignature } from '@a2a-js/sdk';

const read = (path) => JSON.parse(readFileSync(path, 'utf8'));

const canonical = (path) => {
  try {
    return canonicalizeAgentCard(read(path));
  } catch {
    return null;
  }
};

const verify = async (keys, path) => {
  const check = verifyAgentCardSignature(async (kid, jku) => {
    const key = keys.find((one) => one.kid === kid);
    if (!key) throw new Error(`no key ${kid} for ${jku}`);
    return key;
  });
  console.debug = () => {};
  try {
    await check(read(path));
    await check(AgentCard.toJSON(AgentCard.fromJSON(read(path))));
  } catch (error) {
    return String(error);
  }
  return 'ok';
};

const [command, ...rest] = process.argv.slice(2);
let found;
if (command === 'canonical') {
  found = rest.map(canonical);
} else {
  const { keys } = read(rest[0]);
  found = [];
  for (const path of rest.slice(1)) found.push(await verify(keys, path));
}
console.log(JSON.stringify(found));
