import { sql } from 'kysely'
import { bindNetwork } from '../src/applications/networks.ts'
import { fillNext } from '../src/history/automatic-backfill.ts'
import { coveredFrom } from '../src/history/coverage.ts'
import { indexTransfers } from '../src/history/index-transfers.ts'
import type { Hex } from '../src/ids.ts'
import { fromHex } from '../src/hex.ts'
import { followerStage } from './follower-stage.ts'
import { addressOf, scriptedChain, type ScriptedChain, type ScriptedTransfer } from './nodes/scripted-chain.ts'
import { signerAt } from './scripted-transactions.ts'

export const [ALICE, BOB, CAROL] = [addressOf(0xa1), addressOf(0xb0b), addressOf(0xca)]
export const idOf = (address: Hex) => `00000000-0000-8000-8000-${address.slice(-12)}`
export const CHAIN = 31337

/** For tests of the backfill that is done by itself: a chain that was followed without its accounts, and what is noted of the work. */
export function backfillStage() {
  const { app, followed, logged } = followerStage([
    ...(['accounts', 'blocks', 'cursors', 'transfers', 'tokens'] as const),
    ...(['history_marks', 'coverage', 'backfill_work', 'networks'] as const),
  ])
  Object.assign(app.config, { BACKFILL_CALLS_PER_SECOND: 1_000_000 })
  const add = (...addresses: Hex[]) =>
    app.db
      .insertInto('accounts')
      .values(
        addresses.map((address, index) => ({
          ...{ account_id: idOf(address), user_id: `DEV-${address}`, address: fromHex(address) },
          created_at: new Date(Date.now() - 60_000 * (addresses.length - index)),
        })),
      ) // prettier-ignore
      .execute()
  const from = (address: Hex) => coveredFrom(app.db, { accountId: idOf(address), chainId: CHAIN })
  const coin = (to: Hex): ScriptedTransfer => ({
    ...{ type: 'ERC20', token: addressOf(0x70), from: addressOf(0x57), to },
    items: [{ id: null, value: 5n }],
  })
  /** Twenty blocks with a coin for each of three accounts, followed when nobody knew them. */
  const followedChain = async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 0 })
    for (let number = 1; number <= 20; number++)
      script.mine({ from: signerAt(0x57), transfers: [ALICE, BOB, CAROL].map(coin) })
    await followed(script, { ...indexTransfers, afterCommit: () => {} })
    return script
  }
  const fill = (
    script: ScriptedChain,
    { owner = 'one', stopping = new AbortController().signal, context = app } = {},
  ) => fillNext(context, script.chain, { owner, stopping })
  const blocksOf = async (address: Hex) => {
    const rows = await app.db.selectFrom('transfers').select('block_number').where('account_id', '=', idOf(address)).orderBy('block_number').execute() // prettier-ignore
    return rows.map(({ block_number }) => block_number)
  }
  const all = Array.from({ length: 20 }, (_, index) => index + 1)
  const work = () => app.db.selectFrom('backfill_work').selectAll().where('chain_id', '=', CHAIN).executeTakeFirst()
  const askedFrom = (script: ScriptedChain) => {
    const asked: number[] = []
    script.onAsk = (method, params) =>
      void (method === 'eth_getLogs' && asked.push(Number((params[0] as { fromBlock: Hex }).fromBlock)))
    return asked
  }
  /** The lease of a process that is gone has ended. */
  const leaseEnds = () =>
    app.db
      .updateTable('backfill_work')
      .set({ lease_until: sql<Date>`now()` })
      .execute()

  /** The chain as an operator has added it. */
  const bindStored = async ({ chain, blocks }: ScriptedChain) => {
    const { chainId, name, symbol, coin } = chain
    const rules = {
      finality: 'finalized',
      explorer: null,
      blockVerification: null,
      feeCapGwei: null,
      gas: 'self',
    } as const
    const facts = { chainId, name, symbol, coin, ...rules, genesisHash: blocks[0]!.hash }
    await bindNetwork(app.db, facts, { mayBegin: true })
  }

  const before = { app, followed, logged, add, from, coin, followedChain, bindStored }
  return { ...before, fill, blocksOf, all, work, askedFrom, leaseEnds }
}
