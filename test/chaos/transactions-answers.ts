import { isDeepStrictEqual } from 'node:util'
import type { Hex } from '../../src/ids.ts'
import { toHex } from '../../src/hex.ts'
import { fromWord } from '../../src/store/bytes.ts'
import { PATIENCE_MS } from '../kit/until.ts'
import { readTransitions } from '../../src/transactions/read/transitions.ts'
import { anyServer, bodyOf, effectOf, readAt, repeat, type Told, type Write } from './transactions-client.ts'
import { nameOfRow, slotOf, type AttemptRow, type Evidence, type Row, type Tell } from './transactions-evidence.ts'
import type { Account, ChaosWorld } from './transactions-world.ts'

type Body = Record<string, unknown>

/** rows whose every hash is asked for; the others by their id and the hash that was told */
const MAX_WHOLE = 2_000

/** What the API says of each transaction, under its id and every hash that it ever had, is what stands in the tables. */
export async function judgeAnswers(evidence: Evidence, tell: Tell): Promise<void> {
  const { world, rows, attempts, accounts, writes } = evidence
  const byAddress = new Map(accounts.map((account) => [account.address, account]))
  const shown = rows.filter(({ hash }) => hash !== null)
  await inParallel([...shown.entries()], 8, async ([index, row]) => {
    const account = byAddress.get(toHex(row.sender))!
    const own = attempts.get(row.id) ?? []
    const answer = await ask(world, account, row.id)
    judgeAnswer(row, own, answer?.body as Body, tell)
    const hashes = index < MAX_WHOLE ? own.map(({ hash }) => toHex(hash)) : []
    for (const hash of hashes) {
      const again = await ask(world, account, hash)
      // What a raise that came too late has stored meanwhile is in both, or in neither.
      const isSame = isDeepStrictEqual(again?.body, answer?.body)
      if (!isSame && !isDeepStrictEqual(again?.body, (await ask(world, account, row.id))?.body))
        tell('answers', `${nameOfRow(row)} is another one when asked for as ${hash}`)
    }
  })
  await inParallel(accounts, 4, (account) => judgeList(evidence, account, tell))
  await inParallel(accounts, 4, (account) => judgeBalance(evidence, account, tell))
  const byHash = new Map(rows.flatMap((row) => (attempts.get(row.id) ?? []).map(({ hash }) => [toHex(hash), row])))
  for (const write of writes) judgeTold(evidence, write, byHash, tell)
}

export const ask = (world: ChaosWorld, account: Account, idOrHash: string): Promise<Told | null> =>
  patiently(() => readAt(anyServer(world), account, `/v1/transactions/${idOrHash}`))

/** An answer that does not come is asked for again; the faults are over. */
export async function patiently(work: () => Promise<Told | null>): Promise<Told | null> {
  for (let tries = 0; tries < 5; tries++) {
    const told = await work()
    if (told !== null && told.status < 500) return told
  }
  return null
}

function judgeAnswer(row: Row, attempts: AttemptRow[], body: Body | undefined, tell: Tell): void {
  const current = attempts.find(({ hash }) => row.hash !== null && Buffer.compare(hash, row.hash) === 0)
  const hasReceipt = row.gas_used !== null
  const stored = new Set<string>(attempts.map(({ hash }) => toHex(hash)))
  const expected = {
    ...{ id: row.id, state: row.state, nonce: row.nonce, chainId: row.chain_id, isFinal: row.is_final },
    ...{
      hash: toHex(row.hash!),
      isCancel: row.is_cancel,
      data: toHex(row.data),
      transitions: readTransitions(row.transitions, attempts),
    },
    from: toHex(row.sender),
    to: toHex(row.target),
    value: fromWord(row.value),
    hashes: attempts.map(({ hash }) => toHex(hash)).toSorted(),
    gasLimit: BigInt(current?.gas_limit ?? row.gas_limit),
    maxFeePerGas: fromWord((current ?? row).max_fee),
    receipt: hasReceipt
      ? {
          ...{ blockNumber: row.block_number, blockHash: toHex(row.block_hash!) },
          ...{ status: row.succeeded === true ? 'SUCCESS' : 'REVERTED', gasUsed: BigInt(row.gas_used!) },
          effectiveGasPrice: fromWord(row.effective_gas_price!),
        }
      : null,
  }
  const receipt = (body?.receipt ?? null) as Body | null
  const said = {
    ...Object.fromEntries(Object.keys(expected).map((field) => [field, body?.[field]])),
    from: String(body?.from).toLowerCase(),
    to: String(body?.to).toLowerCase(),
    value: bigOf(body?.value),
    // A raise that came too late may be stored after the tables were read.
    hashes: ((body?.hashes as string[] | undefined) ?? []).filter((hash) => stored.has(hash)).toSorted(),
    gasLimit: bigOf(body?.gasLimit),
    maxFeePerGas: bigOf(body?.maxFeePerGas),
    receipt:
      receipt === null
        ? null
        : { ...receipt, gasUsed: bigOf(receipt.gasUsed), effectiveGasPrice: bigOf(receipt.effectiveGasPrice) },
  }
  for (const [field, value] of Object.entries(expected))
    if (!isDeepStrictEqual(said[field as keyof typeof said], value))
      tell('answers', `${nameOfRow(row)}: ${field} is ${show(said[field as keyof typeof said])}, stored is ${show(value)}`) // prettier-ignore
}

const bigOf = (value: unknown): bigint | null =>
  typeof value === 'object' && value !== null && 'hex' in value ? BigInt((value as { hex: string }).hex) : null
const show = (value: unknown): string =>
  JSON.stringify(value, (_key, one: unknown) => (typeof one === 'bigint' ? String(one) : one))

/** The list of an account holds each of its transactions once. */
async function judgeList({ world, rows }: Evidence, account: Account, tell: Tell): Promise<void> {
  const expected = rows.filter(({ sender, hash }) => toHex(sender) === account.address && hash !== null)
  const told = await patiently(() => readAt(anyServer(world), account, '/v1/transactions?limit=200'))
  const ids = ((told?.body ?? []) as unknown as { id: string }[]).map(({ id }) => id)
  const wanted = new Set(expected.map(({ id }) => id))
  const isWhole = ids.length === Math.min(200, expected.length) && ids.every((id) => wanted.has(id))
  if (!isWhole || new Set(ids).size !== ids.length)
    tell('answers', `the list of ${account.name} has ${ids.length} transactions, stored are ${expected.length}`)
}

/** The balance that the API tells at the newest block is the chain's. */
export async function judgeBalance(
  { world, chain }: Evidence,
  { name, address, token }: Account,
  tell: Tell,
): Promise<void> {
  const held = BigInt(await world.node.anvil.rpc<Hex>('eth_getBalance', address, 'latest'))
  const endsAt = performance.now() + PATIENCE_MS
  for (;;) {
    const response = await fetch(`${anyServer(world).url}/v1/users/DEV-${name}/balance`, {
      headers: { authorization: `Bearer ${token}` },
    }).catch(() => null)
    const entries = ((await response?.json().catch(() => null)) ?? {}) as Record<string, { balance?: string }>
    const balance = Object.values(entries)[0]?.balance
    const isNewest = Number(response?.headers.get('x-block-number')) === chain.head.number
    if (isNewest && balance === String(held)) return
    // A replica that does not follow is a moment behind.
    if (performance.now() < endsAt) continue
    return tell('answers', `${name} has ${held} wei, the API says ${balance} at block ${response?.headers.get('x-block-number')}`) // prettier-ignore
  }
}

/** Every hash that a client was told leads to the row of its write, which the answer described, and which is done. */
function judgeTold(evidence: Evidence, write: Write, byHash: Map<Hex, Row>, tell: Tell): void {
  const { world, bySlot, receipts } = evidence
  const name = `${write.account.name} ${write.marker}`
  if (write.hash === null || write.answer === null) return
  const row = byHash.get(write.hash)
  if (row === undefined) return tell('wrong', `${name} was told ${write.hash}, which is in no row`)
  for (const hash of write.hashes)
    if (byHash.get(hash)?.id !== row.id) tell('wrong', `${name} was told ${hash}, which is not of ${nameOfRow(row)}`)
  const { id, tx } = write.answer
  const { to, data, value } = effectOf(world, write)
  const said = { id, to: String(tx?.to).toLowerCase(), data: tx?.data, value: bigOf(tx?.value), nonce: tx?.nonce, gas: bigOf(tx?.gasLimit) } // prettier-ignore
  const stored = { id: row.id, to, data, value, nonce: row.nonce, gas: BigInt(row.gas_limit) }
  if (!isDeepStrictEqual(said, stored)) tell('answers', `${name} was told ${show(said)}, the write is ${show(stored)}`)
  const mined = bySlot.get(slotOf(toHex(row.sender), row.nonce))
  if (mined === undefined) return
  const isOwn = mined.to === to && mined.data === data && mined.value === value
  const isFailed = isOwn && !receipts.get(mined.hash)!.succeeded
  const isCancelled = !isOwn && byHash.get(mined.hash)?.id === row.id
  if (isFailed && !write.mayFail) tell('lost', `${name} (${write.want.kind}) is mined as ${mined.hash} and failed, with ${receipts.get(mined.hash)!.gasUsed} gas of ${row.gas_limit}`) // prettier-ignore
  if (isCancelled && !write.isCancelAsked)
    tell('lost', `${name} was cancelled by ${mined.hash}, and nobody asked for it`)
  if (!isOwn && !isCancelled && !world.foreign.has(mined.hash))
    tell('lost', `${name} lost its nonce to ${mined.hash}, which nobody knows`)
}

/** clients that come back with their key when everything is over */
const MAX_REPEATS = 400

/** A key says the same for as long as it is kept, and is nothing for another request. */
export async function judgeRepeats(world: ChaosWorld, writes: Write[], tell: Tell): Promise<void> {
  const told = writes.filter(({ hash }) => hash !== null)
  const step = Math.max(1, Math.floor(told.length / MAX_REPEATS))
  await inParallel(
    told.filter((_write, index) => index % step === 0),
    8,
    async (write) => {
      const name = `${write.account.name} ${write.marker}`
      const body = bodyOf(world, write)
      const again = await patiently(() => repeat(anyServer(world), write, body))
      if (again?.status !== 200 || !again.isReplay || again.body.hash !== write.hash || again.body.id !== write.answer?.id)
        tell('key', `${name} came back with its key and was told ${again?.status} ${again?.body.hash ?? again?.body.code}, before it was ${write.hash}`) // prettier-ignore
      const other = await patiently(() => repeat(anyServer(world), write, { ...body, address: world.accounts[0]!.address })) // prettier-ignore
      if (other?.status !== 422 || other.body.code !== 'idempotency_key_reused')
        tell('key', `${name} used its key for something else and was told ${other?.status} ${other?.body.code ?? ''}`)
    },
  )
}

export async function inParallel<T>(all: T[], many: number, work: (one: T) => unknown): Promise<void> {
  const waiting = [...all]
  await Promise.all(
    Array.from({ length: many }, async () => {
      for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) await work(one)
    }),
  )
}
