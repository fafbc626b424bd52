import type { Selectable } from 'kysely'
import { explainAddress } from '../abi/address.ts'
import { amountIn, checksumAddress, isAddress } from '../digits.ts'
import type { FieldError } from '../errors.ts'
import { isDelegateName, type Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import { textsIn } from '../store/column-values.ts'
import type { Database } from '../store/rows.ts'
import { rowOf } from './columns.ts'
import type { StoredFacts } from './wire.ts'

type Unsaid =
  | 'gasSpace'
  | 'delegate'
  | 'topUpContracts'
  | 'sponsorPerDay'
  | 'sponsorLow'
  | 'pagesPerUser'
  | 'pagesPerDay'
  | 'backfillFrom'
/** The facts of a network that users and programs need; its nodes are separate. */
export type NetworkFacts = { chainId: number; name: string } & Omit<StoredFacts, Unsaid> &
  Partial<Pick<StoredFacts, Unsaid>>

const facts = rowOf<StoredFacts, Selectable<Database['networks']>>({
  symbol: { column: 'symbol' },
  coin: { column: 'coin' },
  explorer: { column: 'explorer', unsaid: null, write: (explorer) => explorer && JSON.stringify(explorer) },
  finality: {
    column: 'finality',
    unsaid: 'finalized',
    write: String,
    read: (stored: string) => (stored === 'finalized' ? stored : Number(stored)),
  },
  blockVerification: { column: 'block_verification', unsaid: null },
  feeCapGwei: { column: 'fee_cap_gwei', unsaid: null },
  gas: {
    column: 'gas',
    unsaid: 'self',
    read: (stored: string) => (stored === 'topup' || stored === 'sponsor' ? stored : 'self'),
  },
  gasSpace: {
    column: 'gas_space',
    unsaid: null,
    write: (space) => space && fromHex(space),
    read: (stored: Uint8Array | null) => stored && checksumAddress(toHex(stored)),
  },
  delegate: { column: 'delegate', unsaid: 'chatelaine' },
  topUpContracts: {
    column: 'top_up_contracts',
    unsaid: [],
    read: (stored) => textsIn(stored) as Hex[],
    // In the form in which targets of writes are compared: lower case, each once.
    write: (contracts) =>
      contracts.length === 0 ? null : JSON.stringify([...new Set(contracts.map((one) => one.toLowerCase()))]),
  },
  sponsorPerDay: { column: 'sponsor_per_day', unsaid: null },
  sponsorLow: { column: 'sponsor_low', unsaid: null },
  pagesPerUser: { column: 'pages_per_user', unsaid: null },
  pagesPerDay: { column: 'pages_per_day', unsaid: null },
  // No default: opening a network does not set it, so a value that an operator set remains.
  backfillFrom: { column: 'backfill_from' },
})
export const { columnsOf, fieldsIn: factsIn } = facts
/** Default facts of a network. */
export const unsaid = facts.unsaid as Omit<StoredFacts, 'symbol' | 'coin' | 'backfillFrom'>

/** Maximum length of `topUpContracts`: a person maintains the list, as that of a budget. */
const MAX_CONTRACTS = 1_000

/** Returns everything that is wrong with the facts of a network, each with its field. */
export function explainNetwork(network: NetworkFacts): FieldError[] {
  const { chainId, name, symbol, coin, explorer, finality, blockVerification, feeCapGwei, gas } = network
  const {
    gasSpace,
    delegate,
    topUpContracts,
    sponsorPerDay,
    sponsorLow,
    pagesPerUser,
    pagesPerDay,
    backfillFrom = null,
  } = { ...unsaid, ...network }
  const problems: FieldError[] = []
  const refuse = (field: keyof NetworkFacts, detail: string) =>
    problems.push({ pointer: `/${field}`, code: 'invalid', detail })
  if (!/^[a-z0-9][a-z0-9-]{0,31}$/.test(name))
    refuse('name', 'The name must be lower-case letters, digits and hyphens, at most 32.')
  if (!Number.isSafeInteger(chainId) || chainId < 1) refuse('chainId', 'The chain id must be a whole number above 0.')
  if (!/^[^\p{C}\s]{1,16}$/u.test(symbol)) refuse('symbol', 'The symbol must have 1 to 16 characters without spaces.')
  if (!/^[^\p{C}]{1,64}$/u.test(coin)) refuse('coin', 'The name of the native currency must have 1 to 64 characters.')
  if (finality !== 'finalized' && !(Number.isInteger(finality) && finality >= 0 && finality <= 9_999))
    refuse('finality', 'The finality must be `finalized` or a number of blocks up to 9999.')
  if (blockVerification !== null && !['hash', 'bloom', 'count'].includes(blockVerification))
    refuse('blockVerification', 'The block verification must be `hash`, `bloom` or `count`.')
  if (feeCapGwei !== null && !(Number.isSafeInteger(feeCapGwei) && feeCapGwei >= 1))
    refuse('feeCapGwei', 'The fee cap must be a whole number of gwei above 0.')
  if (!['self', 'topup', 'sponsor'].includes(gas)) refuse('gas', 'The gas mode must be `self`, `topup` or `sponsor`.')
  if (!isDelegateName(delegate)) refuse('delegate', 'The delegate must be `chatelaine` or `calibur`.')
  if (gasSpace !== null && !isAddress(gasSpace))
    refuse('gasSpace', 'The gas space must be the address of the key that `network deploy-gas` used.')
  else if (gas === 'sponsor' && gasSpace === null)
    refuse('gas', 'The gas mode `sponsor` needs a gas space: the address of the key that `network deploy-gas` used.')
  if (topUpContracts.length > MAX_CONTRACTS)
    refuse('topUpContracts', `The contracts with user-paid writes must be at most ${MAX_CONTRACTS}.`)
  else
    for (const contract of topUpContracts) {
      const problem = explainAddress(contract)
      if (problem !== null) refuse('topUpContracts', `The contract ${contract.slice(0, 64)} ${problem.detail}.`)
    }
  for (const [field, what, wei] of [
    ['sponsorPerDay', 'What its sponsors may spend in a day', sponsorPerDay],
    ['sponsorLow', 'The balance below which a sponsor counts as low', sponsorLow],
    ['pagesPerUser', 'The gas budget of a user of the account pages', pagesPerUser],
    ['pagesPerDay', 'The gas budget of the account pages', pagesPerDay],
  ] as const)
    if (wei !== null && amountIn(wei) === null)
      refuse(field, `${what} must be wei: decimal digits of a number below 2^256.`)
  // A change gives one of them at least, and its error names that one.
  if ((pagesPerUser === null) !== (pagesPerDay === null))
    for (const field of ['pagesPerUser', 'pagesPerDay'] as const)
      refuse(field, 'The gas budget of the account pages needs both amounts: per user, and for all users.')
  if (backfillFrom !== null && !(Number.isSafeInteger(backfillFrom) && backfillFrom >= 0))
    refuse('backfillFrom', 'The first block to index must be a whole number, 0 or greater.')
  for (const [page, value] of [
    ['tx', '{hash}'],
    ['address', '{address}'],
    ['block', '{number}'],
  ] as const) {
    const template = explorer?.[page]
    if (template === undefined) continue
    if (!/^https?:\/\//.test(template) || !URL.canParse(template))
      refuse('explorer', `The explorer’s ${page} page must be an http or https address.`)
    else if (!template.includes(value))
      refuse(
        'explorer',
        `The URL of the explorer’s ${page} page must contain ${value} as the placeholder of the value.`,
      )
  }
  return problems
}
