import { createHash } from 'node:crypto'
import type { Rpc } from '../chain/rpc/rpc.ts'
import {
  auditSums,
  everyAccount,
  sampledAccounts,
  summableBlocks,
  theseAccounts,
  type SumCounts,
  type SumDifference,
} from '../history/sum-audit.ts'
import type { Hex } from '../ids.ts'
import type { Installation } from './installation.ts'
import { ExitCode, type Shell } from './shell.ts'
import { systemClock } from '../clock.ts'
import { isAddress } from '../digits.ts'

/** maximum number of differences that are printed; all are counted */
const MAX_LINES = 1_000

export type SumOptions = {
  from?: number
  to?: number
  account: string[]
  samples?: number
  seed: string
  since?: number
  json: boolean
}

/**
 * Compares the sums of entries with the balances that a node reports. Prints one line per difference, then the counts.
 * @throws ExitCode 1 if sums differ, except by the behaviour of a token; 2 if none differ, but some could not be
 * compared
 */
export async function compareSums(
  { console }: Shell,
  { app, chain }: Installation,
  rpc: Rpc,
  options: SumOptions,
): Promise<void> {
  const { account, samples, seed, since = null, json } = options
  const blocks = await summableBlocks(app.db, chain)
  const [from, to] = [options.from ?? blocks.from, options.to ?? blocks.to]
  if (from > to) throw new Error(`Block ${from} is above block ${to}.`)
  const targets =
    samples !== undefined
      ? sampledAccounts(app.db, { count: samples, random: randomOf(seed), from, to })
      : account.length > 0
        ? theseAccounts(app.db, account.map(readAddress), to)
        : everyAccount(app.db, to)
  let lines = 0
  let toldAt = systemClock.wall()
  const counts = await auditSums(app, chain, {
    targets,
    rpc,
    since,
    onDifference: (difference) => {
      if (++lines <= MAX_LINES) console.log(json ? jsonOf(difference) : lineOf(difference))
    },
    onProgress: (progress) => {
      if (systemClock.wall() - toldAt < 5_000) return
      toldAt = systemClock.wall()
      console.error(textOf(progress))
    },
  })
  console.log(json ? JSON.stringify({ chainId: chain.chainId, from, to, ...counts }) : textOf(counts))
  if (counts.different > 0) throw new ExitCode(1)
  if (counts.unknown > 0) throw new ExitCode(2)
}

const textOf = ({ accounts, equal, different, ofTokens, unknown }: SumCounts): string =>
  `${accounts} accounts: ${equal} sums equal, ${different} different, ${ofTokens} of tokens whose events do not match their balances, ${unknown} unknown`

function lineOf({ sum, difference, block, isOfToken }: SumDifference): string {
  const { address, token, tokenId, opening, net, balance } = sum
  const what = token === null ? 'native currency' : `token ${token}${tokenId === null ? '' : ` id ${tokenId}`}`
  const since = block === null ? '' : `, since block ${block}`
  const why = isOfToken ? ': the events of the token do not match its balances' : ''
  return `account ${address}, ${what}, block ${sum.block}: entries make ${opening! + net}, the balance is ${balance}, ${difference > 0n ? '+' : ''}${difference}${since}${why}`
}

/** Formats a difference as one line of JSON, with amounts as decimal strings. */
function jsonOf({ sum, difference, block, isOfToken }: SumDifference): string {
  const { accountId, address, token, type, tokenId, from, opening, net, balance } = sum
  return JSON.stringify({
    accountId,
    address,
    tokenAddress: token,
    tokenType: type,
    tokenId: tokenId?.toString() ?? null,
    block: sum.block,
    from,
    opening: String(opening),
    net: String(net),
    balance: String(balance),
    difference: String(difference),
    sinceBlock: block,
    isOfToken,
  })
}

/** Returns a generator of whole numbers that a seed determines. */
function randomOf(seed: string): (below: number) => number {
  let count = 0
  return (below) => createHash('sha256').update(`${seed} ${count++}`).digest().readUIntBE(0, 6) % below
}

function readAddress(text: string): Hex {
  if (!isAddress(text)) throw new Error(`${text} is not an address.`)
  return text.toLowerCase() as Hex
}
