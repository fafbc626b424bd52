import { templatesAt } from '../applications/networks.ts'
import type { NetworkChanges, StoredFacts } from '../applications/wire.ts'
import type { Verification } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { collect, said, type Ways } from './options.ts'

/** NaN where a number was expected: that is refused with the rest. */
export const readCount = (text: string): number => (/^\d{1,15}$/.test(text) ? Number(text) : Number.NaN)
/** `default` removes what was set before. */
const orDefault =
  <T>(read: (text: string) => T) =>
  (text: string): T | null =>
    text === 'default' ? null : read(text)

/** How `network add` and `network set` say what is known of a network. */
export const factWays: Ways<{ [F in keyof NetworkChanges]-?: StoredFacts[F] }> = {
  symbol: [['--symbol <symbol>', 'manual: symbol of the native currency']],
  coin: [['--coin <name>', 'name of the native currency; default its symbol']],
  explorer: [
    ['--explorer <url>', 'manual: block explorer with /tx/, /address/ and /block/ pages', templatesAt],
    ['--explorer-tx <template>', 'page of a transaction, with {hash}'],
    ['--explorer-address <template>', 'page of an account, with {address}'],
    ['--explorer-block <template>', 'page of a block, with {number}'],
  ],
  finality: [
    [
      '--finality <blocks>',
      '`finalized`, the node’s tag, or a number of blocks; default finalized',
      (text) => (text === 'finalized' ? text : readCount(text)),
    ],
  ],
  blockVerification: [
    [
      '--block-verification <how>',
      '`hash`, `bloom`, `count`, or `default`, which is the setting BLOCK_VERIFICATION',
      orDefault((text) => text as Verification),
    ],
  ],
  feeCapGwei: [
    [
      '--fee-cap-gwei <gwei>',
      'highest fee per gas ever signed, or `default`, which is the setting FEE_CAP_GWEI',
      orDefault(readCount),
    ],
  ],
  gas: [
    [
      '--gas <who>',
      'who pays for gas: `self`, people do; `topup`, a sponsor sends them what their write needs; `sponsor`, one sends what they sign',
    ],
  ],
  topUpContracts: [
    [
      '--topup-contract <address>',
      'with `sponsor`: accounts send writes to it themselves, and a sponsor sends them what those need; repeat for several, in place of those before; `none`: no contract',
      (text, before) => collect(text, before) as Hex[],
    ],
  ],
  sponsorPerDay: [
    [
      '--sponsor-per-day <wei>',
      'what its sponsors may spend in 24 hours for all applications, or `default`: as much as those may',
      orDefault(String),
    ],
  ],
  sponsorLow: [
    [
      '--sponsor-low <wei>',
      'balance below which a sponsor counts as low, or `default`: what a hundred top-ups cost',
      orDefault(String),
    ],
  ],
  backfillFrom: [
    [
      '--backfill-from <block>',
      'first block whose transfers are looked up by itself, or `default`, which is the setting BACKFILL_FROM_BLOCK',
      orDefault(readCount),
    ],
  ],
}

type Explorer = StoredFacts['explorer']
export type ExplorerOptions = {
  explorer?: Explorer
  explorerTx?: string
  explorerAddress?: string
  explorerBlock?: string
}

/** What is said of a network, and nothing else. @param known  the pages that stay where only some are said */
export function saidFacts(given: ExplorerOptions, known: Explorer): NetworkChanges {
  const { explorer, topUpContracts, ...changes } = said(factWays, given)
  const base = given.explorer ?? known
  const pages = {
    tx: given.explorerTx ?? base?.tx ?? '',
    address: given.explorerAddress ?? base?.address ?? '',
    block: given.explorerBlock ?? base?.block ?? '',
  }
  return {
    ...changes,
    ...(explorer === undefined ? {} : { explorer: pages }),
    ...(topUpContracts === undefined ? {} : { topUpContracts: topUpContracts.join() === 'none' ? [] : topUpContracts }),
  }
}
