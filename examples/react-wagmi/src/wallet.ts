import { createSession } from '@chatelaine/client/browser'
import { announce, createProvider } from '@chatelaine/client/provider'
import { foundry as chain } from 'viem/chains'
import { createConfig, custom } from 'wagmi'

const origin = import.meta.env.VITE_ORIGIN ?? 'http://localhost:4000'
export const session = createSession({ origin, clientId: 'demo' })
const provider = createProvider({ networks: { [chain.id]: { origin, session } } })
const icon =
  'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><rect width="1" height="1" fill="teal"/></svg>'

// RainbowKit lists each announced wallet (EIP-6963).
announce(provider, { name: 'Example Wallet', rdns: 'example.wallet', icon })

export const config = createConfig({ chains: [chain], transports: { [chain.id]: custom(provider) } })
