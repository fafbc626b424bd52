import { Command } from 'commander'
import { closeChain } from '../chain/open.ts'
import type { Signer } from '../signer-wire/client.ts'
import { listSponsors } from '../sponsors/list.ts'
import type { ListedSponsor, MadeSponsor } from '../sponsors/wire.ts'
import { openState } from '../state.ts'
import type { RootDb } from '../store/db.ts'
import { openTelemetry } from '../telemetry.ts'
import { listWithdrawals } from '../transactions/sponsors/withdraw.ts'
import type { Withdrawal } from '../transactions/sponsors/withdrawal-wire.ts'
import { withDatabaseOrServer } from './database.ts'
import { publishedSealKeys } from './seal-keys.ts'
import { openReachable } from './installation.ts'
import { facts, print, table, type JsonOption } from './print.ts'
import { actsOf } from './registry.ts'
import { ExitCode, inShell, logTo, type Shell } from './shell.ts'
import { withSignerOrServer } from './signer-or-server.ts'
import { systemClock } from '../clock.ts'

/** Builds `chatelaine sponsor …`: operator accounts that pay the gas of users' writes. */
export function sponsor(shell: Shell): Command {
  const command = new Command('sponsor').description(
    'manage sponsors, which pay users’ gas: docs/operate/gas/overview.md',
  )
  command
    .command('create')
    .description('create a sponsor and print the address to fund; the same name is the same account on every network')
    .argument('<name>', 'upper-case letters, digits and underscores, at most 32')
    .requiredOption('--network <name>', 'network where it pays')
    .option('--json', 'print JSON')
    .action(inShell(shell, create))
  command
    .command('list')
    .description('list sponsors, with the address and the balance of each')
    .option('--json', 'print JSON')
    .action(inShell(shell, list))
  command
    .command('withdraw')
    .description('withdraw funds of a sponsor with a grant from `chatelaine signer grant-withdrawal`')
    .argument('<name>', 'name of the sponsor')
    .requiredOption('--network <name>', 'network of the funds')
    .requiredOption('--to <address>', 'recipient, as in the grant')
    .option('--amount <wei>', 'amount without the fee, wei')
    .option('--all', 'whole balance, less open transactions and the fee')
    .requiredOption('--grant <grant>', 'grant printed by `grant-withdrawal`; repeating the command is safe')
    .option('--json', 'print JSON')
    .action(inShell(shell, withdraw))
  return command
}

type WithdrawOptions = JsonOption & { network: string; to: string; amount?: string; all?: true; grant: string }

/** How long the command waits until a server sends the withdrawal. */
const PATIENCE_MS = 20_000
const LOOK_MS = 500

async function withdraw(shell: Shell, name: string, given: WithdrawOptions): Promise<void> {
  const { network, to, amount, all, grant } = given
  if ((amount === undefined) === (all === undefined)) throw new Error('Give either --amount or --all.')
  const asked = { network, to, amount: amount ?? null, grant }
  const first = await withDatabaseOrServer(
    shell.env,
    (db) => actsOf(shell.env, db).withdraw(name, asked),
    (ask) => ask<Withdrawal>('POST', `/sponsors/${encodeURIComponent(name)}/withdrawals`, asked),
  )
  const end = systemClock.ticks() + PATIENCE_MS
  let now = first
  while (now.state === 'ASKED' && systemClock.ticks() < end) {
    await systemClock.sleep(LOOK_MS)
    const listed = await withDatabaseOrServer(shell.env, listWithdrawals, (ask) =>
      ask<Withdrawal[]>('GET', '/withdrawals'),
    )
    now = listed.find(({ id }) => id === first.id) ?? now
  }
  const facted = facts([
    ['Sponsor', now.sponsor],
    ['Network', `${now.network ?? ''} (chain id ${now.chainId})`],
    ['To', now.to],
    ['Amount', now.wei === null ? (now.amount === null ? 'all' : `${now.amount} wei`) : `${now.wei} wei`],
    ['State', now.refusal === null ? now.state : `${now.state}: ${now.refusal}`],
    ['Transaction', now.hash],
  ])
  const waiting =
    'No API server has sent the withdrawal yet. To see its state, run the same command again while the grant is valid.'
  print(shell, given, now, now.state === 'ASKED' ? `${facted}\n\n${waiting}` : facted)
  if (now.state === 'REFUSED') throw new ExitCode(1)
}

async function create(shell: Shell, name: string, given: JsonOption & { network: string }): Promise<void> {
  const request = { name, network: given.network }
  const made = await withSignerOrServer(
    shell.env,
    async (signer, db) => actsOf(shell.env, db).createSponsor(await prover(shell, signer, db), request),
    (ask) => ask<MadeSponsor>('POST', '/sponsors', request),
  )
  const text = facts([
    ['Name', made.name],
    ['Network', `${made.network} (chain id ${made.chainId})`],
    ['Address', made.address],
  ])
  print(shell, given, made, `${text}\n\nFund this address. Until then, the sponsor pays for no user.`)
}

async function list(shell: Shell, given: JsonOption): Promise<void> {
  const sponsors = await withSignerOrServer(
    shell.env,
    async (signer, db) => {
      const chains = await openReachable(shell, db)
      try {
        return await listSponsors({ ...(await prover(shell, signer, db)), chains })
      } finally {
        chains.forEach(closeChain)
      }
    },
    (ask) => ask<ListedSponsor[]>('GET', '/sponsors'),
  )
  const rows = sponsors.map(
    ({ name, network, chainId, address, balance, openTransactions, lowBelow, lowSince, stoppedSince }) => [
      ...[name, network ?? `chain ${chainId}`, address],
      balance === null ? 'unknown: no node responds' : `${balance} wei`,
      ...[String(openTransactions), lowBelow === null ? 'unknown' : `${lowBelow} wei`],
      [
        ...(lowSince === null ? [] : [`low since ${lowSince}`]),
        ...(stoppedSince === null ? [] : [`stopped since ${stoppedSince}: chatelaine account resume SPONSOR-${name}`]),
      ].join('; '),
    ],
  )
  print(
    shell,
    given,
    sponsors,
    rows.length === 0
      ? 'No sponsors yet.'
      : table(['name', 'network', 'address', 'balance', 'open', 'low below', ''], rows),
  )
}

/** What is needed to prove an address: the operator will send funds to the printed one. */
const prover = async (shell: Shell, signer: Signer, db: RootDb) => ({
  clock: systemClock,
  db,
  signer,
  sealKeys: await publishedSealKeys(shell.env),
  telemetry: openTelemetry('cli', 'error', logTo(shell)),
  state: openState(),
})
