import { templatesAt } from '../applications/networks.ts'
import type { NetworkChanges, StoredFacts } from '../applications/wire.ts'
import type { Verification } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { collect, said, type Ways } from './options.ts'
import { wholeIn } from '../digits.ts'

/** Parses a number. NaN is rejected later, together with other problems. */
export const readCount = (text: string): number => wholeIn(text) ?? Number.NaN
/** Reads a value; `default` removes the setting. */
const orDefault =
  <T>(read: (text: string) => T) =>
  (text: string): T | null =>
    text === 'default' ? null : read(text)

/** Reads an amount; `none` removes it. */
const orNone = (text: string): string | null => (text === 'none' ? null : text)

type SaidFacts = { [F in keyof NetworkChanges]-?: StoredFacts[F] }
type Pages = { explorerTx: string; explorerAddress: string; explorerBlock: string }

/** Options of `network add` and `network set` for the facts of a network. */
export const factWays: Ways<SaidFacts & Pages> = {
  symbol: ['--symbol <symbol>', 'manual: symbol of the native currency'],
  coin: ['--coin <name>', 'name of the native currency; default its symbol'],
  explorer: ['--explorer <url>', 'manual: block explorer with /tx/, /address/ and /block/ pages', templatesAt],
  explorerTx: ['--explorer-tx <template>', 'page of a transaction, with {hash}'],
  explorerAddress: ['--explorer-address <template>', 'page of an account, with {address}'],
  explorerBlock: ['--explorer-block <template>', 'page of a block, with {number}'],
  finality: [
    '--finality <blocks>',
    'the tag `finalized`, or a number of blocks; default: finalized',
    (text) => (text === 'finalized' ? text : readCount(text)),
  ],
  blockVerification: [
    '--block-verification <how>',
    '`bloom`, `hash` or `count`; `default`: BLOCK_VERIFICATION',
    orDefault((text) => text as Verification),
  ],
  feeCapGwei: ['--fee-cap-gwei <gwei>', 'maximum fee per gas; `default`: FEE_CAP_GWEI', orDefault(readCount)],
  gas: ['--gas <who>', 'payer of gas: `self` (users), `topup` or `sponsor` (sponsors): docs/operate/gas/overview.md'],
  topUpContracts: [
    '--topup-contract <address>',
    'with `sponsor`: contract that accounts call themselves after a top-up; repeat for several; replaces the list; `none` clears it',
    (text, before) => collect(text, before) as Hex[],
  ],
  sponsorPerDay: [
    '--sponsor-per-day <wei>',
    'maximum that its sponsors spend in 24 hours for all applications, wei; `default`: only application budgets apply',
    orDefault(String),
  ],
  sponsorLow: [
    '--sponsor-low <wei>',
    'balance below which a sponsor is low, wei; `default`: the cost of a hundred top-ups',
    orDefault(String),
  ],
  pagesPerUser: [
    '--pages-per-user <wei>',
    'maximum that its sponsors spend in 24 hours on transfers of one user from the account pages, wei; requires --pages-per-day; `none`: nothing',
    orNone,
  ],
  pagesPerDay: [
    '--pages-per-day <wei>',
    'maximum that its sponsors spend in 24 hours on transfers of all users from the account pages, wei; `none`: nothing',
    orNone,
  ],
  backfillFrom: [
    '--backfill-from <block>',
    'first block of the backfill; `default`: BACKFILL_FROM_BLOCK',
    orDefault(readCount),
  ],
}

/** Reads the facts that were given. @param known  explorer pages that remain if only some are given */
export function saidFacts(given: object, known: StoredFacts['explorer']): NetworkChanges {
  const { explorer, explorerTx, explorerAddress, explorerBlock, topUpContracts, ...changes } = said(factWays, given)
  const isExplorerSaid = [explorer, explorerTx, explorerAddress, explorerBlock].some((page) => page !== undefined)
  const { tx, address, block } = explorer ?? known ?? { tx: '', address: '', block: '' }
  const pages = { tx: explorerTx ?? tx, address: explorerAddress ?? address, block: explorerBlock ?? block }
  return {
    ...changes,
    ...(isExplorerSaid ? { explorer: pages } : {}),
    ...(topUpContracts === undefined ? {} : { topUpContracts: topUpContracts.join() === 'none' ? [] : topUpContracts }),
  }
}
