import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { writing, type Writing } from '../../test/writing.ts'
import { currentFees } from '../chain/current-fees.ts'
import { highestPrice } from '../chain/fees.ts'
import { accountIdOf, newTransactionId, type Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { toWord } from '../store/bytes.ts'
import { restoreAccount } from '../users/pregenerate.ts'
import { lowBelow, openTransactions, sponsorFaults, startWatchingSponsors } from './watch.ts'

/** When a sponsor holds too little: told once, by one process, and not again before it held clearly more. */
const LOW = ['sponsors that hold too little: HOUSE']
let world: Writing
let address: Hex
const told: [event: string, sponsor: string][] = []
/** what a look met that was not told */
const unseen: unknown[] = []

before(async () => {
  world = await writing()
  await world.db.insertInto('networks').values({ chain_id: 31_337, name: 'devnet', genesis_hash: Buffer.alloc(32), sponsor_low: '1000' }).execute() // prettier-ignore
  const userId = 'SPONSOR-HOUSE'
  ;({ address } = await world.signer.createAccount({ userId }))
  await restoreAccount(world.db, { userId, address })
  await world.db.insertInto('sponsors').values({ account_id: accountIdOf('SPONSOR', 'HOUSE'), chain_id: 31_337, name: 'HOUSE' }).execute() // prettier-ignore
})
after(() => world.close())

/** What a process of the service sees, with its log written down. */
async function watcher() {
  const replica = await world.replica()
  // So that no look takes the head of a moment ago for the newest: blocks are mined by hand here.
  Object.assign(replica.chain, { gas: 'topup', isDevelopment: true })
  const { app } = replica
  const note = (event: string, { sponsor }: { sponsor: string }) => void told.push([event, sponsor])
  const debug = (_event: string, _fields: object, error: unknown) => void unseen.push(error)
  app.telemetry.log = { ...app.telemetry.log, warn: note, info: note, debug } as never
  const look = async () => {
    const watching = startWatchingSponsors(app)
    await watching.round()
    await watching.stop()
  }
  return { app, replica, look }
}
const hold = async (wei: bigint) => {
  await world.rpc('anvil_setBalance', address, `0x${wei.toString(16)}`)
  await world.mine()
}
const taken = () => told.splice(0).map(([event]) => event)

test('a sponsor that crosses the line is told once by all processes, and again only after it held a quarter more', async () => {
  const [one, two] = [await watcher(), await watcher()]
  const both = () => Promise.all([one.look(), two.look()])
  await hold(1_000n)
  await both()
  assert.deepEqual(taken(), [])
  await hold(999n)
  await both()
  await both()
  assert.deepEqual(taken(), ['sponsor_low'])
  for (const { app } of [one, two]) assert.deepEqual(sponsorFaults(app, 31_337), LOW)
  // Between the two it stays low, however often it goes up and down.
  for (const wei of [1_000n, 1_249n, 999n]) {
    await hold(wei)
    await both()
    assert.deepEqual([taken(), sponsorFaults(one.app, 31_337)], [[], LOW])
  }
  // Nor does a process that has just started tell it anew.
  const third = await watcher()
  await third.look()
  assert.deepEqual([taken(), sponsorFaults(third.app, 31_337)], [[], LOW])
  await hold(1_250n)
  await both()
  assert.deepEqual([taken(), sponsorFaults(one.app, 31_337)], [['sponsor_recovered'], []])
  await hold(1_001n)
  await both()
  assert.deepEqual([taken(), sponsorFaults(two.app, 31_337)], [[], []])
  await hold(0n)
  await both()
  assert.deepEqual(taken(), ['sponsor_low'])
  assert.deepEqual(unseen, [])
  const metrics = await one.app.telemetry.registry.metrics()
  assert.match(metrics, /^sponsor_balance_wei\{chain_id="31337",sponsor="HOUSE"\} 0$/m)
  assert.match(metrics, /^sponsor_open_transactions\{chain_id="31337",sponsor="HOUSE"\} 0$/m)
  assert.match(metrics, /^sponsors_spent_wei\{chain_id="31337"\} 0$/m)
})

test('a node that is away changes nothing of what is known, and a network where people pay is not looked at', async () => {
  const { app, replica, look } = await watcher()
  await hold(0n)
  await look()
  assert.deepEqual(sponsorFaults(app, 31_337), LOW)
  taken()
  replica.misbehave(() => Promise.reject(new Error('nobody may ask')))
  replica.chain.gas = 'self'
  await look()
  assert.deepEqual([taken(), sponsorFaults(app, 31_337)], [[], LOW])
  replica.misbehave(null)
})

test('a sponsor that carries what people sign is watched as one that tops them up is', async () => {
  const { app, replica, look } = await watcher()
  replica.chain.gas = 'sponsor'
  await hold(0n)
  await look()
  assert.deepEqual(sponsorFaults(app, 31_337), LOW)
})

test('where its operator says nothing else a sponsor is low that cannot pay a hundred top-ups', async () => {
  const { app, replica } = await watcher()
  assert.equal(await lowBelow(app.db, replica.chain), 1_000n)
  await app.db.updateTable('networks').set({ sponsor_low: null }).execute()
  const standard = await lowBelow(app.db, replica.chain)
  assert.equal(standard, 100n * 150_000n * highestPrice(await currentFees(replica.chain)))
  assert.equal(await openTransactions(app.db, { address, chainId: 31_337 }), 0)
})

test('what a sponsor sends on another network is not under way on this one', async () => {
  const { app } = await watcher()
  const open = () => Promise.all([31_337, 5].map((chainId) => openTransactions(app.db, { address, chainId })))
  const before = await open()
  const send = (chainId: number, nonce: number) =>
    app.db
      .insertInto('transactions')
      .values({
        ...{ id: newTransactionId(), account_id: accountIdOf('SPONSOR', 'HOUSE'), client_id: '', chain_id: chainId },
        ...{ sender: fromHex(address), nonce, target: Buffer.alloc(20, 1), value: toWord(0n), data: Buffer.alloc(0) },
        ...{ gas_limit: 21_000, max_fee: toWord(1n), abi: '', state: 'SUBMITTED', transitions: '[]' },
      })
      .execute()
  await send(31_337, 900)
  for (const nonce of [900, 901]) await send(5, nonce)
  assert.deepEqual(
    [before, await open()],
    [
      [0, 0],
      [1, 2],
    ],
  )
})
