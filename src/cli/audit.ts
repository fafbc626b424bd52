import type { Command } from 'commander'
import { openRpc, type Rpc } from '../chain/rpc/rpc.ts'
import { audit, type Difference } from '../history/audit.ts'
import { compareSums, type SumOptions } from './audit-sums.ts'
import { NETWORK_OPTION, withInstallation, type Installation } from './installation.ts'
import { ExitCode, inShell, type Shell } from './shell.ts'
import { systemClock } from '../clock.ts'
import { collect, readBlock } from './options.ts'

/** maximum number of differences that are printed; all are counted */
const MAX_LINES = 1_000

/**
 * Adds `chatelaine audit`: compares the history with the final blocks, or the balances, of a node, preferably an
 * independent one.
 */
export function addAudit(program: Command, shell: Shell): void {
  program
    .command('audit')
    .description(
      'compare the history of final blocks with a node, or its sums with balances (--sums); exit code 1: they differ',
    )
    .option('--from <number>', 'first block; with --samples the lowest', readBlock)
    .option('--to <number>', 'last block, final; with --sums the block of the balances, default: the newest', readBlock)
    .option(...NETWORK_OPTION)
    .option('--rpc <url>', 'node to compare with; default: the nodes of the network')
    .option('--repair', 'correct the history', false)
    .option('--sums', 'compare the sums of all entries, per token and native currency, with balances', false)
    .option(
      '--account <address>',
      'with --sums: account to check; repeat for several; default: all accounts',
      collect,
      [],
    )
    .option('--samples <number>', 'with --sums: number of random accounts to check, each at a random block', readBlock)
    .option('--seed <text>', 'with --samples: seed; the same seed selects the same samples', 'chatelaine')
    .option(
      '--since <number>',
      'with --sums: sum entries after this block, for nodes without the state of older blocks',
      readBlock,
    )
    .option('--json', 'with --sums: print one JSON line for each difference, and one for the counts', false)
    .action(inShell(shell, run))
}

type AuditOptions = SumOptions & { network?: string; rpc?: string; repair: boolean; sums: boolean }

const run = (shell: Shell, given: AuditOptions): Promise<void> =>
  withInstallation(shell, given.network, (installation) => compare(shell, installation, given))

async function compare(shell: Shell, installation: Installation, given: AuditOptions): Promise<void> {
  const { chain } = installation
  const { rpc: url, sums } = given
  const rpc = url === undefined ? chain.rpc : openRpc({ url })
  try {
    const chainId = Number(await rpc.call('eth_chainId', []))
    if (chainId !== chain.chainId)
      throw new Error(`The node reports chain id ${chainId}; the network has ${chain.chainId}.`)
    await (sums ? compareSums : compareBlocks)(shell, installation, rpc, given)
  } finally {
    rpc.close()
  }
}

async function compareBlocks(
  { console }: Shell,
  { app, chain }: Installation,
  rpc: Rpc,
  { from, to, repair }: AuditOptions,
): Promise<void> {
  if (from === undefined || to === undefined) throw new Error('Give the blocks to compare: --from and --to.')
  let lines = 0
  let toldAt = systemClock.wall()
  const result = await audit(app, chain, {
    from,
    to,
    rpc,
    repairs: repair,
    onDifference: (difference) => {
      if (++lines <= MAX_LINES) console.log(lineOf(difference))
    },
    onProgress: ({ nextBlock, transfers, differences }) => {
      if (systemClock.wall() - toldAt < 5_000) return
      toldAt = systemClock.wall()
      app.telemetry.log.info('audit_progressed', {
        chainId: chain.chainId,
        block: nextBlock - 1,
        transfers,
        differences,
      })
      console.error(`block ${nextBlock - 1} of ${to}, ${transfers} transfers, ${differences} differences`)
    },
  })
  const ending = result.differences > 0 && repair ? ', repaired' : ''
  console.log(`${result.blocks} blocks, ${result.transfers} transfers, ${result.differences} differences${ending}`)
  if (result.differences > 0) throw new ExitCode(1)
}

function lineOf({ stored, expected }: Difference): string {
  const kind = stored === null ? 'missing' : expected === null ? 'extra' : 'changed'
  const { accountId, blockNumber, logIndex, batchIndex, hash, token } = (expected ?? stored)!
  const what = `${kind}: block ${blockNumber}, log ${logIndex}:${batchIndex}, transaction ${hash}, token ${token}, account ${accountId}`
  if (stored === null || expected === null) return what
  const fields = (Object.keys(expected) as (keyof typeof expected)[]).filter((key) => stored[key] !== expected[key])
  return `${what}; differs in ${fields.join(', ')}`
}
