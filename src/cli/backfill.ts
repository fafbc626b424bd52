import { randomUUID } from 'node:crypto'
import type { Command } from 'commander'
import { readSome } from '../config.ts'
import { fillNext } from '../history/automatic-backfill.ts'
import { NETWORK_OPTION, withInstallation, type Installation } from './installation.ts'
import { ExitCode, inShell, onSignals, type Shell } from './shell.ts'

/** Adds `chatelaine backfill`: does in the foreground what a server does with BACKFILL=on. */
export function addBackfill(program: Command, shell: Shell): void {
  program
    .command('backfill')
    .description('backfill past transfers of a network in the foreground')
    .option(...NETWORK_OPTION)
    .action(inShell(shell, run))
}

async function run(shell: Shell, given: { network?: string }): Promise<void> {
  const stopping = new AbortController()
  const stopListening = onSignals(['SIGINT', 'SIGTERM'], () => stopping.abort())
  try {
    await withInstallation(shell, given.network, (installation) => fill(shell, installation, stopping.signal))
  } finally {
    stopListening()
  }
}

async function fill({ console, env }: Shell, { app, chain }: Installation, stopping: AbortSignal): Promise<void> {
  const config = readSome(env, ['BACKFILL_FROM_BLOCK', 'BACKFILL_CALLS_PER_SECOND'])
  for (;;) {
    const became = await fillNext({ ...app, config }, chain, {
      owner: `command ${randomUUID()}`,
      stopping,
      onProgress: ({ nextBlock, toBlock, transfers }) =>
        console.log(`block ${nextBlock - 1} of ${toBlock}, ${transfers} new transfers`),
    })
    if (became === 'elsewhere')
      throw new Error(
        `Another process is running this backfill. chatelaine network show ${chain.name} reports its progress.`,
      )
    if (became === 'stopped') {
      console.log('Stopped. The same command, or a server with BACKFILL=on, continues from here.')
      throw new ExitCode(130)
    }
    if (became === 'nothing') break
  }
  const work = await app.db
    .selectFrom('backfill_work')
    .select('blocked_by')
    .where('chain_id', '=', chain.chainId)
    .executeTakeFirst()
  if (typeof work?.blocked_by === 'string') throw new Error(`Nothing was indexed: ${work.blocked_by}.`)
  console.log('Done: the past transfers of every account are indexed.')
}
