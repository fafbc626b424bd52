import type { DatabaseSync } from 'node:sqlite'
import { hashAuthorization, hashTypedData, parseTransaction } from 'viem/utils'
import { DELEGATE, DISPATCHER } from '../gas/addresses.ts'
import { cancelData, readCancel } from '../gas/dispatch.ts'
import { readDispatch, type Dispatch } from '../gas/packed-operation.ts'
import { signerOf } from './curve.ts'
import { readDelegation, readHeldOperation } from './operation-ledger.ts'
import { OUTER, type LedgerRow } from './record.ts'
import type { Hex } from './wire.ts'

const types = {
  Operation: [
    { name: 'dispatcher', type: 'address' },
    { name: 'id', type: 'uint256' },
    { name: 'calls', type: 'Call[]' },
    { name: 'gasLimit', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
  ],
  Call: [
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'data', type: 'bytes' },
  ],
} as const

/** What is wrong with the record of an operation: its digest is made again by another library than the one that made it. */
export function operationFault(row: LedgerRow): string | null {
  const raw = Buffer.from(row.raw!)
  const [dispatcher, space, packed] = [raw.subarray(0, 20), raw.subarray(20, 40), raw.subarray(40)]
  const { account, sequence, gasLimit, deadline, calls, signature } = readHeldOperation({ packed })
  const id = Buffer.concat([space, packed.subarray(20, 32)])
  const digest = hashTypedData({
    domain: { name: 'Chatelaine', version: '1', chainId: row.chain_id!, verifyingContract: hexOf(account) },
    types,
    primaryType: 'Operation',
    message: {
      ...{
        dispatcher: hexOf(dispatcher),
        id: BigInt(hexOf(id)),
        gasLimit: BigInt(gasLimit),
        deadline: BigInt(deadline),
      },
      calls: calls.map(({ to, value, data }) => ({ to: hexOf(to), value, data: hexOf(data) })),
    },
  })
  if (!account.equals(row.address)) return 'its bytes are of another account'
  if (digest !== hexOf(row.hash!)) return 'its hash is another'
  if (!signerOf(bytesOf(digest), signature).equals(account)) return 'another account signed it'
  if (!id.equals(row.effect!) || BigInt(hexOf(id)) % 2n ** 96n !== sequence) return 'its bytes have another id'
  if (!dispatcher.equals(DISPATCHER)) return 'it is for another contract'
  return row.gas === String(gasLimit) ? null : 'its bytes have another gas limit'
}

/** The same of an authorization of code. */
export function delegationFault(row: LedgerRow): string | null {
  const { chainId, address, nonce, ...signature } = readDelegation(row.raw!)
  const digest = hashAuthorization({ chainId, contractAddress: hexOf(address), nonce })
  if (digest !== hexOf(row.hash!)) return 'its hash is another'
  if (chainId !== row.chain_id || nonce !== row.nonce) return 'its bytes are of another chain or nonce'
  if (!address.equals(row.effect!) || !address.equals(DELEGATE)) return 'it authorizes other code'
  return signerOf(bytesOf(digest), signature).equals(row.address) ? null : 'another account signed it'
}

/**
 * What sponsors sent without a token: to the dispatcher, and all of it signed by persons, in records before it. And whether what is
 * remembered of who carried what is so.
 */
export function outerFaults(db: DatabaseSync): string[] {
  if (db.prepare(`SELECT 1 FROM sqlite_schema WHERE name = 'carried'`).get() === undefined) return []
  const faults: string[] = []
  const held = db.prepare(`SELECT seq, raw FROM ledger WHERE chain_id = ? AND effect = ? AND kind = 'operation'`)
  const delegated = db.prepare(
    `SELECT raw FROM ledger WHERE address = ? AND chain_id = ? AND nonce = ? AND kind = 'authorization' AND seq < ?`,
  )
  const cancelled = db.prepare(
    `SELECT raw FROM ledger WHERE address = ? AND chain_id = ? AND nonce = ? AND kind = 'send' AND rule = '${OUTER}' AND seq < ?`,
  )
  const isCarried = db.prepare('SELECT 1 FROM carried WHERE operation = ? AND outer = ?')
  const { all } = db.prepare('SELECT count(*) AS "all" FROM carried').get() as { all: number }
  let [carried, forgotten] = [0, 0]
  const rows = db.prepare(`SELECT * FROM ledger WHERE rule = '${OUTER}' ORDER BY seq`).iterate()
  for (const row of rows as Iterable<LedgerRow>) {
    try {
      const fault = row.kind === 'cancel' ? cancelFault(row) : outerFault(row)
      if (fault !== null) faults.push(`Record ${row.seq}: ${fault}.`)
    } catch {
      faults.push(`Record ${row.seq}: it carries what cannot be read.`)
    }
  }
  const wrong = forgotten + all - carried
  if (wrong > 0) faults.push(`What sponsors carried differs from the ledger: ${wrong}.`)
  return faults

  function outerFault(row: LedgerRow): string | null {
    const { to, value = 0n, data = '0x', authorizationList = [] } = parseTransaction(hexOf(row.raw!)) as Outer
    const dispatch = readDispatch(bytesOf(data))
    if (to?.toLowerCase() !== hexOf(DISPATCHER) || value !== 0n || dispatch === null)
      return 'it is not to the dispatcher, or does something else besides'
    for (const { packed } of dispatch.operations) {
      const id = Buffer.concat([dispatch.space, packed.subarray(20, 32)])
      const found = held.get(row.chain_id, id) as Pick<LedgerRow, 'seq' | 'raw'> | undefined
      if (found === undefined || found.seq > row.seq || !packed.equals(Buffer.from(found.raw!).subarray(40)))
        return 'it carries an operation that nobody signed before it'
      if (row.kind !== 'send') continue
      if (isCarried.get(found.seq, row.seq) === undefined) forgotten += 1
      else carried += 1
    }
    return delegationsFault(row, dispatch, authorizationList)
  }

  /** A cancel of what carries operations uses up ids of those only. */
  function cancelFault(row: LedgerRow): string | null {
    const { to, value = 0n, data = '0x', authorizationList = [] } = parseTransaction(hexOf(row.raw!)) as Outer
    const before = cancelled.get(row.address, row.chain_id, row.nonce, row.seq) as Pick<LedgerRow, 'raw'> | undefined
    const inIt = before === undefined ? '0x' : ((parseTransaction(hexOf(before.raw!)) as Outer).data ?? '0x')
    const dispatch = readDispatch(bytesOf(inIt))
    if (dispatch === null) return 'it cancels what carries no operations'
    const sequences = readCancel(bytesOf(data)) ?? []
    const isExact = bytesOf(data).equals(cancelData(dispatch.space, sequences))
    const known = new Set(dispatch.operations.map(({ sequence }) => sequence))
    if (
      to?.toLowerCase() !== hexOf(DISPATCHER) ||
      value !== 0n ||
      !isExact ||
      !sequences.every((one) => known.has(one))
    )
      return 'it uses up more than what it takes the place of carries'
    return delegationsFault(row, dispatch, authorizationList)
  }

  function delegationsFault(
    row: LedgerRow,
    dispatch: Dispatch,
    list: NonNullable<Outer['authorizationList']>,
  ): string | null {
    const accounts = dispatch.operations.map(({ account }) => account)
    const isSigned = list.every(({ nonce, r, s }) =>
      accounts.some((account) => {
        const found = delegated.get(account, row.chain_id, nonce, row.seq) as Pick<LedgerRow, 'raw'> | undefined
        if (found === undefined) return false
        const known = readDelegation(found.raw!)
        return BigInt(hexOf(known.r)) === BigInt(r) && BigInt(hexOf(known.s)) === BigInt(s)
      }),
    )
    return isSigned ? null : 'it carries an authorization that nobody signed before it'
  }
}

type Outer = {
  to?: Hex
  value?: bigint
  data?: Hex
  authorizationList?: { nonce: number; r: Hex; s: Hex }[]
}

const hexOf = (bytes: Uint8Array): Hex => `0x${Buffer.from(bytes).toString('hex')}`
const bytesOf = (text: string): Buffer => Buffer.from(text.slice(2), 'hex')
