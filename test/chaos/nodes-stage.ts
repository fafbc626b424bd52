import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Hex } from '../../src/ids.ts'
import { age } from '../lost-tail.ts'
import { until } from '../kit/until.ts'
import { world, type Person, type World } from '../world.ts'
import type { Profile } from './nodes-profiles.ts'
import { startProfiledNode, type ProfiledNode } from '../nodes/proxy.ts'
import { tokenBytecode } from './nodes-token.ts'

/** The whole program in front of a node of a profile, and accounts with coins that nobody has used yet. */
export type Stage = {
  profile: Profile
  node: ProfiledNode
  here: World
  token: Hex
  /** blocks below the newest from which on one is final */
  depth: number
  /** two accounts that nothing was done with */
  nextPair(): Promise<[Person, Person]>
  /** hashes of all transactions that were ever in a block of the chain */
  everMined: Set<Hex>
  /** makes what waits for its time that many seconds older */
  age(seconds: number): Promise<void>
  close(): Promise<void>
}

/** as docs/operate/nodes.md says: where a node names no final block */
const FALLBACK_FINALITY = 64
const FUNDS = '0x8ac7230489e80000'

/** @param pairs  cells that will be played */
export async function stageOf(profile: Profile, pairs: number): Promise<Stage> {
  const node = await startProfiledNode(profile)
  const everMined = new Set<Hex>()
  let here: World | null = null
  const close = async () => {
    await here?.close()
    await node.stop()
  }
  try {
    node.onBlock = async ({ block }) => {
      for (const { hash } of block.transactions as { hash: Hex }[]) everMined.add(hash)
    }
    const token = await deployToken(node)
    node.token = token
    here = await world({
      RPC_URL: node.url,
      NETWORK_CHAIN_ID: '31337',
      BLOCK_VERIFICATION: profile.verification,
      FOLLOW_INTERVAL_MS: String(profile.followMs),
      LOG_LEVEL: process.env.PROOF_LOG ?? 'silent',
    })
    const chain = here.app.chains.get(31_337)!
    // As in production: a chain that may lose any number of blocks is believed too much to be tested.
    Object.assign(chain, { isDevelopment: false, lostAfterMs: 300 })
    const people: Person[] = []
    for (let index = 0; index < 2 * pairs; index++) {
      const one = await here.person(`p${index}`)
      await node.anvil.rpc('anvil_setBalance', one.address, FUNDS)
      people.push(one)
    }
    const depth = profile.finalized ?? FALLBACK_FINALITY
    // No reorganisation goes below this, so the accounts keep their coins.
    await node.mine(depth + 20)
    const settled = here
    await until(
      'the follower is at the newest block',
      async () => (chain.head.current()?.number ?? 0) >= node.head() - 2,
    )
    return {
      ...{ profile, node, token, here: settled, depth, everMined, close },
      nextPair: async () => [people.shift()!, people.shift()!],
      age: async (seconds) => {
        const by = sql`${`${seconds} seconds`}::interval`
        const { db } = settled.app
        await age({ db }, seconds)
        await sql`update attempts set created_at = created_at - ${by}, broadcast_at = broadcast_at - ${by}`.execute(db)
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function deployToken(node: ProfiledNode): Promise<Hex> {
  const [from] = await node.anvil.rpc<Hex[]>('eth_accounts')
  const hash = await node.anvil.rpc<Hex>('eth_sendTransaction', {
    from,
    data: tokenBytecode(node.profile),
    gas: '0x3d0900',
    gasPrice: '0x77359400',
  })
  for (;;) {
    await node.mine()
    const receipt = await node.anvil.rpc<{ contractAddress: Hex; status: Hex } | null>(
      'eth_getTransactionReceipt',
      hash,
    )
    if (receipt !== null && receipt.status !== '0x1') throw new Error('the token was not deployed')
    if (receipt !== null) return receipt.contractAddress
    await pause(20)
  }
}
