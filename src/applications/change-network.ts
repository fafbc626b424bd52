import { AppError, type FieldError } from '../errors.ts'
import type { Db, RootDb } from '../store/db.ts'
import { columnsOf, explainNetwork, type NetworkFacts } from './network-facts.ts'
import { readNetworks } from './networks.ts'
import type { NetworkChanges } from './wire.ts'

/** Reads the facts of a network, without its use and its progress. @throws not_found */
export async function readNetwork(db: Db, name: string): Promise<Required<NetworkFacts>> {
  const found = (await readNetworks(db)).find((one) => one.name === name)
  if (found === undefined)
    throw new AppError('not_found', `No network has the name ${name}. Nothing was changed. Check the name.`)
  return found
}

/**
 * Changes the given facts of a network; its name, chain id and nodes cannot be changed. `sponsorPerDay`, `sponsorLow`,
 * `pagesPerUser` and `pagesPerDay` apply immediately, and `backfillFrom` from the next group of accounts on. The others
 * apply in each process after its next start.
 * @throws not_found, invalid_request naming everything that the network cannot be
 */
export async function updateNetwork(db: RootDb, name: string, changes: NetworkChanges): Promise<NetworkFacts> {
  const before = await readNetwork(db, name)
  const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined))
  // Stored facts were accepted before, so only the given ones are checked.
  const problems = explainNetwork({ ...before, ...given }).filter(({ pointer }) => pointer!.slice(1) in given)
  refuseIfAny([...problems, ...untried(before, given)])
  const columns = columnsOf(given)
  if (Object.keys(columns).length > 0)
    await db
      .updateTable('networks')
      .set(columns as never)
      .where('chain_id', '=', before.chainId)
      .execute()
  return readNetwork(db, name)
}

/** Explains changes that must be tested with the nodes before they are stored. */
const untried = ({ gas }: NetworkFacts, given: NetworkChanges): FieldError[] =>
  given.gas === 'sponsor' && gas !== 'sponsor'
    ? [
        {
          pointer: '/gas',
          code: 'invalid',
          detail: 'The gas mode `sponsor` must be tested with the nodes first. Use `chatelaine network add`.',
        },
      ]
    : []

function refuseIfAny(errors: FieldError[]): void {
  if (errors.length > 0)
    throw new AppError('invalid_request', [...new Set(errors.map(({ detail }) => detail))].join(' '), { errors })
}
