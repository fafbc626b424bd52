/**
 * signer: the separate program that holds the keys and signs.
 * Owns: the keys, the ledger of signatures with its witness, the rules (`signer/rules/judge.ts`), the signer's own verification of
 *   access tokens and revocations.
 * Does not own: the choice of nonces and fees, broadcasts (`transactions/`). The signer reads neither the server's database nor a
 *   chain.
 * The server imports `signer-wire/` only. Start with README.md beside this file.
 */

import { randomBytes } from 'node:crypto'
import { ConfigError } from '../config.ts'
import { openLog, type Logger } from '../log.ts'
import { anchorOf, assertAnchored } from './tokens/anchor.ts'
import { openApprovals } from './rules/approval.ts'
import { openBulk } from './export/bulk.ts'
import { attest } from './verbs/attest.ts'
import { openBeside } from './beside.ts'
import { createAccount } from './verbs/create.ts'
import { startCurve } from './keys/curve.ts'
import type { Deks } from './keys/deks.ts'
import { openExportChain } from './export/export-chain.ts'
import { openExportRecords } from './export/export-records.ts'
import { openExportTokens } from './export/export-tokens.ts'
import { openExports, type Exports } from './export/exports.ts'
import { assertFreezable, openFreezes } from './tokens/freezes.ts'
import { openGroup } from './group.ts'
import { verifierKeyOf, type Heads } from './ledger/heads.ts'
import { makeKekFile } from './kek/file.ts'
import { openKek } from './kek/open.ts'
import type { Kek } from './kek/provider.ts'
import { openKeyFile } from './tokens/key-file.ts'
import { openKeys } from './keys/keys.ts'
import { checkWitness } from './ledger/ledger.ts'
import { openMeterSeal } from './rules/meter-seal.ts'
import { openMeters } from './rules/meters.ts'
import { openKekOf } from './keys/open-kek.ts'
import { openPolicyInForce, withPolicyFreezes } from './rules/policy-in-force.ts'
import type { Inside } from './verbs/pipeline.ts'
import { prove } from './verbs/prove.ts'
import { recall, recallSince } from './verbs/recall.ts'
import { readFreezeRequest, readGreeting } from './request.ts'
import { LedgerDamaged, Refusal, StartError } from './refusal.ts'
import { openRevocations } from './tokens/revocations.ts'
import { openRotation } from './keys/rotation.ts'
import { ofApi, ofAuth } from './sockets.ts'
import { readSettings, type SignerConfig } from './settings.ts'
import { check, sign } from './verbs/sign.ts'
import { checkMessage, signMessage } from './verbs/sign-message.ts'
import { checkOperation, operationsHealth, signOperation } from './verbs/sign-operation.ts'
import { cancelOuter } from './verbs/cancel-outer.ts'
import { signOuter } from './verbs/sign-outer.ts'
import { ADMIN_VERBS, adminSocketIn, listen, MAX_SOCKET_PATH, type AdminHandlers, type Handlers } from './socket.ts'
import { listSignatures } from './verbs/signatures.ts'
import { tryPolicy } from './verbs/try-policy.ts'
import { openSigningLog } from './ledger/signing-log.ts'
import { isSqliteError, openStore, type Store } from './store.ts'
import { openTokens } from './tokens/tokens.ts'
import { openUnattendedFees } from './rules/unattended.ts'
import { openWithdrawals } from './rules/withdrawals.ts'
import { openWitness, readWitness } from './ledger/witness.ts'
import { wrappedPage } from './verbs/wrapped.ts'
import { systemClock, type Clock } from '../clock.ts'
import { VERSION } from '../version.ts'
import { VERBS, type Verb } from '../signer-wire/wire.ts'

/**
 * Runs the signer: a separate program that holds the keys and answers on a Unix socket. Settings: SIGNER_… and LOG_LEVEL. It is in
 * production mode whatever NODE_ENV says, unless `--development` is given; then it also creates a missing master key file. It
 * prints `ready` when it listens. It ends on SIGTERM and SIGINT. With `--with-parent` it also ends when standard input closes,
 * which happens however the parent dies.
 *
 * A damaged ledger does not end it. It then listens and rejects every verb with `ledger_damaged`, so that the server can tell a
 * damaged ledger from an unavailable signer.
 */
async function main(): Promise<void> {
  const settings = readSettings(process.env, { isDevelopment: process.argv.includes('--development') })
  // Set before any file is made: folder 0700, files 0600, and the socket closed to others until its mode is set.
  process.umask(0o077)
  // A listener replaces Node's own, which would open a debugger to every user of this machine.
  process.on('SIGUSR1', () => {})
  const log = openLog('signer', settings.logLevel)
  const curve = startCurve(randomBytes(32))
  // WebAssembly is slower, and its memory is a buffer of the JavaScript engine, so warn at each start.
  if (curve === 'wasm') log.warn('curve_in_webassembly', { platform: `${process.platform}-${process.arch}` })

  const signer = await openSigner(settings, log)
  const admin = await listenForAdmin(settings, signer.admin, log)
  const { authSocket, socketMode: mode } = settings
  const shared = { mode, log, head: signer.head }
  const auth =
    authSocket === null
      ? null
      : await listen({ path: authSocket, setting: 'SIGNER_AUTH_SOCKET', handlers: ofAuth(signer.handlers), ...shared })
  const handlers = auth === null ? signer.handlers : ofApi(signer.handlers)
  const server = await listen({ path: settings.socket, handlers, ...shared })
  process.stdout.write('ready\n')
  log.info('signer_ready', { isDamaged: signer.isDamaged, curve })

  await stopSignal()
  // A peer that does not read its answers must not hold the store open.
  setTimeout(() => process.exit(1), 5_000).unref()
  await Promise.all([server.close(), auth?.close(), admin?.close()])
  signer.close()
  log.info('signer_stopped')
  process.exit(0)
}

const HOUR_MS = 3_600_000

type RunningSigner = {
  handlers: Handlers
  admin: AdminHandlers
  isDamaged: boolean
  head: () => string
  close: () => void
}

async function openSigner(settings: SignerConfig, log: Logger): Promise<RunningSigner> {
  let store: Store | undefined
  try {
    store = openStore(settings.folder)
    return await openOn(store, settings, log)
  } catch (error) {
    if (!(error instanceof LedgerDamaged) && !isSqliteError(error)) throw error
    const reason = isSqliteError(error) ? 'The store cannot be read.' : error.message
    log.error('ledger_damaged', { reason }, error)
    return { ...refuseAll(reason), isDamaged: true, head: () => '', close: () => store?.close() }
  }
}

async function openOn(store: Store, settings: SignerConfig, log: Logger): Promise<RunningSigner> {
  const { db, witnessPath } = store
  const clock = systemClock
  const now = clock.wall
  const { deks, ledger, heads, identity } = await openSigningLog(db, await openMasterKey(store, settings), now)
  checkWitness(db, ledger.head(), readWitness(witnessPath))
  const keys = openKeys({ db, deks, now })
  const { jwksFile, issuer, audience, limits, maxTokenSeconds, revocationsSeconds: maxAgeSeconds } = settings
  if (!settings.isDevelopment) assertAnchored(settings.folder)
  const tokenKeys = openKeyFile(settings.isDevelopment ? jwksFile! : anchorOf(settings.folder), log, now, clock.ticks)
  const unattended = openUnattendedFees({
    maxWei: limits.maxUnattendedFeeWei,
    earlier: ledger.unattendedSince(now() - HOUR_MS),
    now,
  })
  let witnessed = ledger.head()
  const witness = openWitness(witnessPath, witnessed)

  const meters = openMeters(db, now, openMeterSeal({ db, macs: deks.macs, ledger, log }))
  const group = openGroup({
    db,
    committing() {
      meters.write()
      heads.seal()
    },
    committed() {
      if (ledger.head() === witnessed) return
      witnessed = ledger.head()
      witness.write(witnessed)
    },
    fatal(error) {
      log.error('store_failed', {}, error)
      process.exit(1)
    },
  })
  const rotation = openRotation({ db, keys, group, log, nextKek: nextKekOf(settings) })
  const freezes = openFreezes({ db, group, log, now, onFreeze: (subject) => exports.frozen(subject) })
  const { policyFile, folder, isDevelopment } = settings
  const policy = openPolicyInForce({ clock, db, macs: deks.macs, group, file: policyFile, folder, isDevelopment, log })
  const revocations = openRevocations({ keys: tokenKeys, issuer, maxAgeSeconds, log, freezes })
  const tokens = openTokens({ keys: tokenKeys, revocations, issuer, audience, maxSeconds: maxTokenSeconds })
  const allFreezes = withPolicyFreezes(freezes, policy)
  const exports: Exports = openExports({
    keys,
    ledger,
    group,
    freezes: allFreezes,
    now,
    log,
    delaySeconds: settings.exportDelaySeconds,
    identity,
    records: openExportRecords(db, deks.macs),
    chain: openExportChain({ db, macs: deks.macs, ledger }),
    tokens: openExportTokens({ keys: tokenKeys, revocations, issuer, now }),
  })
  const bulk = openBulk({ keys, ledger, group, freezes: allFreezes, exports, isGiving: settings.isGivingAll, now })
  const withdrawals = openWithdrawals({ keys, limits, log, now })
  const inside: Inside = {
    keys,
    tokens,
    approvals: openApprovals({ keys: tokenKeys, issuer, now }),
    withdrawals,
    ledger,
    group,
    limits,
    unattended,
    now,
    freezes: allFreezes,
    policy,
    meters,
    identity,
    assertUnattended: ledger.isFreshlyRestored ? revocations.assertListed : () => {},
  }
  const masterKey = openMasterKeyState(deks, clock)
  const beside = openBeside()
  const handlers: Handlers = {
    greeting: (request) => {
      const { head } = readGreeting(request)
      if (head !== null && !heads.show(head)) {
        log.error('identity_not_known', { hint: 'chatelaine signing-log' })
        throw new Refusal('ledger_damaged', 'The head from the server belongs to a signer with another key.')
      }
      const reason = heads.behind()
      if (reason !== null) {
        log.error('ledger_damaged', { reason })
        throw damaged(reason)
      }
      return { key: verifierKeyOf(identity) }
    },
    prove: (request) => beside(() => prove({ ledger, heads }, request)),
    createAccount: (request) => createAccount(inside, request),
    signatures: (request) => listSignatures({ ledger, heads, beside }, request),
    tryPolicy: (request) => tryPolicy({ ledger, policy, limits, beside }, request),
    attest: (request) => beside(() => attest(inside, request)),
    sign: (request) => sign(inside, request),
    check: (request) => check(inside, request),
    signOperation: (request) => signOperation(inside, request),
    checkOperation: (request) => checkOperation(inside, request),
    signMessage: (request) => signMessage(inside, request),
    checkMessage: (request) => checkMessage(inside, request),
    signOuter: (request) => signOuter(inside, request),
    cancelOuter: (request) => cancelOuter(inside, request),
    recall: (request) => recall(ledger, request),
    recallSince: (request) => recallSince(ledger, request),
    wrapped: (request) => wrappedPage(keys, request),
    askKey: exports.ask,
    cancelKey: exports.cancel,
    takeKey: exports.take,
    keyExport: exports.stateOf,
    exported: exports.since,
    heldElsewhere: exports.told,
    keyExports: exports.open,
    revocations: (request) => revocations.take(request),
    // Reports the current contents of the files; they are read every second anyway.
    health: async () => ({
      ok: true,
      version: VERSION,
      accounts: keys.count(),
      ledgerEntries: ledger.head().count,
      revocations: await revocations.state(),
      identity: verifierKeyOf(identity),
      chains: limits.chains === null ? null : [...limits.chains],
      tokenKeys: tokenKeys.fingerprints(),
      policy: await policy.look().then(policy.health),
      maxTokenSeconds,
      masterKey: masterKey(),
      operations: operationsHealth(ledger, limits, now),
    }),
  }
  return {
    handlers: guardAll(handlers, heads),
    admin: {
      freeze: async (request) => {
        const { subject } = readFreezeRequest(request)
        assertFreezable(subject, (userId) => keys.ofUser(userId) !== null)
        return freezes.freeze(subject)
      },
      unfreeze: async (request) => freezes.unfreeze(readFreezeRequest(request).subject),
      frozen: () => freezes.list(),
      rotateKek: () => rotation.rotateKek(),
      rotateDek: () => rotation.rotateDek(),
      rotation: () => rotation.state(),
      importRecipient: () => bulk.recipient(),
      importKeys: (request) => bulk.take(request),
      exportKeys: (request) => bulk.give(request),
      grantWithdrawal: withdrawals.grant,
    },
    isDamaged: heads.behind() !== null,
    // A head that the ledger does not continue must not be sent as the newest.
    head: () => (heads.behind() === null ? heads.newest() : ''),
    close() {
      policy.close()
      witness.close()
      store.close()
    },
  }
}

async function openMasterKey({ db }: Store, settings: SignerConfig): Promise<Kek> {
  const { kek, isDevelopment } = settings
  // If the store holds keys, do not create a master key: it would only hide that the right one is missing.
  const isNew = db.prepare('SELECT 1 FROM deks LIMIT 1').get() === undefined
  if (isNew && isDevelopment && kek.provider === 'file') makeKekFile(kek.file)
  return openKekOf(db, settings)
}

/** Rejects everything except greetings and proofs while the ledger does not continue a head that this signer signed. */
function guardAll(handlers: Handlers, heads: Heads): Handlers {
  const guarded = Object.entries(handlers).map(([verb, handle]) => [
    verb,
    (request: unknown) => {
      const reason = heads.behind()
      if (reason !== null && verb !== 'greeting' && verb !== 'prove') throw damaged(reason)
      return handle(request)
    },
  ])
  return Object.fromEntries(guarded) as Handlers
}

const damaged = (reason: string): Refusal =>
  new Refusal('ledger_damaged', `${reason} The signer signs nothing until the store is restored.`)

const PROBE_MS = 60_000

/** Returns the state of the master key for `health`. It starts a new probe at most once a minute and returns the last known result. */
function openMasterKeyState(deks: Deks, { ticks }: Clock): () => ReturnType<Deks['masterKey']> {
  let lookedAt = ticks()
  return () => {
    if (ticks() - lookedAt > PROBE_MS) {
      lookedAt = ticks()
      void deks.probe()
    }
    return deks.masterKey()
  }
}

/** Opens the next master key. A missing file is created; other providers' keys must already exist. */
const nextKekOf = ({ kekNext }: SignerConfig): (() => Promise<Kek>) | null =>
  kekNext === undefined
    ? null
    : async () => {
        if (kekNext.provider === 'file') makeKekFile(kekNext.file)
        return openKek(kekNext)
      }

function refuseAll(reason: string): { handlers: Handlers; admin: AdminHandlers } {
  const refuse = () => {
    throw damaged(reason)
  }
  const refused = <V extends string>(verbs: readonly V[]) =>
    Object.fromEntries(verbs.map((verb) => [verb, refuse])) as Record<V, () => never>
  return { handlers: refused(Object.keys(VERBS) as Verb[]), admin: refused(ADMIN_VERBS) }
}

/**
 * Listens for the signer's own OS user only. If the default path is too long for a socket, it logs a warning and signing works
 * without this socket.
 */
async function listenForAdmin({ adminSocket, folder }: SignerConfig, handlers: AdminHandlers, log: Logger) {
  const path = adminSocket ?? adminSocketIn(folder)
  if (adminSocket === null && Buffer.byteLength(path) > MAX_SOCKET_PATH) {
    log.warn('admin_socket_absent', { hint: 'set SIGNER_ADMIN_SOCKET to a shorter path' })
    return null
  }
  return listen({ path, setting: 'SIGNER_ADMIN_SOCKET', mode: 0o600, handlers, log })
}

function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGTERM', () => resolve())
    process.once('SIGINT', () => resolve())
    if (process.argv.includes('--with-parent')) {
      process.stdin.once('end', () => resolve())
      process.stdin.once('close', () => resolve())
      process.stdin.once('error', () => resolve())
      process.stdin.resume()
    }
  })
}

main().catch((error: unknown) => {
  const cause = error instanceof Error && error.cause instanceof Error ? ` (${error.cause.name})` : ''
  const isExpected = error instanceof ConfigError || error instanceof StartError
  process.stderr.write(isExpected ? `${error.message}${cause}\n` : `The signer failed to start: ${String(error)}\n`)
  process.exit(1)
})
