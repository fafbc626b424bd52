import { createHash, randomBytes } from 'node:crypto'
import type { App } from '../src/app.ts'
import { readConfig } from '../src/config.ts'
import { newTransactionId, type Hex, type UserId } from '../src/ids.ts'
import type { Signer } from '../src/signer-wire/client.ts'
import { fromHex, toHex } from '../src/hex.ts'
import { toWord } from '../src/store/bytes.ts'
import type { Db } from '../src/store/db.ts'
import type { Logger } from '../src/log.ts'
import { openTelemetry } from '../src/telemetry.ts'
import type { AttemptRow, TransactionRow } from '../src/transactions/intent.ts'
import { restoreAccount } from '../src/users/pregenerate.ts'
import { attestingSigner } from './attesting.ts'
import { testDatabase } from './kit/database.ts'
import { fakeChain, type Says } from './fake-chain.ts'
import { openState } from '../src/state.ts'
import { noSealKeys } from './seal-keys.ts'
import { systemClock } from '../src/clock.ts'

type Line = { level: keyof Logger; event: string; fields: Record<string, unknown> }
export type FakeApp = Awaited<ReturnType<typeof fakeApp>>

/**
 * An App with a real database, and a node and a signer that say what a test tells them: for what hangs on a row, an
 * answer or a refusal that the real ones do not give when asked to.
 */
export async function fakeApp(settings: Record<string, string> = {}) {
  const database = await testDatabase()
  const { db } = database
  const node: Record<string, Says> = {}
  const fake = fakeChain(node)
  const lines: Line[] = []
  const line =
    (level: keyof Logger): Logger[keyof Logger] =>
    (event, fields = {}) =>
      void lines.push({ level, event, fields })
  // It agrees with the database; tests of addresses that are not the signer's have a signer of their own.
  const { attest, identity } = attestingSigner(async (userId) => {
    const row = await db.selectFrom('accounts').select('address').where('user_id', '=', userId).executeTakeFirst()
    return row === undefined ? null : toHex(row.address)
  })
  const signer: Partial<Signer> = { attest, identity }
  const refuse = (verb: string) => () => Promise.reject(new Error(`the signer was asked to ${verb}`))
  const app: App = {
    config: readConfig({ NODE_ENV: 'test', RATE_LIMITS: 'off', ...settings }, 'server'),
    origin: 'http://localhost:4000',
    authOrigin: 'http://localhost:4000',
    db,
    chains: new Map([[fake.chain.chainId, fake.chain]]),
    networks: new Map(),
    auth: null,
    signer: new Proxy({} as Signer, {
      get: (_, verb: keyof Signer) => signer[verb] ?? refuse(verb),
    }),
    telemetry: {
      ...openTelemetry('test', 'silent'),
      log: { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') },
    },
    tokenKeys: { keys: [] },
    sealKeys: noSealKeys,
    state: openState(),
    clock: systemClock,
  }

  /** An account, and who it is as a caller of an application. */
  async function account(name: string) {
    const address = toHex(createHash('sha256').update(name).digest().subarray(0, 20))
    const userId = `DEV-${name}` as UserId
    await restoreAccount(db, { userId, address })
    const { account_id: accountId } = await db
      .selectFrom('accounts')
      .select('account_id')
      .where('address', '=', fromHex(address))
      .executeTakeFirstOrThrow()
    return { userId, address, accountId, clientId: 'demo', chainId: fake.chain.chainId, token: 'token' }
  }
  type Account = Awaited<ReturnType<typeof account>>

  const rowOf = (id: string, within: Db = db): Promise<TransactionRow> =>
    within.selectFrom('transactions').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

  return {
    ...fake,
    app,
    db: db as Db,
    /** what the node says, by method */
    node,
    /** what the signer does, by verb; what is missing here it must not be asked */
    signer,
    /** log lines of an event */
    told: (event: string) => lines.filter((one) => one.event === event),
    account,
    rowOf,
    attemptsOf: (id: string) =>
      db.selectFrom('attempts').selectAll().where('transaction_id', '=', id).orderBy('max_fee').execute(),
    /** a row of an account; SUBMITTED, under a hash that has an attempt, unless it is said otherwise */
    async row(
      { accountId, address }: Account,
      { transitions, revert, ...given }: Partial<Omit<TransactionRow, 'authorizations'>> = {},
      attempt: Partial<AttemptRow> | null = {},
      within: Db = db,
    ): Promise<TransactionRow> {
      const id = newTransactionId()
      const hash = attempt === null ? null : randomBytes(32)
      const terms = { gas_limit: 21_000, max_fee: toWord(100n), max_priority_fee: toWord(10n) }
      await within
        .insertInto('transactions')
        .values({
          ...{ id, account_id: accountId, client_id: 'demo', chain_id: fake.chain.chainId, sender: fromHex(address) },
          ...{ nonce: 0, target: Buffer.alloc(20, 0xb2), value: toWord(0n), data: Buffer.alloc(0), ...terms, abi: '' },
          ...{ hash, state: hash === null ? 'BOUND' : 'SUBMITTED', ...given },
          transitions: JSON.stringify(transitions ?? []),
          revert: revert === undefined || revert === null ? null : JSON.stringify(revert),
        })
        .execute()
      const row = await rowOf(given.id ?? id, within)
      if (hash !== null && attempt !== null)
        await within
          .insertInto('attempts')
          .values({
            ...{ chain_id: row.chain_id, hash: row.hash ?? hash, transaction_id: row.id, raw: Buffer.from(hash) },
            ...{ ...terms, created_block: null, ...attempt },
          })
          .execute()
      return row
    },
    close: database.close,
  }
}

/** What a signer answers to `sign`: other bytes each time. */
export function signed(kind: 'send' | 'replace' | 'cancel', nonce = 0) {
  const raw: Hex = `0x${randomBytes(40).toString('hex')}`
  const hash: Hex = `0x${createHash('sha256').update(raw).digest('hex')}`
  return { raw, hash, nonce, kind, stored: false, rule: 'none' }
}
