import { setTimeout as pause } from 'node:timers/promises'
import { rewind } from '../../src/cli/rewind.ts'
import type { Hex } from '../../src/ids.ts'
import { PATIENCE_MS, until } from '../kit/until.ts'
import type { Answer, Person } from '../world.ts'
import type { Fault } from './nodes-faults.ts'
import type { Stage } from './nodes-stage.ts'

/** What a client that repeats with its key was told in the end. */
type Write = { person: Person; amount: number; key: string; id: string | null; hash: Hex | null; tries: number }

/** What came of a cell: `clean` when there is no problem. Milliseconds from the end of the fault until all was settled. */
export type Outcome = { problems: string[]; settledMs: number; answers: number; refused: number }

/** A node that fails, or a service that is busy because of it: these say "again", and mean it. */
const AGAIN = new Set([
  'chain_unavailable',
  'chain_timeout',
  'overloaded',
  // Until what the ledger holds was compared.
  'database_unavailable',
  'conflict',
  'idempotency_in_flight',
  'too_many_pending',
])
const SETTLE_MS = 180_000
const MINT = 'mint(address to, uint256 amount)'
const BALANCE = 'balanceOf(address) view returns (uint256)'
const TOO_MUCH = 'transfer(address to, uint256 amount)'

/**
 * One fault on one kind of node: an account that has written before it, writes during it and after it; another one whose
 * first write falls into it; readers all the time. The judge is the chain, asked past the node.
 * @param options.sees  the fault goes on until the judge has found that
 */
export async function playCell(
  stage: Stage,
  fault: Fault,
  roll: () => number,
  { settleMs = SETTLE_MS, sees }: { settleMs?: number; sees?: RegExp } = {},
): Promise<Outcome> {
  const { node, token, everMined } = stage
  const [alice, bob] = await stage.nextPair()
  const problems: string[] = []
  const problem = (text: string): void => {
    if (problems.length < 12 && !problems.includes(text)) problems.push(text)
  }
  let answers = 0
  let refused = 0
  const allowed = new Set([...AGAIN, ...(fault.allows ?? [])])

  /** @returns the answer when it is a yes; notes what must not be */
  const heard = (what: string, answer: Answer): Answer | null => {
    answers++
    if (answer.status < 400) return answer
    refused++
    const { code } = answer.body as { code?: string }
    if (answer.status === 500 || code === undefined || !allowed.has(code))
      problem(`${what} answered ${answer.status} ${code ?? ''} ${String(answer.body?.detail ?? '')}`)
    return null
  }

  const writes: Write[] = []
  const body = ({ person, amount }: Write) => ({ address: token, abi: MINT, args: [person.address, String(amount)] })

  /** Repeats with its key until it has a hash. */
  async function write(person: Person, amount: number, isOver: () => boolean): Promise<Write> {
    const one: Write = {
      person,
      amount,
      key: `${fault.name}-${amount}`.replaceAll(/[^ -~]/g, '-'),
      id: null,
      hash: null,
      tries: 0,
    }
    writes.push(one)
    while (!isOver()) {
      one.tries++
      const told = heard(
        'a write',
        await person.post('/v1/contracts/method/write', body(one), { 'idempotency-key': one.key }),
      )
      if (told !== null) {
        Object.assign(one, { id: told.body.id, hash: told.body.hash })
        return one
      }
      await pause(100)
    }
    problem(`a write got no hash in ${one.tries} tries`)
    return one
  }

  const heldNow = async ({ address }: Person): Promise<bigint> =>
    BigInt(
      await node.anvil.rpc<Hex>(
        'eth_call',
        { to: token, data: `0x70a08231${address.slice(2).padStart(64, '0')}` },
        'latest',
      ),
    )
  const coinsNow = async ({ address }: Person): Promise<bigint> =>
    BigInt(await node.anvil.rpc<Hex>('eth_getBalance', address, 'latest'))

  /** values that the chain had since the cell began */
  const held = new Set([await heldNow(alice)])
  const coins = new Set([await coinsNow(alice)])
  const before = node.onBlock
  node.onBlock = async (mined) => {
    await before?.(mined)
    held.add(await heldNow(alice))
    coins.add(await coinsNow(alice))
  }

  const looks: Record<string, () => Promise<void>> = {
    balance: async () => {
      const answer = heard('balance', await alice.get(`/v1/users/${alice.userId}/balance`))
      if (answer === null) return
      const value = BigInt(answer.body.ETH.balance)
      if (!coins.has(value) && (await coinsNow(alice)) !== value) problem(`a balance that never was: ${value}`)
    },
    read: async () => {
      const asked = { address: token, abi: BALANCE, args: [alice.address] }
      const answer = heard('a read', await alice.post('/v1/contracts/method/read', asked))
      if (answer === null) return
      const value = BigInt(answer.body.response.hex)
      if (!held.has(value) && (await heldNow(alice)) !== value) problem(`a read that never was: ${value}`)
    },
    reverting: async () => {
      const asked = { address: token, abi: TOO_MUCH, args: [bob.address, '1000000'] }
      const answer = await alice.post('/v1/contracts/method/write', asked)
      if (answer.status === 422 && answer.body.code === 'execution_reverted') return
      if (heard('a write that reverts', answer) !== null) problem('a write that reverts was accepted')
    },
    history: async () => {
      const answer = heard('history', await alice.get(`/v1/users/${alice.userId}/history`))
      if (answer === null) return
      const seen = (answer.body as { amount: { value: string } }[]).map(({ amount }) => Number(amount.value))
      if (new Set(seen).size !== seen.length || seen.some((one) => ![1, 2, 4].includes(one)))
        problem(`a history that never was: ${seen.join(' ')}`)
    },
    status: async () => {
      for (const { id, person } of writes) {
        if (id === null) continue
        const answer = heard('a status', await person.get(`/v1/transactions/${id}`))
        if (answer === null) continue
        await judgeState(answer.body as Sent)
      }
    },
  }

  type Sent = { state: string; hash: Hex; blockNumber?: unknown; block?: { number?: unknown } }
  async function judgeState({ state, hash }: Sent): Promise<void> {
    if (/^(SUBMITTED|QUEUED|SIGNED|BOUND)$/.test(state)) return
    const receipt = await node.anvil.rpc<{ blockNumber: Hex } | null>('eth_getTransactionReceipt', hash)
    if (/^(MINED|FINALIZED)$/.test(state)) {
      if (!everMined.has(hash) && receipt === null) problem(`${state} without a block`)
      if (state === 'FINALIZED' && receipt !== null && node.head() - Number(receipt.blockNumber) < stage.depth)
        problem('FINALIZED before it is')
      return
    }
    problem(`a write became ${state}`)
  }

  // A write that was told and is in no block yet when the fault begins.
  node.hold()
  await write(alice, 1, () => false)
  const from = performance.now()
  let isOver = false
  const readers = (async () => {
    const names = Object.keys(looks)
    while (!isOver) {
      await looks[names[Math.floor(roll() * names.length)]!]!()
      await pause(50)
    }
  })()
  let isLate = () => false
  try {
    if (fault.halts === true) await untilFinal(stage)
    node.goOn()
    await fault.start(node, roll)
    const during = [write(alice, 2, () => isLate()), write(bob, 8, () => isLate())]
    await pause(Math.max(0, (fault.ms ?? 600) - (performance.now() - from)))
    if (sees !== undefined) await until(`the judge sees ${sees}`, () => problems.some((text) => sees.test(text)))
    Object.assign(node, { onRequest: null, onCall: null, onReply: null })
    await fault.stop?.(node)
    const endedAt = performance.now()
    isLate = () => performance.now() - endedAt > settleMs
    if (fault.halts === true) await wayBack(stage, problem, isLate)
    await Promise.all(during)
    await write(alice, 4, isLate)
    await settle(stage, writes, { isLate, problem, held: heldNow })
    const settledMs = performance.now() - endedAt
    isOver = true
    await readers
    for (const name of Object.keys(looks)) await looks[name]!()
    await judge(stage, writes, { problem, alice, bob, held: heldNow, coins: coinsNow })
    if (node.broken !== null) problem(`the harness broke: ${node.broken}`)
    return { problems, settledMs, answers, refused }
  } finally {
    isOver = true
    isLate = () => true
    Object.assign(node, { onRequest: null, onCall: null, onReply: null, onBlock: before })
    node.goOn()
    await readers.catch((error: unknown) => problem(`a reader broke: ${String(error)}`))
  }
}

type Found = { isLate: () => boolean; problem: (text: string) => void; held: (person: Person) => Promise<bigint> }

/** Until the service has followed the chain, which stands still, so far that it knows what is final. */
async function untilFinal({ node, here, depth }: Stage): Promise<void> {
  await node.mine(3)
  await until('the follower knows what is final', async () => {
    const cursor = await here.app.db.selectFrom('cursors').select('finalized_number').executeTakeFirstOrThrow()
    return cursor.finalized_number >= node.head() - depth
  })
}

/** Below finality nothing is guessed: the follower has to stop, to say so, and to go on by the command. */
async function wayBack({ here, node }: Stage, problem: (text: string) => void, isLate: () => boolean): Promise<void> {
  const chain = here.app.chains.get(31_337)!
  for (;;) {
    const { body } = await here.request('/readyz')
    const { detail = '' } = body.checks.find(({ name }: { name: string }) => name === 'chain devnet')
    if (/chatelaine network rewind/.test(detail)) break
    if (isLate()) return problem('the follower does not say that it stopped below finality')
    await pause(50)
  }
  node.hold()
  await rewind({ app: here.app, chain } as Parameters<typeof rewind>[0], { name: 'proof', via: 'command' }, null)
  node.goOn()
}

/** Until every write is in a block, and the service says so; what waits for its time gets it. */
async function settle(stage: Stage, writes: Write[], { isLate, problem, held }: Found): Promise<void> {
  for (let round = 0; ; round++) {
    const states = await Promise.all(
      writes.map(async ({ person, id }) =>
        id === null ? 'untold' : ((await person.get(`/v1/transactions/${id}`)).body.state as string),
      ),
    )
    const people = [...new Set(writes.map(({ person }) => person))]
    const all = await Promise.all(
      people.map(async (person) => {
        const wanted = writes
          .filter((one) => one.person === person)
          .reduce((sum, { amount }) => sum + BigInt(amount), 0n)
        const { status, body } = await person.get(`/v1/users/${person.userId}/history`)
        const listed =
          status === 200 ? (body as { amount: { value: string } }[]).map(({ amount }) => BigInt(amount.value)) : []
        return (await held(person)) === wanted && listed.reduce((sum, one) => sum + one, 0n) === wanted
      }),
    )
    if (states.every((state) => /^(MINED|FINALIZED)$/.test(state)) && all.every(Boolean)) return
    if (isLate()) return problem(`not settled: ${states.join(' ')}${all.every(Boolean) ? '' : ', money or history'}`)
    // The first second is the service's own; then what it would do in half a minute is done now.
    if (round > 5 && round % 4 === 0) await stage.age(31)
    await pause(150)
  }
}

/** The end of a cell against the chain. */
async function judge(
  { here, node, token }: Stage,
  writes: Write[],
  found: Omit<Found, 'isLate'> & { alice: Person; bob: Person; coins: (person: Person) => Promise<bigint> },
): Promise<void> {
  const { problem, alice, bob, held, coins } = found
  for (const person of [alice, bob]) {
    const own = writes.filter((one) => one.person === person)
    const count = Number(await node.anvil.rpc<Hex>('eth_getTransactionCount', person.address, 'latest'))
    if (count !== own.length) problem(`${count} nonces used for ${own.length} writes`)
    const wanted = own.reduce((sum, { amount }) => sum + BigInt(amount), 0n)
    const has = await held(person)
    if (has !== wanted) problem(has > wanted ? `doubled: ${has} of ${wanted}` : `lost: ${has} of ${wanted}`)
    const offered = [...node.pool.offered.values()].filter(({ from }) => from === person.address.toLowerCase())
    for (const { data } of own.map((one) => ({ data: effectOf(one) }))) {
      const nonces = new Set(offered.filter((one) => one.data.endsWith(data)).map(({ nonce }) => nonce))
      if (nonces.size !== 1) problem(`one write was offered for ${nonces.size} nonces`)
    }
    for (const one of own) {
      if (one.hash === null) continue
      const byHash = await person.get(`/v1/transactions/${one.hash}`)
      if (byHash.body.id !== one.id) problem('the hash that was told does not lead to its write')
      const again = await person.post(
        '/v1/contracts/method/write',
        { address: token, abi: MINT, args: [person.address, String(one.amount)] },
        { 'idempotency-key': one.key },
      )
      if (again.body.id !== one.id) problem('its key does not lead to the write')
      const receipt = await node.anvil.rpc<{ status: Hex; blockHash: Hex } | null>(
        'eth_getTransactionReceipt',
        byHash.body.hash,
      )
      if (receipt?.status !== '0x1') problem('the hash it is said to have is not mined')
    }
    const { body } = await person.get(`/v1/users/${person.userId}/balance`)
    const told = BigInt(body.ETH?.balance ?? -1)
    if (told !== (await coins(person))) problem('the balance at the end is not the chain’s')
  }
  const endsAt = performance.now() + PATIENCE_MS
  for (;;) {
    const { body } = await here.request('/readyz')
    const { ok } = body.checks.find(({ name }: { name: string }) => name === 'chain devnet')
    if (ok === true) return
    if (performance.now() > endsAt) return problem('not ready again')
    await pause(100)
  }
}

const effectOf = ({ amount }: Write): string => amount.toString(16).padStart(64, '0')
