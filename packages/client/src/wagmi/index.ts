import type { CreateConnectorFn } from '@wagmi/core'
import { createProvider, type Provider, type ProviderOptions } from '../provider/index.ts'

/** Options of `createProvider`, or an existing `provider`. */
export type ChatelaineOptions = (ProviderOptions | { provider: Provider }) & {
  /** default `chatelaine`; wagmi remembers the last connector by this id */
  id?: string
  name?: string
  /** icon as a data URI */
  icon?: string
  /** domain of the installation, reversed: wagmi then lists a wallet once that is also announced (EIP-6963) */
  rdns?: string
}

/** Creates the wagmi connector of an installation. */
export function chatelaine({
  id = 'chatelaine',
  name = 'Chatelaine',
  icon,
  rdns,
  ...options
}: ChatelaineOptions): CreateConnectorFn<Provider> {
  return ({ chains, emitter }) => {
    let provider: Provider | undefined
    const open = (): Provider => (provider ??= 'provider' in options ? options.provider : createProvider(options))
    const ask = <T>(method: string, params?: unknown[]): Promise<T> =>
      open().request(params === undefined ? { method } : { method, params })
    const getAccounts = () => ask<`0x${string}`[]>('eth_accounts')
    const getChainId = async () => Number(await ask<string>('eth_chainId'))
    const onDisconnect = (): void => emitter.emit('disconnect')
    const onChainChanged = (chainId: string): void => emitter.emit('change', { chainId: Number(chainId) })
    const onAccountsChanged = (accounts: string[]) => {
      if (accounts.length === 0) onDisconnect()
      else emitter.emit('change', { accounts: accounts as `0x${string}`[] })
    }

    async function switchChain({ chainId }: { chainId: number }) {
      const chain = chains.find((one) => one.id === chainId)
      if (chain === undefined) throw new Error(`The configuration of wagmi does not have network ${chainId}.`)
      await ask('wallet_switchEthereumChain', [{ chainId: `0x${chainId.toString(16)}` }])
      return chain
    }

    return {
      id,
      name,
      type: 'chatelaine',
      ...(icon === undefined ? {} : { icon }),
      ...(rdns === undefined ? {} : { rdns }),
      // A sign-in outside of wagmi, as by a button of the page, also connects.
      setup: async () => {
        open()
          .on('connect', ({ chainId }) => {
            const connect = (accounts: readonly `0x${string}`[]) => {
              if (accounts.length > 0) emitter.emit('connect', { accounts, chainId: Number(chainId) })
            }
            getAccounts().then(connect, () => {})
          })
          .on('accountsChanged', onAccountsChanged)
          .on('chainChanged', onChainChanged)
      },
      connect: async ({ chainId: wanted, isReconnecting = false, withCapabilities = false } = {}) => {
        const accounts = await (isReconnecting ? getAccounts() : ask<`0x${string}`[]>('eth_requestAccounts'))
        if (wanted !== undefined && wanted !== (await getChainId())) await switchChain({ chainId: wanted })
        const shown = withCapabilities ? accounts.map((address) => ({ address, capabilities: {} })) : accounts
        return { accounts: shown as never, chainId: await getChainId() }
      },
      disconnect: async () => {
        await ask('wallet_disconnect')
      },
      getAccounts,
      getChainId,
      getProvider: async () => open(),
      isAuthorized: async () => (await getAccounts().catch(() => [])).length > 0,
      switchChain,
      onAccountsChanged,
      onChainChanged,
      onDisconnect,
    }
  }
}
