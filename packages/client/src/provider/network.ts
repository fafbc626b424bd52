import type { Hex } from '../wire.ts'
import type { Requests } from '../request.ts'
import type { Session } from '../session.ts'
import { denied, toProviderError, unauthorized } from './errors.ts'
import { collectReads } from './reads.ts'

/** One network of a provider, and the user's account there. */
export type WalletNetwork = {
  chainId: number
  session: Session
  requests: Requests
  isSignedIn(): boolean
  /** Returns the account, or null without a session. */
  account(): Promise<Hex | null>
  /**
   * Signs in, if there is no session.
   * @throws ProviderError 4001
   */
  signIn(): Promise<Hex>
  read(method: string, params: readonly unknown[]): Promise<unknown>
  /** Returns whether several calls can be executed all or none, because a sponsor sends the account's writes. */
  isAtomic(): Promise<boolean>
}

/** Opens a network. @param rpcUrl  node for reads while no user is signed in; absent: such reads are rejected */
export function openNetwork({
  chainId,
  session,
  requests,
  rpcUrl,
}: {
  chainId: number
  session: Session
  requests: Requests
  rpcUrl: string | undefined
}): WalletNetwork {
  /** the account of the current session */
  let known: Promise<Hex> | null = null
  let atomic: Promise<boolean> | null = null
  session.subscribe(({ status }) => {
    if (status !== 'signed-in') known = atomic = null
  })
  const isSignedIn = () => session.state.status === 'signed-in'

  async function account(): Promise<Hex | null> {
    await settled(session)
    if (!isSignedIn()) return null
    known ??= requests.get<{ address: Hex }>('/v1/me').then(({ body }) => body.address)
    try {
      return await known
    } catch (error) {
      known = null
      // An ended session has no account. If the server is unavailable, report its error.
      if (toProviderError(error, { isWrite: false }).code === 4100) return null
      throw error
    }
  }

  /** Returns whether calls can be atomic, by a dry run of two calls that do nothing. */
  async function askAtomic(to: Hex): Promise<boolean> {
    const body = { calls: [{ to }, { to }], dryRun: true }
    try {
      await requests.ask('/v1/contracts/method/write/batch', body)
      return true
    } catch (error) {
      // Any other rejection may be temporary: the next call asks again.
      if ((error as { code?: unknown }).code !== 'atomic_unsupported') atomic = null
      return false
    }
  }

  const read = collectReads(async (calls) => (await requests.ask('/v1/rpc', calls)).body)
  const readBefore = collectReads(async (calls) => {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(rpcUrl!, { method: 'POST', headers, body: JSON.stringify(calls) })
    return response.json()
  })

  return {
    chainId,
    session,
    requests,
    isSignedIn,
    account,
    signIn: async () => {
      // Await nothing before a sign-in that a click began: browsers would block its window.
      if (session.state.status === 'signed-out') await begin(session)
      const first = await account()
      if (first !== null) return first
      await begin(session)
      const second = await account()
      if (second === null) throw unauthorized('The sign-in did not give a session.')
      return second
    },
    isAtomic: async () => {
      const to = await account()
      return to === null ? false : (atomic ??= askAtomic(to))
    },
    read: async (method, params) => {
      await settled(session)
      if (isSignedIn()) return read(method, params)
      if (rpcUrl === undefined) throw unauthorized('Nobody is signed in.')
      return readBefore(method, params)
    },
  }
}

async function begin(session: Session): Promise<void> {
  try {
    await session.signIn()
  } catch (error) {
    const { message } = error as Error
    throw denied(`The sign-in did not succeed: ${message}`)
  }
}

/** Waits until the session was read from the browser's storage. */
function settled(session: Session): Promise<void> {
  if (session.state.status !== 'unknown') return Promise.resolve()
  return new Promise((resolve) => {
    const stop = session.subscribe(({ status }) => {
      if (status === 'unknown') return
      stop()
      resolve()
    })
  })
}
