import '@rainbow-me/rainbowkit/styles.css'
import { ConnectButton, RainbowKitProvider } from '@rainbow-me/rainbowkit'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createRoot } from 'react-dom/client'
import { WagmiProvider } from 'wagmi'
import { Swap } from './swap.tsx'
import { config, session } from './wallet.ts'

if (location.pathname === '/callback') await session.handleCallback()

createRoot(document.getElementById('page')!).render(
  <WagmiProvider config={config}>
    <QueryClientProvider client={new QueryClient()}>
      <RainbowKitProvider>
        <ConnectButton />
        <Swap />
      </RainbowKitProvider>
    </QueryClientProvider>
  </WagmiProvider>,
)
