import { listApplications, readApplication } from '../applications/manage.ts'
import { describeNetworks } from '../applications/networks.ts'
import { readUsage } from '../applications/usage.ts'
import type { ApplicationUsage, ListedNetwork, RegisteredApplication } from '../applications/wire.ts'
import { userInfo } from 'node:os'
import process from 'node:process'
import type { Actor } from '../operator/actions.ts'
import { operatorActs } from '../operator/acts.ts'
import type { Environment } from '../config.ts'
import type { RootDb } from '../store/db.ts'
import { readSealKeys } from './seal-keys.ts'

/** A network. Only a server knows whether it serves it. */
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

/** Operations of the commands, on the database directly or through a server that holds it. */
export type Registry = Pick<ReturnType<typeof operatorActs>, OnApplications> & {
  list(): Promise<RegisteredApplication[]>
  read(clientId: string): Promise<RegisteredApplication>
  usage(clientId: string): Promise<ApplicationUsage>
  networks(): Promise<KnownNetwork[]>
}

const PAGE = 200

/** Returns who runs a command: the OS user and, with sudo, the user who called it. */
export function commandActor({ SUDO_USER }: Environment): Actor {
  const name = osUser()
  return { name: SUDO_USER === undefined ? name : `${SUDO_USER} as ${name}`, via: 'command' }
}

/** Returns the name of the OS user; in a container, a user id may have none. */
function osUser(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`
  }
}

/** Returns the operator actions, recorded as done by a command. */
export const actsOf = (env: Environment, db: RootDb) =>
  operatorActs({ db, readSealKeys: () => readSealKeys(env) }, commandActor(env))

/** Builds the registry that works on a database. */
export const registryIn = (env: Environment, db: RootDb): Registry => ({
  list: () => allPages((after) => listApplications(db, { after, limit: PAGE })),
  read: (clientId) => readApplication(db, clientId),
  usage: (clientId) => readUsage(db, clientId),
  ...actsOf(env, db),
  networks: () => describeNetworks(db),
})

/** Reads all pages of a list, one after another. */
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
