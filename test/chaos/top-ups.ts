import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { accountIdOf, type Hex } from '../../src/ids.ts'
import { connectSigner } from '../../src/signer-wire/client.ts'
import { fromHex, toHex } from '../../src/hex.ts'
import { fromWord } from '../../src/store/bytes.ts'
import { readChain } from './transactions-chain.ts'
import { anyServer, change, readBack, type Write } from './transactions-client.ts'
import { wantOf } from './transactions-clients.ts'
import { run, type RunOptions, type RunReport } from './transactions-run.ts'
import { COINS, QUIET_BLOCKS, type Account, type ChaosWorld } from './transactions-world.ts'

/**
 * The storm of `transactions-run.ts` with people who have no coin, and a sponsor. The same judge says what became of their writes, and
 * of every account's coins by what was asked for; what the sponsor sent is compared with the chain here.
 */
export async function runToppedUp(options: RunOptions): Promise<RunReport & { topUps: number }> {
  let topUps = 0
  let asked: Write[] = []
  const report = await run({
    ...options,
    settings: { ...options.settings, NETWORK_GAS: 'topup' },
    stage: withSponsor,
    // Values are the person's own, and nobody has any.
    want: (world, account) => {
      const want = wantOf(world, account)
      return want.kind === 'pay' ? { kind: 'echo' } : want
    },
    afterStorm: (world, writes, signal) => {
      asked = writes
      return hurry(world, writes, signal)
    },
    epilogue: async (world) => {
      topUps = await judgeTopUps(world, asked)
      await options.epilogue?.(world)
    },
  })
  return { ...report, topUps }
}

/** What a reorganisation or a raise took from a write that was told is sent again when its person asks for it to be sped up. */
export async function hurry(world: ChaosWorld, writes: Write[], signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    for (const write of writes) {
      if (signal.aborted || write.hash === null) continue
      const told = await readBack(anyServer(world), write)
      if (told?.body.state === 'SUBMITTED') await change(anyServer(world), write, 'speed-up')
    }
    await pause(2_000)
  }
}

const SPONSOR = 'SPONSOR-HOUSE'
const max = (a: bigint, b: bigint): bigint => (a > b ? a : b)
const total = (sent: readonly { value: bigint }[]): bigint => sent.reduce((sum, { value }) => sum + value, 0n)

/** A funded sponsor, and people without coins: from so far below that no reorganisation gives them any back. */
export async function withSponsor(world: ChaosWorld): Promise<Account[]> {
  const people = [...world.accounts]
  const signer = connectSigner({ path: join(world.folder, 'signer.sock'), timeoutMs: 60_000 })
  const { address } = await signer.createAccount({ userId: SPONSOR })
  signer.close()
  const account_id = accountIdOf('SPONSOR', 'HOUSE')
  await world.reading(async (db) => {
    await db
      .insertInto('accounts')
      .values({ account_id, user_id: SPONSOR, address: fromHex(address) })
      .execute()
    await db.insertInto('sponsors').values({ account_id, chain_id: 31_337, name: 'HOUSE' }).execute()
  })
  await world.node.anvil.rpc('anvil_setBalance', address, `0x${COINS.toString(16)}`)
  for (const person of people) {
    await world.node.anvil.rpc('anvil_setBalance', person.address, '0x0')
    world.given.set(person.address, -COINS)
  }
  await world.node.anvil.rpc('anvil_mine', `0x${QUIET_BLOCKS.toString(16)}`)
  // Whose transactions the judge of coins takes as the chain has them.
  world.accounts.push({ name: SPONSOR, address: address.toLowerCase() as Hex, token: '' })
  return people
}

/**
 * Every top-up on the chain is one that was asked for, once: by values, what the sponsor sent a person is what their top-ups say, and
 * that is no more than their transactions, and writes that came to nothing after theirs was sent, may have cost, and a quarter; what
 * is more than any of them cost, no more than they may have cost in the dearest block. The application's budget counts at least what
 * was paid.
 * @returns how many there were
 */
export async function judgeTopUps(world: ChaosWorld, writes: readonly Write[]): Promise<number> {
  const sponsor = world.accounts.at(-1)!.address
  const { transactions } = await readChain(world)
  const { topUps, rows, spent, attempts } = await world.reading(async (db) => ({
    topUps: await db.selectFrom('top_ups').innerJoin('accounts', 'accounts.account_id', 'top_ups.account_id').select(['address', 'ordinal', 'top_ups.wei', 'settled_at', 'block_number']).execute(), // prettier-ignore
    rows: await db.selectFrom('transactions').selectAll().where('sender', '=', fromHex(sponsor)).execute(),
    spent: await db.selectFrom('gas_spent').selectAll().execute(),
    attempts: await db.selectFrom('attempts').innerJoin('transactions', 'transactions.id', 'attempts.transaction_id').select(['sender', 'transaction_id', 'attempts.gas_limit', 'attempts.max_fee']).execute(), // prettier-ignore
  }))
  const { baseFee, tip } = world.node.dearest()
  const dearestPrice = 2n * baseFee + tip
  const problems: string[] = []
  const sent = transactions.filter(({ from, to }) => from === sponsor && to !== sponsor)
  const told = rows.filter(({ state, is_cancel: isCancel }) => ['MINED', 'FINALIZED'].includes(state) && !isCancel)
  const sorted = (values: bigint[]): string => values.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0)).join(' ')
  for (const { address } of world.accounts.slice(0, -1)) {
    const own = sent.filter(({ to }) => to === address)
    const stored = told.filter(({ target }) => toHex(target) === address).map(({ value }) => fromWord(value))
    if (sorted(own.map(({ value }) => value)) !== sorted(stored))
      problems.push(`${address} was sent ${own.length}, the tables have ${stored.length}`)
    const mine = topUps.filter((one) => toHex(one.address) === address)
    const settled = mine.filter(({ block_number: block }) => block !== null).map(({ wei }) => BigInt(wei))
    const open = mine.filter(({ settled_at: at }) => at === null).length
    if (own.length < settled.length || own.length > settled.length + open)
      problems.push(`${address} was sent ${own.length}, ${settled.length} are settled and ${open} open`)
    // What each may have cost at its dearest, and the quarter that is sent beside it: a raise or a dearer block has one more sent.
    const byTransaction = Map.groupBy(attempts.filter(({ sender }) => toHex(sender) === address), (one) => one.transaction_id) // prettier-ignore
    const costs = [...byTransaction.values()].map((all) => all.map((one) => BigInt(one.gas_limit) * fromWord(one.max_fee)).reduce(max)) // prettier-ignore
    const ended = writes.filter(({ account, hash }) => account.address === address && hash === null).length
    const dearest = costs.reduce(max, 0n)
    const needed = costs.reduce((sum, cost) => sum + cost, 0n) + BigInt(ended) * dearest
    // What was sent while a block was dear may be for a write that was sent when it was over: by the dearest price there was.
    const isDear = ({ value }: { value: bigint }): boolean => value * 4n > dearest * 5n
    const gas = [...byTransaction.values()].flat().map((one) => BigInt(one.gas_limit)).reduce(max, 0n) // prettier-ignore
    const most = BigInt(costs.length + ended) * gas * dearestPrice
    const parts = [[total(own.filter((one) => !isDear(one))), needed], [total(own.filter(isDear)), most]] as const // prettier-ignore
    for (const [given, allowed] of parts)
      if (given * 4n > allowed * 5n)
        problems.push(`${address} was sent ${given} for ${costs.length} transactions of at most ${allowed}, and ${ended} writes that were not sent`) // prettier-ignore
  }
  const counted = spent.filter(({ account_id: id }) => /^[0-]+$/.test(id)).reduce((sum, { wei }) => sum + BigInt(wei), 0n) // prettier-ignore
  const paid = total(sent)
  if (counted < paid) problems.push(`${paid} wei were sent and ${counted} counted`)
  if (problems.length > 0) throw new Error(problems.join('\n'))
  return sent.length
}
