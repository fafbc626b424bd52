import { distrustIssuer, trustIssuer, type IssuerDraft } from '../applications/issuers.ts'
import {
  createApplication,
  listApplications,
  readApplication,
  resetSecret,
  resumeApplication,
  rotateSecret,
  suspendApplication,
  updateApplication,
  type Changes,
  type Draft,
  type Registered,
} from '../applications/manage.ts'
import { listNetworks, type ListedNetwork } from '../applications/networks.ts'
import type { RootDb } from '../store/db.ts'

/** What the commands do, with the database in their own hands or through a server that holds it. */
export type Registry = {
  list(): Promise<Registered[]>
  read(clientId: string): Promise<Registered>
  create(draft: Draft): Promise<{ application: Registered; secret: string | null }>
  update(clientId: string, changes: Changes): Promise<Registered>
  rotateSecret(clientId: string): Promise<{ application: Registered; secret: string }>
  resetSecret(clientId: string): Promise<{ application: Registered; secret: string }>
  trustIssuer(clientId: string, provider: string, draft: IssuerDraft): Promise<Registered>
  distrustIssuer(clientId: string, provider: string): Promise<Registered>
  suspend(clientId: string): Promise<Registered>
  resume(clientId: string): Promise<Registered>
  networks(): Promise<(ListedNetwork & { isServed?: boolean })[]>
}

const PAGE = 200

/** The registry in a database. */
export const registryIn = (db: RootDb): Registry => ({
  list: () => allPages((after) => listApplications(db, { after, limit: PAGE })),
  read: (clientId) => readApplication(db, clientId),
  create: (draft) => createApplication(db, draft),
  update: (clientId, changes) => updateApplication(db, clientId, changes),
  rotateSecret: (clientId) => rotateSecret(db, clientId),
  resetSecret: (clientId) => resetSecret(db, clientId),
  trustIssuer: (clientId, provider, draft) => trustIssuer(db, clientId, provider, draft),
  distrustIssuer: (clientId, provider) => distrustIssuer(db, clientId, provider),
  suspend: (clientId) => suspendApplication(db, clientId),
  resume: (clientId) => resumeApplication(db, clientId),
  networks: () => listNetworks(db),
})

/** Every page of a list, one after the other. */
export async function allPages(page: (after: string) => Promise<Registered[]>): Promise<Registered[]> {
  const all: Registered[] = []
  for (;;) {
    const next = await page(all.at(-1)?.clientId ?? '')
    all.push(...next)
    if (next.length < PAGE) return all
  }
}
