/**
 * signer/keys: the keys of accounts, and the data keys that encrypt them.
 * Owns: wrapping and opening these keys, signing with them, their rotation, the signer's identity key (`identity.ts`).
 * Does not own: the master key that wraps the data keys (`signer/kek/provider.ts`), the content of signatures (`signer/verbs/pipeline.ts`).
 */

import type { KeyObject } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import type { Deks, KeptDek } from './deks.ts'
import { Refusal } from '../refusal.ts'
import type { Signature } from './curve.ts'
import { rewrap, signWithKey, withKey, wrapGiven, wrapNew, type KeptAccount } from './wrapping.ts'

/**
 * The accounts and their keys: the master key wraps one data key per epoch, and data keys wrap user keys. A user key is in the
 * clear only inside `use` and `sign`. It is then in one buffer that is zeroed afterwards, and never a string.
 */
export type Keys = {
  /** the user's account; null if there is none */
  ofUser: (userId: string) => KeptAccount | null
  ofAddress: (address: Buffer) => KeptAccount | null
  /** starts making the next data key if the newest is full or old */
  prepare: () => void
  /** creates and stores a key; inside a transaction. The user must have none. */
  create: (userId: string) => KeptAccount
  /** stores an imported key; inside a transaction. @returns false if it is no valid key, or gives another address */
  bring: (whose: { userId: string; address: Buffer }, key: Buffer) => boolean
  /**
   * stores the key of a row that another store's data key wrapped, under a data key of this store; inside a transaction.
   * @throws key_damaged
   */
  adopt: (account: KeptAccount, dek: KeyObject) => void
  /**
   * Opens the key for the duration of one call.
   * @throws key_damaged  if the row was altered, moved to another user, or gives another address
   */
  use: <T>(account: KeptAccount, work: (key: Buffer) => T) => T
  /** opens the key and signs 32 bytes with it. @throws key_damaged  like `use` */
  sign: (account: KeptAccount, digest: Buffer) => Signature
  count: () => number
  dataKeyOf: (epoch: number) => KeptDek
  dataKeys: () => KeptDek[]
  /** accounts after a row number, in the order of their creation; `through` is the row number of the last */
  page: (after: number, most: number) => { accounts: KeptAccount[]; through: number }
  /** a number that changes when existing rows are wrapped again */
  generation: () => number
  /** what a rotation needs */
  rotating: RotatingKeys
  /** notes that existing rows are wrapped again; inside a transaction */
  nextGeneration: () => void
}

type RotatingKeys = {
  deks: Deks
  /** accounts after a row number whose data keys are below an epoch; `through` is the row number of the last */
  pageBelow: (epoch: number, after: number, most: number) => { accounts: NumberedAccount[]; through: number }
  /**
   * Wraps each key by the newest data key and derives its address again; inside a transaction.
   * @returns an error `key_damaged` for each key that remains as it was
   */
  move: (accounts: NumberedAccount[]) => Refusal[]
  countBelow: (epoch: number) => number
}

/** With its row number in the table. */
type NumberedAccount = KeptAccount & { rowid: number }

/** Opens the accounts of a store. */
export function openKeys({ db, deks, now }: { db: DatabaseSync; deks: Deks; now: () => number }): Keys {
  const columns = 'user_id AS userId, address, wrapped, iv, tag, epoch, version'
  const byUser = db.prepare(`SELECT ${columns} FROM accounts WHERE user_id = ?`)
  const byAddress = db.prepare(`SELECT ${columns} FROM accounts WHERE address = ?`)
  const page = db.prepare(`SELECT rowid, ${columns} FROM accounts WHERE rowid > ? ORDER BY rowid LIMIT ?`)
  const pageBelow = db.prepare(
    `SELECT rowid, ${columns} FROM accounts WHERE rowid > ? AND epoch < ? ORDER BY rowid LIMIT ?`,
  )
  const countBelow = db.prepare('SELECT count(*) AS accounts FROM accounts WHERE epoch < ?')
  const move = db.prepare('UPDATE accounts SET wrapped = ?, iv = ?, tag = ?, epoch = ?, version = ? WHERE rowid = ?')
  const insert = db.prepare(
    'INSERT INTO accounts (user_id, address, wrapped, iv, tag, epoch, version, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
  )
  const count = db.prepare('SELECT coalesce(sum(keys), 0) AS keys FROM deks')
  const generation = db.prepare('SELECT generation FROM wrapping')
  const next = db.prepare('UPDATE wrapping SET generation = max(generation + 1, ?)')

  return {
    ofUser: (userId) => readAccount(byUser.get(userId)),
    ofAddress: (address) => readAccount(byAddress.get(address)),
    prepare: () => deks.prepareSoon(),
    create: (userId) => store(wrapNew(userId, deks.current())),
    bring(whose, key) {
      const account = wrapGiven(key, whose, deks.current())
      if (account !== null) store(account)
      return account !== null
    },
    adopt: (account, dek) => void store(rewrap(account, dek, deks.current())),
    use: (account, work) => withKey(account, deks.of(account.epoch), work),
    sign: (account, digest) => signWithKey(account, deks.of(account.epoch), digest),
    count: () => (count.get() as { keys: number }).keys,
    dataKeyOf: (epoch) => deks.row(epoch),
    dataKeys: () => deks.rows(),
    page: (after, most) => readPage(page.all(after, most), after),
    rotating: {
      deks,
      pageBelow: (epoch, after, most) => readPage(pageBelow.all(after, epoch, most), after),
      countBelow: (epoch) => (countBelow.get(epoch) as { accounts: number }).accounts,
      move(accounts) {
        const damaged: Refusal[] = []
        for (const account of accounts)
          try {
            const to = rewrap(account, deks.of(account.epoch), deks.current())
            move.run(to.wrapped, to.iv, to.tag, to.epoch, to.version, account.rowid)
            deks.moved(account.epoch, to.epoch)
          } catch (error) {
            if (!(error instanceof Refusal)) throw error
            damaged.push(error)
          }
        deks.writeMoved()
        return damaged
      },
    },
    generation: () => (generation.get() as { generation: number }).generation,
    nextGeneration: () => void next.run(now()),
  }

  function store(account: KeptAccount): KeptAccount {
    const { userId, address, wrapped, iv, tag, epoch, version } = account
    insert.run(userId, address, wrapped, iv, tag, epoch, version, now())
    deks.used(epoch)
    return account
  }
}

function readPage(rows: unknown[], after: number): { accounts: NumberedAccount[]; through: number } {
  const accounts = rows.map((row) => ({ ...readAccount(row)!, rowid: (row as { rowid: number }).rowid }))
  return { accounts, through: accounts.at(-1)?.rowid ?? after }
}

function readAccount(row: unknown): KeptAccount | null {
  if (row === undefined) return null
  const { userId, address, wrapped, iv, tag, epoch, version } = row as KeptAccount
  return { userId, address: view(address), wrapped: view(wrapped), iv: view(iv), tag: view(tag), epoch, version }
}

/** Wraps the bytes without a copy; SQLite does not use them again. */
const view = ({ buffer, byteOffset, length }: Uint8Array): Buffer => Buffer.from(buffer, byteOffset, length)
