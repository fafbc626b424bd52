import type { SourceMutant } from './source-mutants.ts'

/**
 * What holds a row of SECURITY.md, “Attackers”: of each test file that its row in docs/evidence/security.md names, a test by a part of its name; and
 * mechanisms which, when they are switched off in the source, that test has to notice (`security-mutants.test.ts`).
 */
export type SecurityRow = { tests: Record<string, string>; mechanisms: SourceMutant[] }

export const SECURITY_ROWS: Record<string, SecurityRow> = {
  'the separate API': {
    tests: {
      'e2e/apart.test.ts': 'what the API has signs nobody in and nothing for them',
      'src/signer/api-user.test.ts': 'writes nothing of the signer’s, and reads none of its secrets',
      'src/signer/verbs/unauthorised.test.ts':
        'requests that nobody authorised nothing is signed, on the socket of the API',
      'src/signer/rules/unattended.test.ts': 'a raise costs at most eight times the first attempt',
      'src/signer/rules/policy-schedules.test.ts': 'no span holds more than its limit',
    },
    mechanisms: [
      ['a token of someone else is enough', 'signer/rules/authority.ts', 'userId !== null && caller.userId !== userId', 'userId !== null && caller.userId === \'\'', 'signer/verbs/unauthorised', 'on the socket of the API'], // prettier-ignore
      ['a raise without a token costs twice as much', 'signer/rules/policy.ts', 'agreed * maxRaise', 'agreed * maxRaise * 2n', 'signer/rules/unattended', 'a raise costs at most eight times'], // prettier-ignore
    ],
  },
  'the authorization server, or the combined server': {
    tests: {
      'src/signer/sockets.test.ts': 'that one signs nothing',
      'src/signer/tokens/anchor.test.ts': 'not because the server wrote it',
      'src/signer/rules/limits.test.ts': 'of a hundred calls at once with room for ten',
      'src/signer/export/exports.test.ts': 'a key leaves a day after its request',
    },
    mechanisms: [
      ['its own socket signs', 'signer/sockets.ts', '[side, \'both\'].includes(', '[side, \'both\', \'api\'].includes(', 'signer/sockets', 'that one signs nothing'], // prettier-ignore
    ],
  },
  'an identity provider': {
    tests: {
      'src/users/sign-in.test.ts': 'the same subject at two providers is two people',
      'src/oauth/federation/federation.test.ts': 'an id token of another issuer',
    },
    mechanisms: [
      ['people are found by their id at any provider', 'users/sign-in.ts', 'and provider = ${provider} and subject = ${subject}\n    returning', 'and subject = ${subject}\n    returning', 'users/sign-in', 'the same subject at two providers'], // prettier-ignore
    ],
  },
  'an operator API token': {
    tests: {
      'src/oauth/flow.test.ts': 'a permission to spend that was not allowed before takes a recent sign-in',
      'src/applications/manage.test.ts':
        'an application of the operator’s own stays that while its answers go where they went; another origin takes a new word',
      'src/oauth/exchange.test.ts': 'a token of the operator brings no other keys',
      'src/operator/operator.test.ts': 'only a token of the operator opens it',
      'src/operator/people.test.ts': 'nothing of it is a token or a key',
      'src/signer/rules/withdrawals.test.ts': 'without a grant nothing of a sponsor’s is signed',
    },
    mechanisms: [
      ['any token opens it', 'operator/auth.ts', 'if (found === -1) return null', 'if (found === -1) return { name: \'x\', role: \'operator\' }', 'operator/people', 'nobody but the operator reads them'], // prettier-ignore
      ['a grant is for any address', 'signer/rules/withdrawals.ts', 'tx.to?.equals(to) !== true', 'to.length === 0', 'signer/rules/withdrawals', 'a grant is for one sponsor'], // prettier-ignore
    ],
  },
  'an application, or one access token': {
    tests: {
      'src/signer/verbs/unauthorised.test.ts':
        'requests that nobody authorised nothing is signed, on the socket of the API',
      'src/signer/tokens/freezes.test.ts': 'a freeze stays when a list lacks it',
      'src/signer/tokens/revocations.test.ts': 'a revoked token is refused from the list on',
      'src/signer/rules/policy-schedules.test.ts': 'no span holds more than its limit',
    },
    mechanisms: [
      ['a revoked token signs', 'signer/tokens/revocations.ts', 'if (newest.entries.has(grant)) throw', 'if (newest.entries.size < 0) throw', 'signer/tokens/revocations', 'a revoked token is refused from the list on'], // prettier-ignore
    ],
  },
  "a user's session cookie": {
    tests: {
      'src/oauth/flow.test.ts': 'a permission to spend that was not allowed before takes a recent sign-in',
      'src/oauth/account/account.test.ts': 'adding, removing and deleting ask for a sign-in when the last one is old',
      'src/oauth/account/export.test.ts': 'a sign-in of more than 5 minutes ago gets a sign-in, and no key',
    },
    mechanisms: [
      ['an old session may allow an application to spend', 'oauth/consent.ts', 'return isFresh(found?.loginTs, app.clock)', 'return found !== undefined', 'oauth/flow', 'a permission to spend that was not allowed before'], // prettier-ignore
    ],
  },
  "a console operator's session cookie": {
    tests: { 'src/console/console.test.ts': 'each role may do only its actions' },
    mechanisms: [
      ['an old sign-in suffices for sensitive actions', 'console/door.ts', 'if (isFresh(visitor.signedInAt, app.clock, FRESH_SECONDS)) return true', 'if (visitor.signedInAt > 0) return true', 'console/console', 'each role may do only its actions'], // prettier-ignore
      ['a role belongs to the account', 'console/door.ts', 'visitor.cameBy?.identity ?? null', 'visitor.user.userId ?? null', 'console/console', 'a role belongs to the identity that signs in'], // prettier-ignore
      ['any role may do anything', 'operator/operators.ts', 'CONSOLE_ROLES.indexOf(role) <= CONSOLE_ROLES.indexOf(least)', 'CONSOLE_ROLES.indexOf(role) >= 0', 'console/console', 'each role may do only its actions'], // prettier-ignore
    ],
  },
  'read access to the database': {
    tests: {
      'e2e/apart.test.ts': 'what the API has signs nobody in and nothing for them',
      'src/oauth/tokens.test.ts': 'no credential lies in the database or in the log',
    },
    mechanisms: [
      ['records have their own id, which is a session or a token', 'oauth/records.ts', 'const { jti: _jti, ...kept } = payload', 'const kept = payload', 'oauth/tokens', 'no credential lies in the database'], // prettier-ignore
    ],
  },
  'a blockchain node': {
    tests: {
      'src/transactions/settle/proof.test.ts': 'settles nothing, and an honest one settles it',
      'src/follower/proof.test.ts': 'no proof with another byte, node, root or account says another count',
      'src/chain/fees.test.ts': 'never passes the cap',
    },
    mechanisms: [
      ['a fee follows the node past the cap', 'chain/fees.ts', 'maxFeePerGas: wanted < cap ? wanted : cap', 'maxFeePerGas: wanted', 'chain/fees', 'an offer is twice the base fee'], // prettier-ignore
      ['nodes of a proof are taken without their hash', 'follower/proof.ts', 'node === undefined || !keccak(node).equals(reference)', 'node === undefined', 'follower/proof', 'no proof with another byte'], // prettier-ignore
    ],
  },
  'write access to the database': {
    tests: {
      'src/transactions/lanes/forged-intents.test.ts':
        'a row that nobody asked for, under the id of a key that can be guessed, pays nobody',
      'src/applications/open-networks.test.ts': 'whatever somebody writes of a network, 0.01',
      'src/oauth/forged-rows.test.ts': 'an application brings the people of another',
      'src/oauth/row-macs.test.ts': 'a seal is of one row',
      'src/users/false-address.test.ts': 'a false deposit address in the database is shown nowhere',
      'src/users/attest.test.ts': 'an identity that someone wrote into the database attests nothing',
      'src/users/proven-identity.test.ts': 'leads nobody to another’s account',
      'src/signer/tokens/freezes.test.ts': 'a freeze stays when a list lacks it',
      'src/transactions/recovery/lost-tail.test.ts': 'nothing is sent twice',
      'src/signer/export/elsewhere.test.ts': 'a server that lies gains nothing',
    },
    mechanisms: [
      ['an address counts without the signer’s word', 'http/proven-address.ts', 'attestation !== null && by.isSigned(', 'attestation !== null || by.isSigned(', 'users/false-address', 'a false deposit address'], // prettier-ignore
      ['a linked identity counts without a seal', 'store/seal.ts', 'return verify(null, text, key, given)', 'return true', 'users/proven-identity', 'a first identity proves itself'], // prettier-ignore
      ['a row counts without its seal', 'http/authentic-row.ts', 'isSealed(sealKeys, table, row)', 'row.seal !== \'\'', 'oauth/row-macs', 'what someone wrote into a consent'], // prettier-ignore
      ['a MAC is not compared', 'store/seal.ts', 'return given.length === expected.length && timingSafeEqual(given, expected)', 'return true', 'oauth/row-macs', 'a seal is of one row'], // prettier-ignore
      ['a seal is good in another table', 'store/seal.ts', 'canonical([table, ...', 'canonical([...', 'oauth/row-macs', 'a seal is of its table'], // prettier-ignore
    ],
  },
  'write access to `SIGNER_DIR`, without the master key': {
    tests: {
      'src/signer/keys/keys.test.ts': 'every field of a row is bound to its key',
      'src/signer/ledger/tampers.test.ts': 'tampers with recomputed hashes are all found',
      'src/signer/greeting.test.ts': 'a folder restored as a whole is found',
      'src/signer/rules/meter-seal.test.ts': 'while the signer was stopped is counted again at its start',
      'src/signer/export/elsewhere.test.ts': 'a server that lies gains nothing',
      'src/signer/export/exports.test.ts': 'a key leaves a day after its request',
      'src/signer/ledger/ledger-damage.test.ts': 'is found although all hashes were computed again',
    },
    mechanisms: [
      ['a seal of meters is not compared', 'signer/rules/meter-seal.ts', ' || !timingSafeEqual(sealOf(own, { epoch, head, sum }), seal)', '', 'signer/rules/meter-seal', 'a meter that was lowered while'], // prettier-ignore
      ['a MAC of a record is not compared', 'signer/ledger/macs.ts', 'key !== undefined && timingSafeEqual(hmac(key, record), bytes.subarray(EPOCH_BYTES))', 'key !== undefined', 'signer/ledger/ledger-damage', 'is found although all hashes'], // prettier-ignore
    ],
  },
  'a backup of the signer': {
    tests: {
      'src/signer/programs/backup.test.ts': 'a backup beside a signer that keeps signing is one state of its store',
    },
    mechanisms: [
      ['a backup may lie beside the master key', 'signer/programs/backup.ts', 'if (keks.some((file) => isInside(target, file)))', 'if (keks.length < 0)', 'signer/programs/backup', 'the master key and the store are never in reach'], // prettier-ignore
    ],
  },
  'the master key': {
    tests: {
      'src/signer/keys/keys.test.ts': 'every field of a row is bound to its key',
      'src/signer/programs/restore-keys.test.ts': 'every key comes back to its address',
    },
    mechanisms: [
      ['a wrapped key opens for any row', 'signer/keys/wrapping.ts', 'canonical(\'chatelaine user key 1\', userId, address, version, epoch)', 'canonical(\'chatelaine user key 1\', version)', 'signer/keys/keys', 'every field of a row'], // prettier-ignore
    ],
  },
}

/** Mechanisms behind single sentences of “Known limits”. */
export const CLAIMS: SourceMutant[] = [
  ['one more nonce in a row is filled without a token', 'signer/rules/judge.ts', 'neighbours(nonce, facts) >= facts.maxFills', 'neighbours(nonce, facts) > facts.maxFills', 'signer/rules/judge', 'without a token sixteen in a row'], // prettier-ignore
  ['a revocation is remembered for today’s setting only', 'oauth/revoke.ts', 'coalesce((select max(lives_until) from ended), now() + make_interval(secs => ${MAX_ACCESS_SECONDS}::int))', 'now()', 'oauth/revocations', 'a revocation is remembered as long'], // prettier-ignore
  ['a function that is not known passes a limit of its token', 'signer/policy/evaluate.ts', '=== true ? null : \'unknown\'', '=== true ? null : null', 'signer/policy/evaluate', '.'], // prettier-ignore
  ['an approval is for any content', 'signer/rules/approval.ts', 'claims.digest === approvalDigest({ chainId, from: toHex(from), content: content() }) &&', '', 'signer/rules/approval', 'an approval is of one user'], // prettier-ignore
  ['an operation of another account is a message', 'signer/rules/message-rules.ts', 'own.equals(separator)', 'own.equals(from)', 'signer/rules/approval', 'nothing but a message'], // prettier-ignore
  ['the record of operators is no chain', 'operator/actions.ts', '.update(previous).update(text)', '.update(text)', 'operator/actions', 'a row that was changed'], // prettier-ignore
]
