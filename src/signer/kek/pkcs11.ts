import { hash, randomBytes } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type * as Library from 'pkcs11js'
import { KekUnavailable, NotItsOwn, type Kek, type KekSetting } from './provider.ts'
import type { Pkcs11Uri } from './pkcs11-uri.ts'
import { readSecret } from './secret.ts'
import { systemClock, type Timer } from '../../clock.ts'

type Pkcs11 = Library.PKCS11
type Session = { session: Library.Handle; key: Library.Handle }

/** CKS_RO_USER_FUNCTIONS */
const LOGGED_IN = 1
const IV_BYTES = 12
const TAG_BYTES = 16
/** A token that takes longer counts as not answering. */
const ANSWER_MS = 10_000

/** A module is initialised once per process, for all its users. */
const modules = new Map<string, Pkcs11>()

/**
 * Opens an AES-256 key in a token, by PKCS#11. The key cannot leave the token. AES-GCM runs inside the token; wrapped bytes are iv
 * (12), ciphertext, tag (16). If the session is lost, as when the token was removed, the next use opens a new one. Only data keys
 * are sent to the token.
 *
 * A wrong PIN is tried once, because tokens lock after a few. A file in the signer's folder records the failure, because the next
 * start would otherwise try again. The operator removes the file after correcting the PIN.
 * @throws KekUnavailable  if the module, token or key is missing, or the key may leave the token
 */
export async function openPkcs11(setting: Pkcs11Setting): Promise<Kek> {
  const { uri } = setting
  const library = await loadLibrary()
  const module = openModule(library, uri)
  let opened: Session | null = connect(library, module, setting)
  let before: Promise<unknown> = Promise.resolve()
  let isStuck = false

  return {
    provider: 'pkcs11',
    wrap: (dek, aad) =>
      inTurn(async (use) => {
        const iv = randomBytes(IV_BYTES)
        module.C_EncryptInit(use.session, gcm(library, iv, aad), use.key)
        const room = Buffer.alloc(dek.length + TAG_BYTES)
        return Buffer.concat([iv, await timely(module.C_EncryptAsync(use.session, dek, room))])
      }),
    unwrap: (wrapped, aad) =>
      inTurn(async (use) => {
        if (wrapped.length <= IV_BYTES + TAG_BYTES) throw new NotItsOwn()
        module.C_DecryptInit(use.session, gcm(library, wrapped.subarray(0, IV_BYTES), aad), use.key)
        const sealed = wrapped.subarray(IV_BYTES)
        const room = Buffer.alloc(sealed.length)
        try {
          const dek = await timely(module.C_DecryptAsync(use.session, sealed, room))
          return Buffer.from(dek)
        } catch (error) {
          // For a wrong tag, SoftHSM returns the same error as for any failure. If the token still works, the bytes are wrong.
          if (isAboutBytes(error) && (await works(use))) throw new NotItsOwn()
          throw error
        } finally {
          room.fill(0)
        }
      }),
  }

  /** Runs one call at a time, because a session has one operation. It reopens a lost session once. */
  function inTurn<T>(work: (use: Session) => Promise<T>): Promise<T> {
    const turn = before.then(async () => {
      try {
        return await attempt(work)
      } catch (error) {
        if (!isLost(error)) throw sayIn(error)
        close()
        try {
          return await attempt(work)
        } catch (again) {
          throw sayIn(again)
        }
      }
    })
    before = turn.catch(() => {})
    return turn
  }

  async function attempt<T>(work: (use: Session) => Promise<T>): Promise<T> {
    if (isStuck) throw new KekUnavailable('The token (PKCS#11) does not respond.')
    opened ??= connect(library, module, setting)
    return work(opened)
  }

  function sayIn(error: unknown): unknown {
    if (error instanceof NotItsOwn || error instanceof KekUnavailable) return error
    close()
    return new KekUnavailable(`The token (PKCS#11) failed: ${nameOf(error)}.`)
  }

  async function works({ session, key }: Session): Promise<boolean> {
    try {
      module.C_EncryptInit(session, gcm(library, randomBytes(IV_BYTES), Buffer.alloc(1)), key)
      await timely(module.C_EncryptAsync(session, Buffer.alloc(32), Buffer.alloc(32 + TAG_BYTES)))
      return true
    } catch {
      return false
    }
  }

  function close(): void {
    if (opened === null || isStuck) return
    const { session } = opened
    opened = null
    try {
      module.C_CloseSession(session)
    } catch {
      // The session is already lost, which is why it is closed.
    }
  }

  /** Limits the time of a call. The call runs on a thread of its own, so a token that does not answer delays no signature. */
  async function timely<T>(call: Promise<T>): Promise<T> {
    isStuck = true
    const done = call.finally(() => (isStuck = false))
    let timer: Timer | undefined
    const late = new Promise<never>((_resolve, reject) => {
      timer = systemClock.after(ANSWER_MS, () => reject(new KekUnavailable('The token (PKCS#11) does not respond.')))
    })
    try {
      return await Promise.race([done, late])
    } finally {
      timer?.cancel()
      // Nobody awaits this call any longer, so ignore its error.
      done.catch(() => {})
    }
  }
}

async function loadLibrary(): Promise<typeof Library> {
  try {
    return (await import('pkcs11js')).default
  } catch (cause) {
    throw new KekUnavailable(
      'The package pkcs11js is not built on this machine. Set it up as in docs/operate/signer-keys.md#hsm-pkcs-11.',
      cause,
    )
  }
}

function openModule(library: typeof Library, { modulePath }: Pkcs11Uri): Pkcs11 {
  const known = modules.get(modulePath)
  if (known !== undefined) return known
  const module = new library.PKCS11()
  try {
    module.load(modulePath)
    initialize(library, module)
  } catch (error) {
    throw new KekUnavailable(`The PKCS#11 module ${modulePath} cannot be loaded: ${nameOf(error)}.`)
  }
  modules.set(modulePath, module)
  return module
}

const initialize = (library: typeof Library, module: Pkcs11): void =>
  module.C_Initialize({ flags: library.CKF_OS_LOCKING_OK })

type Pkcs11Setting = Extract<KekSetting, { provider: 'pkcs11' }>

/**
 * Connects to the token. A module only knows the tokens that were present when it was initialised. So if the first attempt fails,
 * it is initialised again. That ends its other sessions, which are reopened at their next use.
 */
function connect(library: typeof Library, module: Pkcs11, setting: Pkcs11Setting): Session {
  try {
    return openSession(library, module, setting)
  } catch (error) {
    if (error instanceof KekUnavailable && !(error instanceof NoSuchToken)) throw error
  }
  try {
    finalize(module)
    initialize(library, module)
    return openSession(library, module, setting)
  } catch (error) {
    if (error instanceof KekUnavailable) throw error
    throw new KekUnavailable(`The token (PKCS#11) cannot be used: ${nameOf(error)}.`)
  }
}

class NoSuchToken extends KekUnavailable {}

function finalize(module: Pkcs11): void {
  try {
    module.C_Finalize()
  } catch {
    // The module was not initialised, as after a failed attempt.
  }
}

function openSession(library: typeof Library, module: Pkcs11, setting: Pkcs11Setting): Session {
  const slot = findSlot(module, setting.uri)
  const session = module.C_OpenSession(slot, library.CKF_SERIAL_SESSION)
  try {
    logIn(library, module, { slot, session }, setting)
    return { session, key: findKey(library, module, session, setting.uri) }
  } catch (error) {
    module.C_CloseSession(session)
    throw error
  }
}

function findSlot(module: Pkcs11, { token }: Pkcs11Uri): Library.Handle {
  const slots = module.C_GetSlotList(true).filter((slot) => {
    const info = module.C_GetTokenInfo(slot)
    const fits = (wanted: string | undefined, is: string) =>
      wanted === undefined || wanted === is.replace(/[\0 ]+$/, '')
    return (
      fits(token.label, info.label) &&
      fits(token.serial, info.serialNumber) &&
      fits(token.manufacturer, info.manufacturerID) &&
      fits(token.model, info.model) &&
      (token.slotId === undefined || slot.readUIntLE(0, 6) === token.slotId)
    )
  })
  if (slots.length > 1) throw new KekUnavailable('The setting matches more than one token (PKCS#11): add its serial=.') // prettier-ignore
  const [slot] = slots
  if (slot === undefined) throw new NoSuchToken('The setting matches no token (PKCS#11).')
  return slot
}

function logIn(
  library: typeof Library,
  module: Pkcs11,
  { slot, session }: { slot: Library.Handle; session: Library.Handle },
  { uri, pinFile, pinSetting, folder }: Pkcs11Setting,
): void {
  // One login is for all sessions of a process.
  if (module.C_GetSessionInfo(session).state === LOGGED_IN) return
  const reason = whyNoTry(library, module.C_GetTokenInfo(slot).flags)
  if (reason !== null) throw new KekUnavailable(reason)
  const refused = refusedMark(folder, uri)
  if (existsSync(refused))
    throw new KekUnavailable(
      `The token (PKCS#11) rejected the PIN. The signer does not retry, because tokens lock. Correct ${pinSetting}, then remove ${refused}.`,
    )
  const pin = readSecret(pinFile, pinSetting)
  try {
    module.C_Login(session, library.CKU_USER, pin.toString('utf8'))
  } catch (error) {
    if (nameOf(error) === 'CKR_USER_ALREADY_LOGGED_IN') return
    if (/^CKR_PIN_/.test(nameOf(error))) {
      writeFileSync(refused, `${nameOf(error)}\n`, { mode: 0o600 })
      throw new KekUnavailable(`The token (PKCS#11) rejected the PIN in ${pinSetting} (${nameOf(error)}). The signer does not retry, because tokens lock. Correct the PIN, then remove ${refused}.`) // prettier-ignore
    }
    throw error
  } finally {
    pin.fill(0)
  }
}

/** Returns why no PIN may be tried; null if one may. The last attempt before a lock is left to the operator. */
export function whyNoTry(
  library: Pick<typeof Library, 'CKF_USER_PIN_LOCKED' | 'CKF_USER_PIN_FINAL_TRY'>,
  flags: number,
): string | null {
  if ((flags & library.CKF_USER_PIN_LOCKED) !== 0) return 'The token (PKCS#11) has locked its PIN.'
  if ((flags & library.CKF_USER_PIN_FINAL_TRY) !== 0)
    return 'The token (PKCS#11) locks at the next wrong PIN. To reset its counter, log in with the token’s own tool.'
  return null
}

const refusedMark = (folder: string, { token }: Pkcs11Uri): string =>
  join(folder, `pin-refused-${hash('sha256', JSON.stringify(token), 'hex').slice(0, 12)}`)

/** Finds the key. @throws KekUnavailable  if it is not exactly one AES key of 256 bits that cannot leave the token */
function findKey(
  library: typeof Library,
  module: Pkcs11,
  session: Library.Handle,
  { object }: Pkcs11Uri,
): Library.Handle {
  const wanted: Library.Template = [{ type: library.CKA_CLASS, value: library.CKO_SECRET_KEY }]
  if (object.label !== undefined) wanted.push({ type: library.CKA_LABEL, value: object.label })
  if (object.id !== undefined) wanted.push({ type: library.CKA_ID, value: object.id })
  module.C_FindObjectsInit(session, wanted)
  const found: Library.Handle[] = []
  try {
    for (let next = module.C_FindObjects(session, 2); next.length > 0; next = module.C_FindObjects(session, 2))
      found.push(...next)
  } finally {
    module.C_FindObjectsFinal(session)
  }
  const [key] = found
  if (key === undefined) throw new KekUnavailable('The setting matches no key in the token (PKCS#11).')
  if (found.length > 1) throw new KekUnavailable('The setting matches more than one key in the token (PKCS#11): add its id=.') // prettier-ignore
  const types = [library.CKA_EXTRACTABLE, library.CKA_SENSITIVE, library.CKA_KEY_TYPE, library.CKA_VALUE_LEN]
  const [extractable, sensitive, type, length] = module
    .C_GetAttributeValue(
      session,
      key,
      types.map((one) => ({ type: one })),
    )
    .map(({ value }) => (value as Buffer).readUIntLE(0, Math.min(6, (value as Buffer).length)))
  if (extractable !== 0 || sensitive !== 1)
    throw new KekUnavailable(
      'The key in the token (PKCS#11) can be exported: it must be sensitive and not extractable.',
    )
  if (type !== library.CKK_AES || length !== 32)
    throw new KekUnavailable('The key in the token (PKCS#11) is not an AES key of 256 bits.')
  return key
}

const gcm = (library: typeof Library, iv: Buffer, aad: Buffer): Library.Mechanism => ({
  mechanism: library.CKM_AES_GCM,
  parameter: {
    type: library.CK_PARAMS_AES_GCM_v240,
    iv,
    aad,
    ivBits: IV_BYTES * 8,
    tagBits: TAG_BYTES * 8,
  } as Library.AesGCM,
})

/** Returns the CKR_… name of an error, or its class name; never the arguments of the call. */
function nameOf(error: unknown): string {
  const [name] = /CKR_\w+/.exec((error as Error).message) ?? []
  return name ?? (error as Error).name
}

const ABOUT_BYTES = /^CKR_(GENERAL_ERROR|FUNCTION_FAILED|DATA_INVALID|ENCRYPTED_DATA_\w+|AEAD_DECRYPT_FAILED)$/
const isAboutBytes = (error: unknown): boolean => ABOUT_BYTES.test(nameOf(error))

/** Errors that mean that the session or its key object no longer exists. */
const LOST =
  /^CKR_(SESSION_|DEVICE_|TOKEN_|USER_NOT_LOGGED_IN|OBJECT_HANDLE_INVALID|KEY_HANDLE_INVALID|CRYPTOKI_NOT_INITIALIZED|GENERAL_ERROR)/
const isLost = (error: unknown): boolean => LOST.test(nameOf(error))
