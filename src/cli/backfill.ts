import { InvalidArgumentError, type Command } from 'commander'
import { backfill, type BackfillProgress } from '../history/backfill.ts'
import { fromHex } from '../hex.ts'
import { NETWORK_OPTION, withInstallation, type Installation } from './installation.ts'
import { ExitCode, inShell, onSignals, type Shell } from './shell.ts'
import { collect } from './options.ts'
import { isAddress, wholeIn } from '../digits.ts'

/** milliseconds between looks for blocks that become final */
const WAIT_MS = 2_000

/** `chatelaine backfill`: transfers of accounts that existed before this installation knew them. */
export function addBackfill(program: Command, shell: Shell): void {
  program
    .command('backfill')
    .description('look up the transfers of accounts that existed before this installation knew them')
    .requiredOption('--from-block <number>', 'first block to search', readBlock)
    .option(...NETWORK_OPTION)
    .option('--account <id>', 'user id or address; repeat for several; default: every account', collect, [])
    .option(
      '--no-wait',
      'stop at the block that is final now, instead of waiting until everything the server follows now is final',
    )
    .action(inShell(shell, run))
}

type BackfillOptions = { fromBlock: number; network?: string; account: string[]; wait: boolean }

async function run(shell: Shell, given: BackfillOptions): Promise<void> {
  const stopping = new AbortController()
  const stopListening = onSignals(['SIGINT', 'SIGTERM'], () => stopping.abort())
  try {
    await withInstallation(shell, given.network, (installation) => fill(shell, installation, given, stopping.signal))
  } finally {
    stopListening()
  }
}

async function fill(
  { console }: Shell,
  { app, chain }: Installation,
  { fromBlock, account, wait }: BackfillOptions,
  stopping: AbortSignal,
) {
  const accountIds = account.length === 0 ? null : await Promise.all(account.map((text) => findAccount(app, text)))
  const { nextBlock, target } = await backfill(app, chain, {
    fromBlock,
    accountIds,
    stopping,
    waitMs: wait ? WAIT_MS : 0,
    onProgress: (progress) => console.log(lineOf(progress)),
  })
  if (nextBlock > target) console.log(`Done: the history is complete up to block ${target}.`)
  else console.log(`Blocks from ${nextBlock} to ${target} remain: the same command continues there.`)
  if (stopping.aborted) throw new ExitCode(130)
}

const lineOf = ({ group, groups, accounts, nextBlock, toBlock, transfers }: BackfillProgress): string =>
  `group ${group} of ${groups} (${accounts} accounts): block ${nextBlock - 1} of ${toBlock}, ${transfers} new transfers`

/** @throws Error when there is no such account */
async function findAccount({ db }: Installation['app'], text: string): Promise<string> {
  const query = db.selectFrom('accounts').select('account_id')
  const row = await (
    isAddress(text) ? query.where('address', '=', fromHex(text.toLowerCase())) : query.where('user_id', '=', text)
  ).executeTakeFirst()
  if (row === undefined) throw new Error(`There is no account ${text}.`)
  return row.account_id
}

/** A block number of an option. @throws InvalidArgumentError */
export function readBlock(text: string): number {
  const block = wholeIn(text)
  if (block === null) throw new InvalidArgumentError('A block number in decimal digits.')
  return block
}
