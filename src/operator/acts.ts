import { checksumAddress } from '../digits.ts'
import type { ApplicationWriter } from '../applications/authentic.ts'
import { readNetwork, updateNetwork } from '../applications/change-network.ts'
import { distrustIssuer, trustIssuer, type IssuerDraft } from '../applications/issuers.ts'
import {
  createApplication,
  readApplication,
  resetSecret,
  resumeApplication,
  rotateSecret,
  suspendApplication,
  updateApplication,
  type Changes,
  type Draft,
} from '../applications/manage.ts'
import type { NetworkFacts } from '../applications/network-facts.ts'
import type { NetworkChanges } from '../applications/wire.ts'
import type { AddressProver } from '../http/proven-address.ts'
import { AppError } from '../errors.ts'
import type { UserId } from '../ids.ts'
import { freezeAndSignOut, signOut, type End } from '../oauth/sign-out.ts'
import type { SignedOut } from '../oauth/wire.ts'
import type { Db, RootDb } from '../store/db.ts'
import type { SealKeys } from '../store/seal.ts'
import { createSponsor, findSponsoredChain } from '../sponsors/create.ts'
import type { MadeSponsor, NewSponsor } from '../sponsors/wire.ts'
import { askToChange, readChange, type TransactionChange } from '../transactions/recovery/requested-changes.ts'
import { askToResume } from '../transactions/recovery/resume.ts'
import { askToWithdraw, readWithdrawal } from '../transactions/sponsors/withdraw.ts'
import type { NewWithdrawal, Withdrawal } from '../transactions/sponsors/withdrawal-wire.ts'
import type { StoppedLane } from '../transactions/lane-wire.ts'
import type { Signer } from '../signer-wire/client.ts'
import { cancelExport } from '../users/exported.ts'
import { freezeAccount, readFreezable, unfreezeAccount } from '../users/freeze.ts'
import type { ExportState, FreezeState } from '../users/wire.ts'
import { recorded, type Actor } from './actions.ts'
import { assertMayLockOut } from './lock-out.ts'
import { dropOperator, holdOwner, operatorState, putOperator, type ConsoleRole } from './operators.ts'

/**
 * Opens the changes that an operator can make, by the API or by a command. Each is recorded in `operator_actions`.
 * @param readSealKeys  returns the keys that seal applications
 * @param onChanged  called with each changed application: this process may have cached it
 */
export function operatorActs(
  { db: root, readSealKeys }: { db: RootDb; readSealKeys: () => Promise<SealKeys> },
  by: Actor,
  onChanged: (clientId: string) => void = () => {},
) {
  const onApplication = async <T>(
    action: string,
    clientId: string,
    work: (app: ApplicationWriter) => Promise<T>,
  ): Promise<T> => {
    const sealKeys = await readSealKeys()
    const on = { action, target: clientId, look: application }
    const done = await recorded(root, by, on, (db) => work({ db, sealKeys }))
    onChanged(clientId)
    return done
  }
  /** The command line and the operator API may change any role: they can add an owner again. */
  const onOperator = async <T>(action: string, target: UserId, work: (db: RootDb) => Promise<T>): Promise<T> =>
    recorded(root, by, { action, target, look: operatorState }, async (db) => {
      if (by.via === 'console') await holdOwner(db, { owner: by.name, target })
      return work(db)
    })
  const ofUser = (action: string, userId: UserId) => ({ action, target: userId, look: account })
  /** No role locks out a higher one. */
  const onLockOut = async <T>(action: string, userId: UserId, work: (db: RootDb) => Promise<T>): Promise<T> =>
    recorded(root, by, ofUser(action, userId), async (db) => {
      await assertMayLockOut(db, readSealKeys, { by, userId })
      return work(db)
    })
  return {
    create: async (draft: Draft) => {
      const sealKeys = await readSealKeys()
      return recorded<Awaited<ReturnType<typeof createApplication>>>(
        root,
        by,
        { action: 'create-application', target: (made) => made.application.clientId, look: application },
        (db) => createApplication({ db, sealKeys }, draft),
      )
    },
    update: (clientId: string, changes: Changes) =>
      onApplication('update-application', clientId, (app) => updateApplication(app, clientId, changes)),
    rotateSecret: (clientId: string) => onApplication('rotate-secret', clientId, (app) => rotateSecret(app, clientId)),
    resetSecret: (clientId: string) => onApplication('reset-secret', clientId, (app) => resetSecret(app, clientId)),
    suspend: (clientId: string) => onApplication('suspend', clientId, (app) => suspendApplication(app, clientId)),
    resume: (clientId: string) => onApplication('resume', clientId, (app) => resumeApplication(app, clientId)),
    trustIssuer: (clientId: string, provider: string, draft: IssuerDraft) =>
      onApplication('trust-issuer', clientId, (app) =>
        trustIssuer(app, clientId, provider, draft, { by: by.via === 'command' ? 'command' : 'api' }),
      ),
    distrustIssuer: (clientId: string, provider: string) =>
      onApplication('distrust-issuer', clientId, (app) => distrustIssuer(app, clientId, provider)),
    freeze: (userId: UserId, end: End): Promise<FreezeState> =>
      freezeAndSignOut(root, end, userId, () => onLockOut('freeze', userId, (db) => freezeAccount(db, userId))),
    resumeAccount: (userId: UserId): Promise<StoppedLane[]> =>
      recorded(root, by, { action: 'resume-account', target: userId }, (db) => askToResume(db, userId)),
    cancelExport: (signer: Signer, userId: UserId): Promise<ExportState> =>
      recorded(root, by, { action: 'cancel-export', target: userId }, (db) => cancelExport({ db, signer }, userId)),
    changeTransaction: (id: string, change: TransactionChange['change']): Promise<TransactionChange> =>
      recorded(root, by, { action: `${change}-transaction`, target: id, look: readChange }, (db) =>
        askToChange(db, { id, change }),
      ),
    unfreeze: (userId: UserId): Promise<FreezeState> =>
      recorded(root, by, ofUser('unfreeze', userId), (db) => unfreezeAccount(db, userId)),
    updateNetwork: (name: string, changes: NetworkChanges): Promise<NetworkFacts> =>
      recorded(root, by, { action: 'set-network', target: name, look: networkFacts }, (db) =>
        updateNetwork(db, name, changes),
      ),
    createSponsor: async (app: Omit<AddressProver, 'db'>, { name, network }: NewSponsor): Promise<MadeSponsor> => {
      const chainId = await findSponsoredChain(root, network)
      const made = await recorded(root, by, { action: 'create-sponsor', target: `${name} on ${network}` }, (db) =>
        createSponsor({ ...app, db }, { name, chainId }),
      )
      return { name, network, chainId, address: checksumAddress(made.address) }
    },
    withdraw: (sponsor: string, asked: NewWithdrawal): Promise<Withdrawal> =>
      recorded(
        root,
        by,
        {
          action: 'withdraw',
          target: `${sponsor} on ${asked.network}`,
          look: () => (db) => readWithdrawal(db, asked.grant),
        },
        (db) => askToWithdraw(db, sponsor, asked),
      ),
    addOperator: async (userId: UserId, role: ConsoleRole) => {
      const sealKeys = await readSealKeys()
      return onOperator('add-operator', userId, (db) => putOperator({ db, sealKeys }, { userId, role }))
    },
    removeOperator: (userId: UserId) => onOperator('remove-operator', userId, (db) => dropOperator(db, userId)),
    /** Recorded before it begins: it has many steps, and its actor must be known even if it fails half-way. */
    signOut: async (userId: UserId, end: End): Promise<SignedOut> => {
      await onLockOut('sign-out', userId, (db) => readFreezable(db, userId))
      return signOut(root, end, userId)
    },
  }
}

const application = (clientId: string) => async (db: Db) => {
  const { issuers, ...rest } = await readApplication(db, clientId)
  return { ...rest, issuers: issuers.map(({ provider, issuer, audience }) => ({ provider, issuer, audience })) }
}

/** Reads the facts of a network, without its use and its progress; null if there is none. */
export const networkFacts = (name: string) => async (db: Db) => {
  try {
    return await readNetwork(db, name)
  } catch (error) {
    if (error instanceof AppError && error.code === 'not_found') return null
    throw error
  }
}

const account = (userId: string) => async (db: Db) => readFreezable(db as RootDb, userId as UserId)
