import { templatesAt } from '../applications/networks.ts'
import type { NetworkChanges, StoredFacts } from '../applications/wire.ts'
import type { Verification } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { collect, said, type Ways } from './options.ts'
import { wholeIn } from '../digits.ts'

/** NaN where a number was expected: that is refused with the rest. */
export const readCount = (text: string): number => wholeIn(text) ?? Number.NaN
/** `default` removes what was set before. */
const orDefault =
  <T>(read: (text: string) => T) =>
  (text: string): T | null =>
    text === 'default' ? null : read(text)

type SaidFacts = { [F in keyof NetworkChanges]-?: StoredFacts[F] }
type Pages = { explorerTx: string; explorerAddress: string; explorerBlock: string }

/** How `network add` and `network set` say what is known of a network. */
export const factWays: Ways<SaidFacts & Pages> = {
  symbol: ['--symbol <symbol>', 'manual: symbol of the native currency'],
  coin: ['--coin <name>', 'name of the native currency; default its symbol'],
  explorer: ['--explorer <url>', 'manual: block explorer with /tx/, /address/ and /block/ pages', templatesAt],
  explorerTx: ['--explorer-tx <template>', 'page of a transaction, with {hash}'],
  explorerAddress: ['--explorer-address <template>', 'page of an account, with {address}'],
  explorerBlock: ['--explorer-block <template>', 'page of a block, with {number}'],
  finality: [
    '--finality <blocks>',
    '`finalized`, the node’s tag, or a number of blocks; default finalized',
    (text) => (text === 'finalized' ? text : readCount(text)),
  ],
  blockVerification: [
    '--block-verification <how>',
    '`hash`, `bloom`, `count`, or `default`, which is the setting BLOCK_VERIFICATION',
    orDefault((text) => text as Verification),
  ],
  feeCapGwei: [
    '--fee-cap-gwei <gwei>',
    'highest fee per gas ever signed, or `default`, which is the setting FEE_CAP_GWEI',
    orDefault(readCount),
  ],
  gas: [
    '--gas <who>',
    'who pays for gas: `self`, people do; `topup`, a sponsor sends them what their write needs; `sponsor`, one sends what they sign',
  ],
  topUpContracts: [
    '--topup-contract <address>',
    'with `sponsor`: accounts send writes to it themselves, and a sponsor sends them what those need; repeat for several, in place of those before; `none`: no contract',
    (text, before) => collect(text, before) as Hex[],
  ],
  sponsorPerDay: [
    '--sponsor-per-day <wei>',
    'what its sponsors may spend in 24 hours for all applications, or `default`: as much as those may',
    orDefault(String),
  ],
  sponsorLow: [
    '--sponsor-low <wei>',
    'balance below which a sponsor counts as low, or `default`: what a hundred top-ups cost',
    orDefault(String),
  ],
  backfillFrom: [
    '--backfill-from <block>',
    'first block whose transfers are looked up by itself, or `default`, which is the setting BACKFILL_FROM_BLOCK',
    orDefault(readCount),
  ],
}

/** What is said of a network, and nothing else. @param known  the pages that stay where only some are said */
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
