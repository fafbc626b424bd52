import type { Hex } from '../wire.ts'
import { openRequests, type ClientOptions, type OpenApproval } from '../request.ts'
import type { Session } from '../session.ts'
import { assertAccount, callsStatus, sendCalls, type SentCalls } from './calls.ts'
import { walletConnect } from './connect.ts'
import { denied, invalidParams, ProviderError, toProviderError, unsupported } from './errors.ts'
import { openNetwork, type WalletNetwork } from './network.ts'
import { isAddress, messageOf, objectOf, quantityOf, toQuantity, transactionOf } from './params.ts'
import { READS } from './reads.ts'

/**
 * One network of a provider. `session`: the user's sign-in to the application of this network. `rpcUrl`: node for reads
 * while no user is signed in.
 */
export type ProviderNetwork = Pick<ClientOptions, 'origin' | 'language' | 'clock'> & {
  session: Session
  rpcUrl?: string
}

export type ProviderOptions = {
  /** networks by chain id */
  networks: Record<number, ProviderNetwork>
  /** network at the start; the lowest chain id if absent. Later, the browser remembers the last network. */
  chainId?: number
  /** shows the page on which the user approves a request; if absent, opens a window */
  openApproval?: OpenApproval
}

export type ProviderEvents = {
  connect: { chainId: Hex }
  disconnect: ProviderError
  accountsChanged: Hex[]
  chainChanged: Hex
}
type Listener = (value: never) => void

/** A wallet with the interface of EIP-1193. */
export type Provider = {
  /** Makes a request. @throws ProviderError */
  request(request: { method: string; params?: unknown }): Promise<any> // oxlint-disable-line typescript/no-explicit-any -- as every EIP-1193 type has it
  on<Name extends keyof ProviderEvents>(event: Name, listener: (value: ProviderEvents[Name]) => void): Provider
  removeListener<Name extends keyof ProviderEvents>(
    event: Name,
    listener: (value: ProviderEvents[Name]) => void,
  ): Provider
}

/** maximum transactions whose id is remembered */
const MAX_WRITTEN = 1_000

/** Methods that sign. Libraries must not repeat them. */
const WRITES = new Set(['eth_sendTransaction', 'personal_sign', 'eth_signTypedData_v4', 'wallet_sendCalls', 'wallet_connect']) // prettier-ignore

/**
 * Creates a wallet for libraries that accept an EIP-1193 provider: viem, ethers, wagmi. Its account is the account of
 * the session. The installation signs and sends.
 */
export function createProvider({ networks, chainId: begin, openApproval = openWindow }: ProviderOptions): Provider {
  const all = new Map<number, WalletNetwork>()
  for (const [id, { rpcUrl, session, ...settings }] of Object.entries(networks)) {
    const chainId = Number(id)
    const requests = openRequests({ ...settings, session, openApproval })
    all.set(chainId, openNetwork({ chainId, session, rpcUrl, requests }))
  }
  const first = all.get(rememberedChain()) ?? (begin === undefined ? [...all.values()][0] : all.get(begin))
  if (first === undefined) throw new TypeError('A provider needs at least one network.')
  let current = first
  /** the account last reported to listeners */
  let shown: Hex | null = null
  const sent: SentCalls = new Map()
  /** transactions of this page, by the hash that the page received */
  const written = new Map<Hex, { network: WalletNetwork; id: string }>()
  const listeners = new Map<string, Set<Listener>>()

  function emit<Name extends keyof ProviderEvents>(event: Name, value: ProviderEvents[Name]): void {
    for (const listener of [...(listeners.get(event) ?? [])])
      try {
        listener(value as never)
      } catch (error) {
        // Errors of a listener must not reach the provider.
        queueMicrotask(() => {
          throw error
        })
      }
  }

  /** Reports the account of the current network to listeners, if it differs from the last one reported. */
  function show(account: Hex | null): void {
    if (account === shown) return
    const before = shown
    shown = account
    if (before === null) emit('connect', { chainId: toQuantity(current.chainId) })
    emit('accountsChanged', account === null ? [] : [account])
    if (account === null) emit('disconnect', new ProviderError(4900, 'The session has ended.'))
  }

  for (const network of all.values())
    network.session.subscribe(({ status }) => {
      if (network !== current) return
      if (status === 'signed-out') show(null)
      else if (status === 'signed-in')
        network.account().then(
          (account) => network === current && show(account),
          () => {},
        )
    })

  async function accounts(): Promise<Hex[]> {
    const network = current
    const account = await network.account()
    if (network === current) show(account)
    return account === null ? [] : [account]
  }

  async function requestAccounts(): Promise<Hex[]> {
    const account = await current.signIn()
    show(account)
    return [account]
  }

  const permissionsOf = (account: Hex[]): object[] =>
    account.length === 0
      ? []
      : [{ parentCapability: 'eth_accounts', caveats: [{ type: 'restrictReturnedAccounts', value: account }] }]

  async function switchTo(params: readonly unknown[]): Promise<null> {
    const chainId = Number(quantityOf(objectOf(params[0], 'network').chainId, 'chainId'))
    const next = all.get(chainId)
    // Do not use 4902: after it, wagmi tries to add the network, and then reports that the user rejected it.
    if (next === undefined) throw new ProviderError(4901, `This wallet does not serve network ${chainId}.`)
    if (next === current) return null
    // Keep the user signed in: an empty list of accounts would end the session of the page.
    const account = current.isSignedIn() ? await next.signIn() : await next.account()
    current = next
    rememberChain(chainId)
    emit('chainChanged', toQuantity(chainId))
    show(account)
    return null
  }

  async function disconnect(): Promise<null> {
    await Promise.all([...all.values()].filter((one) => one.isSignedIn()).map((one) => one.session.signOut()))
    show(null)
    return null
  }

  async function sendTransaction(params: readonly unknown[]): Promise<Hex> {
    const network = current
    const { from, call } = transactionOf(params[0], network)
    await assertAccount(network, from)
    const { hash, id } = await network.requests.write(
      '/v1/transactions',
      call,
      {},
      (one: { hash: Hex; id: string }) => one,
    )
    if (written.size === MAX_WRITTEN) written.delete(written.keys().next().value!)
    written.set(hash, { network, id })
    return hash
  }

  /**
   * Reads a receipt. If the service has sent the transaction again, with a higher fee and therefore another hash,
   * returns the receipt of the hash that was mined.
   */
  async function receiptOf(params: readonly unknown[]): Promise<unknown> {
    const network = current
    const receipt = await network.read('eth_getTransactionReceipt', params)
    const own = written.get(params[0] as Hex)
    if (receipt !== null || own?.network !== network) return receipt
    const { body } = await network.requests.get<{ hash: Hex }>(`/v1/transactions/${encodeURIComponent(own.id)}`)
    return body.hash === params[0] ? null : network.read('eth_getTransactionReceipt', [body.hash])
  }

  async function sign(path: string, body: object, account: unknown): Promise<Hex> {
    const network = current
    if (!isAddress(account)) throw invalidParams('The account is not an address.')
    await assertAccount(network, account)
    return network.requests.write(path, body, {}, (signed: { signature: Hex }) => signed.signature)
  }

  async function capabilities([account, chainIds]: readonly unknown[]): Promise<object> {
    await assertAccount(current, account)
    const wanted = Array.isArray(chainIds) ? chainIds.map((id) => Number(quantityOf(id, 'chainId'))) : [...all.keys()]
    const known = wanted.flatMap((id) => all.get(id) ?? [])
    return Object.fromEntries(
      await Promise.all(
        known.map(async (network) => [
          toQuantity(network.chainId),
          { atomic: { status: (await network.isAtomic()) ? 'supported' : 'unsupported' } },
        ]),
      ),
    )
  }

  async function answer(method: string, params: readonly unknown[]): Promise<unknown> {
    switch (method) {
      case 'eth_chainId':
        return toQuantity(current.chainId)
      case 'net_version':
        return String(current.chainId)
      case 'eth_accounts':
        return accounts()
      case 'eth_requestAccounts':
        return requestAccounts()
      case 'wallet_requestPermissions':
        return permissionsOf(await requestAccounts())
      case 'wallet_getPermissions':
        return permissionsOf(await accounts())
      case 'wallet_connect': {
        const connected = await walletConnect(params, { ...current, signIn: async () => (await requestAccounts())[0]! })
        return { ...connected, chainIds: [...all.keys()].map(toQuantity) }
      }
      case 'wallet_revokePermissions':
      case 'wallet_disconnect':
        return disconnect()
      case 'wallet_switchEthereumChain':
        return switchTo(params)
      case 'eth_sendTransaction':
        return sendTransaction(params)
      case 'personal_sign': {
        // Some applications pass the account first.
        const [message, account] = isAddress(params[0]) && !isAddress(params[1]) ? [params[1], params[0]] : params
        return sign('/v1/signatures/message', messageOf(message), account)
      }
      case 'eth_signTypedData_v4':
        return sign('/v1/signatures/typed-data', { typedData: params[1] }, params[0])
      case 'eth_getTransactionReceipt':
        return receiptOf(params)
      case 'wallet_getCapabilities':
        return capabilities(params)
      case 'wallet_sendCalls': {
        const find = (id: number) => all.get(id) ?? null
        return sendCalls(params, { sent, find })
      }
      case 'wallet_getCallsStatus':
        return callsStatus(params[0], { sent, current })
      default:
        if (READS.has(method)) return current.read(method, params)
        throw unsupported(method)
    }
  }

  const provider: Provider = {
    request: async ({ method, params = [] }) => {
      try {
        if (typeof method !== 'string' || !Array.isArray(params)) throw invalidParams('`params` must be a list.')
        return await answer(method, params)
      } catch (error) {
        throw toProviderError(error, { isWrite: WRITES.has(method) })
      }
    },
    on: (event, listener) => {
      if (!listeners.has(event)) listeners.set(event, new Set())
      listeners.get(event)!.add(listener as Listener)
      return provider
    },
    removeListener: (event, listener) => {
      listeners.get(event)?.delete(listener as Listener)
      return provider
    },
  }
  return provider
}

const REMEMBERED = 'chatelaine.chainId'

/** Returns the chain id of the last switch; NaN: none. A browser may reject storage, and a server has none. */
function rememberedChain(): number {
  try {
    return Number(globalThis.localStorage.getItem(REMEMBERED) ?? Number.NaN)
  } catch {
    return Number.NaN
  }
}

function rememberChain(chainId: number): void {
  try {
    globalThis.localStorage.setItem(REMEMBERED, String(chainId))
  } catch {
    // Without storage, the next page begins with the first network.
  }
}

const openWindow: OpenApproval = ({ url }) => {
  if (globalThis.open(url, '_blank', 'popup,width=480,height=720') === null)
    throw denied('The browser blocked the window in which to approve. Show the page in `openApproval`.')
}
