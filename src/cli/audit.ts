import type { Command } from 'commander'
import { openRpc } from '../chain/rpc/rpc.ts'
import { audit, type Difference } from '../history/audit.ts'
import { readBlock } from './backfill.ts'
import { NETWORK_OPTION, withInstallation, type Installation } from './installation.ts'

/** differences that are printed; the rest is counted */
const MAX_LINES = 1_000

/** `chatelaine audit`: compares the history with what a node, best another one, says of final blocks. */
export function addAudit(program: Command): void {
  program
    .command('audit')
    .description('compare the history of final blocks with a node; exits with code 1 if they differ')
    .requiredOption('--from <number>', 'first block', readBlock)
    .requiredOption('--to <number>', 'last block, final', readBlock)
    .option(...NETWORK_OPTION)
    .option('--rpc <url>', 'node to trust; default: those of the network')
    .option('--repair', 'correct the history', false)
    .action(run)
}

type AuditOptions = { from: number; to: number; network?: string; rpc?: string; repair: boolean }

const run = (given: AuditOptions): Promise<void> =>
  withInstallation(process.env, given.network, (installation) => compare(installation, given))

async function compare({ app, chain }: Installation, { from, to, rpc: url, repair }: AuditOptions): Promise<void> {
  const rpc = url === undefined ? chain.rpc : openRpc({ url })
  try {
    const chainId = Number(await rpc.call('eth_chainId', []))
    if (chainId !== chain.chainId)
      throw new Error(`The node has chain id ${chainId}, the network has ${chain.chainId}.`)
    let lines = 0
    let toldAt = Date.now()
    const result = await audit(app, chain, {
      from,
      to,
      rpc,
      repairs: repair,
      onDifference: (difference) => {
        if (++lines <= MAX_LINES) console.log(lineOf(difference))
      },
      onProgress: ({ nextBlock, transfers, differences }) => {
        if (Date.now() - toldAt < 5_000) return
        toldAt = Date.now()
        app.telemetry.log.info('audit', { chainId: chain.chainId, block: nextBlock - 1, transfers, differences })
        console.error(`block ${nextBlock - 1} of ${to}, ${transfers} transfers, ${differences} differences`)
      },
    })
    const ending = result.differences > 0 && repair ? ', repaired' : ''
    console.log(`${result.blocks} blocks, ${result.transfers} transfers, ${result.differences} differences${ending}`)
    if (result.differences > 0) process.exitCode = 1
  } finally {
    rpc.close()
  }
}

function lineOf({ stored, expected }: Difference): string {
  const kind = stored === null ? 'missing' : expected === null ? 'extra' : 'changed'
  const { accountId, blockNumber, logIndex, batchIndex, hash, token } = (expected ?? stored)!
  const what = `${kind}: block ${blockNumber}, log ${logIndex}:${batchIndex}, transaction ${hash}, token ${token}, account ${accountId}`
  if (stored === null || expected === null) return what
  const fields = (Object.keys(expected) as (keyof typeof expected)[]).filter((key) => stored[key] !== expected[key])
  return `${what}; differs in ${fields.join(', ')}`
}
