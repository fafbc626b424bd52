import assert from 'node:assert/strict'
import { createHash, createHmac, createSecretKey, hkdfSync, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { canonical } from '../canonical.ts'
import { fixedMacs } from '../../../test/fixed-macs.ts'
import { openUnwitnessed } from './ledger.ts'
import { GENESIS, recordOf, type LedgerAttempt, type LedgerRow } from './record.ts'
import { macKeyOf, openMacs } from './macs.ts'
import { openStore } from '../store.ts'

const ALICE = Buffer.alloc(20, 0xa1)
const BOB = Buffer.alloc(20, 0xb0)

function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-ledger-'))
  const store = openStore(join(folder, 'store'))
  t.after(() => {
    store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const ledger = openUnwitnessed(store.db, fixedMacs())
  function add(changes: Partial<LedgerAttempt> = {}, tokenId: string | null = 'token') {
    const held: LedgerAttempt = {
      ...{ seq: ledger.head().count + 1, at: 1, userId: 'X-1', clientId: 'shop', requestHash: null },
      isAgreed: tokenId !== null,
      kind: 'send',
      intentId: `tx_${changes.nonce ?? 0}`,
      chainId: 1,
      address: ALICE,
      nonce: 0,
      effect: Buffer.alloc(32, 1),
      feeType: 'eip1559',
      gas: 21_000n,
      max: 2n ** 255n,
      priority: 7n,
      raw: randomBytes(110),
      hash: randomBytes(32),
      rule: 'default-allow',
      ...changes,
    }
    const { kind, address, rule } = held
    ledger.append({ at: 1, kind, userId: 'X-1', address, rule, held, clientId: 'shop', tokenId })
    return held
  }
  return { store, ledger, add }
}

const slot = (changes: object = {}) => ({ chainId: 1, address: ALICE, nonce: 0, ...changes })

test('what was appended is read back whole, amounts above 2^64 too', (t) => {
  const { ledger, add } = world(t)
  const held = add()
  assert.deepEqual(ledger.attempts(slot()), [held])
  assert.deepEqual([...ledger.ofIntent('tx_0')], [held])
})

test('a record covers the hash of its request, what was shown and what policy says, and its MAC covers the record', (t) => {
  const { ledger, store, add } = world(t)
  const requestHash = Buffer.alloc(32, 9)
  add({ requestHash })
  assert.deepEqual(ledger.attempts(slot())[0]!.requestHash, requestHash)
  const common = { at: 1, kind: 'account', userId: 'X-1', address: ALICE, rule: 'a' } as const
  ledger.append({ ...common, evidence: '{"jti":"1"}', policy: 'standard 3', spent: '7' })
  const [first, second] = store.db.prepare('SELECT * FROM ledger ORDER BY seq').all() as LedgerRow[]
  const { seq, at, kind, user_id, address, chain_id, nonce, intent_id, effect, fee_type, max_fee, priority_fee } =
    first!
  const { gas, hash, raw, rule, client_id, token_id, request_hash } = first!
  const record = createHash('sha256')
    .update(
      canonical(
        ...['chatelaine ledger 1', GENESIS, seq, at, kind, user_id, address, chain_id, nonce, intent_id, effect],
        ...[fee_type, max_fee, priority_fee, gas, hash, raw, rule, client_id, token_id, request_hash, null, null, null],
      ),
    )
    .digest()
  assert.deepEqual(Buffer.from(first!.record), record)
  const dek = createSecretKey(Buffer.alloc(32, 3))
  const macs = openMacs({ current: () => 258, keyOf: () => macKeyOf(dek) })
  const key = Buffer.from(hkdfSync('sha256', dek, Buffer.alloc(0), 'chatelaine ledger mac 1', 32))
  const mac = Buffer.concat([Buffer.from('00000102', 'hex'), createHmac('sha256', key).update(record).digest()])
  assert.deepEqual(macs.of(record), mac)

  assert.deepEqual(recordOf(record, second!), Buffer.from(second!.record))
  assert.deepEqual([second!.evidence, second!.policy, second!.spent], ['{"jti":"1"}', 'standard 3', '7'])
  for (const changes of [{ evidence: null }, { policy: 'standard 4' }, { spent: null }, { evidence: '' }])
    assert.notDeepEqual(recordOf(record, { ...second!, ...changes }), Buffer.from(second!.record))
})

test('accounts, chains and nonces are apart', (t) => {
  const { ledger, add } = world(t)
  add({ nonce: 5 })
  assert.equal(ledger.attempts(slot({ nonce: 5 })).length, 1)
  for (const other of [{ nonce: 4 }, { nonce: 5, chainId: 2 }, { nonce: 5, address: BOB }]) {
    assert.equal(ledger.attempts(slot(other)).length, 0)
    assert.equal(ledger.isElsewhere('tx_5', slot(other)), true)
  }
  assert.equal(ledger.isElsewhere('tx_5', slot({ nonce: 5 })), false)
  assert.equal(ledger.isElsewhere('tx_6', slot({ nonce: 6 })), false)
  assert.equal(ledger.lane(slot({ chainId: 2 })), null)
  assert.equal(ledger.lane(slot({ address: BOB })), null)
})

test('holes and fills without a token are counted by nonce, not by attempt', (t) => {
  const { ledger, add } = world(t)
  add({ nonce: 3 })
  add({ nonce: 3, kind: 'replace' }, null)
  add({ nonce: 5, kind: 'cancel' }, null)
  add({ nonce: 5, kind: 'cancel' }, null)
  add({ nonce: 8, kind: 'cancel' })
  add({ nonce: 9, chainId: 2 }, null)
  assert.deepEqual(ledger.lane(slot()), { lowest: 3, highest: 8 })
  assert.equal(ledger.unsignedBetween(slot(), 3, 8), 3)
  assert.equal(ledger.unsignedBetween(slot(), 8, 7), 0)
  assert.equal(ledger.unsignedBetween(slot(), 8, 2), 0)
  assert.deepEqual(ledger.unvouchedBetween(slot(), -16, 20), [5])
})

test('every query on the way to a signature searches an index', (t) => {
  const { store, ledger, add } = world(t)
  add()
  const prepared: string[] = []
  const prepare = store.db.prepare.bind(store.db)
  store.db.prepare = (sql) => {
    prepared.push(sql)
    return prepare(sql)
  }
  openUnwitnessed(store.db, fixedMacs())
  const hot = prepared.filter((sql) => sql.includes('address =') || sql.includes('_id ='))
  assert.ok(hot.length >= 6)
  for (const sql of hot) {
    const plan = prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]
    for (const { detail } of plan) assert.doesNotMatch(detail, /^SCAN ledger/, sql)
  }
  assert.equal(ledger.head().count, 1)
})
