import type { DatabaseSync } from 'node:sqlite'
import { encodeAbiParameters, hashAuthorization, hashTypedData, keccak256, pad, parseTransaction } from 'viem/utils'
import { delegateNameOf, GAS_PAIRS, isDelegate } from '../../gas/addresses.ts'
import { cancelData, readCancel } from '../../gas/dispatch.ts'
import { readDispatch, type Dispatch } from '../../gas/packed-operation.ts'
import { signerOf } from '../keys/curve.ts'
import { readDelegation, readHeldOperation } from '../ledger/operation-ledger.ts'
import { OUTER, type LedgerRow } from '../ledger/record.ts'
import type { Hex } from '../../signer-wire/wire.ts'
import { fromHex, toHex } from '../../hex.ts'

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

const caliburTypes = {
  SignedBatchedCall: [
    { name: 'batchedCall', type: 'BatchedCall' },
    { name: 'nonce', type: 'uint256' },
    { name: 'keyHash', type: 'bytes32' },
    { name: 'executor', type: 'address' },
    { name: 'deadline', type: 'uint256' },
  ],
  BatchedCall: [
    { name: 'calls', type: 'Call[]' },
    { name: 'revertOnFailure', type: 'bool' },
  ],
  Call: types.Call,
} as const

/** Returns what is wrong with the record of an operation, else null. It computes the digest by another library than the one that signed. */
export function operationFault(row: LedgerRow): string | null {
  const raw = Buffer.from(row.raw!)
  const [dispatcher, space, packed] = [raw.subarray(0, 20), raw.subarray(20, 40), raw.subarray(40)]
  const { account, sequence, gasLimit, deadline, calls, signature } = readHeldOperation({ packed })
  const id = Buffer.concat([space, packed.subarray(20, 32)])
  const name = delegateNameOf(dispatcher)
  if (name === null) return 'it is for another contract'
  const where = { chainId: row.chain_id!, verifyingContract: toHex(account) }
  const asked = {
    calls: calls.map(({ to, value, data }) => ({ to: toHex(to), value, data: toHex(data) })),
    dispatcher: toHex(dispatcher),
    id: BigInt(toHex(id)),
    gasLimit: BigInt(gasLimit),
    deadline: BigInt(deadline),
  }
  const digest = name === 'calibur' ? caliburDigest(where, asked) : ownDigest(where, asked)
  if (!account.equals(row.address)) return 'its bytes belong to another account'
  if (digest !== toHex(row.hash!)) return 'its hash does not match'
  if (!signerOf(fromHex(digest), signature).equals(account)) return 'another account signed it'
  if (!id.equals(row.effect!) || BigInt(toHex(id)) % 2n ** 96n !== sequence) return 'its bytes have a different id'
  return row.gas === String(gasLimit) ? null : 'its bytes have a different gas limit'
}

type Where = { chainId: number; verifyingContract: Hex }
type OperationMessage = {
  calls: { to: Hex; value: bigint; data: Hex }[]
  dispatcher: Hex
  id: bigint
  gasLimit: bigint
  deadline: bigint
}

const ownDigest = (where: Where, message: OperationMessage): Hex =>
  hashTypedData({ domain: { name: 'Chatelaine', version: '1', ...where }, types, primaryType: 'Operation', message })

/** Computes Calibur's digest; id and gas limit are in the nonce, as in contracts/CaliburDispatcher.sol. */
function caliburDigest(where: Where, { calls, dispatcher, id, gasLimit, deadline }: OperationMessage): Hex {
  const key = keccak256(encodeAbiParameters([{ type: 'uint256' }, { type: 'uint256' }], [id, gasLimit]))
  const salt = pad(toHex(GAS_PAIRS.calibur.delegate))
  return hashTypedData({
    domain: { name: 'Calibur', version: '1.0.0', ...where, salt },
    types: caliburTypes,
    primaryType: 'SignedBatchedCall',
    message: {
      batchedCall: { calls, revertOnFailure: true },
      nonce: (BigInt(key) >> 64n) << 64n,
      keyHash: pad('0x'),
      executor: dispatcher,
      deadline,
    },
  })
}

/** Returns what is wrong with the record of an authorization, else null. */
export function delegationFault(row: LedgerRow): string | null {
  const { chainId, address, nonce, ...signature } = readDelegation(row.raw!)
  const digest = hashAuthorization({ chainId, contractAddress: toHex(address), nonce })
  if (digest !== toHex(row.hash!)) return 'its hash does not match'
  if (chainId !== row.chain_id || nonce !== row.nonce) return 'its bytes belong to another chain or nonce'
  if (!address.equals(row.effect!) || !isDelegate(address)) return 'it authorizes other code'
  return signerOf(fromHex(digest), signature).equals(row.address) ? null : 'another account signed it'
}

/**
 * Checks the sponsor transactions that include operations. They must go to the dispatcher and include only operations and
 * authorizations that users signed in earlier records. It also checks the table of operations and their transactions.
 */
export function outerFaults(db: DatabaseSync): string[] {
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
      faults.push(`Record ${row.seq}: its contents cannot be read.`)
    }
  }
  const wrong = forgotten + all - carried
  if (wrong > 0) faults.push(`Operations that sponsors submitted and that differ from the ledger: ${wrong}.`)
  return faults

  function outerFault(row: LedgerRow): string | null {
    const { to, value = 0n, data = '0x', authorizationList = [] } = parseTransaction(toHex(row.raw!)) as Outer
    const dispatch = readDispatch(fromHex(data))
    const dispatcher = fromHex(to ?? '0x')
    if (delegateNameOf(dispatcher) === null || value !== 0n || dispatch === null)
      return 'it does more than call the dispatcher'
    for (const { packed } of dispatch.operations) {
      const id = Buffer.concat([dispatch.space, packed.subarray(20, 32)])
      const found = held.get(row.chain_id, id) as Pick<LedgerRow, 'seq' | 'raw'> | undefined
      if (found === undefined || found.seq > row.seq || !isHeld(dispatcher, packed, found.raw!))
        return 'it includes an operation that was not signed before'
      if (row.kind !== 'send') continue
      if (isCarried.get(found.seq, row.seq) === undefined) forgotten += 1
      else carried += 1
    }
    return delegationsFault(row, dispatch, authorizationList)
  }

  /** Checks a cancellation: it may only use up ids of operations that the cancelled transaction includes. */
  function cancelFault(row: LedgerRow): string | null {
    const { to, value = 0n, data = '0x', authorizationList = [] } = parseTransaction(toHex(row.raw!)) as Outer
    const before = cancelled.get(row.address, row.chain_id, row.nonce, row.seq) as Pick<LedgerRow, 'raw'> | undefined
    const parsedBefore = before === undefined ? null : (parseTransaction(toHex(before.raw!)) as Outer)
    const inIt = parsedBefore?.data ?? '0x'
    const dispatch = readDispatch(fromHex(inIt))
    if (dispatch === null) return 'it cancels a transaction without operations'
    const sequences = readCancel(fromHex(data)) ?? []
    const isExact = fromHex(data).equals(cancelData(dispatch.space, sequences))
    const known = new Set(dispatch.operations.map(({ sequence }) => sequence))
    if (
      to?.toLowerCase() !== parsedBefore?.to?.toLowerCase() ||
      value !== 0n ||
      !isExact ||
      !sequences.every((one) => known.has(one))
    )
      return 'it uses ids of operations that the replaced transaction does not include'
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
        return BigInt(toHex(known.r)) === BigInt(r) && BigInt(toHex(known.s)) === BigInt(s)
      }),
    )
    return isSigned ? null : 'it includes an authorization that was not signed before'
  }
}

/** Returns whether an operation was signed for this dispatcher and is included exactly as packed. */
const isHeld = (dispatcher: Buffer, packed: Buffer, raw: Uint8Array): boolean =>
  dispatcher.equals(raw.subarray(0, 20)) && packed.equals(raw.subarray(40))

type Outer = {
  to?: Hex
  value?: bigint
  data?: Hex
  authorizationList?: { nonce: number; r: Hex; s: Hex }[]
}
