import { listApplications, readApplication } from '../applications/manage.ts'
import { describeNetworks } from '../applications/networks.ts'
import { readUsage } from '../applications/usage.ts'
import type { ApplicationUsage, ListedNetwork, RegisteredApplication } from '../applications/wire.ts'
import { userInfo } from 'node:os'
import type { Actor } from '../operator/actions.ts'
import { operatorActs } from '../operator/acts.ts'
import type { Environment } from '../config.ts'
import type { RootDb } from '../store/db.ts'
import { readSealKeys } from './seal-keys.ts'

/** Whether a server serves it only a server knows. */
export type KnownNetwork = Omit<ListedNetwork, 'isServed'> & Partial<Pick<ListedNetwork, 'isServed'>>

type OnApplications =
  | 'create'
  | 'update'
  | 'rotateSecret'
  | 'resetSecret'
  | 'trustIssuer'
  | 'distrustIssuer'
  | 'suspend'
  | 'resume'

/** What the commands do, with the database in their own hands or through a server that holds it. */
export type Registry = Pick<ReturnType<typeof operatorActs>, OnApplications> & {
  list(): Promise<RegisteredApplication[]>
  read(clientId: string): Promise<RegisteredApplication>
  usage(clientId: string): Promise<ApplicationUsage>
  networks(): Promise<KnownNetwork[]>
}

const PAGE = 200

/** Who runs a command: the user of this machine, and behind sudo the one who asked for it. */
export function commandActor({ SUDO_USER }: Environment): Actor {
  const name = userInfo().username
  return { name: SUDO_USER === undefined ? name : `${SUDO_USER} as ${name}`, via: 'command' }
}

/** What the operator API does, done by a command. */
export const actsOf = (env: Environment, db: RootDb) =>
  operatorActs({ db, readSealKeys: () => readSealKeys(env) }, commandActor(env))

/** The registry in a database. */
export const registryIn = (env: Environment, db: RootDb): Registry => ({
  list: () => allPages((after) => listApplications(db, { after, limit: PAGE })),
  read: (clientId) => readApplication(db, clientId),
  usage: (clientId) => readUsage(db, clientId),
  ...actsOf(env, db),
  networks: () => describeNetworks(db),
})

/** Every page of a list, one after the other. */
export async function allPages(
  page: (after: string) => Promise<RegisteredApplication[]>,
): Promise<RegisteredApplication[]> {
  const all: RegisteredApplication[] = []
  for (;;) {
    const next = await page(all.at(-1)?.clientId ?? '')
    all.push(...next)
    if (next.length < PAGE) return all
  }
}
