import { AppError, type FieldError } from '../errors.ts'
import { retrying, type Db, type RootDb } from '../store/db.ts'
import { columnsOf, explainNetwork, listNetworks, type NetworkFacts } from './networks.ts'
import type { NetworkChanges } from './wire.ts'

/** What is kept of a network by its name, but for how it is used and read. @throws not_found */
export async function readNetwork(db: Db, name: string): Promise<NetworkFacts> {
  const found = (await listNetworks(db)).find((one) => one.name === name)
  if (found === undefined) throw new AppError('not_found', `There is no network ${name}.`)
  const {
    applications: _,
    readFrom: __,
    native: ______,
    backfill: ___,
    backfillProgress: _______,
    sponsors: ____,
    sponsorSpent: _____,
    ...facts
  } = found
  return facts
}

/**
 * Changes what is named of a network and leaves the rest; its name, chain id and nodes are not changed so. Every process has its networks
 * open as they were at its start, but for what sponsors may spend and when one is low.
 * @throws not_found, invalid_request naming everything that the network cannot be
 */
export async function updateNetwork(db: RootDb, name: string, changes: NetworkChanges): Promise<NetworkFacts> {
  const before = await readNetwork(db, name)
  const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined))
  refuseIfAny([...problemsOf(before, given), ...untried(before, given)])
  const columns = columnsOf({ ...before, ...given })
  const changed = Object.entries(columns).filter(([column]) => given[fieldOf(column)] !== undefined)
  if (changed.length > 0)
    await retrying(() =>
      db.updateTable('networks').set(Object.fromEntries(changed)).where('chain_id', '=', before.chainId).execute(),
    )
  return readNetwork(db, name)
}

/** Of each change by itself, so that every problem has its place. What is there already was accepted once. */
function problemsOf(before: NetworkFacts, given: Record<string, unknown>): FieldError[] {
  const known = explainNetwork(before)
  return Object.entries(given).flatMap(([field, value]) =>
    explainNetwork({ ...before, [field]: value } as NetworkFacts)
      .filter((detail) => !known.includes(detail))
      .map((detail) => ({ pointer: `/${field}`, code: 'invalid', detail })),
  )
}

/** What has to be tried with its nodes, and accepted as it is, before it is kept. */
const untried = ({ gas }: NetworkFacts, given: Record<string, unknown>): FieldError[] =>
  given.gas === 'sponsor' && gas !== 'sponsor'
    ? [
        {
          pointer: '/gas',
          code: 'invalid',
          detail: 'The gas `sponsor` is tried with the nodes before it is kept: use `chatelaine network add`.',
        },
      ]
    : []

function refuseIfAny(errors: FieldError[]): void {
  if (errors.length > 0) throw new AppError('invalid_request', errors.map(({ detail }) => detail).join(' '), { errors })
}

const fieldOf = (column: string): string => column.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
