export { announce, type WalletInfo } from './announce.ts'
export type { Approval } from './api.ts'
export { ProviderError } from './errors.ts'
export { createProvider, type Provider, type ProviderEvents, type ProviderNetwork, type ProviderOptions } from './provider.ts' // prettier-ignore
