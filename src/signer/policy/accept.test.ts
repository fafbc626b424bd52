import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { CompactSign, generalVerify, importJWK, type GeneralJWS } from 'jose'
import { readOffer, readPolicyVersion, type PolicyVersion } from './accept.ts'
import { PolicyInvalid } from './json.ts'
import { addSignature, hashOfPolicy, readPolicyKey, type PolicyTrust } from './jws.ts'

const keys = Array.from({ length: 4 }, () => generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })) as Record<string, string>[] // prettier-ignore
const [a, b, , stranger] = keys as [Record<string, string>, Record<string, string>, unknown, Record<string, string>]
const trust: PolicyTrust = { threshold: 2, keys: keys.slice(0, 3).map(readPolicyKey) }

const draft = (version: number, changes: Record<string, unknown> = {}) =>
  JSON.stringify({ version, rules: [{ name: 'rest', effect: 'allow' }], ...changes })
const signed = (text: string, ...by: Record<string, string>[]) => by.reduce(addSignature, text)
const inForce = (version: number, changes?: Record<string, unknown>) => readPolicyVersion(draft(version, changes))
const offer = (text: string, now: PolicyVersion | null = null) => readOffer(text, { inForce: now, trust, isPlainTaken: false }) // prettier-ignore
const refused = (text: string, now: PolicyVersion | null, why: RegExp) =>
  assert.throws(() => offer(text, now), (error) => error instanceof PolicyInvalid && why.test(error.message), String(why)) // prettier-ignore

test('two of three keys put a policy in force; one, a stranger, or the same key twice do not', () => {
  const taken = offer(signed(draft(1), a, b))
  assert.ok(taken.is === 'newer' && taken.offer.document.version === 1)
  assert.equal(taken.offer.hash, hashOfPolicy(draft(1)))
  refused(draft(1), null, /not signed/)
  refused(signed(draft(1), a), null, /1 of 3 trusted keys signed it, and 2 have to/)
  refused(signed(draft(1), a, stranger), null, /1 of 3/)
  const twice = JSON.parse(signed(draft(1), a)) as GeneralJWS
  refused(JSON.stringify({ ...twice, signatures: [...twice.signatures, ...twice.signatures] }), null, /1 of 3/)
  assert.throws(() => signed(draft(1), a, a), /has signed it already/)
})

test('what was signed is what jose takes for a JWS, and what jose signs under another type is no policy', async () => {
  const text = draft(3)
  const jws = JSON.parse(signed(text, a)) as GeneralJWS
  const { payload } = await generalVerify(jws, await importJWK(trust.keys[0]!, 'EdDSA'))
  assert.equal(Buffer.from(payload).toString('utf8'), text)
  const kid = (JSON.parse(Buffer.from(jws.signatures[0]!.protected!, 'base64url').toString()) as { kid: string }).kid
  for (const header of [
    { alg: 'EdDSA', kid },
    { alg: 'EdDSA', kid, typ: 'JWT' },
    { alg: 'EdDSA', kid, typ: 'chatelaine-policy', b64: true, crit: ['b64'] },
  ]) {
    // prettier-ignore
    const compact = await new CompactSign(Buffer.from(text)).setProtectedHeader(header).sign(await importJWK(a, 'EdDSA')) // prettier-ignore
    const [head, payload, signature] = compact.split('.')
    const other = JSON.parse(signed(text, b)) as GeneralJWS
    refused(
      JSON.stringify({ payload, signatures: [...other.signatures, { protected: head, signature }] }),
      null,
      /1 of 3/,
    )
  }
})

test('edited, older and renumbered policies are refused', () => {
  const jws = JSON.parse(signed(draft(2), a, b)) as GeneralJWS
  const edited = { ...jws, payload: Buffer.from(draft(2, { freeze: { everything: true } })).toString('base64url') }
  refused(JSON.stringify(edited), null, /0 of 3/)
  refused(signed(draft(1), a, b), inForce(2), /1 is older than 2/)
  refused(signed(draft(2, { freeze: {} }), a, b), inForce(2), /another document has the version 2/)
  assert.equal(offer(signed(draft(2), a, b), inForce(2)).is, 'in force')
  refused(`${signed(draft(1), a, b).slice(0, -3)}, "header": {}}`, null, /general JSON form/)
})

test('one key may freeze more in the next version, and do nothing else by it', () => {
  const now = inForce(4, { freeze: { users: ['DISCORD-1'] } })
  const by = (version: number, changes: Record<string, unknown>) => signed(draft(version, changes), a)
  for (const freeze of [
    { users: ['DISCORD-1', 'DISCORD-2'] },
    { users: ['DISCORD-1'], everything: true },
    { users: ['DISCORD-1'], chains: [1], clients: ['shop'] },
  ])
    // prettier-ignore
    assert.equal(offer(by(5, { freeze }), now).is, 'newer')
  const more = { users: ['DISCORD-1', 'DISCORD-2'] }
  refused(by(6, { freeze: more }), now, /1 of 3/)
  refused(by(5, { freeze: { users: ['DISCORD-2'] } }), now, /1 of 3/)
  refused(by(5, {}), now, /1 of 3/)
  refused(by(5, { freeze: more, rules: [{ name: 'all', effect: 'allow' }] }), now, /1 of 3/)
  refused(by(5, { freeze: more, tokens: {} }), now, /1 of 3/)
  refused(signed(draft(5, { freeze: more }), stranger), now, /0 of 3/)
  refused(by(1, { freeze: more }), null, /1 of 3/)
  for (const freeze of [{ chains: [1] }, { clients: ['shop'] }, { everything: true }, { users: ['DISCORD-1'] }]) {
    const frozen = inForce(4, { freeze })
    // One key takes no number of a version for nothing, and lifts nothing by what it adds.
    refused(by(5, { freeze }), frozen, /1 of 3/)
    refused(by(5, { freeze: { users: ['DISCORD-2', 'DISCORD-3'] } }), frozen, /1 of 3/)
    assert.equal(offer(by(5, { freeze: { users: ['DISCORD-2'], ...freeze, chains: [1, 2] } }), frozen).is, 'newer')
  }
  refused(by(5, {}), inForce(4), /1 of 3/)
  refused(signed(draft(6, { freeze: { users: ['DISCORD-1'], everything: false } }), a), inForce(5, { freeze: { users: ['DISCORD-1'], everything: true } }), /1 of 3/) // prettier-ignore
})

test('a plain document is for development, and without trusted keys nothing that is signed is taken', () => {
  assert.equal(readOffer(draft(1), { inForce: null, trust, isPlainTaken: true }).is, 'newer')
  const none: PolicyTrust = { threshold: 1, keys: [] }
  assert.throws(() => readOffer(signed(draft(1), a), { inForce: null, trust: none, isPlainTaken: true }), /policy-keys/)
})
