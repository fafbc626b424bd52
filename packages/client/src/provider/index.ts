export { announce, type WalletInfo } from './announce.ts'
export { ProviderError } from './errors.ts'
export { createProvider, type Provider, type ProviderEvents, type ProviderNetwork, type ProviderOptions } from './provider.ts' // prettier-ignore
