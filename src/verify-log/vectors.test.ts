import assert from 'node:assert/strict'
import { createPrivateKey, createPublicKey, createSecretKey, sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { signNote, verifierKeyOf } from '../signer/ledger/heads.ts'
import { originOf } from '../signer-wire/verifier.ts'
import { macKeyOf, openMacs } from '../signer/ledger/macs.ts'
import { GENESIS, recordOf, type LedgerRow } from '../signer/ledger/record.ts'
import { growTree, hashOf, isMac, readCheckpoint } from './log.ts'

const document = readFileSync(join(import.meta.dirname, '../../docs/reference/signing-log.md'), 'utf8')
const vectors = JSON.parse(/```json\n([^]*?)```/.exec(document)![1]!) as {
  records: [string, string]
  mac1: string
  roots: [string, string]
  key: string
}
const note = /```\n(chatelaine-signing-log[^]*?)```/.exec(document)![1]!

const NOTHING = {
  ...{ chain_id: null, nonce: null, intent_id: null, effect: null, fee_type: null, max_fee: null, priority_fee: null },
  ...{
    gas: null,
    hash: null,
    raw: null,
    client_id: null,
    token_id: null,
    request_hash: null,
    policy: null,
    spent: null,
  },
}
const first: Omit<LedgerRow, 'record'> = {
  ...NOTHING,
  ...{ seq: 1, at: 1_767_225_600_000, kind: 'account', user_id: 'DISCORD-1', address: Buffer.alloc(20, 0xa1) },
  ...{ rule: 'one-account-per-user', evidence: null, mac: Buffer.alloc(36) },
}
const second: typeof first = { ...first, seq: 2, user_id: 'DISCORD-2', address: Buffer.alloc(20, 0xb2), evidence: '{}' }

test('the vectors of docs/reference/signing-log.md are what the signer writes and what the verifier reads', () => {
  const one = recordOf(GENESIS, first)
  const two = recordOf(one, second)
  assert.deepEqual([one.toString('hex'), two.toString('hex')], vectors.records)
  assert.deepEqual([hashOf(GENESIS, first), hashOf(one, second)], [one, two])

  const key = macKeyOf(createSecretKey(Buffer.alloc(32, 3)))
  const mac = openMacs({ current: () => 1, keyOf: () => key }).of(one)
  assert.equal(mac.toString('hex'), vectors.mac1)
  assert.ok(isMac(new Map([[1, key.export()]]), one, mac))
  assert.ok(!isMac(new Map([[1, key.export()]]), two, mac))

  const tree = growTree()
  const roots = [one, two].map((record) => {
    tree.add(record)
    return tree.root()
  })
  assert.deepEqual(
    roots.map((root) => root.toString('base64')),
    vectors.roots,
  )

  const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.alloc(32, 1)])
  const secret = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  const publicKey = createPublicKey(secret).export({ format: 'der', type: 'spki' }).subarray(12)
  const identity = {
    ...{ origin: originOf(publicKey), publicKey, isNew: false, isSigned: () => true },
    sign: (text: string) => sign(null, Buffer.from(text, 'utf8'), secret),
  }
  assert.equal(verifierKeyOf(identity), vectors.key)
  assert.equal(signNote({ size: 2, root: roots[1]!, at: 1_767_225_600_000 }, identity), note)
  assert.equal(readCheckpoint(note, vectors.key).isSigned, true)
  assert.equal(readCheckpoint(note.replace('\n2\n', '\n3\n'), vectors.key).isSigned, false)
  // Signed by the key, under its name, but a checkpoint of another log.
  const text = note.slice(0, note.indexOf('\n\n') + 1).replace(identity.origin, 'chatelaine-signing-log/another')
  const id = Buffer.from(vectors.key.split('+')[1]!, 'hex')
  const foreign = `${text}\n— ${identity.origin} ${Buffer.concat([id, identity.sign(text)]).toString('base64')}\n`
  assert.equal(readCheckpoint(foreign, vectors.key).isSigned, false)
})
