import type { Command } from 'commander'
import type { App } from '../app.ts'
import { findShared, rewindTo } from '../follower/rewind.ts'
import { indexTransfers } from '../history/index-transfers.ts'
import { recorded, type Actor } from '../operator/actions.ts'
import type { Db } from '../store/db.ts'
import { followTransactions } from '../transactions/settle/follow.ts'
import { readBlock } from './options.ts'
import { withInstallation, type Installation } from './installation.ts'
import { commandActor } from './registry.ts'
import { print } from './print.ts'
import { inShell, type Shell } from './shell.ts'
import { openState } from '../state.ts'
import { systemClock } from '../clock.ts'

type RewindOptions = { toBlock?: number; json?: boolean }

/**
 * Adds `chatelaine network rewind`, for a network whose follower has stopped because of a reorganisation below
 * finality.
 */
export function addRewind(command: Command, shell: Shell): void {
  command
    .command('rewind <name>')
    .description('rewind a network to the newest block that its nodes have, and follow it from there')
    .option('--to-block <number>', 'rewind to this lower block, if the nodes have no stored block', readBlock)
    .option('--json', 'print JSON')
    .action(inShell(shell, run))
}

async function run(shell: Shell, name: string, given: RewindOptions): Promise<void> {
  await withInstallation(shell, name, async (installation) => {
    const done = await rewind(installation, commandActor(shell.env), given.toBlock ?? null)
    const { to, transactions } = done
    const sentence = `Rewound the network ${name} to block ${to}; servers follow it from there. Transactions pending again: ${transactions}.`
    print(shell, given, { name, ...done }, sentence)
  })
}

/** Rewinds the network and records who did it, in one transaction. @throws Error */
export async function rewind(
  { app, chain }: Installation,
  actor: Actor,
  toBlock: number | null,
): Promise<{ to: number; transactions: number }> {
  const to = await findShared(app, chain, toBlock)
  // The listeners of a rewind use only these parts of an App.
  const part = { ...app, state: openState(), clock: systemClock } as App
  const look = () => async (db: Db) =>
    (await db
      .selectFrom('cursors')
      .select(['block_number', 'finalized_number', 'halted'])
      .where('chain_id', '=', chain.chainId)
      .executeTakeFirst()) ?? null
  return recorded(app.db, actor, { action: 'rewind-network', target: chain.name, look }, async (db) => {
    const { count } = await db
      .selectFrom('transactions')
      .select(({ fn }) => fn.countAll<string | number>().as('count'))
      .where('chain_id', '=', chain.chainId)
      .where('is_final', 'in', [true, false])
      .where('block_number', '>', to.number)
      .executeTakeFirstOrThrow()
    await rewindTo(db, part, chain, { listeners: [followTransactions, indexTransfers], to })
    return { to: to.number, transactions: Number(count) }
  })
}
