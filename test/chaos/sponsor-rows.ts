import { isDeepStrictEqual } from 'node:util'
import type { Selectable } from 'kysely'
import { BATCH_ROUTE } from '../../src/contracts/write-batch.ts'
import { WRITE_ROUTE } from '../../src/contracts/write.ts'
import { accountIdOf, transactionIdOf, type Hex } from '../../src/ids.ts'
import { toHex } from '../../src/hex.ts'
import type { Database } from '../../src/store/rows.ts'
import { ask, inParallel, patiently } from './transactions-answers.ts'
import { anyServer, bodyOf, effectOf, readAt, repeat, routeOf, type Write } from './transactions-client.ts'
import { gather, type Evidence, type Tell } from './transactions-evidence.ts'
import { judgePrices } from './transactions-money.ts'
import { judgeRows } from './transactions-rows.ts'
import { isGivenUp, packedOf, partsOf, readOnChain, type OnChain, type Settled } from './sponsor-chain.ts'
import { errorOf } from './sponsor-events.ts'
import type { Sponsors } from './sponsor-world.ts'
import type { Account, ChaosWorld } from './transactions-world.ts'

export type OperationRow = Selectable<Database['operations']> & { dispatcherId: Hex }

/** The evidence of `transactions-evidence.ts`, of people and of sponsors, and what there is of operations. */
export type SponsoredEvidence = Evidence & {
  people: Account[]
  sponsors: Sponsors
  said: OnChain
  operations: OperationRow[]
  carried: Selectable<Database['carried']>[]
  /** wei that budgets of applications count, as the tables have it */
  spent: bigint
}

export async function gatherSponsored(
  world: ChaosWorld,
  writes: Write[],
  { people, sponsors }: { people: Account[]; sponsors: Sponsors },
): Promise<SponsoredEvidence> {
  await untilCounted(world)
  const evidence = await gather(world, writes, [...people, ...sponsors.accounts])
  const said = await readOnChain(world, sponsors)
  const tables = await world.reading(async (db) => ({
    operations: (await db.selectFrom('operations').selectAll().execute()).map((row) => ({
      ...row,
      dispatcherId: `${toHex(row.space)}${row.sequence.toString(16).padStart(24, '0')}` as Hex,
    })),
    carried: await db.selectFrom('carried').selectAll().execute(),
    spent: await db.selectFrom('gas_spent').selectAll().where('account_id', '=', EVERYONE).execute(),
  }))
  const spent = tables.spent.reduce((sum, { wei }) => sum + BigInt(wei), 0n)
  return { ...evidence, people, sponsors, said, ...tables, spent }
}

/** Whose row of `gas_spent` is of all people. Source: src/store/sponsor-budget.ts */
const EVERYONE = '00000000-0000-0000-0000-000000000000'
/** milliseconds that the service may take to count what it paid */
const COUNT_MS = 60_000

/** With the harness's own door to the database; without one some rounds of the keeper are waited for. */
async function untilCounted({ db }: ChaosWorld): Promise<void> {
  const endsAt = performance.now() + (db === null ? 2_500 : COUNT_MS)
  while (performance.now() < endsAt) {
    if (db !== null) {
      const open = await db.selectFrom('operations').select('id').where('is_counted', '=', false).where('state', 'not in', ['BOUND', 'SUBMITTED']).limit(1).execute() // prettier-ignore
      if (open.length === 0) return
    }
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

/** Every row of an operation and of what carried it against the chain, and what the API says against the rows. */
export async function judgeSponsoredRows(evidence: SponsoredEvidence, tell: Tell): Promise<void> {
  await judgeRows(evidence, tell)
  await judgePrices(evidence, tell)
  const byDispatcherId = new Map(evidence.operations.map((row) => [row.dispatcherId, row]))
  for (const row of evidence.operations) judgeOperation(evidence, row, tell)
  for (const [id] of evidence.said.settled)
    if (!byDispatcherId.has(id)) tell('invented', `${id} is settled on the chain, and no row has it`)
  judgeIds(evidence, tell)
  for (const write of evidence.writes) judgeToldOperation(evidence, write, byDispatcherId, tell)
  await judgeAnswers(evidence, tell)
}

const nameOf = ({ id, dispatcherId }: OperationRow): string => `${id} (${dispatcherId})`

function judgeOperation(evidence: SponsoredEvidence, row: OperationRow, tell: Tell): void {
  const { said, chain, world, attempts, carried } = evidence
  const name = nameOf(row)
  const [settled] = said.settled.get(row.dispatcherId) ?? []
  const last = row.transitions.at(-1)
  if (settled === undefined) return judgeUnsettled(evidence, row, tell)
  const { event, tx } = settled
  const isFinal = tx.block.number <= chain.head.number - world.finality
  if (row.state !== stateOf(event, isFinal)) tell('state', `${name} is ${row.state}, the chain says ${event.kind}`)
  if (row.is_final !== isFinal) tell('finality', `${name} says final: ${row.is_final} in block ${tx.block.number}`)
  if (row.block_number !== tx.block.number || row.block_hash === null || toHex(row.block_hash) !== tx.block.hash)
    tell('block', `${name} is in block ${row.block_number}, the chain has it in ${tx.block.number}`)
  const outer = row.outer_id === null ? [] : (attempts.get(row.outer_id) ?? [])
  if (!outer.some(({ hash }) => toHex(hash) === tx.hash))
    tell('hashes', `${name} is said to be in another transaction than ${tx.hash}`)
  if (!carried.some((one) => one.operation_id === row.id && one.transaction_id === row.outer_id))
    tell('hashes', `${name} is carried by nothing that the tables know`)
  const step = last?.state === 'FINALIZED' ? row.transitions.at(-2) : last
  if (step?.blockNumber !== tx.block.number || (last?.state === 'FINALIZED') !== isFinal)
    tell(
      'transitions',
      `${name} ends with ${JSON.stringify(row.transitions.slice(-2))}, the chain has it in ${tx.block.number}`,
    )
  const reason = event.kind === 'Failed' ? event.reason : null
  if ((row.reason === null ? null : toHex(row.reason)) !== reason) tell('receipt', `${name} failed for another reason`)
}

function stateOf(event: Settled['event'], isFinal: boolean): string {
  if (event.kind !== 'Failed') return event.kind === 'Cancelled' ? 'CANCELLED' : isFinal ? 'FINALIZED' : 'MINED'
  const error = errorOf(event.reason)
  return error === 'CallFailed' || error === 'OutOfGas' || error === 'Unknown' ? 'REVERTED' : 'FAILED'
}

/** What the dispatcher said nothing of: nobody was told of it, or it can never be done any more. */
function judgeUnsettled(
  { world, sponsors, said, chain, writes }: SponsoredEvidence,
  row: OperationRow,
  tell: Tell,
): void {
  const name = nameOf(row)
  if (row.state === 'BOUND') {
    if (writes.some(({ answer }) => answer?.id === row.id)) tell('late', `${name} was told, and nothing carries it`)
    return
  }
  const isOver = row.deadline < chain.head.timestamp
  if (row.state === 'SUBMITTED') {
    // What its person cancelled among others, and nothing carries any more, waits for its last second.
    if (isOver || !row.is_cancel || !isGivenUp(said, packedOf(world, sponsors).get(row.dispatcherId)))
      tell('late', `${name} is SUBMITTED, and the dispatcher says nothing of it`)
    return
  }
  if (row.state !== 'FAILED' && row.state !== 'CANCELLED')
    return tell('invented', `${name} is ${row.state}, and the dispatcher says nothing of it`)
  if (!isOver)
    tell('invented', `${name} is ${row.state}, and its last second is ${row.deadline - chain.head.timestamp} s away`)
  if (said.receipts.size === 0) tell('invented', `${name} is ${row.state} on a chain with nothing on it`)
}

/** uses of one key that are looked for */
const MAX_USES = 16

/** What was asked for with a key stands under the id of that key: a repeat that is another operation is seen here. */
function judgeIds({ operations, writes }: SponsoredEvidence, tell: Tell): void {
  const known = new Set(
    writes.flatMap((write) => {
      const route = write.want.kind === 'batch' ? BATCH_ROUTE : WRITE_ROUTE
      const scope = { accountId: accountIdOf('DEV', write.account.name), clientId: 'demo', route, key: write.key }
      return Array.from({ length: MAX_USES }, (_, use) => transactionIdOf(scope, use))
    }),
  )
  for (const row of operations)
    if (row.request_hash !== null && !known.has(row.id))
      tell('invented', `${nameOf(row)} was asked for with a key, and its id is of none`)
}

/** What a client was told of its operation is what it asked for, and what stands in the row. */
function judgeToldOperation(
  { world, attempts, carried }: SponsoredEvidence,
  write: Write,
  byDispatcherId: Map<Hex, OperationRow>,
  tell: Tell,
): void {
  const name = `${write.account.name} ${write.marker}`
  const operation = write.answer?.operation
  if (operation === undefined) return
  const row = byDispatcherId.get(operation.id)
  if (row === undefined) return tell('wrong', `${name} was told ${operation.id}, which is in no row`)
  const own = carried
    .filter((one) => one.operation_id === row.id)
    .flatMap((one) => attempts.get(one.transaction_id) ?? [])
  const hashes = new Set(own.map(({ hash }) => toHex(hash)))
  for (const hash of write.hashes)
    if (!hashes.has(hash)) tell('wrong', `${name} was told ${hash}, which does not carry ${nameOf(row)}`)
  const wanted = partsOf(write.want).map((part) => effectOf(world, { want: part, marker: write.marker }))
  const calls = (operation.calls ?? [operation]) as { to: string; data: Hex; value: { hex: string } }[]
  const said = calls.map(({ to, data, value }) => ({ to: to.toLowerCase(), data, value: BigInt(value.hex) }))
  if (!isDeepStrictEqual(said, wanted)) tell('answers', `${name} was told of other calls than it asked for`)
  const terms = { id: row.id, from: toHex(row.sender), deadline: row.deadline }
  if (
    !isDeepStrictEqual(
      { id: write.answer!.id, from: operation.from.toLowerCase(), deadline: operation.deadline },
      terms,
    )
  )
    tell(
      'answers',
      `${name} was told ${write.answer!.id} of ${operation.from} until ${operation.deadline}, stored is ${JSON.stringify(terms)}`,
    )
}

/** operations whose every hash is asked for */
const MAX_WHOLE = 1_000

/** What the API says of an operation, under its id and every hash that carried it, is what stands in the tables. */
async function judgeAnswers(
  { world, people, operations, attempts, carried, rows }: SponsoredEvidence,
  tell: Tell,
): Promise<void> {
  const byAddress = new Map(people.map((account) => [account.address, account]))
  const outers = new Map(rows.map((row) => [row.id, row]))
  const shown = operations.filter(({ outer_id: outer }) => outer !== null)
  await inParallel([...shown.entries()], 8, async ([index, row]) => {
    const account = byAddress.get(toHex(row.sender))!
    const outer = outers.get(row.outer_id!)!
    const hashes = carried
      .filter((one) => one.operation_id === row.id)
      .flatMap((one) => (attempts.get(one.transaction_id) ?? []).map(({ hash }) => toHex(hash)))
    const { body } = (await ask(world, account, row.id)) ?? {}
    const expected = {
      ...{ id: row.id, state: row.state, isFinal: row.is_final, isCancel: row.is_cancel, hash: toHex(outer.hash!) },
      ...{ operation: row.dispatcherId, deadline: row.deadline, payer: toHex(outer.sender) },
      hashes: [...hashes].toSorted(),
    }
    const more = body as { isFinal?: boolean; isCancel?: boolean; gas?: { payer?: string } } | undefined
    const said = {
      ...{ id: body?.id, state: body?.state, isFinal: more?.isFinal, isCancel: more?.isCancel, hash: body?.hash },
      ...{
        operation: body?.operation?.id,
        deadline: body?.operation?.deadline,
        payer: more?.gas?.payer?.toLowerCase(),
      },
      hashes: [...(body?.hashes ?? [])].toSorted(),
    }
    if (!isDeepStrictEqual(said, expected))
      tell('answers', `${nameOf(row)} is ${JSON.stringify(said)}, stored is ${JSON.stringify(expected)}`)
    if (index >= MAX_WHOLE) return
    for (const hash of hashes) {
      const again = await ask(world, account, hash)
      if (!again?.body.hashes?.includes(hash)) tell('answers', `${nameOf(row)} is not found by ${hash}`)
    }
  })
  await inParallel(people, 4, async (account) => {
    const own = shown.filter(({ sender }) => toHex(sender) === account.address)
    const told = await patiently(() => readAt(anyServer(world), account, '/v1/transactions?limit=200'))
    const ids = new Set(((told?.body ?? []) as unknown as { id: string }[]).map(({ id }) => id))
    if (ids.size !== Math.min(200, own.length) || [...ids].some((id) => !own.some((row) => row.id === id)))
      tell('answers', `the list of ${account.name} has ${ids.size} writes, stored are ${own.length}`)
  })
}

/** clients that come back with their key when everything is over */
const MAX_REPEATS = 400

/** A key says the same operation for as long as it is kept, under a hash that carried it, and is nothing for another request. */
export async function judgeKeptKeys(world: ChaosWorld, writes: Write[], tell: Tell): Promise<void> {
  const told = writes.filter(({ hash }) => hash !== null)
  const step = Math.max(1, Math.floor(told.length / MAX_REPEATS))
  const some = told.filter((_write, index) => index % step === 0)
  await inParallel(some, 8, async (write) => {
    const name = `${write.account.name} ${write.marker}`
    const again = await patiently(() => repeat(anyServer(world), write, bodyOf(world, write)))
    const { id, operation } = write.answer!
    const isSame = again?.body.id === id && isDeepStrictEqual(again?.body.operation, operation)
    if (again?.status !== 200 || !again.isReplay || !isSame)
      tell(
        'key',
        `${name} came back with its key and was told ${again?.status} ${again?.body.id ?? again?.body.code}, before it was ${id}`,
      )
    else write.hashes.add(again.body.hash!)
    const other = bodyOf(world, { marker: write.marker, want: otherThan(write) })
    const refused = await patiently(() => repeat(anyServer(world), write, other))
    if (refused?.status !== 422 || refused.body.code !== 'idempotency_key_reused')
      tell(
        'key',
        `${name} used its key at ${routeOf(write)} for something else and was told ${refused?.status} ${refused?.body.code ?? ''}`,
      )
  })
}

function otherThan({ want }: Write): Write['want'] {
  const add = { kind: 'add', amount: 1n } as const
  return want.kind === 'batch' ? { kind: 'batch', parts: [add, add] } : add
}
