import type { Command } from 'commander'
import { templatesAt, type NetworkFacts } from '../applications/networks.ts'
import type { Hex } from '../ids.ts'
import type { GasChoice, Verification } from '../chain/network.ts'

/** What may be said of a network, as it is written. */
export type NetworkFactsOptions = {
  symbol?: string
  coin?: string
  explorer?: string
  explorerTx?: string
  explorerAddress?: string
  explorerBlock?: string
  finality?: string
  blockVerification?: string
  feeCapGwei?: string
  gas?: string
  topupContract?: string[]
  sponsorPerDay?: string
  sponsorLow?: string
  backfillFrom?: string
}

/** The options of `network add` and `network set`. */
export const withFactsOptions = (command: Command): Command =>
  command
    .option('--symbol <symbol>', 'manual: symbol of the native currency')
    .option('--coin <name>', 'name of the native currency; default its symbol')
    .option('--explorer <url>', 'manual: block explorer with /tx/, /address/ and /block/ pages')
    .option('--explorer-tx <template>', 'page of a transaction, with {hash}')
    .option('--explorer-address <template>', 'page of an account, with {address}')
    .option('--explorer-block <template>', 'page of a block, with {number}')
    .option('--finality <blocks>', '`finalized`, the node’s tag, or a number of blocks; default finalized')
    .option(
      '--block-verification <how>',
      '`hash`, `bloom`, `count`, or `default`, which is the setting BLOCK_VERIFICATION',
    )
    .option('--fee-cap-gwei <gwei>', 'highest fee per gas ever signed, or `default`, which is the setting FEE_CAP_GWEI')
    .option(
      '--gas <who>',
      'who pays for gas: `self`, people do; `topup`, a sponsor sends them what their write needs; `sponsor`, one sends what they sign',
    )
    .option(
      '--topup-contract <address>',
      'with `sponsor`: accounts send writes to it themselves, and a sponsor sends them what those need; repeat for several, in place of those before; `none`: no contract',
      collect,
    )
    .option(
      '--sponsor-per-day <wei>',
      'what its sponsors may spend in 24 hours for all applications, or `default`: as much as those may',
    )
    .option(
      '--sponsor-low <wei>',
      'balance below which a sponsor counts as low, or `default`: what a hundred top-ups cost',
    )
    .option(
      '--backfill-from <block>',
      'first block whose transfers are looked up by itself, or `default`, which is the setting BACKFILL_FROM_BLOCK',
    )

/** What is given of a network, else what is known. NaN where a number was expected: that is refused with the rest. */
export function readFacts(
  given: NetworkFactsOptions,
  known: Omit<NetworkFacts, 'name' | 'chainId'> | null,
): Omit<NetworkFacts, 'name' | 'chainId'> {
  const base = given.explorer === undefined ? (known?.explorer ?? null) : templatesAt(given.explorer)
  const pages = {
    tx: given.explorerTx ?? base?.tx ?? '',
    address: given.explorerAddress ?? base?.address ?? '',
    block: given.explorerBlock ?? base?.block ?? '',
  }
  const symbol = given.symbol ?? known?.symbol ?? ''
  return {
    symbol,
    coin: given.coin ?? known?.coin ?? symbol,
    explorer: Object.values(pages).every((page) => page === '') ? null : pages,
    finality:
      given.finality === undefined
        ? (known?.finality ?? 'finalized')
        : given.finality === 'finalized'
          ? 'finalized'
          : readCount(given.finality),
    blockVerification: own(given.blockVerification, known?.blockVerification ?? null, (text) => text as Verification),
    feeCapGwei: own(given.feeCapGwei, known?.feeCapGwei ?? null, readCount),
    gas: (given.gas as GasChoice | undefined) ?? known?.gas ?? 'self',
    topUpContracts:
      given.topupContract === undefined ? (known?.topUpContracts ?? []) : readContracts(given.topupContract),
    sponsorPerDay: own(given.sponsorPerDay, known?.sponsorPerDay ?? null, (text) => text),
    sponsorLow: own(given.sponsorLow, known?.sponsorLow ?? null, (text) => text),
    backfillFrom: own(given.backfillFrom, known?.backfillFrom ?? null, readCount),
  }
}

export const readCount = (value: string): number => (/^\d{1,15}$/.test(value) ? Number(value) : Number.NaN)

const readContracts = (texts: string[]): Hex[] => (texts.join() === 'none' ? [] : (texts as Hex[]))
const collect = (value: string, before: string[] | undefined): string[] => [...(before ?? []), value]

/** What is given; `default` removes what was set before. */
const own = <T>(value: string | undefined, before: T | null, read: (text: string) => T): T | null =>
  value === undefined ? before : value === 'default' ? null : read(value)
