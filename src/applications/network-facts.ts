import type { Selectable } from 'kysely'
import { checksumAddress, explainAddress } from '../abi/address.ts'
import type { FieldError } from '../errors.ts'
import { isDelegateName, type Hex } from '../ids.ts'
import { fromHex, toHex } from '../store/bytes.ts'
import { textsIn } from '../store/column-values.ts'
import type { Database } from '../store/rows.ts'
import type { StoredFacts } from './wire.ts'

type Unsaid = 'gasSpace' | 'delegate' | 'topUpContracts' | 'sponsorPerDay' | 'sponsorLow' | 'backfillFrom'
/** What people and programs have to know of a network, but for its nodes. */
export type NetworkFacts = { chainId: number; name: string } & Omit<StoredFacts, Unsaid> &
  Partial<Pick<StoredFacts, Unsaid>>
type StoredNetwork = Selectable<Database['networks']>

type Fact<T> = {
  column: keyof StoredNetwork
  /** what it is unless said; none: it has to be said, or stays as it is */
  unsaid?: T
  write?: (value: T) => unknown
  read?: (stored: never) => T
  /** what is wrong with it, a sentence each */
  explain: (value: T, all: NetworkFacts) => string[]
}

/** whose writes accounts send themselves: a list that a person keeps, as that of a budget */
const MAX_CONTRACTS = 1_000

const must =
  <T>(is: (value: T) => boolean, otherwise: string) =>
  (value: T): string[] =>
    is(value) ? [] : [otherwise]
const isOneOf =
  (...words: string[]) =>
  (word: string): boolean =>
    words.includes(word)
const mustBeWei = (what: string) =>
  must<string | null>(
    (wei) => wei === null || (/^\d{1,78}$/.test(wei) && BigInt(wei) < 2n ** 256n),
    `${what} must be wei: decimal digits of a number below 2^256.`,
  )

/** Of each fact its column, what it is unless said, and what it cannot be; what a fact is: wire.ts. */
const facts: { [F in keyof StoredFacts]: Fact<StoredFacts[F]> } = {
  symbol: {
    column: 'symbol',
    explain: must(
      (text) => /^[^\p{C}\s]{1,16}$/u.test(text),
      'The symbol must have 1 to 16 characters without spaces.',
    ),
  },
  coin: {
    column: 'coin',
    explain: must(
      (text) => /^[^\p{C}]{1,64}$/u.test(text),
      'The name of the native currency must have 1 to 64 characters.',
    ),
  },
  explorer: {
    column: 'explorer',
    unsaid: null,
    write: (explorer) => explorer && JSON.stringify(explorer),
    explain: explainExplorer,
  },
  finality: {
    column: 'finality',
    unsaid: 'finalized',
    write: String,
    read: (stored: string) => (stored === 'finalized' ? stored : Number(stored)),
    explain: must(
      (blocks) => blocks === 'finalized' || (Number.isInteger(blocks) && blocks >= 0 && blocks <= 9_999),
      'The finality must be `finalized` or a number of blocks up to 9999.',
    ),
  },
  blockVerification: {
    column: 'block_verification',
    unsaid: null,
    explain: must(
      (how) => how === null || isOneOf('hash', 'bloom', 'count')(how),
      'The block verification must be `hash`, `bloom` or `count`.',
    ),
  },
  feeCapGwei: {
    column: 'fee_cap_gwei',
    unsaid: null,
    explain: must(
      (gwei) => gwei === null || (Number.isSafeInteger(gwei) && gwei >= 1),
      'The fee cap must be a whole number of gwei above 0.',
    ),
  },
  gas: {
    column: 'gas',
    unsaid: 'self',
    read: (stored: string) => (stored === 'topup' || stored === 'sponsor' ? stored : 'self'),
    explain: (gas, { gasSpace = null }) => [
      ...must(isOneOf('self', 'topup', 'sponsor'), 'The gas must be `self`, `topup` or `sponsor`.')(gas),
      ...(gas === 'sponsor' && gasSpace === null
        ? ['The gas `sponsor` needs a gas space: the address of the key that `network deploy-gas` was given.']
        : []),
    ],
  },
  gasSpace: {
    column: 'gas_space',
    unsaid: null,
    write: (space) => space && fromHex(space),
    read: (stored: Uint8Array | null) => stored && checksumAddress(toHex(stored)),
    explain: must(
      (space) => space === null || /^0x[0-9a-fA-F]{40}$/.test(space),
      'The gas space must be an address: of the key that `network deploy-gas` was given.',
    ),
  },
  delegate: {
    column: 'delegate',
    unsaid: 'chatelaine',
    explain: must(isDelegateName, 'The delegate must be `chatelaine` or `calibur`.'),
  },
  topUpContracts: {
    column: 'top_up_contracts',
    unsaid: [],
    // As targets of writes are compared: lower case, each once.
    write: (contracts) =>
      contracts.length === 0 ? null : JSON.stringify([...new Set(contracts.map((one) => one.toLowerCase()))]),
    read: (stored) => textsIn(stored) as Hex[],
    explain: (contracts) =>
      contracts.length > MAX_CONTRACTS
        ? [`The contracts whose writes accounts send themselves must be at most ${MAX_CONTRACTS}.`]
        : contracts.flatMap((contract) => {
            const problem = explainAddress(contract)
            return problem === null ? [] : [`The contract ${contract.slice(0, 64)} ${problem.detail}.`]
          }),
  },
  sponsorPerDay: {
    column: 'sponsor_per_day',
    unsaid: null,
    explain: mustBeWei('What its sponsors may spend in a day'),
  },
  sponsorLow: {
    column: 'sponsor_low',
    unsaid: null,
    explain: mustBeWei('The balance below which a sponsor counts as low'),
  },
  // Who opens a network says nothing of it: what an operator set meanwhile stays.
  backfillFrom: {
    column: 'backfill_from',
    explain: must(
      (block) => block === null || (Number.isSafeInteger(block) && block >= 0),
      'The first block to look up must be a whole number from 0 on.',
    ),
  },
}
const everyFact = Object.entries(facts) as [keyof StoredFacts, Fact<unknown>][]

/** What a network is unless said. */
export const unsaid = Object.fromEntries(
  everyFact.flatMap(([field, fact]) => (fact.unsaid === undefined ? [] : [[field, fact.unsaid]])),
) as Omit<StoredFacts, 'symbol' | 'coin' | 'backfillFrom'>

/** Columns of what is said, and of nothing else. */
export const columnsOf = (said: Partial<StoredFacts>): Record<string, unknown> =>
  Object.fromEntries(
    everyFact.flatMap(([field, { column, write = same }]) =>
      said[field] === undefined ? [] : [[column, write(said[field])]],
    ),
  )

/** The facts in a row. */
export const factsIn = (row: StoredNetwork): StoredFacts =>
  Object.fromEntries(
    everyFact.map(([field, { column, read = same }]) => [field, read(row[column] as never)]),
  ) as StoredFacts

/** Everything wrong with what someone says of a network, each with its place. */
export function explainNetwork(network: NetworkFacts): FieldError[] {
  const { name, chainId } = network
  const problems: [field: string, sentences: string[]][] = [
    [
      'name',
      must(
        () => /^[a-z0-9][a-z0-9-]{0,31}$/.test(name),
        'The name must be lower-case letters, digits and hyphens, at most 32.',
      )(name),
    ],
    [
      'chainId',
      must(
        () => Number.isSafeInteger(chainId) && chainId >= 1,
        'The chain id must be a whole number above 0.',
      )(chainId),
    ],
    ...everyFact.map(([field, { explain }]): [string, string[]] => [
      field,
      network[field] === undefined ? [] : explain(network[field], network),
    ]),
  ]
  return problems.flatMap(([field, sentences]) =>
    sentences.map((detail) => ({ pointer: `/${field}`, code: 'invalid', detail })),
  )
}

function explainExplorer(explorer: StoredFacts['explorer']): string[] {
  const values = { tx: '{hash}', address: '{address}', block: '{number}' } as const
  return Object.entries(values).flatMap(([page, value]) => {
    const template = explorer?.[page as keyof typeof values]
    if (template === undefined) return []
    if (!/^https?:\/\//.test(template) || !URL.canParse(template))
      return [`The explorer’s ${page} page must be an http or https address.`]
    return template.includes(value) ? [] : [`The explorer’s ${page} page must have ${value} where the value goes.`]
  })
}

const same = (value: unknown): unknown => value
